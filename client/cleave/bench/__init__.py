"""What Cleave takes on this machine: primitives, microbenchmarks and workloads, timed and profiled (`cleave bench`)."""

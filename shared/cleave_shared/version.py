"""The release that the wheel, `cleave --version` and reports name; stated nowhere else."""

VERSION = "1.1.0.dev0"

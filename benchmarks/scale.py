"""A scan of a table of ten billion rows, on paper: `make scale` times the steps of one segment here and multiplies.

Measured: masks, loading, multiplying and adding of the service's own code on CHUNKS chunks of made-up values. Taken
from AWS's price list and quotas (us-east-1, 2026): everything in `Prices` and `Quotas`. Assumed: one Lambda processor
is as fast as one here, and a function reads 90 MB a second from S3.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from dataclasses import dataclass

import numpy as np

from cleave.aggregates.columns import Exact
from cleave.ckks.cipher import Cipher
from cleave.ckks.secret_key import fresh_key
from cleave.store.encrypting import encrypt_lane
from cleave.store.lanes import SCAN_ROWS, plan_lanes
from cleave.store.measures import SEGMENT_ROWS
from cleave.sums.job import CALLS_OF_A_BATCH
from cleave_services.sensitive.scan import MaskedSums, ScanChunk, ScanLayout
from cleave_shared import limits
from cleave_shared.params import DEFAULT_PROFILE
from cleave_shared.seal import SealEvaluator, ring

LIMITS = (50, 10_494_950, 10, 1_049_495_000, 113_345_460_000)  # TPC-H: quantity, price, discount, disc_price, charge
GROUPS = 4
CHUNKS = 16
REPEATS = 5


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars."""

    gigabyte_second: float = 16.6667e-6  # Lambda, x86
    invocation: float = 0.20e-6
    get: float = 0.40e-6
    put: float = 5e-6
    transition: float = 25e-6  # Step Functions, STANDARD
    out: float = 0.09e-9  # a byte to the internet


@dataclass(frozen=True, slots=True)
class Quotas:
    concurrent: int = 200  # of the template's machine: 25 batches of 8 calls
    memory: float = limits.LAMBDA_MB_PER_CPU / 1024
    from_s3: float = 90e6  # bytes a second to one function
    line: float = 12.5e6  # bytes a second to the owner


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of one processor for one chunk of all lanes."""

    lanes: int
    capacity: int  # rows of a chunk
    chunk: float
    file: int  # bytes of a ciphertext


def measure() -> Measured:
    key = fresh_key(DEFAULT_PROFILE)
    lanes = plan_lanes([Exact(limit) for limit in LIMITS], SCAN_ROWS, key.profile)
    rng = np.random.default_rng(0)
    rows = CHUNKS * lanes.capacity
    planes = lanes.encode([rng.integers(0, limit + 1, rows, np.uint64)[None] for limit in LIMITS])
    cipher = Cipher(key)
    files = [encrypt_lane(lanes, plane, cipher, b"a segment", at) for at, plane in enumerate(planes)]
    numbers = rng.integers(1, GROUPS + 1, (CHUNKS, lanes.capacity)).astype(np.int32)
    chunks = [ScanChunk(at, at, numbers[at], tuple(lane[at] for lane in files)) for at in range(CHUNKS)]
    wanted = ScanLayout(((0,),) * GROUPS, tuple(range(1, GROUPS + 1)), "0" * 32)
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        MaskedSums(SealEvaluator(ring(key.profile.name)), wanted).evaluate(chunks)
        seconds.append(time.perf_counter() - started)
    return Measured(lanes.count, lanes.capacity, statistics.median(seconds) / CHUNKS, len(files[0][0]))


@dataclass(frozen=True, slots=True)
class Scaled:
    calls: int
    batches: int
    seconds: float  # of the machine
    asker: float  # seconds: the machine's, and all bytes over the owner's line, one after the other
    dollars: float
    up: float  # bytes from the owner: masks
    order: float  # bytes to the owner: where rows stand
    results: int  # ciphertexts that come back

    def __str__(self) -> str:
        return (
            f"{self.calls:,} calls in {self.batches:,} batches, {self.seconds:,.0f} s in the cloud, "
            f"{self.asker:,.0f} s for the asker, ${self.dollars:,.2f}; "
            f"masks up {self.up / 1e9:,.1f} GB, order down {self.order / 1e9:,.1f} GB, "
            f"{self.results:,} ciphertexts back ({self.results * limits.MASKED_RESULT_BYTES / 1e9:,.2f} GB)"
        )


def scaled(rows: int, share: float, each: Measured, prices: Prices, quotas: Quotas) -> Scaled:
    """`share`: of the rows that is selected, spread evenly."""
    segments = math.ceil(rows / SEGMENT_ROWS)
    chunks = math.ceil(SEGMENT_ROWS / each.capacity)
    touched = chunks * (1 - (1 - share) ** each.capacity)
    pieces = math.ceil(share * SEGMENT_ROWS / GROUPS / SCAN_ROWS)
    results = each.lanes * (1 + GROUPS * max(1, pieces))
    calls = segments * math.ceil(results / limits.MAX_SCAN_RESULTS)
    batches = math.ceil(calls / CALLS_OF_A_BATCH)
    stored = touched * each.lanes * each.file  # bytes read for one segment
    busy = touched * each.chunk + stored / quotas.from_s3
    left = each.lanes * (1 + GROUPS * math.ceil(share * rows / GROUPS / SCAN_ROWS))
    reducing = batches * 1.0
    seconds = (segments * busy + reducing) / min(quotas.concurrent, calls)
    bits = GROUPS.bit_length()
    dollars = (
        (segments * busy + reducing) * quotas.memory * prices.gigabyte_second
        + (calls + batches) * prices.invocation
        + segments * each.lanes * math.ceil(chunks / 64) * prices.get
        + 2 * (calls + batches) * (prices.put + prices.get)
        + (calls + 4 * batches + 10) * prices.transition
        + left * limits.MASKED_RESULT_BYTES * prices.out
        + rows * 4 * prices.out
    )
    up, order = segments * touched * each.capacity * bits / 8, rows * 4.0
    asker = seconds + (up + order + left * limits.MASKED_RESULT_BYTES) / quotas.line
    return Scaled(calls, batches, seconds, asker, dollars, up, order, left)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e10)
    rows = int(parser.parse_args().rows)
    each = measure()
    print(f"measured: {each.lanes} lanes, {each.chunk * 1e3:.1f} ms a chunk of {GROUPS} groups on one processor")
    for share in (1.0, 0.01, 1e-4, 1e-6):
        print(f"{rows:,} rows, {share:.4%} selected: {scaled(rows, share, each, Prices(), Quotas())}")


if __name__ == "__main__":
    main()

"""The model of `make bench-model`: its counts are those of the services' code, and its parts give right answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import model
from benchmarks.lab.parts import Made, of_file, of_scan
from cleave.ckks.job import LEAST_TO_ADD
from cleave.ckks.key_file import create_key
from cleave.local.embedded import prepare_embedded
from cleave_services.sensitive.evaluate import BlockSums, Chunk
from cleave_services.sensitive.scan import MaskedSums, ScanChunk, ScanLayout

DEGREE = 32
ROWS = DEGREE - 16


class Counting:
    """An evaluator of nothing, which counts its calls."""

    degree = DEGREE

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def load(self, _: object) -> int:
        self.calls["load"] += 1
        return 0

    def masks(self, polynomials: Sequence[object]) -> list[int]:
        self.calls["mask"] += len(polynomials)
        return [0] * len(polynomials)

    def multiply(self, *_: object) -> int:
        self.calls["multiply"] += 1
        return 0

    def add(self, *_: object) -> int:
        self.calls["add"] += 1
        return 0

    def dump(self, *_: object) -> bytes:
        self.calls["dump"] += 1
        return b""


def test_operations_of_a_file_query_are_those_of_the_service() -> None:
    evaluator = Counting()
    BlockSums(evaluator).evaluate([Chunk(number % 3, b"") for number in range(20)])
    counted = model.of_ciphertexts(20, 3)
    calls = {"load, seeded": "load", "add": "add", "save": "dump"}
    assert {name: counted[name] for name in calls} == {name: evaluator.calls[call] for name, call in calls.items()}
    assert counted["encrypt to be added"] == 20
    assert model.of_ciphertexts(LEAST_TO_ADD - 1, 1)["encrypt, seeded"] == LEAST_TO_ADD - 1


@pytest.mark.parametrize("processes", [1, 3])
def test_operations_of_a_scan_are_those_of_the_service(processes: int) -> None:
    chunks, lanes, groups = 6, 2, 5
    results = lanes * (1 + groups)
    sums = MaskedSums(evaluator := Counting(), ScanLayout(((0,),) * groups, tuple(range(1, groups + 1)), "0" * 32))
    numbers = model.placed_rows(chunks * ROWS, groups, ROWS)
    made = [ScanChunk(at, at, numbers[at], (b"",) * lanes) for at in range(chunks)]
    share = chunks // processes
    parts = [sums.evaluate(made[start : start + share]) for start in range(0, chunks, share)]
    before = parts[0]
    for part in parts[1:]:  # as cleave_services.sensitive.workers does
        before = sums.merge([before, part])
    counted = model.of_masks(chunks, lanes, groups, results, processes)
    assert counted["mask encode"] == counted["mask rows"] == evaluator.calls["mask"]
    assert counted["mask and add"] == evaluator.calls["multiply"]
    assert counted["load to be masked"] + counted["load a masked sum"] == evaluator.calls["load"]
    assert counted["save a masked sum"] == evaluator.calls["dump"]


def test_parts_are_solved_from_their_tables() -> None:
    true = {"read the file": {"once": 2.0, "rows": 3e-6, "values": 4e-7}, "finish": {"once": 0.5, "figures": 1e-5}}
    tables = [model.terms(*each, each[1], 0) for each in model.CALIBRATION]
    timed = [
        {name: sum(each * counts[term] for term, each in part.items()) for name, part in true.items()}
        for counts in tables
    ]
    found = model.linear(list(zip(tables, timed, strict=True)))
    assert {name: pytest.approx(each) for name, each in true.items()} == found
    counts = model.terms(10, 2, 3, 2, 0)
    expected = 2 + 10 * 3e-6 + 20 * 4e-7 + 0.5 + 6e-5 + 7 * 0.25
    assert model.predicted(found, counts, {"add": 0.25}, {"add": 7}) == pytest.approx(expected)


def test_no_predicted_size_is_calibrated() -> None:
    timed = {rows for rows, *_ in (*model.CALIBRATION, *model.SCAN_CALIBRATION)}
    assert not timed & {rows for rows, *_ in (*model.FILES, *model.SCANS)}


def test_the_first_call_is_not_timed_and_short_ones_are_repeated() -> None:
    now, calls = [0.0], []

    def work() -> None:
        calls.append(1)
        now[0] += 0.25 if len(calls) > 1 else 100.0

    assert model.taken(work, 1.0, lambda: now[0]) == pytest.approx(0.25)
    assert len(calls) == 5


def test_events_of_perf() -> None:
    lines = "2000,,instructions:u,1,100.00,,\n1000,,cycles:u,1,100.00,,\n30,,cache-misses:u,1,100.00,,\n"
    assert model.counted(lines, 10) == {"instructions:u": 200, "cycles:u": 100, "cache-misses:u": 3}
    assert model.counted(lines.replace("1000", "<not supported>"), 10) is None
    assert model.counted("", 10) is None


def test_errors_are_summed_up_beside_the_published_ones() -> None:
    assert model.Case("", (1,), 0.9, 1.0).error == pytest.approx(-0.1)
    told = model.summary([-0.5, 1.0])
    assert "from -50.0% to +100.0%, geometric mean +0.0%" in told
    assert model.PUBLISHED in told


def test_parts_give_right_answers(tmp_path: Path) -> None:
    prepare_embedded()
    create_key(tmp_path / "key.json", None)
    made = Made(tmp_path, 90_000, 2, 3)
    with ExitStack() as stack:
        parts: dict[str, Any] = of_file(made, stack)
        rows: Any = parts["finish"]().result.rows
        [each() for name, each in parts.items() if name != "finish"]
    numbers = np.arange(90_000)
    expected: list[Any] = [
        (group, *(((numbers * factor) % 1000000 * 1.37)[numbers % 3 == group].sum() for factor in (7919, 7921)))
        for group in range(3)
    ]
    found = sorted((int(group), *sums) for group, *sums in rows)
    assert found == [pytest.approx(each) for each in expected]
    scanned = Made(tmp_path, 9_000, 1, 3, real=False)
    with ExitStack() as stack:
        places: dict[str, Any] = of_scan(scanned, stack)
        assert [len(request.chunks) for request in places["place for a scan"]()] == [2]
        [each() for each in places.values()]

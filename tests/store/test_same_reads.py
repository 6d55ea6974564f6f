"""What a store sees read for a question follows from the schema and from counts: other values, the same requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.ask.stored import StoredSource
from cleave.ckks.key_file import open_key
from cleave.deadline import OutOfTime, Stopped
from cleave.objects.locate import Folder, Stores
from cleave.store import put as putting
from cleave.table.lazy import of_files
from cleave.table.progress import Silent
from cleave.table.table import LEAST_MEMORY
from cleave_shared import limits
from cleave_shared.errors import CleaveError, InputError
from tests.conftest import no_passphrase
from tests.functional.processes import HANGS
from tests.store.trial import World

ROWS = 300
SEGMENTS = {"a": 3, "b": 2}
COLUMNS = """[columns.day]
kind = "plain"
type = "INTEGER"
[columns.k]
kind = "sealed"
type = "INTEGER"
[columns.n]
kind = "encrypted"
type = "DECIMAL(9,2)"
[columns.note]
kind = "sealed"
type = "VARCHAR"
"""
VALUES = {
    "many": "i AS day, i::INTEGER AS k, (i / 7)::DECIMAL(9,2) AS n, 'n' || i % 10 AS note",
    "none": "i AS day, -1 AS k, 0::DECIMAL(9,2) AS n, NULL::VARCHAR AS note",
    "late": f"i AS day, CASE WHEN i = {ROWS - 1} THEN 7 END AS k, i::DECIMAL(9,2) AS n, 'n7' AS note",
}


class Seen(Folder):
    """A store that notes each request."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.requests: list[tuple[int, int | None, int]] = []
        self.on_range: Callable[[], None] = lambda: None

    def read(self, name: str, start: int = 0, stop: int | None = None, most: int = limits.MAX_OBJECT_BYTES) -> bytes:
        requests = self.requests  # of now: a request that hangs may end after others were listed
        if stop is not None:
            self.on_range()
        content = super().read(name, start, stop, most)
        requests.append((start, stop, len(content)))
        return content


class Place(World):
    """Tables `a` and `b` of the same values, in a store that notes what is read of it."""

    def __init__(self, values: str, folder: Path, key_file: Path) -> None:
        self.store = Seen(folder / "store")
        super().__init__(self.store, open_key(key_file, None), folder)
        self.asked = self.session(key_file, name=None, memory_limit=2 * LEAST_MEMORY)
        for name, segments in SEGMENTS.items():
            self.name, one = name, f"SELECT {VALUES[values]} FROM range({ROWS}) r(i)"
            opened = self.write(self.make(" UNION ALL ".join([one] * segments), COLUMNS), segment_rows=ROWS)
            assert len(opened.manifest.segments) == segments

    def reads(self, sql: str) -> tuple[list[tuple[int, int | None, int]], list[object] | str]:
        """The requests for `sql`, and its answer, or its error's class."""
        plan = self.asked.plan(sql)
        described = self.asked.describe(plan)
        self.store.requests.clear()
        try:
            answer = self.asked.ask(plan)
        except CleaveError as error:
            return sorted(self.store.requests, key=str), type(error).__name__
        planned = described.sensitive, described.plain
        assert answer.usage.objects_read == sum(each.count for each in planned)
        assert answer.usage.bytes_read == sum(each.bytes_down or 0 for each in planned)
        return sorted(self.store.requests, key=str), sorted(map(str, answer.result.rows))


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory, key_file: Path) -> Iterator[dict[str, Place]]:
    made = {values: Place(values, tmp_path_factory.mktemp(values), key_file) for values in VALUES}
    for each in made.values():
        each.asked.ask(each.asked.plan("SELECT SUM(n) FROM a"))  # whose usage has what opening a table read
    yield made
    for each in made.values():
        each.asked.close()


QUESTIONS = {
    "limit": "SELECT k FROM a WHERE k >= 0 LIMIT 1",
    "limit over plain": "SELECT day, k FROM a LIMIT 3",
    "exists": "SELECT 1 AS x WHERE EXISTS (SELECT * FROM a WHERE k = 7)",
    "correlated": "SELECT COUNT(*) FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.n > 3)",
    "semi join": "SELECT SUM(n) FROM a WHERE k IN (SELECT k FROM b WHERE k >= 0)",
    "anti join": "SELECT SUM(n) FROM a WHERE k NOT IN (SELECT k FROM b WHERE note = 'n7')",
    "join": "SELECT COUNT(*), MIN(a.note) FROM a JOIN b ON a.k = b.k AND b.k > 250",
    "of three": "SELECT COUNT(*) FROM (FROM a WHERE k > 200) x JOIN b ON x.k = b.k JOIN a y ON y.k = b.k",
    "never begun": "SELECT k FROM a WHERE k = 5 AND false UNION ALL SELECT k FROM b WHERE note = 'n3' LIMIT 1",
    "any": "SELECT any_value(k), first(note) FROM a WHERE k > 0",
    "fails": "SELECT SUM(CAST(k AS UTINYINT)) AS s FROM a JOIN b USING (k)",
    "fails in a row": "SELECT CAST(note[2:] AS INTEGER) // CAST(k AS UTINYINT) AS c FROM a",
    "fails in a group": "SELECT MEDIAN(CAST(k AS UTINYINT)) AS m, SUM(n) AS s FROM a",
    "fails beside": "SELECT MEDIAN(CAST(k AS UTINYINT)) AS m, COUNT(DISTINCT day) AS s FROM a GROUP BY day % 3",
    "steps": "WITH RECURSIVE r AS (SELECT k FROM a WHERE k = 0 UNION SELECT b.k FROM r, b WHERE b.k = r.k + 1 "
    "AND b.k < 20) SELECT COUNT(*) FROM r",
    "too large": "SELECT list(repeat('x', 50000) || x.k || y.k) AS l FROM a x, b y WHERE x.k >= 0",
}


@pytest.mark.parametrize("sql", QUESTIONS.values(), ids=QUESTIONS)
@pytest.mark.sampled(8)
def test_other_values_have_the_same_requests(places: dict[str, Place], sql: str) -> None:
    found = {values: place.reads(sql) for values, place in places.items()}
    (first, _), *others = found.values()
    assert first
    assert all(requests == first for requests, _ in others)
    assert len({str(answer) for _, answer in found.values()}) > 1, "the values make no difference"
    for values, (_, answer) in found.items():
        if isinstance(answer, list) and "LIMIT 3" not in sql:
            wanted = places[values].oracle.execute(sql).fetchall()
            assert len(answer) == len(wanted)


@pytest.mark.parametrize("reason", ["stopped", "time"])
def test_a_question_that_is_ended_reads_no_more(places: dict[str, Place], reason: str) -> None:
    """It does not wait for a store that hangs, and what was asked of the store by then it had to."""
    place = places["many"]
    plan = place.asked.plan("SELECT k FROM a LIMIT 1")
    release = threading.Event()
    place.store.requests = []

    def hangs() -> None:
        if reason == "stopped":
            place.asked.stop()
        release.wait(HANGS)

    place.store.on_range = hangs
    try:
        with pytest.raises(Stopped if reason == "stopped" else OutOfTime):
            place.asked.ask(plan, None if reason == "stopped" else 0.5)
        assert not place.store.requests
    finally:
        release.set()
        place.store.on_range = lambda: None


def test_a_failure_in_a_cell_has_the_same_requests(tmp_path: Path, key_file: Path) -> None:
    """A WHERE over by columns that cannot be computed in some cell ends the question after its totals were read."""
    found = []
    for other in (2, -1):
        folder = tmp_path / str(other)
        folder.mkdir()
        file = folder / "c.csv"
        file.with_suffix(".schema.toml").write_text(COLUMNS)
        file.write_text("day,k,n,note\n" + f"1,1,1.00,a\n{other},1,1.00,a\n" * 20)
        store = Seen(folder / "store")
        source = StoredSource(*(None, Stores(store, store), Access(key_file, no_passphrase)))
        with Session(source) as session:
            with of_files([file], name="c").read(None) as table:
                putting.put(source._tables, table, "c", ("day",), Silent())
            plan = session.plan("SELECT SUM(n) FROM c WHERE CAST(day AS UTINYINT) > 0", cloud_only=True)
            store.requests.clear()
            try:
                answer = str(session.ask(plan).result.rows)
            except InputError as error:
                answer = type(error).__name__
            found.append((sorted(store.requests, key=str), answer))
    (first, shown), (second, failed) = found
    assert (first and first == second, failed) == (True, "NotComputable")
    assert "40" in shown

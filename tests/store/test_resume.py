"""A put that was killed goes on where it was: what is stored is not stored again, and only for the same rows."""

from __future__ import annotations

import csv
import itertools
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cleave.ckks.key_file import open_key
from cleave.ckks.owner_key import OwnerKey
from cleave.objects.locate import Folder, Stores
from cleave.store import put as putting
from cleave.store.change_drafts import ChangeDraft, drafts_of
from cleave.store.dropping import drop
from cleave.store.manifest import Manifest
from cleave.store.reader import Opened
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.sums.stored import Stored
from cleave.table.progress import Silent
from cleave.table.schema import Schema, load_schema
from cleave.table.stream import open_stream, open_table
from cleave_shared.errors import InputError
from tests.functional.processes import HANGS
from tests.store.asking import ask
from tests.store.faulty import Failing, KilledError
from tests.store.made import filled

SAMPLE = Path(__file__).parents[1] / "samples"
SQL = "SELECT ward, COUNT(*), SUM(bill), SUM(age) FROM trial GROUP BY ward ORDER BY ward"
COLUMNS = ("email", "ward", "admitted", "age", "bill")
SCHEMA = """
[columns.email]
kind = "sealed"
type = "VARCHAR"
[columns.ward]
kind = "plain"
type = "VARCHAR"
[columns.admitted]
kind = "plain"
type = "DATE"
[columns.age]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 128
[columns.bill]
kind = "encrypted"
type = "DECIMAL(18,2)"
lower = -16777216
upper = 16777216
"""
ROWS, SEGMENTS = 97, 3  # rows of a segment
_TRUTHS: dict[str, list[tuple[Any, ...]]] = {}  # DuckDB's answer to SQL over the rows of a file


@cache
def _rows() -> str:
    """Some of the samples' rows, with a column of each kind that is stored."""
    with (SAMPLE / "patients.csv").open(newline="") as file:
        rows = itertools.islice(csv.DictReader(file), ROWS * SEGMENTS - 8)
        lines = [",".join(row[name] for name in COLUMNS) for row in rows]
    return "\n".join([",".join(COLUMNS), *lines]) + "\n"


class Place:
    """A file, two stores, and what is said of a put."""

    def __init__(self, root: Path, key: OwnerKey) -> None:
        self.root = root
        self.key = key
        self.file = root / "patients.csv"
        self.said: list[str] = []
        self.root.mkdir(exist_ok=True)
        (root / "schema.toml").write_text(SCHEMA)
        self.schema: Schema = load_schema(root / "schema.toml")
        self.file.write_text(_rows())

    def tables(self, left: int | None = None, *, made: bool = False) -> tuple[Tables, Stores]:
        sensitive, plain = Folder(self.root / "s"), Folder(self.root / "p")
        if left is None:
            stores = Stores(sensitive, plain)
        else:
            stores = Stores(Failing(sensitive, left, made=made), Failing(plain, 10**6, made=made))
        return Tables(stores, self.key, SeenVersions(self.root / "tables.json")), stores

    def put(
        self,
        tables: Tables,
        _: Stores,
        *by: str,
        progress: Silent | None = None,
        segment_rows: int = ROWS,
        **options: bool,
    ) -> Opened:
        told = progress or Silent()
        with open_stream([self.file], self.schema, "trial") as rows:
            return putting.put(
                tables,
                rows,
                "trial",
                by,
                told,
                segment_rows=segment_rows,
                say=self.said.append,
                **options,
            )

    def append(self, tables: Tables, _: Stores, segment_rows: int = ROWS) -> Opened:
        with open_stream([self.file], self.schema, "trial") as rows:
            return putting.append(tables, rows, "trial", Silent(), segment_rows=segment_rows, say=self.said.append)

    def take(self, made: Callable[[Place], object]) -> None:
        """Take over the stores of a place where `made` was done, which is done once."""
        folder = filled(
            (made.__module__, made.__qualname__, self.key.key_id), lambda it: made(Place(it / "place", self.key))
        )
        for half in ("s", "p"):
            shutil.copytree(folder / "place" / half, self.root / half, dirs_exist_ok=True)
        self.tables()[0].find("trial")  # so that it is remembered

    def draft(self) -> ChangeDraft | None:
        """The draft with the most segments."""
        found = [draft for _, each in drafts_of(self.tables()[0], "trial") if (draft := each.find_any()) is not None]
        return max(found, key=lambda each: len(each.segments), default=None)

    def drafts(self) -> list[str]:
        """Names of the records of all drafts."""
        tables, stores = self.tables()
        return [*stores.sensitive.names(tables.drafts("trial"))]

    def check(self, times: int = 1, *, swept: bool = True) -> Manifest:
        """The table is there, as DuckDB has it of the file, and, `swept`, nothing but it."""
        tables, stores = self.tables()
        opened = tables.open("trial")
        rows = ask(Stored(tables, opened), SQL).result.rows
        text = self.file.read_text()
        if text not in _TRUTHS:
            with open_table([self.file], self.schema) as table:
                _TRUTHS[text] = table.connection.execute(SQL.replace("trial", table.relation)).fetchall()
        assert [tuple(map(str, row)) for row in rows] == [
            (ward, *(str(each * times) for each in rest)) for ward, *rest in _TRUTHS[text]
        ]
        if not swept:
            return opened.manifest
        there = {*stores.sensitive.names("tables"), *stores.plain.names("tables")}
        assert {name.rsplit("/", 1)[1] for name in there - opened.manifest.objects()} <= {
            "head",
            opened.head.manifest.name.rsplit("/", 1)[1],
            opened.head.log.page.name.rsplit("/", 1)[1],
        }
        return opened.manifest


@pytest.fixture
def place(tmp_path: Path, key: OwnerKey) -> Place:
    return Place(tmp_path / "place", key)


def killed(place: Place, work: Callable[[Tables, Stores], object], at: int, *, made: bool) -> bool:
    try:
        work(*place.tables(at, made=made))
    except KilledError:
        return True
    return False


def stored(place: Place) -> None:
    place.put(*place.tables(), "ward")


def stopped(place: Place) -> None:
    """A put is killed that has stored some of the segments."""
    stop(place, lambda *it: place.put(*it, "ward"), 28)


def stop(place: Place, work: Callable[[Tables, Stores], object], at: int) -> None:
    """Kill `work` until two segments are kept: how many one try stores, the thread that is ahead decides."""
    while (draft := place.draft()) is None or len(draft.segments) < 2:
        assert killed(place, work, at, made=True)


@pytest.mark.slow  # quick: test_kills.py, of a merge
def test_an_append_goes_on_too(place: Place) -> None:
    place.take(stored)
    before = place.tables()[0].open("trial").manifest.segments
    stop(place, place.append, 28)
    draft = place.draft()
    assert draft is not None
    assert place.check(swept=False).segments == before
    place.append(*place.tables())
    assert place.check(times=2, swept=False).segments[: SEGMENTS + len(draft.segments)] == (*before, *draft.segments)
    assert any("resuming" in line for line in place.said)


@pytest.mark.slow  # `test_fewer_or_more_rows` is quick
def test_other_rows_are_stored_again(place: Place) -> None:
    """The second segment has another value: nothing of the first put is taken, and the answer is of the new rows."""
    place.take(stopped)
    draft = place.draft()
    assert draft is not None
    lines = place.file.read_text().splitlines()
    fields = lines[150].split(",")
    age = place.schema.columns.index(place.schema.column("age"))
    fields[age] = "1" if fields[age] != "1" else "2"
    place.file.write_text("\n".join([*lines[:150], ",".join(fields), *lines[151:]]) + "\n")
    place.put(*place.tables(), "ward")
    assert not set(place.check(swept=False).segments) & set(draft.segments)
    assert not any("resuming" in line for line in place.said)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("more", [False, True])
def test_fewer_or_more_rows(place: Place, more: bool) -> None:
    place.take(stopped)
    kept = place.draft()
    assert kept is not None
    text = place.file.read_text().splitlines()
    lines = 330 if more else ROWS * len(kept.segments) - 20
    place.file.write_text("\n".join([*text, *text[1:]][:lines]) + "\n")
    place.put(*place.tables(), "ward")
    assert not set(place.check(swept=False).segments) & set(kept.segments)


@pytest.mark.slow  # quick: `test_fewer_or_more_rows`
@pytest.mark.parametrize(
    ("by", "options"),
    [
        (["ward", "admitted"], {}),
        pytest.param(["ward"], {"scan": True}, marks=pytest.mark.slow),
    ],
)
def test_what_is_asked_for_otherwise_is_stored_anew(place: Place, by: list[str], options: dict[str, bool]) -> None:
    place.take(stopped)
    kept = place.draft()
    assert kept is not None
    place.put(*place.tables(), *by, **options)
    assert not set(place.check(swept=False).segments) & set(kept.segments)


def test_a_draft_that_is_damaged_or_lost_objects_is_not_believed(place: Place) -> None:
    for harm in ("draft", "object"):
        place.take(stopped)
        draft = place.draft()
        assert draft is not None
        tables, stores = place.tables()
        if harm == "draft":
            name = min(place.drafts(), key=len)
            content = bytearray(stores.sensitive.read(name))
            content[60] ^= 1
            stores.sensitive.delete([name])
            stores.sensitive.write(name, bytes(content))
        else:
            stores.sensitive.delete([draft.segments[0].columns[0].object.name])
        place.put(*place.tables(), "ward")
        assert not set(place.check(swept=False).segments) & set(draft.segments)
        drop(tables, "trial")


class Counting:
    """Bytes that are written to a store, by its object's kind: records of drafts, and all else."""

    def __init__(self, storage: Folder) -> None:
        self._storage = storage
        self.drafts = self.others = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._storage, name)

    def write(self, name: str, content: bytes) -> None:
        self._count(name, content)
        self._storage.write(name, content)

    def replace(self, name: str, content: bytes, expected: str | None) -> str:
        self._count(name, content)
        return self._storage.replace(name, content, expected)

    def _count(self, name: str, content: bytes) -> None:
        if name.startswith("drafts/"):
            self.drafts += len(content)
        else:
            self.others += len(content)


def written(place: Place, rows: int) -> tuple[int, int]:
    """Bytes of drafts and of all else that a put in segments of `rows` rows writes, and an append after it."""
    sensitive = Counting(Folder(place.root / "s"))
    stores = Stores(sensitive, Folder(place.root / "p"))  # type: ignore[arg-type]
    tables = Tables(stores, place.key, SeenVersions(place.root / "tables.json"))
    place.put(tables, stores, "ward", segment_rows=rows)
    place.append(tables, stores, segment_rows=rows)
    place.check(times=2)
    return sensitive.drafts, sensitive.others


def test_what_is_written_grows_with_the_segments_and_not_faster(tmp_path: Path, key: OwnerKey) -> None:
    """Three times the segments: 1 and 3 of a put, and as many of an append."""
    few, many = (Place(tmp_path / name, key) for name in ("few", "many"))
    of_few, of_many = written(few, 283), written(many, 95)
    assert of_many[0] < 3.4 * of_few[0]
    assert of_many[1] < 3.4 * of_few[1]


def test_records_of_another_try_are_not_taken(place: Place) -> None:
    """A store gives back an older record in place of a later one, hides one, or has one of another draft."""
    place.take(stopped)
    whole = place.draft()
    assert whole is not None
    first, *further = sorted(place.drafts(), key=len)
    assert len(further) == len(whole.segments) - 1
    store = Folder(place.root / "s")
    kept = {name: store.read(name) for name in place.drafts()}

    def give(name: str, content: bytes | None) -> ChangeDraft | None:
        store.delete([name])
        if content is not None:
            store.write(name, content)
        found = place.draft()
        store.delete([name])
        store.write(name, kept[name])
        return found

    assert place.draft() == whole
    assert give(further[0], kept[first]) is None, "a step is not the first record"
    hidden = give(further[0], None)
    assert hidden is not None
    assert hidden.segments == whole.segments[:1]
    place.root.joinpath("other").mkdir()
    other = Place(place.root / "other", place.key)
    stopped(other)
    theirs = Folder(other.root / "s")
    assert give(further[0], theirs.read(sorted(other.drafts(), key=len)[1])) is None, "a record of another draft"


def test_drop_deletes_what_a_stopped_put_left(place: Place) -> None:
    place.take(stored)
    stop(place, place.append, 28)
    assert len(place.drafts()) > 1
    tables, stores = place.tables()
    drop(tables, "trial")
    assert not [*stores.sensitive.names(""), *stores.plain.names("")]


@pytest.mark.slow  # quick: the tests above
def test_a_draft_of_an_older_table_is_not_gone_on_from(place: Place) -> None:
    """Somebody else replaced the table since: its columns have other ids and its totals another secret."""
    place.take(stored)
    assert killed(place, place.append, 28, made=True)
    draft = place.draft()
    assert draft is not None
    place.put(*place.tables(), "ward", replace=True)
    place.append(*place.tables())
    assert not set(place.check(times=2, swept=False).segments) & set(draft.segments)


class During(Silent):
    """Does something once, when the first rows are stored."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work: Callable[[], object] | None = work

    def stage(self, name: str, total: int, unit: str = "") -> Callable[[int], None]:  # noqa: ARG002 - as it is called
        def advance(_: int) -> None:
            work, self._work = self._work, None
            if work is not None:
                work()

        return advance if unit else lambda _: None


@pytest.mark.slow  # `test_of_two_writers_both_change_the_table` is quick
def test_of_two_puts_of_one_name_one_wins(place: Place) -> None:
    other = Place(place.root / "other", place.key)
    other.file.write_text("\n".join(other.file.read_text().splitlines()[:200]) + "\n")
    other.root = place.root
    with pytest.raises(InputError, match="already exists"):
        place.put(*place.tables(), "ward", progress=During(lambda: other.put(*other.tables(), "ward")))
    other.check(swept=False)


def test_a_table_that_changes_meanwhile_is_replaced_with_what_others_added(place: Place) -> None:
    """As if the put came last."""
    place.take(stored)
    place.put(*place.tables(), "ward", replace=True, progress=During(lambda: place.append(*place.tables())))
    place.check()


def test_a_file_that_changes_meanwhile_is_told(place: Place) -> None:
    def grow() -> None:
        with place.file.open("a") as file:
            file.write(place.file.read_text().splitlines()[1] + "\n")

    with pytest.raises(InputError, match="changed while it was read"):
        place.put(*place.tables(), "ward", progress=During(grow), segment_rows=60)
    with pytest.raises(InputError, match="there is no table"):
        place.tables()[0].open("trial")


PROCESS = """
import sys
from pathlib import Path
from cleave.ckks.key_file import open_key
from cleave.table.progress import Silent
from cleave.objects.locate import Folder
from cleave.objects.locate import Stores
from cleave.store.seen_versions import SeenVersions
from cleave.store.put import put
from cleave.store.tables import Tables
from cleave.table.schema import load_schema
from cleave.table.stream import open_stream
from cleave.table.stream import open_table

root, schema = Path(sys.argv[1]), sys.argv[2]
key = open_key(Path(sys.argv[3]), None)
stores = Stores(Folder(root / "s"), Folder(root / "p"))
tables = Tables(stores, key, SeenVersions(root / "tables.json"))
print("ready", flush=True)
with open_stream([root / "patients.csv"], load_schema(Path(schema)), "trial") as rows:
    opened = put(tables, rows, "trial", ["ward"], Silent(), segment_rows=15, say=print)
opened
"""


@pytest.mark.slow
def test_processes_that_are_killed_at_any_moment(tmp_path: Path, key_file: Path) -> None:
    """Each goes on from the one before, until one is done; none leaves a process behind."""
    place = Place(tmp_path / "place", open_key(key_file, None))
    rng = random.Random(7)
    words = [sys.executable, "-c", PROCESS, str(place.root), str(place.root / "schema.toml"), str(key_file)]
    kept: tuple[object, ...] = ()
    for _ in range(6):
        process = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        wanted = len(kept) + rng.randrange(1, 6)
        until = time.monotonic() + 600
        while process.poll() is None and time.monotonic() < until:
            if (draft := place.draft()) is not None and len(draft.segments) >= wanted:
                time.sleep(rng.random() / 20)
                break
        process.send_signal(signal.SIGKILL)
        process.wait(HANGS)
        process.stdout.close()
        if (draft := place.draft()) is None:
            break  # it was done
        assert draft.segments[: len(kept)] == kept
        assert len(draft.segments) >= wanted
        kept = draft.segments
    else:
        place.put(*place.tables(), "ward")
    assert len(kept) > 5
    assert place.check(swept=False).segments[: len(kept)] == kept

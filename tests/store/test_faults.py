"""A writer may die at any write, and anything in a store may be harmed: the old table or the new, or a clear error."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cleave.ckks.owner_key import OwnerKey
from cleave.maintain.changes import compact, delete, update
from cleave.maintain.derive import derive
from cleave.maintain.pull import verify
from cleave.objects.locate import Folder, Stores
from cleave.objects.storage import ConflictError, StoreError
from cleave.store import compacting, sealed, vault
from cleave.store import put as putting
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.sums.stored import Stored
from cleave.table.progress import Silent
from cleave.table.schema import Schema, load_schema
from cleave.table.stream import open_table
from cleave.table.table import Table, no_table
from cleave_shared.errors import CheckFailed, CleaveError, InputError
from tests.campaign import sampled
from tests.store.asking import ask
from tests.store.faulty import DAMAGES, Failing, KilledError, damage
from tests.store.made import filled

SUM = "SELECT COUNT(*), SUM(bill) FROM trial"
PRODUCT = "SELECT SUM(bill * age) FROM trial"
CSV = "ward,age,bill,name\nA,61,12.50,Ada\nB,47,99.00,Bo\nA,33,7.25,Cy\n"
SCHEMA = """
[columns.ward]
kind = "plain"
type = "VARCHAR"
[columns.age]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 127
[columns.bill]
kind = "encrypted"
type = "DECIMAL(9,2)"
lower = 0
upper = 1000
[columns.name]
kind = "sealed"
type = "VARCHAR"
"""
ROWS, TOTAL = 3, "118.75"


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Schema:
    path = tmp_path_factory.mktemp("schema") / "trial.schema.toml"
    path.write_text(SCHEMA)
    return load_schema(path)


@pytest.fixture
def table(tmp_path: Path, schema: Schema) -> Table:
    (tmp_path / "trial.csv").write_text(CSV)
    return open_table([tmp_path / "trial.csv"], schema)


class Place:
    """Two stores and the state of the client beside them, copied as a whole."""

    def __init__(self, root: Path, key: OwnerKey) -> None:
        self.root = root
        self.key = key

    def tables(self, wrap: Callable[[Folder], object] = lambda it: it) -> tuple[Tables, Stores]:
        stores = Stores(wrap(Folder(self.root / "s")), wrap(Folder(self.root / "p")))  # type: ignore[arg-type]
        return Tables(stores, self.key, SeenVersions(self.root / "tables.json")), stores

    def copy(self, to: Path) -> Place:
        shutil.copytree(self.root, to)
        return Place(to, self.key)

    def answer(self, sql: str) -> list[list[object]]:
        tables, _ = self.tables()
        with closing(Stored(tables, tables.open("trial"))) as stored:
            return ask(stored, sql).result.rows


Work = Callable[[Tables, Table], object]


def put_it(tables: Tables, table: Table) -> object:
    return putting.put(tables, table, "trial", ["ward"], Silent())


def put_at(root: Path, key: OwnerKey, table: Table) -> Place:
    """A place where the table was put, which is done once."""
    made = filled(("faults", key.key_id), lambda folder: put_it(Place(folder, key).tables()[0], table))
    return Place(made, key).copy(root)


def replace_it(tables: Tables, table: Table) -> object:
    return putting.put(tables, table, "trial", [], Silent(), replace=True)


def append_it(tables: Tables, table: Table) -> object:
    return putting.append(tables, table, "trial", Silent())


def derive_it(tables: Tables, _table: Table) -> object:
    return derive(tables, "trial", "bill * age", "weighted", Silent())


def delete_it(tables: Tables, _table: Table) -> object:
    return delete(tables, "trial", "name = 'Ada'", Silent(), yes=True)


def update_it(tables: Tables, _table: Table) -> object:
    return update(tables, "trial", {"bill": "bill + 1"}, "name <> 'Cy'", Silent())


def compact_it(tables: Tables, _table: Table) -> object:
    done = compact(tables, "trial", Silent())
    assert len(done.manifest.segments) == 1
    return done


def merge_it(tables: Tables, table: Table) -> object:
    """An append that merges two segments in the same step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compacting, "MOST_SMALL", 1)
        patch.setattr(compacting, "_FEWEST", 2)
        done = putting.append(tables, table, "trial", Silent(), again=True)
    assert len(done.manifest.segments) == 2
    return done


def drop_it(tables: Tables, _table: Table) -> object:
    tables.drop("trial")
    return None


def killed_at(place: Place, work: Work, table: Table, at: int, *, made: bool) -> bool:
    """Whether `work` was killed at its change number `at`, counted over both stores."""
    wrapped: list[Failing] = []

    def wrap(folder: Folder) -> Failing:
        wrapped.append(Failing(folder, at if not wrapped else 10**6, made=made))
        return wrapped[-1]

    tables, _stores = place.tables(wrap)
    try:
        work(tables, table)
    except KilledError:
        return True
    return False


def upsert_it(tables: Tables, table: Table) -> object:
    with no_table("trial", table.schema, 2) as rows:
        values = "('A', 61, 1.00, 'Ada'), ('B', 20, 2.00, 'Dee')"
        rows.connection.execute(
            f"CREATE TABLE {rows.relation} (ward VARCHAR, age BIGINT, bill DECIMAL(9,2), name VARCHAR)"
        )
        rows.connection.execute(f"INSERT INTO {rows.relation} VALUES {values}")
        return putting.append(tables, rows, "trial", Silent(), upsert=True, yes=True)


CHANGES = [
    (delete_it, [2 * ROWS, "237.50"], [4, "212.50"]),
    (update_it, [2 * ROWS, "237.50"], [2 * ROWS, "241.50"]),
    (compact_it, [2 * ROWS, "237.50"], [2 * ROWS, "237.50"]),
    (merge_it, [2 * ROWS, "237.50"], [3 * ROWS, "356.25"]),
]
UPSERT = (upsert_it, [ROWS, TOTAL], [ROWS + 1, "109.25"])


def start_of(work: Work, root: Path, key: OwnerKey, table: Table) -> Place:
    """The table where `work` begins: of two segments for what changes rows."""
    if work is upsert_it:
        place = Place(root, key)
        putting.put(place.tables()[0], table, "trial", ["ward"], Silent(), key=["name"], segment_rows=2)
        return place
    if work not in [each for each, _, _ in CHANGES]:
        return put_at(root, key, table)

    def fill(folder: Path) -> None:
        append_it(put_at(folder / "two", key, table).tables()[0], table)

    return Place(filled(("faults", "two", key.key_id), fill) / "two", key).copy(root)


@pytest.mark.parametrize("made", [None, *(pytest.param(each, marks=pytest.mark.slow) for each in (False, True))])
@pytest.mark.parametrize("step", sampled(11, 2, 1))  # writes; CLEAVE_CAMPAIGN
@pytest.mark.parametrize(
    ("work", "before", "after"),
    [
        (put_it, None, [ROWS, TOTAL]),
        (replace_it, [ROWS, TOTAL], [ROWS, TOTAL]),
        (append_it, [ROWS, TOTAL], [2 * ROWS, "237.50"]),
        (derive_it, [ROWS, TOTAL], [ROWS, TOTAL]),
        (drop_it, [ROWS, TOTAL], None),
        *CHANGES,
        UPSERT,
    ],
)
@pytest.mark.sampled(24)  # every fourth kind of work
def test_a_writer_dies_at_every_write(
    tmp_path: Path,
    key: OwnerKey,
    table: Table,
    work: Work,
    before: object,
    after: object,
    *,
    made: bool | None,
    step: int,
) -> None:
    """Each time before a write or when it is `made`; None: in turn."""
    start = Place(tmp_path / "start", key)
    if before is None:
        (tmp_path / "start").mkdir()
    else:
        start = start_of(work, tmp_path / "start", key, table)
    at, seen = (made or 0) % step, set()  # so that each second write is the last in one of both ways
    while True:
        place = start.copy(tmp_path / f"{at}")
        died = killed_at(place, work, table, at, made=at % 2 == 1 if made is None else made)
        seen.add(died)
        try:
            (row,) = place.answer(SUM)
            state: object = [row[0], str(row[1])]
        except (InputError, CheckFailed):  # not there, or told to be gone
            state = None
        assert state in (before, after), (at, state)
        if not died:
            assert state == after
            break
        # whoever comes next is not in the way of what was left behind
        if work is not drop_it and (state == before != after or work is compact_it):
            work(place.tables()[0], table)
            (row,) = place.answer(SUM)
            assert [row[0], str(row[1])] == after
        shutil.rmtree(tmp_path / f"{at}")
        at += step
    assert seen == {True, False}
    assert at > (1 if work is drop_it else 3)


@pytest.mark.filterwarnings("ignore::cleave_shared.errors.CleaveWarning")  # cleaning up after a head warns
@pytest.mark.parametrize("step", sampled(30, 2, 1))  # writes; CLEAVE_CAMPAIGN
@pytest.mark.parametrize(("work", "before", "after"), [*CHANGES, UPSERT])
@pytest.mark.sampled(8)  # the first and the last
def test_a_full_disk_changes_nothing(
    tmp_path: Path, key: OwnerKey, table: Table, work: Work, before: object, after: object, step: int
) -> None:
    """It fails with an error at any write; the same command then ends as if nothing had been."""
    start, at, failed = start_of(work, tmp_path / "start", key, table), step // 3, True
    while failed:
        place = start.copy(tmp_path / f"{at}")
        failed = False
        try:
            work(place.tables(lambda it, at=at: Failing(it, at, made=False, full=True))[0], table)  # type: ignore[misc]
        except StoreError as error:
            failed = os.strerror(errno.ENOSPC) in error.message
        (row,) = place.answer(SUM)
        assert [row[0], str(row[1])] in (before, after)
        tables = place.tables()[0]
        if [row[0], str(row[1])] == before and work is not compact_it:
            work(tables, table)
        tables.sweep(compact(tables, "trial", Silent()))
        (row,) = place.answer(SUM)
        assert [row[0], str(row[1])] == after
        assert verify(Stored(tables, tables.open("trial")), Silent()) == []
        shutil.rmtree(place.root)
        at += step
    assert at > step


@pytest.mark.parametrize(("work", "before", "after"), CHANGES)
@pytest.mark.sampled(4)
def test_of_two_writers_the_second_changes_nothing(
    tmp_path: Path, key: OwnerKey, table: Table, work: Work, before: object, after: object
) -> None:
    """Another one appends before the commit, and deletes what the table no longer stands on."""
    place = start_of(work, tmp_path / "place", key, table)
    tables, _stores = place.tables()
    real = tables.commit

    def meanwhile(*given: object) -> object:
        other = place.tables()[0]
        other.sweep(putting.append(other, table, "trial", Silent(), again=True))
        return real(*given)  # type: ignore[arg-type]

    tables.commit = meanwhile  # type: ignore[method-assign,assignment]
    with pytest.raises(ConflictError):
        work(tables, table)
    assert [str(each) for each in place.answer(SUM)[0]] == ["9", "356.25"]
    work(place.tables()[0], table)
    tables = place.tables()[0]
    assert verify(Stored(tables, tables.open("trial")), Silent()) == []
    assert before != after or work is compact_it


def test_no_key_seals_twice_with_one_nonce(
    tmp_path: Path, key: OwnerKey, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is changed, killed and repeated."""
    seen: list[tuple[bytes, bytes]] = []

    class Recording:
        def __init__(self, key: bytes) -> None:
            self._key, self._cipher = key, AESGCM(key)
            self.decrypt = self._cipher.decrypt

        def encrypt(self, nonce: bytes, data: bytes, associated: bytes | None) -> bytes:
            seen.append((self._key, nonce))
            return self._cipher.encrypt(nonce, data, associated)

    for module in (sealed, vault):
        monkeypatch.setattr(module, "AESGCM", Recording)
    place = start_of(delete_it, tmp_path / "place", key, table)
    for work in (update_it, merge_it, delete_it, append_it, compact_it):
        for at in (5, 9):
            assert killed_at(place, work, table, at, made=True)
        work(place.tables()[0], table)
    assert len(seen) > 100
    assert len({*seen}) == len(seen)


def test_leftovers_are_swept(tmp_path: Path, key: OwnerKey, table: Table) -> None:
    place = put_at(tmp_path / "place", key, table)
    assert killed_at(place, append_it, table, 3, made=True)
    tables, _stores = place.tables()
    opened = putting.append(tables, table, "trial", Silent())
    assert tables.sweep(opened) == 5 + 3  # what was left; the manifest of version 1, its cells and its log
    assert verify(Stored(tables, opened), Silent()) == []


@pytest.mark.parametrize("kind", ["any", *(pytest.param(each, marks=pytest.mark.slow) for each in DAMAGES)])
def test_whatever_is_harmed_is_told_or_not_read(
    tmp_path: Path, key: OwnerKey, table: Table, schema: Schema, kind: str
) -> None:
    """Every object harmed in turn in one way, or each third in `any`: no wrong figure or row, and `verify` tells."""
    start = put_at(tmp_path / "start", key, table)
    append_it(start.tables()[0], table)
    tables, _ = start.tables()
    named = sorted(tables.open("trial").manifest.objects())[:: 3 if kind == "any" else 1]
    rng = random.Random(kind)
    harmed = 0
    for number, name in enumerate(named):
        place = start.copy(tmp_path / f"{number}")
        stores = [Folder(place.root / "s"), Folder(place.root / "p")]
        holder = next(store for store in stores if (place.root / Path(store.location).name / name).exists())
        damage(
            holder,
            name,
            DAMAGES[number % len(DAMAGES)] if kind == "any" else kind,
            rng,
            [each for each in holder.names("tables") if not each.endswith("head")],
        )
        tables, _ = place.tables()
        try:
            assert [str(value) for value in place.answer(SUM)[0]] == ["6", "237.50"]
        except CheckFailed:
            harmed += 1
        try:
            stored = Stored(tables, tables.open("trial"))
            with stored.rows.table([each.name for each in schema.columns], ordered=True) as read:
                rows = read.connection.execute(f"SELECT ward, age, CAST(bill AS VARCHAR), name FROM {read.relation}")
                assert rows.fetchall() == 2 * [
                    ("A", 61, "12.50", "Ada"),
                    ("B", 47, "99.00", "Bo"),
                    ("A", 33, "7.25", "Cy"),
                ]
        except CheckFailed:
            harmed += 1
        opened = tables.open("trial")
        found = verify(Stored(tables, opened), Silent())
        assert len(found) == 1
        shutil.rmtree(place.root)
    if kind not in ("any", "extended"):  # bytes behind a sealed column are never read; `verify` names it above
        assert harmed > len(named) // 2  # the others hold squares, which neither question reads


def test_another_key_reads_nothing(tmp_path: Path, key: OwnerKey, other_key: OwnerKey, table: Table) -> None:
    put_at(tmp_path / "place", key, table)
    with pytest.raises(CleaveError):
        Place(tmp_path / "place", other_key).answer(SUM)


def test_a_second_writer_is_told(tmp_path: Path, key: OwnerKey, table: Table) -> None:
    place = put_at(tmp_path / "place", key, table)
    tables, _stores = place.tables()
    real = tables.commit

    def meanwhile(*given: object) -> object:
        append_it(place.tables()[0], table)
        return real(*given)  # type: ignore[arg-type]

    tables.commit = meanwhile  # type: ignore[method-assign,assignment]
    with pytest.raises(CleaveError, match="another process changed"):
        append_it(tables, table)
    assert place.answer(SUM)[0][0] == 2 * ROWS


def test_nothing_can_be_read_in_either_store(tmp_path: Path, key: OwnerKey, schema: Schema) -> None:
    """Canaries: sensitive cells, names, keys of cells that are sealed, and names of columns."""
    canaries = ["Zweifelsdorf", "Krankenakte", "diagnosis_code", "C50.911", "8675309", "Quarantaene"]
    (tmp_path / "Quarantaene.csv").write_text(
        "ward,diagnosis_code,phone,name\n" + "A,C50.911,8675309,Zweifelsdorf\n" * 50 + "B,C50.911,8675309,Krankenakte\n"
    )
    text = SCHEMA.replace(
        "[columns.age]", "[columns.diagnosis_code]\nkind = 'sealed'\ntype = 'VARCHAR'\n[columns.phone]"
    )
    text = text[: text.index("[columns.bill]")].replace("upper = 127", "upper = 9000000") + "[columns.name]\n"
    (tmp_path / "q.toml").write_text(text + 'kind = "sealed"\ntype = "VARCHAR"\n')
    place = Place(tmp_path / "place", key)
    with open_table([tmp_path / "Quarantaene.csv"], load_schema(tmp_path / "q.toml")) as table:
        tables, _stores = place.tables()
        putting.put(tables, table, "Quarantaene", ["diagnosis_code", "ward"], Silent())
    files = [path for path in (tmp_path / "place").rglob("*") if path.is_file()]
    assert len(files) > 8
    for path in files:
        content = str(path.relative_to(tmp_path)).encode() + path.read_bytes()
        for canary in canaries:
            assert canary.encode() not in content, path
            assert canary.lower().encode() not in content.lower(), path

"""Commands that read a table while another process changes it: a whole change at the k-th read of each.

The outcome is that of the table before the change or after it, or exit 6. It is never damage. An object that the newest
version names too, and that is missing, is damage in each of these commands.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

import cleave
from cleave.ckks.public_key import public_side
from cleave.maintain.alter import Alteration
from cleave.maintain.alter import alter_columns as alter
from cleave.maintain.changes import delete_rows as delete
from cleave.maintain.changes import update_rows as update
from cleave.maintain.rotate import move_table as rotate
from cleave.objects.locate import Folder, Stores
from cleave.objects.storage import ConflictError
from cleave.releases.releases import release
from cleave.store import put as putting
from cleave.store.changed import ChangedError, on_newest
from cleave.store.compacting import compact
from cleave.store.newest import MovedError
from cleave.store.reader import LostError
from cleave.table.progress import Silent
from cleave_shared import limits
from cleave_shared.errors import CheckFailed, CleaveError, ServiceError
from tests.campaign import FULL
from tests.store.every_change import LU, MORE, Place, Work, append, of_owner
from tests.store.made import filled
from tests.store.test_contributors import NORTH, OWN, SOUTH, expected

SENTENCE = "the table changed while it was read: run it again"
TOTALS = "SELECT sex, COUNT(*), SUM(bill) FROM trial GROUP BY sex ORDER BY ALL"
ROWS = "SELECT ward, MEDIAN(age), MAX(name) FROM trial GROUP BY ward ORDER BY ALL"
SCANNED = "SELECT ward, SUM(bill) FROM trial GROUP BY ward ORDER BY ALL"
OF_NORTH = "SELECT contributor, COUNT(*), SUM(bill) FROM trial GROUP BY contributor ORDER BY ALL"
OPENED = "SELECT ward, COUNT(*), SUM(bill), MAX(name) FROM trial GROUP BY ward ORDER BY ALL"
BASE = OWN + MORE + NORTH + SOUTH + LU


def started(place: Place) -> None:
    """Six segments of two rows or less, of two parties, with rows for scans; others wait for release or collect."""
    tables = place.tables()[0]
    putting.put(tables, place.loaded(OWN), "trial", ("sex",), Silent(), key=["name"], segment_rows=2, scan=True)
    append(MORE)(place, tables.stores)
    place.register("north")
    place.contribute("north", NORTH)
    place.collect()
    place.release("carol", least=3)
    place.add_reader("dan", yes=True)
    append(SOUTH + LU)(place, tables.stores)
    place.contribute("north", "C,m,21,4.00,55.5,Ivo\n")


def collected_and_rotated(place: Place, stores: Stores) -> None:
    place.collect()
    rotate(place.tables(stores)[0], place.new_tables(stores), "trial", Silent())


CHANGES: dict[str, Work] = {
    "compact": of_owner(lambda tables, _: compact(tables, "trial", Silent())),
    "delete": of_owner(lambda tables, _: delete(tables, "trial", "name IN ('Ada', 'Di')", Silent(), yes=True)),
    "append": append("A,f,41,4.00,61.5,Jo\n"),
    "update": of_owner(lambda tables, _: update(tables, "trial", {"bill": "bill + 1"}, "age < 34", Silent())),
    "alter": of_owner(lambda tables, _: alter(tables, "trial", Alteration(drop=["weight"]), Silent())),
    "collect": lambda place, _: place.collect(),
    "release": lambda place, stores: release(place.tables(stores)[0], "trial", {}),
    "rotate": collected_and_rotated,
}


def given(place: Place, **more: Any) -> dict[str, Any]:
    return {"store": f"{place.root / 's'},{place.root / 'p'}", "key": place.key_file, **more}


def asked(sql: str, **how: Any) -> Callable[[Place], object]:
    """The owner sees small groups, which the table's log records."""
    return lambda place: cleave.query("trial", sql, **given(place, min_group=1, yes=True, **how)).rows


def read_as(place: Place) -> object:
    reader = {"reader": place.reader_file("dan"), "fingerprint": public_side(place.key).fingerprint}
    return cleave.query("trial", OPENED, **given(place, key=None, **reader)).rows


def released_to(place: Place) -> object:
    analyst = {"analyst": place.root / "carol.pem", "fingerprint": public_side(place.key).fingerprint}
    return cleave.query("trial", TOTALS, **given(place, key=None, **analyst)).rows


def fitted(place: Place) -> object:
    model = cleave.fit("trial", "bill ~ C(sex) + C(ward)", min_group=1, yes=True, **given(place))
    return {name: each.estimate.value for name, each in model.coefficients.items()}


def pulled(place: Place) -> object:
    cleave.pull("trial", path := place.root / "pulled.csv", **given(place), force=True)
    return path.read_text()


def shown(place: Place) -> object:
    facts = cleave.show("trial", **given(place)).facts
    return facts["version"], facts["rows"]


def new_release(place: Place) -> object:
    facts = cleave.release("trial", **given(place))
    return facts.number, facts.new_rows, facts.cells  # type: ignore[union-attr]


def described(place: Place) -> object:
    return cleave.plan("trial", ROWS, **given(place)).description.rows


@dataclass(frozen=True)
class Command:
    """`writes`: it changes the table, or its log. `sql`: what it answers, for the oracle."""

    name: str
    run: Callable[[Place], object]
    sql: str = ""
    writes: bool = False


COMMANDS = [
    Command("totals", asked(TOTALS), TOTALS, writes=True),
    Command("rows", asked(ROWS), ROWS, writes=True),
    Command("scan", asked(SCANNED, cloud_only=True), SCANNED, writes=True),
    Command("contributed", asked(OF_NORTH), writes=True),
    Command("reader", read_as, OPENED),
    Command("analyst", released_to),
    Command("plan", described),
    Command("fit", fitted, writes=True),
    Command("verify", lambda place: cleave.verify("trial", **given(place))),
    Command("pull", pulled, writes=True),
    Command("show", shown),
    Command("log", lambda place: [each["what"] for each in cleave.log("trial", **given(place))]),
    Command("release new", new_release, writes=True),
    Command("collect", lambda place: cleave.collect("trial", **given(place)).rows, writes=True),
]


class Beside:
    """Reads of folders, counted; `change` is made ahead of number `at`. `names`: what is read, in order.

    What `replace` reads is not counted: it holds the table's lock.
    """

    def __init__(self, at: int | None = None, change: Callable[[], object] = lambda: None) -> None:
        self.names: list[str] = []
        self._at, self._change, self._is_quiet = at, change, False
        self._read, self._replace = Folder.read, Folder.replace

    def read(self, folder: Folder, name: str, *how: Any, **named: Any) -> bytes:
        if not self._is_quiet:
            self.names.append(name)
            if len(self.names) == self._at:
                with self._quiet():
                    self._change()
        return self._read(folder, name, *how, **named)

    def replace(self, folder: Folder, *how: Any) -> str:
        with self._quiet():
            return self._replace(folder, *how)

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        before, self._is_quiet = self._is_quiet, True
        try:
            yield
        finally:
            self._is_quiet = before

    @contextmanager
    def watching(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            # functions, which get the folder: a bound method would not
            patch.setattr(Folder, "read", lambda *given, **named: self.read(*given, **named))  # noqa: PLW0108
            patch.setattr(Folder, "replace", lambda *given: self.replace(*given))  # noqa: PLW0108
            yield


def outcome(command: Command, place: Place, beside: Beside) -> object:
    """The result of a command, or its error."""
    with pytest.MonkeyPatch.context() as patch, beside.watching():
        patch.setenv("XDG_STATE_HOME", str(place.root / "state"))
        try:
            return command.run(place)
        except CleaveError as error:
            return error


def same(one: object, two: object) -> bool:
    if isinstance(one, CleaveError) and isinstance(two, CleaveError):
        return type(one) is type(two)
    return one == two


def start(key_file: Path) -> Place:
    folder = filled(("beside changes", key_file), lambda it: started(Place(it / "place", key_file)))
    return Place(folder / "place", key_file)


def changed(name: str, key_file: Path) -> Place:
    """The table after a change."""

    def fill(folder: Path) -> None:
        place = start(key_file).copy(folder / "place")
        CHANGES[name](place, place.stores())

    return Place(filled(("beside changes", name, key_file), fill) / "place", key_file)


@cache
def quiet(command: str, change: str, key_file: Path, folder: Path) -> tuple[object, list[str]]:
    """The outcome of a command after a change (""; none), and what it reads."""
    (which,) = [each for each in COMMANDS if each.name == command]
    place = (changed(change, key_file) if change else start(key_file)).copy(folder / f"{command} after {change}")
    beside = Beside()
    return outcome(which, place, beside), beside.names


def mirrored(to: Path, after: Path) -> None:
    """What a change does to a store's files: it writes objects, then the head, and deletes objects."""
    for half in ("s", "p"):
        there = {each.relative_to(to) for each in (to / half).rglob("*") if each.is_file()}
        wanted = {each.relative_to(after) for each in (after / half).rglob("*") if each.is_file()}
        for each in sorted(wanted, key=lambda each: each.name == "head"):
            if each not in there or each.name == "head":
                (to / each).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(after / each, written := to / f"{each}.new")
                written.rename(to / each)
        for each in there - wanted:
            (to / each).unlink()


def tried(command: Command, change: str, at: int, key_file: Path, tmp_path: Path, folder: Path) -> None:
    """Run a command, with the change at its read number `at`."""
    place = start(key_file).copy(tmp_path / f"{change}-{at}")
    make: Callable[[], object] = partial(mirrored, place.root, changed(change, key_file).root)
    if command.writes:  # a head that it wrote is not written over
        make = partial(CHANGES[change], place, place.stores())
    found = outcome(command, place, Beside(at, make))
    told = f"{command.name} beside {change} at read {at}: {found!r}"
    if any(same(found, quiet(command.name, each, key_file, folder)[0]) for each in ("", change)):
        return
    if change == "rotate" and isinstance(found, MovedError):
        return
    assert isinstance(found, ServiceError), told
    assert found.exit_code == 6, told
    conflicts = command.name in ("release new", "collect") and isinstance(found, ConflictError)
    assert conflicts or SENTENCE in found.message, told


@pytest.fixture(scope="session")
def quiet_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quiet")


COMMAND = pytest.mark.parametrize("command", COMMANDS, ids=[each.name for each in COMMANDS])


@pytest.mark.sampled(7)
@COMMAND
def test_a_command_beside_a_change(command: Command, key_file: Path, tmp_path: Path, quiet_folder: Path) -> None:
    """Compact or, for every fourth command, some other change, at one read."""
    before, names = quiet(command.name, "", key_file, quiet_folder)
    assert not isinstance(before, CleaveError), before
    if command.sql:
        rows = [list(row) for row in before]  # type: ignore[attr-defined]
        assert rows == expected(start(key_file).copy(tmp_path / "oracle"), BASE, command.sql)
    place = COMMANDS.index(command)
    change = [*CHANGES][place % len(CHANGES)] if place % 4 == 2 else "compact"
    tried(command, change, (len(names), 1 + len(names) // 2)[place // 2 % 2], key_file, tmp_path, quiet_folder)


@pytest.mark.slow
@pytest.mark.sampled(3, 3)
@COMMAND
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_at_reads(
    command: Command, change: str, key_file: Path, tmp_path: Path, quiet_folder: Path
) -> None:
    """In a campaign at each; else at one, which differs from one pair to the next."""
    names = quiet(command.name, "", key_file, quiet_folder)[1]
    step = 1 if FULL else len(names)
    first = (7 * COMMANDS.index(command) + 3 * [*CHANGES].index(change)) % step
    for at in range(1 + first, len(names) + 1, step):
        tried(command, change, at, key_file, tmp_path, quiet_folder)
        shutil.rmtree(tmp_path / f"{change}-{at}")


@pytest.mark.sampled(7)
@COMMAND
def test_an_object_that_the_newest_version_names_is_damage(
    command: Command, key_file: Path, tmp_path: Path, quiet_folder: Path
) -> None:
    """Also while another process changes the table, if its version names the object too."""
    _, names = quiet(command.name, "", key_file, quiet_folder)
    there, after = start(key_file).objects(), changed("append", key_file).objects()
    needed = [each for each in dict.fromkeys(names) if each in there and len(each.rpartition("/")[2]) == 32]
    left = [each for each in needed if each in after]
    last = needed[0 if command.name == "collect" else -1]  # it deletes last what it has read
    for lost, at in [(last, None), *([(left[-1], 2)] if left and not command.writes else [])]:
        place = start(key_file).copy(tmp_path / f"lost-{at}")
        mirrors = partial(mirrored, place.root, changed("append", key_file).root)

        def change(place: Place = place, lost: str = lost, mirrors: Callable[[], object] = mirrors) -> None:
            mirrors()
            _remove(place, lost)

        _remove(place, lost)
        found = outcome(command, place, Beside(at, change))
        if command.name == "verify":
            assert isinstance(found, list)
            assert [each.reason for each in found if "lost" in each.reason], found
        else:
            assert isinstance(found, CheckFailed), (lost, found)
            assert found.exit_code == 7


def _remove(place: Place, name: str) -> None:
    for half in ("s", "p"):
        (place.root / half / name).unlink(missing_ok=True)


def test_a_snapshot_ends_with_the_sentence(key_file: Path, tmp_path: Path) -> None:
    place = start(key_file).copy(tmp_path / "snapshot")
    with cleave.connect(**given(place)) as connection, connection.snapshot():
        connection.execute(TOTALS)
        CHANGES["compact"](place, place.stores())
        with pytest.raises(ChangedError, match=SENTENCE) as caught:
            connection.execute(ROWS)
    assert (caught.value.exit_code, "take a new snapshot" in str(caught.value.hint)) == (6, True)


def test_a_table_that_changes_each_time_ends_the_command() -> None:
    calls: list[LostError] = []

    def work(*, named: bool = False) -> None:
        calls.append(LostError("an object is lost", "name", lambda: named))
        raise calls[-1]

    with pytest.raises(ChangedError, match=SENTENCE) as caught:
        on_newest(work)
    assert (len(calls), caught.value.exit_code) == (limits.MAX_READINGS, 6)
    calls.clear()
    with pytest.raises(LostError):
        on_newest(lambda: on_newest(partial(work, named=True)), lambda _: True)
    assert len(calls) == 1, "what is found to be damage stays so"

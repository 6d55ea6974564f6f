"""No error tells a client where the store or the key is. The gateway's terminal has the full text."""

from __future__ import annotations

import ast
import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg
import pyarrow as pa
import pytest

import cleave
from cleave.ckks.key_file import create_key
from cleave.deadline import OutOfTime
from cleave.gateway import work
from cleave.logins.users import write_user
from cleave_shared import errors
from tests.functional.processes import HANGS
from tests.gateway.conftest import PASSWORD, connect, started, stop
from tests.gateway.test_rights import Worker
from tests.unprivileged import obeying_permissions

QUESTIONS = (
    "SELECT * FROM {}",
    "SELECT SUM(bill) FROM {}",
    "SELECT ward, COUNT(*) FROM {} GROUP BY ward",
    "SELECT bill FROM {} ORDER BY 1 LIMIT $1",
    "DESCRIBE {}",
)
PLACE = "secretplace"  # in the paths of store and key


@dataclass(frozen=True, slots=True)
class Owner:
    """A gateway for the users `reads` and `counts`, over a store with tables t0, t1, ..."""

    folder: Path
    port: int
    http: str
    token: str
    tables: Iterator[str]

    @property
    def store(self) -> Path:
        return self.folder / "store"


def put(folder: Path, name: str) -> Path:
    """Put a table; return its folder in the store."""
    there = set((folder / "store" / "tables").glob("*"))
    frame = pa.table({"ward": ["A", "B", "C"] * 30, "bill": list(range(90))})
    kinds = {"ward": "plain", "bill": "encrypted"}
    cleave.put(frame, name, schema=kinds, by=["ward"], store=folder / "store", key=folder / "key.json")
    (new,) = set((folder / "store" / "tables").glob("*")) - there
    return new


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int]) -> Iterator[Owner]:
    folder = tmp_path_factory.mktemp(PLACE)
    create_key(folder / "key.json", None)
    put(folder, "first")
    rights = {"tables": None, "min_group": 0}
    token = write_user(folder / "users.toml", "reads", PASSWORD.encode(), **rights, rows=True, token=True)
    write_user(folder / "users.toml", "counts", PASSWORD.encode(), **rights, rows=False, token=False)
    process, (address, http) = started(folder, "--http-port", str(free_port()), "--workers", "1")
    tables = (f"t{number}" for number in itertools.count())
    try:
        yield Owner(folder, int(address.rpartition(":")[2]), http, token, tables)
    finally:
        stop(process)


def objects(folder: Path) -> list[Path]:
    return [each for each in folder.iterdir() if each.name not in ("head", ".lock")]


def missing(folder: Path) -> None:
    for each in objects(folder):
        each.unlink()


def cut(folder: Path) -> None:
    for each in objects(folder):
        each.write_bytes(each.read_bytes()[: each.stat().st_size // 2])


def swapped(folder: Path) -> None:
    """Every object has the content of another: the manifest too."""
    each = objects(folder)
    contents = [path.read_bytes() for path in each]
    for path, content in zip(each, [*contents[1:], contents[0]], strict=True):
        path.write_bytes(content)


def linked(folder: Path) -> None:
    for each in objects(folder):
        each.unlink()
        each.symlink_to("/etc/hostname")


def folders(folder: Path) -> None:
    for each in objects(folder):
        each.unlink()
        each.mkdir()


def no_head(folder: Path) -> None:
    (folder / "head").unlink()


def other_head(folder: Path) -> None:
    (folder / "head").write_text('{"cleave_table": 1}')


def moved_head(folder: Path) -> None:
    (folder / "head").write_bytes((folder / "head").read_bytes().replace(b'"signature": "', b'"signature": "00'))


def no_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def no_store(folder: Path) -> None:
    folder.parent.parent.rename(folder.parent.parent.with_name("gone"))


def file_as_store(folder: Path) -> None:
    no_store(folder)
    folder.parent.parent.write_text("")


DAMAGES = (cut, no_head, no_store)
MORE = (missing, swapped, linked, folders, other_head, moved_head, no_folder, file_as_store)


def fields(error: psycopg.Error) -> str:
    """All that a client can see of an error."""
    shown = {name: getattr(error.diag, name) for name in dir(error.diag) if not name.startswith("_")}
    return f"{error} {shown}"


def require_no_location(said: str, folder: Path, of_table: Path) -> None:
    telling = (str(folder), folder.name, PLACE, "key.json", "store", of_table.name, "/etc/hostname")
    assert not [each for each in telling if each in said], said


@pytest.mark.parametrize("damage", [*DAMAGES, *(pytest.param(each, marks=pytest.mark.slow) for each in MORE)])
def test_a_damaged_store_is_nowhere(owner: Owner, damage: Callable[[Path], None]) -> None:
    name = next(owner.tables)
    of_table = put(owner.folder, name)
    with closing(connect(owner.port, "reads")) as reads, closing(connect(owner.port, "counts")) as counts:
        assert reads.execute(f"SELECT COUNT(*) FROM {name}").fetchall() == [(90,)]  # the gateway has seen the table
        names = {of_table.name, *(each.name for each in objects(of_table))}
        shutil.copytree(of_table, owner.folder / "copy")  # others' logs grow: the gateway records its queries
        damage(of_table)
        said = []
        try:
            for question in QUESTIONS:
                sql = question.format(name)
                for connection in (reads, counts):
                    try:
                        connection.execute(sql, [3] if "$1" in sql else None)
                    except psycopg.Error as error:
                        said.append(fields(error))
                body = {"sql": sql.replace("$1", "3")}
                answer = httpx.post(
                    f"{owner.http}/v1/query",
                    json=body,
                    headers={"authorization": f"Bearer {owner.token}"},
                    timeout=HANGS,
                )
                if answer.status_code != 200:
                    said.append(answer.text)
        finally:
            if (owner.folder / "gone").exists():
                owner.store.unlink(missing_ok=True)
                (owner.folder / "gone").rename(owner.store)
            if of_table.exists():
                of_table.rename(owner.folder / f"damaged.{name}")
            (owner.folder / "copy").rename(of_table)
        assert any("cannot be read now" in each and f"'{name}'" in each for each in said), said
        assert any("ask the owner" in each for each in said), said
        for each in said:
            require_no_location(each, owner.folder, of_table)
            assert not [object_ for object_ in names if object_ in each], each
        assert reads.execute(f"SELECT COUNT(*) FROM {name}").fetchall() == [(90,)]


def test_the_terminal_has_the_full_text(tmp_path: Path) -> None:
    create_key(tmp_path / "key.json", None)
    of_table = put(tmp_path, "t")
    write_user(tmp_path / "users.toml", "reads", PASSWORD.encode(), tables=None, min_group=0, rows=True, token=False)
    process, (address, *_) = started(tmp_path, "--workers", "1")
    with process:
        with closing(connect(int(address.rpartition(":")[2]), "reads")) as reads:
            assert reads.execute("SELECT COUNT(*) FROM t").fetchall() == [(90,)]
            no_folder(of_table)
            with pytest.raises(psycopg.Error):
                reads.execute("SELECT * FROM t")
        process.terminate()
        _, said = process.communicate(timeout=HANGS)
    assert f"{tmp_path / 'store'}: " in said


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(work, "_sessions", {})
    folder = tmp_path / PLACE
    folder.mkdir()
    create_key(folder / "key.json", None)
    yield folder
    for session in work._sessions.values():
        session.close()


def told(head: Mapping[str, object]) -> str:
    return f"{head['error']} {head['hint']}"


def test_what_may_not_be_read_is_nowhere(place: Path) -> None:
    of_table = put(place, "t")
    worker = Worker(place)
    for path in (*objects(of_table), of_table, place / "store"):
        path.chmod(0)
    with obeying_permissions():
        head, _, _ = worker.ask("SELECT * FROM t")
    (place / "store").chmod(0o700)
    of_table.chmod(0o700)
    with obeying_permissions():
        second, _, _ = worker.ask("SELECT * FROM t")
    for each in (head, second):
        assert each["code"] == "58000"
        require_no_location(told(each), place, of_table)
        assert any(str(place) in text for text in each["said"]), each


def test_a_key_file_that_is_gone_is_nowhere(place: Path) -> None:
    of_table = put(place, "t")
    (place / "key.json").unlink()
    head, _, _ = Worker(place).ask("SELECT * FROM t")
    assert head["error"] == "table 't' cannot be read now"
    require_no_location(told(head), place, of_table)
    assert any("key.json" in text for text in head["said"])


def test_a_table_that_the_user_may_not_know_is_not_named(place: Path) -> None:
    no_folder(put(place, "hidden"))
    head, _, _ = Worker(place).ask("SELECT * FROM hidden", tables=frozenset({"other"}))
    assert "cannot be read" not in head["error"] or "hidden" not in head["error"]


PUBLIC = {each.__name__ for each in (*vars(errors).values(), OutOfTime) if getattr(each, "is_public", False)}


def test_public_errors_name_no_location_in_their_text() -> None:
    """Their location is an argument of its own, which clients of the gateway do not get."""
    source = Path(cleave.__file__).parent
    public, found, calls = set(PUBLIC), [], 0
    assert public == {"QueryRefused", "SumOverflows", "NotComputable", "Exhausted", "OutOfTime"}
    trees = {path: ast.parse(path.read_text()) for path in source.rglob("*.py")}
    for _ in range(3):  # subclasses, and theirs
        for tree in trees.values():
            kinds = [each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)]
            public |= {each.name for each in kinds if any(getattr(base, "id", "") in public for base in each.bases)}
    for path, tree in trees.items():
        for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
            if getattr(call.func, "id", "") in public:
                calls += 1
                shown = [*call.args, *(each.value for each in call.keywords if each.arg != "location")]
                names = {
                    ast.unparse(each)
                    for part in shown
                    for each in ast.walk(part)
                    if isinstance(each, ast.Name | ast.Attribute)
                }
                words = {each.rpartition(".")[2] for each in names}
                if words & {"location", "paths", "folder", "host", "url", "endpoint", "bucket", "__file__"}:
                    found.append(f"{path.relative_to(source)}:{call.lineno}")
    assert calls > 100
    assert found == []

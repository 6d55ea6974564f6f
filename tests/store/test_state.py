"""A folder of state that cannot be written: commands warn and go on, and what was seen before still counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.objects.locate import Folder, Stores
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave_shared.errors import CheckFailed, CleaveWarning, InputError
from tests.cli.runner import Cli
from tests.store.contributing import HEADER, SCHEMA
from tests.store.test_tables import put


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "tables.json"


def close(state: Path) -> None:
    """Let no one write there, root included."""
    lock = state.with_suffix(".lock")
    lock.unlink(missing_ok=True)
    lock.mkdir(parents=True)


def tables(tmp_path: Path, key: OwnerKey, state: Path) -> Tables:
    folder = Folder(tmp_path / "store")
    return Tables(Stores(folder, folder), key, SeenVersions(state))


def test_a_table_is_committed_and_opened_with_a_warning(tmp_path: Path, key: OwnerKey, state: Path) -> None:
    close(state)
    opened = tables(tmp_path, key, state)
    manifest = put(opened, key)
    with pytest.warns(CleaveWarning, match=r"tables.json: cannot be written \(Is a directory\): this machine will not"):
        done = opened.commit(manifest, None, "put")
    with pytest.warns(CleaveWarning, match="older state of the table"):
        assert opened.open("trial").manifest == done.manifest


def test_what_is_noted_already_needs_no_writing(tmp_path: Path, key: OwnerKey, state: Path) -> None:
    opened = tables(tmp_path, key, state)
    opened.commit(put(opened, key), None, "put")
    close(state)
    opened.open("trial")  # and a warning would be an error


def test_an_older_version_is_refused_all_the_same(tmp_path: Path, key: OwnerKey, state: Path) -> None:
    opened = tables(tmp_path, key, state)
    first = opened.commit(put(opened, key), None, "put")
    place = f"{opened.folder('trial')}/head"
    store = Folder(tmp_path / "store")
    old = store.read(place)
    newer = opened.commit(first.manifest, first, "put")
    close(state)
    store.replace(place, old, newer.head_etag)
    with pytest.raises(CheckFailed, match="shows an older state"):
        opened.open("trial")
    with pytest.raises(InputError, match="cannot be written"):
        opened.forget("trial")


def test_a_damaged_note_is_an_error(tmp_path: Path, key: OwnerKey, state: Path) -> None:
    state.parent.mkdir(parents=True)
    state.write_text("{")
    opened = tables(tmp_path, key, state)
    with pytest.raises(InputError, match="cannot be read"):
        opened.open("trial")


def test_the_command_warns_once_and_answers(tmp_path: Path, key_file: Path) -> None:
    (tmp_path / "rows.csv").write_text(HEADER + "A,f,61,12.50,60,Ada\n")
    (tmp_path / "rows.schema.toml").write_text(SCHEMA)
    cli = Cli()
    cli.environment["XDG_STATE_HOME"] = "/dev/null"  # as HOME is in many a container
    where = ["--store", tmp_path / "s", "--key", key_file]
    cli.run("put", tmp_path / "rows.csv", "--table", "trial", "--by", "ward", *where)
    question = ["query", "trial", "SELECT SUM(bill) FROM trial", *where]
    result = cli.run(*question)
    assert (result.exit_code, "12.50" in result.stdout) == (0, True)
    (line,) = [each for each in result.stderr.splitlines() if each.startswith("warning: ")]
    assert "/dev/null/cleave/tables.json: cannot be written (Not a directory)" in line
    quiet = cli.run(*question, "--quiet")
    assert (quiet.exit_code, "12.50" in quiet.stdout, quiet.stderr) == (0, True, "")

"""The audit log: what is recorded, and that no record is removed, moved, changed or cut off without being noticed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.ckks.public_key import read_public_key
from cleave.objects.locate import Folder, Stores
from cleave.objects.storage import Storage, StoreError
from cleave.store import log as of_log
from cleave.store.heads import LogHead
from cleave.store.log import PAGE, LogPage, Record, _page, _sealed, _signed, extended, pages_of, records_of
from cleave.store.reader import LostError, Opened
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave_shared.errors import CheckFailed
from tests.cli.runner import Cli
from tests.comparing import compared
from tests.store.contributing import HEADER, SCHEMA
from tests.store.made import filled
from tests.store.test_tables import put
from tests.store.trial import copied

ROWS = "A,f,61,12.50,60,Ada\nB,m,34,250.00,81.5,Bob\n"


@pytest.fixture
def tables(tmp_path: Path, key: OwnerKey) -> Tables:
    store = Folder(tmp_path / "store")
    return Tables(Stores(store, store), key, SeenVersions(tmp_path / "tables.json"), user="Grace")


def changed(tables: Tables, opened: Opened, times: int = 1) -> Opened:
    for _ in range(times):
        opened = tables.commit(opened.manifest, opened, "append", 7)
    return opened


# what is recorded


def test_every_change_and_export_is_recorded(tmp_path: Path, key_file: Path) -> None:
    cli = Cli(environment={"XDG_STATE_HOME": str(tmp_path / "state"), "CLEAVE_USER": "Grace"})
    (tmp_path / "t.csv").write_text(HEADER + ROWS)
    (tmp_path / "t.schema.toml").write_text(SCHEMA)
    place = ["--store", tmp_path / "s", "--key", key_file]

    def run(*words: object, where: list[Any] = place) -> str:
        result = cli.run(*words, *where)
        assert result.exit_code == 0, result.output
        return result.stdout

    run("put", tmp_path / "t.csv", "--table", "t", "--by", "ward")
    run("put", tmp_path / "t.csv", "--table", "t", "--append")
    run("put", tmp_path / "t.csv", "--table", "t", "--append")  # adds nothing, so is not recorded
    run("derive", "t", "bill * age", "--as", "weighted")
    run("scan", "add", "t")
    run("scan", "drop", "t")
    run("key", "contributor", "-o", tmp_path / "west.pem", where=[])
    run("contributor", "add", "t", "west", "--contributor-key", compared(tmp_path / "west.pem.pub"))
    run("key", "export", "-o", tmp_path / "t.pub.json", "--table", "t")
    run(
        *("put", tmp_path / "t.csv", "--table", "t", "--public-key", tmp_path / "t.pub.json"),
        *("--identity", tmp_path / "west.pem", "--fingerprint", read_public_key(tmp_path / "t.pub.json").fingerprint),
        where=place[:2],
    )
    run("contributor", "collect", "t")
    run("pull", "t", "-o", tmp_path / "west.csv", "--contributor", "west")
    run("contributor", "remove", "t", "west")
    run("put", tmp_path / "t.csv", "--table", "t", "--replace")
    run("query", "SELECT COUNT(*) FROM t")  # no question is
    run("key", "new", "--no-passphrase", where=["--key", tmp_path / "new.json"])
    run("key", "rotate", "t", "--new-key", tmp_path / "new.json")
    place[3] = tmp_path / "new.json"
    run("pull", "t", "-o", tmp_path / "all.parquet")
    found = json.loads(run("log", "t", "--json"))
    assert [(each["what"], each["rows"], each["details"]) for each in found] == [
        ("put", 2, {}),
        ("append", 2, {}),
        ("derive", 0, {"column": "weighted"}),
        ("scan add", 0, {}),
        ("scan drop", 0, {}),
        ("contributor add", 0, {"contributor": "west"}),
        ("key export", 0, {}),
        ("collect", 2, {"contributor": "west"}),
        ("pull", 2, {"contributor": "west"}),
        ("contributor remove", -2, {"contributor": "west"}),
        ("put", 2, {}),
        ("rotate", 0, {}),
        ("rotate ends", 0, {}),
        ("pull", 2, {}),
    ]
    assert {each["user"] for each in found} == {"Grace"}
    assert len({each["key_id"] for each in found}) == 2
    assert [each["number"] for each in found] == list(range(1, 15))
    printed = run("log", "t")
    assert "contributor remove" in printed
    assert "Grace" in printed
    heads = [json.loads(each.read_text()) for each in (tmp_path / "s" / "tables").glob("*/head")]
    (page,) = (each["log"]["page"]["name"] for each in heads if "log" in each)  # the old key's says that it moved
    (tmp_path / "s" / page).write_bytes(b"CLS3")
    assert "damaged" in cli.fails(7, "log", "t", *place)
    result = cli.run("verify", "t", *place)
    assert (result.exit_code, result.stdout.startswith("the log: ")) == (7, True), result.output


def test_a_record_has_no_value_and_the_store_shows_none_of_it(tables: Tables, key: OwnerKey) -> None:
    opened = changed(tables, tables.commit(put(tables, key, "hepatitis"), None, "put"))
    for name in tables.stores.sensitive.names(""):
        content = tables.stores.sensitive.read(name)
        assert b"Grace" not in content
        assert b"hepatitis" not in content
    assert set(tables.log(opened)[0].facts()) == {
        *("number", "version", "at", "user", "what", "rows", "details", "key_id")
    }


def test_a_name_that_is_no_name_is_refused(tmp_path: Path, key_file: Path) -> None:
    cli = Cli(environment={"CLEAVE_USER": "a" * 65})
    assert "65 characters" in cli.fails(3, "ls", "--store", tmp_path, "--key", key_file)


# what happens at once


def test_a_pull_does_not_disturb_an_append_under_way(tables: Tables, key: OwnerKey) -> None:
    opened = tables.commit(put(tables, key), None, "put")
    tables.record(opened, "pull", 7)
    tables.record(opened, "pull", 7)
    done = changed(tables, opened)
    assert [each.what for each in tables.log(done)] == ["put", "pull", "pull", "append"]
    assert tables.open("trial").head == done.head
    there = set(tables.stores.sensitive.names(tables.folder("trial"))) - done.manifest.objects()
    assert len(there) == 3, "head, manifest and log"


@pytest.mark.slow  # quick: the test above
def test_a_pull_is_no_newer_version_for_a_question_under_way(tables: Tables, key: OwnerKey) -> None:
    opened = tables.commit(put(tables, key), None, "put")
    tables.record(opened, "pull", 7)
    assert not tables.replaced(opened)
    assert tables.replaced(opened) or changed(tables, opened)
    assert tables.replaced(opened)


def test_a_pull_that_cannot_be_recorded_says_so(
    tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = Cli(environment={"XDG_STATE_HOME": str(tmp_path / "state")})
    (tmp_path / "t.csv").write_text(HEADER + ROWS)
    (tmp_path / "t.schema.toml").write_text(SCHEMA)
    place = ["--store", tmp_path / "s", "--key", key_file]
    cli.run("put", tmp_path / "t.csv", "--table", "t", *place)

    def full(*_: object) -> None:
        raise StoreError("no space left")

    monkeypatch.setattr(Folder, "write", full)
    result = cli.run("pull", "t", "-o", tmp_path / "out.csv", *place)
    assert "this pull is not in the log of 't': no space left" in result.stderr
    assert (tmp_path / "out.csv").read_text().count("\n") == 3


# what it costs


def test_opening_a_table_does_not_read_its_log(tables: Tables, key: OwnerKey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_log, "PAGE", 4)
    opened = changed(tables, tables.commit(put(tables, key), None, "put"), 13)
    head = tables.stores.sensitive.read(f"{tables.folder('trial')}/head")
    tables.reset_counts()
    again = tables.open("trial")
    assert (tables.objects_read, tables.bytes_read) == (1, again.head.manifest.bytes)
    tables.reset_counts()
    changed(tables, again)
    assert tables.objects_read == 2, "a page, to continue it, and the one that was written"
    assert again.head == opened.head
    assert len(head) < 1100
    there = set(tables.stores.sensitive.names(tables.folder("trial"))) - again.manifest.objects()
    assert len(there) == 2 + 4, "head and manifest, and 15 records in pages of 4"
    assert len(tables.log(tables.open("trial"))) == 15


def test_a_log_that_grows_while_it_is_read_is_not_lost(made: Tables) -> None:
    """A gateway records queries once a minute; each record replaces the newest page."""
    opened = made.open("trial")
    made.record(made.open("trial"), "queries", 0)
    assert [each.what for each in made.log(opened)][14:] == ["append", "queries"]
    made.stores.sensitive.delete([made.open("trial").head.log.page.name])
    with pytest.raises(LostError):
        made.log(opened)


# what is noticed


def pages(tables: Tables, opened: Opened) -> list[str]:
    return [each.name for each in reversed(pages_of(tables, opened.vault, opened.head.log))]


@pytest.fixture
def made(tmp_path: Path, key: OwnerKey, monkeypatch: pytest.MonkeyPatch) -> Tables:
    """A table of 15 records in pages of 4."""
    monkeypatch.setattr(of_log, "PAGE", 4)

    def fill(folder: Path) -> None:
        store = Folder(folder / "store")
        tables = Tables(Stores(store, store), key, SeenVersions(folder / "tables.json"))
        changed(tables, tables.commit(put(tables, key), None, "put"), 14)

    store = Folder(tmp_path / "store")
    copied(filled(("log", key.key_id), fill) / "store", store)
    return Tables(Stores(store, store), key, SeenVersions(tmp_path / "tables.json"))


def damage_removed(store: Storage, names: list[str]) -> None:
    store.delete([names[1]])


def damage_reordered(store: Storage, names: list[str]) -> None:
    first, second = store.read(names[0]), store.read(names[1])
    store.delete(names[:2])
    store.write(names[0], second)
    store.write(names[1], first)


def damage_changed(store: Storage, names: list[str]) -> None:
    content = bytearray(store.read(names[2]))
    content[40] ^= 1
    store.delete([names[2]])
    store.write(names[2], bytes(content))


def damage_newest(store: Storage, names: list[str]) -> None:
    older = store.read(names[-2])
    store.delete([names[-1]])
    store.write(names[-1], older)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("damage", [damage_removed, damage_reordered, damage_changed, damage_newest])
def test_damage_to_stored_pages_is_noticed(made: Tables, damage: Callable[[Storage, list[str]], None]) -> None:
    opened = made.open("trial")
    assert len(made.log(opened)) == 15
    damage(made.stores.sensitive, pages(made, opened))
    with pytest.raises(CheckFailed) as failure:
        made.log(made.open("trial"))
    assert failure.value.exit_code == 7


def test_a_tail_that_is_cut_off_with_its_head_is_noticed(made: Tables) -> None:
    """Somebody puts back head and page as they were before the last pull: no version is older, and the log is."""
    opened, store = made.open("trial"), made.stores.sensitive
    head, page = store.read(f"{made.folder('trial')}/head"), opened.head.log.page.name
    content = store.read(page)
    made.record(opened, "pull", 7)
    store.replace(f"{made.folder('trial')}/head", head, (store.read_versioned(f"{made.folder('trial')}/head") or ())[1])
    store.write(page, content)
    with pytest.raises(CheckFailed, match="log has 15 records, and 16 were here before"):
        made.open("trial")


def _forged(made: Tables, opened: Opened, records: list[Record], log: LogHead) -> LogHead:
    """Pages of these records, each sealed as the owner seals them."""
    earlier = None
    for start in range(0, len(records), 4):
        page = LogPage(earlier=earlier, records=tuple(records[start : start + 4]))
        earlier = _sealed(made, made.folder("trial"), opened.vault, page)
    return log.model_copy(update={"page": earlier})


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("forge", "match"),
    [
        (lambda found: found[:5] + found[6:], "record 6 does not fit the one before it"),
        (lambda found: [*found[:5], found[6], found[5], *found[7:]], "record 6 does not fit the one before it"),
        (lambda found: found[:-1], "ends with record 14, which is not the last of 15"),
        (lambda found: found[1:], "record 2 is not the first"),
        (
            lambda found: [*found[:5], found[5].model_copy(update={"rows": 8}), *found[6:]],
            "record 6 is not signed by the key",
        ),
        (
            lambda found: [*found[:14], found[14].model_copy(update={"signature": found[13].signature})],
            "record 15 is not signed",
        ),
    ],
)
def test_records_that_are_sealed_and_not_chained_are_noticed(
    made: Tables, forge: Callable[[list[Record]], list[Record]], match: str
) -> None:
    """By the chain alone: the pages open and are named."""
    opened = made.open("trial")
    found = list(made.log(opened))
    assert records_of(made, opened.vault, _forged(made, opened, found, opened.head.log)) == tuple(found)
    with pytest.raises(CheckFailed, match=match):
        records_of(made, opened.vault, _forged(made, opened, forge(found), opened.head.log))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("place", "match"),
    [(5, "record 7 does not fit the one before it"), (14, "ends with record 15, which is not the last")],
)
def test_a_fork_is_noticed(made: Tables, place: int, match: str) -> None:
    """Two records of one number, both signed by the owner: of an older copy of the store, say."""
    opened = made.open("trial")
    found = list(made.log(opened))
    other = _signed(made.key, {**found[place].model_dump(exclude={"key", "signature"}), "rows": 8})
    forked = [*found[:place], other, *found[place + 1 :]]
    with pytest.raises(CheckFailed, match=match):
        records_of(made, opened.vault, _forged(made, opened, forked, opened.head.log))


def test_a_record_of_another_key_in_the_chain_is_not_the_last(made: Tables, other_key: OwnerKey) -> None:
    """Who holds another key and learned to seal can sign a record of its own, and not the head."""
    opened = made.open("trial")
    others = Tables(made.stores, other_key, SeenVersions())
    given = {"table": "trial", "version": 15, "user": "", "what": "pull", "rows": 1, "details": {}}
    grown, _ = extended(others, made.folder("trial"), opened.vault, opened.head.log, given)
    assert records_of(made, opened.vault, grown)[-1].key_id == other_key.key_id
    with pytest.raises(CheckFailed, match="ends with record 16, which is not the last of 15"):
        records_of(made, opened.vault, opened.head.log.model_copy(update={"page": grown.page}))


def test_the_page_is_of_a_size_that_an_append_can_write(tables: Tables, key: OwnerKey) -> None:
    opened = changed(tables, tables.commit(put(tables, key), None, "put"), PAGE)
    assert opened.head.log.page.bytes < 2_000
    assert _page(tables, opened.vault, opened.head.log.page).earlier.bytes < 60_000

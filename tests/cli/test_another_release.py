"""Tables, key files and files of parties that another release wrote: who may not read or write them says so, exit 3.

Each object states its format, the release that wrote it, and the lowest releases that may read and write it. Every
command is walked over one with a format number one higher, and over one whose lowest writer is later.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

import cleave
from cleave.ckks.key_file import read_key_file
from cleave.formats import MEMBERS, AnotherRelease
from cleave.local.main import SERVERS
from cleave.logins.users import write_user
from cleave.names import COMMANDS
from cleave.store.contribution import ContributionHead, dump_head
from cleave.store.identity import read_identity
from tests.cli.another_release import (
    DAN,
    KEYS,
    LATER,
    NEITHER,
    PARTIES,
    READS,
    SQL,
    UNREADABLE,
    UNWRITABLE,
    UPGRADE,
    WRITES,
    World,
    higher,
    made,
    opened_objects,
    sign_table,
    world,
)
from tests.cli.runner import Cli
from tests.functional.processes import HANGS
from tests.gateway.conftest import PASSWORD, connect, started

__all__ = ["made", "world"]


def test_the_table_of_commands_is_walked() -> None:
    named = {*READS, *WRITES, *PARTIES, *KEYS} - {"put --append"}
    assert named | NEITHER == {*COMMANDS, *(each.partition(":")[2] for each in SERVERS)}
    assert named.isdisjoint(NEITHER)


@pytest.mark.parametrize("name", [*READS, *WRITES])
def test_a_table_of_a_higher_format_is_refused_by_every_command(world: World, name: str) -> None:
    higher(world.head("cleave_table"))
    before = world.state()
    world.refused(UNREADABLE, UPGRADE, *(READS | WRITES)[name])
    assert world.state() == before


@pytest.mark.parametrize("name", ["query", "drop"])
def test_a_machine_that_remembers_nothing_refuses_it_too(world: World, tmp_path: Path, name: str) -> None:
    higher(world.head("cleave_table"))
    fresh = Cli(environment=world.cli.environment | {"XDG_STATE_HOME": str(tmp_path)})
    assert UNREADABLE in fresh.fails(3, *(READS | WRITES)[name])


@pytest.mark.parametrize("name", [*READS, *WRITES])
def test_a_table_whose_lowest_writer_is_later_is_read_and_not_changed(world: World, name: str) -> None:
    """It has members in its head that this release does not know."""
    sign_table(world, **LATER, more=1)
    before = world.state()
    if name in READS:
        result = world.cli.run(*world.words(*READS[name]))
        assert result.exit_code == 0, result.output
        assert ("this pull is not in the log" in result.stderr) == (name == "pull")
    else:
        world.refused(UNWRITABLE, "upgrade Cleave to release 3.8.0 or later", *WRITES[name])
    assert world.state() == before


def test_a_format_of_this_release_for_later_readers_alone_is_refused(world: World) -> None:
    sign_table(world, **(LATER | {"lowest_reader": "3.8.0"}))
    sentence = UNREADABLE.replace("4.1.0", "3.9.0")
    world.refused(sentence, "upgrade Cleave to release 3.8.0 or later", *READS["query"])


@pytest.mark.parametrize("name", ["query", "put", "drop"])
def test_a_table_from_before_3_0_is_refused(world: World, name: str) -> None:
    path = world.head("cleave_table")
    content = json.loads(path.read_text())
    path.write_text(json.dumps({each: content[each] for each in content if each not in MEMBERS} | {"cleave_table": 2}))
    never_published = "a table was written by a release before 3.0, which was never published: it is not read"
    world.refused(never_published, "make it again with this release", *(READS | WRITES)[name])


@pytest.mark.parametrize("member", MEMBERS)
def test_what_a_head_says_of_releases_is_signed(world: World, member: str) -> None:
    path = world.head("cleave_table")
    path.write_text(json.dumps(json.loads(path.read_text()) | {member: "2.9.0"}))
    assert "a table's head is damaged" in world.cli.fails(7, *READS["query"])


def test_python_refuses_it_too(world: World) -> None:
    place = {"store": world.root / "store", "key": world.root / "key.json"}
    higher(world.head("cleave_table"))
    with pytest.raises(AnotherRelease, match=UNREADABLE):
        cleave.query("t", SQL, **place)
    with pytest.raises(AnotherRelease), cleave.connect("t", **place) as connection:
        connection.execute(SQL)


# parties


@pytest.fixture
def keyless(world: World) -> Iterator[World]:
    world.cli.environment["CLEAVE_KEY"] = None
    yield world
    world.cli.environment["CLEAVE_KEY"] = str(world.root / "key.json")


def test_an_analyst_refuses_a_release_of_a_higher_format(keyless: World) -> None:
    higher(keyless.head("cleave_release"))
    for words in (("query", "t", SQL, "--analyst", "carol.pem"), PARTIES["analyst accept"]):
        keyless.refused(UNREADABLE, UPGRADE, *words)


@pytest.mark.parametrize("kind", ["cleave_reader", "cleave_table"])
def test_a_reader_refuses_a_bundle_and_a_table_of_a_higher_format(keyless: World, kind: str) -> None:
    accepting = keyless.words(*PARTIES["reader accept"])
    higher(keyless.head(kind))
    for words in (("query", "t", SQL, "--reader", "dan.json"), accepting):
        keyless.refused(UNREADABLE, UPGRADE, *words)


def test_a_reader_reads_a_table_whose_lowest_writer_is_later(keyless: World) -> None:
    sign_table(keyless, **LATER)
    keyless.ok("query", "t", SQL, "--reader", "dan.json")


def test_an_owner_does_not_replace_a_bundle_of_a_higher_format(world: World) -> None:
    path = world.head("cleave_reader")
    higher(path)
    before = path.read_bytes()
    assert UNREADABLE in world.cli.fails(3, "reader", "add", "t", *DAN, "--columns", "ward,bill", "--yes")
    assert path.read_bytes() == before


def test_a_contributor_and_the_owner_refuse_a_contribution_of_a_higher_format(world: World) -> None:
    path = world.head("cleave_contribution")
    higher(path)
    world.refused(UNREADABLE, UPGRADE, *world.contributing)
    told = world.cli.fails(3, *WRITES["contributor collect"])
    assert f"error: contributor 'north': the head of a contribution {UNREADABLE}" in told
    assert path.exists(), "nothing of it was deleted"


def test_a_contribution_whose_lowest_writer_is_later_is_collected_and_not_added_to(world: World) -> None:
    path = world.head("cleave_contribution")
    members = json.loads(path.read_text())
    del members["signature"]
    head = ContributionHead.model_validate(members | LATER)
    path.write_bytes(dump_head(head, read_identity(world.root / "north.pem").sign(head.signed())))
    told = world.cli.fails(3, *world.contributing)
    assert UNWRITABLE in told
    assert "version" in world.cli.run(*WRITES["contributor collect"]).stderr


@pytest.mark.parametrize("name", ["owner.pub.json", "carol.pem.pub", "dan.json.pub"])
def test_a_public_file_of_a_higher_format_is_refused(world: World, name: str) -> None:
    higher(world.root / name)
    words = {
        "owner.pub.json": world.contributing,
        "carol.pem.pub": ("release", "new", "t", "--to", f"{name}=SHA256:x"),
        "dan.json.pub": WRITES["reader add"],
    }
    with opened_objects() as names:
        assert UNREADABLE in world.cli.fails(3, *words[name])
    assert name == "carol.pem.pub" or names == []


# key files


@pytest.fixture
def renewing(world: World) -> Iterator[World]:
    world.cli.environment["CLEAVE_NEW_PASSPHRASE"] = "seventeen quiet herons"
    yield world
    del world.cli.environment["CLEAVE_NEW_PASSPHRASE"]


@pytest.mark.parametrize("name", [*READS, *WRITES, *KEYS, "key show", "key split"])
def test_a_key_file_of_a_higher_format_is_refused_by_every_command(renewing: World, name: str) -> None:
    version = renewing.version
    higher(renewing.root / "key.json")
    more = {"key show": ("key", "show"), "key split": ("key", "split", "key.json", "--shares", "3", "--need", "2")}
    words = [version if each == "VERSION" else each for each in (READS | WRITES | KEYS | more)[name]]
    words += ["-o", "shares"] if name == "key split" else []
    (renewing.root / "shares").mkdir(exist_ok=True)
    with opened_objects() as names:
        told = renewing.cli.fails(3, *words)
    assert f"key.json: the key file {UNREADABLE}" in told
    assert names == []


def test_a_reader_refuses_its_own_key_file_of_a_higher_format(keyless: World) -> None:
    higher(keyless.root / "dan.json")
    keyless.refused(UNREADABLE, UPGRADE, "query", "t", SQL, "--reader", "dan.json")


@pytest.mark.parametrize("name", [*KEYS, "key copy", "query"])
def test_a_key_file_whose_lowest_writer_is_later_opens_and_is_not_written(renewing: World, name: str) -> None:
    path = renewing.root / "key.json"
    file = read_key_file(path)
    file = replace(file, header=file.header | LATER)
    path.write_text(replace(file, mac=file.mac_under(file.secret)).dump())
    before = path.read_bytes()
    if name == "query":
        renewing.ok(*READS["query"])
    else:
        assert f"key.json: the key file {UNWRITABLE}" in renewing.cli.fails(3, *(READS | KEYS)[name])
    assert path.read_bytes() == before
    assert not (renewing.root / "copy.json").exists()


# the gateway


def told_by_gateway(world: World, change: Callable[[], None]) -> tuple[list[str], str]:
    """What two questions answer, before and after `change`, and what the gateway's terminal says."""
    write_user(world.root / "users.toml", "owner", PASSWORD.encode(), tables=None, min_group=0, rows=True, token=False)
    process, (address,) = started(world.root, "--workers", "1")
    answers = []
    with process:
        with closing(connect(int(address.rpartition(":")[2]))) as connection:
            for changing in (lambda: None, change):
                changing()
                try:
                    answers.append(str(connection.execute("SELECT COUNT(*) FROM t").fetchall()))
                except psycopg.Error as error:
                    answers.append(str(error))
        process.terminate()
        _, said = process.communicate(timeout=HANGS)
    return answers, said


def test_a_gateway_refuses_a_table_of_a_higher_format(world: World) -> None:
    """Its user does not learn where the table is."""
    (first, second), said = told_by_gateway(world, lambda: higher(world.head("cleave_table")))
    assert (first, "table 't' cannot be read now" in second) == ("[(24,)]", True)
    assert f"table 't' cannot be read now: {world.root / 'store'}: a table {UNREADABLE} ({UPGRADE})" in said


@pytest.mark.slow  # quick: a gateway refuses tables, above; a reader reads one
def test_a_gateway_reads_a_table_whose_lowest_writer_is_later(world: World) -> None:
    """And warns that it cannot write its log."""
    answers, said = told_by_gateway(world, lambda: sign_table(world, **LATER))
    assert answers == ["[(24,)]"] * 2
    assert UNWRITABLE in said


@pytest.mark.slow  # quick: every command refuses such a file
def test_a_gateway_does_not_start_with_a_key_file_of_a_higher_format(world: World) -> None:
    write_user(world.root / "users.toml", "owner", PASSWORD.encode(), tables=None, min_group=0, rows=True, token=False)
    higher(world.root / "key.json")
    told = world.cli.fails(3, "gateway", "--users", world.root / "users.toml", "--port", "0")
    assert f"key.json: the key file {UNREADABLE}" in told

"""`cleave key split` and `key join` against shamir-mnemonic's own command line; each fault has its sentence."""

from __future__ import annotations

import base64
import json
import re
import stat
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from cleave.ckks.key_file import create_key, describe_key, open_key
from cleave.ckks.public_key import public_side
from tests.cli.runner import Cli
from tests.samples import write_table
from tests.store.second_key_reader import master_of

PASSPHRASE = "seventeen quiet herons"
SHAMIR = [sys.executable, "-c", "from shamir_mnemonic.cli import cli; cli()"]
SQL = "SELECT SUM(age) FROM t"


pytestmark = pytest.mark.usefixtures("cheap")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    create_key(path := tmp_path / "key.json", PASSPHRASE.encode())
    return path


def split(cli: Cli, key: Path, folder: Path, shares: int = 5, need: int = 3) -> list[Path]:
    cli.environment["CLEAVE_PASSPHRASE"] = PASSPHRASE
    folder.mkdir()
    done = cli.run("key", "split", key, "--shares", shares, "--need", need, "-o", folder)
    assert done.exit_code == 0, done.output
    return [Path(each) for each in done.stdout.splitlines()]


def words(share: Path) -> str:
    return " ".join(share.read_text().split("\n\n")[1].split())


def join(cli: Cli, to: Path, *shares: Path) -> bytes:
    """The master secret of the key that shares give."""
    done = cli.run("key", "join", *shares, "-o", to, "--no-passphrase")
    assert done.exit_code == 0, done.output
    return master_of(to)


def recovered(*mnemonics: str) -> str:
    """The last line of `shamir recover`."""
    done = subprocess.run(
        [*SHAMIR, "recover"], input="\n".join([*mnemonics, ""]), capture_output=True, text=True, check=False
    )
    return done.stdout.splitlines()[-1]


def test_another_program_recovers_the_master_secret_from_the_words(cli: Cli, key: Path, tmp_path: Path) -> None:
    shares = split(cli, key, tmp_path / "shares")
    master = master_of(key, PASSPHRASE.encode())
    for some in ((0, 1, 2), (4, 2, 0)):
        assert recovered(*(words(shares[each]) for each in some)) == f"Your master secret is: {master.hex()}"
    assert master.hex() not in recovered(words(shares[0]), words(shares[1]))


def test_the_words_of_another_program_give_their_master_secret(cli: Cli, tmp_path: Path) -> None:
    master = bytes(range(7, 39))
    made = subprocess.run([*SHAMIR, "create", "2of3", "-S", master.hex()], capture_output=True, text=True, check=True)
    mnemonics = [line for line in made.stdout.splitlines() if len(line.split()) == 33]
    assert len(mnemonics) == 3
    for number, each in enumerate(mnemonics):
        (tmp_path / f"{number}.txt").write_text(each)
    assert join(cli, tmp_path / "key.json", tmp_path / "2.txt", tmp_path / "0.txt") == master


def test_enough_shares_of_any_choice_give_a_key_that_reads_the_tables(cli: Cli, key: Path, tmp_path: Path) -> None:
    write_table(rows := tmp_path / "t.csv", "ward,age\na,1\nb,2\n", ward="plain VARCHAR", age="encrypted BIGINT")
    store = ("--store", tmp_path / "store")
    cli.environment["CLEAVE_PASSPHRASE"] = PASSPHRASE
    assert cli.run("put", rows, "--table", "t", "--by", "ward", *store, "--key", key).exit_code == 0
    shares = split(cli, key, tmp_path / "shares", 4, 2)
    master = master_of(key, PASSPHRASE.encode())
    for some in combinations(shares, 2):
        assert join(cli, to := tmp_path / f"{some[0].stem}-{some[1].stem}.json", *some) == master
    assert join(cli, tmp_path / "all.json", *shares) == master  # more than needed must fit too
    key.unlink()
    cli.environment["CLEAVE_PASSPHRASE"] = "eleven loud ibises"
    done = cli.run("key", "join", *shares[2:], "-o", key)
    assert done.exit_code == 0
    assert describe_key(key).wrapped
    assert describe_key(key).key_id == describe_key(to).key_id
    assert "3" in cli.run("query", "t", SQL, *store, "--key", key).stdout


def test_a_share_names_its_key_and_its_number(cli: Cli, key: Path, tmp_path: Path) -> None:
    shares = split(cli, key, tmp_path / "shares")
    opened = open_key(key, PASSPHRASE.encode())
    for number, share in enumerate(shares, 1):
        lines = share.read_text().splitlines()
        assert lines[:4] == [
            f"Recovery share {number} of 5 of a Cleave key: any 3 of them give the key",
            f"Key id: {opened.key_id}",
            f"Fingerprint: {public_side(opened).fingerprint}",
            "",
        ]
        assert all(re.fullmatch("[a-z ]+", line) for line in lines[4:])
        assert max(map(len, lines)) <= 80  # of paper
        assert stat.S_IMODE(share.stat().st_mode) == 0o600


def test_words_are_enough_in_any_case_and_line(cli: Cli, key: Path, tmp_path: Path) -> None:
    shares = split(cli, key, tmp_path / "shares")
    for share in shares[:3]:
        share.write_text(words(share).upper().replace(" ", "\n"))
    assert join(cli, tmp_path / "new.json", *shares[:3]) == master_of(key, PASSPHRASE.encode())


def test_each_fault_is_told_apart_and_quotes_no_word(cli: Cli, key: Path, tmp_path: Path) -> None:
    shares = split(cli, key, tmp_path / "shares")
    create_key(another := tmp_path / "another.json", PASSPHRASE.encode())
    strange, again = split(cli, another, tmp_path / "strange"), split(cli, key, tmp_path / "again")

    def changed(change, share: Path = shares[1]) -> Path:
        (path := tmp_path / "changed.txt").write_text(change(share.read_text()))
        return path

    def bare(path: Path) -> Path:
        (to := tmp_path / f"bare-{path.parent.name}-{path.name}").write_text(words(path))
        return to

    first, last = words(shares[1]).split()[5], words(shares[1]).split()[-1]
    faults = {
        "2 shares, and 3 are needed": [shares[0], shares[1]],
        "are both share 2": [shares[0], shares[1], shares[1]],
        "are shares of different keys": [shares[0], shares[1], strange[2]],
        "are shares of different splits": [shares[0], shares[1], again[2]],
        "are shares of different splits\n": [bare(shares[0]), bare(shares[1]), bare(strange[2])],
        "word 6 of the share is not one of SLIP-39's": [
            changed(lambda text: text.replace(f" {first}", " herons", 1)),
            shares[0],
            shares[2],
        ],
        "has 32 words, and a share has 33": [shares[0], tmp_path / "short.txt", shares[2]],
        "a word of the share is wrong or in the wrong place": [shares[0], tmp_path / "swapped.txt", shares[2]],
        "its fingerprint is damaged": [shares[0], tmp_path / "print.txt", shares[2]],
        "is not the one of its labels": [*(tmp_path / f"label-{each}.txt" for each in range(3))],
        "cannot be read": [shares[0], tmp_path / "none.txt", shares[2]],
    }
    text = shares[1].read_text()
    (tmp_path / "short.txt").write_text(text.removesuffix(f"{last}\n"))
    mixed = words(shares[1]).split()
    mixed[10], mixed[11] = mixed[11], mixed[10]
    if mixed[10] == mixed[11]:
        mixed[10] = "academic" if mixed[10] != "academic" else "acid"
    (tmp_path / "swapped.txt").write_text(" ".join(mixed))
    (tmp_path / "print.txt").write_text(text.replace("SHA256:", "SHA1:"))
    for number in range(3):
        labelled = shares[number].read_text().replace(describe_key(key).key_id, "0" * 32)
        (tmp_path / f"label-{number}.txt").write_text(labelled)
    for said, given in faults.items():
        told = cli.fails(5, "key", "join", *given, "-o", tmp_path / "new.json", "--no-passphrase")
        assert said in told, told
        assert "hint: " in told
        assert not set(re.findall(r"[a-z]+", told.split("error: ")[1])) & {first, "herons", last}
        assert not (tmp_path / "new.json").exists()


def test_a_forged_share_is_found(cli: Cli, key: Path, tmp_path: Path) -> None:
    """A share with a right checksum and another value, among enough of them and among more than enough."""
    from shamir_mnemonic import Share  # noqa: PLC0415

    shares = split(cli, key, tmp_path / "shares")
    share = replace(Share.from_mnemonic(words(shares[1])), value=bytes(32))
    (forged := tmp_path / "forged.txt").write_text(share.mnemonic())
    for given in ([shares[0], forged, shares[2]], [shares[0], shares[3], shares[2], forged]):
        told = cli.fails(5, "key", "join", *given, "-o", tmp_path / "new.json", "--no-passphrase")
        assert "these shares do not fit together: one of them was changed" in told


def test_nothing_is_overwritten(cli: Cli, key: Path, tmp_path: Path) -> None:
    shares = split(cli, key, tmp_path / "shares")
    before = {each: each.read_bytes() for each in (*shares, key)}
    told = cli.fails(5, "key", "split", key, "-o", tmp_path / "shares")
    assert "share-1-of-5.txt: already exists" in told
    told = cli.fails(5, "key", "join", *shares[:3], "-o", key)
    assert "key.json: already exists" in told
    assert before == {each: each.read_bytes() for each in (*shares, key)}


@pytest.mark.parametrize(("shares", "need"), [(5, 1), (2, 3), (17, 3), (0, 0), (5, 0)])
def test_numbers_that_do_not_fit_are_refused(shares: int, need: int, cli: Cli, key: Path, tmp_path: Path) -> None:
    told = cli.fails(2, "key", "split", key, "--shares", shares, "--need", need, "-o", tmp_path / "shares")
    assert f"--shares {shares} --need {need}" in told
    assert not (tmp_path / "shares").exists()


def test_a_wrong_passphrase_splits_nothing(cli: Cli, key: Path, tmp_path: Path) -> None:
    cli.environment["CLEAVE_PASSPHRASE"] = "eleven loud ibises"
    (tmp_path / "shares").mkdir()
    assert "wrong passphrase" in cli.fails(5, "key", "split", key, "-o", tmp_path / "shares")
    assert not list((tmp_path / "shares").iterdir())


def test_a_split_changes_nothing_of_the_key(cli: Cli, key: Path, tmp_path: Path) -> None:
    before = key.read_bytes()
    shares = split(cli, key, tmp_path / "shares")
    assert key.read_bytes() == before
    master = base64.b64encode(master_of(key, PASSPHRASE.encode())).decode()
    for share in shares:
        assert master not in share.read_text()
    assert json.loads(before)["key_id"] in shares[0].read_text()

"""Noisy releases from the command line and Python; docs/noise.md is run as it stands, over the sample."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cleave
from cleave.ask.config import config_folder
from cleave.logins.users import write_user
from cleave.maintain.releases import choices_of
from cleave.releases.noisy_choices import NoisyChoices
from tests.cli.prepared import Prepared
from tests.cli.runner import Cli
from tests.cli.test_contributors import Parties
from tests.comparing import compared

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "noise.md").read_text()
STORE = ("--store", "../store", "--key", "key.json")
PLACE: dict[str, Any] = {"store": "../store", "key": "key.json"}
NOISE = ("--epsilon", "0.5", "--most-rows", "1", "--clamp", "bill=0..3000")
SQL = "SELECT ward, COUNT(*) AS n, SUM(bill) AS bill FROM patients GROUP BY ward ORDER BY ward"


@pytest.fixture
def parties(cli: Cli, prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> Iterator[Parties]:
    with prepared.used():
        found = Parties(cli, prepared, monkeypatch, PAGE)
        (found.root / "west").mkdir(exist_ok=True)
        for name in ("patients.csv", "patients.schema.toml"):
            shutil.copy(ROOT / "tests/samples" / name, found.root / "west")
        found.play()
        yield found


def test_every_command_of_the_page_runs(parties: Parties) -> None:
    (part,) = re.findall(r"^```markdown\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert part in (parties.root / "west/page.md").read_text()
    with (parties.root / "carol/answer.csv").open() as file:
        answer = list(csv.DictReader(file))
    assert [row["ward"] for row in answer][:2] == ["Cardiology", "Geriatrics"]
    for row in answer:
        assert float(row["count_star()_bound"]) in (9, 10), "rounded up to one digit"
        assert 0 < float(row["count_star()"]) < 200
        assert 26_000 < float(row["sum(bill)_bound"]) <= 40_000


def test_an_owner_sees_what_is_spent(parties: Parties) -> None:
    west = parties.at("west")
    values = ("--values", "ward=Surgery,Oncology")
    told = west.fails(3, "release", "new", "patients", *NOISE, *values, *STORE)
    assert "analysts would lose what release 1 shows them: cells of 4 values of ward, the sum of age" in told
    assert "spent epsilon 1\n" in west.run("release", "ls", "patients", *STORE).stdout
    values = (*values, "--yes")
    done = west.run("release", "new", "patients", *NOISE, *values, *STORE)
    assert "drawn: epsilon 0.5, up to 1 row of each person" in done.stderr
    assert "spent: epsilon 1.5" in done.stderr
    again = west.run("release", "new", "patients", *NOISE, *values, *STORE)
    assert "drawn: nothing new" in again.stderr
    assert "spent: epsilon 1.5" in again.stderr
    shown = west.run("release", "ls", "patients", *STORE).stdout
    assert "noisy, epsilon 0.5" in shown
    assert "noisy releases have spent epsilon 1.5" in shown
    facts = json.loads(west.run("release", "ls", "patients", "--json", *STORE).stdout)
    assert (facts["epsilon"], facts["spent"]) == ("0.5", "1.5")
    assert "sizes of objects, spent epsilon\n" in west.run("show", "patients", *STORE).stdout
    assert "noisy releases have spent epsilon 1.5" in west.run("show", "patients", *STORE).stdout
    assert "epsilon 0.5" in west.run("log", "patients", *STORE).stdout
    asked = parties.at("carol").run("query", SQL, "--store", "../store", "--analyst", "carol.pem", "--json")
    answer = json.loads(asked.stdout)
    assert [each["source"] for each in answer["columns"]] == ["key", "noisy", "noisy"]
    assert "95% interval of the noise" in answer["trust"]
    assert "selected_rows" not in answer["plan"]


def test_spending_again_and_exact_releases_of_a_dropped_table_are_confirmed(parties: Parties) -> None:
    """From the command line and Python."""
    west = parties.at("west")
    values = ("--values", "ward=Cardiology,Geriatrics,Maternity,Oncology,Paediatrics,Surgery")
    noise = (*NOISE, "--clamp", "age=0..100", *values)
    told = west.fails(3, "release", "new", "patients", *noise, *STORE)
    assert "has spent epsilon 1: this release has other choices" in told
    assert "spends 0.5 more, 1.5 in all" in told
    assert "confirm with --yes (yes=True in Python)" in told
    assert "spent epsilon 1\n" in west.run("release", "ls", "patients", *STORE).stdout
    done = west.run("release", "new", "patients", *noise, "--yes", *STORE)
    assert "confirmed: table 'patients' has spent epsilon 1" in done.stderr

    place: dict[str, Any] = {"store": "../store", "key": "key.json", "say": lambda _: None}
    cleave.put(patients := "patients.csv", "second", by="ward", entity="email", **place)
    carol = compared(Path("../carol/carol.pem.pub"))
    assert isinstance(cleave.release("second", to=carol, **place), cleave.ExactReleaseFacts)
    cleave.drop("second", **place)
    cleave.put(patients, "second", by="ward", entity="email", **place)
    told = west.fails(3, "release", "new", "second", "--to", carol, *NOISE, *STORE)
    assert "was dropped or restored, and had exact releases" in told
    how: dict[str, Any] = {"to": carol, "epsilon": 1, "most_rows": 1, **place}
    with pytest.raises(cleave.InputError, match="was dropped or restored, and had exact releases"):
        cleave.release("second", **how)
    facts = cleave.release("second", yes=True, **how)
    assert isinstance(facts, cleave.NoisyReleaseFacts)
    assert [each for each in facts.confirmed if "the promise of the noisy one is void" in each]
    again = west.run("release", "new", "second", "--epsilon", "1", "--most-rows", "1", *STORE)
    assert "drawn: nothing new" in again.stderr


def test_readers_are_named_who_get_rows(parties: Parties) -> None:
    west = parties.at("west")
    west.run("reader", "new", "erin.json", "--no-passphrase")
    erin = cleave.add_reader("patients", to=compared(Path("erin.json.pub")), columns="ward,bill", yes=True, **PLACE)
    assert erin.name == "erin"
    words = ("release", "new", "patients", "--to", "../carol/carol.pem.pub")
    done = west.run(*words, *STORE)
    assert "readers get rows of patients: erin (ward, bill)" in done.stderr
    page = west.run(*words, *NOISE, "--dry-run", "--yes", *STORE)
    assert "readers get rows of patients: erin (ward, bill)" in page.stderr
    assert "- readers get rows: erin (ward, bill)" in page.stdout
    said: list[str] = []
    cleave.release("patients", to="../carol/carol.pem.pub", **PLACE, say=said.append)
    assert "readers get rows of patients: erin (ward, bill)" in said


def test_help_groups_options_by_kind(cli: Cli) -> None:
    shown = cli.run("release", "new", "--help").stdout
    exact, noisy = shown.index("Exact releases:"), shown.index("Noisy releases:")
    places = [shown.rindex(each) for each in ("--min-cell N", "--new-lineage", "--epsilon E", "--squares", "--again")]
    assert [exact < each < noisy for each in places] == [True, True, False, False, False]
    assert all(noisy < each for each in places[2:])


def test_a_page_of_another_release_is_refused(parties: Parties) -> None:
    west = parties.at("west")
    told = west.fails(3, "release", "new", "patients", *NOISE, "--page", "page.md", "--yes", *STORE)
    assert "changed since the page was written" in told
    told = west.fails(3, "release", "new", "patients", *NOISE, "--dry-run", "--page", "page.md", "--yes", *STORE)
    assert "already exists" in told


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("--most-rows 3", 2, "--most-rows is of noisy releases"),
        ("--clamp bill=0..5", 2, "--clamp is of noisy releases"),
        ("--squares", 2, "--squares is of noisy releases"),
        ("--epsilon 1", 2, "--epsilon needs --most-rows"),
        ("--epsilon 1 --most-rows 1 --min-cell 5", 2, "--min-cell is of exact releases"),
        ("--epsilon 0 --most-rows 1", 3, "--epsilon 0: must be a number above 0"),
        ("--epsilon 1 --most-rows 1 --clamp bill", 3, "a column and its values are expected"),
        ("--epsilon 1 --most-rows 1 --clamp bill=0", 3, "no pair of bounds"),
        ("--epsilon 1 --most-rows 1 --clamp bill=0..1..2", 3, "no pair of bounds"),
        ("--epsilon 1 --most-rows 1 --split rows=0", 3, "--split rows: must be a whole number"),
        ("--epsilon 1 --most-rows 1 --clamp weight=0..1", 3, "is DOUBLE"),
        ("", 3, "has noisy releases"),
    ],
)
def test_wrong_noise_options_are_refused(parties: Parties, words: str, code: int, message: str) -> None:
    assert message in parties.at("west").fails(code, "release", "new", "patients", *words.split(), *STORE)


def test_no_group_of_a_noisy_release_is_left_out(parties: Parties) -> None:
    words = ("--analyst", "carol.pem", "--store", "../store", "--min-group", "5")
    assert "a noisy release shows all groups" in parties.at("carol").fails(4, "query", SQL, *words)


def test_a_model_is_refused_without_advice_that_voids_the_promise(parties: Parties) -> None:
    words = ("--analyst", "carol.pem", "--store", "../store")
    told = parties.at("carol").fails(4, "fit", "patients", "bill ~ C(ward)", *words)
    assert "a noisy release are not exact sums" in told
    assert "would void the promise of the noisy one" in told


def test_python_gets_facts_and_names_gateway_users(
    parties: Parties, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parties.at("west")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # a test of "~", which no later test reads
    settings = config_folder().expanduser()
    settings.mkdir(parents=True)
    for name, tables in (("alice", ["patients"]), ("bob", ["other"]), ("erin", None)):
        write_user(settings / "users.toml", name, None, tables=tables, min_group=0, rows=False, token=True)
    said: list[str] = []
    place = {"store": "../store", "key": "key.json", "say": said.append}
    how = {"most_rows": 1, "clamp": {"bill": (0, 3000)}, "values": {"ward": ["Surgery"]}, "split": {"bill.sum": 3}}
    with pytest.raises(cleave.InputError, match="analysts would lose"):
        cleave.release("patients", epsilon=0.25, **how, **place)
    how["yes"] = True
    page = cleave.release("patients", epsilon=0.25, dry_run=True, **how, **place)
    assert isinstance(page, str)
    assert "| bill.sum | bill within 0.00..3,000.00 | 3,000.00 | 0.1875 |" in page
    facts = cleave.release("patients", epsilon=0.25, **how, **place)
    assert isinstance(facts, cleave.NoisyReleaseFacts)
    assert (facts.epsilon, facts.spent, facts.budget, facts.cells, facts.publishes) == ("0.25", "1.25", None, 1, True)
    assert any("without noise: alice, erin" in each for each in said)
    parties.at("carol")
    known = facts.fingerprint
    sql = "SELECT COUNT(*) FROM patients"
    answer = cleave.query("patients", sql, store="../store", analyst="carol.pem", fingerprint=known)
    assert answer.sources == ("noisy",)
    assert answer.exact == [(False,)]
    assert isinstance(answer.rows[0][0], int)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"most_rows": 2.5}, "whole number"),
        ({"most_rows": True}, "whole number"),
        ({"most_rows": "2"}, "whole number"),
        ({"clamp": {"bill": None}}, "no pair"),
        ({"clamp": {"bill": 5}}, "no pair"),
        ({"values": {"ward": None}}, "list of values"),
        ({"values": {"ward": ["Surgery", None]}}, "list of values"),
    ],
)
def test_python_refuses_arguments_of_other_types(how: dict[str, Any], message: str) -> None:
    with pytest.raises(cleave.InputError, match=message):
        choices_of(releasing(**how))


def test_python_takes_booleans_as_bounds_and_one_text() -> None:
    noise = choices_of(releasing(clamp={"smoker": (False, True)}, values="ward=A,B"))
    assert isinstance(noise, NoisyChoices)
    assert (noise.clamps, noise.values) == ({"smoker": ("0", "1")}, {"ward": ["A", "B"]})


def releasing(**how: Any) -> Any:
    """Options of a noisy release."""
    none = dict.fromkeys(("clamp", "values", "split", "squares", "again", "min_cell", "new_lineage"))
    return {**none, "epsilon": 1, "most_rows": 2, **how}


def test_a_report_draws_intervals(parties: Parties) -> None:
    carol = parties.at("carol")
    words = ("--analyst", "carol.pem", "--store", "../store", "--report", "report.html")
    result = carol.run("query", SQL, *words)
    assert result.exit_code == 0, result.output
    page = Path("report.html").read_text()
    assert "Error bars are 95% intervals of the noise" in page
    assert "noisy" in page


def test_without_the_extra_it_is_named(parties: Parties, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opendp.prelude", None)
    words = ("release", "new", "patients", *NOISE, "--yes")
    told = parties.at("west").fails(3, *words, *STORE)
    assert "noisy releases need the package opendp" in told
    assert "spent: epsilon" not in told

"""The page that reviews a schema, in Chromium: what a person chooses there is what `cleave schema` writes for it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import cleave
from cleave.propose.propose import propose
from cleave.table.schema import Kind, dump_schema, load_schema
from tests.cli.runner import Cli
from tests.report.chromium import Page
from tests.report.reviews import COLUMNS, HOSTILE_NAMES, page_of, proposal, write_hostile, write_rows

CHOOSE = """(kinds => { for (const [place, kind] of Object.entries(kinds)) {
  const select = document.querySelectorAll('select.kind')[place];
  select.value = kind;
  if (select.value !== kind) throw new Error(`no ${kind} at ${place}`);
  select.dispatchEvent(new Event('change', { bubbles: true })); } })(%s)"""
FILL = """((id, value) => { const field = document.getElementById(id);
  field.value = value; field.dispatchEvent(new Event('input')); })('%s', '%s')"""
DOWNLOAD = "document.getElementById('download').click()"
STATUS = "document.getElementById('status').textContent"
TOO_WIDE = """[document.documentElement, ...document.querySelectorAll('.choice, .choice > div, .party, .bar')]
  .filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.className || each.tagName)"""
TEXT = "document.getElementById('toml').textContent"
BEHIND_BAR = """(() => { const focus = document.activeElement, bar = document.querySelector('.bar');
  return focus !== document.body && !bar.contains(focus)
    && focus.getBoundingClientRect().top >= bar.getBoundingClientRect().top; })()"""
NAMES = "document.querySelector('#party-%s .names').textContent"
TAB, SPACE = ("Tab", "Tab", 9), (" ", "Space", 32)
TEN = {
    "patient_id": "local",
    "ward": "plain",
    "region": "sealed",
    "age": "plain",
    "bill": "sealed",
    "weight": "local",
    "admitted": "plain",
    "insured": "encrypted",
    "visits": "plain",
    "grade": "plain",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("reviews")
    table, hostile = write_rows(made / "stays.csv"), write_hostile(made / "hostile.csv")
    (made / "stays.html").write_text(page_of(table), "utf-8")
    (made / "values.html").write_text(page_of(table, values=True), "utf-8")
    (made / "hostile.html").write_text(page_of(hostile, values=True), "utf-8")
    return made


def show(tab: Page, path: Path, **look: Any) -> None:
    tab.look(**look)
    tab.open(path)
    assert tab.complaints == []


def choose(tab: Page, kinds: Mapping[str, str]) -> None:
    places = {list(COLUMNS).index(name): kind for name, kind in kinds.items()}
    tab.value(CHOOSE % str(places))


def reach(tab: Page, there: str) -> None:
    for _ in range(3 * len(COLUMNS) + 20):
        if tab.value(there):
            return
        tab.press(*TAB)
    raise AssertionError(f"the key Tab does not lead to where {there}")


def download(tab: Page, folder: Path) -> str:
    (path,) = tab.downloaded(folder, lambda: tab.value(DOWNLOAD))
    assert path.name == "review.toml"
    return path.read_text("utf-8")


@pytest.mark.parametrize("name", ["stays", "hostile"])
@pytest.mark.filterwarnings("ignore:.* is called:cleave.CleaveWarning")
def test_the_untouched_page_gives_the_proposal(tab: Page, folder: Path, tmp_path: Path, name: str) -> None:
    show(tab, folder / f"{name}.html")
    assert download(tab, tmp_path) == dump_schema(propose(folder / f"{name}.csv"))
    assert {each for each in tab.requested if not each.startswith("blob:")} == {(folder / f"{name}.html").as_uri()}


def test_what_is_chosen_is_what_options_settle(tab: Page, folder: Path, tmp_path: Path) -> None:
    show(tab, folder / "stays.html")
    choose(tab, TEN)
    by_options = propose(folder / "stays.csv", {name: Kind(kind) for name, kind in TEN.items()})
    assert download(tab, tmp_path) == dump_schema(by_options)


def test_the_file_is_queried_under_the_schema_that_was_downloaded(
    tab: Page, folder: Path, tmp_path: Path, cli: Cli
) -> None:
    show(tab, folder / "stays.html")
    choose(tab, TEN)
    download(tab, tmp_path)
    table, target = folder / "stays.csv", tmp_path / "stays.schema.toml"
    result = cli.run("schema", table, "--from", tmp_path / "review.toml", "-o", target)
    assert result.exit_code == 0, result.output
    assert {each.name: each.kind for each in load_schema(target).columns}.items() >= TEN.items()
    sql = (
        "SELECT ward, grade, COUNT(*) AS n, SUM(bill) AS bill, AVG(age) AS age, MAX(region) AS region, "
        "COUNT(*) FILTER (WHERE insured) AS insured, COUNT(DISTINCT patient_id) AS people "
        "FROM stays WHERE admitted < DATE '2025-01-20' GROUP BY ward, grade ORDER BY ward, grade"
    )
    answered = cleave.query(table, sql, schema=target)
    read = f"read_csv('{table}', types={{'bill': 'DECIMAL(18,2)', 'insured': 'VARCHAR'}})"
    clear = sql.replace("FROM stays", f"FROM {read}").replace("(WHERE insured)", "(WHERE insured = 'yes')")
    with duckdb.connect() as connection:
        expected = connection.execute(clear).fetchall()
    assert len(expected) > 5
    assert [tuple(row) for row in answered.rows] == expected


def test_people_and_thresholds(tab: Page, folder: Path, tmp_path: Path) -> None:
    show(tab, folder / "stays.html")
    assert "and whom rows are about" in tab.value(STATUS)
    tab.value(FILL % ("min-group", "05"))
    tab.value(FILL % ("dominance", "0.8"))
    tab.value("document.querySelectorAll('.person')[9].click()")
    tab.value("document.getElementById('confirm').click()")
    assert tab.value(STATUS).endswith("All settled.")
    stated = tomllib.loads(download(tab, tmp_path), parse_float=Decimal)["privacy"]
    assert stated == {"entity": ["patient_id", "grade"], "min_group": 5, "dominance": Decimal("0.8")}
    schema = load_schema(tmp_path / "review.toml")
    assert dump_schema(schema) == (tmp_path / "review.toml").read_text("utf-8")
    assert not [each.name for each in schema.columns if each.unsure]
    everyone = {name: each.kind for name, each in zip(COLUMNS, proposal(folder / "stays.csv")[0].columns, strict=True)}
    unsure = [each.name for each in proposal(folder / "stays.csv")[0].columns if each.unsure]
    expected = propose(folder / "stays.csv", {name: everyone[name] for name in unsure})
    assert schema.columns == expected.columns


@pytest.mark.parametrize(("field", "value"), [("dominance", "1.5"), ("dominance", ".8"), ("min-group", "5 [csv]")])
def test_thresholds_that_are_none_are_not_downloaded(tab: Page, folder: Path, field: str, value: str) -> None:
    show(tab, folder / "stays.html")
    tab.value("window.made = 0; URL.createObjectURL = () => { window.made += 1; return 'about:blank' }")
    tab.value(FILL % (field, value))
    tab.value(DOWNLOAD)
    assert tab.value("window.made") == 0
    assert tab.value("document.activeElement.id") == field


def test_thresholds_that_are_none_are_named_and_not_shown_in_a_schema(tab: Page, folder: Path) -> None:
    show(tab, folder / "stays.html")
    tab.value("document.getElementById('text').open = true")
    tab.value(FILL % ("min-group", "abc"))
    assert tab.value(STATUS).endswith(" Correct: Smallest group.")
    assert tab.value(TEXT) == ""
    tab.value(FILL % ("min-group", "7"))
    assert "Correct" not in tab.value(STATUS)
    assert "min_group = 7\n" in tab.value(TEXT)


def test_a_share_of_one_person_needs_a_person(tab: Page, folder: Path) -> None:
    show(tab, folder / "stays.html")
    tab.value(FILL % ("dominance", "0.8"))
    assert tab.value("document.getElementById('dominance').validity.valid")
    tab.value("document.querySelectorAll('.person')[0].click()")
    assert not tab.value("document.getElementById('dominance').validity.valid")


def test_a_proposed_person_column_that_becomes_local_is_none(tab: Page, folder: Path, tmp_path: Path) -> None:
    show(tab, folder / "stays.html")
    choose(tab, {"patient_id": "local"})
    assert tab.value("document.getElementById('entity').textContent") == "nobody named"
    assert "privacy" not in tomllib.loads(download(tab, tmp_path))
    choose(tab, {"patient_id": ""})
    assert tab.value("document.getElementById('entity').textContent") == "patient_id"
    tab.value("document.getElementById('settled').click()")
    choose(tab, {"patient_id": "local"})  # who confirms has decided
    assert tab.value("document.getElementById('entity').textContent") == "patient_id"


def test_who_will_see_what_changes_with_a_choice(tab: Page, folder: Path) -> None:
    show(tab, folder / "stays.html")
    card = "document.querySelectorAll('.choice')[4].textContent"
    assert "bill" in tab.value(NAMES % "encrypted")
    assert "sees no value" in tab.value(card)
    choose(tab, {"bill": "plain"})
    assert "bill" in tab.value(NAMES % "plain")
    assert "bill" not in tab.value(NAMES % "encrypted")
    assert "the plain service and store see every value" in tab.value(card)
    assert "no question but these" in tab.value(card)
    assert "5 plain" not in tab.value(STATUS)
    choose(tab, {"bill": ""})
    assert "bill" in tab.value(NAMES % "encrypted")


def test_by_keyboard_alone(tab: Page, folder: Path, tmp_path: Path) -> None:
    show(tab, folder / "stays.html", width=400)
    reach(tab, "document.activeElement.className === 'person'")
    tab.press(*SPACE, text=" ")
    assert tab.value("document.getElementById('entity').textContent") == "nobody named"
    tab.press(*TAB)
    assert tab.value("document.activeElement.getAttribute('aria-label')") == "Kind of patient_id"
    tab.press("l", "KeyL", 76, text="l")  # as in every list: the entry that begins with the letter
    assert "patient_id" in tab.value(NAMES % "local")
    reach(tab, "document.activeElement.id === 'confirm'")
    tab.press(*SPACE, text=" ")
    assert tab.value(STATUS).endswith("All settled.")
    reach(tab, "document.activeElement.id === 'download'")
    (path,) = tab.downloaded(tmp_path, lambda: tab.press(*SPACE, text=" "))
    assert load_schema(path).columns[0].kind is Kind.LOCAL


@pytest.mark.parametrize("width", [1180, 400])
def test_the_bar_hides_no_field_with_the_focus(tab: Page, folder: Path, width: int) -> None:
    show(tab, folder / "stays.html", width=width)
    for _ in range(2 * len(COLUMNS) + 10):
        tab.press(*TAB)
        assert not tab.value(BEHIND_BAR), tab.value("document.activeElement.outerHTML")


@pytest.mark.parametrize("name", ["stays", "values", "hostile"])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1180, 400])
@pytest.mark.sampled(4)
def test_axe_finds_nothing_and_it_fits(tab: Page, folder: Path, name: str, dark: bool, width: int) -> None:
    show(tab, folder / f"{name}.html", dark=dark, width=width)
    assert tab.value(TOO_WIDE) == []
    tab.value("document.getElementById('text').open = true")
    assert tab.findings() == []
    if name == "stays":
        choose(tab, TEN)
        assert tab.findings() == []


def test_names_stay_names(tab: Page, folder: Path) -> None:
    show(tab, folder / "hostile.html")
    assert tab.value("window.ran") is None
    assert tab.value("document.querySelectorAll('.choice').length") == len(HOSTILE_NAMES)
    assert tab.value("document.querySelectorAll('script, img, svg').length") == 2
    shown = tab.value("document.querySelector('main').innerText")
    assert "\u202e" not in shown
    assert "\u2066" not in shown


@pytest.mark.slow  # the tests above do the same with fewer columns
def test_five_hundred_columns(tab: Page, tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"gene_{place}" for place in range(500)) + "\n" + ("0.5," * 499 + "0.5\n") * 3)
    (tmp_path / "wide.html").write_text(page_of(path), "utf-8")
    show(tab, tmp_path / "wide.html", width=400)
    tab.value(CHOOSE % str(dict.fromkeys(range(0, 500, 50), "local")))
    assert tab.value(STATUS).startswith("0 plain, 490 encrypted, 0 sealed, 10 local.")
    (made,) = tab.downloaded(tmp_path, lambda: tab.value(DOWNLOAD))
    assert len(load_schema(made).columns) == 500
    assert tab.value(TOO_WIDE) == []


def test_without_scripts_it_says_so(tab: Page, folder: Path) -> None:
    tab.send("Emulation.setScriptExecutionDisabled", value=True)
    tab.open(folder / "stays.html", scripts=False)
    text = tab.value("document.querySelector('main').innerText")
    assert "Choosing needs the script" in text
    assert "patient_id" in text

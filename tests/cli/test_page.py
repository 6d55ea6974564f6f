"""`cleave query --report`: one page beside the answer, whole or not at all, and no more in it than the answer shows."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from cleave.ckks.owner_key import OwnerKey
from tests.cli.runner import Cli
from tests.samples import write_table
from tests.security.canaries import PASSPHRASE, QUESTION, KeyTraces, canaries, traces

WARDS = "SELECT ward, COUNT(*), AVG(age) FROM patients GROUP BY ward"
SMALL = "k,v\n" + "a,1\na,2\na,3\nb,10\nb,20\n" + "Tiny\N{LATIN SMALL LETTER E WITH ACUTE},7654321\n"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_table(tmp_path / "t.csv", SMALL, k="plain VARCHAR", v="encrypted BIGINT")


def data(text: str) -> list[dict[str, object]]:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    read: list[dict[str, object]] = json.loads(found)
    return read


def test_the_page_stands_beside_the_answer(ready: Cli, table: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = ready.run("query", table, WARDS, "--report", page)
    assert result.exit_code == 0, result.output
    assert "Cardiology" in result.stdout
    assert result.stderr.splitlines()[-1] == f"wrote {page}"
    text = page.read_text("utf-8")
    assert WARDS in text
    assert [chart["name"] for chart in data(text)] == ["count_star()", "avg(age)"]
    assert "the number of rows: 600" in text
    assert page.stat().st_mode & 0o777 == 0o600


def test_the_page_goes_with_every_other_way_to_write(ready: Cli, table: Path, tmp_path: Path) -> None:
    result = ready.run(
        "--quiet", "query", table, WARDS, "--json", "-o", tmp_path / "a.json", "--report", tmp_path / "a.html"
    )
    assert (result.exit_code, result.output) == (0, "")
    assert json.loads((tmp_path / "a.json").read_text())["rows"]
    assert data((tmp_path / "a.html").read_text("utf-8"))


def test_a_question_that_fails_leaves_no_page(ready: Cli, table: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    undecided = "SELECT ward FROM patients GROUP BY ward HAVING SUM(weight) - SUM(weight + 0) <= 0"
    ready.fails(8, "query", table, undecided, "--strict", "--report", page)
    ready.fails(4, "query", table, "SELECT nothing FROM patients", "--report", page)
    assert sorted(os.listdir(tmp_path)) == ["patients.csv", "patients.schema.toml"]


def test_suppressed_groups_are_nowhere_and_nothing_gives_their_size_away(
    ready: Cli, small: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    result = ready.run("query", small, "SELECT k, SUM(v) FROM t GROUP BY k", "--min-group", 2, "--report", page)
    assert result.exit_code == 0, result.output
    text = page.read_text("utf-8")
    assert "Tiny" not in text
    assert "7654321" not in text
    assert "1 group of fewer than 2 rows not shown (rule P2)." in text
    (chart,) = data(text)
    assert chart["names"] == ["a", "b"]
    # 5 of the 6 rows are shown: the 6 would tell that the third group has one
    assert re.search(r"<li>the number of rows</li>", text)
    assert not re.search(r"Rows selected|Rows of the table|<th scope=\"row\">Groups", text)
    (columns,) = re.findall(r"<caption>The columns the query reads.*?</table>", text, re.DOTALL)
    assert "byte" not in columns


def test_no_cell_no_key_and_no_unread_name_is_in_it(
    cli: Cli, tmp_path: Path, owner: OwnerKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = canaries().write(tmp_path)
    cli.environment["CLEAVE_PASSPHRASE"] = PASSPHRASE
    keys = KeyTraces(owner)
    keys.watch(monkeypatch)
    page = tmp_path / "page.html"
    result = cli.run("query", table, QUESTION, "--report", page)
    assert result.exit_code == 0, result.output
    written = page.read_bytes()
    hidden = [name for name in canaries().cells if name.startswith("hidden")]
    shown = result.stdout.encode()  # an average has the leading digits of what it is of
    forms = {form for form in canaries().forms(hidden) if form not in shown and form.replace(b",", b"") not in shown}
    assert len(forms) > 200
    assert traces(written, forms | {PASSPHRASE.encode()}) == []
    assert len(keys.ckks) == 1
    assert not keys.found_in(written)
    for unread in ("hiddensealed", "hiddenserial", "hiddennote", "hiddenlevel"):
        assert unread.encode() not in written


def test_hostile_names_and_cells_stay_text(ready: Cli, tmp_path: Path) -> None:
    name = "</script><script>alert(1)</script>"
    rows = f'"{name}",v\n<img src=x onerror=alert(1)>,1\n<img src=x onerror=alert(1)>,2\n'
    write_table(tmp_path / "t.csv", rows, **{name: "plain VARCHAR", "v": "encrypted BIGINT"})
    page = tmp_path / "page.html"
    result = ready.run("query", tmp_path / "t.csv", f'SELECT "{name}", SUM(v) FROM t GROUP BY 1', "--report", page)
    assert result.exit_code == 0, result.output
    text = page.read_text("utf-8")
    assert text.count("<script") == 3
    assert "<img" not in text
    assert "alert(1)" in text

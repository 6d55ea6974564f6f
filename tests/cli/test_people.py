"""Whom a row is about: proposed, settled, put, altered and counted from the command line and from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import cleave
from cleave.propose.entity import propose_entity
from cleave.table.privacy import Privacy
from cleave.table.schema import Column, Kind, load_schema
from cleave_shared.errors import InputError, QueryRefused
from tests.cli.runner import Cli

ROWS = "patient_id,ward,bill\n" + "".join(f"p{row % 3},{'AB'[row > 8]},{row}\n" for row in range(12))
WARDS = "SELECT ward, SUM(bill) AS bill FROM stays GROUP BY ward ORDER BY ward"


@pytest.fixture
def stays(tmp_path: Path, cli: Cli) -> Path:
    (path := tmp_path / "stays.csv").write_text(ROWS)
    done = cli.run("schema", path, "--plain", "ward", "--encrypted", "bill", "--sealed", "patient_id", "--yes")
    assert done.exit_code == 0, done.output
    return path


def place(stays: Path, key_file: Path) -> list[object]:
    return ["--store", stays.parent / "s", "--key", key_file]


def wards(printed: str) -> list[str]:
    return [row[0] for row in json.loads(printed)["rows"]]


def test_an_entity_is_proposed_and_stays_unsure_until_it_is_settled(stays: Path, cli: Cli) -> None:
    schema = stays.with_name("stays.schema.toml")
    assert load_schema(schema).privacy == Privacy(("patient_id",), unsure=True)
    assert "whether patient_id names whom a row is about" in cli.fails(3, "schema", stays, "--check")
    asked = cli.run("query", stays, WARDS, "--min-group", 4, "--json")
    assert wards(asked.stdout) == []  # three people: that it is not settled shows nobody
    done = cli.run("schema", stays, "--accept")
    assert done.exit_code == 0
    assert "whom a row is about: patient_id; thresholds count people" in done.stdout
    assert load_schema(schema).privacy == Privacy(("patient_id",))
    assert cli.run("schema", stays, "--check").exit_code == 0
    cli.run("schema", stays, "--entity", "")
    assert load_schema(schema).privacy == Privacy()
    assert wards(cli.run("query", stays, WARDS, "--min-group", 4, "--json").stdout) == ["A"]


@pytest.mark.parametrize(
    ("names", "proposed"),
    [
        ("ward patient_id bill", "patient_id"),
        ("PatientNo", "PatientNo"),
        ("Case-No Pat-ID", "Pat-ID"),
        ("MRN name", "MRN"),
        ("subject customer", "subject"),
        ("client_number person", "person"),
        ("Kundennummer kunde_nr", "kunde_nr"),
        ("patient_age customer_type name id visit_id", ""),
    ],
)
def test_names_of_an_entity(names: str, proposed: str) -> None:
    columns = [Column(name, Kind.SEALED, "VARCHAR") for name in names.split()]
    assert propose_entity(columns) == (Privacy((proposed,), unsure=True) if proposed else Privacy())


def test_a_column_that_stays_here_is_not_proposed() -> None:
    assert propose_entity([Column("patient", Kind.LOCAL, "VARCHAR")]) == Privacy()


def test_entity_of_a_question_over_a_file_or_frame(stays: Path, cli: Cli) -> None:
    cli.run("schema", stays, "--entity", "")
    asked = ("query", stays, WARDS, "--min-group", 4, "--json")
    assert wards(cli.run(*asked).stdout) == ["A"]
    assert wards(cli.run(*asked, "--entity", "patient_id").stdout) == []
    assert "there is no column 'nobody'" in cli.fails(3, *asked, "--entity", "nobody")
    plan = cli.run("plan", stays, WARDS, "--min-group", 4, "--entity", "ward,patient_id").stdout
    assert "groups, and figures, of fewer than 4 people (ward, patient_id) are left out" in plan
    kinds = {"patient_id": "sealed", "ward": "plain", "bill": "encrypted"}
    frame, sql = pd.read_csv(stays), WARDS.replace("stays", "frame")
    assert len(cleave.query(frame, sql, schema=kinds, min_group=4)) == 1
    assert len(cleave.query(frame, sql, schema=kinds, min_group=4, entity=["patient_id"])) == 0


def test_a_stored_table_keeps_its_entity(stays: Path, cli: Cli, key_file: Path) -> None:
    where = place(stays, key_file)
    cli.run("schema", stays, "--entity", "")
    assert cli.run("put", stays, "--table", "stays", *where, "--entity", "patient_id").exit_code == 0
    assert "thresholds count people (patient_id)" in cli.run("show", "stays", *where).stdout
    assert json.loads(cli.run("show", "stays", *where, "--json").stdout)["entity"] == ["patient_id"]
    asked = ("query", "stays", WARDS, "--min-group", 4, "--json", *where)
    assert wards(cli.run(*asked).stdout) == []
    assert "has an entity of its own" in cli.fails(3, *asked, "--entity", "ward")
    assert "is set once" in cli.fails(3, "alter", "stays", "--entity", "ward", *where)
    assert "cannot be dropped" in cli.fails(3, "alter", "stays", "--drop", "patient_id", *where)
    refused = cli.fails(3, "update", "stays", "--set", "patient_id = 'p1'", "--where", "bill = 3", *where)
    assert "names whom a row is about" in refused
    replaced = cli.fails(3, "put", stays, "--table", "stays", "--replace", *where)
    assert "are about patient_id" in replaced
    assert cli.run("alter", "stays", "--rename", "patient_id=who", *where).exit_code == 0
    assert json.loads(cli.run("show", "stays", *where, "--json").stdout)["entity"] == ["who"]
    assert wards(cli.run(*asked).stdout) == []


def test_an_entity_is_set_once_by_alter(stays: Path, cli: Cli, key_file: Path) -> None:
    where = place(stays, key_file)
    cli.run("schema", stays, "--entity", "")
    cli.run("put", stays, "--table", "stays", *where)
    asked = ("query", "stays", WARDS, "--min-group", 4, "--json", *where)
    assert wards(cli.run(*asked).stdout) == ["A"]
    assert cli.run("alter", "stays", "--entity", "patient_id", *where).exit_code == 0
    assert wards(cli.run(*asked).stdout) == []


def test_ids_do_not_become_others_by_a_wider_type(tmp_path: Path, key_file: Path) -> None:
    (tmp_path / "t.csv").write_text("who,ward\n0.1,A\n0.2,A\n")
    kinds = '[privacy]\nentity = ["who"]\n[columns.who]\nkind = "sealed"\ntype = "{}"\n[columns.ward]\nkind = "plain"\n'
    for type_, wider in (("FLOAT", "DOUBLE"), ("DECIMAL(3,1)", "DECIMAL(6,2)")):
        (tmp_path / "s.toml").write_text(kinds.format(type_) + 'type = "VARCHAR"\n')
        at = {"store": tmp_path / type_[:5], "key": key_file}
        cleave.put(tmp_path / "t.csv", "t", schema=tmp_path / "s.toml", by=["ward"], **at)
        if type_ == "FLOAT":
            with pytest.raises(InputError, match="names whom a row is about"):
                cleave.alter("t", widen=[f"who={wider}"], **at)
        else:
            cleave.alter("t", widen=[f"who={wider}"], **at)
        cleave.append(tmp_path / "t.csv", "t", again=True, **at)
        assert cleave.query("t", "SELECT COUNT(*) FROM t", min_group=3, **at).rows == [], "two people"


def test_smaller_groups_than_the_table_has_are_shown_with_a_word_and_logged(
    tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = {"store": tmp_path / "s", "key": key_file}
    frame = pd.DataFrame({"ward": ["A"], "bill": [1]})
    cleave.put(frame, "stays", schema={"ward": "plain", "bill": "encrypted"}, by=["ward"], **store)
    monkeypatch.setattr("cleave.ask.stored.min_group_of", lambda _: 5)
    with pytest.raises(QueryRefused, match="fewer than 5 are left out of answers from this table"):
        cleave.query("stays", WARDS, min_group=1, **store)
    assert cleave.log("stays", **store)[-1]["what"] == "put"
    assert cleave.query("stays", WARDS, min_group=1, yes=True, **store).rows == [("A", 1)]
    record = cleave.log("stays", **store)[-1]
    assert (record["what"], record["details"]) == ("smaller groups", {"min_group": 1})
    cleave.query("stays", WARDS, min_group=7, yes=True, **store)
    assert cleave.log("stays", **store)[-1] == record


def test_smaller_groups_are_logged_once_they_are_shown_by_the_tables_that_hide_them(
    tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = {"store": tmp_path / "s", "key": key_file}
    kinds = {"ward": "plain", "bill": "encrypted"}
    for name in ("stays", "wards"):
        cleave.put(pd.DataFrame({"ward": ["A"], "bill": [1]}), name, schema=kinds, by=["ward"], **store)
    monkeypatch.setattr("cleave.ask.stored.min_group_of", lambda manifest: 5 if manifest.table == "stays" else 0)
    joined = "SELECT ward, SUM({}) FROM stays JOIN wards USING (ward) GROUP BY ward"
    with pytest.raises(InputError, match="is no INTEGER"):
        cleave.query(None, joined.format("CAST(ward || stays.bill AS INT)"), min_group=1, yes=True, **store)
    assert cleave.log("stays", **store)[-1]["what"] == "put", "nothing was shown"
    assert cleave.query(None, joined.format("stays.bill"), min_group=1, yes=True, **store).rows == [("A", 1)]
    assert [each["what"] for each in cleave.log("stays", **store)] == ["put", "smaller groups"]
    assert [each["what"] for each in cleave.log("wards", **store)] == ["put"]


def test_a_put_needs_columns_that_there_are(stays: Path, key_file: Path) -> None:
    with pytest.raises(InputError, match="--entity: there is no column 'nobody'"):
        cleave.put(stays, "stays", entity="nobody", store=stays.parent / "s", key=key_file)


def test_a_join_of_stored_tables_and_files_counts_people(stays: Path, tmp_path: Path, key_file: Path) -> None:
    store = {"store": tmp_path / "s", "key": key_file}
    cleave.put(stays, "stays", entity="patient_id", by=["ward"], **store)
    wards = pd.DataFrame({"ward": ["A", "B"], "floor": [1, 1]})
    cleave.put(wards, "wards", schema={"ward": "plain", "floor": "plain"}, by=[], **store)
    sql = "SELECT floor, COUNT(*) AS n, SUM(bill) FROM stays s JOIN {0} w ON s.ward = w.ward GROUP BY floor"
    for least, rows in ((3, [(1, 12, 66)]), (4, [])):
        assert cleave.query(None, sql.format("wards"), min_group=least, **store).rows == rows
        answer = cleave.query("stays", sql.format("here"), min_group=least, others={"here": wards}, **store)
        assert answer.rows == rows
    planned = cleave.plan(None, sql.format("wards"), min_group=3, **store)
    fates = {each.name: each.fate for each in planned.description.columns}
    assert fates["stays.patient_id"] == "fetched, and read here"
    assert planned.description.threshold.endswith("fewer than 3 people (s.patient_id) are left out (rules P2 and A1)")
    with pytest.raises(QueryRefused, match="counts the people of the table whose columns are added up"):
        cleave.query(None, "SELECT SUM(floor) FROM stays JOIN wards USING (ward)", min_group=3, **store)


@pytest.mark.slow  # quick: the first test
def test_python_proposes_and_settles_an_entity(stays: Path) -> None:
    frame = pd.read_csv(stays)
    for data in (stays, frame):
        assert cleave.schema(data).privacy == Privacy(("patient_id",), unsure=True)
        assert cleave.schema(data, accept=True).privacy == Privacy(("patient_id",))
        assert cleave.schema(data, entity="ward,patient_id").privacy == Privacy(("ward", "patient_id"))
        assert cleave.schema(data, entity=[]).privacy == Privacy()


def test_whom_appended_rows_are_about_is_the_tables_to_say(stays: Path, key_file: Path) -> None:
    store = {"store": stays.parent / "s", "key": key_file}
    frame = pd.read_csv(stays)
    cleave.put(frame[["ward", "bill"]], "stays", schema={"ward": "plain", "bill": "encrypted"}, by=["ward"], **store)
    rows = frame.astype({"patient_id": "str"})
    kinds = {"patient_id": "local", "ward": "plain", "bill": "encrypted"}
    contract = cleave.schema(rows, kinds, accept=True).about(["patient_id"])
    assert cleave.append(rows, "stays", schema=contract, **store).rows == 24

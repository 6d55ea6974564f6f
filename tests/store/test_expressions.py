"""Expressions of schemas and commands run as DuckDB reads them, whatever their text holds.

The oracle is DuckDB over the unsplit rows. It is given what a text means, not the text.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cleave.ask.files import FileSource
from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.ckks.owner_key import OwnerKey
from cleave.contributions.invitation import Invitation, invite
from cleave.local.embedded import embedded_services
from cleave.maintain.changes import delete_rows as delete
from cleave.maintain.changes import update_rows as update
from cleave.maintain.derive import derive_expression as derive
from cleave.objects.locate import Folder
from cleave.store.schemas import load_stored_schema, read_stored_schema
from cleave.table.lazy import of_files
from cleave.table.progress import Silent
from cleave.table.trees import read_expression
from cleave_shared.errors import InputError
from tests.conftest import no_passphrase
from tests.store.trial import SAMPLE, World, truth

MEANT = {  # text of a condition: what it means
    "age > 40": "age > 40",
    "age > 40 -- ) OR (TRUE": "age > 40",
    "age > 40 /* ) OR (TRUE */": "age > 40",
    "age > 40 -- (\n AND age < 50 --": "age > 40 AND age < 50",
    "age > 40;": "age > 40",
    "age > 40 OR TRUE": "TRUE",
    "age > length($$) OR (TRUE -- 40$$)": f"age > {len(') OR (TRUE -- 40')}",
    "age > length($q$'$$;-- )$q$) + 30": f"age > {len(chr(39) + '$$;-- )') + 30}",
    "age > length('''); DROP TABLE trial; --')": f"age > {len(chr(39) + '); DROP TABLE trial; --')}",
    "age > 40 + length('\u00fc\u2603\u202e\U0001f600')": "age > 44",
    "age\u00a0> 40": "age > 40",
}
REFUSED = (
    *("", " ", "-- age > 40", "(age > 40", "age > 40)", "age > 40) OR (TRUE", "age > 40) --", "/* age > 40", "age > '"),
    *("age > length($$)", "age > 40; SELECT 1", "age > 40; DROP TABLE trial", "; age > 40", "age > 40\0 OR TRUE"),
    *("age > 40, TRUE", "age > 40 AS x", "age > 40 x", "DISTINCT age > 40", "age > 40 FROM trial"),
    *("age > 40 WHERE TRUE", "age > 40 LIMIT 1", "age > 40 USING SAMPLE 1", "age > 40 UNION SELECT TRUE"),
    *("age > 40 GROUP BY ALL", "*", "COLUMNS(*) > 40", "age > ?", "age > $1", "(SELECT age > 40)"),
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, key: OwnerKey) -> World:
    folder = tmp_path_factory.mktemp("expressions")
    world = World(Folder(folder / "s"), key, folder, Folder(folder / "p"))
    world.put("ward")
    return world


def count(condition: str) -> int:
    ((rows,),) = truth(f"SELECT count(*) FROM trial WHERE {condition}")
    return int(str(rows))


def schema_with(text: str) -> str:
    """The sample's schema, and a derived column `old`."""
    stated = (SAMPLE / "patients.schema.toml").read_text("utf-8")
    return f"{stated}\n[derived.old]\nsql = {json.dumps(text, ensure_ascii=False)}\n"


def over_a_file(sql: str, text: str, folder: Path, key_file: Path) -> int:
    path = folder / "trial.schema.toml"
    path.write_text(schema_with(text), "utf-8")
    table = of_files([SAMPLE / "patients.csv"], path, "trial")
    with Session(FileSource(table, Access(key_file, no_passphrase), embedded_services)) as session:
        ((rows,),) = session.ask(session.plan(sql)).result.rows
    return int(str(rows))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("text", MEANT)
def test_a_schema_over_a_file_runs_what_it_means(text: str, tmp_path: Path, key_file: Path) -> None:
    for sql in ("SELECT SUM(old) FROM trial", "SELECT COUNT(*) FROM (FROM trial WHERE old)"):
        assert over_a_file(sql, text, tmp_path, key_file) == count(MEANT[text])


@pytest.mark.parametrize("text", MEANT)
def test_a_condition_runs_what_it_means(world: World, text: str) -> None:
    for found in (
        delete(world.tables, "trial", text, Silent(), dry_run=True),
        update(world.tables, "trial", {"bill": "1"}, text, Silent(), dry_run=True),
    ):
        assert found.rows == count(MEANT[text])


@pytest.mark.sampled(12)
@pytest.mark.parametrize("text", MEANT)
def test_what_is_written_is_what_it_means(text: str, key: OwnerKey, tmp_path: Path) -> None:
    """New values, the rows that get them, totals of a later expression and the rows that a deletion leaves."""
    world = World(Folder(tmp_path / "s"), key, tmp_path, Folder(tmp_path / "p"))
    world.put("ward")
    update(world.tables, "trial", {"insured": text}, "TRUE", Silent(), yes=True)
    assert world.ask("SELECT SUM(insured) FROM trial").result.rows == [[count(MEANT[text])]]
    update(world.tables, "trial", {"bill": "7"}, text, Silent())
    ((wanted,),) = truth(f"SELECT SUM(CASE WHEN {MEANT[text]} THEN 7 ELSE bill END) FROM trial")
    assert str(world.ask("SELECT SUM(bill) FROM trial").result.rows[0][0]) == str(wanted)
    derive(world.tables, "trial", text, "old", Silent())
    assert world.ask("SELECT SUM(old) FROM trial").result.rows == [[count(MEANT[text])]]
    delete(world.tables, "trial", text, Silent(), yes=True)
    assert world.ask("SELECT COUNT(*) FROM trial").result.rows == [[600 - count(MEANT[text])]]


@pytest.mark.parametrize("text", MEANT)
def test_a_stored_text_stays_as_it_was_typed(world: World, text: str) -> None:
    """Manifests and invitations keep it, and whoever reads them runs DuckDB's text of its tree."""
    manifest = world.tables.open("trial").manifest.model_copy(update={"schema_toml": schema_with(text)})
    invitation = Invitation.model_validate_json(invite(manifest).model_dump_json())
    for schema in (read_stored_schema(manifest.schema_toml, "trial"), invitation.table_schema()):
        (derived,) = schema.derived
        assert derived.text == text
        assert count(f"({derived.sql})") == count(MEANT[text])


@pytest.mark.parametrize("text", REFUSED)
def test_no_other_text_is_an_expression(world: World, text: str) -> None:
    before = world.tables.open("trial").manifest
    opened = before.model_copy(update={"schema_toml": schema_with(text)})
    for refused in (
        lambda: delete(world.tables, "trial", text, Silent(), yes=True),
        lambda: update(world.tables, "trial", {"bill": "1"}, text, Silent(), yes=True),
        lambda: update(world.tables, "trial", {"insured": text}, "TRUE", Silent(), yes=True),
        lambda: derive(world.tables, "trial", text, "old", Silent()),
        lambda: load_stored_schema(opened),
        lambda: invite(opened).table_schema(),
    ):
        with pytest.raises(InputError, match=r"is not one expression|is no expression over a row|names no column"):
            refused()
    assert world.tables.open("trial").manifest == before


def test_half_of_a_character_is_no_expression() -> None:
    assert read_expression("age > 40 \ud800") is None
    assert read_expression("(" * 3000 + "age" + ")" * 3000) is None
    assert read_expression("age + " * 100_000 + "age") is None

"""The `[privacy]` table of a schema: read, written, and refused in one sentence."""

from __future__ import annotations

import tomllib
from decimal import Decimal

import pytest

from cleave.table.privacy import Privacy
from cleave.table.schema import dump_schema, read_schema
from cleave_shared.errors import InputError

COLUMNS = '[columns.Patient]\nkind = "sealed"\ntype = "VARCHAR"\n[columns.bill]\nkind = "encrypted"\ntype = "BIGINT"\n'


def privacy(text: str) -> Privacy:
    schema = read_schema(tomllib.loads(COLUMNS + text, parse_float=Decimal), "t")
    assert read_schema(tomllib.loads(dump_schema(schema), parse_float=Decimal), "t") == schema
    return schema.privacy


def test_what_a_schema_says_is_kept() -> None:
    assert privacy("") == Privacy()
    assert privacy('[privacy]\nentity = ["patient", "contributor"]\nmin_group = 5\ndominance = 0.8\n') == Privacy(
        ("Patient", "contributor"), 5, Decimal("0.8")
    )
    assert privacy("[privacy]\nmin_group = 5\n").counted == "rows"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('entity = "patient"', "must be a list of columns"),
        ("entity = []", "must be a list of columns"),
        ('entity = ["nobody"]', "there is no column 'nobody'"),
        ('entity = ["patient", "PATIENT"]', "names 'Patient' twice"),
        ("min_group = -1", "must be a number of people, 3 or more"),
        ("min_group = 0", "must be a number of people, 3 or more"),
        ("min_group = 2", "must be a number of people, 3 or more"),
        ("min_group = true", "must be a number of people"),
        ("min_group = 2.5", "must be a number of people"),
        ('entity = ["patient"]\ndominance = 1', "must be a share"),
        ('entity = ["patient"]\ndominance = 0.0', "must be a share"),
        ("dominance = 0.8", "no entity is named"),
        ("budget = 1", "budget"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        privacy(f"[privacy]\n{text}\n")
    assert "[privacy]" in caught.value.message
    assert message in caught.value.message

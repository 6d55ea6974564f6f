"""Models of one table under a threshold, side by side: the rows of one alone are of nobody, or of enough people.

The mirror shares no code with Cleave: rows are dicts, and the rows of each model and cell are formed by themselves.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import cleave
from cleave_shared.errors import QueryRefused

Row = dict[str, Any]
NUMBERS, FACTORS = ("x", "y", "z"), ("g", "h")
COLUMNS = ("who", *FACTORS, *NUMBERS)
KINDS = {"who": "sealed", "g": "plain", "h": "sealed", "x": "encrypted", "y": "encrypted", "z": "plain"}
TYPES = dict.fromkeys(NUMBERS, "BIGINT")


def schema_file(folder: Path, *, entity: bool) -> Path:
    path = folder / "t.schema.toml"
    parts = [
        f'[columns.{name}]\nkind = "{kind}"\ntype = "{TYPES.get(name, "VARCHAR")}"\n'
        + ("lower = 0\nupper = 100\n" if name in TYPES else "")
        for name, kind in KINDS.items()
    ]
    path.write_text("".join(parts) + (f"[privacy]\nentity = {json.dumps(['who'])}\n" if entity else ""))
    return path


def rows_of(chance: random.Random) -> list[Row]:
    """Thirty people with up to three rows. Few patterns of NULLs are of many people; some are of one or two."""
    patterns = [chance.sample(COLUMNS[1:], chance.choice([0, 1, 1, 2])) for _ in range(3)]
    rows = []
    for person in range(30):
        lacking = chance.choice([[], *patterns]) if chance.random() < 0.95 else chance.sample(COLUMNS[1:], 1)
        for _ in range(chance.choice([1, 1, 2, 3])):
            row: Row = {"who": f"p{person}", "g": chance.choice("ab"), "h": chance.choice("cd")}
            row |= {name: chance.randrange(100) for name in NUMBERS}
            rows.append(row | dict.fromkeys(lacking))
    return rows


def frame_of(rows: Sequence[Row]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(dict.fromkeys(NUMBERS, "Int64"))


@dataclass(frozen=True)
class Model:
    """`cells`: sets of factors by whose levels it has sums."""

    name: str
    columns: frozenset[str]
    cells: tuple[tuple[str, ...], ...]
    asked: Callable[..., Any]

    def rows(self, table: Iterable[Row]) -> list[Row]:
        return [row for row in table if all(row[name] is not None for name in self.columns)]


def fit(response: str, terms: Sequence[str]) -> Model:
    factors = [name for name in terms if name in FACTORS]
    cells = [cell for size in range(len(factors) + 1) for cell in itertools.combinations(factors, size)]
    formula = f"{response} ~ {' + '.join(terms) or '1'}"
    return Model(
        formula, frozenset([response, *terms]), tuple(cells), lambda data, **given: cleave.fit(data, formula, **given)
    )


def pca(names: Sequence[str]) -> Model:
    return Model(f"pca {names}", frozenset(names), ((),), lambda data, **given: cleave.pca(data, list(names), **given))


FITS = [
    fit(response, terms)
    for response in NUMBERS
    for size in range(3)
    for terms in itertools.combinations([each for each in (*NUMBERS, *FACTORS) if each != response], size)
]
MODELS = [*FITS, *(pca(names) for names in itertools.combinations(NUMBERS, 2))]


def size(rows: Iterable[Row], *, entity: bool) -> int:
    return len({row["who"] for row in rows}) if entity else len(list(rows))


def check(chance: random.Random, rows: list[Row], least: int, data: Any, *, entity: bool, **given: Any) -> None:
    """Ask for some models, and compare those that are shown."""
    shown = []
    for model in chance.sample(MODELS, 6):
        is_large = all(size(each, entity=entity) >= least for each in classes(rows, model.columns))
        try:
            found = model.asked(data, min_group=least, **given)
        except QueryRefused as error:
            said = "lack a value, or have one" in error.message or "or lack some" in error.message
            assert not (is_large and said and model.cells == ((),)), model.name
            continue
        assert is_large, model.name
        assert found.n == len(model.rows(rows))
        shown.append(model)
    for one, two in itertools.permutations(shown, 2):
        if one.columns < two.columns:
            inside = {id(row) for row in two.rows(rows)}
            between = [row for row in one.rows(rows) if id(row) not in inside]
            for cell in one.cells:
                for each in grouped(between, lambda row, cell=cell: tuple(row[name] for name in cell)):
                    assert size(each, entity=entity) >= least, (one.name, two.name, cell)


def classes(rows: Iterable[Row], columns: Iterable[str]) -> list[list[Row]]:
    """The rows by what they lack."""
    names = sorted(columns)
    return grouped(rows, lambda row: tuple(row[name] is None for name in names))


def grouped(rows: Iterable[Row], key: Callable[[Row], tuple[Any, ...]]) -> list[list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return list(found.values())


@pytest.mark.parametrize("seed", range(4))
def test_models_of_a_frame_or_a_file(tmp_path: Path, seed: int) -> None:
    chance, entity = random.Random(seed), seed % 4 < 2
    rows, least = rows_of(chance), chance.randint(2, 4)
    data: Any = frame_of(rows)
    schema = schema_file(tmp_path, entity=entity)
    if seed % 2:
        data.to_csv(tmp_path / "t.csv", index=False)
        data = tmp_path / "t.csv"
    check(chance, rows, least, data, entity=entity, schema=schema)


@pytest.mark.parametrize("seed", range(4, 8))
def test_models_of_a_stored_table(tmp_path: Path, key_file: Path, seed: int) -> None:
    chance, entity = random.Random(seed), seed % 4 < 2
    rows, least = rows_of(chance), chance.randint(2, 4)
    place = {"store": tmp_path / "s", "key": key_file}
    products = {"products": ["x", "y"]} if seed % 2 else {}
    cleave.put(frame_of(rows), "t", schema=schema_file(tmp_path, entity=entity), by=["g"], **products, **place)
    check(chance, rows, least, "t", entity=entity, **place)

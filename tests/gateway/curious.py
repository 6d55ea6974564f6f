"""A table of few people and its neighbours, and random questions of a user who may not read its rows.

A neighbour differs in one person: in values (`age`, `lab`), in both being NULL (`null`), in having each row twice
(`twice`), or in being away (`away`). DuckDB over the base table says which rows a figure is over.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

import cleave

LEAST = 3
PEOPLE = 6
KINDS = ("age", "lab", "null", "twice", "away")
BY = ("ward", "sex", "stage")
SCHEMA = """
[privacy]
entity = ["patient"]
[columns]
patient = { kind = "sealed", type = "VARCHAR" }
ward = { kind = "plain", type = "VARCHAR" }
sex = { kind = "sealed", type = "VARCHAR" }
stage = { kind = "plain", type = "INTEGER" }
age = { kind = "encrypted", type = "BIGINT", lower = 0, upper = 1000 }
lab = { kind = "encrypted", type = "BIGINT", lower = -1000, upper = 1000 }
note = { kind = "sealed", type = "VARCHAR" }
day = { kind = "plain", type = "DATE" }
"""
HEADER = "patient,ward,sex,stage,age,lab,note,day\n"


@dataclass(frozen=True)
class Stay:
    patient: int
    ward: str
    sex: str
    stage: int
    age: int | None
    lab: int | None

    @property
    def line(self) -> str:
        values = ("" if each is None else str(each) for each in (self.stage, self.age, self.lab))
        return (
            f"P{self.patient},{self.ward},{self.sex},{','.join(values)},n{self.patient},2024-01-0{1 + self.patient}\n"
        )


class Tables:
    """The base table and, by kind and person, its neighbours: names of equal length in one store."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.rows = [self._stay(number) for number in range(21)]
        self.neighbours = {
            f"t{number:02}": (kind, person)
            for number, (kind, person) in enumerate(((k, p) for k in KINDS for p in range(PEOPLE)), start=1)
        }
        self.duckdb = duckdb.connect()
        (folder / "schema.toml").write_text(SCHEMA)
        path = folder / "rows.csv"
        for name in ("t00", *self.neighbours):
            rows = self.rows if name == "t00" else self._neighbour(*self.neighbours[name])
            path.write_text(HEADER + "".join(each.line for each in rows))
            place = {"store": folder / "store", "key": folder / "key.json"}
            cleave.put(path, name, schema=folder / "schema.toml", by=list(BY), **place)
            if name == "t00":
                self.duckdb.execute(f"CREATE TABLE t00 AS SELECT *, row_number() OVER () - 1 AS row FROM '{path}'")

    def _stay(self, number: int) -> Stay:
        """The first stays give two wards enough people; the rest are anywhere."""
        rng, person = self.rng, number % PEOPLE
        ward = "AB"[number // PEOPLE] if number < 2 * PEOPLE - 2 else rng.choice("ABC")
        age = None if rng.random() < 0.1 else rng.randrange(1, 400)
        lab = None if rng.random() < 0.2 else rng.randrange(-400, 400)
        return Stay(person, ward, rng.choice("fffm"), rng.randrange(2), age, lab)

    def _neighbour(self, kind: str, person: int) -> Iterator[Stay]:
        rng = random.Random(f"{kind}{person}")
        for each in self.rows:
            if each.patient != person:
                yield each
                continue
            age, lab = each.age, each.lab
            if kind == "age" and age is not None:
                age += rng.randrange(1, 500)
            if kind == "lab" and lab is not None:
                lab += rng.randrange(1, 500)
            if kind == "null":
                age = lab = None
            if kind != "away":
                changed = Stay(person, each.ward, each.sex, each.stage, age, lab)
                yield changed
                if kind == "twice":
                    yield changed


@dataclass(frozen=True)
class Question:
    """`raw` has keys and aggregates alone. `processed`: `raw` behind HAVING, ORDER BY, LIMIT or expressions, if any.

    `figures`: for each aggregate of `raw` its argument ("" for COUNT(*)) and what kind of number it is, if all of it is
    among what is answered, else None. `rest`: `raw` from WHERE on, `keys` its keys.
    """

    raw: str
    processed: str | None
    figures: Sequence[tuple[str, str]] | None
    keys: Sequence[str]
    rest: str


ANSWERED = [
    ("COUNT(*)", "", "count"),
    ("COUNT(age)", "age", "count"),
    ("COUNT(lab)", "lab", "count"),
    ("SUM(age)", "age", "sum"),
    ("SUM(lab)", "lab", "sum"),
    ("SUM(2 * age - lab + 1)", "2 * age - lab + 1", "sum"),
    ("SUM(-lab)", "-lab", "sum"),
    ("AVG(age)", "age", "sum"),
    ("AVG(lab)", "lab", "sum"),
    ("VAR_POP(age)", "age", "square"),
    ("STDDEV(lab)", "lab", "square"),
    ("COUNT(DISTINCT patient)", "", "people"),
]
REFUSED = [
    "SUM(age * lab)",
    "SUM(age * (patient = 'P3')::INT)",
    "SUM(age * (patient = 'P3'))",
    "SUM(CASE WHEN patient = 'P3' THEN age END)",
    "SUM(IF(patient = 'P3', age, 0))",
    "SUM(age) FILTER (WHERE patient = 'P3')",
    "SUM(age) FILTER (WHERE age > 200)",
    "COUNT(*) FILTER (WHERE age > 200)",
    "COUNT(*) FILTER (WHERE ward = 'A' AND sex = 'm')",
    "COUNT(CASE WHEN patient = 'P3' AND age > 100 THEN 1 END)",
    "COUNT(NULLIF(patient, 'P3'))",
    "MAX(age)",
    "MIN(lab)",
    "MEDIAN(age)",
    "MODE(age)",
    "QUANTILE_CONT(age, 0.9)",
    "LIST(age)",
    "STRING_AGG(note, ',')",
    "FIRST(note)",
    "ANY_VALUE(patient)",
    "ARG_MAX(patient, age)",
    "COUNT(DISTINCT age)",
    "COUNT(DISTINCT note)",
    "SUM(DISTINCT age)",
    "SUM(abs(lab))",
    "SUM(greatest(age, 200))",
    "SUM(age % 2)",
    "SUM(age // 300)",
    "SUM(1 / (age - 40))",
    "SUM(age::VARCHAR::INT)",
    "SUM(age & 1)",
    "SUM(-ifnull(lab, 5000))",
    "SUM(COALESCE(age, 100000))",
    "COUNT(NULLIF(age, 17))",
    "BOOL_OR(age > 300)",
    "BIT_XOR(age)",
    "PRODUCT(age)",
    "CORR(age, lab)",
    "COVAR_POP(age, lab)",
    "VAR_POP(age + lab) - VAR_POP(age) - VAR_POP(lab)",
    "REGR_SLOPE(age, lab)",
    "KURTOSIS(age)",
    "ENTROPY(age)",
    "HISTOGRAM(age)",
    "APPROX_COUNT_DISTINCT(age)",
    "SUM(length(note))",
    "SUM(CAST(note AS INT))",
    "COUNT(*) - COUNT(*) FILTER (WHERE patient <> 'P3')",
    "SUM(age) OVER ()",
    "SUM(SUM(age)) OVER (PARTITION BY age)",
    "SUM((SELECT age))",
    "SUM(age ORDER BY lab)",
    "MAX(SUM(age)) OVER ()",
]
WHERE = [
    "ward = 'A'",
    "ward <> 'B'",
    "ward IN ('A', 'C')",
    "NOT (ward = 'A' AND sex = 'm')",
    "sex = 'f' OR stage = 1",
    "stage BETWEEN 0 AND 1",
    "stage < 1",
    "ward LIKE 'A%'",
    "sex IS NOT NULL",
    "stage >= 0",
]
REFUSED_WHERE = [
    "patient = 'P3'",
    "patient <> 'P3'",
    "age > 200",
    "lab IS NULL",
    "note LIKE 'n3'",
    "day = DATE '2024-01-04'",
    "ward = (SELECT MIN(ward) FROM t00)",
    "EXISTS (SELECT 1 FROM t00 WHERE age > 300)",
    "ward || sex = 'Af'",
    "stage + 1 = 2",
    "ward = 'A' AND CASE WHEN patient = 'P3' THEN 1 / 0 ELSE 1 END > 0",
    "CAST(note AS INT) > 0",
    "(patient, age) IN (SELECT patient, age FROM t00 LIMIT 1)",
    "random() < 0.5",
    "rowid = 3",
    "sex = 'm' AND error('x') IS NULL",
]
REFUSED_KEYS = ["patient", "age", "age > 200", "note", "lab IS NULL", "day", "ward || patient", "CAST(note AS INT)"]
FORMS = [
    "SELECT * FROM t00",
    "SELECT age FROM t00 ORDER BY age LIMIT 1",
    "SELECT DISTINCT patient FROM t00",
    "SELECT ward, SUM(age) FROM (SELECT * FROM t00 WHERE patient <> 'P3') GROUP BY ward",
    "WITH x AS (SELECT ward, age FROM t00 WHERE age > 200) SELECT ward, COUNT(*) FROM x GROUP BY ward",
    "SELECT SUM(age) FROM t00 UNION ALL SELECT SUM(age) FROM t00 WHERE patient = 'P3'",
    "SELECT a.ward, SUM(b.age) FROM t00 a JOIN t00 b ON a.patient = b.patient GROUP BY a.ward",
    "SELECT SUM(age) FROM t00 USING SAMPLE 3 ROWS",
    "SELECT ward, SUM(age) OVER (PARTITION BY patient) FROM t00",
    "SELECT ward, SUM(age) FROM t00 GROUP BY ward QUALIFY MAX(lab) OVER () > 0",
    "SELECT SUM(x) FROM (SELECT ward, SUM(age) AS x FROM t00 GROUP BY ward)",
    "SELECT COUNT(*) FROM (SELECT ward, sex, stage FROM t00 GROUP BY ALL)",
    "SELECT (SELECT age FROM t00 WHERE patient = 'P3' LIMIT 1)",
    "SELECT CASE WHEN EXISTS (SELECT 1 FROM t00 WHERE patient = 'P3' AND age > 200) THEN 1 / 0 ELSE 1 END",
    "SELECT ward, error(SUM(age)::VARCHAR) FROM t00 GROUP BY ward",
    "SUMMARIZE t00",
    "EXPLAIN ANALYZE SELECT SUM(age) FROM t00",
    "SELECT DISTINCT ON (ward) ward, age FROM t00",
    "PIVOT t00 ON sex USING SUM(age) GROUP BY patient",
    "FROM t00 SELECT SUM(age) WHERE patient = 'P3'",
    "SELECT COLUMNS(*) FROM t00",
    "SELECT SUM(COLUMNS('age|lab')) FROM t00 WHERE patient = 'P3'",
    "SELECT COUNT(*) FROM t00 HAVING MAX(age) > 300",
    "SELECT ward, COUNT(*) FROM t00 GROUP BY ward HAVING MAX(age) > 300",
    "SELECT ward, COUNT(*) FROM t00 GROUP BY ward ORDER BY MAX(age)",
    "SELECT ward, COUNT(*) FROM t00 GROUP BY ward HAVING COUNT(*) FILTER (WHERE patient = 'P3') > 0",
    "SELECT ward, SUM(age) / (COUNT(*) - COUNT(*) FILTER (WHERE patient = 'P3')) FROM t00 GROUP BY ward",
    "SELECT CAST(MAX(note) AS INT) FROM t00",
    "SELECT ward, sex, COUNT(*) FROM t00 GROUP BY ward, sex HAVING COUNT(*) < 3",
    "SELECT ward, CASE WHEN COUNT(*) < 3 THEN 1 // 0 ELSE CAST('x' AS INT) END FROM t00 GROUP BY ward, sex, stage",
]


def question(rng: random.Random) -> Question:
    """A question; in half of them something is not answered."""
    bad = rng.random() < 0.5
    if bad and rng.random() < 0.3:
        return Question(rng.choice(FORMS), None, None, (), "")
    where_at = rng.random()
    wrong = rng.choice(["item", "where", "key"]) if bad else ""
    items = rng.sample(ANSWERED, rng.randint(1, 3))
    shown = [each[0] for each in items]
    if wrong == "item":
        shown[rng.randrange(len(shown))] = rng.choice(REFUSED)
    keys = rng.sample(BY, rng.randint(0, 2))
    if wrong == "key":
        keys = [*keys[:1], rng.choice(REFUSED_KEYS)]
    conditions = rng.sample(WHERE, rng.choice([0, 1, 1, 2])) if where_at < 0.6 else []
    if wrong == "where":
        conditions.insert(rng.randrange(len(conditions) + 1), rng.choice(REFUSED_WHERE))
    where = f" WHERE {' AND '.join(f'({each})' for each in conditions)}" if conditions else ""
    group = _group(rng, keys) if keys else ""
    if "(" in group:
        kept = [each for each in zip(shown, items, strict=True) if "DISTINCT" not in each[0]] or [
            ("COUNT(*)", ANSWERED[0])
        ]
        shown, items = [each[0] for each in kept], [each[1] for each in kept]
    first = "".join(f"{each}, " for each in keys)
    named = [f"{each} AS f{place}" for place, each in enumerate(shown)]
    raw = f"SELECT {first}{', '.join(named)} FROM t00{where}{group}"
    figures = None if wrong else [each[1:] for each in items]
    return Question(raw, _processed(rng, first, shown, f"FROM t00{where}{group}"), figures, keys, f"{where}{group}")


def _group(rng: random.Random, keys: Sequence[str]) -> str:
    listed = ", ".join(keys)
    places = ", ".join(str(place) for place in range(1, len(keys) + 1))
    sets = (
        f"ROLLUP ({listed})",
        f"CUBE ({listed})",
        f"GROUPING SETS (({listed}), {f'({keys[0]})' if keys[1:] else '()'})",
    )
    return " GROUP BY " + rng.choice([listed, listed, listed, places, *sets])


def _processed(rng: random.Random, first: str, shown: Sequence[str], rest: str) -> str | None:
    if rng.random() < 0.5:
        return None
    one = rng.choice(shown)
    outer = rng.choice(
        [one, f"{one} + 1", f"{one} > 300", f"{one} / 0", f"1 / ({one} - 300)", f"CASE WHEN {one} > 5 THEN 'x' END"]
    )
    sql = f"SELECT {first}{', '.join(shown)}, {outer} AS f0 {rest}"  # the order of figures matters
    grouped = "GROUP BY" in rest
    if grouped and rng.random() < 0.4:
        sql += f" HAVING {rng.choice([f'{one} > 100', f'{one} IS NULL', 'COUNT(*) > 4', 'COUNT(*) < 3'])}"
    if rng.random() < 0.5:
        sql += f" ORDER BY {one} DESC" + rng.choice(["", " LIMIT 1", " LIMIT 1 OFFSET 1"])
    return sql

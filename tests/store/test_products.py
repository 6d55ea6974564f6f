"""Totals of products: COVAR, CORR and REGR_* of two columns come from them, against exact fractions of the rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from decimal import Context, Decimal
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, permutations
from pathlib import Path

import pytest

import cleave
from cleave.aggregates import AGGREGATES
from cleave.aggregates.moments import Cross
from cleave.ask.question import Answer, Options
from cleave.ckks.owner_key import OwnerKey
from cleave.maintain.alter import Alteration
from cleave.maintain.alter import alter_columns as alter
from cleave.maintain.changes import delete_rows as delete
from cleave.maintain.changes import update_rows as update
from cleave.maintain.derive import derive_expression as derive
from cleave.maintain.derive import derive_products as derive_all
from cleave.maintain.pull import find_damage as verify
from cleave.objects.locate import Folder
from cleave.sql.aligned import aligned, product
from cleave.sql.plan import Argument
from cleave.sql.read import expression_of
from cleave.store.compacting import compact
from cleave.store.manifest import Measure
from cleave.store.measures import of_bounds, unscaled
from cleave.store.products import Product, arguments_of_products, products_of
from cleave.store.reader import Opened
from cleave.store.schemas import load_stored_schema
from cleave.sums.pairs import Pairs
from cleave.table.progress import Silent
from cleave_shared import limits
from cleave_shared.errors import InputError, QueryRefused
from tests.store.asking import planned
from tests.store.scan_asking import Services, ask_by_scan
from tests.store.trial import World, check

SCHEMA = """
[columns.ward]
kind = "plain"
type = "VARCHAR"

[columns.sex]
kind = "sealed"
type = "VARCHAR"
nullable = false

[columns.age]
kind = "encrypted"
type = "INTEGER"
lower = 0
upper = 120
nullable = false

[columns.bill]
kind = "encrypted"
type = "DECIMAL(12,2)"
lower = -5000
upper = 5000

[columns.stay]
kind = "encrypted"
type = "INTEGER"

[columns.weight]
kind = "encrypted"
type = "DOUBLE"
lower = 0
upper = 300

[columns.score]
kind = "encrypted"
type = "FLOAT"
nullable = false
"""
ROWS = """
SELECT CASE WHEN i % 7 < 3 THEN 'north' WHEN i % 7 < 6 THEN 'south' END AS ward,
    CASE WHEN i % 3 = 0 THEN 'm' ELSE 'f' END AS sex,
    CAST(hash(i) % 121 AS INTEGER) AS age,
    CASE WHEN i % 5 = 1 THEN NULL ELSE CAST(hash(i + 1000) % 1000001 / 100 - 5000 AS DECIMAL(12,2)) END AS bill,
    CASE WHEN i % 4 = 2 THEN NULL ELSE CAST(hash(i + 2000) % 4000000001 - 2000000000::HUGEINT AS INTEGER) END AS stay,
    CASE WHEN i % 6 = 3 THEN NULL ELSE (hash(i + 3000) % 300000007) / 1000000.0 END AS weight,
    CAST(hash(i + 4000) % 1000 AS FLOAT) / 7 AS score
FROM range({}) AS t(i)
"""
NUMBERS = ("age", "bill", "score", "stay", "weight")
PAIRED = (
    *("COVAR_POP", "COVAR_SAMP", "CORR", "REGR_COUNT", "REGR_AVGX", "REGR_AVGY", "REGR_SXX", "REGR_SYY", "REGR_SXY"),
    *("REGR_SLOPE", "REGR_INTERCEPT", "REGR_R2"),
)
WIDE = Context(prec=80)


def exact(name: str, y: Sequence[Fraction], x: Sequence[Fraction]) -> Fraction | Decimal | None:
    """The statistic of the pairs; None where it is NULL or NaN."""
    n = len(y)
    if name == "REGR_COUNT":
        return Fraction(n)
    if n == 0 or (n == 1 and name == "COVAR_SAMP"):
        return None
    of_y, of_x = sum(y, Fraction()) / n, sum(x, Fraction()) / n
    syy, sxx = sum((each - of_y) ** 2 for each in y), sum((each - of_x) ** 2 for each in x)
    sxy = sum((one - of_y) * (two - of_x) for one, two in zip(y, x, strict=True))
    simple = {"REGR_AVGX": of_x, "REGR_AVGY": of_y, "REGR_SXX": sxx, "REGR_SYY": syy, "REGR_SXY": sxy}
    if name in simple:
        return Fraction(simple[name])
    if name.startswith("COVAR"):
        return Fraction(sxy) / (n if name == "COVAR_POP" else n - 1)
    if not sxx or not syy:
        return None
    if name == "CORR":
        square = sxy**2 / (sxx * syy)
        root = WIDE.sqrt(WIDE.divide(square.numerator, square.denominator))
        return root if sxy > 0 else -root
    slope = Fraction(sxy) / sxx
    return {"REGR_SLOPE": slope, "REGR_INTERCEPT": of_y - slope * of_x, "REGR_R2": Fraction(sxy) ** 2 / (sxx * syy)}[
        name
    ]


def require_exact(
    world: World, by: Sequence[str], ask: Callable[[str], Answer], pairs: Sequence[tuple[str, str]]
) -> None:
    """All statistics of `pairs` by `by` are the exact ones, within their bounds."""
    numbers = sorted({each for pair in pairs for each in pair})
    listed = [(name, y, x) for y, x in pairs for name in PAIRED]
    figures = ", ".join(f"{name}({y}, {x})" for name, y, x in listed)
    keys = "".join(f"{each}, " for each in by)
    answer = ask(f"SELECT {keys}{figures} FROM {world.name}" + (f" GROUP BY {', '.join(by)}" if by else "")).result
    assert {each.source for each in answer.columns[len(by) :]} == {"encrypted"}
    groups: dict[tuple[object, ...], list[dict[str, Fraction | None]]] = {} if by else {(): []}
    found = world.oracle.execute(f"SELECT {keys}{', '.join(numbers)} FROM {world.name}").fetchall()
    for row in found:
        values = {each: None if v is None else Fraction(v) for each, v in zip(numbers, row[len(by) :], strict=True)}
        groups.setdefault(tuple(row[: len(by)]), []).append(values)
    assert {tuple(row[: len(by)]) for row in answer.rows} == {*groups}
    for row, bounds in zip(answer.rows, answer.bounds, strict=True):
        rows = groups[tuple(row[: len(by)])]
        for (name, y, x), value, bound in zip(listed, row[len(by) :], bounds[len(by) :], strict=True):
            both = [(each[y], each[x]) for each in rows if each[y] is not None and each[x] is not None]
            wanted = exact(name, *(tuple(of) for of in zip(*both, strict=True))) if both else exact(name, (), ())
            if wanted is None:
                assert value is None or math.isnan(float(str(value)))
                continue
            assert isinstance(value, int | float)
            off = abs(WIDE.subtract(Decimal(value), _decimal(wanted)))
            assert off <= Decimal(bound or 0) + abs(Decimal(value)) / 2**52
            assert off <= abs(_decimal(wanted)) / 10**6 + Decimal("1e-6")  # the bound is of use


def _decimal(value: Fraction | Decimal) -> Decimal:
    return value if isinstance(value, Decimal) else WIDE.divide(value.numerator, value.denominator)


@pytest.fixture
def world(tmp_path: Path, key: OwnerKey) -> Iterator[World]:
    world = World(Folder(tmp_path / "s"), key, tmp_path, Folder(tmp_path / "p"))
    yield world
    world.oracle.close()


def derive_products(world: World, *columns: str) -> Opened:
    return derive_all(world.tables, world.name, columns, Silent())


def names(world: World) -> list[str]:
    return [each.name for each in world.tables.open(world.name).manifest.measures if each.derived]


SUBSETS: list[tuple[str, ...]] = [(), ("ward",), ("sex",), ("ward", "sex")]


def test_the_statistics_of_two_columns_come_from_totals(world: World) -> None:
    world.write(world.make(ROWS.format(40), SCHEMA), "ward")
    derive_products(world, "bill", "score", "weight")
    pairs = [("bill", "score"), ("weight", "bill"), ("score", "weight"), ("bill", "bill")]
    require_exact(world, ("ward",), world.ask, pairs)


@pytest.mark.slow  # the test above has three columns and one set of keys
def test_every_statistic_of_two_columns_comes_from_totals(world: World) -> None:
    world.write(world.make(ROWS.format(60), SCHEMA), "ward", "sex")
    derive_products(world, *NUMBERS)
    for by in SUBSETS:
        require_exact(world, by, world.ask, [*permutations(NUMBERS, 2), ("bill", "bill"), ("age", "age")])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("appended", [False, True])
def test_without_products_rows_are_read(world: World, appended: bool) -> None:
    world.write(world.make(ROWS.format(20), SCHEMA), "ward")
    if appended:
        derive_products(world, "age", "score")
    for pair in ("bill, age", "age, bill", "bill, stay"):
        for name in ("CORR", "COVAR_POP", "REGR_SLOPE"):
            plan = planned(world.stored(), f"SELECT {name}({pair}) FROM trial")
            assert [each.source for each in plan.outputs] == ["local"]
    sources = planned(
        world.stored(), "SELECT REGR_COUNT(bill, age), REGR_AVGY(bill, age), REGR_SYY(bill, age) FROM trial"
    )
    assert [each.source for each in sources.outputs] == ["encrypted"] * 3  # the bill alone has them


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("figure", "helps"),
    [
        ("CORR(age, score)", True),
        ("SUM(age * bill)", True),
        ("SUM(CASE WHEN stay IS NOT NULL THEN age END)", True),
        ("CORR(age, age + 1)", False),  # products are of columns alone
        ("SUM(age * bill * stay)", False),
        ("SUM(age * length(sex))", False),
        ("SUM(CASE WHEN sex IS NOT NULL THEN age END)", False),  # no number
        ("MEDIAN(age)", False),
    ],
)
def test_a_refusal_names_the_command_where_it_helps(world: World, key_file: Path, figure: str, helps: bool) -> None:
    world.write(world.make(ROWS.format(20), SCHEMA), "ward")
    given = {"store": f"{world.stores.sensitive.location},{world.stores.plain.location}", "key": key_file}
    with pytest.raises(QueryRefused) as caught:
        cleave.query("trial", f"SELECT {figure} FROM trial", cloud_only=True, **given)
    assert str(caught.value).endswith("; `cleave derive --products` keeps them") is helps


@pytest.mark.sampled(3)
@pytest.mark.parametrize("product", ["age * stay", "stay * age", "CASE WHEN bill IS NOT NULL THEN stay * age END"])
def test_a_refusal_names_the_product_that_is_kept(world: World, key_file: Path, product: str) -> None:
    """DuckDB's own type of a product may be too small, so totals are those of a wider one."""
    world.write(world.make(ROWS.format(20), SCHEMA), "ward", products=("age", "stay", "bill"))
    given = {"store": f"{world.stores.sensitive.location},{world.stores.plain.location}", "key": key_file}
    with pytest.raises(QueryRefused) as caught:
        cleave.query("trial", f"SELECT SUM({product}) FROM trial", cloud_only=True, **given)
    _, wide = str(caught.value).split("; `cleave derive --products` keeps those of ")
    assert wide == 'CAST("age" AS BIGINT) * "stay"'
    for sum_of in (wide, f"CASE WHEN bill IS NOT NULL THEN {wide} END"):
        answer = cleave.query("trial", f"SELECT SUM({sum_of}) FROM trial", cloud_only=True, **given)
        assert answer.sources == ("encrypted",)


def test_put_keeps_them_from_the_start_and_what_is_added_later_has_them(world: World) -> None:
    world.write(world.make(ROWS.format(30), SCHEMA), "sex", products=("bill", "age", "weight"))
    assert {"age*bill", "age*weight", "bill*weight"} <= {*names(world)}
    world.write(world.make(ROWS.format(47), SCHEMA), append=True)
    world.oracle.execute(f"INSERT INTO trial {ROWS.format(30)}")
    require_exact(world, ("sex",), world.ask, list(permutations(("age", "bill", "weight"), 2)))


@pytest.mark.slow  # quick: refusals name what is kept, above
def test_a_derived_column_is_not_kept_again_as_a_product(world: World) -> None:
    schema = f'{SCHEMA}\n[derived.both]\nsql = "age * bill"\n'
    world.write(world.make(ROWS.format(10), schema), products=("age", "bill"))
    assert names(world) == ["both", "age if bill"]
    require_exact(world, (), world.ask, [("age", "bill")])


def test_bounds_are_not_widened_beyond_products(world: World) -> None:
    world.write(world.make(ROWS.format(10), SCHEMA), products=("age", "bill", "stay"))
    before = world.tables.open("trial").manifest
    wider = ["bill=DECIMAL(38,2)", "bill=-1e35..1e35"]
    with pytest.raises(InputError, match="columns 'age' and 'bill': their products may not fit 38 digits") as caught:
        alter(world.tables, "trial", Alteration(widen=wider), Silent())
    assert caught.value.hint.startswith("`cleave put --replace` without --products stores the table anew")
    assert world.tables.open("trial").manifest == before


@pytest.mark.slow  # quick: the first tests have products of columns that may be null
def test_names_say_over_which_rows(world: World) -> None:
    world.write(world.make(ROWS.format(10), SCHEMA))
    derive_products(world, "bill", "age")
    assert names(world) == ["age*bill", "age if bill"]
    derive_products(world, "weight", "age", "bill")
    assert names(world)[2:] == [
        *("age*weight", "age if weight", "bill*weight", "bill if weight", "weight if bill", "age if bill and weight"),
        *("age*bill if weight", "age*weight if bill"),
    ]
    with pytest.raises(InputError, match="products of age, weight are stored already"):
        derive_products(world, "age", "weight")
    derive(world.tables, "trial", "age * score", "mine", Silent())
    with pytest.raises(InputError, match="column 'age\\*bill' already exists"):
        derive(world.tables, "trial", "bill * 2", "age*bill", Silent())
    derive_products(world, "score", "age")
    assert names(world)[-2:] == ["mine", "age*score"]  # the score is cast to a DOUBLE before


@pytest.mark.slow  # quick: tests/functional/test_fit_stored.py asks without rows
def test_all_that_models_ask_is_kept(world: World) -> None:
    """By the one spelling of products and of aligned expressions."""
    world.write(world.make(ROWS.format(40), SCHEMA), "ward")
    derive_products(world, *NUMBERS)
    schema = load_stored_schema(world.tables.open("trial").manifest)
    for few in (NUMBERS, ("bill", "stay")):
        columns = [schema.column(each) for each in few]
        nullable = [each.name for each in columns if each.nullable]
        expressions = [aligned(f'"{each}"', nullable) for each in few]
        for one, two in combinations_with_replacement(columns, 2):
            both = product((one, two))
            assert both is not None
            expressions.append(aligned(both, nullable))
        figures = ", ".join(f"SUM({each}), COUNT({each}), AVG({each})" for each in expressions)
        sql = f"SELECT ward, {figures} FROM trial GROUP BY ward ORDER BY ward"
        answer = world.ask(sql).result
        assert {column.source for column in answer.columns[1:]} == {"encrypted"}
        check(answer.rows, answer.bounds, world.oracle.execute(sql).fetchall())


def test_after_changes_they_are_those_of_the_rows(world: World) -> None:
    world.write(world.make(ROWS.format(50), SCHEMA), "ward", "sex")
    derive_products(world, "age", "bill", "stay")
    world.write(world.make(ROWS.format(80), SCHEMA), append=True)
    world.oracle.execute(f"INSERT INTO trial {ROWS.format(50)}")
    for where in ("age > 100", "sex = 'm' AND bill IS NULL"):
        delete(world.tables, "trial", where, Silent(), yes=True)
        world.oracle.execute(f"DELETE FROM trial WHERE {where}")
    update(world.tables, "trial", {"bill": "bill / 2", "stay": "NULL"}, "age < 20", Silent(), yes=True)
    world.oracle.execute("UPDATE trial SET bill = bill / 2, stay = NULL WHERE age < 20")
    compact(world.tables, "trial", Silent())
    require_exact(world, ("sex", "ward"), world.ask, [("age", "bill"), ("stay", "bill")])


@pytest.mark.slow  # quick: the next test drops and renames, `test_after_changes_they_are_those_of_the_rows`
def test_altered_columns_keep_their_products(world: World) -> None:
    """Renamed ones, wider ones, and those that stay if others are dropped."""
    world.write(world.make(ROWS.format(30), SCHEMA), "ward")
    derive_products(world, "age", "bill", "weight", "score")
    derive(world.tables, "trial", "age * 2", "twice", Silent())
    before = world.tables.open("trial").manifest
    alter(world.tables, "trial", Alteration(rename=["bill=zebra", "weight=apple"]), Silent())
    after = world.tables.open("trial").manifest
    assert [each.totals for each in after.segments] == [each.totals for each in before.segments]
    world.oracle.execute("ALTER TABLE trial RENAME bill TO zebra; ALTER TABLE trial RENAME weight TO apple")
    renamed = ("age", "zebra", "score", "apple")
    require_exact(world, ("ward",), world.ask, list(combinations(renamed, 2)))
    wider = ["zebra=-9000..9000", "age=0..100000", "apple=0..100000", "zebra=DECIMAL(20,4)"]
    alter(world.tables, "trial", Alteration(widen=wider, drop=["score", "stay"]), Silent())
    left = ("apple", "zebra", "age")
    assert not any("score" in each for each in names(world))
    require_exact(world, ("ward",), world.ask, list(combinations(left, 2)))
    alter(world.tables, "trial", Alteration(drop=["zebra"], by=["sex"]), Silent())
    assert names(world) == ["twice", "age*apple", "age if apple"]
    require_exact(world, ("sex",), world.ask, [("apple", "age")])
    with pytest.raises(InputError, match=r"two columns 'age\*apple', one a product"):
        alter(world.tables, "trial", Alteration(add=["age*apple BIGINT encrypted"]), Silent())


@pytest.mark.parametrize("scan", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_product_is_dropped_by_its_name(world: World, scan: bool) -> None:
    """As `show` prints it, alone or with a change of columns; what stays is exact, and what went needs rows."""
    world.write(world.make(ROWS.format(40), SCHEMA), "ward", products=("age", "bill", "weight"), scan=scan)
    before, plain = names(world), [each.plain for each in world.tables.open("trial").manifest.segments]
    with pytest.raises(InputError, match=r"'bill\*age'"):
        alter(world.tables, "trial", Alteration(drop=["bill*age"]), Silent())
    done = alter(world.tables, "trial", Alteration(drop=["AGE*bill", "age if bill and weight"]), Silent())
    assert names(world) == [each for each in before if each not in ("age*bill", "age if bill and weight")]
    assert [each.plain for each in done.manifest.segments] == plain
    require_exact(world, ("ward",), world.ask, [("bill", "weight"), ("weight", "age")])
    (output,) = planned(world.stored(), "SELECT CORR(age, bill) FROM trial").outputs
    assert output.source == "local"
    assert verify(world.stored(), Silent()) == []
    gone = [each for each in names(world) if "weight" in each]
    alter(world.tables, "trial", Alteration(drop=["stay", *gone], rename=["bill=cost"]), Silent())
    assert names(world) == ["age if cost"]
    derive_products(world, "age", "cost")
    world.oracle.execute("ALTER TABLE trial RENAME bill TO cost")
    require_exact(world, ("ward",), world.ask, [("age", "cost")])


@pytest.mark.slow  # quick: test_scan_more.py, of squares and derived columns
def test_scans_have_them_too(world: World) -> None:
    world.write(world.make(ROWS.format(40), SCHEMA), "sex", products=("bill", "age"), scan=True)

    def ask(sql: str) -> Answer:
        with closing(world.stored()) as stored:
            return ask_by_scan(stored, Services(world.stores), sql)

    require_exact(world, ("ward",), ask, [("age", "bill"), ("bill", "age")])


@pytest.mark.slow  # quick: the first test groups by them
def test_a_filter_over_by_columns(world: World) -> None:
    world.write(world.make(ROWS.format(40), SCHEMA), "ward", "sex")
    derive_products(world, "age", "bill")
    filtered = "COVAR_POP(age, bill) FILTER (WHERE ward = 'north')"
    sql = f"SELECT sex, {filtered}, CORR(age, bill) FROM trial GROUP BY sex ORDER BY sex"
    answer = world.ask(sql).result
    assert [each.source for each in answer.columns[1:]] == ["encrypted"] * 2
    for row, wanted in zip(answer.rows, world.oracle.execute(sql).fetchall(), strict=True):
        assert row[1:] == [pytest.approx(each, rel=1e-9) for each in wanted[1:]]
    other = planned(world.stored(), "SELECT COVAR_POP(age, bill) FILTER (WHERE bill > 3) FROM trial")
    assert [each.source for each in other.outputs] == ["local"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["age"], "two columns at least"),
        (["age", "age"], "two columns at least"),
        (["age", "ward"], "'ward' is plain VARCHAR, and only encrypted numbers have totals of products"),
        (["age", "sex"], "'sex' is sealed VARCHAR"),
        (["age", "Twice"], "'Twice' is derived"),
        (["age", "nothing"], "'nothing'"),
        (["stay", "huge"], "'huge' and 'stay': their products may not fit 38 digits"),
    ],
)
def test_what_has_no_products_is_refused(columns: list[str], said: str) -> None:
    import tomllib  # noqa: PLC0415

    from cleave.table.schema import read_schema  # noqa: PLC0415

    huge = '\n[columns.huge]\nkind = "encrypted"\ntype = "DECIMAL(38,10)"\n'
    derived = '\n[derived.twice]\nsql = "2 * age"\n'
    with pytest.raises(InputError, match=said):
        products_of(read_schema(tomllib.loads(SCHEMA + huge + derived), "t"), columns)


@pytest.mark.slow  # quick: the first test, of three such columns
def test_many_columns_that_may_be_null_have_products() -> None:
    """The texts of 40 expressions over 40 such columns are longer than a statement may be."""
    import tomllib  # noqa: PLC0415

    from cleave.table.schema import read_schema  # noqa: PLC0415

    column = '[columns.{}]\nkind = "encrypted"\ntype = "INTEGER"\nlower = 0\nupper = 9\n'
    schema = read_schema(tomllib.loads("".join(column.format(f"c{each}") for each in range(40))), "t")
    names = tuple(sorted(schema.names))
    wide = [Product((each,), tuple(other for other in names if other != each)) for each in names]
    assert sum(len(each.sql(schema)) for each in wide) > limits.MAX_SQL_CHARS
    arguments = arguments_of_products(schema, wide)
    assert len(arguments) == len({each.sql for each in arguments}) == 40


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("other", "roundings"), [("DOUBLE", 1), ("FLOAT", 1), ("DECIMAL(9,2)", 3), ("BIGINT", 3)])
def test_the_bound_includes_the_rounding_of_each_product(other: str, roundings: int) -> None:
    def measure(sql: str, type_: str, upper: int, decimals: int | None = None) -> Measure:
        argument = Argument(sql, type_, decimals, (), lower=0, upper=upper, nullable=False)
        bounded = of_bounds(unscaled(sql, argument, derived="*" in sql))
        assert bounded is not None
        return bounded

    decimals = {"DECIMAL(9,2)": 2, "BIGINT": 0}.get(other)
    measures = [measure("x", "DOUBLE", 1000), measure("y", other, 1000, decimals), measure("x * y", "DOUBLE", 10**6)]
    pair = Pairs(measures).of(expression_of("x"), expression_of("y"))
    assert pair is not None
    assert pair.lost >= Fraction(roundings * 10**6, 2**53)
    aggregate = AGGREGATES["COVAR_POP"]
    totals = dict.fromkeys(pair.needs(aggregate, measures), 0)
    with_it, without = (each.moments(aggregate, measures)(totals, 5)[Cross()] for each in (pair, replace(pair, lost=0)))
    assert with_it.bound == without.bound + 5 * pair.lost  # type: ignore[operator]


def test_a_product_of_floats_is_too_coarse() -> None:
    measures = [
        unscaled(sql, Argument(sql, "FLOAT", None, (), lower=0, upper=9, nullable=False)) for sql in ("x", "y", "x * y")
    ]
    pair = Pairs(measures).of(expression_of("x"), expression_of("y"))
    assert pair is not None
    assert pair.product is None


def test_a_threshold_counts_the_rows_of_both_columns(world: World, key_file: Path) -> None:
    """By reading rows where a column may be NULL, as for other aggregates; else totals answer."""
    nulls = "CASE WHEN ward = 'north' AND age > 20 THEN NULL ELSE bill END"
    world.write(world.make(f"SELECT * REPLACE ({nulls} AS bill) FROM ({ROWS.format(60)})", SCHEMA), "ward", "sex")
    derive_products(world, "age", "bill", "score")
    select, groups = "SELECT ward, COUNT(*), ", " FROM trial GROUP BY ward ORDER BY ward"
    both = f"{select}COVAR_POP(age, bill), REGR_COUNT(bill, age){groups}"
    never_null = f"{select}COVAR_POP(age, score), SUM(age * age){groups}"
    threshold, expected = Options(min_group=9), world.oracle.execute(never_null).fetchall()
    with world.session(key_file) as session:
        hidden = session.ask(session.plan(both, threshold)).result
        shown = session.ask(session.plan(never_null, threshold, cloud_only=True)).result
        with pytest.raises(QueryRefused, match="counts the rows that have a value"):
            session.plan(both, threshold, cloud_only=True)
    (few,) = (place for place, row in enumerate(hidden.rows) if row[0] == "north")
    assert hidden.rows[few][2:] == [None, None]
    assert [each.source for each in shown.columns][2:] == ["encrypted"] * 2
    assert min(row[1] for row in expected) < 9
    check(shown.rows, shown.bounds, [each for each in expected if each[1] >= 9])


@pytest.mark.slow  # test_all_that_models_ask_is_kept has all its sums
def test_a_model_needs_no_rows(world: World, key_file: Path) -> None:
    """Even of columns that may be NULL; it is the model of the file."""
    world.write(world.make(ROWS.format(80), SCHEMA), "ward")
    derive_products(world, "age", "bill", "weight")
    formula = "bill ~ age + weight + C(ward)"
    given = {"store": f"{world.stores.sensitive.location},{world.stores.plain.location}", "key": key_file}
    fitted = cleave.fit("trial", formula, cloud_only=True, **given)
    assert str(fitted) == str(cleave.fit(world.root / "trial.parquet", formula, key=key_file))


WIDE_SCHEMA = """
[columns]
ward = { type = "VARCHAR", kind = "plain" }
x = { type = "DOUBLE", kind = "encrypted", lower = -1e308, upper = 1e308 }
y = { type = "DOUBLE", kind = "encrypted", lower = -1e308, upper = 1e308 }
"""


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore::cleave.UndecidedWarning")
@pytest.mark.parametrize("size", [1.0, 1e150, 1e308])
@pytest.mark.parametrize("is_stored", [False, True])
def test_doubles_declared_too_wide_have_a_bound_or_a_reason(
    size: float, is_stored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    rows = [(size * a, size * b) for a, b in ((1, -1), (-0.7, 0.3), (0.2, 0.9), (0.5, -0.4))]
    Path("t.csv").write_text("ward,x,y\n" + "".join(f"a,{x!r},{y!r}\n" for x, y in rows))
    Path("t.schema.toml").write_text(WIDE_SCHEMA)
    figures = "COVAR_POP(x, y), COVAR_SAMP(x, y), REGR_SXY(x, y), REGR_AVGX(x, y)"
    if not is_stored:
        answer = cleave.query("t.csv", f"SELECT {figures} FROM t", cloud_only=True)
    else:
        if size == 1e308:
            pytest.skip("a product of them is no DOUBLE, so its totals cannot be stored")
        cleave.create_key(tmp_path / "key.json", None)
        place = {"store": "store", "key": "key.json"}
        cleave.put("t.csv", "t", by=["ward"], **place)
        cleave.derive("t", products=["x", "y"], **place)
        answer = cleave.query("t", f"SELECT {figures} FROM t", cloud_only=True, **place)
    one, two = ([Fraction(each) for each in column] for column in zip(*rows, strict=True))
    names = ("COVAR_POP", "COVAR_SAMP", "REGR_SXY", "REGR_AVGX")
    for number, (name, value, bound) in enumerate(zip(names, answer.rows[0], answer.bounds[0], strict=True), 1):
        said = [each for each in answer.warnings if each.startswith(f"SELECT item {number} ")]
        if bound is not None:
            assert abs(Fraction(value) - Fraction(exact(name, one, two))) <= Fraction(bound)
            assert not said
            continue
        assert math.isnan(value) if is_stored else value == -math.inf
        assert len(said) == 1
        assert '`lower` and `upper` for "x" and "y"' in said[0]
    assert (answer.bounds[0][0] is None) == (is_stored or size == 1e308)
    assert answer.bounds[0][3] is not None

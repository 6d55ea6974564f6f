"""Measures of products of columns, which `put --products` and `cleave derive --products` keep.

Of two columns a and b, the table keeps totals of a * b. If b may be NULL, it also keeps those of a in the rows where b
has a value, since COVAR_*, CORR and REGR_* count only rows with both. A model of all columns counts only rows with all
of them, so columns and products are also kept over these. No question names such a measure: it is found by its SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations

from cleave.sql.aligned import aligned, product
from cleave.sql.nodes import Case, ColumnRef
from cleave.sql.plan import Argument
from cleave.sql.read import canonical, expression_of, spellings
from cleave.store import measures as of_measures
from cleave.store.manifest import Measure
from cleave.store.schemas import arguments_of, half_of
from cleave.table.duck import identifier
from cleave.table.schema import Schema
from cleave.table.stream import Extent
from cleave.table.types import is_number
from cleave_shared.errors import InputError

_AT_ONCE = 40  # expressions of a statement
_CHARACTERS = 10_000  # of their texts, half of what a statement may have

Extents = Callable[[Sequence[Argument]], Sequence[Extent | None]]


@dataclass(frozen=True, slots=True)
class Product:
    """The product of `factors`, or one column, in the rows where the columns `over` also have a value. Both are names
    in their order.
    """

    factors: tuple[str, ...]
    over: tuple[str, ...]

    @property
    def name(self) -> str:
        """The measure's name, such as "age*bill if weight and stay"."""
        return "*".join(self.factors) + (f" if {' and '.join(self.over)}" if self.over else "")

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.factors, *self.over)

    def value(self, schema: Schema) -> str:
        """SQL of the product in every row. Raises InputError if it may not fit its type."""
        if len(self.factors) == 1:
            return identifier(self.factors[0])
        value = product([schema.column(each) for each in self.factors])
        if value is None:
            raise InputError(
                f"columns {' and '.join(map(repr, self.factors))}: their products may not fit 38 digits",
                hint="put the table with closer bounds (`lower` and `upper` in the schema), or leave one of them out",
            )
        return value

    def sql(self, schema: Schema) -> str:
        return aligned(self.value(schema), self.over)

    def renamed(self, news: Mapping[str, str]) -> Product:
        """The same product after columns were renamed. `news`: new names by old ones in lower case."""
        factors, over = (sorted(news.get(each.lower(), each) for each in of) for of in (self.factors, self.over))
        return Product(tuple(factors), tuple(over))


def products_in(measures: Sequence[Measure], schema: Schema) -> dict[str, Product]:
    """The products among the measures of a table, by the measure's name. `schema`: the table's."""
    own = {each.name for each in schema.derived}
    return {each.name: _product_in(each.sql) for each in measures if each.derived and each.name not in own}


def _product_in(sql: str) -> Product:
    """Read the SQL of a product's measure."""
    node, over = expression_of(sql), []
    if isinstance(node, Case):
        ((condition, node),) = node.branches
        over = [column.name for column in condition.find(ColumnRef)]
    return Product(tuple(column.name for column in node.find(ColumnRef)), tuple(over))


def products_of(schema: Schema, names: Sequence[str], stored: Sequence[Measure] = ()) -> list[Product]:
    """The products of columns that a table needs besides its measures `stored`.

    Raises InputError for fewer than two columns, for one that is no encrypted number, for a product that may not fit
    its type, and for one whose name another column has.
    """
    columns = _columns(schema, names)
    own = (*(identifier(each.name) for each in schema.columns), *(each.sql for each in stored))
    known = set(spellings(own))
    taken = {each.lower() for each in (*schema.names, *(each.name for each in stored))}
    products = []
    for needed in _wanted(schema, columns):
        spelled = canonical(expression_of(needed.sql(schema)))
        if spelled in known:
            continue
        if needed.name.lower() in taken:
            raise InputError(
                f"column {needed.name!r} already exists, and is not the product of that name",
                hint="give the column another name",
            )
        known.add(spelled)
        products.append(needed)
    return products


def _columns(schema: Schema, names: Sequence[str]) -> list[str]:
    """The columns in their order, each once."""
    derived = {each.name.lower() for each in schema.derived}
    for name in names:
        if name.lower() in derived:
            raise InputError(f"column {name!r} is derived, and only stored columns have totals of products")
        each = schema.column(name)
        if half_of(each) != "encrypted" or not is_number(each.type):
            raise InputError(
                f"column {each.name!r} is {each.kind} {each.type}, and only encrypted numbers have totals of products",
                hint="store it as a whole number, 0 or 1" if each.type == "BOOLEAN" else "",
            )
    columns = sorted({schema.column(each).name for each in names})
    if len(columns) < 2:
        raise InputError("products are of two columns at least", hint="name them with commas: --products age,bill")
    return columns


def _wanted(schema: Schema, columns: Sequence[str]) -> list[Product]:
    """All products, some of them twice."""

    def over(factors: tuple[str, ...], others: Collection[str]) -> Product:
        nullable = (each for each in others if schema.column(each).nullable and each not in factors)
        return Product(factors, tuple(nullable))

    wanted = []
    for pair in combinations(columns, 2):
        wanted += [over(pair, ()), *(over((each,), pair) for each in pair)]
    wanted += [over((each,), columns) for each in columns]
    return wanted + [over(pair, columns) for pair in combinations(columns, 2)]


def arguments_of_products(schema: Schema, products: Sequence[Product]) -> list[Argument]:
    """The arguments of sums of products. Raises InputError for a product that may not fit its type."""
    texts = [each.sql(schema) for each in products]
    arguments: list[Argument] = []
    while len(arguments) < len(texts):
        waiting = texts[len(arguments) :][:_AT_ONCE]
        fit = sum(length <= _CHARACTERS for length in accumulate(map(len, waiting)))
        arguments += arguments_of(schema, waiting[: max(fit, 1)])
    return arguments


def measures_of_products(
    schema: Schema, products: Sequence[Product], measures: Sequence[Measure], extents: Extents
) -> list[Measure]:
    """The measures of `products`. `extents`: called for doubles without bounds, whose scale depends on rows.

    `measures`: those of the table. A column in some rows only has the scale that it has in all rows.
    """
    arguments = arguments_of_products(schema, products)
    made = [of_measures.unscaled(each.name, of, derived=True) for each, of in zip(products, arguments, strict=True)]
    scales = {canonical(expression_of(each.sql)): each for each in measures}
    whole = [Product(each.factors, ()) for each in products]
    unknown: dict[Product, Argument] = {}
    for each, measure in zip(whole, made, strict=True):
        if of_measures.of_bounds(measure) is None and canonical(expression_of(each.value(schema))) not in scales:
            unknown.setdefault(each, arguments_of(schema, [each.value(schema)])[0])
    for each, argument, extent in zip(unknown, unknown.values(), extents([*unknown.values()]), strict=True):
        scales[canonical(expression_of(argument.sql))] = of_measures.measure_of(each.name, argument, extent)
    scaled = []
    for whole_product, measure in zip(whole, made, strict=True):
        bounded = of_measures.of_bounds(measure)
        if bounded is None:
            like = scales[canonical(expression_of(whole_product.value(schema)))]
            bounded = measure.model_copy(update={"centre": like.centre, "exponent": like.exponent})
        scaled.append(bounded)
    return scaled

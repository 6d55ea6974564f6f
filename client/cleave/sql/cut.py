"""Cuts a resolved question into the parts of a QueryPlan."""

from __future__ import annotations

from collections.abc import Iterable

from cleave.aggregates import AGGREGATES
from cleave.sql.catalog import Catalog
from cleave.sql.cut_types import Asked, Types, places_of
from cleave.sql.encryptable import (
    SUPPORTED,
    not_declared,
    over,
    selected_by,
    single_value,
    stays_here,
)
from cleave.sql.functions import FOLLOWS_ROW_ORDER
from cleave.sql.here import LocalParts
from cleave.sql.kept import Kept
from cleave.sql.nodes import NULL, Call, Case, Column, Node, Ordered, Place, integer
from cleave.sql.parse import Question
from cleave.sql.plan import (
    Final,
    LocalAggregate,
    Output,
    QueryPlan,
    Source,
    grouped_by,
)
from cleave.sql.resolve import Resolved, columns_of, has_aggregate, is_aggregate, is_grouping
from cleave.sql.temporal import mean
from cleave.sql.uncut import OnlyHere, Uncut
from cleave.sql.write import write
from cleave.table import schema as of_schema
from cleave.table.schema import Kind, Schema
from cleave_shared import limits
from cleave_shared.errors import QueryRefused
from cleave_shared.plain_functions import ALLOWED_FUNCTIONS


class _Again(Exception):  # noqa: N818 - no error: something came up that the cut has to begin anew with
    pass


class Cutter:
    """`cloud_only`: what no service can compute is refused, else it is computed here. `divided`: so is what the plain
    service cannot compute of the parts of a group. `kept`: the table is stored, and of what follows from this no row is
    read; its services answer over what is stored, and nothing of it is sent to them.
    """

    def __init__(
        self,
        question: Question,
        resolved: Resolved,
        schema: Schema,
        catalog: Catalog,
        *,
        cloud_only: bool = False,
        divided: bool = False,
        kept: Kept | None = None,
    ) -> None:
        self._question = question
        self._kept = kept
        self._cloud_only = cloud_only
        self._divided = divided
        self._resolved = resolved
        self._schema = schema
        self._catalog = catalog

        # a constant stays one, unless a set leaves it out: some functions take nothing else
        def stays_key(key: Node) -> bool:
            return key.has(Column) or resolved.sets is not None

        self._keys = {write(key): f"k{i}" for i, key in enumerate(resolved.keys) if stays_key(key)}
        self._asked = Asked({})
        self._selecting = [*resolved.keys, *([resolved.where] if resolved.where is not None else [])]
        # the column that tells which rows are meant and is not plain, if there is one: the plain service must not know
        self._hidden = next(
            (c for node in self._selecting for c in columns_of(node, schema) if c.kind != Kind.PLAIN), None
        )
        self._here = LocalParts(schema, catalog)
        names = self._names(self._selecting)
        self._groups_from_rows = kept.groups(names) if kept else ""  # why groups are made of rows of a stored table
        self._no_plain = kept.plain(names) if kept else ""  # why the plain service is not asked over a stored table

    def plan(self) -> QueryPlan:
        while True:
            known = len(self._asked.refused)
            try:
                return self._plan()
            except OnlyHere:
                if self._cloud_only or len(self._asked.refused) == known:
                    raise
            except _Again:
                pass
            self._asked = Asked(self._asked.refused)
            self._here = LocalParts(self._schema, self._catalog)

    def _plan(self) -> QueryPlan:
        question, resolved = self._question, self._resolved
        self._refuse_rows()
        for key in resolved.keys:
            _refuse_aggregate(key, "GROUP BY", "group by columns")
        if resolved.where is not None:
            _refuse_aggregate(resolved.where, "WHERE", "HAVING filters groups by their aggregates")
        items = [self._final(item.expression) for item in resolved.items]
        having = self._final(resolved.having) if resolved.having is not None else None
        # a number standing alone would be the place of an output
        order_by = [
            self._ordering(each)
            for each in resolved.orderings
            if each.expression.has(Column) or each.expression.has(Call)
        ]

        described = self._catalog.describe(question.text)
        where = write(resolved.where) if resolved.where is not None else None
        key_types = self._catalog.types([write(key) for key in resolved.keys])
        keys = tuple(
            write(key) if key.has(Column) else f"CAST({write(key)} AS {type_})"  # never the place of an output
            for key, type_ in zip(resolved.keys, key_types, strict=True)
        )
        for each in self._selecting if self._hidden is None and not self._no_plain else ():
            if unknown := self._catalog.functions(write(each)) - ALLOWED_FUNCTIONS:
                reason = f"the plain service does not compute {min(unknown)}()"
                if self._kept is None:
                    raise Uncut(reason)
                self._no_plain = reason
                raise _Again
        types = Types(self._asked, self._catalog, self._schema, self._kept, resolved.sets, divided=self._divided)
        arguments = types.arguments()
        encrypted = types.encrypted(arguments)
        plain = types.plain()
        local = self._here.typed(grouped_by(keys, resolved.sets))
        finals = types.finals(items, described, key_types, plain, encrypted, local)
        asked = self._asked.encrypted or self._asked.plain or not local or any(_reads(item, "n") for item in items)
        sent = [*self._selecting, *self._asked.plain.values()] if asked and not self._hidden else []
        elsewhere: Source = "plain" if sent else "local"
        if self._kept is not None:
            sent, elsewhere = self._asked_over_stored(sent, local)
        outputs = tuple(
            self._output(name, final, _source(final, item, elsewhere))
            for (name, _), final, item in zip(described, finals, items, strict=True)
        )
        plan = QueryPlan(
            sql=question.text,
            table=question.table,
            where=where,
            keys=keys,
            key_types=key_types,
            selecting=self._names(self._selecting),
            plain_columns=self._names(sent),
            arguments=arguments,
            encrypted=encrypted,
            plain=plain,
            outputs=outputs,
            finals=finals,
            having=write(having) if having is not None else None,
            order_by=tuple(order_by),
            limit=question.limit,
            offset=question.offset,
            sets=resolved.sets,
            groupings=tuple(self._asked.groupings),
            local=local,
        )
        if max(len(plan.keys), sum(len(each.parts) for each in plan.plain)) > limits.MAX_EXPRESSIONS:
            raise QueryRefused(
                "the plain half asks for too many expressions", hint=f"at most {limits.MAX_EXPRESSIONS} at a time"
            )
        return plan

    def _output(self, name: str, final: Final, source: Source) -> Output:
        reason = str(self._here.reasons.get(final.sql, ""))
        return Output(name, source, reason or (self._groups_from_rows if source == "local" else ""))

    def _asked_over_stored(self, sent: list[Node], local: tuple[LocalAggregate, ...]) -> tuple[list[Node], Source]:
        """What the plain service reads of a stored table, and where numbers of rows come from.

        Raises OnlyHere where rows are needed and must not be fetched.
        """
        if not self._groups_from_rows:
            return (sent if self._asked.plain else []), self._kept.counts if self._kept else "encrypted"
        if sent and not self._no_plain and not local:
            return sent, "plain"
        if self._cloud_only:
            raise OnlyHere(self._groups_from_rows)
        return (sent if self._asked.plain else []), "local"

    def _names(self, nodes: Iterable[Node]) -> tuple[str, ...]:
        read = {column.name for node in nodes for column in columns_of(node, self._schema)}
        return tuple(column.name for column in self._schema.columns if column.name in read)

    def _encrypted_in(self, node: Node) -> str | None:
        """The name of the first encrypted column `node` reads."""
        return next((c.name for c in columns_of(node, self._schema) if c.kind is Kind.ENCRYPTED), None)

    def _unseen_in(self, node: Node) -> of_schema.Column | None:
        """The first encrypted column `node` reads, else the first that is not plain."""
        unseen = [column for column in columns_of(node, self._schema) if column.kind is not Kind.PLAIN]
        return min(unseen, key=lambda column: column.kind is not Kind.ENCRYPTED, default=None)

    # what is refused before anything else

    def _refuse_rows(self) -> None:
        resolved = self._resolved
        nodes = [item.expression for item in resolved.items] + [each.expression for each in resolved.orderings]
        if resolved.having is not None:
            nodes.append(resolved.having)
        if self._question.is_grouped or any(has_aggregate(node) for node in nodes):
            return
        for node in nodes:
            if name := self._encrypted_in(node):
                raise single_value(name)
        raise Uncut("the query asks for single rows", hint="ask for aggregates, such as AVG(x), or add GROUP BY ALL")

    # expressions over keys and aggregates

    def _final(self, node: Node, here: str = "") -> Node:
        """`node` over the table of groups: of the services' aggregates, or as a whole one that is computed here.

        `here`: the SQL of what is then computed, if not `node` itself.
        """
        asked = self._asked
        before = dict(asked.arguments), dict(asked.encrypted), dict(asked.plain)
        try:
            return self._of_services(node)
        except OnlyHere as reason:
            if self._cloud_only:
                raise
            # nothing is asked for the sake of this one
            asked.arguments, asked.encrypted, asked.plain = before
            return self._here.add(node, here or write(node), reason)

    def _of_services(self, node: Node) -> Node:
        cut = node.replaced(self._cut)
        names = {column.name for column in cut.find(Column)}
        if any(name[0] == "e" for name in names):
            self._asked.mixed |= {name for name in names if name[0] == "p"}
        return cut

    def _cut(self, node: Node) -> Node | None:
        """What stands for a key or an aggregate in the table of groups; None for an expression over such."""
        place = self._keys.get(write(node))
        if place is None and isinstance(node, Call) and is_aggregate(node):
            if (sums := self._mean_of_times(node)) is not None:
                return sums.replaced(self._cut)
            place = self._aggregate(node)
        if place is None and is_grouping(node):
            place = self._grouping(node)
        if place is not None:
            return Place((place,))
        if isinstance(node, Column):
            if name := self._encrypted_in(node):
                raise single_value(name)
            raise QueryRefused(
                f"{node.name!r} is neither grouped by nor in an aggregate",
                hint=f"add it to GROUP BY, or use ANY_VALUE({node.name})",
            )
        return None

    def _mean_of_times(self, call: Call) -> Node | None:
        """What an encrypted AVG of dates or times is made of; None for every other aggregate."""
        if call.name not in ("avg", "mean") or len(call.arguments) != 1 or call.distinct or call.order:
            return None
        if self._hidden is None and self._encrypted_in(call) is None:
            return None
        if has_aggregate(call.arguments[0]):
            return None
        return mean(call, *self._catalog.types([write(call.arguments[0])]))

    def _grouping(self, node: Node) -> str:
        """GROUPING(a, b): which of these keys a row's set leaves out, the last as the lowest bit; none named: all."""
        named = tuple(self._place_of_key(argument) for argument in node.operands)
        named = named or tuple(range(len(self._resolved.keys)))
        if named not in self._asked.groupings:
            self._asked.groupings.append(named)
        return f"g{self._asked.groupings.index(named)}"

    def _place_of_key(self, node: Node) -> int:
        for place, key in enumerate(self._resolved.keys):
            if write(key) == write(node):
                return place
        raise QueryRefused("GROUPING() takes what the query groups by", hint="name a key of GROUP BY")

    def _ordering(self, ordered: Ordered) -> str:
        direction = "DESC" if ordered.direction == "DESC" else "ASC"
        nulls = "FIRST" if ordered.nulls == "NULLS FIRST" else "LAST"
        # ranked where its values are: as text they might stand in another order
        ranked = f"dense_rank() OVER (ORDER BY {write(ordered.expression)} {direction} NULLS {nulls})"
        final = self._final(ordered.expression, ranked)
        if places_of(final, "l"):
            return f"{write(final)} ASC NULLS LAST"
        return f"{write(final)} {direction} NULLS {nulls}"

    def _aggregate(self, node: Call) -> str:
        if any(map(has_aggregate, node.operands)):
            raise QueryRefused("an aggregate cannot stand inside another", hint="ask for the inner one by itself")
        if node == Call("count"):
            return "n"
        for column in columns_of(node, self._schema):
            known = self._kept is not None and self._kept.is_kept(column.name)
            if column.kind in (Kind.SEALED, Kind.LOCAL) and not known:
                raise stays_here(column)
        if write(node) in self._asked.refused:
            raise self._asked.refused[write(node)]
        if self._hidden is not None or self._unseen_in(node) is not None:
            if self._groups_from_rows:
                raise OnlyHere(self._groups_from_rows)
            return self._encrypted_aggregate(node)
        if self._counts_cells(node):
            return self._encrypted_aggregate(node)
        if self._no_plain:
            raise OnlyHere(self._no_plain)
        if node.name in FOLLOWS_ROW_ORDER and not node.order:
            raise OnlyHere(
                f"{node.name.upper()} depends on the order of rows, which are shuffled before they are sent",
                hint=f"order inside the call: {node.name.upper()}(x ORDER BY y); ANY_VALUE(x) takes any",
            )
        self._asked.plain.setdefault(write(node), node)
        return f"p{list(self._asked.plain).index(write(node))}"

    def _counts_cells(self, node: Call) -> bool:
        """Whether it is the number of rows of some cells of a stored table, which needs no service."""
        kept = self._kept
        if kept is None or self._groups_from_rows or node.name != "count" or node.distinct or node.order:
            return False
        return all(kept.is_kept(column.name) for column in columns_of(node, self._schema))

    def _encrypted_aggregate(self, node: Call) -> str:
        name, column = node.name.upper(), self._unseen_in(node)
        why = over(column) if column is not None else selected_by(self._hidden) if self._hidden is not None else ""
        declared = AGGREGATES.get(name)
        if declared is None:
            raise not_declared(name, why)
        given = node.arguments or (integer(1),)  # COUNT(*)
        if len(given) != declared.arity:
            number = "one argument" if declared.arity == 1 else f"{declared.arity} arguments"
            raise QueryRefused(f"{name} {why}: takes {number}")
        if node.distinct:
            raise OnlyHere(
                f"{name}(DISTINCT ...) {why}: equal values cannot be recognised under encryption", hint=SUPPORTED
            )
        if node.order:
            raise OnlyHere(f"ORDER BY inside {name} {why}", hint="leave it out: order is no matter")
        keys = tuple(self._argument(node, argument) for argument in given)
        if repr((name, keys)) in self._asked.refused:
            raise self._asked.refused[repr((name, keys))]
        return f"e{self._asked.encrypted.setdefault((name, keys), len(self._asked.encrypted))}"

    def _argument(self, node: Call, argument: Node) -> str:
        """The identity of one argument of the call `node`, kept."""
        if node.filter is not None:
            argument = Case(((node.filter, argument),), NULL)
        key = write(argument)
        if key in self._asked.refused:
            raise self._asked.refused[key]
        self._asked.arguments.setdefault(key, argument)
        return key


def _reads(item: Node, name: str) -> bool:
    return any(column.name == name for column in item.find(Column))


def _source(final: Final, item: Node, elsewhere: Source) -> Source:
    """`elsewhere` is where numbers of rows come from."""
    if final.local:
        return "local"
    if final.encrypted:
        return "encrypted"
    if final.plain:
        return "plain"
    return "key" if any(column.name[0] in "kg" for column in item.find(Column)) else elsewhere


def _refuse_aggregate(node: Node, clause: str, hint: str) -> None:
    if has_aggregate(node):
        raise QueryRefused(f"{clause} cannot hold an aggregate", hint=hint)
    if any(is_grouping(each) for each in node.walk()):
        raise QueryRefused(f"{clause} cannot hold GROUPING()", hint="use it in SELECT, HAVING or ORDER BY")

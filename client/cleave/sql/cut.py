"""Cuts a resolved query into the parts of a QueryPlan.

Each output, HAVING and ORDER BY term is computed from the services' aggregates. If no service can compute one of its
aggregates, DuckDB on this machine computes the whole term.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cleave.aggregates import AGGREGATES
from cleave.aggregates.group import EncryptedAggregate
from cleave.sql.catalog import Catalog
from cleave.sql.functions import APPROXIMATE, ESTIMATES, FOLLOWS_ROW_ORDER, OF_ALL_ROWS
from cleave.sql.judge import HasSums, Judge, arguments_of
from cleave.sql.nodes import NULL, Call, Case, ColumnRef, Constant, GroupColumn, Node, Ordered, integer, write
from cleave.sql.order import ORDERED
from cleave.sql.parse import Select, conditions_of
from cleave.sql.plain import is_settled, mean, witnesses
from cleave.sql.plan import (
    Argument,
    FigureSource,
    Final,
    LocalAggregate,
    Output,
    PlainAggregate,
    QueryPlan,
)
from cleave.sql.refusals import (
    OnlyLocal,
    Uncut,
    single_value,
)
from cleave.sql.resolve import columns_of, has_aggregate, is_aggregate, is_grouping
from cleave.sql.split import grouped_by
from cleave.table.duck import identifier
from cleave.table.schema import Schema
from cleave.table.types import INTEGERS, digits_of, is_shown_as_it_is
from cleave_shared import limits
from cleave_shared.errors import QueryRefused

_MOST_DIGITS = 18  # decimals of so many digits have an exact 128-bit sum in DuckDB
GROUPS = "the groups of an answer"  # a table name that no file's name equals


class Cutter:
    """`cloud_only`: refuse what no service can compute, instead of computing it here.

    `divided`: the plain service gets the rows of a group in several requests. `apart`: this machine computes single
    aggregates if it can, and expressions over them after groups are filtered. `sums`: what a stored table can answer
    without its rows; then nothing is sent to services.
    """

    def __init__(
        self,
        select: Select,
        schema: Schema,
        catalog: Catalog,
        *,
        cloud_only: bool = False,
        divided: bool = False,
        apart: bool = False,
        sums: HasSums | None = None,
    ) -> None:
        """`select`: with resolved names."""
        self._select = select
        self._sums = sums
        self._cloud_only = cloud_only
        self._apart = apart
        self._schema = schema
        self._catalog = catalog
        self._judge = Judge(select, schema, catalog, sums, divided=divided)

        # a constant is no key, unless some set omits it: some functions only accept constants
        def stays_key(key: Node) -> bool:
            return key.has(ColumnRef) or select.sets is not None

        self._keys = {write(key): f"k{i}" for i, key in enumerate(select.grouped) if stays_key(key)}
        # what the services compute, by SQL and in order of position
        self._arguments: dict[str, Argument] = {}
        self._encrypted: dict[tuple[str, tuple[str, ...]], int] = {}  # (SQL name, arguments)
        self._plain: dict[str, Call] = {}
        self._mixed: set[str] = set()  # plain aggregates that share an expression with encrypted ones
        self._groupings: list[tuple[int, ...]] = []
        self._computed: dict[str, tuple[Node, OnlyLocal]] = {}  # computed on this machine, by SQL: (expression, reason)
        self._maybe_null: dict[str, bool] = {}  # arguments by SQL, in order: whether they may be NULL
        self._reads: dict[str, tuple[str, ...]] = {}  # by column of the group table: the arguments that it reads
        self._printing: dict[str, None] = {}

    def plan(self) -> QueryPlan:
        select = self._select
        self._refuse_rows()
        for key in select.grouped:
            _refuse_aggregate(key, "GROUP BY", "group by columns")
        if select.where is not None:
            _refuse_aggregate(select.where, "WHERE", "HAVING filters groups by their aggregates")
        self._judge.require_allowed()
        self._look_up_types()
        items = [self._final(item.expression) for item in select.items]
        having = self._final(select.having) if select.having is not None else None
        order_by = [self._ordering(each) for each in select.orderings if not self._orders_nothing(each.expression)]

        described = self._catalog.describe(select.statement.sql)
        key_types = self._catalog.types([write(key) for key in select.grouped])
        keys = tuple(
            # a bare number would mean an output's position
            write(key) if key.has(ColumnRef) else f"CAST({write(key)} AS {type_})"
            for key, type_ in zip(select.grouped, key_types, strict=True)
        )
        arguments, encrypted = self._typed_arguments(), self._typed_encrypted()
        plain, local = self._typed_plain(), self._typed_local(grouped_by(keys, select.sets))
        columns = [*((f"k{i}", type_) for i, type_ in enumerate(key_types)), ("n", "BIGINT")]
        columns += [(f"g{i}", "BIGINT") for i in range(len(self._groupings))]
        columns += [(f"p{i}", each.type) for i, each in enumerate(plain)]
        columns += [(f"e{i}", each.type) for i, each in enumerate(encrypted)]
        columns += [(f"l{i}", each.type) for i, each in enumerate(local)]
        finals = self._finals(items, described, columns)
        needs_services = encrypted or plain or not local or any(_reads(item, "n") for item in items)
        sent = [*self._judge.selecting, *self._plain.values()] if needs_services and not self._judge.hidden else []
        elsewhere: FigureSource = "plain" if sent else "local"
        if self._sums is not None:
            sent, elsewhere = self._asked_over_stored(sent, local)
        outputs = tuple(
            self._output(name, final, local, _source(final, item, elsewhere))
            for (name, _), final, item in zip(described, finals, items, strict=True)
        )
        plan = QueryPlan(
            statement=select.statement,
            table=select.table,
            where=write(select.where) if select.where is not None else None,
            keys=keys,
            key_types=key_types,
            selecting=self._judge.names(self._judge.selecting),
            plain_columns=self._judge.names(sent),
            arguments=arguments,
            encrypted=encrypted,
            plain=plain,
            outputs=outputs,
            finals=finals,
            having=write(having) if having is not None else None,
            order_by=tuple(order_by),
            limit=select.limit,
            offset=select.offset,
            sets=select.sets,
            groupings=tuple(self._groupings),
            conditions=tuple(conditions_of(select.where)) if select.where is not None else (),
            local=local,
            maybe_null=(maybe_null := tuple(sql for sql, is_nullable in self._maybe_null.items() if is_nullable)),
            reads_null={
                name: tuple(maybe_null.index(sql) for sql in read if sql in maybe_null)
                for name, read in self._reads.items()
            },
            printing=tuple(self._printing),
        )
        if max(len(plan.keys), sum(len(each.parts) for each in plan.plain)) > limits.MAX_EXPRESSIONS:
            raise QueryRefused(
                "the query has too many keys and plain aggregates", hint=f"at most {limits.MAX_EXPRESSIONS} at a time"
            )
        return plan

    def _output(self, name: str, final: Final, local: tuple[LocalAggregate, ...], source: FigureSource) -> Output:
        reason = local[final.local[0]].reason if final.local else ""
        if source == "local" and not reason:
            reason = self._judge.groups_from_rows
        return Output(name, source, reason)

    def _asked_over_stored(
        self, sent: list[Node], local: tuple[LocalAggregate, ...]
    ) -> tuple[list[Node], FigureSource]:
        """The plain service's part for a stored table, and the source of row counts.

        Raises OnlyLocal if rows are needed but must not be fetched.
        """
        if not self._judge.groups_from_rows:
            return (sent if self._plain else []), self._sums.counts if self._sums else "encrypted"
        if sent and not self._judge.no_plain and not local:
            return sent, "plain"
        if self._cloud_only:
            raise OnlyLocal(self._judge.groups_from_rows)
        return (sent if self._plain else []), "local"

    # refused before anything else

    def _refuse_rows(self) -> None:
        select = self._select
        nodes = [item.expression for item in select.items] + [each.expression for each in select.orderings]
        if select.having is not None:
            nodes.append(select.having)
        if select.is_grouped or any(has_aggregate(node) for node in nodes):
            return
        for node in nodes:
            if name := self._judge.encrypted_in(node):
                raise single_value(name)
        raise Uncut("the query selects single rows", hint="select aggregates, such as AVG(x), or add GROUP BY ALL")

    def _look_up_types(self) -> None:
        calls = [call for node in self._select.nodes for call in node.find(Call) if is_aggregate(call)]
        self._catalog.look_up([write(each) for call in calls for each in arguments_of(call)])
        self._catalog.look_up([write(each) for each in calls])

    # expressions over keys and aggregates

    def _final(self, node: Node, text: str = "") -> Node:
        """`node` over the group table: from the services' aggregates, or as one expression that this machine computes.

        `text`: the SQL for this machine, if different from `node`.
        """
        of_sums = node.replaced(self._mean_of_times)
        self._printing |= {each.name.upper(): None for each in self._aggregates(node) if each.name not in OF_ALL_ROWS}
        reason = next(filter(None, map(self._judge.why_local, self._aggregates(of_sums))), None)
        if reason is None:
            cut = of_sums.replaced(self._place)
            names = {column.name for column in cut.find(ColumnRef)}
            if any(name[0] == "e" for name in names):
                self._mixed |= {name for name in names if name[0] == "p"}
            return cut
        if self._cloud_only:
            raise reason
        if self._apart and self._are_numbers(node):
            return node.replaced(self._place_apart)
        return self._local_column(text or write(node), node, reason)

    def _are_numbers(self, node: Node) -> bool:
        """True if this machine computes every aggregate of `node`, and each is a number or boolean."""
        calls = list(self._aggregates(node))
        types = self._catalog.types([write(each) for each in calls])
        here = all(each == Call("count") or self._judge.why_local(each) is not None for each in calls)
        return here and all(map(is_shown_as_it_is, types))

    def _place_apart(self, node: Node) -> Node | None:
        """Like `_place`, if this machine computes the aggregate."""
        if isinstance(node, Call) and is_aggregate(node) and (reason := self._judge.why_local(node)) is not None:
            return self._local_column(write(node), node, reason)
        return self._place(node)

    def _local_column(self, sql: str, node: Node, reason: OnlyLocal) -> GroupColumn:
        """The column for `sql`, with which this machine computes `node`."""
        self._computed.setdefault(sql, (node, reason))
        place = f"l{list(self._computed).index(sql)}"
        self._reads[place] = tuple(sql for each in self._aggregates(node) for sql in self._arguments_read(each))
        return GroupColumn((place,))

    def _arguments_read(self, call: Call) -> tuple[str, ...]:
        """SQL of an aggregate's arguments whose NULLs exclude rows."""
        given = [each for each in call.arguments if each.has(ColumnRef)]
        if call.filter is not None:
            given = [Case(((call.filter, each),), NULL) for each in given or [integer(1)]]
        for each in given:
            if (sql := write(each)) not in self._maybe_null:
                self._maybe_null[sql] = self._judge.argument(each).nullable
        return tuple(map(write, given))

    def _aggregates(self, node: Node) -> Iterator[Call]:
        """The aggregates of `node` outside keys. Raises QueryRefused for a column that is neither in a key nor in an
        aggregate.
        """
        if write(node) in self._keys or is_grouping(node):
            return
        if isinstance(node, Call) and is_aggregate(node):
            yield node
        elif isinstance(node, ColumnRef):
            if name := self._judge.encrypted_in(node):
                raise single_value(name)
            raise QueryRefused(
                f"{node.name!r} is neither grouped by nor in an aggregate",
                hint=f"add it to GROUP BY, or use ANY_VALUE({node.name})",
                code="ungrouped",
                name=node.name,
            )
        else:
            for each in node.operands:
                yield from self._aggregates(each)

    def _place(self, node: Node) -> Node | None:
        """The column of a key or aggregate in the group table; None for an expression over them."""
        place = self._keys.get(write(node))
        if place is None and isinstance(node, Call) and is_aggregate(node):
            place = self._service_column(node)
        if place is None and is_grouping(node):
            place = self._grouping(node)
        return GroupColumn((place,)) if place is not None else None

    def _service_column(self, call: Call) -> str:
        """The column of an aggregate that a service computes."""
        if call == Call("count") and not self._judge.counts_are_noisy:
            return "n"
        if not self._judge.is_summed(call):
            place = f"p{_placed(self._plain, write(call), call)}"
            self._reads[place] = self._arguments_read(call)
            return place
        arguments = [self._judge.argument(each) for each in arguments_of(call)]
        for each in arguments:
            self._arguments.setdefault(each.sql, each)
        identity = (call.name.upper(), tuple(each.sql for each in arguments))
        place = f"e{self._encrypted.setdefault(identity, len(self._encrypted))}"
        self._reads[place] = self._arguments_read(call)
        return place

    def _mean_of_times(self, call: Node) -> Node | None:
        """The sums from which an encrypted AVG of dates or times is computed; None for other aggregates."""
        if not isinstance(call, Call) or call.name not in ("avg", "mean") or len(call.arguments) != 1:
            return None
        if call.distinct or call.order or (self._judge.hidden is None and self._judge.encrypted_in(call) is None):
            return None
        if has_aggregate(call.arguments[0]):
            return None
        return mean(call, *self._catalog.types([write(call.arguments[0])]))

    def _grouping(self, node: Node) -> str:
        """The column of GROUPING(a, b): which of these keys a row's set omits, the last key as the lowest bit. Without
        arguments: all keys.
        """
        named = tuple(self._place_of_key(argument) for argument in node.operands)
        named = named or tuple(range(len(self._select.grouped)))
        if named not in self._groupings:
            self._groupings.append(named)
        return f"g{self._groupings.index(named)}"

    def _place_of_key(self, node: Node) -> int:
        for place, key in enumerate(self._select.grouped):
            if write(key) == write(node):
                return place
        hint = "name a key of GROUP BY"
        raise QueryRefused("GROUPING() takes what the query groups by", hint=hint, code="misplaced")

    def _orders_nothing(self, node: Node) -> bool:
        """True for a constant, except a key that some sets omit. (A bare number would mean an output's position.)"""
        return isinstance(node, Constant) and write(node) not in self._keys

    def _ordering(self, ordered: Ordered) -> str:
        direction = "DESC" if ordered.direction == "DESC" else "ASC"
        nulls = "FIRST" if ordered.nulls == "NULLS FIRST" else "LAST"
        # ranked on this machine: their text may sort differently
        ranked = f"dense_rank() OVER (ORDER BY {write(ordered.expression)} {direction} NULLS {nulls})"
        final = self._final(ordered.expression, ranked)
        if ranked in self._computed:
            return f"{write(final)} ASC NULLS LAST"
        return f"{write(final)} {direction} NULLS {nulls}"

    # types of arguments and aggregates

    def _typed_arguments(self) -> tuple[Argument, ...]:
        measured = {key for name, keys in self._encrypted for key in keys if AGGREGATES[name].moments}
        return tuple(replace(each, counted=key not in measured) for key, each in self._arguments.items())

    def _typed_encrypted(self) -> tuple[EncryptedAggregate, ...]:
        places = {key: i for i, key in enumerate(self._arguments)}
        return tuple(
            EncryptedAggregate(
                AGGREGATES[name],
                tuple(places[key] for key in keys),
                AGGREGATES[name].result_type(*(self._arguments[key].type for key in keys)),
            )
            for name, keys in self._encrypted
        )

    def _typed_plain(self) -> tuple[PlainAggregate, ...]:
        certificates = self._certificates()
        self._catalog.look_up([part for call in self._plain.values() for part in self._judge.decomposed(call).parts])
        types = self._catalog.types(list(self._plain))
        rounded = self._rounded(list(self._plain.items()), types)
        return tuple(
            self._plain_aggregate(call, certificates.get(place), rounded=rounded[place])
            for place, call in enumerate(self._plain.values())
        )

    def _plain_aggregate(self, call: Call, certificate: tuple[int, int] | None, *, rounded: bool) -> PlainAggregate:
        (type_,) = self._catalog.types([write(call)])
        decomposed = self._judge.decomposed(call)
        return PlainAggregate(
            sql=write(call),
            type=type_,
            parts=decomposed.parts,
            part_types=self._catalog.types(decomposed.parts),
            combine=decomposed.combine,
            weighted_mean=decomposed.weighted_mean,
            exact=is_settled(call, type_) and not rounded,
            certificate=certificate,
            estimated=call.name in ESTIMATES,
        )

    def _certificates(self) -> dict[int, tuple[int, int]]:
        """Add the witnesses of plain sums of doubles that are combined with encrypted figures."""
        certificates = {}
        for place, call in enumerate(list(self._plain.values())):
            if f"p{place}" not in self._mixed or is_settled(call, *self._catalog.types([write(call)])):
                continue
            if len(call.arguments) != 1 or call.distinct:
                continue
            if witnessed := witnesses(call, *self._catalog.types([write(call.arguments[0])])):
                total, count = (_placed(self._plain, write(each), each) for each in witnessed)
                for number, each in zip((total, count), witnessed, strict=True):
                    self._reads[f"p{number}"] = self._arguments_read(each)
                certificates[place] = total, count
        return certificates

    def _typed_local(self, grouped: str) -> tuple[LocalAggregate, ...]:
        """Raises QueryRefused with DuckDB's reason if it refuses one of them under the GROUP BY `grouped`."""
        types = self._catalog.types(list(self._computed), grouped)
        rounded = self._rounded([(sql, node) for sql, (node, _) in self._computed.items()], types, grouped)
        return tuple(
            self._local(sql, type_, node, str(reason), rounded=is_rounded)
            for (sql, (node, reason)), type_, is_rounded in zip(self._computed.items(), types, rounded, strict=True)
        )

    def _local(self, sql: str, type_: str, node: Node, reason: str, *, rounded: bool) -> LocalAggregate:
        calls = list(filter(is_aggregate, node.find(Call)))
        columns = tuple(column.name for column in columns_of(node, self._schema))
        exact = not rounded and all(self._is_settled(each) and each.name not in ESTIMATES for each in calls)
        ordered = any(each.name in ORDERED or not (self._is_settled(each) or self._is_mean(each)) for each in calls)
        return LocalAggregate(sql, type_, columns, exact, ordered, reason)

    def _rounded(self, computed: Sequence[tuple[str, Node]], types: Sequence[str], grouped: str = "") -> list[bool]:
        """For each (SQL, expression), True if its value may follow from rounding. Expressions that differ in columns of
        one type are alike, so DuckDB plans one of them.
        """

        def typed(node: Node) -> Node | None:
            return ColumnRef((self._schema.column(node.name).type,)) if isinstance(node, ColumnRef) else None

        shapes = [write(node.replaced(typed)) if sql == write(node) else sql for sql, node in computed]
        first = {
            shape: (sql, type_)
            for shape, (sql, node), type_ in zip(shapes, computed, types, strict=True)
            if not _counts(node)
        }
        sqls, of_shapes = [sql for sql, _ in first.values()], [type_ for _, type_ in first.values()]
        found = dict(zip(first, self._catalog.rounded(sqls, of_shapes, grouped=grouped), strict=True))
        return [found.get(shape, False) for shape in shapes]

    def _is_mean(self, call: Call) -> bool:
        """True for a mean that is one division of an exact sum, so the same double in any order of rows."""
        if call.name not in ("avg", "mean") or len(call.arguments) != 1:
            return False
        (type_,) = self._catalog.types([write(call.arguments[0])])
        return type_ in INTEGERS or (digits_of(type_) or _MOST_DIGITS + 1) <= _MOST_DIGITS

    def _is_settled(self, call: Call) -> bool:
        """True if DuckDB's value does not depend on the order of rows."""
        if call.name in FOLLOWS_ROW_ORDER:
            return bool(call.order)
        (type_,) = self._catalog.types([write(call)])
        return call.name not in APPROXIMATE and is_settled(call, type_)

    def _finals(
        self, items: list[Node], described: list[tuple[str, str]], groups: list[tuple[str, str]]
    ) -> tuple[Final, ...]:
        """Raises QueryRefused if the rewritten item has another type than in DuckDB's reading of the query."""
        self._catalog.create(GROUPS, groups)
        texts = [write(item) for item in items]
        ours = self._catalog.describe(f"SELECT {', '.join(texts)} FROM {identifier(GROUPS)}")
        for number, ((_, type_), (_, expected)) in enumerate(zip(ours, described, strict=True), 1):
            if type_ != expected:
                raise QueryRefused(
                    f"select item {number} would have type {type_} instead of {expected}",
                    hint="write its constants and casts in a simpler form",
                )
        computed = [place for place, item in enumerate(items) if not isinstance(item, GroupColumn)]
        rounded = dict(
            zip(
                computed,
                self._catalog.rounded([texts[i] for i in computed], [described[i][1] for i in computed], GROUPS),
                strict=True,
            )
        )
        return tuple(
            Final(
                sql,
                type_,
                _places(item, "e"),
                _places(item, "p"),
                sum(1 for _ in item.walk()),
                _places(item, "l"),
                rounded.get(place, False),
            )
            for place, (sql, (_, type_), item) in enumerate(zip(texts, described, items, strict=True))
        )


def _placed(calls: dict[str, Call], sql: str, call: Call) -> int:
    """The index of `call` in `calls`, which it is added to if new."""
    calls.setdefault(sql, call)
    return list(calls).index(sql)


def _places(final: Node, letter: str) -> tuple[int, ...]:
    names = {column.name for column in final.find(ColumnRef)}
    return tuple(sorted(int(name[1:]) for name in names if name[0] == letter))


def _reads(item: Node, name: str) -> bool:
    return any(column.name == name for column in item.find(ColumnRef))


def _source(final: Final, item: Node, elsewhere: FigureSource) -> FigureSource:
    """Where the figures of an output come from. `elsewhere`: the source of row counts."""
    if final.local:
        return "local"
    if final.encrypted:
        return "encrypted"
    if final.plain:
        return "plain"
    return "key" if any(column.name[0] in "kg" for column in item.find(ColumnRef)) else elsewhere


def _refuse_aggregate(node: Node, clause: str, hint: str) -> None:
    if has_aggregate(node):
        raise QueryRefused(f"{clause} cannot hold an aggregate", hint=hint, code="misplaced")
    if any(is_grouping(each) for each in node.walk()):
        hint = "use it in SELECT, HAVING or ORDER BY"
        raise QueryRefused(f"{clause} cannot hold GROUPING()", hint=hint, code="misplaced")


def _counts(node: Node) -> bool:
    """True for COUNT(*), and COUNT of a column: DuckDB need not plan the most frequent ones."""
    if not isinstance(node, Call) or node.name not in ("count", "count_star"):
        return False
    return not node.distinct and node.filter is None and all(isinstance(each, ColumnRef) for each in node.arguments)

"""Cuts a resolved question into the parts of a QueryPlan."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NoReturn

from sqlglot import exp

from cleave.aggregates import AGGREGATES
from cleave.sql.bounds import known_of
from cleave.sql.catalog import Catalog, Described
from cleave.sql.dialect import identity, write
from cleave.sql.encryptable import (
    SUPPORTED,
    not_declared,
    over,
    require_encodable,
    selected_by,
    single_value,
    stays_here,
)
from cleave.sql.functions import FOLLOWS_ROW_ORDER
from cleave.sql.here import LocalParts
from cleave.sql.parse import Question
from cleave.sql.plain import Decomposition, decompose, is_exact, witnesses
from cleave.sql.plan import (
    Argument,
    EncryptedAggregate,
    Final,
    LocalAggregate,
    Output,
    PlainAggregate,
    QueryPlan,
    Source,
    grouped_by,
)
from cleave.sql.ranges import Range
from cleave.sql.resolve import Resolved, call_of, columns_of, has_aggregate, is_aggregate, is_grouping
from cleave.sql.temporal import mean
from cleave.sql.uncut import OnlyHere, Uncut
from cleave.table.duck import identifier
from cleave.table.schema import Kind, Schema
from cleave.table.types import decimals_of
from cleave_shared import limits
from cleave_shared.errors import QueryRefused
from cleave_shared.plain_functions import ALLOWED_FUNCTIONS

GROUPS = "the groups of an answer"  # a table name no file's stem will clash with


class Cutter:
    """`cloud_only`: what no service can compute is refused, else it is computed here. `divided`: so is what the plain
    service cannot compute of the parts of a group.
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
    ) -> None:
        self._question = question
        self._cloud_only = cloud_only
        self._divided = divided
        self._resolved = resolved
        self._schema = schema
        self._catalog = catalog

        # a constant stays one, unless a set leaves it out: some functions take nothing else
        def kept(key: exp.Expression) -> bool:
            return key.find(exp.Column) is not None or resolved.sets is not None

        self._keys = {identity(key): f"k{i}" for i, key in enumerate(resolved.keys) if kept(key)}
        self._arguments: dict[str, exp.Expression] = {}  # by identity
        self._encrypted: dict[tuple[str, tuple[str, ...]], int] = {}  # (SQL name, arguments) -> place
        self._plain: dict[str, exp.Expression] = {}
        self._groupings: list[tuple[int, ...]] = []
        self._mixed: set[str] = set()  # plain aggregates that stand in one expression with encrypted ones
        self._selecting = [*resolved.keys, *([resolved.where] if resolved.where is not None else [])]
        # the column that tells which rows are meant and is not plain, if there is one: the plain service must not know
        self._hidden = next(
            (c for node in self._selecting for c in columns_of(node, schema) if c.kind != Kind.PLAIN), None
        )
        self._here = LocalParts(schema, catalog)
        # identities of arguments and aggregates that no service can take, which is known only when all types are
        self._refused: dict[str, OnlyHere] = {}

    def plan(self) -> QueryPlan:
        while True:
            known = len(self._refused)
            try:
                return self._plan()
            except OnlyHere:
                if self._cloud_only or len(self._refused) == known:
                    raise
                self._arguments, self._encrypted, self._plain, self._groupings, self._mixed = {}, {}, {}, [], set()
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
        order_by = [self._ordering(each) for each in resolved.orderings if each.this.find(exp.Column, exp.Anonymous)]

        described = self._catalog.describe(question.text)
        where = write(resolved.where) if resolved.where is not None else None
        key_types = self._catalog.types([write(key) for key in resolved.keys])
        keys = tuple(
            write(key) if key.find(exp.Column) else f"CAST({write(key)} AS {type_})"  # never the place of an output
            for key, type_ in zip(resolved.keys, key_types, strict=True)
        )
        for each in self._selecting if self._hidden is None else ():
            if unknown := self._catalog.functions(write(each)) - ALLOWED_FUNCTIONS:
                raise Uncut(f"the plain service does not compute {min(unknown)}()")
        arguments = self._typed_arguments()
        encrypted = self._typed_encrypted(arguments)
        plain = self._typed_plain()
        local = self._here.typed(grouped_by(keys, resolved.sets))
        finals = self._typed_finals(items, described, key_types, plain, encrypted, local)
        asked = self._encrypted or self._plain or not local or any(_reads(item, "n") for item in items)
        sent = [*self._selecting, *self._plain.values()] if asked and not self._hidden else []
        elsewhere: Source = "plain" if sent else "local"
        outputs = tuple(
            Output(name, _source(final, item, elsewhere), str(self._here.reasons.get(final.sql, "")))
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
            groupings=tuple(self._groupings),
            local=local,
        )
        if max(len(plan.keys), sum(len(each.parts) for each in plan.plain)) > limits.MAX_EXPRESSIONS:
            raise QueryRefused(
                "the plain half asks for too many expressions", hint=f"at most {limits.MAX_EXPRESSIONS} at a time"
            )
        return plan

    def _names(self, nodes: Iterable[exp.Expression]) -> tuple[str, ...]:
        read = {column.name for node in nodes for column in columns_of(node, self._schema)}
        return tuple(column.name for column in self._schema.columns if column.name in read)

    def _encrypted_in(self, node: exp.Expression) -> str | None:
        """The name of the first encrypted column `node` reads."""
        return next((c.name for c in columns_of(node, self._schema) if c.kind is Kind.ENCRYPTED), None)

    # what is refused before anything else

    def _refuse_rows(self) -> None:
        resolved = self._resolved
        nodes = [item.expression for item in resolved.items] + [o.this for o in resolved.orderings]
        if resolved.having is not None:
            nodes.append(resolved.having)
        if self._question.is_grouped or any(has_aggregate(node) for node in nodes):
            return
        for node in nodes:
            if name := self._encrypted_in(node):
                raise single_value(name)
        raise Uncut("the query asks for single rows", hint="ask for aggregates, such as AVG(x), or add GROUP BY ALL")

    # expressions over keys and aggregates

    def _final(self, node: exp.Expression, here: str = "") -> exp.Expression:
        """`node` over the table of groups: of the services' aggregates, or as a whole one that is computed here.

        `here`: the SQL of what is then computed, if not `node` itself.
        """
        before = dict(self._arguments), dict(self._encrypted), dict(self._plain)
        try:
            return self._of_services(node)
        except OnlyHere as reason:
            if self._cloud_only:
                raise
            self._arguments, self._encrypted, self._plain = before  # nothing is asked for the sake of this one
            return self._here.add(node, here or write(node), reason)

    def _of_services(self, node: exp.Expression) -> exp.Expression:
        root = exp.Paren(this=node.copy())
        self._cut(root.this)
        cut: exp.Expression = root.this.pop()
        names = {column.name for column in cut.find_all(exp.Column)}
        if any(name[0] == "e" for name in names):
            self._mixed |= {name for name in names if name[0] == "p"}
        return cut

    def _cut(self, node: exp.Expression) -> None:
        place = self._keys.get(identity(node))
        if place is None and is_aggregate(node) and (sums := self._mean_of_times(node)) is not None:
            node.replace(sums)
            self._cut(sums)
            return
        if place is None and is_aggregate(node):
            place = self._aggregate(node)
        if place is None and is_grouping(node):
            place = self._grouping(node)
        if place is not None:
            node.replace(exp.column(place))
            return
        if isinstance(node, exp.Column):
            if name := self._encrypted_in(node):
                raise single_value(name)
            raise QueryRefused(
                f"{node.name!r} is neither grouped by nor in an aggregate",
                hint=f"add it to GROUP BY, or use ANY_VALUE({node.name})",
            )
        for child in list(node.iter_expressions()):
            self._cut(child)

    def _mean_of_times(self, node: exp.Expression) -> exp.Expression | None:
        """What an encrypted AVG of dates or times is made of; None for every other aggregate."""
        call = call_of(node)
        if call.name not in ("avg", "mean") or len(call.expressions) != 1:
            return None
        if self._hidden is None and self._encrypted_in(node) is None:
            return None
        (argument,) = call.expressions
        if isinstance(argument, exp.Distinct | exp.Star) or argument.find(exp.Order) or has_aggregate(argument):
            return None
        return mean(node, *self._catalog.types([write(argument)]))

    def _grouping(self, node: exp.Expression) -> str:
        """GROUPING(a, b): which of these keys a row's set leaves out, the last as the lowest bit; none named: all."""
        named = tuple(self._place_of_key(argument) for argument in node.expressions)
        named = named or tuple(range(len(self._resolved.keys)))
        if named not in self._groupings:
            self._groupings.append(named)
        return f"g{self._groupings.index(named)}"

    def _place_of_key(self, node: exp.Expression) -> int:
        for place, key in enumerate(self._resolved.keys):
            if identity(key) == identity(node):
                return place
        raise QueryRefused("GROUPING() takes what the query groups by", hint="name a key of GROUP BY")

    def _ordering(self, ordered: exp.Ordered) -> str:
        direction = "DESC" if ordered.args.get("desc") else "ASC"
        nulls = "FIRST" if ordered.args.get("nulls_first") else "LAST"
        # ranked where its values are: as text they might stand in another order
        ranked = f"dense_rank() OVER (ORDER BY {write(ordered.this)} {direction} NULLS {nulls})"
        final = self._final(ordered.this, ranked)
        if _places(final, "l"):
            return f"{write(final)} ASC NULLS LAST"
        return f"{write(final)} {direction} NULLS {nulls}"

    def _aggregate(self, node: exp.Expression) -> str:
        call = call_of(node)
        inner = [*call.expressions, *([node.expression.this] if isinstance(node, exp.Filter) else [])]
        if any(has_aggregate(each) for each in inner):
            raise QueryRefused("an aggregate cannot stand inside another", hint="ask for the inner one by itself")
        if (
            call is node
            and call.name == "count"
            and (not call.expressions or isinstance(call.expressions[0], exp.Star))
        ):
            return "n"
        for column in columns_of(node, self._schema):
            if column.kind in (Kind.SEALED, Kind.LOCAL):
                raise stays_here(column)
        if identity(node) in self._refused:
            raise self._refused[identity(node)]
        if self._hidden is not None or self._encrypted_in(node) is not None:
            return self._encrypted_aggregate(node, call)
        if call.name in FOLLOWS_ROW_ORDER and not any(each.find(exp.Order) for each in call.expressions):
            raise OnlyHere(
                f"{call.name.upper()} depends on the order of rows, which are shuffled before they are sent",
                hint=f"order inside the call: {call.name.upper()}(x ORDER BY y); ANY_VALUE(x) takes any",
            )
        known = self._plain.setdefault(identity(node), node.copy())
        return f"p{[id(each) for each in self._plain.values()].index(id(known))}"

    def _encrypted_aggregate(self, node: exp.Expression, call: exp.Anonymous) -> str:
        name, column = call.name.upper(), self._encrypted_in(node)
        why = selected_by(self._hidden) if column is None and self._hidden is not None else over(str(column))
        declared = AGGREGATES.get(name)
        if declared is None:
            raise not_declared(name, why)
        given = call.expressions or [exp.Star()]  # COUNT() is COUNT(*)
        if len(given) != declared.arity:
            number = "one argument" if declared.arity == 1 else f"{declared.arity} arguments"
            raise QueryRefused(f"{name} {why}: takes {number}")
        keys = tuple(self._argument(name, why, node, argument) for argument in given)
        return f"e{self._encrypted.setdefault((name, keys), len(self._encrypted))}"

    def _argument(self, name: str, why: str, node: exp.Expression, argument: exp.Expression) -> str:
        """The identity of one argument of the call `node` of `name`, kept; `why` it is encrypted."""
        if isinstance(argument, exp.Distinct):
            raise OnlyHere(
                f"{name}(DISTINCT ...) {why}: equal values cannot be recognised under encryption", hint=SUPPORTED
            )
        if argument.find(exp.Order):
            raise OnlyHere(f"ORDER BY inside {name} {why}", hint="leave it out: order is no matter")
        if isinstance(argument, exp.Star):
            argument = exp.Literal.number(1)
        if isinstance(node, exp.Filter):
            argument = exp.Case(ifs=[exp.If(this=node.expression.this.copy(), true=argument.copy())])
        key = identity(argument)
        if key in self._refused:
            raise self._refused[key]
        self._arguments.setdefault(key, argument.copy())
        return key

    # types

    def _typed_arguments(self) -> tuple[Argument, ...]:
        texts = [write(node) for node in self._arguments.values()]
        types = self._catalog.types(texts)
        measured = {key for name, keys in self._encrypted for key in keys if AGGREGATES[name].moments}
        typed: list[Argument] = []
        for (key, node), sql, type_ in zip(self._arguments.items(), texts, types, strict=True):
            if key in measured:
                try:
                    require_encodable(type_)
                except OnlyHere as reason:
                    self._refuse(node, reason)
            decimals = decimals_of(type_)
            names = tuple(column.name for column in columns_of(node, self._schema))
            known = known_of(node, type_, self._schema, self._catalog.types)
            lower, upper = _ends(known.range, decimals)
            typed.append(Argument(sql, type_, decimals, names, key not in measured, lower, upper, known.nullable))
        return tuple(typed)

    def _typed_encrypted(self, arguments: tuple[Argument, ...]) -> tuple[EncryptedAggregate, ...]:
        places = {key: i for i, key in enumerate(self._arguments)}
        return tuple(
            EncryptedAggregate(
                AGGREGATES[name],
                tuple(places[key] for key in keys),
                AGGREGATES[name].result_type(*(arguments[places[key]].type for key in keys)),
            )
            for name, keys in self._encrypted
        )

    def _typed_plain(self) -> tuple[PlainAggregate, ...]:
        certificates = self._certificates()
        nodes = list(self._plain.values())
        types = self._catalog.types([write(node) for node in nodes])
        decomposed = [decompose(node, type_) for node, type_ in zip(nodes, types, strict=True)]
        for node, each in zip(nodes, decomposed, strict=True):
            if unknown := self._catalog.functions(write(node)) - ALLOWED_FUNCTIONS:
                self._refuse(node, OnlyHere(f"the plain service does not compute {min(unknown)}()"))
            if each.combine is None and self._resolved.sets is not None:
                reason = f"{write(node)} cannot be put together from smaller groups, as sets of keys need"
                self._refuse(node, OnlyHere(reason, hint="ask once for each set of keys"))
            if each.combine is None and self._divided:
                reason = (
                    f"{write(node)} cannot be put together from several requests, and the plain columns need several"
                )
                self._refuse(node, OnlyHere(reason))
        part_types = iter(self._catalog.types([part for each in decomposed for part in each.parts]))
        return tuple(
            _plain_aggregate(node, type_, each, tuple(next(part_types) for _ in each.parts), certificates.get(place))
            for place, (node, type_, each) in enumerate(zip(nodes, types, decomposed, strict=True))
        )

    def _refuse(self, node: exp.Expression, reason: OnlyHere) -> NoReturn:
        self._refused[identity(node)] = reason
        raise reason

    def _certificates(self) -> dict[int, tuple[int, int]]:
        """Asks for the witnesses of plain sums of doubles that encrypted figures are computed with."""
        found = {}
        for place, node in enumerate(list(self._plain.values())):
            arguments = call_of(node).expressions
            if f"p{place}" not in self._mixed or len(arguments) != 1 or isinstance(arguments[0], exp.Distinct):
                continue
            if is_exact(node, *self._catalog.types([write(node)])):
                continue
            if asked := witnesses(node, *self._catalog.types([write(arguments[0])])):
                found[place] = (self._place_of(asked.total), self._place_of(asked.count))
        return found

    def _place_of(self, node: exp.Expression) -> int:
        """The place of a plain aggregate, asked for from now on."""
        self._plain.setdefault(identity(node), node)
        return list(self._plain).index(identity(node))

    def _typed_finals(
        self,
        items: list[exp.Expression],
        described: Described,
        key_types: tuple[str, ...],
        plain: tuple[PlainAggregate, ...],
        encrypted: tuple[EncryptedAggregate, ...],
        local: tuple[LocalAggregate, ...],
    ) -> tuple[Final, ...]:
        """Raises QueryRefused where our reading of an item has another type than DuckDB's own."""
        self._catalog.create(
            GROUPS,
            [(f"k{i}", type_) for i, type_ in enumerate(key_types)]
            + [("n", "BIGINT")]
            + [(f"g{i}", "BIGINT") for i in range(len(self._groupings))]
            + [(f"p{i}", each.type) for i, each in enumerate(plain)]
            + [(f"e{i}", each.type) for i, each in enumerate(encrypted)]
            + [(f"l{i}", each.type) for i, each in enumerate(local)],
        )
        texts = [write(item) for item in items]
        ours = self._catalog.describe(f"SELECT {', '.join(texts)} FROM {identifier(GROUPS)}")
        for number, ((_, type_), (_, expected)) in enumerate(zip(ours, described, strict=True), 1):
            if type_ != expected:
                raise QueryRefused(
                    f"select item {number} would come out as {type_} instead of {expected}",
                    hint="write its constants and casts more plainly",
                )
        return tuple(
            Final(sql, type_, _places(item, "e"), _places(item, "p"), sum(1 for _ in item.walk()), _places(item, "l"))
            for sql, (_, type_), item in zip(texts, described, items, strict=True)
        )


def _ends(range_: Range | None, decimals: int | None) -> tuple[int | float, int | float] | tuple[None, None]:
    """In units of the last decimal for exact types."""
    if range_ is None:
        return None, None
    if decimals is None:
        return float(range_.lower), float(range_.upper)  # doubles they are, rounded outwards
    lower = math.ceil(range_.lower * 10**decimals)
    return lower, max(lower, math.floor(range_.upper * 10**decimals))


def _plain_aggregate(
    node: exp.Expression,
    type_: str,
    decomposition: Decomposition,
    part_types: tuple[str, ...],
    certificate: tuple[int, int] | None,
) -> PlainAggregate:
    return PlainAggregate(
        sql=write(node),
        type=type_,
        parts=decomposition.parts,
        part_types=part_types,
        combine=decomposition.combine,
        weighted_mean=decomposition.weighted_mean,
        exact=is_exact(node, type_),
        certificate=certificate,
    )


def _reads(item: exp.Expression, name: str) -> bool:
    return any(column.name == name for column in item.find_all(exp.Column))


def _places(final: exp.Expression, letter: str) -> tuple[int, ...]:
    names = {column.name for column in final.find_all(exp.Column)}
    return tuple(sorted(int(name[1:]) for name in names if name[0] == letter))


def _source(final: Final, item: exp.Expression, elsewhere: Source) -> Source:
    """`elsewhere` is where numbers of rows come from."""
    if final.local:
        return "local"
    if final.encrypted:
        return "encrypted"
    if final.plain:
        return "plain"
    return "key" if any(column.name[0] in "kg" for column in item.find_all(exp.Column)) else elsewhere


def _refuse_aggregate(node: exp.Expression, clause: str, hint: str) -> None:
    if has_aggregate(node):
        raise QueryRefused(f"{clause} cannot hold an aggregate", hint=hint)
    if any(is_grouping(each) for each in node.walk()):
        raise QueryRefused(f"{clause} cannot hold GROUPING()", hint="use it in SELECT, HAVING or ORDER BY")

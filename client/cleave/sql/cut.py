"""Cuts a resolved question into the parts of a QueryPlan, by what a source can sum.

Each output, HAVING and ORDER BY term is answered from the services' aggregates, or as a whole by DuckDB on this machine
where one of its aggregates is for no service.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from cleave.aggregates import AGGREGATES
from cleave.sql.bounds import known_of
from cleave.sql.catalog import Catalog
from cleave.sql.functions import ARBITRARY, EXACT_OF_DOUBLES, FOLLOWS_ROW_ORDER
from cleave.sql.kept import Kept
from cleave.sql.nodes import NULL, Call, Case, Column, Node, Ordered, Place, integer
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
from cleave.sql.refusals import (
    SUPPORTED,
    OnlyHere,
    Uncut,
    encodable,
    not_declared,
    over,
    selected_by,
    single_value,
    stays_here,
)
from cleave.sql.resolve import Resolved, columns_of, has_aggregate, is_aggregate, is_grouping
from cleave.sql.temporal import mean
from cleave.sql.write import write
from cleave.table import schema as of_schema
from cleave.table.duck import identifier
from cleave.table.schema import Kind, Schema
from cleave.table.types import FLOATS, decimals_of
from cleave_shared import limits
from cleave_shared.errors import QueryRefused
from cleave_shared.plain_functions import ALLOWED_FUNCTIONS

GROUPS = "the groups of an answer"  # a table name no file's stem will clash with
# DuckDB's own approximations: another order of rows may give another
_APPROXIMATE = frozenset({"approx_quantile", "approx_top_k"})


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
        self._selecting = [*resolved.keys, *([resolved.where] if resolved.where is not None else [])]
        # the column that tells which rows are meant and is not plain, if there is one: the plain service must not know
        self._hidden = next(
            (c for node in self._selecting for c in columns_of(node, schema) if c.kind != Kind.PLAIN), None
        )
        names = self._names(self._selecting)
        self._groups_from_rows = kept.groups(names) if kept else ""  # why groups are made of rows of a stored table
        self._no_plain = kept.plain(names) if kept else ""  # why the plain service is not asked over a stored table
        self._judged: dict[str, OnlyHere | None] = {}  # by its SQL, why no service computes an aggregate
        # what is asked of the services, by identity and in the order of its places
        self._arguments: dict[str, Argument] = {}
        self._encrypted: dict[tuple[str, tuple[str, ...]], int] = {}  # (SQL name, arguments)
        self._plain: dict[str, Call] = {}
        self._mixed: set[str] = set()  # plain aggregates that stand in one expression with encrypted ones
        self._groupings: list[tuple[int, ...]] = []
        self._here: dict[str, tuple[Node, OnlyHere]] = {}  # by the SQL computed here, what it is made of, and why

    def plan(self) -> QueryPlan:
        question, resolved = self._question, self._resolved
        self._refuse_rows()
        for key in resolved.keys:
            _refuse_aggregate(key, "GROUP BY", "group by columns")
        if resolved.where is not None:
            _refuse_aggregate(resolved.where, "WHERE", "HAVING filters groups by their aggregates")
        self._require_allowed()
        items = [self._final(item.expression) for item in resolved.items]
        having = self._final(resolved.having) if resolved.having is not None else None
        # a number standing alone would be the place of an output
        order_by = [
            self._ordering(each)
            for each in resolved.orderings
            if each.expression.has(Column) or each.expression.has(Call)
        ]

        described = self._catalog.describe(question.text)
        key_types = self._catalog.types([write(key) for key in resolved.keys])
        keys = tuple(
            write(key) if key.has(Column) else f"CAST({write(key)} AS {type_})"  # never the place of an output
            for key, type_ in zip(resolved.keys, key_types, strict=True)
        )
        arguments, encrypted = self._typed_arguments(), self._typed_encrypted()
        plain, local = self._typed_plain(), self._typed_local(grouped_by(keys, resolved.sets))
        columns = [*((f"k{i}", type_) for i, type_ in enumerate(key_types)), ("n", "BIGINT")]
        columns += [(f"g{i}", "BIGINT") for i in range(len(self._groupings))]
        columns += [(f"p{i}", each.type) for i, each in enumerate(plain)]
        columns += [(f"e{i}", each.type) for i, each in enumerate(encrypted)]
        columns += [(f"l{i}", each.type) for i, each in enumerate(local)]
        finals = self._finals(items, described, columns)
        asked = encrypted or plain or not local or any(_reads(item, "n") for item in items)
        sent = [*self._selecting, *self._plain.values()] if asked and not self._hidden else []
        elsewhere: Source = "plain" if sent else "local"
        if self._kept is not None:
            sent, elsewhere = self._asked_over_stored(sent, local)
        outputs = tuple(
            self._output(name, final, local, _source(final, item, elsewhere))
            for (name, _), final, item in zip(described, finals, items, strict=True)
        )
        plan = QueryPlan(
            sql=question.text,
            table=question.table,
            where=write(resolved.where) if resolved.where is not None else None,
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

    def _output(self, name: str, final: Final, local: tuple[LocalAggregate, ...], source: Source) -> Output:
        reason = local[final.local[0]].reason if final.local else self._groups_from_rows if source == "local" else ""
        return Output(name, source, reason)

    def _asked_over_stored(self, sent: list[Node], local: tuple[LocalAggregate, ...]) -> tuple[list[Node], Source]:
        """What the plain service reads of a stored table, and where numbers of rows come from.

        Raises OnlyHere where rows are needed and must not be fetched.
        """
        if not self._groups_from_rows:
            return (sent if self._plain else []), self._kept.counts if self._kept else "encrypted"
        if sent and not self._no_plain and not local:
            return sent, "plain"
        if self._cloud_only:
            raise OnlyHere(self._groups_from_rows)
        return (sent if self._plain else []), "local"

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

    def _require_allowed(self) -> None:
        """Raises Uncut where the plain service does not compute WHERE or a key; over a stored table it is not asked."""
        for each in self._selecting if self._hidden is None and not self._no_plain else ():
            if unknown := self._not_allowed(each):
                if self._kept is None:
                    raise Uncut(unknown)
                self._no_plain = unknown
                return

    def _not_allowed(self, node: Node) -> str:
        unknown = self._catalog.functions(write(node)) - ALLOWED_FUNCTIONS
        return f"the plain service does not compute {min(unknown)}()" if unknown else ""

    # expressions over keys and aggregates

    def _final(self, node: Node, here: str = "") -> Node:
        """`node` over the table of groups: of the services' aggregates, or as a whole one that is computed here.

        `here`: the SQL of what is then computed, if not `node` itself.
        """
        of_sums = node.replaced(self._mean_of_times)
        reason = next(filter(None, map(self._why_here, self._aggregates(of_sums))), None)
        if reason is None:
            cut = of_sums.replaced(self._place)
            names = {column.name for column in cut.find(Column)}
            if any(name[0] == "e" for name in names):
                self._mixed |= {name for name in names if name[0] == "p"}
            return cut
        if self._cloud_only:
            raise reason
        sql = here or write(node)
        self._here.setdefault(sql, (node, reason))
        return Place((f"l{list(self._here).index(sql)}",))

    def _aggregates(self, node: Node) -> Iterator[Call]:
        """Aggregates of `node` outside of keys. Raises QueryRefused for a column that is in neither."""
        if write(node) in self._keys or is_grouping(node):
            return
        if isinstance(node, Call) and is_aggregate(node):
            yield node
        elif isinstance(node, Column):
            if name := self._encrypted_in(node):
                raise single_value(name)
            raise QueryRefused(
                f"{node.name!r} is neither grouped by nor in an aggregate",
                hint=f"add it to GROUP BY, or use ANY_VALUE({node.name})",
            )
        else:
            for each in node.operands:
                yield from self._aggregates(each)

    def _place(self, node: Node) -> Node | None:
        """What stands for a key or an aggregate in the table of groups; None for an expression over such."""
        place = self._keys.get(write(node))
        if place is None and isinstance(node, Call) and is_aggregate(node):
            place = self._asked(node)
        if place is None and is_grouping(node):
            place = self._grouping(node)
        return Place((place,)) if place is not None else None

    def _asked(self, call: Call) -> str:
        """The column of an aggregate that a service computes."""
        if call == Call("count"):
            return "n"
        if not self._is_summed(call):
            return f"p{_placed(self._plain, write(call), call)}"
        arguments = [self._argument(each) for each in _arguments(call)]
        for each in arguments:
            self._arguments.setdefault(each.sql, each)
        asked = (call.name.upper(), tuple(each.sql for each in arguments))
        return f"e{self._encrypted.setdefault(asked, len(self._encrypted))}"

    def _mean_of_times(self, call: Node) -> Node | None:
        """What an encrypted AVG of dates or times is made of; None for everything else."""
        if not isinstance(call, Call) or call.name not in ("avg", "mean") or len(call.arguments) != 1:
            return None
        if call.distinct or call.order or (self._hidden is None and self._encrypted_in(call) is None):
            return None
        if has_aggregate(call.arguments[0]):
            return None
        return mean(call, *self._catalog.types([write(call.arguments[0])]))

    def _grouping(self, node: Node) -> str:
        """GROUPING(a, b): which of these keys a row's set leaves out, the last as the lowest bit; none named: all."""
        named = tuple(self._place_of_key(argument) for argument in node.operands)
        named = named or tuple(range(len(self._resolved.keys)))
        if named not in self._groupings:
            self._groupings.append(named)
        return f"g{self._groupings.index(named)}"

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
        if _places(final, "l"):
            return f"{write(final)} ASC NULLS LAST"
        return f"{write(final)} {direction} NULLS {nulls}"

    # which aggregates a service computes

    def _is_summed(self, call: Call) -> bool:
        """Whether sums answer it, and not the plain service."""
        return self._hidden is not None or self._unseen_in(call) is not None or self._counts_cells(call)

    def _counts_cells(self, call: Call) -> bool:
        """Whether it is the number of rows of some cells of a stored table, which needs no service."""
        kept = self._kept
        if kept is None or self._groups_from_rows or call.name != "count" or call.distinct or call.order:
            return False
        return all(kept.is_kept(column.name) for column in columns_of(call, self._schema))

    def _why_here(self, call: Call) -> OnlyHere | None:
        """Why no service computes an aggregate; None where one does."""
        sql = write(call)
        if sql not in self._judged:
            self._judged[sql] = self._judge(call)
        return self._judged[sql]

    def _judge(self, call: Call) -> OnlyHere | None:
        if any(map(has_aggregate, call.operands)):
            raise QueryRefused("an aggregate cannot stand inside another", hint="ask for the inner one by itself")
        if call == Call("count"):
            return None
        for column in columns_of(call, self._schema):
            known = self._kept is not None and self._kept.is_kept(column.name)
            if column.kind in (Kind.SEALED, Kind.LOCAL) and not known:
                return stays_here(column)
        if self._is_summed(call):
            return OnlyHere(self._groups_from_rows) if self._groups_from_rows else self._why_not_summed(call)
        if self._no_plain:
            return OnlyHere(self._no_plain)
        if call.name in FOLLOWS_ROW_ORDER and not call.order:
            return OnlyHere(
                f"{call.name.upper()} depends on the order of rows, which are shuffled before they are sent",
                hint=f"order inside the call: {call.name.upper()}(x ORDER BY y); ANY_VALUE(x) takes any",
            )
        return self._why_not_plain(call)

    def _why_not_summed(self, call: Call) -> OnlyHere | None:
        name, column = call.name.upper(), self._unseen_in(call)
        why = over(column) if column is not None else selected_by(self._hidden) if self._hidden is not None else ""
        declared = AGGREGATES.get(name)
        if declared is None:
            return not_declared(name, why)
        if len(call.arguments or (NULL,)) != declared.arity:
            number = "one argument" if declared.arity == 1 else f"{declared.arity} arguments"
            raise QueryRefused(f"{name} {why}: takes {number}")
        if call.distinct:
            return OnlyHere(
                f"{name}(DISTINCT ...) {why}: equal values cannot be recognised under encryption", hint=SUPPORTED
            )
        if call.order:
            return OnlyHere(f"ORDER BY inside {name} {why}", hint="leave it out: order is no matter")
        arguments = [replace(self._argument(each), counted=not declared.moments) for each in _arguments(call)]
        for each in arguments if declared.moments else ():
            if (reason := encodable(each.type)) is not None:
                return reason
        lacking = self._kept.aggregate(declared, arguments, self._catalog.types) if self._kept is not None else ""
        return OnlyHere(lacking) if lacking else None

    def _why_not_plain(self, call: Call) -> OnlyHere | None:
        if unknown := self._not_allowed(call):
            return OnlyHere(unknown)
        if self._decomposed(call).combine is None and self._resolved.sets is not None:
            reason = f"{write(call)} cannot be put together from smaller groups, as sets of keys need"
            return OnlyHere(reason, hint="ask once for each set of keys")
        if self._decomposed(call).combine is None and self._divided:
            return OnlyHere(
                f"{write(call)} cannot be put together from several requests, and the plain columns need several"
            )
        return None

    # types of what is asked

    def _argument(self, node: Node) -> Argument:
        sql = write(node)
        (type_,) = self._catalog.types([sql])
        decimals = decimals_of(type_)
        known = known_of(node, type_, self._schema, self._catalog.types)
        names = tuple(column.name for column in columns_of(node, self._schema))
        lower, upper = _ends(known.range, decimals)
        return Argument(sql, type_, decimals, names, lower=lower, upper=upper, nullable=known.nullable)

    def _decomposed(self, call: Call) -> Decomposition:
        return decompose(call, *self._catalog.types([write(call)]))

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
        return tuple(
            self._plain_aggregate(call, certificates.get(place)) for place, call in enumerate(self._plain.values())
        )

    def _plain_aggregate(self, call: Call, certificate: tuple[int, int] | None) -> PlainAggregate:
        (type_,) = self._catalog.types([write(call)])
        made = self._decomposed(call)
        return PlainAggregate(
            sql=write(call),
            type=type_,
            parts=made.parts,
            part_types=self._catalog.types(made.parts),
            combine=made.combine,
            weighted_mean=made.weighted_mean,
            exact=is_exact(call, type_),
            certificate=certificate,
        )

    def _certificates(self) -> dict[int, tuple[int, int]]:
        """Asks for the witnesses of plain sums of doubles that encrypted figures are computed with."""
        found = {}
        for place, call in enumerate(list(self._plain.values())):
            if f"p{place}" not in self._mixed or is_exact(call, *self._catalog.types([write(call)])):
                continue
            if len(call.arguments) != 1 or call.distinct:
                continue
            if asked := witnesses(call, *self._catalog.types([write(call.arguments[0])])):
                total, count = (_placed(self._plain, write(each), each) for each in (asked.total, asked.count))
                found[place] = total, count
        return found

    def _typed_local(self, grouped: str) -> tuple[LocalAggregate, ...]:
        """Raises QueryRefused with DuckDB's own reason, where it refuses one of them under the GROUP BY `grouped`."""
        types = self._catalog.types(list(self._here), grouped)
        return tuple(
            LocalAggregate(
                sql=sql,
                type=type_,
                columns=tuple(column.name for column in columns_of(node, self._schema)),
                exact=all(self._is_settled(each) for each in node.find(Call) if is_aggregate(each)),
                reason=str(reason),
            )
            for (sql, (node, reason)), type_ in zip(self._here.items(), types, strict=True)
        )

    def _is_settled(self, call: Call) -> bool:
        """Whether DuckDB gives the same value for any order of rows."""
        if call.name in FOLLOWS_ROW_ORDER:
            return bool(call.order)
        (type_,) = self._catalog.types([write(call)])
        return call.name not in _APPROXIMATE | ARBITRARY and (type_ not in FLOATS or call.name in EXACT_OF_DOUBLES)

    def _finals(
        self, items: list[Node], described: list[tuple[str, str]], groups: list[tuple[str, str]]
    ) -> tuple[Final, ...]:
        """Raises QueryRefused where our reading of an item has another type than DuckDB's own."""
        self._catalog.create(GROUPS, groups)
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


def _arguments(call: Call) -> list[Node]:
    """What an encrypted aggregate is of: where its FILTER does not hold, of NULL."""
    given = call.arguments or (integer(1),)  # COUNT(*)
    return [each if call.filter is None else Case(((call.filter, each),), NULL) for each in given]


def _placed(asked: dict[str, Call], sql: str, call: Call) -> int:
    """The place of `call` among what is asked."""
    asked.setdefault(sql, call)
    return list(asked).index(sql)


def _places(final: Node, letter: str) -> tuple[int, ...]:
    names = {column.name for column in final.find(Column)}
    return tuple(sorted(int(name[1:]) for name in names if name[0] == letter))


def _ends(range_: Range | None, decimals: int | None) -> tuple[int | float, int | float] | tuple[None, None]:
    """In units of the last decimal for exact types."""
    if range_ is None:
        return None, None
    if decimals is None:
        return float(range_.lower), float(range_.upper)  # doubles they are, rounded outwards
    lower = math.ceil(range_.lower * 10**decimals)
    return lower, max(lower, math.floor(range_.upper * 10**decimals))


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

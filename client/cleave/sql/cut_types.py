"""What a cut asks for, and of which types it is: the arguments, aggregates and outputs of a QueryPlan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NoReturn

from cleave.aggregates import AGGREGATES
from cleave.sql.bounds import known_of
from cleave.sql.catalog import Catalog, Described
from cleave.sql.encryptable import require_encodable
from cleave.sql.kept import Kept
from cleave.sql.nodes import Call, Column, Node
from cleave.sql.plain import Decomposition, decompose, is_exact, witnesses
from cleave.sql.plan import Argument, EncryptedAggregate, Final, LocalAggregate, PlainAggregate
from cleave.sql.ranges import Range
from cleave.sql.resolve import columns_of
from cleave.sql.uncut import OnlyHere
from cleave.sql.write import write
from cleave.table.duck import identifier
from cleave.table.schema import Schema
from cleave.table.types import decimals_of
from cleave_shared.errors import QueryRefused
from cleave_shared.plain_functions import ALLOWED_FUNCTIONS

GROUPS = "the groups of an answer"  # a table name no file's stem will clash with


class Asked:
    """Of the services. `refused`: identities of arguments and aggregates that none of them can take, which is known
    only when all types are.
    """

    def __init__(self, refused: dict[str, OnlyHere]) -> None:
        self.arguments: dict[str, Node] = {}  # by identity
        self.encrypted: dict[tuple[str, tuple[str, ...]], int] = {}  # (SQL name, arguments) -> place
        self.plain: dict[str, Call] = {}
        self.groupings: list[tuple[int, ...]] = []
        self.mixed: set[str] = set()  # plain aggregates that stand in one expression with encrypted ones
        self.refused = refused


class Types:
    """Of all that is asked. What turns out to be for no service is put down as refused, and OnlyHere raised."""

    def __init__(
        self,
        asked: Asked,
        catalog: Catalog,
        schema: Schema,
        kept: Kept | None,
        sets: object | None,
        *,
        divided: bool,
    ) -> None:
        """`sets`: of keys, if there are several. `divided`: parts of groups are answered apart."""
        self._asked = asked
        self._catalog = catalog
        self._schema = schema
        self._kept = kept
        self._sets = sets
        self._divided = divided

    def arguments(self) -> tuple[Argument, ...]:
        texts = [write(node) for node in self._asked.arguments.values()]
        types = self._catalog.types(texts)
        measured = {key for name, keys in self._asked.encrypted for key in keys if AGGREGATES[name].moments}
        typed: list[Argument] = []
        for (key, node), sql, type_ in zip(self._asked.arguments.items(), texts, types, strict=True):
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

    def encrypted(self, arguments: tuple[Argument, ...]) -> tuple[EncryptedAggregate, ...]:
        places = {key: i for i, key in enumerate(self._asked.arguments)}
        if self._kept is not None:
            self._refuse_not_kept(self._kept, arguments, places)
        return tuple(
            EncryptedAggregate(
                AGGREGATES[name],
                tuple(places[key] for key in keys),
                AGGREGATES[name].result_type(*(arguments[places[key]].type for key in keys)),
            )
            for name, keys in self._asked.encrypted
        )

    def _refuse_not_kept(self, kept: Kept, arguments: Sequence[Argument], places: Mapping[str, int]) -> None:
        """Raises OnlyHere where rows are needed for an aggregate, which are all known as refused from then on."""
        reasons = {}
        for name, keys in self._asked.encrypted:
            given = [arguments[places[key]] for key in keys]
            if reason := kept.aggregate(AGGREGATES[name], given, self._catalog.types):
                reasons[repr((name, keys))] = OnlyHere(reason)
        self._asked.refused |= reasons
        if reasons:
            raise next(iter(reasons.values()))

    def plain(self) -> tuple[PlainAggregate, ...]:
        certificates = self._certificates()
        nodes = list(self._asked.plain.values())
        types = self._catalog.types([write(node) for node in nodes])
        decomposed = [decompose(node, type_) for node, type_ in zip(nodes, types, strict=True)]
        for node, each in zip(nodes, decomposed, strict=True):
            if unknown := self._catalog.functions(write(node)) - ALLOWED_FUNCTIONS:
                self._refuse(node, OnlyHere(f"the plain service does not compute {min(unknown)}()"))
            if each.combine is None and self._sets is not None:
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

    def _refuse(self, node: Node, reason: OnlyHere) -> NoReturn:
        self._asked.refused[write(node)] = reason
        raise reason

    def _certificates(self) -> dict[int, tuple[int, int]]:
        """Asks for the witnesses of plain sums of doubles that encrypted figures are computed with."""
        found = {}
        for place, node in enumerate(list(self._asked.plain.values())):
            arguments = node.arguments
            if f"p{place}" not in self._asked.mixed or len(arguments) != 1 or node.distinct:
                continue
            if is_exact(node, *self._catalog.types([write(node)])):
                continue
            if asked := witnesses(node, *self._catalog.types([write(arguments[0])])):
                found[place] = (self._place_of(asked.total), self._place_of(asked.count))
        return found

    def _place_of(self, node: Call) -> int:
        """The place of a plain aggregate, asked for from now on."""
        self._asked.plain.setdefault(write(node), node)
        return list(self._asked.plain).index(write(node))

    def finals(
        self,
        items: list[Node],
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
            + [(f"g{i}", "BIGINT") for i in range(len(self._asked.groupings))]
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
            Final(
                sql,
                type_,
                places_of(item, "e"),
                places_of(item, "p"),
                sum(1 for _ in item.walk()),
                places_of(item, "l"),
            )
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
    node: Call,
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


def places_of(final: Node, letter: str) -> tuple[int, ...]:
    names = {column.name for column in final.find(Column)}
    return tuple(sorted(int(name[1:]) for name in names if name[0] == letter))

"""Describe a question before it is asked: what is sent where, what is read, how exact, and who learns what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cleave.ask.plan import Considered
from cleave.ask.ways.base import Destination, Use
from cleave.sql.plan import LocalPlan, Output, QueryPlan
from cleave.table.schema import Column
from cleave_shared.params import Profile

UNASKED = "nothing: it gets no request"


@dataclass(frozen=True, slots=True)
class ColumnFate:
    """The fate of a column of the table; `bytes`: how much of it is sent."""

    name: str
    kind: str
    type: str
    fate: str
    destination: Destination
    bytes: int


@dataclass(frozen=True, slots=True)
class EncryptedColumn:
    """A column made for the query: of which arguments, and the bound of its total over all rows."""

    argument: str
    type: str
    moment: str
    exact: bool
    log2_scale: int
    bytes: int
    bound: float


@dataclass(frozen=True, slots=True)
class Parameters:
    name: str
    degree: int
    modulus_bits: int
    security_bits: int
    capacity_bits: int
    lanes: int
    keys_uploaded: int


@dataclass(frozen=True, slots=True)
class Requests:
    """To one service; `bytes_down` None: not foreseen."""

    count: int
    bytes_up: int
    bytes_down: int | None = None


@dataclass(frozen=True, slots=True)
class Leakage:
    """Sentences on what each service learns."""

    plain: tuple[str, ...]
    sensitive: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Description:
    """`selected_rows` and `groups` None: the question is answered here as a whole. `profile` None: nothing is sent.

    `local`: the outputs that this machine computes, and why. `sets`: how many sets of keys (GROUPING SETS, ROLLUP,
    CUBE) are put together from these groups, those of all keys. `ways`: of a stored table, how it could be answered
    and what each would take, the one that is taken first. `dollars`: at list price, of requests and transfer; of a
    question over files with both services on Lambda. `hint`: what the services could answer instead of a question
    that is answered here as a whole. `places`: of a stored table, where its sensitive and its plain half rest;
    requests are then of objects. `trust`: what the answer is not checked against, where that is more than usual.
    `threshold`: which groups are left out, "" for none.
    """

    table: str
    rows: int
    local: tuple[Output, ...]
    hint: str
    columns: tuple[ColumnFate, ...]
    profile: Parameters | None
    plain: Requests = Requests(0, 0)
    sensitive: Requests = Requests(0, 0)
    leakage: Leakage = Leakage((UNASKED,), (UNASKED,))
    selected_rows: int | None = None
    groups: int | None = None
    encrypted: tuple[EncryptedColumn, ...] = ()
    sets: int = 1
    places: tuple[str, str] | None = None
    ways: tuple[Considered, ...] = ()
    dollars: float = 0.0
    trust: str = ""
    threshold: str = ""


def description(
    table: str,
    rows: int,
    columns: Sequence[Column],
    cut: QueryPlan | LocalPlan,
    uses: Mapping[str, Use],
    unread: str,
    *,
    profile: Profile | None,
    lanes: int = 0,
    **facts: Any,
) -> Description:
    """The description of `cut`. `uses`: by column; of all others `unread`. `lanes`: numbers encrypted of a row, or
    objects read. `facts`: what only the source knows, members of Description.
    """

    def fate(column: Column) -> ColumnFate:
        use = uses.get(column.name, Use(unread))
        return ColumnFate(column.name, str(column.kind), column.type, use.text, use.destination, use.bytes)

    return Description(
        table=table,
        rows=rows,
        local=_local(cut),
        hint="" if isinstance(cut, QueryPlan) else cut.hint,
        columns=tuple(fate(each) for each in columns),
        profile=Parameters(
            name=profile.name,
            degree=profile.degree,
            modulus_bits=sum(profile.prime_bits),
            security_bits=min(profile.estimated_bits),
            capacity_bits=profile.capacity_bits,
            lanes=lanes,
            keys_uploaded=0,
        )
        if profile
        else None,
        sets=len(cut.sets) if isinstance(cut, QueryPlan) and cut.sets is not None else 1,
        **facts,
    )


def _local(cut: QueryPlan | LocalPlan) -> tuple[Output, ...]:
    outputs = [each for each in cut.outputs if each.reason]
    if isinstance(cut, QueryPlan):
        shown = {place for final in cut.finals for place in final.local}
        reasons = dict.fromkeys(each.reason for place, each in enumerate(cut.local) if place not in shown)
        outputs += [Output("HAVING or ORDER BY", "local", reason) for reason in reasons]
    return tuple(outputs)

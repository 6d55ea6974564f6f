"""Describe a question before it runs: what it sends and reads, how exact it is, and who learns what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cleave.ask.plan import Considered
from cleave.ask.way import Destination, Use
from cleave.sql.plan import Cut, Output
from cleave.table.schema import Column
from cleave_shared.params import Profile

UNASKED = "nothing: it gets no request"


@dataclass(frozen=True, slots=True)
class ColumnFate:
    """What happens to a column of the table; `bytes` says how much of it is sent."""

    name: str
    kind: str
    type: str
    fate: str
    destination: Destination
    bytes: int

    @classmethod
    def of(cls, column: Column, use: Use) -> ColumnFate:
        return cls(column.name, str(column.kind), column.type, use.text, use.destination, use.bytes)


@dataclass(frozen=True, slots=True)
class EncryptedColumn:
    """A column encrypted for the question: from which arguments, and a bound on its total over all rows."""

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

    @classmethod
    def of(cls, profile: Profile, lanes: int) -> Parameters:
        return cls(
            name=profile.name,
            degree=profile.degree,
            modulus_bits=sum(profile.prime_bits),
            security_bits=min(profile.estimated_bits),
            capacity_bits=profile.capacity_bits,
            lanes=lanes,
            keys_uploaded=0,
        )


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests to one service; `bytes_down` is None if it cannot be predicted."""

    count: int
    bytes_up: int
    bytes_down: int | None = None


@dataclass(frozen=True, slots=True)
class Leakage:
    """What each service learns, in sentences."""

    plain: tuple[str, ...]
    sensitive: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Description:
    """What a question would do.

    `selected_rows` and `groups` are None if the whole question is answered on this machine, and `profile` is None if
    nothing is sent. `local` holds the outputs that this machine computes, and why; `hint` says what the services could
    answer instead of such a question. `sets` counts the sets of keys (GROUPING SETS, ROLLUP, CUBE) that are built from
    these groups.

    For a stored table, `ways` lists how it could be answered and at what cost, the chosen way first, and `places` says
    where its sensitive and its plain half are stored; requests are then for objects. `dollars` is the list price of
    requests and transfer; for files, it assumes that both services run on Lambda. `trust` says what cannot be checked,
    if that is more than usual. `threshold` says which groups are left out; "" for none.
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
    cut: Cut,
    uses: Mapping[str, Use],
    unread: str,
    *,
    profile: Profile | None,
    lanes: int = 0,
    **facts: Any,
) -> Description:
    """Describe `cut`.

    `uses` says how each column is used, and `unread` applies to all others. `lanes` is the number of encrypted numbers
    of a row, or of objects read. `facts` are members of Description that only the source knows.
    """
    return Description(
        table=table,
        rows=rows,
        local=cut.computed_here,
        hint=cut.hint,
        columns=tuple(ColumnFate.of(each, uses.get(each.name, Use(unread))) for each in columns),
        profile=Parameters.of(profile, lanes) if profile else None,
        sets=cut.set_count,
        **facts,
    )

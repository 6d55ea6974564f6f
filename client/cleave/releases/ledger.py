"""The ledger of a lineage of releases: the numbers of every part, fixed when it was published.

Nothing in it is computed again. A part has the measures of its release. If a column was widened later, its numbers are
converted to the new units. A measure that was derived later is withheld in earlier parts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Literal

from cleave.releases.exact_totals import MOST_ROWS
from cleave.releases.publishing import key_of
from cleave.sql.rejoin import Texts
from cleave.store.manifest import Measure
from cleave.store.measures import columns_of, domain_of

_DIGITS = len(str(MOST_ROWS))


@dataclass(frozen=True, slots=True)
class MeasureTotals:
    """Totals of a measure in a part. `shown`: 0 none; 1 count and sum; 2 also the sum of squares."""

    shown: Literal[0, 1, 2] = 0
    count: int = 0
    sum: int = 0
    square: int = 0


WITHHELD = MeasureTotals()


@dataclass(frozen=True, slots=True)
class PublishedPart:
    """`release`: its number. `measures`: in the order of the ledger's; later ones may be missing."""

    key: Texts
    release: int
    rows: int
    measures: tuple[MeasureTotals, ...]

    def of(self, place: int) -> MeasureTotals:
        return self.measures[place] if place < len(self.measures) else WITHHELD


@dataclass(frozen=True, slots=True)
class Ledger:
    """All parts of one lineage of releases.

    `key`: of the newest totals. `least`: minimum people (or rows) of a part. `by`, `identity`, `entity`: columns that
    are fixed within the lineage. `measures`: those of all parts, as defined when their release was made. `times`:
    number of a release -> its time.
    """

    key: bytes
    least: int
    by: tuple[str, ...]
    identity: tuple[str, ...]
    entity: tuple[str, ...]
    measures: tuple[Measure, ...] = ()
    times: Mapping[int, str] = field(default_factory=dict)
    parts: tuple[PublishedPart, ...] = ()

    def with_parts(
        self,
        number: int,
        at: str,
        measures: Sequence[Measure],
        parts: Sequence[tuple[Texts, int, Sequence[MeasureTotals]]],
    ) -> Ledger:
        """This ledger with the new parts of release `number`. A part: key, rows, and the sums of each of `measures`."""
        if not parts:
            return self
        every = [*self.measures]
        for each in measures:
            if each not in every:
                every.append(each)
        places = [measures.index(each) if each in measures else None for each in every]
        published = [
            PublishedPart(key, number, rows, tuple(WITHHELD if place is None else sums[place] for place in places))
            for key, rows, sums in parts
        ]
        return replace(
            self,
            measures=tuple(every),
            times={**self.times, number: at},
            parts=(*self.parts, *published),
        )

    def sums(self, measure: Measure) -> list[MeasureTotals]:
        """The totals of a measure in every part, in its units."""
        places = [
            (place, conversion)
            for place, each in enumerate(self.measures)
            if (conversion := converting(each, measure)) is not None
        ]
        sums = []
        for part in self.parts:
            shown = [conversion(part.of(place)) for place, conversion in places if part.of(place).shown]
            sums.append(shown[0] if shown else WITHHELD)
        return sums

    def renamed(self, news: Mapping[str, str], dropped: Set[str]) -> Ledger:
        """The ledger after columns were renamed or dropped. `news`: old name in lower case -> new name. `dropped`: in
        lower case; such a name becomes "".
        """

        def new(name: str) -> str:
            return "" if name.lower() in dropped else news.get(name.lower(), name)

        measures = tuple(
            each.model_copy(update={"name": new(each.name), "sql": each.sql if each.derived else new(each.name)})
            for each in self.measures
        )
        by, identity, entity = (tuple(map(new, each)) for each in (self.by, self.identity, self.entity))
        return replace(self, measures=measures, by=by, identity=identity, entity=entity)

    def dump(self) -> bytes:
        content = {
            "format": 3,
            "key": self.key.hex(),
            "least": self.least,
            "by": self.by,
            "identity": self.identity,
            "entity": self.entity,
            "measures": [each.model_dump() for each in self.measures],
            "times": dict(self.times),
            "keys": [each.key for each in self.parts],
            "parts": [[each.release, each.rows] for each in self.parts],
            "sums": [
                [_texts(measure, part.of(place)) for place, measure in enumerate(self.measures)] for part in self.parts
            ],
        }
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def _texts(measure: Measure, of: MeasureTotals) -> list[str]:
    """The totals of a measure as text of a length that is the same for all parts."""
    digits = {each.part: len(str(each.limit * MOST_ROWS)) for each in columns_of([measure])}
    parts = (("count", of.count), ("sum", of.sum), ("square", of.square))
    return [str(of.shown), *(f"{total:0{digits.get(part, _DIGITS)}d}" for part, total in parts)]


def load_ledger(content: bytes) -> Ledger:
    """Read what `dump` wrote; it was sealed by the owner."""
    fields = json.loads(content)
    parts = tuple(
        PublishedPart(tuple(key), number, rows, tuple(MeasureTotals(*map(int, each)) for each in sums))  # type: ignore[arg-type]
        for key, (number, rows), sums in zip(fields["keys"], fields["parts"], fields["sums"], strict=True)
    )
    return Ledger(
        key_of(content),
        fields["least"],
        tuple(fields["by"]),
        tuple(fields["identity"]),
        tuple(fields["entity"]),
        tuple(map(Measure.model_validate, fields["measures"])),
        {int(number): at for number, at in fields["times"].items()},
        parts,
    )


def converting(old: Measure, new: Measure) -> Callable[[MeasureTotals], MeasureTotals] | None:
    """A function that converts totals of `old` to the units of `new`; None if they are not the same measure."""
    if old == new:
        return lambda sums: sums
    before, now = domain_of(old), domain_of(new)
    same = (old.name, old.derived, old.nullable) == (new.name, new.derived, new.nullable)
    if not same or (old.derived and old.sql != new.sql) or not (before.is_exact and now.is_exact):
        return None
    if now.unit % before.unit:
        return None
    scale = now.unit // before.unit
    if now.lower > before.lower * scale or now.upper < before.upper * scale:
        return None

    def convert(sums: MeasureTotals) -> MeasureTotals:
        total = sums.sum + before.lower * sums.count
        squares = sums.square + 2 * before.middle * total - before.middle**2 * sums.count
        total, squares = total * scale, squares * scale**2
        square = squares - 2 * now.middle * total + now.middle**2 * sums.count if sums.shown > 1 else 0
        return MeasureTotals(sums.shown, sums.count, total - now.lower * sums.count, square)

    return convert

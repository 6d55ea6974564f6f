"""The parts of a stored table, as listed in its sealed manifest.

  head        in the clear, the only object that changes: names the manifest; signed by the owner
  manifest    sealed: schema, by columns, measures, the newest segments and the objects of each
  pages       sealed: older segments and what else grows with the table (cleave.store.paged)
  secret      sealed: the CKKS secret key of the table's totals and rows for scans
  cells       sealed: pages of the by columns' values of every cell, and its rows
  release     ledger sealed: the numbers that were released to analysts; digests sealed: of published rows that left
              the table. The totals that analysts read are below releases/, sealed under the key of the release
  log         sealed: pages of the audit log (cleave.store.log), which the head names
  views       in the clear: for each reader of some columns, the object of its view, which is sealed: what it may know
              of the manifest, and the keys of its columns (cleave.store.views)
  segment     columns sealed: one object for each encrypted or sealed column, in blocks of rows (cleave.store.sealed)
              marks   sealed likewise: which rows were published in a release
              plain   Parquet of the plain columns, in the plain store; its rows have the same order
              totals  CKKS: every measure's totals of every cell
              scan    after `put --scan`: the rows of every measure as CKKS ciphertexts in a secret order, and that
                      order, sealed

Every object except the head is written once, under a random name, before the manifest that names it. So a reader sees
the table before or after a change, never in between.
"""

from __future__ import annotations

import datetime
import hashlib
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from cleave.store.paged import Content, Form, Paged
from cleave_shared.wire import Hex

N = TypeVar("N")

_OBJECT_BYTES = 320  # of an object in a page, about: numbers are padded
WINDOW = 64  # segments whose totals may be added up, position by position

# Columns that DuckDB's tables have here besides the stored table's. No schema may use these names: a row number, for
# example, would be read instead of a value.
NUMBER: Final = "number of the cell"  # of the cells
ROW: Final = "row of the segment"  # of new rows, and of rows stored in another order
MARK: Final = "mark of the row"  # TRUE: the row was published
RESERVED = frozenset({NUMBER, ROW, MARK, "file_row_number"})  # the last is DuckDB's, of a Parquet file

Count = Annotated[int, Field(ge=0)]


class StoredModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Object(StoredModel):
    """A stored object. Its digest identifies the written content, because the manifest with it is authenticated."""

    name: Annotated[str, Field(pattern=r"^(tables|releases)/[0-9a-f]{32}/[0-9a-f]{32}$")]
    bytes: Count
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Measure(StoredModel):
    """An expression with totals per cell: an encrypted column, or a derived column of the schema.

    `sql`: over the table's columns. If exact (`decimals` is set), it is counted in units of the last decimal, within
    `lower`..`upper`. For a double x, totals are of round((x - centre) * 2^exponent), and of the square with as many
    bits.
    """

    name: str
    sql: str
    type: str
    decimals: int | None
    lower: int | float | None
    upper: int | float | None
    nullable: bool
    derived: bool  # not a column of the table: only its totals are stored
    centre: float = 0.0
    exponent: int = 0


class TotalsObjects(StoredModel):
    """The totals of measures `first`..`stop` over a segment: one object per lane.

    `sums` and `weighted`: for every lane, the sum of its entries, plain and with secret weights. They verify a sum over
    several segments that a service computed. `label`: random; the sentinels in the ciphertexts follow from it.
    """

    label: Hex
    first: Count
    stop: Count
    lanes: tuple[Object, ...]
    sums: tuple[int, ...]
    weighted: tuple[int, ...]


class SealedColumn(StoredModel):
    """A column whose rows are sealed. `width`: bytes of a value; 0 for variable length."""

    name: str
    id: Hex
    type: str  # DuckDB's
    width: Literal[0, 1, 2, 4, 8, 16]
    nullable: bool


class Sealed(StoredModel):
    """The object of a sealed column in one segment. `lengths`: of its blocks, for values of variable length."""

    object: Object
    lengths: tuple[Count, ...] = ()


class ScanObjects(StoredModel):
    """Rows of a segment as ciphertexts that a service adds up, in a secret order."""

    order: Object  # sealed: for each of these rows, its row in the segment
    lanes: tuple[tuple[Object, ...], ...]  # by lane, then by range of chunks


class Segment(StoredModel):
    """Rows that were stored together. `index`: the rows of each cell, and where rows of equal plain by columns are
    (cleave.store.cells.Index); "" for readers.
    """

    id: Hex
    added: str  # ISO 8601, UTC
    rows: Count
    cells: Count  # of the table when it was written: its totals have one entry per cell
    index: Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]*={0,2}$")]
    columns: tuple[Sealed, ...]  # one per sealed column of the manifest
    totals: tuple[TotalsObjects, ...]  # of all measures at that time, then of each later derived one
    plain: Object | None
    scan: ScanObjects | None = None
    contributor: str | None = None  # owner of the rows; None: the table's owner
    marks: Sealed | None = None  # None: no row is published
    unpublished: Count | None = None  # rows; None: all

    def parts(self) -> Iterator[Object]:
        """All its objects, in either store."""
        yield from (each.object for each in self.columns)
        if self.marks is not None:
            yield self.marks.object
        yield from (lane for each in self.totals for lane in each.lanes)
        if self.plain is not None:
            yield self.plain
        if self.scan is not None:
            yield self.scan.order
            yield from (part for lane in self.scan.lanes for part in lane)

    def bytes_of_parts(self) -> int:
        return sum(each.bytes for each in self.parts())

    def bytes_of_columns(self) -> int:
        return sum(each.object.bytes for each in self.columns)


class StoredPage(StoredModel):
    """A page of a list. `count`: of its items."""

    object: Object
    count: Annotated[int, Field(ge=1)]

    @property
    def name(self) -> str:
        return self.object.name


class SegmentPage(StoredPage):
    """A page of segments, and what is known of them without it.

    `rows`, `bytes`: of all of them, and of their objects in either store. `columns`, `plain`: bytes of their sealed
    columns, and of their plain halves. `halves`: number of these. `most_cells`: of a segment. `contributors`: of them,
    each once; None: the owner. `cells`: for each combination of plain by values in them a cell with rows there, as 4
    bytes in base64; None: there are too many.
    """

    rows: Count
    bytes: Count
    columns: Count
    plain: Count
    halves: Count
    most_cells: Count
    contributors: tuple[str | None, ...]
    cells: Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]*={0,2}$")] | None


class Segments(Paged[Segment, SegmentPage]):
    FORM = Form[Segment, SegmentPage]
    CONTENT = Content[Segment]
    MOST = 64

    @staticmethod
    def size(item: Segment) -> int:
        return _OBJECT_BYTES * sum(1 for _ in item.parts()) + len(item.index)

    @property
    def rows(self) -> int:
        return sum(self._of_pages(lambda page: page.rows, lambda each: each.rows))

    @property
    def bytes(self) -> int:
        """Bytes of all objects, in either store."""
        return sum(self._of_pages(lambda page: page.bytes + page.object.bytes, Segment.bytes_of_parts))

    @property
    def columns(self) -> int:
        """Bytes of all sealed columns."""
        return sum(self._of_pages(lambda page: page.columns, Segment.bytes_of_columns))

    @property
    def plain(self) -> int:
        """Bytes of all plain halves."""
        return sum(self._of_pages(lambda page: page.plain, lambda each: each.plain.bytes if each.plain else 0))

    @property
    def halves(self) -> int:
        """Number of plain halves."""
        return sum(self._of_pages(lambda page: page.halves, lambda each: int(each.plain is not None)))

    @property
    def most_cells(self) -> int:
        """The largest number of cells of a segment; 0 without segments."""
        return max(self._of_pages(lambda page: page.most_cells, lambda each: each.cells), default=0)

    @property
    def contributors(self) -> list[str | None]:
        """Whose rows there are, in order; None: the owner's."""
        found = self._of_pages(lambda page: page.contributors, lambda each: (each.contributor,))
        return list(dict.fromkeys(each for of in found for each in of))

    def replaced(self, news: Mapping[str, Segment | None]) -> Segments:
        """With other segments for those of these ids; None: without it. Reads all pages if there are any."""
        if not news:
            return self
        found = [news.get(each.id, each) for each in self]
        return self.rearranged(each for each in found if each is not None)

    def _of_pages(self, page_of: Callable[[SegmentPage], N], item_of: Callable[[Segment], N]) -> Iterator[N]:
        """What `page_of` says of each stored page, and `item_of` of every other segment."""
        for page in self.pages:
            if page.stored is not None:
                yield page_of(page.stored)
            else:
                yield from map(item_of, page.items)
        yield from map(item_of, self.last)


class HandledPart(StoredModel):
    """A part of a contribution that the owner has handled: its segments in the table; () if it was refused."""

    id: Hex
    segments: tuple[Hex, ...]


class HandledParts(Paged[HandledPart, StoredPage]):
    FORM = Form[HandledPart, StoredPage]
    CONTENT = Content[HandledPart]
    MOST = 1024


class Contributor(StoredModel):
    """A party that may add rows without the owner's key. `version` and `digest`: of the last collected head.

    `registration`: random, so that a contributor who is removed and added again is a different one.
    """

    name: str
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]  # Ed25519
    registration: Hex
    added: str
    version: Count = 0
    digest: str = ""
    parts: HandledParts = HandledParts()


class Analyst(StoredModel):
    """A reader to whom the table's releases are sealed. `box`, `signing`: its public keys, in base64.

    `place`: the folder of its head.
    """

    name: str
    box: str
    signing: str
    place: Annotated[str, Field(pattern=r"^releases/[0-9a-f]{32}$")]
    added: str


class Release(StoredModel):
    """The newest release of the table. A class for each kind has what differs.

    `number`: counts releases. `ledger`, sealed: the key of the totals, and the released numbers. `totals`: None without
    analysts. `before`: the totals that analysts read until their heads name the new ones. `revoked`: analysts who get
    no more.
    """

    kind: str
    id: Hex
    number: Count
    at: str
    ledger: Object
    totals: Object | None
    before: Object | None = None
    analysts: tuple[Analyst, ...] = ()
    revoked: tuple[Analyst, ...] = ()

    @property
    def marking(self) -> ExactRelease | None:
        """The release of the lineage that marks of rows are of; None: no row is marked."""
        return None

    @property
    def noisy(self) -> NoisyRelease | None:
        """This release, if its numbers have noise."""
        return None

    @property
    def least_part(self) -> int:
        """Minimum people (or rows) of each part, as heads of analysts state it; 0: parts have none."""
        return 0

    def spends(self, version: int) -> int:  # noqa: ARG002 - it depends on the kind
        """The epsilon that version `version` of the table spent on it, in millionths."""
        return 0

    def sealed(self) -> dict[str, Object]:
        """Its objects that are sealed in the table, by what they are."""
        return {"the ledger of releases": self.ledger}

    def moved(self, moved: Callable[[Object], Object]) -> Self:
        """The release in a table that goes on under another key. `moved`: seals an object there."""
        return self.model_copy(update={"ledger": moved(self.ledger), "totals": None, "before": None})

    def parts(self) -> Iterator[Object]:
        """All its objects, except the analysts' heads."""
        yield from self.sealed().values()
        yield from (each for each in (self.totals, self.before) if each is not None)


class ExactRelease(Release):
    """Totals of parts of enough people (cleave.releases.exact).

    `least`: minimum people of a part, or rows without an entity; `lowest`: the smallest one in this lineage. `lineage`:
    id of a series of releases in which no row appears twice. `digests`, sealed: of published rows that left. `ended`: a
    published row left without a digest, so the lineage gets no more parts. `accepted`: number of restored copies in the
    log when the lineage began.
    """

    kind: Literal["exact"] = "exact"
    least: Count
    lowest: Count
    lineage: Hex
    digests: Object | None = None
    ended: Literal[0, 1] = 0  # of one size
    accepted: Count = 0

    @property
    def marking(self) -> ExactRelease:
        return self

    @property
    def least_part(self) -> int:
        return self.lowest

    def sealed(self) -> dict[str, Object]:
        digests = {} if self.digests is None else {"the digests of released rows that left": self.digests}
        return {**super().sealed(), **digests}

    def moved(self, moved: Callable[[Object], Object]) -> Self:
        digests = self.digests and moved(self.digests)
        return super().moved(moved).model_copy(update={"digests": digests})


class NoisyRelease(Release):
    """Numbers with noise (cleave.releases.noisy), which are in the ledger.

    `epsilon`: in millionths. `request`: digest of the owner's choices. `drawn`: the version of the table that came with
    the numbers.
    """

    kind: Literal["noisy"] = "noisy"
    epsilon: Annotated[int, Field(ge=1)]
    request: str
    drawn: Count

    @property
    def noisy(self) -> NoisyRelease:
        return self

    def spends(self, version: int) -> int:
        return self.epsilon if self.drawn == version else 0


AnyRelease = ExactRelease | NoisyRelease


class Reader(StoredModel):
    """Holder of the keys of some columns. `box`, `signing`: of its public half, in base64.

    `id`: random, of this registration. `columns`: their names as the schema spells them. `names`: whether it sees those
    of the others. `place`: the folder of what is sealed to it.
    """

    id: Hex
    name: str
    box: str
    signing: str
    place: Annotated[str, Field(pattern=r"^releases/[0-9a-f]{32}$")]
    columns: Annotated[tuple[str, ...], Field(min_length=1)]
    names: bool
    added: str


class Batch(StoredModel):
    """A named append. `digest`: SHA-256 of its file; "" if it was not a single file."""

    id: str
    digest: str


class Batches(Paged[Batch, StoredPage]):
    FORM = Form[Batch, StoredPage]
    CONTENT = Content[Batch]
    MOST = 1024


class Manifest(StoredModel):
    """A version of a table.

    `had_exact`: the table, or a dropped one of its name, had exact releases. `copied`: while a rotation copies a table
    here, digests of what each segment was made from, by its id. `revoking`: readers that get no view any more, and
    still have keys of columns.

    `doomed`, `doomed_plain`: names of objects in the sensitive and the plain store that no version from this one on
    names. They are deleted after its commit, by whoever comes first, and leave the list with the next commit. `sweeps`:
    how many commits doomed objects that no version named. `swept`: when these were looked for last.
    """

    format: Literal[3] = 3
    table: str
    table_id: Hex
    version: Annotated[int, Field(ge=1)]
    changed: str  # ISO 8601, UTC
    profile: str
    schema_toml: str
    by: tuple[str, ...]
    key: tuple[str, ...] = ()  # columns that together identify a row
    measures: tuple[Measure, ...]
    sealed: tuple[SealedColumn, ...]
    scanned: Count = 0  # number of measures, counted from the first, with rows for scans
    secret: Object  # sealed: the table's CKKS secret key
    cells: tuple[Object, ...]  # pages, in order
    segments: Segments
    contributors: tuple[Contributor, ...] = ()
    batches: Batches = Batches()
    local: tuple[str, ...] = ()  # columns of the rows that are not stored
    release: Annotated[AnyRelease, Field(discriminator="kind")] | None = None
    had_exact: Literal[0, 1] = 0
    readers: tuple[Reader, ...] = ()
    revoking: tuple[Reader, ...] = ()
    copied: tuple[tuple[Hex, str], ...] = ()
    doomed: tuple[str, ...] = ()
    doomed_plain: tuple[str, ...] = ()
    sweeps: Count = 0
    swept: str = ""  # ISO 8601, UTC

    @property
    def rows(self) -> int:
        return self.segments.rows

    @property
    def bytes(self) -> int:
        """Bytes of all its objects, in either store."""
        return self.segments.bytes + sum(each.bytes for each in self._own_parts())

    @property
    def next_release(self) -> int:
        """The number of the next release."""
        return self.release.number + 1 if self.release else 1

    @property
    def marking(self) -> ExactRelease | None:
        """The release of the lineage that marks of rows are of; None: no row is marked."""
        return self.release.marking if self.release else None

    @property
    def noisy(self) -> NoisyRelease | None:
        """The newest release, if its numbers have noise."""
        return self.release.noisy if self.release else None

    @property
    def lineage(self) -> ExactRelease | None:
        """The same, if the lineage may get further parts."""
        return self.marking if self.marking and not self.marking.ended else None

    def next(self) -> Manifest:
        """The manifest of the next version, whose list of doomed objects is still this one's."""
        return self.model_copy(update={"version": self.version + 1, "changed": now()})

    def objects(self) -> set[str]:
        """Names of all its objects, in either store."""
        return {each.name for each in self.parts()}

    def parts(self, without: Collection[str] = ()) -> Iterator[Object]:
        """All its objects, in either store. Reads the pages of segments, except those with names in `without`, whose
        objects it leaves out.
        """
        yield from self._own_parts()
        for page in self.segments.pages:
            if page.stored is None or page.stored.name not in without:
                yield from (page.stored.object,) if page.stored is not None else ()
                yield from (part for each in page.items for part in each.parts())
        yield from (part for each in self.segments.last for part in each.parts())

    def _own_parts(self) -> Iterator[Object]:
        """All objects but those of segments and their pages."""
        yield self.secret
        yield from self.cells
        lists: list[Paged[Any, StoredPage]] = [self.batches, *(each.parts for each in self.contributors)]
        yield from (page.stored.object for each in lists for page in each.pages if page.stored is not None)
        if self.release is not None:
            yield from self.release.parts()


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def new_id() -> str:
    return secrets.token_hex(16)


def described(name: str, content: bytes) -> Object:
    return Object(name=name, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def is_content(content: bytes, which: Object) -> bool:
    """True if an object has the digest of `content`."""
    return hashlib.sha256(content).hexdigest() == which.sha256

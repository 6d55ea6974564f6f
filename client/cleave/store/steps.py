"""Write the steps of a change: the segments of its pieces that its draft lacks, and the manifest that has them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from cleave.objects.storage import ForeignError
from cleave.store.basis import digest_of
from cleave.store.cells import Cells, index_of
from cleave.store.change_drafts import ChangeDraft
from cleave.store.manifest import Contributor, Manifest, Segment
from cleave.store.pieces import ChangeStep, Piece
from cleave.store.reader import Opened
from cleave.store.segment import SegmentWriter
from cleave.store.sweeping import ObjectNames
from cleave.store.tables import Tables
from cleave_shared.errors import CheckFailed


class DamagedStepError(CheckFailed):
    """An object of a draft's step is damaged, or was swept by another change."""


@contextmanager
def _of_step() -> Iterator[None]:
    """Reads objects of a draft's step alone. Raises DamagedStepError, ForeignError."""
    try:
        yield
    except ForeignError:
        raise
    except CheckFailed as failure:
        raise DamagedStepError(failure.check, failure.message, hint=failure.hint) from None


class Writing:
    """Writes what a draft lacks of `pieces`, for a manifest based on `base`. `cells`: counts the rows.

    `used`: steps of the draft that count. `lost`: a step's source segments are not there any more, or changed.
    """

    def __init__(
        self,
        tables: Tables,
        base: Opened | None,
        manifest: Manifest,
        pieces: Sequence[Piece],
        cells: Cells,
        draft: ChangeDraft,
    ) -> None:
        self._tables = tables
        self._base = base
        self._manifest = manifest
        self._pieces = pieces
        self._cells = cells
        has_sources = base is not None and any(each.replaces for each in pieces)
        self._sources = {each.id: each for each in base.manifest.segments} if base and has_sources else {}
        self.own = ObjectNames()
        self._done = [self._usable(piece, draft) for piece in pieces]
        self.used = sum(map(len, self._done))
        self.lost = any(each.replaces and not any(each in of for of in self._done) for each in draft.steps)

    def _usable(self, piece: Piece, draft: ChangeDraft) -> list[ChangeStep]:
        context = self._context(piece)
        return [each for each in draft.steps if each.replaces == piece.replaces and each.context == context]

    def _context(self, piece: Piece) -> str:
        return digest_of([self._sources.get(each) for each in piece.replaces]) if piece.replaces else ""

    def all_steps(self, advance: Callable[[int], None], add: Callable[[ChangeStep], None]) -> list[ChangeStep]:
        """All steps of the pieces, in order; new ones are recorded by `add`."""
        steps: list[list[ChangeStep]] = []
        apart: list[tuple[int, int]] = []  # steps with other numbers of cells
        for number, (piece, done) in enumerate(zip(self._pieces, self._done, strict=True)):
            if done:
                piece.take_out(self._cells)
                advance(piece.rows if piece.replaces else 0)
            for place, step in enumerate(done):
                if step.segment is not None and not self._claim(step):
                    apart.append((number, place))
            steps.append(list(done))
        written = [piece.is_written(done) for piece, done in zip(self._pieces, self._done, strict=True)]
        due = [piece for piece, is_written in zip(self._pieces, written, strict=True) if not is_written]
        if not apart and not due:
            return [each for of in steps for each in of]
        most = max((each.most_rows for each in due), default=0)
        with SegmentWriter(self._tables, self._manifest, self._cells, most, advance) as writer:
            for number, place in apart:
                steps[number][place] = self._renumbered(writer, steps[number][place])
            for number, piece in enumerate(self._pieces):
                if written[number]:
                    continue
                context, more = self._context(piece), piece.write(writer, self._done[number])
                with closing(more):
                    for step in more:
                        step = step.model_copy(update={"context": context})  # noqa: PLW2901
                        add(step)
                        steps[number].append(step)
        return [each for of in steps for each in of]

    def _claim(self, step: ChangeStep) -> bool:
        """Count a stored segment's rows in its cells. False if its numbers are other cells' by now; then nothing is
        counted.
        """
        segment = step.segment
        assert segment is not None  # noqa: S101 - the caller looked
        if not self._cells.claim(self._manifest.by, step.keys):
            return False
        self._cells.count(index_of(segment))
        return True

    def _renumbered(self, writer: SegmentWriter, step: ChangeStep) -> ChangeStep:
        assert self._base is not None and step.segment is not None  # noqa: S101, PT018 - else numbers cannot differ
        with _of_step():
            segment, keys = writer.renumbered(self._base, step.segment)
        self.own |= ObjectNames(frozenset(lane.name for each in segment.totals for lane in each.lanes))
        return step.model_copy(update={"segment": segment, "keys": keys})


def next_manifest(manifest: Manifest, pieces: Sequence[Piece], steps: Sequence[ChangeStep]) -> Manifest:
    """`manifest` with the segments of `steps`. Each replaces its old segment, or is appended."""
    replacements = {step.replaces: step.segment for step in steps if step.replaces}
    news = {
        id_: replacements.get(piece.replaces) if place == 0 else None
        for piece in pieces
        for place, id_ in enumerate(piece.replaces)
    }
    ids = {each.id for each in manifest.segments} if news else set()
    added = [step.segment for step in steps if ids.isdisjoint(step.replaces) and step.segment is not None]
    if not news:
        return manifest.model_copy(update={"segments": manifest.segments.extended(added)})
    update = {
        "segments": manifest.segments.replaced(news).extended(added),
        "contributors": tuple(_renamed(each, news) for each in manifest.contributors),
    }
    return manifest.model_copy(update=update)


def _renamed(contributor: Contributor, news: Mapping[str, Segment | None]) -> Contributor:
    """`contributor` with the new ids of its parts' segments, so that it can still replace a part."""

    def ids(old: Sequence[str]) -> tuple[str, ...]:
        segments: list[Segment | str | None] = [news.get(each, each) for each in old]
        return tuple(each if isinstance(each, str) else each.id for each in segments if each is not None)

    parts = (each.model_copy(update={"segments": ids(each.segments)}) for each in contributor.parts)
    return contributor.model_copy(update={"parts": contributor.parts.rearranged(parts)})

"""The page of a release: what it would publish, what it withholds and why, and a line to sign.

It is for the owner and whoever approves the release, never for analysts: it has reasons, and counts rows that wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from cleave.share.addressed import public_of
from cleave.text.printable import printable
from cleave.text.quantities import counted

if TYPE_CHECKING:
    from cleave.releases.drafting import ReleaseDraft
    from cleave.store.manifest import Analyst

_SIGN = "Approved by:"
_SHOWN = ("", "count, sum", "count, sum, sum of squares")


def page_of(draft: ReleaseDraft) -> str:
    """The page as Markdown; no name or value can break its lines. It is the same for the same draft and version of the
    table.
    """
    return markdown(_lines(draft))


def markdown(lines: Iterable[str]) -> str:
    """The lines, which no name or value can break, and one to sign."""
    return "\n".join(map(printable, (*lines, "", f"{_SIGN} ______________________  Date: ____________"))) + "\n"


def is_signed_from(page: str, unsigned: str) -> bool:
    """Check whether `page` is the page `unsigned`. Text after the line to sign is not compared."""
    before, sign, _ = unsigned.rpartition(_SIGN)
    return page.startswith(before + sign)


def recipients(analysts: Iterable[Analyst]) -> str:
    """The line that says whom a release is for."""
    return f"- for: {', '.join(f'{each.name} ({public_of(each).fingerprint})' for each in analysts)}"


def _lines(draft: ReleaseDraft) -> Iterator[str]:
    manifest, people = draft.opened.manifest, draft.counted
    yield f"# Release {draft.number} of table {manifest.table}"
    yield ""
    yield f"- table: id {manifest.table_id}, version {manifest.version}, {draft.opened.head.manifest.sha256}"
    yield recipients(draft.analysts)
    yield f"- each part: at least {draft.least} {people}"
    yield f"- parts published before: {len(draft.ledger.parts)}"
    if draft.ends:
        yield "- a new lineage: all rows are published again. Numbers of the earlier one can be subtracted from these"
    if not draft.publishes:
        yield "- nothing new: the parts published before are sealed again"
    yield ""
    yield "## Parts"
    yield ""
    if not draft.parts:
        yield "None."
    for name, part in zip(_names(draft), draft.parts, strict=True):
        size = f", {part.rule.size:,} {people}" if draft.ledger.entity else ""
        yield f"- {name}: {counted(part.rows, 'row')}{size}"
        for place, measure in enumerate(draft.measures):
            shown = part.rule.shown[place]
            reason = part.rule.why.get(place)
            yield f"  - {measure.name}: {_SHOWN[shown] or f'withheld: {reason}'}"
    yield ""
    yield "## Waiting"
    yield ""
    rows = sum(draft.waiting.values())
    yield f"{counted(rows, 'row')} in {counted(len(draft.waiting), 'cell')}: too few {people} so far."
    yield ""
    yield "## What the analysts will see"
    yield ""
    yield f"For each part its cell, its number of rows, and that it has at least {draft.ledger.least} {people}."
    yield "For each column that is not withheld: how many values, their sum, and that of their squares as above."
    yield "Nothing of reasons, and nothing of cells that wait."


def _names(draft: ReleaseDraft) -> Iterator[str]:
    by = draft.opened.manifest.by
    for part in draft.parts:
        pairs = zip(by, part.key, strict=True)
        yield ", ".join(f"{name} = {'NULL' if value is None else value}" for name, value in pairs) or "all rows"

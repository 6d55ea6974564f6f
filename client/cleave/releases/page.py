"""The page of a release: what it would publish, what it withholds and why, and a line to sign.

It is for the owner and whoever approves the release, never for analysts: it has reasons, and counts rows that wait.
"""

from __future__ import annotations

from collections.abc import Iterator

from cleave.releases.kind import ReleaseDraft
from cleave.share.addressed import public_of
from cleave.text.printable import printable

_SIGN = "Approved by:"


def page_of(draft: ReleaseDraft) -> str:
    """The page as Markdown; no name or value can break its lines. It is the same for the same draft and version of the
    table.
    """
    lines = (*_lines(draft), "", f"{_SIGN} ______________________  Date: ____________")
    return "\n".join(map(printable, lines)) + "\n"


def _lines(draft: ReleaseDraft) -> Iterator[str]:
    manifest = draft.opened.manifest
    yield f"# {draft.title}"
    yield ""
    yield f"- table: id {manifest.table_id}, version {manifest.version}, {draft.opened.head.manifest.sha256}"
    yield f"- for: {', '.join(f'{each.name} ({public_of(each).fingerprint})' for each in draft.analysts)}"
    yield from (f"- readers get rows: {each.name} ({', '.join(each.columns)})" for each in manifest.readers)
    yield from (f"- confirmed with --yes: {each}" for each in draft.confirmed)
    yield from draft.lines()


def is_page_of(draft: ReleaseDraft, page: str) -> bool:
    """True if `page` is the page of `draft`. Text after the line to sign is not compared."""
    before, sign, _ = page_of(draft).rpartition(_SIGN)
    return page.startswith(before + sign)

"""What `cleave plan` says in short that each party learns."""

from __future__ import annotations

from cleave.ask.describe import Leakage

MOST_WORDS = 12


def too_long(leakage: Leakage) -> list[str]:
    """Lessons that the short plan shows in more words than a reader takes in at once."""
    shown = [getattr(lesson, "short", lesson) for lesson in (*leakage.plain, *leakage.sensitive)]
    return [text for text in shown if not 0 < len(text.split()) <= MOST_WORDS]

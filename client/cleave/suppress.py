"""Small groups are left out before an answer is finished: a sum over a few people tells about each of them.

Before, not after: HAVING, ORDER BY and LIMIT then see only what is shown, and no total over groups can hold a
suppressed one. A size is the number of rows the group has after WHERE. What one answer cannot cover: two questions
whose difference is a small group, and expressions that pick rows within a large one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cleave.aggregates.base import Figure
from cleave.sql.rejoin import Groups


def suppress_small(
    groups: Groups, answers: Sequence[Sequence[Figure]], min_group: int
) -> tuple[Groups, list[Sequence[Figure]], int]:
    """The groups of at least `min_group` rows, their answers, and how many others there were.

    Without GROUP BY the selected rows are one group.
    """
    kept = [place for place, rows in enumerate(groups.counts) if rows >= min_group]
    shown = replace(
        groups,
        keys=[groups.keys[place] for place in kept],
        counts=[groups.counts[place] for place in kept],
        plain=[groups.plain[place] for place in kept],
    )
    return shown, [answers[place] for place in kept], len(groups.counts) - len(kept)

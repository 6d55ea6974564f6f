"""Packed answers to scans, made in this process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cleave.ckks.packed import Packing
from cleave.store import packed
from cleave.store.masks import Cut, stored_order
from cleave.store.packed import Room
from cleave.store.scanned import Question, question
from cleave_services.sensitive.pack import Packing as Asked
from cleave_services.sensitive.pack import pack_all
from cleave_services.sensitive.scan import MaskedSums
from cleave_shared import limits
from tests.store.scanning import Rows, Totals

Harm = Callable[[Question, Totals], Totals]


def room(rows: Rows) -> Room:
    return Room(rows.lanes, rows.cipher.ring.degree, rows.cipher.ring.modulus)


def cuts(rows: Rows, numbers: NDArray[np.int32], groups: int) -> list[tuple[Cut, Packing | None]]:
    placed = stored_order(numbers, np.arange(len(numbers), dtype=np.uint32), rows.lanes.capacity)
    return list(packed.cuts(placed, groups, range(rows.lanes.count), rows.window, room(rows)))


@cache
def key_of(rows: Rows) -> bytes:
    return rows.cipher.packing_key(limits.MAX_PACKING_LEVELS)


def answer(
    rows: Rows, asked: Question, *, key: bytes | None = None, sums: MaskedSums | None = None, **changes: Any
) -> Totals:
    """What the service answers; `changes`: to what it is told of the packing."""
    if asked.packing is None:
        return rows.answer(asked, sums)
    of = rows.wanted(asked)
    totals = (sums or MaskedSums(rows.evaluator, of)).evaluate(rows.chunks(asked))
    told = {"levels": asked.packing.levels, "shift": asked.packing.shift} | changes
    return [pack_all(rows.key.profile.name, Asked(key_of(rows) if key is None else key, **told), of, totals)]


def totals(
    rows: Rows, numbers: NDArray[np.int32], groups: int, harm: Harm = lambda _, found: found
) -> tuple[dict[tuple[int, int], int], int]:
    """By column and group, and how many of the answers were packed."""
    scanned, all_cuts = rows.scanned(), cuts(rows, numbers, groups)
    for each, packing in all_cuts:
        asked = question(each, packing=packing)
        scanned.accept(asked, harm(asked, answer(rows, asked)))
    present = sorted({group for each, _ in all_cuts for group in each.groups})
    found = {(at, group): scanned.total(at, group) for at in range(len(rows.columns)) for group in present}
    return found, sum(packing is not None for _, packing in all_cuts)

"""Removes whole segments of a contributor from a table."""

from __future__ import annotations

from collections.abc import Sequence

from cleave.store.cells import Cells
from cleave.store.contributors import contributor_of
from cleave.store.filling import Say, silent
from cleave.store.manifest import Manifest, Segment
from cleave.store.published import ENDS, all_rows, has_ended, leaving
from cleave.store.reader import Opened
from cleave.store.tables import Tables


def remove(tables: Tables, table: str, name: str, warn: Say = silent) -> Opened:
    """Remove a contributor and its rows. `warn` is told if the table's releases end."""
    opened = tables.open(table)
    who = contributor_of(opened.manifest, name)
    gone = [each for each in opened.manifest.segments if each.contributor == who.name]
    manifest, cells = without(tables, opened, gone)
    left = tuple(each for each in manifest.contributors if each != who)
    manifest = manifest.model_copy(update={"contributors": left, "cells": tables.seal_cells(manifest, cells)})
    done = tables.commit(manifest, opened, "contributor remove", contributor=who.name)
    if has_ended(opened.manifest, done.manifest):
        warn(ENDS)
    return done


def without(tables: Tables, opened: Opened, gone: Sequence[Segment]) -> tuple[Manifest, Cells]:
    """The manifest of `opened` without the segments `gone`, and its cells without their rows."""
    manifest, cells = opened.manifest, tables.cells(opened)
    for segment in gone:
        cells.count(tables.index(opened.vault, segment), -1)
    ids = {each.id for each in gone}
    segments = tuple(each for each in manifest.segments if each.id not in ids)
    release = leaving(tables, opened, dict.fromkeys(ids, all_rows))
    return manifest.model_copy(update={"segments": segments, "release": release}), cells

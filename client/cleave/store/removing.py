"""Registers contributors of a table, and removes them with their rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack

from cleave.store.cells import Cells, index_of
from cleave.store.change import Change, ChangePlan
from cleave.store.consent import require_no_reader
from cleave.store.contributors import OWNER, contributor_of, is_shared
from cleave.store.filling import Say, silent
from cleave.store.making import make
from cleave.store.manifest import Contributor, Manifest, Segment, new_id, now
from cleave.store.published import ENDS, all_rows, has_ended, leaving
from cleave.store.reader import Opened
from cleave.store.tables import Tables
from cleave.table.progress import Silent
from cleave_shared.errors import InputError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")


def register(tables: Tables, table: str, name: str, key: str) -> Opened:
    """Register the holder of `key` (64 hex digits) as contributor `name`. Raises InputError, ConflictError."""
    contributor = Contributor(name=name, key=key, registration=new_id(), added=now())

    def plan(base: Opened | None, stack: ExitStack) -> ChangePlan:  # noqa: ARG001 - it opens nothing
        if base is None:
            raise tables.no_table(table)
        if not _NAME.fullmatch(name) or name.lower() == OWNER:
            raise InputError(
                f"{name!r}: not a contributor's name",
                hint="letters, digits, blanks and . _ - up to 64, and not 'owner'",
            )
        for known in base.manifest.contributors:
            if known.name.lower() == name.lower():
                raise InputError(f"there is a contributor {known.name!r} already", hint="choose another name")
            if known.key == key:
                raise InputError(f"this key is that of contributor {known.name!r}")
        if not is_shared(base.manifest):
            require_no_reader(base.manifest, "rows of contributors")
        manifest = base.manifest.model_copy(update={"contributors": (*base.manifest.contributors, contributor)})
        return ChangePlan(manifest, details={"contributor": name})

    return make(tables, table, Change("contributor add", [name, key], plan), Silent()).opened


def remove(tables: Tables, table: str, name: str, warn: Say = silent) -> Opened:
    """Remove a contributor and its rows. `warn` is told if the table's releases end.

    Raises InputError for an unknown name, ConflictError.
    """

    def plan(base: Opened | None, stack: ExitStack) -> ChangePlan:  # noqa: ARG001 - as above
        if base is None:
            raise tables.no_table(table)
        who = contributor_of(base.manifest, name)
        gone = [each for each in base.manifest.segments if each.contributor == who.name]
        manifest, cells = without(tables, base, gone)
        left = tuple(each for each in manifest.contributors if each != who)
        return ChangePlan(
            manifest.model_copy(update={"contributors": left}), cells=cells, details={"contributor": who.name}
        )

    done = make(tables, table, Change("contributor remove", [name.lower()], plan), Silent())
    if done.before is not None and has_ended(done.before.manifest, done.opened.manifest):
        warn(ENDS)
    return done.opened


def without(tables: Tables, opened: Opened, gone: Sequence[Segment]) -> tuple[Manifest, Cells]:
    """The manifest of `opened` without the segments `gone`, and its cells without their rows."""
    manifest, cells = opened.manifest, tables.cells(opened)
    for segment in gone:
        cells.count(index_of(segment), -1)
    ids = {each.id for each in gone}
    segments = manifest.segments.rearranged(each for each in manifest.segments if each.id not in ids)
    release = leaving(tables, opened, dict.fromkeys(ids, all_rows))
    return manifest.model_copy(update={"segments": segments, "release": release}), cells

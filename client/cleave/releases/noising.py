"""Draw and publish a noisy release of a table, as its owner.

The numbers are drawn once. One commit stores them and, in the head of the table, the epsilon that is spent. If the
table has not changed, a repeated release publishes the same numbers. After a new analyst, a revocation or a rotation
the same numbers are sealed again.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from cleave.ckks.public_key import PublicKey, public_side
from cleave.disclosure.noise import Clamp
from cleave.releases.analysts import joined
from cleave.releases.drawing import noisy, require_sampler
from cleave.releases.kept import kept_totals
from cleave.releases.noisy import NoisyStatistic, NoisyTotals
from cleave.releases.noisy_draft import NoisyDraft, drawn_totals, require_budget
from cleave.releases.publishing import committed, finish, head_of, write_totals
from cleave.releases.release import KEY_BYTES
from cleave.store.manifest import Analyst, Measure, Release, new_id, now
from cleave.store.padding import padded
from cleave.store.reader import Opened
from cleave.store.schemas import load_stored_schema
from cleave.store.tables import Tables
from cleave.table.duck import identifier
from cleave.table.privacy import MICRO, epsilon_text
from cleave.table.schema import Column, CsvDialect, Kind, Schema, dump_schema


@dataclass(frozen=True, slots=True)
class NoisyReleaseFacts:
    """A noisy release that was published.

    `epsilon` is this release's, `spent` that of all the table's releases, `budget` the most that they may spend: all
    are text. `left_out`: by columns without declared values. `draws` is False if earlier numbers were sealed again and
    nothing was spent. `fingerprint` is the owner's, with @ and the release's number: an analyst's machine that knows
    it refuses older releases.
    """

    table: str
    number: int
    analysts: tuple[str, ...]
    epsilon: str
    spent: str
    budget: str | None
    most_rows: int
    cells: int
    left_out: tuple[str, ...]
    draws: bool
    place: str
    fingerprint: str


def release(draft: NoisyDraft) -> NoisyReleaseFacts:
    """Draw the numbers and publish them. If this release was drawn before, publish the same numbers.

    Raises InputError if it would exceed the budget, ConflictError if another writer changed the table meanwhile.
    """
    tables, manifest = draft.tables, draft.opened.manifest
    if draft.is_done:
        finish(tables, draft.opened)
        return _facts(tables, draft.opened, drawn_totals(tables, draft.opened), draws=False)
    require_budget(draft)
    require_sampler()
    exact = kept_totals(tables, draft.opened, draft.reading, draft.statistics)
    drawn = [noisy(each, totals) for each, totals in zip(draft.statistics, exact, strict=True)]
    content = NoisyTotals(
        table=manifest.table,
        schema_toml=dump_schema(_shown_schema(draft)),
        by=draft.reading.by,
        values=draft.reading.values,
        measures=tuple(_measure(draft.schema, each) for each in draft.reading.clamps),
        number=draft.number,
        at=now(),
        epsilon=draft.noise.epsilon,
        most_rows=draft.noise.most_rows,
        statistics=tuple(
            NoisyStatistic(
                part=each.part,
                measure=each.measure,
                sensitivity=each.sensitivity,
                epsilon=str(each.epsilon),
                scale=scale,
            )
            for each, (scale, _) in zip(draft.statistics, drawn, strict=True)
        ),
        numbers=tuple(tuple(numbers) for _, numbers in drawn),
    )
    draw: dict[str, int | str] = {
        "epsilon": draft.noise.epsilon,
        "request": draft.request,
        "drawn": manifest.version + 1,
    }
    done = _committed(tables, draft.opened, content, "release", draft.analysts, draft.revoked, draw)
    return _facts(tables, done, content, draws=True, left_out=draft.left_out)


def sealed_again(
    tables: Tables, opened: Opened, what: str, analysts: tuple[Analyst, ...], revoked: tuple[Analyst, ...]
) -> NoisyReleaseFacts:
    """Seal the numbers that were drawn for these analysts, under a new key. Spends nothing."""
    content = drawn_totals(tables, opened)
    return _facts(tables, _committed(tables, opened, content, what, analysts, revoked, {}), content, draws=False)


def shared(tables: Tables, opened: Opened, to: Mapping[str, PublicKey]) -> NoisyReleaseFacts:
    """Seal the numbers that were drawn for new analysts too. If `to` has none, publish them again, in case a command
    was stopped.
    """
    newest = opened.manifest.release
    assert newest is not None  # noqa: S101 - the caller has looked
    analysts, revoked = joined(opened.manifest.table, newest, to)
    if analysts == newest.analysts:
        finish(tables, opened)
        return _facts(tables, opened, drawn_totals(tables, opened), draws=False)
    return sealed_again(tables, opened, "release", analysts, revoked)


def _committed(
    tables: Tables,
    opened: Opened,
    content: NoisyTotals,
    what: str,
    analysts: tuple[Analyst, ...],
    revoked: tuple[Analyst, ...],
    draw: Mapping[str, int | str],
) -> Opened:
    """Write and commit a release. `draw`: fields of manifest and head for new numbers; empty for old ones."""
    manifest, newest = opened.manifest, opened.manifest.release
    number, key = manifest.next_release, secrets.token_bytes(KEY_BYTES)
    head = head_of(tables, manifest.table_id, new_id(), number, 0, None)
    written = write_totals(tables, key, head, content.dump()) if analysts else None
    stored = {
        "id": head.release,
        "number": number,
        "at": now(),
        "least": 0,
        "ledger": tables.seal(tables.folder(manifest.table), opened.vault, "release", _ledger(key, content)),
        "totals": written,
        "before": newest.totals if newest and what == "release" else None,
        "analysts": analysts,
        "revoked": revoked,
        "ended": int(newest is not None and (bool(newest.ended) or not newest.epsilon)),
    }
    before = {name: getattr(newest, name) for name in ("epsilon", "request", "drawn")} if newest and not draw else {}
    released = Release.model_validate({**stored, **before, **draw})
    said: dict[str, Any] = {"epsilon": epsilon_text(released.epsilon)} if draw else {}
    return committed(tables, opened, released, what, key, draws=bool(draw), **said)


def _ledger(key: bytes, content: NoisyTotals) -> bytes:
    """The key of the totals, and the numbers that were drawn, in a size that follows from their count."""
    noisy = content.model_dump_json()  # within a text each of its characters takes two bytes at most
    text = json.dumps({"format": 3, "key": key.hex(), "noisy": noisy}, ensure_ascii=False)
    return text.encode().ljust(padded(2 * len(content.dump())))


def _shown_schema(draft: NoisyDraft) -> Schema:
    """Names, types, clamps and values, and which columns may be NULL: nothing that was proposed from rows."""
    schema, reading = draft.schema, draft.reading
    by = [(schema.column(name), values) for name, values in zip(reading.by, reading.values, strict=True)]
    cells = [
        Column(
            each.name, Kind.SEALED, each.type, nullable=each.nullable, values=tuple(v for v in values if v is not None)
        )
        for each, values in by
    ]
    measures = [schema.column(each.name) for each in reading.clamps]
    summed = [
        Column(each.name, Kind.ENCRYPTED, each.type, *_bounds(each, clamp), nullable=each.nullable)
        for each, clamp in zip(measures, reading.clamps, strict=True)
    ]
    return Schema((*cells, *summed), CsvDialect(), draft.opened.manifest.table)


def _bounds(column: Column, clamp: Clamp) -> tuple[Decimal | None, Decimal | None]:
    if column.type == "BOOLEAN":
        return None, None
    low, high = (Decimal(end).scaleb(-clamp.decimals) for end in (clamp.low, clamp.high))
    return low, high


def _measure(schema: Schema, clamp: Clamp) -> Measure:
    column = schema.column(clamp.name)
    return Measure(
        name=column.name,
        sql=identifier(column.name),
        type=column.type,
        decimals=clamp.decimals,
        lower=clamp.low,
        upper=clamp.high,
        nullable=clamp.nullable,
        derived=False,
    )


def _facts(
    tables: Tables, opened: Opened, content: NoisyTotals, *, draws: bool, left_out: tuple[str, ...] = ()
) -> NoisyReleaseFacts:
    manifest, newest = opened.manifest, opened.manifest.release
    assert newest is not None  # noqa: S101 - it was just stored
    budget = load_stored_schema(manifest).privacy.budget
    return NoisyReleaseFacts(
        manifest.table,
        newest.number,
        tuple(each.name for each in newest.analysts),
        epsilon_text(content.epsilon),
        epsilon_text(tables.spent(opened)),
        None if budget is None else epsilon_text(int(budget * MICRO)),
        content.most_rows,
        content.cells,
        left_out,
        draws,
        tables.places[0],
        f"{public_side(tables.key).fingerprint}@{newest.number}",
    )

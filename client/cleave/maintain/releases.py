"""Release totals of a table to its analysts, exact or noisy ones, and revoke analysts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from cleave.ask.options import Place, Releasing
from cleave.ckks.public_key import PublicKey
from cleave.files import read_at_most, require_target, write_atomically
from cleave.maintain.noise import noise_of, users_of
from cleave.maintain.task import Task, operation
from cleave.releases import noising, releases
from cleave.releases.analysts import analysts_of, read_analysts
from cleave.releases.drafting import drafted
from cleave.releases.noising import NoisyReleaseFacts
from cleave.releases.noisy_draft import Noise
from cleave.releases.noisy_draft import drafted as noisy_drafted
from cleave.releases.noisy_page import noisy_page_of
from cleave.releases.page import is_signed_from, page_of
from cleave.releases.releases import ReleaseFacts
from cleave.store.first_use import PublicFile, require_compared
from cleave.store.tables import Tables
from cleave_shared.errors import InputError

_MOST_PAGE = 64 << 20  # bytes


@operation(Releasing, writes=True)
def release(task: Task, name: str, **options: Unpack[Releasing]) -> ReleaseFacts | NoisyReleaseFacts | str:
    """Release totals of a stored table to its analysts, as `cleave release new` does.

    Rows that no release has are published where a cell has enough of them. `to`: files that `cleave analyst new`
    wrote, as "carol.pem.pub=SHA256:...". The fingerprint is what the analyst gave over another channel. It is required
    unless the key was used here before or the table has this analyst. New analysts get what was published before,
    and nothing is published then. `min_cell`: people, or rows where the schema names no entity, of each part; it
    falls only with `new_lineage`. `dry_run`: release nothing, and return the page that says what would be released, or
    write it to the new file `page`. `page` alone: release only what that page says. `new_lineage`: release all rows
    again; requires `yes`. `cleave.query` with `analyst` queries the release.

    `epsilon`: draw a noisy release, and spend this. It needs `most_rows`: rows of each person that count. `clamp`: by
    column, (low, high): the columns to add up. `values`: by by column, values that get cells; those of the schema by
    default. `split`: shares of epsilon by number, as {"bill.sum": 3}; `squares`: sums of squares too. The same release
    of a table that has not changed publishes the same numbers, and spends nothing, unless `again`. `yes`: make one of
    the other kind than the table has, or a noisy one that lacks columns or cells of the newest.
    """
    page = None if options["page"] is None else Path(options["page"])
    if options["dry_run"] and page is not None:
        require_target(page)
    to = options["to"] or ()
    words = to.split(",") if isinstance(to, str) else [to] if isinstance(to, Path) else to
    files = [PublicFile.parse(each) for each in words]
    analysts = read_analysts([each.path for each in files])
    prints = [each.fingerprint for each in analysts.values()]
    listed = () if all(each.fingerprint for each in files) else analysts_of(task.tables, name)
    require_compared("analyst", "--to", list(zip(files, prints, strict=True)), listed)
    noise = noise_of(options)
    approved = _read_page(page) if page is not None and not options["dry_run"] else None
    if noise is not None:
        done = _noisy(task.tables, name, analysts, noise, options, approved)
        if users := users_of(name):
            task.say(f"users of a gateway get answers of {name} without noise: {', '.join(users)}")
    else:
        how = {"new_lineage": options["new_lineage"], "yes": options["yes"]}
        if not options["dry_run"]:
            return releases.release(task.tables, name, analysts, options["min_cell"], page=approved, **how)
        done = page_of(drafted(task.tables, name, analysts, options["min_cell"], **how))
    if isinstance(done, str) and page is not None:
        write_atomically(page, done, error=InputError)
    return done


def _noisy(
    tables: Tables, name: str, analysts: Mapping[str, PublicKey], noise: Noise, options: Releasing, page: str | None
) -> NoisyReleaseFacts | str:
    draft = noisy_drafted(tables, name, analysts, noise, yes=options["yes"])
    if options["dry_run"]:
        return noisy_page_of(draft)
    if page is not None and not draft.is_done and not is_signed_from(page, noisy_page_of(draft)):
        raise releases.changed_since_page()
    return noising.release(draft)


def _read_page(path: Path) -> str:
    try:
        return read_at_most(path, _MOST_PAGE, InputError).decode()
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{path}: cannot be read", hint="--dry-run --page FILE writes it") from None


@operation(Place, writes=True)
def revoke(task: Task, name: str, analyst: str, **_: Unpack[Place]) -> ReleaseFacts | NoisyReleaseFacts | None:
    """Seal what was released again, under a new key, for all analysts of a table except one.

    `analyst` is a name or a fingerprint. Returns None if that was done before. Copies of releases that the analyst made
    stay readable.
    """
    return releases.revoke(task.tables, name, analyst)

"""Operations between parties: rows from contributors, totals released to analysts, columns opened to readers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from cleave.ask.config import config_folder
from cleave.ask.opening import column_names, lazy, open_limited
from cleave.ask.options import IDENTITY_VARIABLE, LONGEST_TIMEOUT, Contributing, Opening, Place, Releasing
from cleave.files import read_at_most, require_target, write_atomically
from cleave.maintain.facts import Contribution
from cleave.maintain.noise import noise_of, users_of
from cleave.maintain.task import CONTINUES, Task, change, operation
from cleave.text.quantities import counted
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.ask.options import Data
    from cleave.ckks.public_key import PublicKey
    from cleave.releases.noising import NoisyReleaseFacts
    from cleave.releases.noisy_draft import Noise
    from cleave.releases.releases import ReleaseFacts
    from cleave.store.manifest import Reader
    from cleave.store.reader import Opened
    from cleave.store.tables import Tables

_READER = "a reader makes a key with `cleave reader new FILE` and sends FILE.pub"
_MOST_PAGE = 64 << 20  # bytes


@operation(Contributing, after=CONTINUES, again=False)
def contribute(task: Task, data: Data, name: str, **options: Unpack[Contributing]) -> Contribution:
    """Add rows to the table `name` that `public_key` was exported for, as `cleave put --public-key` does.

    Only its owner can read them, and adds them with `collect`. `identity`: the file that `cleave key contributor`
    made; else CLEAVE_IDENTITY, else ~/.config/cleave/contributor.pem. `fingerprint`: that of the public key, as its
    owner gave it over another channel; required on first use. A call that was stopped continues when it is made again
    with the same data. Rows that the last call added are not added again, unless `again`: a warning says so, and
    `added` is False.
    """
    from cleave.contributions.contribute import Contributions, read_invited  # noqa: PLC0415 - as above

    if options["batch"] is not None:
        raise InputError("batches are of your own tables", hint="leave the batch's name out")
    if options["public_key"] is None:
        raise InputError("the owner's public key is missing", hint="the owner exports it with `cleave key export`")
    who = Path(options["identity"] or os.environ.get(IDENTITY_VARIABLE) or config_folder() / "contributor.pem")
    invited = read_invited(name, Path(options["public_key"]), who, options["fingerprint"])
    schema = invited.schema if options["schema"] is None else options["schema"]
    unread = lazy(data, schema, name, options["sheet"], flatten=options["flatten"])
    task.say(invited.consent)
    with closing(open_limited(options)) as stores, unread.stream() as rows:
        contributions = Contributions(stores, invited, task.warn)
        head, count, added = contributions.put(rows, task.progress, replace=options["replace"], again=options["again"])
    return Contribution(invited.invitation.table, invited.identity.public, head.version, count, added)


@operation(Place, writes=True)
def add_contributor(task: Task, name: str, contributor: str, contributor_key: str | Path, **_: Unpack[Place]) -> str:
    """Register a contributor by the public half of its identity. Returns the folder that it writes to.

    `contributor_key`: FILE=SHA256:..., or only the file if the key was used here before.
    """
    from cleave.contributions.invitation import register  # noqa: PLC0415
    from cleave.store.contribution import folder_of  # noqa: PLC0415 - as above
    from cleave.store.first_use import PublicFile, contributor_fingerprint, require_compared  # noqa: PLC0415
    from cleave.store.identity import read_contributor_key  # noqa: PLC0415

    file = PublicFile.parse(contributor_key)
    public = read_contributor_key(file.path)
    tables = task.tables  # a missing key is reported first
    require_compared("contributor", "--contributor-key", [(file, contributor_fingerprint(public))])
    done = register(tables, name, contributor, public)
    return folder_of(done.manifest.table_id, public)


@change(Place)
def remove_contributor(task: Task, name: str, contributor: str, **_: Unpack[Place]) -> Opened:
    """Remove a contributor and its rows from a table."""
    from cleave.contributions.invitation import remove  # noqa: PLC0415 - as above

    return remove(task.tables, name, contributor, task.warn)


@change(Place, seconds=LONGEST_TIMEOUT, after=CONTINUES)
def collect(task: Task, name: str, *contributors: str, **_: Unpack[Place]) -> Opened:
    """Take in what `contributors` (none named: all) have put, as `cleave contributor collect` does.

    Returns the table as it is then. A contributor that is refused stops no other; the first refusal is raised at the
    end, with the contributor's name.
    """
    from cleave.contributions.collect import collect as take  # noqa: PLC0415 - as above

    done, collected = take(task.tables, name, task.progress, contributors, task.warn)
    for each in collected:
        parts = f"{counted(len(each.added), 'part')} collected, {len(each.gone)} removed"
        task.say(f"{each.contributor.name}: {parts}")
    return done


@operation(Place, seconds=LONGEST_TIMEOUT, writes=True)
def clear_contributions(task: Task, name: str, **_: Unpack[Place]) -> int:
    """Delete the parts that `collect` names as not collected. Returns how many."""
    from cleave.contributions.lost import clear  # noqa: PLC0415 - as above

    return sum(each.parts for each in clear(task.tables, name))


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
    from cleave.releases import releases  # noqa: PLC0415 - as above
    from cleave.releases.analysts import analysts_of, read_analysts  # noqa: PLC0415
    from cleave.releases.drafting import drafted  # noqa: PLC0415
    from cleave.releases.page import page_of  # noqa: PLC0415
    from cleave.store.first_use import PublicFile, require_compared  # noqa: PLC0415

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
    from cleave.releases import noising, releases  # noqa: PLC0415 - as above
    from cleave.releases.noisy_draft import drafted  # noqa: PLC0415
    from cleave.releases.noisy_page import noisy_page_of  # noqa: PLC0415
    from cleave.releases.page import is_signed_from  # noqa: PLC0415

    draft = drafted(tables, name, analysts, noise, yes=options["yes"])
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
    from cleave.releases.releases import revoke as take_back  # noqa: PLC0415 - as above

    return take_back(task.tables, name, analyst)


@dataclass(frozen=True, slots=True)
class ReaderFacts:
    """A reader of a table. `plain`: those of its `columns` that are plain. `folder`, `place`: below which it reads.

    `version`: of the table now. `fingerprint`: the owner's, and @ with the number of records that its log has at least.
    """

    name: str
    columns: tuple[str, ...]
    plain: tuple[str, ...]
    folder: str
    place: str
    version: int
    fingerprint: str


@operation(Opening, after=CONTINUES, writes=True)
def add_reader(task: Task, name: str, **options: Unpack[Opening]) -> ReaderFacts:
    """Let a reader query `columns` of the table `name`, as `cleave reader add` does.

    `to`: FILE.pub=SHA256:..., or only the file if the key was used here before or the table has this reader. `names`:
    it sees the names of the other columns. `yes`: it may read rows of people whom thresholds protect.
    """
    from cleave.maintain.readers import add  # noqa: PLC0415 - as above
    from cleave.share.addressed import public_of, read_holders  # noqa: PLC0415
    from cleave.store.first_use import PublicFile, require_compared  # noqa: PLC0415

    if options["to"] is None:
        raise InputError("no reader is named", hint=f"--to FILE.pub=SHA256:...: {_READER}")
    file = PublicFile.parse(options["to"])
    ((reader, public),) = read_holders([file.path], "reader", _READER).items()
    tables = task.tables  # a missing key is reported first
    there = tables.open(name).manifest.readers if file.fingerprint is None else ()
    listed = [public_of(each).fingerprint for each in there]
    require_compared("reader", "--to", [(file, public.fingerprint)], listed)
    wanted, how = column_names(options["columns"]) or (), {"names": options["names"], "yes": options["yes"]}
    done = add(tables, name, reader, public, wanted, task.progress, **how)
    return _facts(tables, done, next(each for each in done.manifest.readers if each.name == reader))


@operation(Place, after=CONTINUES, writes=True)
def revoke_reader(task: Task, name: str, reader: str, **_: Unpack[Place]) -> ReaderFacts:
    """Seal the columns of a reader under new keys, as `cleave reader revoke` does. `reader`: name or fingerprint."""
    from cleave.maintain.readers import revoke as take_away  # noqa: PLC0415 - as above

    done, gone = take_away(task.tables, name, reader, task.progress)
    return _facts(task.tables, done, gone)


def _facts(tables: Tables, opened: Opened, reader: Reader) -> ReaderFacts:
    from cleave.ckks.public_key import public_side  # noqa: PLC0415 - as above
    from cleave.store.schemas import load_stored_schema  # noqa: PLC0415

    manifest = opened.manifest
    plain = tuple(each for each in reader.columns if each in load_stored_schema(manifest).plain)
    fingerprint = f"{public_side(tables.key).fingerprint}@{opened.head.log.count}"
    folder = tables.folder(manifest.table)
    return ReaderFacts(reader.name, reader.columns, plain, folder, reader.place, manifest.version, fingerprint)

"""Release totals of a table to its analysts, and revoke analysts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Unpack

from cleave.ask.config import config_folder
from cleave.ask.options import Place, Releasing, flags
from cleave.files import expanded, names_file, read_at_most, require_target, write_atomically
from cleave.logins.users import read_users
from cleave.maintain.task import Task, operation
from cleave.releases import releases
from cleave.releases.analysts import analysts_of, read_analysts
from cleave.releases.exact import ExactReleases
from cleave.releases.kind import Choices, ReleaseFacts, made
from cleave.releases.page import is_page_of, page_of
from cleave.releases.releases import KINDS, drafted
from cleave.store.first_use import PublicFile, require_compared
from cleave.store.manifest import Manifest
from cleave_shared.errors import InputError, UsageError

_MOST_PAGE = 64 << 20  # bytes


@operation(Releasing, writes=True)
def release(task: Task, name: str, **options: Unpack[Releasing]) -> ReleaseFacts | str:
    """Release totals of a stored table to its analysts, as `cleave release new` does.

    `to`: files that `cleave analyst new` wrote, as "carol.pem.pub=SHA256:...". The fingerprint is what the analyst gave
    over another channel. It is required unless the key was used here before or the table has this analyst. New analysts
    get what was released before, and nothing else is released then. `dry_run`: release nothing, and return the page
    that says what would be released, or write it to the new file `page`. `page` alone: release only what that page
    says. `yes`: confirm what a release is refused for, if it can be confirmed. `cleave.query` with `analyst` queries
    the release.

    Exact releases publish the rows that no release has, where a cell has enough of them. `min_cell`: people, or rows
    where the schema names no entity, of each part; it falls only with `new_lineage`. `new_lineage`: release all rows
    again; requires `yes`.

    `epsilon`: draw a noisy release, and spend this. It needs `most_rows`: rows of each person that count. `clamp`: by
    column, (low, high): the columns to add up. `values`: by by column, values that get cells; those of the schema by
    default. `split`: shares of epsilon by number, as {"bill.sum": 3}; `squares`: sums of squares too. The same release
    of a table that has not changed publishes the same numbers, and spends nothing, unless `again`. Any other one draws
    anew and spends again, which requires `yes`.
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
    choices = choices_of(options)
    approved = _read_page(page) if page is not None and not options["dry_run"] else None
    draft = drafted(task.tables, name, analysts, choices, yes=options["yes"])
    for line in who_sees_more(draft.opened.manifest):
        task.say(line)
    if options["dry_run"]:
        shown = page_of(draft)
        if page is not None:
            write_atomically(page, shown, error=InputError)
        return shown
    if approved is not None and not draft.is_done and not is_page_of(draft, approved):
        raise InputError(
            "the table, or what would be released of it, changed since the page was written",
            hint="write it again with --dry-run, and have it signed",
        )
    return made(draft)


def choices_of(options: Mapping[str, Any]) -> Choices | None:
    """The choices that options make; None if they are of no kind alone.

    Raises UsageError for options of two kinds, and as the kind's own.
    """
    of_kinds = {name: each for name, each in flags(Releasing).items() if each.kind}
    given = [name for name, each in of_kinds.items() if options[name] not in (None, each.default)]
    chosen = next((kind for kind in KINDS.values() if kind.OPTION in given), ExactReleases)
    for name in given:
        flag = of_kinds[name]
        if flag.kind != chosen.NAME:
            needs = KINDS[flag.kind].OPTION
            way = of_kinds[needs or chosen.OPTION].words.split()[0]
            option = flag.words.split()[0]
            text = f"{option} is of {flag.kind} releases"
            raise UsageError(f"{text}: give {way} too" if needs else f"{text}: leave it out, or {way}", name=option)
    return chosen.chosen(options) if given else None


def who_sees_more(manifest: Manifest, users: Path | None = None) -> Iterator[str]:
    """Say who gets rows, or answers that are not those of a release, of a table. `users`: file of a gateway's users."""
    if manifest.readers:
        names = ", ".join(f"{each.name} ({', '.join(each.columns)})" for each in manifest.readers)
        yield f"readers get rows of {manifest.table}: {names}"
    if names := ", ".join(_users_of(manifest.table, users)):
        yield f"users of a gateway get answers from the rows of {manifest.table}, without noise: {names}"


def _users_of(table: str, path: Path | None) -> list[str]:
    """Users of a gateway on this machine who may query a table."""
    file = expanded(path or config_folder() / "users.toml")
    if not names_file(file):
        return []
    return [
        name
        for name, user in read_users(file).users.items()
        if user.tables is None or table.lower() in (each.lower() for each in user.tables)
    ]


def _read_page(path: Path) -> str:
    try:
        return read_at_most(path, _MOST_PAGE, InputError).decode()
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{path}: cannot be read", hint="--dry-run --page FILE writes it") from None


@operation(Place, writes=True)
def revoke(task: Task, name: str, analyst: str, **_: Unpack[Place]) -> ReleaseFacts | None:
    """Seal what was released again, under a new key, for all analysts of a table except one.

    `analyst` is a name or a fingerprint. Returns None if that was done before. Copies of releases that the analyst made
    stay readable.
    """
    return releases.revoke(task.tables, name, analyst)

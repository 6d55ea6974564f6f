"""`cleave put --public-key`: rows for a table of somebody else's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.ask.access import IDENTITY_VARIABLE
from cleave.ask.opening import open_place
from cleave.cli import console
from cleave.cli.group import Settings
from cleave.text.printable import printable
from cleave.text.quantities import counted

if TYPE_CHECKING:
    from cleave.ckks.public_key import PublicKey
    from cleave.table.schema import Schema

PublicKeyFile = Annotated[
    Path | None,
    typer.Option(
        "--public-key",
        metavar="FILE",
        help="Seal the rows to the owner of the table that this was exported for, as a contributor: only its owner "
        "can read them, and collects them.",
        show_default=False,
    ),
]
IdentityFile = Annotated[
    Path,
    typer.Option(
        "--identity",
        metavar="FILE",
        envvar=IDENTITY_VARIABLE,
        help="With --public-key: who contributes, as `cleave key contributor` made it; "
        "~/.config/cleave/contributor.pem if not named.",
        show_default=False,
    ),
]
Fingerprint = Annotated[
    str | None,
    typer.Option(
        "--fingerprint",
        metavar="SHA256:...",
        help="With --public-key: its fingerprint, from its owner over another channel; required on first use.",
        show_default=False,
    ),
]


def contribute(
    settings: Settings,
    files: Sequence[str],
    table: str,
    store: str,
    public_key: Path,
    identity: Path,
    fingerprint: str | None,
    schema: Path | None,
    profile: str | None,
    region: str | None,
    *,
    replace: bool,
    again: bool,
) -> None:
    from cleave.share.contribute import Contributions, read_invited  # noqa: PLC0415 - what `put` of one's own does without
    from cleave.table.lazy import of_files  # noqa: PLC0415

    invited = read_invited(table, public_key, identity, fingerprint)
    unread = of_files(files, invited.schema if schema is None else schema, table)
    if not settings.quiet:
        console.say(_consent(invited.public, invited.schema))

    say = console.saying(quiet=settings.quiet)
    stores = open_place(store, profile, region)
    try:
        with console.progress(quiet=settings.quiet) as progress, unread.stream() as stream:
            head, rows = Contributions(stores, invited, say).put(stream, progress, replace=replace, again=again)
    finally:
        stores.close()
    if not settings.quiet:
        console.say(
            f"{printable(table)}: {counted(rows, 'row')} put as version {head.version} of contributor "
            f"{invited.identity.public[:16]}...; its owner takes them in with `cleave contributor collect`"
        )


def _consent(public: PublicKey, schema: Schema) -> str:
    """Whom the rows are for, and what of them the stores will see."""
    kinds: dict[str, list[str]] = {}
    for each in schema.columns:
        kinds.setdefault(str(each.kind), []).append(each.name)
    told = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items())
    return printable(f"for the owner of {public.fingerprint}, who can read every row; {told}")

"""Where stored tables rest, and which of them: options that the commands of a store share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.ask.access import STORE_VARIABLE, Access
from cleave.cli import passphrase

if TYPE_CHECKING:
    from cleave.ckks.owner_key import OwnerKey
    from cleave.store.locate import Stores
    from cleave.store.tables import Tables

Store = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="PLACE[,PLACE]",
        envvar=STORE_VARIABLE,
        help="Where stored tables rest: a folder or s3://bucket/prefix; with a comma, the plain half's place apart.",
        show_default=False,
    ),
]
AskedStore = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="PLACE[,PLACE]",
        envvar=STORE_VARIABLE,
        help="Ask stored tables, which rest there: that of the name given, or those that the question names.",
        show_default=False,
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The stored table.", show_default=False)]
Contributor = Annotated[
    str | None,
    typer.Option(
        "--contributor",
        metavar="NAME",
        help="Of a stored table, one contributor's rows alone; those of its owner by the name owner.",
        show_default=False,
    ),
]


@contextlib.contextmanager
def opened_tables(
    store: str,
    key: Path,
    fd: int | bytes | None,
    profile: str | None,
    region: str | None,
    seconds: float | None = None,
) -> Iterator[tuple[Stores, Tables, OwnerKey]]:
    """The tables of a key. Every call to the store ends `seconds` from now; None: each by itself only.

    `fd`: a file descriptor of the passphrase, or the passphrase itself.
    """
    from cleave.ask.opening import open_place  # noqa: PLC0415
    from cleave.ask.stored import open_tables  # noqa: PLC0415
    from cleave.ckks.key_file import describe_key  # noqa: PLC0415

    describe_key(key)  # a missing key is told before a store is asked
    stores = open_place(store, profile, region)
    try:
        tables, secret = open_tables(stores, Access(key, fd if isinstance(fd, bytes) else passphrase.current(fd)))
        if seconds is not None:
            from cleave.transport.deadline import Deadline  # noqa: PLC0415

            stores.limit(Deadline(seconds, ("the command was not done", "check the network, or the mount")))
        yield stores, tables, secret
    finally:
        stores.close()

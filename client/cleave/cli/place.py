"""Where stored tables rest, and which of them: options that the commands of a store share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.cli import passphrase
from cleave.session import Access

if TYPE_CHECKING:
    from cleave.ckks.secret_key import SecretKey
    from cleave.store.locate import Stores
    from cleave.store.tables import Tables

Store = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="PLACE[,PLACE]",
        envvar="CLEAVE_STORE",
        help="Where stored tables rest: a folder or s3://bucket/prefix; with a comma, the plain half's place apart.",
        show_default=False,
    ),
]
AskedStore = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="PLACE[,PLACE]", help="Ask the stored table of that name, which rests there, not a file."
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


def open_place(store: str, profile: str | None = None, region: str | None = None) -> Stores:
    """Raises InputError for what names no store, ServiceError where there are no credentials."""
    from cleave.store.locate import open_stores  # noqa: PLC0415

    def session() -> object:
        from cleave.transport.aws import open_session  # noqa: PLC0415 - botocore takes 100 ms; a folder needs none

        return open_session(profile, region)

    return open_stores(store, session)


@contextlib.contextmanager
def opened_tables(
    store: str,
    key: Path,
    fd: int | None,
    profile: str | None,
    region: str | None,
    seconds: float | None = None,
) -> Iterator[tuple[Stores, Tables, SecretKey]]:
    """The tables of a key. Every call to the store ends `seconds` from now; None: each by itself only."""
    from cleave.ckks.key_file import describe_key  # noqa: PLC0415
    from cleave.store.session import open_tables  # noqa: PLC0415

    describe_key(key)  # a missing key is told before a store is asked
    stores = open_place(store, profile, region)
    try:
        tables, secret = open_tables(stores, Access(key, passphrase.current(fd)))
        if seconds is not None:
            from cleave.transport.deadline import Deadline  # noqa: PLC0415

            stores.limit(Deadline(seconds, ("the command was not done", "check the network, or the mount")))
        yield stores, tables, secret
    finally:
        stores.close()

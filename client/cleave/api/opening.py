"""From what a caller of the Python API says to a session: the table, its schema, the key and where the services are."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cleave.api.bars import bars
from cleave.cli.passphrase import VARIABLE
from cleave.local.prepare import prepare_embedded
from cleave.propose.further import further
from cleave.quantities import size_of
from cleave.session import DEFAULT_KEY, KEY_VARIABLE, Access, Bars, Session
from cleave.table.frames import ArrowStream, Described, is_frame, of_frame, of_local_frame
from cleave.table.lazy import LazyTable, of_files
from cleave.table.schema import Schema
from cleave.transport.connect import Target
from cleave_shared.errors import InputError, KeyFileError

if TYPE_CHECKING:
    from cleave.store.session import StoredSession
    from cleave.transport.base import Transport

Data = ArrowStream | str | Path | Sequence[str | Path]
"""A pandas DataFrame, an Arrow table or whatever hands itself over as one; or a file, a pattern, several files."""

SchemaLike = Schema | str | Path | Described
"""A schema, the path of one, or column -> kind for a frame: see `cleave.table.frames`."""

Others = Mapping[str, ArrowStream | str | Path]
"""Further tables that a question may name, by their names: nothing of them is ever sent."""

PassphraseLike = bytes | str | Callable[[], bytes | str]
"""The passphrase or what asks for it, like `getpass.getpass`; asked only if the key is wrapped."""


def open_session(
    data: Data,
    *,
    schema: SchemaLike | None,
    table: str | None,
    key: str | Path | None,
    passphrase: PassphraseLike | None,
    target: Target,
    progress: bool | None,
    others: Others | None = None,
    store: str | Path | None = None,
    contributor: str | None = None,
    scan: bool = True,
    fetch_limit: int | str = "1GB",
    memory: int | str | None = None,
    cache: bool = True,
) -> Session | StoredSession:
    """Raises InputError for data or a schema that cannot be read. Only a stored table, and its key, are opened."""
    access = Access(_key(key), _passphrase(passphrase), target)
    if store is not None:
        shown, further = bars(progress), further_tables(others)
        given = (data, schema, table, store, access, shown, further)
        limits = (size_of(fetch_limit), None if memory is None else size_of(memory))
        return _stored(*given, limits, contributor=contributor, scan=scan, cache=cache)
    if contributor is not None:
        raise InputError("contributors have rows of stored tables", hint="say with store= where the table rests")
    return Session(lazy(data, schema, table), access, embedded, bars(progress), further_tables(others))


def _stored(
    name: Data,
    schema: SchemaLike | None,
    table: str | None,
    store: str | Path,
    access: Access,
    shown: Bars,
    others: Sequence[LazyTable],
    limits: tuple[int, int | None],
    *,
    contributor: str | None,
    scan: bool,
    cache: bool,
) -> StoredSession:
    from cleave.store.locate import open_stores  # noqa: PLC0415 - what a frame or a file does without
    from cleave.store.session import StoredSession  # noqa: PLC0415
    from cleave.transport.aws import open_session as aws_session  # noqa: PLC0415 - botocore

    if not isinstance(name, str) or schema is not None or table is not None:
        raise InputError("a stored table is asked by its name, and its schema is stored with it")
    target = access.target or Target()
    stores = open_stores(store, lambda: aws_session(target.profile, target.region))
    if not target.remote:
        prepare_embedded()  # before there is a key: what is forked later comes from what is forked now
    return StoredSession(
        *(name, stores, access, shown, others),
        contributor=contributor,
        embedded=embedded,
        scan=scan,
        fetch_limit=limits[0],
        memory_limit=limits[1],
        cache=cache,
    )


def access_to(key: str | Path | None, passphrase: PassphraseLike | None) -> Access:
    """The key that a caller named, or the usual one."""
    return Access(_key(key), _passphrase(passphrase))


def lazy(data: Data, schema: SchemaLike | None, table: str | None) -> LazyTable:
    named = Path(schema) if isinstance(schema, str) else schema
    if is_frame(data):
        if named is None:
            raise InputError(
                "a frame needs a schema, for nothing of it leaves this machine by default",
                hint='schema={"ward": "plain", "age": "encrypted", "name": "sealed", "notes": "local"}',
            )
        return of_frame(data, named, table)
    if isinstance(named, Mapping):
        raise InputError("a schema of kinds goes with a frame, whose types are known", hint="a file has a schema file")
    if isinstance(data, str | Path):
        return of_files([data], named, table)
    if isinstance(data, Sequence) and data and all(isinstance(name, str | Path) for name in data):
        return of_files(data, named, table)
    raise InputError(
        f"a {type(data).__name__} is no table", hint="a DataFrame, an Arrow table, a path or several paths are"
    )


def further_tables(others: Others | None) -> list[LazyTable]:
    """Further tables, by the names SQL has for them; all of a frame is local."""
    return [
        further(data, None, name) if isinstance(data, str | Path) else of_local_frame(data, name)
        for name, data in (others or {}).items()
    ]


def embedded(stores: Sequence[str] = ()) -> Transport:
    from cleave.local.embedded import embedded_services  # noqa: PLC0415 - both services

    return embedded_services(stores)


def _key(key: str | Path | None) -> Path:
    return Path(os.environ.get(KEY_VARIABLE, DEFAULT_KEY) if key is None else key).expanduser()


def _passphrase(given: PassphraseLike | None) -> bytes | Callable[[], bytes]:
    if given is None and VARIABLE in os.environ:
        given = os.environb[VARIABLE.encode()]
    if given is None:
        return _missing
    if callable(given):
        ask = given
        return lambda: _bytes(ask())
    return _bytes(given)


def _missing() -> bytes:
    raise KeyFileError(
        "the key is wrapped, and no passphrase was given", hint="passphrase=getpass.getpass asks for it when needed"
    )


def _bytes(passphrase: bytes | str) -> bytes:
    return passphrase.encode() if isinstance(passphrase, str) else passphrase

"""From what a caller of the Python API says to a session: the table, its schema, the key and where the services are."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar, cast

from cleave.api.bars import bars
from cleave.ask.access import DEFAULT_KEY, KEY_VARIABLE, Access
from cleave.ask.here import HereSource
from cleave.ask.session import Session
from cleave.cli.passphrase import VARIABLE
from cleave.local.prepare import prepare_embedded
from cleave.propose.further import further
from cleave.table.frames import ArrowStream, Described, is_frame, of_frame, of_local_frame
from cleave.table.lazy import LazyTable, of_files
from cleave.table.schema import Schema
from cleave.transport.base import QUERY_SECONDS
from cleave.transport.connect import Target
from cleave_shared.errors import InputError, KeyFileError

if TYPE_CHECKING:
    from cleave.transport.base import Transport

F = TypeVar("F", bound=Callable[..., object])

Data = ArrowStream | str | Path | Sequence[str | Path]
"""A pandas DataFrame, an Arrow table or whatever hands itself over as one; or a file, a pattern, several files."""

SchemaLike = Schema | str | Path | Described
"""A schema, the path of one, or column -> kind for a frame: see `cleave.table.frames`."""

Others = Mapping[str, ArrowStream | str | Path]
"""Further tables that a question may name, by their names: nothing of them is ever sent."""

PassphraseLike = bytes | str | Callable[[], bytes | str]
"""The passphrase or what asks for it, like `getpass.getpass`; asked only if the key is wrapped."""


class Asking(TypedDict, total=False):
    """How `query`, `plan` and `connect` open what they ask, and how they ask it: docs/python.md explains each."""

    schema: SchemaLike | None
    table: str | None
    others: Others | None
    store: str | Path | None
    contributor: str | None
    key: str | Path | None
    passphrase: PassphraseLike | None
    endpoint: str | None
    functions: str | None
    profile: str | None
    region: str | None
    sign: bool
    insecure_http: bool
    cloud_only: bool
    scan: bool
    fetch_limit: int | str
    memory: int | str | None
    cache: bool
    min_group: int
    pad: bool
    digits: int
    raw: bool
    strict: bool
    timeout: float
    progress: bool | None


# Where nothing is said; None for all others.
DEFAULTS = Asking(
    sign=False,
    insecure_http=False,
    cloud_only=False,
    scan=True,
    fetch_limit="1GB",
    cache=True,
    min_group=0,
    pad=False,
    digits=9,
    raw=False,
    strict=False,
    timeout=QUERY_SECONDS,
)


def stated(function: F) -> F:
    """`function`, whose keyword arguments are those of `Asking`, with each of them and its default in its signature."""
    signature = inspect.signature(function)
    *own, _ = signature.parameters.values()
    kind = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(name, kind, default=DEFAULTS.get(name), annotation=type_)
        for name, type_ in Asking.__annotations__.items()
    ]
    function.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return function


def complete(given: Asking) -> Asking:
    """With all that is not said. Raises TypeError for what there is not."""
    for name in given:
        if name not in Asking.__annotations__:
            raise TypeError(f"there is no argument {name!r}")
    return cast(Asking, dict.fromkeys(Asking.__annotations__) | DEFAULTS | given)


def open_session(data: Data | None, asking: Asking) -> Session:
    """Raises InputError for data or a schema that cannot be read. Only a stored table, and its key, are opened.

    `data` None: stored tables, those that questions name.
    """
    target = Target(
        *(asking["endpoint"], asking["functions"], asking["profile"], asking["region"]),
        *(asking["sign"], asking["insecure_http"]),
    )
    access = Access(_key(asking["key"]), _passphrase(asking["passphrase"]), target)
    shown, others, store = bars(asking["progress"]), further_tables(asking["others"]), asking["store"]
    if store is None:
        if asking["contributor"] is not None:
            raise InputError("contributors have rows of stored tables", hint="say with store= where the table rests")
        if data is None:
            raise InputError("there is nothing to ask", hint="name a file or a frame, or with store= stored tables")
        return Session(HereSource(lazy(data, asking["schema"], asking["table"]), access, embedded, others), shown)
    from cleave.ask.opening import Store, open_stored  # noqa: PLC0415 - what a frame or a file does without

    if not isinstance(data, str | None) or asking["schema"] is not None or asking["table"] is not None:
        raise InputError("a stored table is asked by its name, and its schema is stored with it")
    if not target.remote:
        prepare_embedded()  # before there is a key: what is forked later comes from what is forked now
    stored = Store(
        *(store, target.profile, target.region),
        contributor=asking["contributor"],
        scan=asking["scan"],
        fetch_limit=asking["fetch_limit"],
        memory=asking["memory"],
        cache=asking["cache"],
    )
    return Session(open_stored(data, stored, access, embedded, others), shown)


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

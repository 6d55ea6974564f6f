"""Open what options name: files, frames, stored tables and services, and a session over them."""

from __future__ import annotations

import contextlib
import csv
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cleave.ask.config import config_folder, usual, usual_profile
from cleave.ask.options import PASSPHRASE_VARIABLE, Access
from cleave.files import expanded, names_file
from cleave.text.quantities import size_of
from cleave_shared.errors import InputError, KeyFileError, UsageError

if TYPE_CHECKING:
    from boto3.session import Session as AwsSession

    from cleave.ask.options import Asking, Data, PassphraseLike, Place, SchemaLike
    from cleave.ask.services import Embedded
    from cleave.ask.session import Session
    from cleave.ckks.key_file import KeyInfo
    from cleave.objects.locate import Stores
    from cleave.store.tables import Tables
    from cleave.sums.machine import Machine
    from cleave.table.lazy import LazyTable
    from cleave.table.progress import Bars
    from cleave.transport.kms import Kms

_STORED_ONLY = {
    "analyst": ("--analyst", None),
    "reader": ("--reader", None),
    "scan": ("--no-scan", True),
    "memory": ("--memory", None),
    "machine": ("--job", None),
}
_NOT_OF_RELEASES = {"key": None, "machine": None, "others": None}
_NOT_OF_READERS = {"key": "--key", "analyst": "--analyst", "machine": "--job", "endpoint": "--endpoint"}
_NOT_OF_READERS |= {"functions": "--lambda"}


def read_data(data: Data | None, asking: Asking) -> LazyTable | str | None:
    """Return the table of files or a frame, the name of a stored table, or None if each question names its tables.

    A default store (from the environment or the settings file) does not turn file names into table names. Raises
    InputError.
    """
    given = asking["store"]
    if data is None and (given or usual("store")) is None:
        raise InputError("there is no table to query", hint="name a file, a frame or a store of tables")
    words = [data] if isinstance(data, str | Path) else data if isinstance(data, Sequence) else None
    is_stored = (given or usual("store")) is not None and (
        given is not None or (words is not None and not _are_files(words))
    )
    if data is not None and not is_stored:
        return lazy(
            data, asking["schema"], asking["table"], asking["sheet"], flatten=asking["flatten"], entity=asking["entity"]
        )
    if asking["entity"] is not None:
        raise InputError(
            "--entity is an option of files: a stored table has an entity of its own",
            hint="`cleave show NAME` names it; `cleave alter NAME --entity COLUMN` sets it if there is none",
        )
    if (
        len(words or ()) > 1
        or (data is not None and words is None)
        or asking["schema"] is not None
        or asking["table"] is not None
        or asking["sheet"] is not None
        or asking["flatten"]
    ):
        raise InputError(
            "a stored table is named alone; its schema is stored with it",
            hint="leave the store out to query files or a frame",
        )
    return str(words[0]) if words else None


def _are_files(words: Sequence[str | Path]) -> bool:
    """Check whether `words` name files rather than stored tables. Raises InputError if one could be either."""
    for word in map(str, words):
        if os.path.isfile(word) and Path(word).name == word and not Path(word).suffix:
            raise InputError(
                f"{word!r} is a file here, and may be a stored table",
                hint=f"./{word} is the file; move the file away to query the table",
            )
    names = list(map(str, words))
    return bool(names) and all(name == "-" or set(name) & set("*?[") or _names_data(name) for name in names)


def _names_data(word: str) -> bool:
    """Check whether a file has this name, or a folder if it is written as a path: no table is read from folders."""
    return names_file(word) and (Path(word).name != word or not os.path.isdir(word))


def column_names(given: str | Sequence[str] | None) -> list[str] | None:
    """Split the names of the command line, which are one text. Raises UsageError."""
    names = split_names(given) if isinstance(given, str) else given
    return None if names is None else [each.strip() for each in names if each.strip()]


def split_names(text: str) -> list[str]:
    """Return the names between commas, also empty ones. A name with a comma is in double quotes. Raises UsageError."""
    try:
        return [name.strip() for row in csv.reader([text], skipinitialspace=True) for name in row]
    except csv.Error:
        raise UsageError(
            "a name cannot be read", hint="put a name with a comma or line break in double quotes"
        ) from None


def lazy(
    data: Data,
    schema: SchemaLike | None,
    table: str | None,
    sheet: str | None = None,
    *,
    flatten: bool = False,
    entity: str | Sequence[str] | None = None,
) -> LazyTable:
    """Return files or a frame as a table that is read when needed.

    `entity` replaces the schema's entity. Raises InputError.
    """
    opened = _lazy(data, schema, table, sheet, flatten=flatten)
    names = column_names(entity)
    return opened if names is None else replace(opened, schema=opened.schema.about(names))


def _lazy(data: Data, schema: SchemaLike | None, table: str | None, sheet: str | None, *, flatten: bool) -> LazyTable:
    from cleave.table.lazy import is_frame, of_files, of_frame  # noqa: PLC0415 - DuckDB

    named = Path(schema) if isinstance(schema, str) else schema
    if is_frame(data):
        if sheet is not None or flatten:
            raise frame_has_none()
        if named is None:
            raise InputError(
                "a frame needs a schema, for by default nothing of it leaves this machine",
                hint='schema={"ward": "plain", "age": "encrypted", "name": "sealed", "notes": "local"}; '
                "cleave.schema(frame) proposes one",
            )
        return of_frame(data, named, table)
    names = [data] if isinstance(data, str | Path) else data
    if not isinstance(names, Sequence) or not names or not all(isinstance(name, str | Path) for name in names):
        raise no_table(data)
    if isinstance(named, Mapping):
        raise InputError(
            "a schema that names only kinds needs a data frame, whose types are known",
            hint="for a file, name its schema file",
        )
    return of_files(names, named, table, sheet=sheet, flatten=flatten)


def frame_has_none() -> InputError:
    """Return the error for file options that are given with a frame."""
    return InputError("a frame has neither sheets nor nested objects", hint="leave sheet and flatten out")


def no_table(data: object) -> InputError:
    """Return the error for data of a type that cannot be a table."""
    from cleave.table.lazy import hint_of_no_table  # noqa: PLC0415 - DuckDB

    return InputError(f"a {type(data).__name__} is no table", hint=hint_of_no_table(data))


def open_session(
    table: LazyTable | str | None,
    others: Sequence[LazyTable],
    asking: Asking,
    embedded: Embedded,
    bars: Bars,
    machine: str | None = None,
) -> Session:
    """Open a session over `table`, as `read_data` returned it. Only a stored table, and its key, are opened now.

    `machine` is the ARN of the state machine that runs scans. Raises InputError if there is no such table,
    KeyFileError, StoreError or CheckFailed.
    """
    from cleave.ask.session import Session  # noqa: PLC0415 - --help does not need it

    access = access_of(asking)
    given: dict[str, Any] = {**asking, "machine": machine}
    if access.reads:
        require_reader_alone(given)
    if table is not None and not isinstance(table, str):
        for name, (option, default) in _STORED_ONLY.items():
            if given[name] != default:
                raise UsageError(f"{option} needs a stored table", hint="name its store with --store", name=option)
        from cleave.ask.files import FileSource  # noqa: PLC0415

        return Session(FileSource(table, access, embedded, others), bars)
    if (identity := analyst_file(asking)) is not None:
        for name, default in _NOT_OF_RELEASES.items():
            if given[name] and given[name] != default:
                raise InputError(f"{name} cannot be combined with an analyst's identity: releases hold only totals")
        from cleave.ask.released import ReleaseSource  # noqa: PLC0415 - the owner's questions do not need it
        from cleave.store.identity import read_identity  # noqa: PLC0415

        analyst = read_identity(identity)  # a missing one is reported before a store is asked
        return Session(
            ReleaseSource(table, open_place(asking), analyst, asking["fingerprint"], seconds=asking["timeout"]), bars
        )
    from cleave.ask.stored import StoredSource  # noqa: PLC0415 - a question over a file does not need it

    fetch_limit = _size("--fetch-limit", asking["fetch_limit"])
    memory_limit = None if asking["memory"] is None else _size("--memory", asking["memory"])
    require_key(access.key, asking)
    source = StoredSource(
        *(table, open_place(asking), access, others),
        seconds=asking["timeout"],
        embedded=None if access.reads else embedded,
        scan=asking["scan"],
        machine=None if machine is None else _machine(asking, machine),
        fetch_limit=fetch_limit,
        memory_limit=memory_limit,
        cache=asking["cache"],
    )
    return Session(source, bars)


def require_reader_alone(given: Mapping[str, Any]) -> None:
    """Raise UsageError for options that a reader cannot use: it reads rows, on this machine."""
    for name, option in _NOT_OF_READERS.items():
        if given.get(name):
            said = f"{option} cannot be combined with --reader: a reader reads rows on this machine"
            raise UsageError(said, name=option)


def is_remote(asking: Asking) -> bool:
    """Check whether the services run outside this process."""
    if asking["reader"]:
        return False
    return asking["functions"] is not None or (asking["endpoint"] or usual("endpoint")) is not None


def asks_embedded(asking: Asking) -> bool:
    """Check whether queries over stored tables may ask services of this process."""
    return not (is_remote(asking) or asking["reader"] or analyst_file(asking))


def analyst_file(asking: Asking) -> Path | None:
    """Return the identity file that stored tables are asked with, or None to use the owner's key.

    A key that is named goes first.
    """
    given = asking["analyst"] or (None if asking["key"] or asking["reader"] else usual("analyst"))
    return expanded(given) if given else None


def access_of(place: Place | Asking) -> Access:
    """Return the key and the place of the services. The key file is not read yet."""
    from cleave.transport.connect import Target  # noqa: PLC0415 - --help does not need it

    said: dict[str, Any] = {"endpoint": None, "functions": None, "sign": False, "insecure_http": False, **place}
    reader = said.get("reader")
    target = Target(
        said["endpoint"] or (None if said["functions"] or reader else usual("endpoint")),
        *(said["functions"], said["profile"], said["region"], said["sign"], said["insecure_http"]),
        usual_profile=usual_profile(),
    )
    path = expanded(reader, KeyFileError) if reader else key_file(said["key"])
    passphrase, kms = passphrase_of(said["passphrase"]), kms_of(said["profile"])
    if reader and isinstance(passphrase, bytes):
        passphrase = partial(bytes, passphrase)  # that of the owner's key, if the reader's file needs none
    return Access(path, passphrase, target, kms, reads=bool(reader), fingerprint=said.get("fingerprint"))


def key_file(given: str | Path | None) -> Path:
    """Return the named key file, or the default one. Raises KeyFileError if there is no home directory."""
    return expanded(given or usual("key") or config_folder() / "key.json", KeyFileError, "name the key file with --key")


def require_key(path: Path, place: Mapping[str, Any]) -> KeyInfo:
    """Return facts of the key file that opens a place's tables. Raises KeyFileError before a store is asked.

    Of a missing one the hint advises `cleave key new` only if nothing is stored: a new key opens no stored table.
    """
    from cleave.ckks.key_file import describe_key  # noqa: PLC0415 - a question over a file does not need it

    try:
        return describe_key(path)
    except KeyFileError as error:
        if os.path.lexists(path):
            raise
        store = place.get("store") or usual("store")
        if place.get("reader"):
            error.hint = "--reader names the file of `cleave reader new`, whose public half the owner has added"
        elif store is not None and (is_used := _is_used(store)) is not False:
            error.hint = "name the key file that stored the tables: --key FILE, CLEAVE_KEY, or `cleave config key`"
            if is_used is None:
                error.hint += "; if nothing is stored yet, make one with `cleave key new`"
        raise


def _is_used(store: str | Path) -> bool | None:
    """True if a folder of the store has entries, None for a bucket, which is not asked, and for what is no store."""
    from cleave.objects.locate import scheme_of  # noqa: PLC0415 - as above

    if not isinstance(store, str | Path):
        return None
    places = [store] if isinstance(store, Path) else [each.strip() for each in store.split(",")]
    try:
        if any(isinstance(each, str) and scheme_of(each).is_remote for each in places):
            return None
    except UsageError:
        return None
    for place in map(expanded, places):
        with contextlib.suppress(OSError):
            if os.listdir(place):
                return True
    return False


def kms_of(profile: str | None) -> Kms:
    """Return AWS KMS under a profile; it is called only if a KMS key wraps the key file."""
    from cleave.transport.kms import Kms  # noqa: PLC0415 - --help does not need it

    def session() -> AwsSession:
        from cleave.transport.aws import open_session  # noqa: PLC0415 - boto3

        return open_session(profile or usual_profile(), None)

    return Kms(session)


def passphrase_of(given: PassphraseLike | None) -> bytes | Callable[[], bytes]:
    """Return the passphrase if it was given, else a function that asks for it when the key is wrapped."""
    if given is None:
        given = os.environb.get(PASSPHRASE_VARIABLE.encode(), _missing)
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


def _aws(place: Place) -> AwsSession:
    from cleave.transport.aws import open_session  # noqa: PLC0415 - boto3 takes 120 ms; a folder needs none

    return open_session(place["profile"] or usual_profile(), place["region"])


def open_place(place: Place) -> Stores:
    """Open the stores of a place. Raises InputError if it names no store, ServiceError if there are no credentials."""
    from cleave.objects.locate import open_stores  # noqa: PLC0415 - a question over a file does not need it

    store = place["store"] or usual("store")
    if store is None:
        hint = "name it with --store, in CLEAVE_STORE, or by `cleave config store`"
        raise UsageError("there is no store", hint=hint, name="--store")
    return open_stores(store, lambda: _aws(place))


def open_limited(place: Place, seconds: float | None = None) -> Stores:
    """Open the stores of a place for one command: all calls end `seconds` from now, unless the place sets its timeout.

    Raises as `open_place`.
    """
    stores = open_place(place)
    if seconds := place["timeout"] or seconds:
        from cleave.deadline import Deadline  # noqa: PLC0415

        stores.limit(Deadline(seconds, ("the command was not done", "check the network, or the mount")))
    return stores


@contextlib.contextmanager
def opened(place: Place, seconds: float | None = None) -> Iterator[Tables]:
    """Open the tables of a key in a store.

    All calls to the store end `seconds` from now, unless the place sets its own timeout.
    """
    from cleave.ask.owners import open_tables  # noqa: PLC0415 - a question over a file does not need it

    access = access_of(place)
    require_key(access.key, place)
    stores = open_limited(place, seconds)
    try:
        yield open_tables(stores, access)
    finally:
        stores.close()


def _machine(asking: Asking, arn: str) -> Machine:
    session = _aws(asking)  # first: it says so where boto3 is not installed
    from cleave.sums.machine import Machine  # noqa: PLC0415

    return Machine(session, arn)


def _size(name: str, given: str | int) -> int:
    try:
        return size_of(given)
    except InputError as error:
        raise UsageError(f"{name} {given}: {error.message}", hint=error.hint, name=name) from None

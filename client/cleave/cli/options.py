"""Options that several commands share, each stated once: those of every question are the fields of `Asking`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from cleave.ask.access import DEFAULT_KEY, LONGEST_TIMEOUT, STORE_VARIABLE, Access
from cleave.cli import console, passphrase
from cleave.cli.group import Settings
from cleave.cli.key import KeyPath, PassphraseFd
from cleave.table.progress import Bars

if TYPE_CHECKING:
    from cleave.ask.result import Options
    from cleave.ask.session import Session
    from cleave.ckks.owner_key import OwnerKey
    from cleave.objects.locate import Stores
    from cleave.store.tables import Tables
    from cleave.table.lazy import LazyTable


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """`command`, taking the fields of a dataclass as options in place of each parameter of that type."""
    signature = inspect.signature(command, eval_str=True)
    groups = {each.name: each.annotation for each in signature.parameters.values() if _is_group(each.annotation)}
    parameters = []
    for each in signature.parameters.values():
        if each.name not in groups:
            parameters.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        types = get_type_hints(groups[each.name], include_extras=True)
        parameters += [
            inspect.Parameter(field.name, each.KEYWORD_ONLY, default=field.default, annotation=types[field.name])
            for field in dataclasses.fields(groups[each.name])
        ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
        command(**given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer and inspect read
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _is_group(annotation: object) -> bool:
    return isinstance(annotation, type) and dataclasses.is_dataclass(annotation)


def _checked(seconds: float) -> float:
    if not 0 < seconds <= LONGEST_TIMEOUT:
        raise typer.BadParameter(f"--timeout takes seconds above 0, at most {LONGEST_TIMEOUT:,}")
    return seconds


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
AwsProfile = Annotated[str | None, typer.Option("--profile", metavar="NAME", help="AWS profile to sign with.")]
Region = Annotated[str | None, typer.Option("--region", metavar="NAME", help="AWS region to sign for.")]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--schema", metavar="FILE", help="The schema, where it is not NAME.schema.toml beside the table."),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        callback=_checked,
        help="Give up after so long, connections and repetitions included.",
    ),
]


@dataclasses.dataclass(frozen=True)
class StoreOptions:
    """Where stored tables rest and the key they are under: what every command of theirs takes."""

    store: Store
    key: KeyPath = DEFAULT_KEY
    passphrase_fd: PassphraseFd = None
    profile: AwsProfile = None
    region: Region = None

    @contextlib.contextmanager
    def opened(
        self, seconds: float | None = None, given: bytes | None = None
    ) -> Iterator[tuple[Stores, Tables, OwnerKey]]:
        """The tables of the key. Every call to the store ends `seconds` from now; None: each by itself only.

        `given`: the passphrase, where it was asked before.
        """
        from cleave.ask.opening import open_place  # noqa: PLC0415
        from cleave.ask.stored import open_tables  # noqa: PLC0415
        from cleave.ckks.key_file import describe_key  # noqa: PLC0415

        describe_key(self.key)  # a missing key is reported before a store is asked
        stores = open_place(self.store, self.profile, self.region)
        try:
            access = Access(self.key, passphrase.current(self.passphrase_fd) if given is None else given)
            tables, secret = open_tables(stores, access)
            if seconds is not None:
                from cleave.processes.deadline import Deadline  # noqa: PLC0415

                stores.limit(Deadline(seconds, ("the command was not done", "check the network, or the mount")))
            yield stores, tables, secret
        finally:
            stores.close()


@dataclasses.dataclass(frozen=True)
class Asking:
    """How questions are asked: what `plan`, `query` and `shell` take alike."""

    schema: SchemaFile = None
    table: Annotated[
        str | None,
        typer.Option(
            "--table", metavar="NAME", help="What SQL calls the table, if not as the schema says or like its file."
        ),
    ] = None
    others: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="FILE[=SCHEMA]",
            help="A further table to join, called like its file; read here, nothing of it is sent. Repeatable. Its "
            "schema is SCHEMA or NAME.schema.toml beside it; without one its types are guessed.",
        ),
    ] = None
    store: AskedStore = None
    contributor: Contributor = None
    cloud_only: Annotated[
        bool,
        typer.Option("--cloud-only", help="Refuse what no service can answer, instead of answering it here (local)."),
    ] = False
    no_scan: Annotated[
        bool,
        typer.Option(
            "--no-scan",
            help="Fetch a stored table's rows rather than tell the sensitive service which to add up together.",
        ),
    ] = False
    fetch_limit: Annotated[
        str,
        typer.Option(
            "--fetch-limit",
            metavar="SIZE",
            help="Fetch at most so many bytes of stored tables' rows: 500MB, 2GiB. More are scanned where the table "
            "was put with --scan, else the question is refused.",
        ),
    ] = "1GB"
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="Memory that a question over stored tables' rows may take: 500MB, 2GiB. Default: a quarter of the "
            "machine's. What needs more is refused: nothing is put on a disk.",
            show_default=False,
        ),
    ] = None
    no_cache: Annotated[
        bool,
        typer.Option(
            "--no-cache", help="Keep nothing on this machine of what is read of a bucket (~/.cache/cleave/objects)."
        ),
    ] = False
    key: KeyPath = DEFAULT_KEY
    passphrase_fd: PassphraseFd = None
    strict: Annotated[
        bool, typer.Option("--strict", help="Print nothing and fail if the error bounds leave a decision open.")
    ] = False
    endpoint: Annotated[
        str | None,
        typer.Option("--endpoint", metavar="URL", help="Base URL of both services, or SENSITIVE_URL,PLAIN_URL."),
    ] = None
    functions: Annotated[
        str | None, typer.Option("--lambda", metavar="SENSITIVE,PLAIN", help="Invoke two Lambda functions instead.")
    ] = None
    profile: AwsProfile = None
    region: Region = None
    sign: Annotated[
        bool, typer.Option("--sign", help="Sign with AWS credentials though the host is not API Gateway's own.")
    ] = False
    insecure_http: Annotated[bool, typer.Option("--insecure-http", help="Allow plain http to another machine.")] = False
    min_group: Annotated[
        int,
        typer.Option(
            "--min-group",
            min=0,
            metavar="N",
            help="Leave out groups of fewer than N rows; the answer says how many. Default: off; 5 for a stored table "
            "with contributors, which 1 turns off.",
        ),
    ] = 0
    pad: Annotated[
        bool,
        typer.Option(
            "--pad",
            help="Send a power of two of ciphertexts, and read all blocks of a stored table: hides what is selected.",
        ),
    ] = False
    digits: Annotated[
        int,
        typer.Option(
            "--digits",
            min=1,
            max=17,
            metavar="D",
            help="Digits that sums of floats must keep where their declared bounds let them share.",
        ),
    ] = 9
    timeout: Timeout = 600.0

    @property
    def embedded(self) -> bool:
        """Whether the services are those of this process."""
        return self.endpoint is None and self.functions is None

    def options(self) -> Options:
        from cleave.ask.result import Options  # noqa: PLC0415 - numpy and all that computes

        return Options(self.pad, self.digits, self.min_group)

    def session(
        self,
        settings: Settings,
        table: LazyTable | str | None,
        others: Sequence[LazyTable],
        bars: Bars | None = None,
        machine: str | None = None,
    ) -> Session:
        """Over files, or over stored tables: that of the name `table`, or None, those that questions name.

        Raises InputError where there is no such table, KeyFileError, StoreError, CheckFailed.
        """
        from cleave.ask.session import Session  # noqa: PLC0415 - what --help does without
        from cleave.transport.connect import Target  # noqa: PLC0415

        target = Target(self.endpoint, self.functions, self.profile, self.region, self.sign, self.insecure_http)
        access = Access(self.key, passphrase.current(self.passphrase_fd), target)
        bars = bars or (lambda: console.progress(quiet=settings.quiet))
        if table is not None and not isinstance(table, str):
            self._require_no_store(machine)
            from cleave.ask.here import HereSource  # noqa: PLC0415

            return Session(HereSource(table, access, settings.embedded, others), bars)
        from cleave.ask.opening import Store, open_stored  # noqa: PLC0415

        asked = Store(
            *(self.store or "", self.profile, self.region, self.timeout, self.contributor),
            scan=not self.no_scan,
            fetch_limit=_size_of("--fetch-limit", self.fetch_limit),
            memory=None if self.memory is None else _size_of("--memory", self.memory),
            cache=not self.no_cache,
            machine=machine,
        )
        return Session(open_stored(table, asked, access, settings.embedded, others), bars)

    def _require_no_store(self, machine: str | None) -> None:
        given = {
            "--contributor": self.contributor,
            "--no-scan": self.no_scan or None,
            "--memory": self.memory,
            "--job": machine,
        }
        for option, value in given.items():
            if value is not None:
                raise typer.BadParameter(f"{option} goes with a stored table")


def _size_of(option: str, limit: str) -> int:
    from cleave.text.quantities import size_of  # noqa: PLC0415
    from cleave_shared.errors import InputError  # noqa: PLC0415

    try:
        return size_of(limit)
    except InputError as error:
        raise typer.BadParameter(f"{option} {limit}: {error.message}; {error.hint}") from None

"""State the options of questions and of stored tables once, for Python, the command line and the shell.

Each class here lists keyword arguments of a Python function (`stated`); `cleave.cli.options` turns them into a
command's options.
"""

# Without `from __future__ import annotations`: each `Flag` is read while the program runs, the types are not.
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypedDict, TypeVar, cast

from cleave.text.nearest import did_you_mean
from cleave_shared.errors import UsageError

if TYPE_CHECKING:
    from cleave.ask.question import Options
    from cleave.ckks.key_file import Passphrase
    from cleave.ckks.kms_wrapping import KeyService
    from cleave.table.lazy import ArrowStream, ColumnKinds
    from cleave.table.progress import Bars
    from cleave.table.schema import Schema
    from cleave.transport.connect import Target

    Data: TypeAlias = ArrowStream | str | Path | Sequence[str | Path]
    """A DataFrame, an Arrow table or anything else with Arrow's interface; or a file, a pattern, several files."""

    SchemaLike: TypeAlias = Schema | str | Path | ColumnKinds
    """A schema, the path of one, or column -> kind for a frame: see `cleave.table.lazy`."""

    PassphraseLike: TypeAlias = bytes | str | Callable[[], bytes | str]
    """The passphrase or what asks for it, like `getpass.getpass`; asked only if the key is wrapped."""

    Others: TypeAlias = Mapping[str, ArrowStream | str | Path]
    """Further tables that a question may name, by their names: nothing of them is ever sent."""

F = TypeVar("F", bound=Callable[..., object])
G = TypeVar("G")
# Sections of help: options that few need, and those of jobs
ADVANCED, LARGE = "Advanced", "Very large tables"
PASSPHRASE_VARIABLE = "CLEAVE_PASSPHRASE"  # noqa: S105 - its name
IDENTITY_VARIABLE = "CLEAVE_IDENTITY"
LONGEST_TIMEOUT = 7 * 86_400  # seconds


@dataclass(frozen=True, slots=True)
class Flag:
    """The default of a keyword argument, and its command-line option and help text.

    `words` spells the option, such as "--key FILE" or "-o, --output FILE"; it is empty for an argument that only Python
    has. `takes` is the type that the value is parsed as. Help lists `advanced` options last, because few users need
    them. `kind`: of the releases that the option is for; "" for all.
    """

    default: Any = None
    words: str = ""
    help: str = ""
    takes: Any = str
    advanced: bool = False
    kind: str = ""


class Place(TypedDict, total=False):
    """Where stored tables are, and the key that opens them."""

    store: Annotated[
        str | Path | None,
        Flag(
            None,
            "--store PLACE[,PLACE]",
            "Store of tables: a folder or s3://bucket/prefix. A second place gets the plain columns.",
        ),
    ]
    key: Annotated[
        str | Path | None, Flag(None, "--key FILE", "Key file of stored tables. Default: ~/.config/cleave/key.json.")
    ]
    passphrase: Annotated[
        "PassphraseLike | None",
        Flag(None, "--passphrase-fd N", "Read the passphrase from this file descriptor.", int, advanced=True),
    ]
    profile: Annotated[str | None, Flag(None, "--profile NAME", "AWS profile.", advanced=True)]
    region: Annotated[str | None, Flag(None, "--region NAME", "AWS region.", advanced=True)]
    timeout: Annotated[
        float | None,
        Flag(
            None,
            "--timeout SECONDS",
            "Stop after this time, retries included. Reading a query's files does not count.",
            float,
            advanced=True,
        ),
    ]
    progress: Annotated["bool | Bars | None", Flag()]
    say: Annotated["Callable[[str], None] | None", Flag()]


class Reaching(Place, total=False):
    """Where questions over stored tables read, and what limits they keep."""

    endpoint: Annotated[str | None, Flag(None, "--endpoint URL", "URL of both services, or SENSITIVE_URL,PLAIN_URL.")]
    analyst: Annotated[
        str | Path | None,
        Flag(None, "--analyst FILE", "Identity file of an analyst: query the releases made for it.", advanced=True),
    ]
    reader: Annotated[
        str | Path | None,
        Flag(None, "--reader FILE", "Key file of a reader: query the columns it was given.", advanced=True),
    ]
    fingerprint: Annotated[
        str | None,
        Flag(
            None,
            "--fingerprint SHA256:...",
            "With --analyst or --reader: fingerprint of the table's owner. With @N, older states than N are refused.",
            advanced=True,
        ),
    ]
    scan: Annotated[bool, Flag(True, "--no-scan", "Fetch rows; never scan ciphertexts of rows.", bool, advanced=True)]
    fetch_limit: Annotated[
        int | str, Flag("1GB", "--fetch-limit SIZE", "Most bytes of rows to fetch. Default: 1GB.", advanced=True)
    ]
    memory: Annotated[
        int | str | None,
        Flag(
            None,
            "--memory SIZE",
            "Most memory for fetched rows. Default: a quarter of the machine's, which a gateway's workers share.",
            advanced=True,
        ),
    ]
    cache: Annotated[
        bool, Flag(True, "--no-cache", "Store no local copy of what is read from a bucket.", bool, advanced=True)
    ]
    functions: Annotated[
        str | None,
        Flag(None, "--lambda NAME,NAME", "Lambda functions of the sensitive and the plain service.", advanced=True),
    ]
    sign: Annotated[bool, Flag(False, "--sign", "Sign requests to any host with AWS credentials.", bool, advanced=True)]
    insecure_http: Annotated[bool, Flag(False, "--insecure-http", "Allow http to other machines.", bool, advanced=True)]


class Answering(Reaching, total=False):
    """Where questions of one query or of a gateway read."""

    others: Annotated[
        "Others | None",
        Flag(None, "--with FILE[=SCHEMA]", "Another file to join; it stays on this machine. Repeatable.", list[str]),
    ]


_SHEET = Flag(None, "--sheet NAME", "Sheet of an Excel file. Default: as the schema says, else the first.")
_FLATTEN = Flag(False, "--flatten", "Read nested JSON objects as columns a.b, and lists as text.", bool)


class TableOptions(TypedDict, total=False):
    """How a table is opened, and what its answers may show."""

    schema: Annotated[
        "SchemaLike | None", Flag(None, "--schema FILE", "Schema file. Default: NAME.schema.toml next to the table.")
    ]
    sheet: Annotated[str | None, _SHEET]
    flatten: Annotated[bool, _FLATTEN]
    table: Annotated[str | None, Flag(None, "--table NAME", "Name of the table in SQL.")]
    entity: Annotated[
        str | Sequence[str] | None,
        Flag(None, "--entity COLUMN,...", "Columns of a file that name whom a row is about: --min-group counts them."),
    ]
    yes: Annotated[
        bool,
        Flag(False, "--yes", "Let --min-group be less than the table's own; its log says so.", bool, advanced=True),
    ]
    strict: Annotated[bool, Flag(False, "--strict", "Fail if error bounds leave a decision open.", bool)]
    cloud_only: Annotated[bool, Flag(False, "--cloud-only", "Refuse what only this machine can compute.", bool)]
    pad: Annotated[bool, Flag(False, "--pad", "Send and read more, to hide how much is selected.", bool, advanced=True)]


class Asking(Answering, TableOptions, total=False):
    """How `query`, `plan`, `connect` and the shell open tables and ask questions."""

    min_group: Annotated[
        int,
        Flag(
            0,
            "--min-group N",
            "Leave out groups of fewer than N people, or rows without --entity. Default: 5 with contributors.",
            int,
        ),
    ]


class Modelling(Reaching, TableOptions, total=False):
    """How models open their one table and ask for its sums."""

    min_group: Annotated[
        int,
        Flag(
            0,
            "--min-group N",
            "Refuse or merge what is of fewer than N people, or rows without --entity. Default: 5 with contributors.",
            int,
        ),
    ]


class Pulling(Place, total=False):
    """How `pull` reads a stored table."""

    contributor: Annotated[
        str | None, Flag(None, "--contributor NAME", "Only the rows of this contributor, or of `owner`.", advanced=True)
    ]
    force: Annotated[bool, Flag(False, "--force", "Replace the output file if it exists.", bool)]


class Releasing(Place, total=False):
    """How `release` makes a release. Options of one kind are refused with those of another."""

    to: Annotated[
        "str | Path | Sequence[str | Path] | None",
        Flag(
            None,
            "--to FILE.pub=SHA256:...,...",
            "Public identity files of analysts to add, each with its fingerprint when it is used first.",
        ),
    ]
    dry_run: Annotated[bool, Flag(False, "--dry-run", "Write the page of the release, and release nothing.", bool)]
    page: Annotated[
        str | Path | None,
        Flag(
            None,
            "--page FILE",
            "Release what this page has, or fail if the table changed. With --dry-run: write it to this new file.",
        ),
    ]
    yes: Annotated[
        bool,
        Flag(
            False,
            "--yes",
            "Confirm what a release is refused for, if that can be confirmed: spending epsilon again, say.",
            bool,
        ),
    ]
    min_cell: Annotated[
        int | None,
        Flag(
            None,
            "--min-cell N",
            "Minimum people (rows, without an entity) in a part; falls only with --new-lineage. Default: 5.",
            int,
            kind="exact",
        ),
    ]
    new_lineage: Annotated[
        bool,
        Flag(
            False,
            "--new-lineage",
            "Release all rows again, also those released before: both can be subtracted. Needs --yes.",
            bool,
            kind="exact",
        ),
    ]
    epsilon: Annotated[
        str | float | None,
        Flag(
            None,
            "--epsilon E",
            "Make a noisy release, and spend E: smaller is more private. Needs the extra noise.",
            kind="noisy",
        ),
    ]
    most_rows: Annotated[
        int | None,
        Flag(None, "--most-rows N", "Most rows counted per person, chosen at random.", int, kind="noisy"),
    ]
    clamp: Annotated[
        "Mapping[str, tuple[Any, Any]] | Sequence[str] | None",
        Flag(
            None,
            "--clamp COLUMN=LOW..HIGH",
            "Column to add up, and the bounds to which its values are moved. Repeatable.",
            list[str],
            kind="noisy",
        ),
    ]
    values: Annotated[
        "Mapping[str, Sequence[Any]] | Sequence[str] | None",
        Flag(
            None,
            "--values COLUMN=A,B,...",
            "Values of a by column to release, one with a comma in double quotes. Default: those of the schema. "
            "Repeatable.",
            list[str],
            kind="noisy",
        ),
    ]
    split: Annotated[
        "Mapping[str, int] | Sequence[str] | None",
        Flag(
            None,
            "--split NUMBER=SHARE,...",
            "Shares of epsilon, as in rows=1,bill.sum=3. Default: equal ones.",
            list[str],
            kind="noisy",
        ),
    ]
    squares: Annotated[
        bool,
        Flag(False, "--squares", "Sums of squares too, for VARIANCE and STDDEV.", bool, kind="noisy"),
    ]
    again: Annotated[
        bool,
        Flag(
            False,
            "--again",
            "Draw and spend again, even if the last change was the same release.",
            bool,
            kind="noisy",
        ),
    ]


class Opening(Place, total=False):
    """How columns are opened to a reader."""

    to: Annotated[
        str | Path | None,
        Flag(
            None,
            "--to FILE.pub=SHA256:...",
            "Public file of the reader, with its fingerprint when it is used first.",
        ),
    ]
    columns: Annotated[
        str | Sequence[str] | None, Flag(None, "--columns COLUMN,...", "Columns that the reader may read.")
    ]
    names: Annotated[bool, Flag(False, "--schema", "Let the reader see the names of the other columns.", bool)]
    yes: Annotated[
        bool, Flag(False, "--yes", "Confirm that the reader reads rows of people whom thresholds protect.", bool)
    ]


class Dropping(Place, total=False):
    """What `drop` deletes."""

    forget: Annotated[
        bool,
        Flag(
            False,
            "--forget",
            "Delete nothing: accept what the store has of a table, even if it was dropped here or is another or older.",
            bool,
            advanced=True,
        ),
    ]
    confirm: Annotated["Callable[[], None] | None", Flag()]


class Changing(Place, total=False):
    """How `delete` and `update` change rows of a stored table."""

    dry_run: Annotated[bool, Flag(False, "--dry-run", "Show what would change, and change nothing.", bool)]
    yes: Annotated[
        bool,
        Flag(False, "--yes", "Let the plain place learn which rows are chosen, also by columns it cannot read.", bool),
    ]


class Deleting(Changing, total=False):
    """How `delete` deletes rows."""

    record: Annotated[
        str | Path | None, Flag(None, "--record FILE", "Write a signed record of the deletion to a new file.")
    ]
    old_version_days: Annotated[
        int | None,
        Flag(
            None,
            "--old-version-days N",
            "With --record: days the bucket keeps old versions. Default: as its lifecycle says.",
            int,
            advanced=True,
        ),
    ]


class Updating(Changing, total=False):
    """How `update` changes rows."""

    again: Annotated[
        bool, Flag(False, "--again", "Change the rows even if the last change was the same.", bool, advanced=True)
    ]


class Altering(Place, total=False):
    """How `alter` changes the columns of a stored table."""

    widen: Annotated[
        Sequence[str] | None,
        Flag(None, "--widen COLUMN=LOWER..UPPER", "Wider bounds, or a wider type. Repeatable.", list[str]),
    ]
    add: Annotated[
        Sequence[str] | None,
        Flag(None, "--add COLUMN", "A new column, as `note VARCHAR sealed`. Repeatable.", list[str]),
    ]
    rename: Annotated[Sequence[str] | None, Flag(None, "--rename OLD=NEW", "Another name. Repeatable.", list[str])]
    drop: Annotated[
        Sequence[str] | None,
        Flag(None, "--drop COLUMN", "Delete a column, or a product such as `age*bill`. Repeatable.", list[str]),
    ]
    by: Annotated[str | Sequence[str] | None, Flag(None, "--by COLUMN,...", "Other columns to filter and group by.")]
    entity: Annotated[
        str | Sequence[str] | None,
        Flag(None, "--entity COLUMN,...", "Columns that name whom a row is about; they cannot be changed later."),
    ]


class Rotating(Place, total=False):
    """How `rotate` opens the new key."""

    new_passphrase: Annotated[
        "PassphraseLike | None",
        Flag(
            None,
            "--new-passphrase-fd N",
            "Read the new passphrase from this file descriptor.",
            int,
            advanced=True,
        ),
    ]

    undo: Annotated[
        bool, Flag(False, "--undo", "End a rotation that was stopped: the table stays under the old key.", bool)
    ]


class Putting(Place, total=False):
    """How `put` stores a table."""

    schema: Annotated[
        "SchemaLike | None", Flag(None, "--schema FILE", "Schema file. Default: NAME.schema.toml next to the table.")
    ]
    sheet: Annotated[str | None, _SHEET]
    flatten: Annotated[bool, _FLATTEN]
    by: Annotated[
        str | Sequence[str] | None,
        Flag(None, "--by COLUMN,...", "Columns to filter and group by. Default: proposed; '' for none."),
    ]
    key_columns: Annotated[
        str | Sequence[str] | None,
        Flag(None, "--key-columns COLUMN,...", "Columns that identify a row; duplicates are refused."),
    ]
    entity: Annotated[
        str | Sequence[str] | None,
        Flag(None, "--entity COLUMN,...", "Columns that name whom a row is about: thresholds count people."),
    ]
    products: Annotated[
        str | Sequence[str] | None,
        Flag(
            None, "--products COLUMN,...", "Also totals of the columns' products: COVAR_*, CORR, REGR_*.", advanced=True
        ),
    ]
    replace: Annotated[bool, Flag(False, "--replace", "Replace the existing table.", bool)]
    dry_run: Annotated[
        bool, Flag(False, "--dry-run", "Check all rows, print rows, bytes, groups and bounds; store nothing.", bool)
    ]
    drop_contributors: Annotated[
        bool,
        Flag(
            False, "--drop-contributors", "With --replace: delete contributors and their rows too.", bool, advanced=True
        ),
    ]
    scan: Annotated[
        bool, Flag(False, "--scan", "Also store rows for scans: large tables, slow networks.", bool, advanced=True)
    ]


class Deriving(Place, total=False):
    """How `derive` adds totals to a stored table."""

    products: Annotated[
        str | Sequence[str] | None,
        Flag(
            None, "--products COLUMN,...", "Totals of the columns' products instead: for COVAR_*, CORR, REGR_*, models."
        ),
    ]
    dry_run: Annotated[bool, Flag(False, "--dry-run", "Print what would be stored; store nothing.", bool)]


class Adding(Place, total=False):
    """How `append` and `contribute` add rows to a stored table."""

    schema: Annotated["SchemaLike | None", Flag()]
    sheet: Annotated[str | None, _SHEET]
    flatten: Annotated[bool, _FLATTEN]
    again: Annotated[
        bool, Flag(False, "--again", "Add the rows even if a recent change added the same ones.", bool, advanced=True)
    ]
    batch: Annotated[str | None, Flag(None, "--batch ID", "With --append: add nothing if the table has this batch.")]


class Appending(Adding, total=False):
    """How `append` adds rows to a table of the user's own."""

    upsert: Annotated[bool, Flag(False, "--upsert", "With --append: replace rows that have the same key.", bool)]
    yes: Annotated[
        bool,
        Flag(False, "--yes", "With --upsert: let the plain place learn which rows are replaced.", bool, advanced=True),
    ]


class Contributing(Adding, total=False):
    """How `contribute` adds rows to another owner's table."""

    public_key: Annotated[
        str | Path | None,
        Flag(None, "--public-key FILE", "Contribute to the table this key was exported for.", advanced=True),
    ]
    fingerprint: Annotated[
        str | None,
        Flag(
            None, "--fingerprint SHA256:...", "Fingerprint of the public key; needed for its first use.", advanced=True
        ),
    ]
    identity: Annotated[
        str | Path | None, Flag(None, "--identity FILE", "Identity file of the contributor.", advanced=True)
    ]
    replace: Annotated[bool, Flag()]


def flags(options: type) -> dict[str, Flag]:
    """Return the flag of each keyword argument in a class of options, by name."""
    return {name: type_.__metadata__[0] for name, type_ in options.__annotations__.items()}


def stated(options: type) -> Callable[[F], F]:
    """Put the keyword arguments of `options`, with their defaults, into a function's signature."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        *own, _ = signature.parameters.values()
        keyword = inspect.Parameter.KEYWORD_ONLY
        more = [
            inspect.Parameter(name, keyword, default=flag.default, annotation=options.__annotations__[name].__origin__)
            for name, flag in flags(options).items()
        ]
        function.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        return function

    return decorate


def complete(options: type[G], given: G) -> G:
    """Return `given`, with defaults for everything left out.

    Raises TypeError for an unknown argument, UsageError for a timeout out of range.
    """
    defaults = {name: flag.default for name, flag in flags(options).items()}
    for name in cast("dict[str, Any]", given):
        if name not in defaults:
            near = did_you_mean(name, defaults)
            raise TypeError(f"there is no argument {name!r}" + (f"; {near}" if near else ""))
    values = defaults | cast("dict[str, Any]", given)
    if values.get("timeout") is not None and not 0 < values["timeout"] <= LONGEST_TIMEOUT:
        raise UsageError(f"--timeout takes seconds above 0, at most {LONGEST_TIMEOUT:,}", name="--timeout")
    return cast(G, values)


def of_one_table(modelling: Modelling) -> Asking:
    """The options of the questions of a model."""
    return cast("Asking", {**modelling, "others": None})


def question_options(asking: Asking) -> "Options":
    """Return the options of one question. Raises UsageError if one is out of range."""
    from cleave.ask.question import Options  # noqa: PLC0415 - numpy and all that computes

    return Options(asking["pad"], asking["min_group"], asking["yes"])


@dataclass(frozen=True, slots=True)
class Access:
    """The key file that stored tables need, and where the services are (None for those of this process).

    `reads`: the file is a reader's, not the owner's; `fingerprint`: of the owner then, as the command was given it.
    """

    key: Path
    passphrase: "Passphrase" = None
    target: "Target | None" = None
    kms: "KeyService | None" = None
    reads: bool = False
    fingerprint: str | None = None

    @property
    def remote(self) -> bool:
        return self.target is not None and self.target.remote

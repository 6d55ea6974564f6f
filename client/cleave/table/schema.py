"""The schema: what each column is, how sensitive it is, and how the file is read.

  table = "patients"          name in queries; without it, the file's name
  [csv]                       how the file is written
  [columns.age]               one table per column, in the order of the file
  kind = "encrypted"          plain | encrypted | sealed | local
  type = "BIGINT"
  nullable = false            whether an empty field is allowed; default true
  lower = 0                   bounds of a number, optional
  upper = 128
  values = ["A", "B"]         cells of noisy releases, optional; never proposed
  reason = "name says: age"   why this kind was proposed
  unsure = true               the kind is the safe one; a person must confirm it and delete this line
  [derived.NAME]              an expression that questions use like a column: see cleave.table.derived
  [privacy]                   whom rows are about, and what answers may show: see cleave.table.privacy

A file with a column that the schema does not name is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cleave.files import PUBLIC, read_at_most, write_atomically
from cleave.table.derived import Derived, dump_derived, inner, only_keys, parse_derived, text
from cleave.table.inputs import STDIN, expand, is_folder, table_name
from cleave.table.privacy import NO_PRIVACY, Privacy, dump_privacy, entity_of, parse_privacy
from cleave.table.types import can_be_encrypted, canonical, check_format, decimals_of, is_number
from cleave.text.nearest import did_you_mean
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from tomlkit.items import Table as TomlTable

MOST_VALUES = 1 << 12  # of a column that a noisy release has cells of
_MOST_BYTES = 16 << 20  # 2,000 columns with reasons take 1 MB
# Separators of groups of three digits. The last three are U+00A0, U+202F and U+2019.
THOUSANDS = (".", ",", " ", "'", "\N{NO-BREAK SPACE}", "\N{NARROW NO-BREAK SPACE}", "\N{RIGHT SINGLE QUOTATION MARK}")

_PREAMBLE = """\
Proposed by `cleave schema`: review every column, then ask.

kind = "plain"      the plain service sees the values; WHERE and GROUP BY work on them
       "encrypted"  a number or boolean the sensitive service adds up without ever seeing it
       "sealed"     computed on here alone; `cleave put` stores it encrypted, `cleave pull` gives it back
       "local"      never leaves this machine

`lower` and `upper` are what a number may be: by what the column means, else with room beyond the values of the file.
`nullable` is whether a field may be empty. A value outside, or a NULL where there may be none, is refused when the
table is read. What services and stores see follows from these and never from values: widen them before the data grows.

`unsure = true`: the kind is the safe one, and you may know of a more useful one. `cleave schema FILE --accept` takes
all of them as they are; --plain, --encrypted, --sealed and --local settle some; --check counts the rest.
"""


_RARE = ("skip_footer", "censored", "sheet", "flatten")  # keys of [csv] that are written only if they are set
_COLUMN_KEYS = (
    "kind",
    "type",
    "decimals",
    "unit",
    "format",
    "nullable",
    "lower",
    "upper",
    "values",
    "reason",
    "unsure",
)


class Kind(StrEnum):
    PLAIN = "plain"
    ENCRYPTED = "encrypted"
    SEALED = "sealed"
    LOCAL = "local"


def unfit(kind: Kind, type_: str) -> str:
    """Say why no column of this type has this kind; "" where one may."""
    if kind is Kind.ENCRYPTED and not can_be_encrypted(type_):
        return (
            f"{type_} cannot be encrypted for arithmetic, only numbers, BOOLEAN, DATE, TIME, TIMESTAMP and INTERVAL; "
            "use sealed or local"
        )
    if kind is Kind.PLAIN and type_ == "INTERVAL":
        return "INTERVAL cannot be plain, Parquet keeps its milliseconds only; use encrypted"
    return ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's declaration.

    `type` is DuckDB's name. A table is refused unless all rows fit `lower` and `upper` (inclusive bounds of numbers,
    None if not stated) and `nullable`. `unsure`: the kind is the safe one, and nobody has confirmed it. `unit`: a
    currency or other text beside every number of the column. `format`: how dates are written, if not in ISO 8601.
    `values`: texts of the values that a noisy release has cells of; a column may have others.
    """

    name: str
    kind: Kind
    type: str
    lower: Decimal | None = None
    upper: Decimal | None = None
    reason: str = ""
    nullable: bool = True
    unsure: bool = False
    unit: str = ""
    format: str | None = None
    values: tuple[str, ...] = ()

    @property
    def decimals(self) -> int | None:
        """Digits after the point of exact types (integers 0), None for other types."""
        return decimals_of(self.type)


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """Format of a CSV file. An empty field is always NULL.

    `null_tokens`: other spellings of NULL in columns that are not text; case and surrounding blanks do not matter.
    `text_null_tokens`: spellings of NULL in text columns, compared exactly, because such a text could be a name or
    code.
    """

    delimiter: str = ","
    quote: str = '"'
    encoding: str = "utf-8"
    header: bool = True
    decimal: str = "."
    thousands: str = ""
    null_tokens: tuple[str, ...] = ()
    text_null_tokens: tuple[str, ...] = ()
    date_format: str | None = None
    skip: int = 0  # lines before the header, or before the first record
    skip_footer: int = 0  # lines after the last record
    censored: str = ""  # numbers like <5: "limit" reads 5, "null" reads NULL, "" refuses them
    sheet: str = ""  # of an Excel file; "" is the first
    flatten: bool = False  # nested JSON objects become columns "a.b"


@dataclass(frozen=True, repr=False)
class Schema:
    """`table`: name in queries, None for the file's name. `stored`: name of the stored table with this schema,
    or "". Printed, it is the table that `cleave schema` prints.
    """

    columns: tuple[Column, ...]
    dialect: CsvDialect
    table: str | None = None
    derived: tuple[Derived, ...] = ()
    privacy: Privacy = NO_PRIVACY
    stored: str = field(default="", compare=False)

    def __repr__(self) -> str:
        from cleave.table.shown import schema_repr  # noqa: PLC0415 - a query does not need it

        return schema_repr(self)

    def _repr_html_(self) -> str:
        from cleave.table.shown import schema_html  # noqa: PLC0415 - as above

        return schema_html(self)

    def column(self, name: str) -> Column:
        """Find a column. As in DuckDB, case is ignored for ASCII letters only.

        Raises InputError if there is no such column.
        """
        if (column := self.find(name)) is not None:
            return column
        names = [column.name for column in self.columns]
        fallback = f"the schema names {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}"
        raise InputError(f"there is no column {name!r}", hint=did_you_mean(name, names) or fallback, name=name)

    def find(self, name: str) -> Column | None:
        """Find a column like `column`, or return None."""
        return self._by_name.get(name.lower())

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {each.name.lower(): each for each in reversed(self.columns)}  # of equal names, the first

    @property
    def names(self) -> tuple[str, ...]:
        """All names that a query may use."""
        return (*(column.name for column in self.columns), *(each.name for each in self.derived))

    @property
    def plain(self) -> list[str]:
        return [column.name for column in self.columns if column.kind is Kind.PLAIN]

    def read_as(self, sheet: str | None, flatten: bool) -> Schema:
        """Return the schema with another sheet of an Excel file, or with nested JSON objects flattened."""
        if not (sheet or flatten):
            return self
        dialect = self.dialect
        read = replace(dialect, sheet=sheet or dialect.sheet, flatten=flatten or dialect.flatten)
        return replace(self, dialect=read)

    def only(self, names: Collection[str]) -> Schema:
        """Return the schema of the columns `names` only, and of derived columns that use no others; without privacy."""
        wanted = set(names)
        columns = tuple(column for column in self.columns if column.name in wanted)
        derived = tuple(each for each in self.derived if wanted.issuperset(each.columns))
        return Schema(columns, self.dialect, self.table, derived, stored=self.stored)

    def about(self, entity: Sequence[str]) -> Schema:
        """Return the schema with `entity` as its confirmed entity. Raises InputError."""
        try:
            names = entity_of(list(entity), self.find) if entity else ()
        except ValueError as error:
            raise InputError(f"--entity: {error}", hint=f"columns: {', '.join(c.name for c in self.columns)}") from None
        return replace(self, privacy=replace(self.privacy, entity=names, unsure=False))

    def hash(self) -> str:
        """32 hex digits of SHA-256 over names (in lower case), kinds, types and decimals. The columns' order does not
        matter.
        """
        facts = sorted([c.name.lower(), c.kind.value, c.type, c.decimals] for c in self.columns)
        return hashlib.sha256(json.dumps(facts, separators=(",", ":")).encode()).hexdigest()[:32]


def schema_path(names: str | Path | Sequence[str | Path]) -> Path:
    """Path of the schema beside the (first) file: patients.schema.toml for patients.csv.gz.

    Raises InputError for a directory, which may have no name, and for standard input.
    """
    first = expand(names if isinstance(names, str | Path) else names[0])[0]
    if os.path.isdir(first):
        raise is_folder(first)
    if str(first) == STDIN:
        raise InputError("standard input has no schema beside it", hint="name one with --schema, or -o to write it")
    return first.with_name(f"{table_name(names)}.schema.toml")


def write_schema(schema: Schema, path: Path, *, overwrite: bool = False) -> None:
    """Raises InputError if the file exists, unless `overwrite`."""
    write_atomically(path, dump_schema(schema), mode=PUBLIC, error=InputError, overwrite=overwrite)


def edit_schema(path: Path, columns: Sequence[Column], privacy: Privacy | None = None) -> None:
    """Replace `columns` in a schema file that has columns of those names, and `privacy` if given. Everything else
    stays, also comments.

    Raises InputError if the file is not a schema or cannot be written.
    """
    import tomlkit  # noqa: PLC0415 - see schema_head

    load_schema(path)
    document = tomlkit.parse(_text(path))
    stated: Any = document["columns"]
    for column in columns:
        (name,) = (each for each in stated if each.lower() == column.name.lower())
        new: Mapping[str, Any] = _dump_column(column)
        for key in _COLUMN_KEYS:
            if key in new:
                stated[name][key] = new[key]
            elif key in stated[name]:
                del stated[name][key]
    if privacy is not None:
        document["privacy"] = dump_privacy(privacy)
    content = tomlkit.dumps(document)
    read_schema(tomllib.loads(content, parse_float=Decimal), str(path))
    write_atomically(path, content, mode=PUBLIC, error=InputError, overwrite=True)


def _text(path: Path) -> str:
    return read_at_most(path, _MOST_BYTES, InputError).decode("utf-8-sig")  # editors on Windows write a mark


def load_schema(path: Path) -> Schema:
    """Raises InputError naming the file and the key of the first mistake."""
    try:
        document = tomllib.loads(_text(path), parse_float=Decimal)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such schema", hint="`cleave schema FILE.csv` proposes one") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text", hint="a schema is a TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: is not TOML: {error}", hint="write texts in quotes, and each table once") from None
    try:
        return _parse(document)
    except ValueError as error:
        raise InputError(f"{path}: {error}", hint="`cleave schema FILE.csv -o OTHER.toml` shows a valid one") from None


def dump_schema(schema: Schema) -> str:
    """TOML with comments, to be reviewed by a person; `load_schema` reads it back."""
    parts = [schema_head(schema), *map(column_text, schema.columns)]
    if schema.derived:
        parts.append(_dumped("derived", dump_derived(schema.derived)))
    if schema.privacy != NO_PRIVACY:
        parts.append(_dumped("privacy", dump_privacy(schema.privacy)))
    return "\n".join(parts)


def schema_head(schema: Schema) -> str:
    """The part of `dump_schema` before the columns; parts are joined by an empty line."""
    import tomlkit  # noqa: PLC0415 - 25 ms that a query does not need

    document = tomlkit.document()
    for line in _PREAMBLE.splitlines():
        document.add(tomlkit.comment(line) if line else tomlkit.nl())
    if schema.table is not None:
        document.add(tomlkit.nl())
        document.add("table", tomlkit.item(schema.table))
    csv = tomlkit.table()
    for key, value in asdict(schema.dialect).items():
        if value is not None and not (key in _RARE and value == getattr(CsvDialect(), key)):
            csv.add(key, list(value) if isinstance(value, tuple) else value)
    csv["null_tokens"].comment("besides the empty field, in columns that are not text")
    csv["text_null_tokens"].comment("in text columns, to the letter")
    document.add(tomlkit.nl())
    document.add("csv", csv)
    return tomlkit.dumps(document)


def column_text(column: Column) -> str:
    """The part of `dump_schema` that declares a column."""
    import tomlkit  # noqa: PLC0415 - see schema_head

    columns = tomlkit.table(is_super_table=True)
    columns.add(column.name, _dump_column(column))
    return _dumped("columns", columns)


def _dumped(name: str, table: TomlTable) -> str:
    import tomlkit  # noqa: PLC0415 - see schema_head

    document = tomlkit.document()
    document.add(name, table)
    return tomlkit.dumps(document)


def _dump_column(column: Column) -> TomlTable:
    from tomlkit import boolean, table, value  # noqa: PLC0415 - see schema_head

    result = table()
    result.add("kind", column.kind.value)
    result.add("type", column.type)
    if column.type.startswith("DECIMAL"):
        result.add("decimals", column.decimals)
    if column.unit:
        result.add("unit", column.unit)
    if column.format is not None:
        result.add("format", column.format)
    if not column.nullable:
        result.add("nullable", False)
    for key, bound in (("lower", column.lower), ("upper", column.upper)):
        if bound is not None:
            result.add(key, value(f"{bound:f}"))  # a float would change digits
    if column.values:
        result.add("values", list(column.values))
    if column.reason:
        result.add("reason", column.reason)
    if column.unsure:
        unsure = boolean("true")
        unsure.comment("settle the kind, then delete this line")
        result.add("unsure", unsure)
    return result


def read_schema(document: Mapping[str, Any], shown: str) -> Schema:
    """Read a schema's TOML. Raises InputError naming `shown` and the key of the first mistake."""
    try:
        return _parse(document)
    except ValueError as error:
        raise InputError(f"{shown}: {error}") from None


def read_column(name: str, table: Mapping[str, Any], shown: str) -> Column:
    """Read one column's TOML. Raises InputError as `read_schema` does."""
    try:
        return _parse_column(name, table)
    except ValueError as error:
        raise InputError(f"{shown}: {error}") from None


def _parse(document: Mapping[str, Any]) -> Schema:
    only_keys(document, ("table", "csv", "columns", "derived", "privacy"), "the schema")
    name = text(document, "table", "the schema,") if "table" in document else None
    if name is not None and not name.strip():
        raise ValueError("the schema, table: is empty")
    dialect = _parse_dialect(inner(document.get("csv", {}), "[csv]"))
    tables = inner(document.get("columns", {}), "[columns]")
    if not tables:
        raise ValueError("names no column: it needs a section [columns.NAME] for each column")
    columns = tuple(_parse_column(name, inner(table, f"[columns.{name}]")) for name, table in tables.items())
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise ValueError(f"[columns.{column.name}]: differs from another column in upper and lower case only")
        seen.add(column.name.lower())
    schema = Schema(columns, dialect, name)
    derived = parse_derived(inner(document.get("derived", {}), "[derived]"), schema.find)
    privacy = parse_privacy(inner(document.get("privacy", {}), "[privacy]"), schema.find)
    return replace(schema, derived=derived, privacy=privacy)


def _parse_column(name: str, table: Mapping[str, Any]) -> Column:
    place = f"[columns.{name}]"
    only_keys(table, _COLUMN_KEYS, place)
    kind = text(table, "kind", place)
    if kind not in list(Kind):
        raise ValueError(f"{place} kind: must be one of {', '.join(Kind)}")
    stated_type = text(table, "type", place)
    try:
        type_ = canonical(stated_type)
    except ValueError as error:
        raise ValueError(f"{place} type: {error}") from None
    if reason := unfit(Kind(kind), type_):
        raise ValueError(f"{place} kind: {reason}")
    decimals = decimals_of(type_)
    stated = table.get("decimals", decimals)
    if isinstance(stated, bool) or stated != decimals:
        raise ValueError(f"{place} decimals: does not fit {type_}; exact decimals are declared as DECIMAL(18,decimals)")
    lower, upper = _bound(table, "lower", type_, place), _bound(table, "upper", type_, place)
    if lower is not None and upper is not None and lower > upper:
        raise ValueError(f"{place} lower: is above upper")
    nullable, unsure = table.get("nullable", True), table.get("unsure", False)
    for key, stated_flag in (("nullable", nullable), ("unsure", unsure)):
        if not isinstance(stated_flag, bool):
            raise ValueError(f"{place} {key}: must be true or false")
    reason = text(table, "reason", place) if "reason" in table else ""
    unit, format_ = _unit(table, type_, place), _format(table, type_, place)
    values = _values(table, place)
    return Column(name, Kind(kind), type_, lower, upper, reason, nullable, unsure, unit, format_, values)


def _values(table: Mapping[str, Any], place: str) -> tuple[str, ...]:
    values = table.get("values", [])
    is_list = isinstance(values, list) and all(isinstance(each, str | int | Decimal) for each in values)
    if not is_list or ("values" in table and not values):
        raise ValueError(f'{place} values: must be a list of texts or numbers, as in ["A", "B"]')
    texts = tuple(_text_of(each) for each in values)
    if len(set(texts)) < len(texts):
        raise ValueError(f"{place} values: has a value twice")
    if len(texts) > MOST_VALUES:
        raise ValueError(f"{place} values: has more than {MOST_VALUES:,}")
    return texts


def _text_of(value: str | int | Decimal) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:f}" if isinstance(value, Decimal) else str(value)


def _unit(table: Mapping[str, Any], type_: str, place: str) -> str:
    if "unit" not in table:
        return ""
    unit = text(table, "unit", place)
    if not is_number(type_):
        raise ValueError(f"{place} unit: {type_} has none, only numbers do")
    if unit != unit.strip() or not unit or any(char.isdigit() or char in "+-()" for char in unit):
        raise ValueError(f'{place} unit: must be the text next to the digits, as in "%" or "EUR"')
    return unit


def _format(table: Mapping[str, Any], type_: str, place: str) -> str | None:
    if "format" not in table:
        return None
    date_format = text(table, "format", place)
    if type_ not in ("DATE", "TIMESTAMP"):
        raise ValueError(f"{place} format: {type_} has none, only DATE and TIMESTAMP do")
    try:
        check_format(date_format, type_)
    except ValueError as error:
        raise ValueError(f"{place} format: {error}") from None
    return date_format


def _bound(table: Mapping[str, Any], key: str, type_: str, place: str) -> Decimal | None:
    value = table.get(key)
    if value is None:
        return None
    if not is_number(type_):
        raise ValueError(f"{place} {key}: {type_} has no bounds, only numbers do")
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)) or not Decimal(value).is_finite():
        raise ValueError(f"{place} {key}: must be a finite number")
    return Decimal(value)


def _parse_dialect(table: Mapping[str, Any]) -> CsvDialect:
    only_keys(table, tuple(field.name for field in fields(CsvDialect)), "[csv]")
    values: dict[str, Any] = dict(table)
    for key in ("delimiter", "quote", "encoding", "decimal", "thousands", "date_format", "sheet"):
        if key in table:
            values[key] = text(table, key, "[csv]")
    for key in ("null_tokens", "text_null_tokens"):
        tokens = table.get(key, [])
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise ValueError(f"[csv] {key}: must be a list of texts")
        values[key] = tuple(tokens)
    for key in ("header", "flatten"):
        if not isinstance(table.get(key, True), bool):
            raise ValueError(f"[csv] {key}: must be true or false")
    for key in ("skip", "skip_footer"):
        lines = table.get(key, 0)
        if isinstance(lines, bool) or not isinstance(lines, int) or lines < 0:
            raise ValueError(f"[csv] {key}: must be a number of lines")
    if table.get("censored", "") not in ("", "limit", "null"):
        raise ValueError('[csv] censored: must be "limit" or "null"')
    dialect = CsvDialect(**values)
    _check_dialect(dialect)
    return dialect


def _check_dialect(dialect: CsvDialect) -> None:
    if len(dialect.delimiter) != 1 or dialect.delimiter in "\r\n":
        raise ValueError("[csv] delimiter: must be one character")
    if len(dialect.quote) > 1 or dialect.quote == dialect.delimiter:
        raise ValueError("[csv] quote: must be one character other than the delimiter, or empty for none")
    if dialect.decimal not in (".", ","):
        raise ValueError('[csv] decimal: must be "." or ","')
    if dialect.thousands and (dialect.thousands == dialect.decimal or dialect.thousands not in THOUSANDS):
        raise ValueError("[csv] thousands: must be a point, comma, blank or apostrophe other than decimal, or empty")
    try:
        "".encode(dialect.encoding)
    except LookupError:
        raise ValueError('[csv] encoding: is not known; usual ones are "utf-8", "utf-16" and "cp1252"') from None
    if dialect.date_format is not None:
        try:
            check_format(dialect.date_format, "DATE")
        except ValueError as error:
            raise ValueError(f"[csv] date_format: {error}") from None

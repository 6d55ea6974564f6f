"""`cleave.put`, `cleave.append` and `cleave.pull`: tables into a store and out of it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cleave.api.ask import level
from cleave.api.bars import bars
from cleave.api.opening import Data, PassphraseLike, SchemaLike, access_to, lazy
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CleaveWarning, InputError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from cleave.objects.locate import Stores
    from cleave.store.reader import Opened
    from cleave.store.tables import Tables


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table as it is stored now: `version` counts its puts, appends and derivations."""

    name: str
    version: int
    rows: int
    segments: int
    bytes: int
    by: tuple[str, ...]


class Pulled:
    """All rows of a stored table, decrypted, in the order they were put."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._table.column_names)

    def arrow(self) -> pa.Table:
        """An Arrow table."""
        return self._table

    def df(self) -> pd.DataFrame:
        """A pandas DataFrame; decimals stay Decimal, whole numbers with NULLs become Int64.

        Raises InputError without pandas.
        """
        try:
            import pandas as pd  # noqa: PLC0415 - an extra
        except ImportError:
            raise InputError(
                "df() needs pandas, which is not installed", hint="pip install 'cleave-sql[pandas]'"
            ) from None
        import pyarrow as pa  # noqa: PLC0415 - there if there is a table

        series = {}
        for name, column in zip(self._table.column_names, self._table.columns, strict=True):
            nullable = pa.types.is_integer(column.type) and column.null_count
            series[name] = pd.Series(column.to_pylist(), dtype="Int64") if nullable else column.to_pandas()
        return pd.DataFrame(series)


def put(
    data: Data,
    name: str,
    *,
    store: str | Path,
    by: Sequence[str] | None = None,
    schema: SchemaLike | None = None,
    scan: bool = False,
    replace: bool = False,
    drop_contributors: bool = False,
    key: str | Path | None = None,
    passphrase: PassphraseLike | None = None,
    profile: str | None = None,
    region: str | None = None,
    progress: bool | None = None,
) -> StoredTable:
    """Store a DataFrame, an Arrow table or files as table `name`, as `cleave put` does.

    `by` None: what is proposed; `[]`: nothing. A file is read a batch at a time, whatever its size; a put that was
    stopped goes on where it was when it is called again with the same data.

    >>> import cleave
    >>> stored = cleave.put("patients.csv", "trial", store="tables", by=["ward"])
    >>> stored.rows, stored.version, stored.by
    (600, 1, ('ward',))
    >>> cleave.query("trial", "SELECT COUNT(*), SUM(bill) FROM trial", store="tables").rows
    [(600, Decimal('1534139.46'))]

    Raises InputError for a table that is there, for data that do not fit the schema and for what may not be stored,
    KeyFileError, ServiceError, CheckFailed. No message holds a value of the table.
    """
    from cleave.store import put as putting  # noqa: PLC0415 - what a question over a file does without

    with tables_in(store, key, passphrase, profile, region) as (tables, _, _):
        unread = lazy(data, schema, name)
        with unread.stream() as rows, bars(progress)() as shown:
            opened = putting.put(
                tables,
                rows,
                name,
                None if by is None else list(by),
                shown,
                scan=scan,
                replace=replace,
                drop_contributors=drop_contributors,
            )
        tables.sweep(opened)
        return told(opened)


def append(
    data: Data,
    name: str,
    *,
    store: str | Path,
    schema: SchemaLike | None = None,
    again: bool = False,
    key: str | Path | None = None,
    passphrase: PassphraseLike | None = None,
    profile: str | None = None,
    region: str | None = None,
    progress: bool | None = None,
) -> StoredTable:
    """Add rows to a stored table, under the schema it has. Otherwise as `put`.

    Where the table's last change added just these rows, a warning says so and nothing is added unless `again`: a call
    that was stopped can be made again as it is.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "growing", store="tables", by=["ward"])
    >>> stored = cleave.append("patients.csv", "growing", store="tables")
    >>> stored.rows, stored.version
    (1200, 2)
    """
    from cleave.store import put as putting  # noqa: PLC0415 - what a question over a file does without

    with tables_in(store, key, passphrase, profile, region) as (tables, _, _):
        unread = lazy(data, schema, name)
        with unread.stream() as rows, bars(progress)() as shown:
            opened = putting.append(tables, rows, name, shown, again=again, say=warn)
        tables.sweep(opened)
        return told(opened)


def pull(
    name: str,
    output: str | Path | None = None,
    *,
    store: str | Path,
    contributor: str | None = None,
    key: str | Path | None = None,
    passphrase: PassphraseLike | None = None,
    profile: str | None = None,
    region: str | None = None,
    progress: bool | None = None,
) -> Pulled | None:
    """Decrypt and rejoin a stored table: into a new file `output` (.csv or .parquet), a segment at a time, or, where
    none is named, as a table with all of it in memory. Rows are in the order they were put; those of one `contributor`
    alone, where it is named.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "pulled", store="tables", by=["ward"])
    >>> cleave.pull("pulled", store="tables").df()[["ward", "age"]].head(2)
            ward  age
    0    Surgery   26
    1  Maternity   28
    >>> cleave.pull("pulled", "back.parquet", store="tables")

    Raises InputError for a file that is there already, and where neither is named and pyarrow is not installed;
    KeyFileError, ServiceError, CheckFailed.
    """
    from cleave.maintain.pull import check_output, pull_arrow, pull_into  # noqa: PLC0415
    from cleave.sums.stored import Stored  # noqa: PLC0415

    if output is not None:
        check_output(Path(output))
    elif find_spec("pyarrow") is None:
        raise InputError(
            "a table in memory needs pyarrow, which is not installed",
            hint="pip install 'cleave-sql[arrow]' or 'cleave-sql[pandas]', or name a file to write",
        )
    with tables_in(store, key, passphrase, profile, region) as (tables, _, _), bars(progress)() as shown:
        stored = Stored(tables, tables.open(name), contributor)
        if output is None:
            return Pulled(pull_arrow(stored, shown))
        pull_into(stored, Path(output), shown)
        return None


def warn(text: str) -> None:
    """Warn at the line that called the API."""
    warnings.warn(text, CleaveWarning, stacklevel=level())


@contextlib.contextmanager
def stores_at(store: str | Path, profile: str | None, region: str | None) -> Iterator[Stores]:
    """The places that `store` names."""
    from cleave.ask.opening import open_place  # noqa: PLC0415 - what a question over a file does without

    stores = open_place(store, profile, region)
    try:
        yield stores
    finally:
        stores.close()


@contextlib.contextmanager
def tables_in(
    store: str | Path,
    key: str | Path | None,
    passphrase: PassphraseLike | None,
    profile: str | None,
    region: str | None,
) -> Iterator[tuple[Tables, Stores, Any]]:
    """The tables in a store, its places, and the key, which this room only hands on."""
    from cleave.ask.stored import open_tables  # noqa: PLC0415 - what a question over a file does without

    with stores_at(store, profile, region) as stores:
        tables, secret = open_tables(stores, access_to(key, passphrase))
        yield tables, stores, secret


def told(opened: Opened) -> StoredTable:
    manifest = opened.manifest
    return StoredTable(
        name=manifest.table,
        version=manifest.version,
        rows=manifest.rows,
        segments=len(manifest.segments),
        bytes=manifest.bytes,
        by=manifest.by,
    )

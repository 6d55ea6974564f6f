"""What operations return: facts of a stored table, of a change, of a contribution; pulled rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from cleave.text.quantities import counted
from cleave_shared.errors import extra

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from cleave.store.manifest import Manifest


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table in its current version; `version` counts its changes. `facts`: the JSON of `cleave ls --json`."""

    name: str
    version: int
    rows: int
    segments: int
    bytes: int
    by: tuple[str, ...]
    facts: dict[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A stored table in detail. `text`: what `cleave show` prints; `facts`: what `cleave show --json` prints."""

    facts: dict[str, Any]
    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Contribution:
    """The last put of a contributor, with its rows. `version` counts its puts. `contributor`: its public key,
    in hex. `added` is False if an earlier put had added the same rows.
    """

    name: str
    contributor: str
    version: int
    rows: int
    added: bool


@dataclass(frozen=True, slots=True)
class Changed:
    """Rows that a delete or update changed, or a dry run would change.

    `segments`: those with such rows, as (number from 1, changed rows, all rows). `reveals`: what the plain place
    learns, "" for nothing. `version`: the table's newest version. `repeated`: nothing was changed, because this was
    already the last change but for appends. `ends_releases`: the change ends, or would end, the table's releases.
    """

    name: str
    version: int
    rows: int
    segments: tuple[tuple[int, int, int], ...]
    reveals: str
    repeated: bool = False
    ends_releases: bool = False

    def facts(self) -> dict[str, Any]:
        """All of it, as JSON."""
        return asdict(self)

    @classmethod
    def of(cls, facts: Mapping[str, Any], *, repeated: bool) -> Changed:
        """The change that has these `facts`."""
        segments = tuple((number, rows, all_) for number, rows, all_ in facts["segments"])
        return cls(**{**facts, "segments": segments, "repeated": repeated})

    @property
    def text(self) -> str:
        """One line per segment, and one for the plain place."""
        lines = [f"segment {number}: {rows:,} of {counted(all_, 'row')}" for number, rows, all_ in self.segments]
        return "\n".join([*lines, f"the plain place learns: {self.reveals or 'nothing'}"])


class Pulled:
    """Decrypted rows of a stored table, in the order in which they were put."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._table.column_names)

    def arrow(self) -> pa.Table:
        return self._table

    def df(self) -> pd.DataFrame:
        """A pandas DataFrame. Decimals stay Decimal; whole numbers with NULLs become Int64.

        Raises InputError without pandas.
        """
        with extra("pandas", "data frames"):
            import pandas as pd  # noqa: PLC0415
        import pyarrow as pa  # noqa: PLC0415 - always installed if there is a table

        series = {}
        for name, column in zip(self._table.column_names, self._table.columns, strict=True):
            nullable = pa.types.is_integer(column.type) and column.null_count
            series[name] = pd.Series(column.to_pylist(), dtype="Int64") if nullable else column.to_pandas()
        return pd.DataFrame(series)


def stored_table(manifest: Manifest) -> StoredTable:
    facts = {
        "table": manifest.table,
        "version": manifest.version,
        "changed": manifest.changed,
        "rows": manifest.rows,
        "bytes": manifest.bytes,
        "segments": len(manifest.segments),
        "by": list(manifest.by),
        "key_columns": list(manifest.key),
        "measures": [each.model_dump(include={"name", "sql", "type", "derived"}) for each in manifest.measures],
        "contributors": [each.model_dump(include={"name", "key", "added"}) for each in manifest.contributors],
    }
    counts = manifest.version, manifest.rows, len(manifest.segments), manifest.bytes
    return StoredTable(manifest.table, *counts, manifest.by, facts)

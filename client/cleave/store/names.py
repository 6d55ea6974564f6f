"""Names of the columns that DuckDB's tables have here beside the stored table's own, which no schema's may have.

With one of them in a schema a cell's number, say, would be read in the place of a value.
"""

from __future__ import annotations

from typing import Final

NUMBER: Final = "number of the cell"  # of the cells
CELL: Final = "cell of the row"  # of rows that are fetched
THERE: Final = "whether the row is fetched"
ROW: Final = "row of the segment"  # of rows that are put or fetched in order

RESERVED = frozenset({NUMBER, CELL, THERE, ROW})

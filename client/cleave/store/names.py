"""Names of the columns that DuckDB's tables have here beside the stored table's own, which no schema's may have.

With one of them in a schema a row number, say, would be read in the place of a value.
"""

from __future__ import annotations

from typing import Final

NUMBER: Final = "number of the cell"  # of the cells
ROW: Final = "row of the segment"  # of rows that are put, and of those stored in another order

RESERVED = frozenset({NUMBER, ROW, "file_row_number"})  # the last is DuckDB's, of a Parquet file

"""An overflow of integers without declared bounds: its error says of what, and a way that works."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import cleave
from cleave.ckks.key_file import create_key
from cleave_shared.errors import CleaveError

LARGE = 2**62
ROWS = pa.table(
    {"w": ["A", "B"] * 10, "a": [LARGE - i for i in range(20)], "b": [LARGE - 3 * i * i for i in range(20)]}
)
BOUNDS = {"kind": "encrypted", "lower": LARGE - 2000, "upper": LARGE}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("overflow")
    create_key(folder / "key.json", None)
    place = {"store": folder / "store", "key": folder / "key.json"}
    for name, kind in (("t", "encrypted"), ("bounded", BOUNDS)):
        cleave.put(ROWS, name, schema={"w": "plain", "a": kind, "b": kind}, by=["w"], **place)
    return place


@pytest.mark.sampled(2)
@pytest.mark.parametrize("keys", ["", "w, "])
def test_a_query_over_a_stored_table(given: dict[str, Any], keys: str) -> None:
    group = " GROUP BY w" if keys else ""
    with pytest.raises(CleaveError, match=r'"a" \* "b"\) cannot be computed in some row') as caught:
        cleave.query("t", f"SELECT {keys}SUM(a * b), COUNT(*) FROM t{group}", **given)
    assert "SUM(x::DOUBLE * y)" in str(caught.value.hint)
    rows = cleave.query("t", f"SELECT {keys}SUM(a::DOUBLE * b), SUM(a), AVG(a) FROM t{group}", **given).rows
    assert len(rows) == (2 if keys else 1)


@pytest.mark.slow  # quick: the test above
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "work", [lambda data, **how: cleave.fit(data, "a ~ b", **how), lambda data, **how: cleave.pca(data, "a,b", **how)]
)
def test_a_model_names_the_columns_that_overflow(given: dict[str, Any], work: Any) -> None:
    kinds = {"w": "plain", "a": "encrypted", "b": "encrypted"}
    for data, how in (("t", given), (ROWS.to_pandas(), {"schema": kinds})):
        with pytest.raises(CleaveError, match="over columns 'a', 'b' overflows") as caught:
            work(data, **how)
        assert "declare lower and upper" in str(caught.value.hint)
    work("bounded", **given)
    work(ROWS.to_pandas(), schema=kinds | {"a": BOUNDS, "b": BOUNDS})

"""The sensitive service's simplest call from Python, without a table or SQL: lists in, figures out.

question = Question(key, {"bill": [12.5, 99.0, 7.25]}, "mean")
answer = httpx.post(f"{url}/v1/sensitive", json=question.body()).json()
print(question.decrypt(answer))
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates import AGGREGATES
from cleave.aggregates.base import Aggregate, Estimate, Figure
from cleave.aggregates.columns import Domain, Values
from cleave.ckks.cipher import Cipher
from cleave.ckks.columns import Asked, Columns
from cleave.ckks.encode import encode
from cleave.ckks.job import Job
from cleave.ckks.masked import MaskedJob
from cleave.ckks.packing import plan_packing
from cleave.ckks.secret_key import SecretKey
from cleave_shared import limits
from cleave_shared.errors import CheckFailed, InputError
from cleave_shared.moments import Run
from cleave_shared.operations import AGGREGATE_OF
from cleave_shared.wire import MomentsResponse

_NOBODY = "0" * 32  # the simple call names no schema

Value = int | float | Decimal | bool | None


class Question:
    """One operation over lists of numbers of equal length, optionally by a group number a row.

    Raises InputError for columns that are not numbers, differ in length or do not fit one request, and for an unknown
    operation.
    """

    def __init__(
        self,
        key: SecretKey,
        data: Mapping[str, Sequence[Value]],
        operation: str,
        group_by: Sequence[int] | None = None,
    ) -> None:
        lengths = {len(values) for values in data.values()} | ({len(group_by)} if group_by is not None else set())
        if len(lengths) != 1 or not min(lengths):
            raise InputError("columns and group_by must have the same number of rows, at least one")
        if operation not in AGGREGATE_OF:
            raise InputError(f"there is no operation {operation!r}", hint=f"one of {', '.join(AGGREGATE_OF)}")
        (self._rows,) = lengths
        self._profile = key.profile.name
        self._operation = operation
        self._grouped = group_by is not None
        groups = np.asarray(group_by if group_by is not None else np.zeros(self._rows, int))
        if groups.dtype.kind not in "iu" or groups.min() < 0 or groups.max() > limits.MAX_GROUP:
            raise InputError(f"group_by must hold group numbers from 0 to {limits.MAX_GROUP}")
        order = np.argsort(groups, kind="stable")
        numbers, counts = np.unique(groups, return_counts=True)
        self._runs = [(int(number), int(count)) for number, count in zip(numbers, counts, strict=True)]
        cipher = Cipher(key)
        counting = operation == "count"  # the sum of a 1 for every value: also of a column without NULLs
        aggregate: Aggregate = AGGREGATES["SUM" if counting else AGGREGATE_OF[operation].upper()]
        self._asked: dict[str, _Masked | _Summed] = {}
        for name, values in data.items():
            domain, column = _counted(values) if counting else _column(name, values)
            columns = Columns([domain], [Asked(aggregate, (0,))])
            encoded = columns.encode([name], [_sorted(column, order)])
            try:
                asked = (_Masked if self._grouped else _Summed)(columns, encoded, self._runs, cipher, key)
            except _TooLarge:
                raise InputError(
                    f"column {name!r} does not fit one request", hint="use `cleave query` for tables"
                ) from None
            self._asked[name] = asked

    def body(self) -> dict[str, Any]:
        """The JSON of `POST /v1/sensitive`. It holds ciphertexts, group numbers and the names given, and no key."""
        body: dict[str, Any] = {
            "data": {
                name: [base64.b64encode(chunk).decode() for chunk in each.chunks] for name, each in self._asked.items()
            },
            "operation": self._operation,
            "profile": self._profile,
            "rows": self._rows,
        }
        if self._grouped:
            body["lanes"] = {name: each.lanes for name, each in self._asked.items()}
            body["group_by"] = [number for number, count in self._runs for _ in range(count)]
        return body

    def decrypt(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Each column's figure (with group_by: by group number), checked. Raises CheckFailed."""
        return {name: self._figures(name, answer) for name in self._asked}

    def _figures(self, name: str, answer: Mapping[str, Any]) -> Figure | dict[int, Figure]:
        asked = self._asked[name]
        try:
            blobs = answer["result"][name] if self._grouped else [answer["result"][name]]
            numbers = answer["groups"] if self._grouped else [0]
            sizes = answer["counts"]
            totals = {
                int(number): base64.b64decode(blob, validate=True) for number, blob in zip(numbers, blobs, strict=True)
            }
            sentinel = base64.b64decode(answer["sentinel"][name] if self._grouped else b"", validate=True)
        except (KeyError, TypeError, ValueError):
            raise CheckFailed("envelope", "this is not an answer of the sensitive service") from None
        if list(zip(numbers, sizes, strict=False)) != self._runs or len(totals) != len(self._runs):
            raise CheckFailed("envelope", "the answer's groups are not those that were asked for")
        estimates = asked.accept(totals, sentinel)
        figures = {group: asked.columns.figures(estimates[group], rows)[0] for group, rows in self._runs}
        return figures if self._grouped else figures[0]


class _TooLarge(Exception):  # noqa: N818 - caught where the column's name is known
    pass


class _Summed:
    """A column whose chunks are all added up: what `cleave query` asks, with one group."""

    def __init__(self, columns: Columns, values: list[Any], runs: list[Run], cipher: Cipher, key: SecretKey) -> None:
        self.columns = columns
        packing = plan_packing(columns.types, [rows for _, rows in runs], key.profile)
        if packing.chunks > limits.MAX_REQUEST_CHUNKS:
            raise _TooLarge
        self._job = Job(packing, encode(packing, values), cipher)
        (self._part,) = packing.parts(1)
        self.lanes = packing.lanes
        self.chunks = list(self._job.encrypt(self._part))
        self._request = self._job.request(self._part, key.key_id, _NOBODY, self.chunks)

    def accept(self, totals: Mapping[int, bytes], _sentinel: bytes) -> dict[int, list[Estimate]]:
        named = self._request.model_dump(include={"profile", "key_id", "schema_hash", "chunk_range"})
        job = self._job.unanswered()  # an answer may be decrypted again
        job.accept(self._part, self._request, MomentsResponse(**named, totals=list(totals.values())))
        return {0: job.estimates(0)}


class _Masked:
    """A column that is summed by group under masks."""

    def __init__(self, columns: Columns, values: list[Any], runs: list[Run], cipher: Cipher, _key: SecretKey) -> None:
        self.columns = columns
        job = MaskedJob(columns.types, values, runs, cipher)
        if job.chunks > limits.MAX_REQUEST_CHUNKS or sum(rows for _, rows in runs) > limits.MAX_MASKED_ROWS:
            raise _TooLarge
        self.lanes = job.lanes
        self.chunks = job.encrypt()
        self.accept = job.accept


def _sorted(column: Values, order: NDArray[np.intp]) -> Values:
    return Values(column.values[..., order], None if column.valid is None else column.valid[order])


def _counted(values: Sequence[Value]) -> tuple[Domain, Values]:
    return Domain(0, 0, 1, nullable=False), Values(np.array([int(value is not None) for value in values]), None)


def _column(name: str, values: Sequence[Value]) -> tuple[Domain, Values]:
    """Bounds are rounded outwards to powers of two: how many lanes are sent tells no more than the magnitude."""
    valid = np.array([value is not None for value in values])
    present = [value for value in values if value is not None]
    decimals: int | None = 0
    if all(isinstance(value, int) for value in present):
        decimals = 0
    elif all(isinstance(value, int | Decimal) for value in present):
        decimals = max(0, *(-int(value.as_tuple().exponent) for value in present if isinstance(value, Decimal)))
    elif all(isinstance(value, int | float | Decimal) for value in present):
        decimals = None
    else:
        raise InputError(f"column {name!r} holds something other than numbers")
    try:
        if decimals is None:
            numbers = np.array([0.0 if value is None else float(value) for value in values])
            return Domain(None), Values(numbers, valid)
        unit = 10**decimals
        integers = np.array([0 if value is None else int(value * unit) for value in values], np.int64)
    except OverflowError:
        raise InputError(f"column {name!r} holds a number of more than 64 bits") from None
    reach = 1 << int(max(abs(int(integers.min())), abs(int(integers.max())), 1)).bit_length()
    lower = -reach if int(integers.min()) < 0 else 0
    return Domain(decimals, lower, reach), Values(integers, valid)

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

from cleave.aggregates import AGGREGATES
from cleave.aggregates.base import Aggregate, Figure
from cleave.aggregates.columns import Domain, Values
from cleave.ckks.cipher import Cipher
from cleave.ckks.columns import Asked, Columns
from cleave.ckks.job import Arrangement, Job, Slice
from cleave.ckks.secret_key import SecretKey
from cleave_shared import limits
from cleave_shared.errors import CheckFailed, InputError
from cleave_shared.operations import AGGREGATE_OF
from cleave_shared.wire import GroupTotals, MomentsRequest, MomentsResponse

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
        self._key = key
        self._operation = operation
        counting = operation == "count"  # the sum of a 1 for every value: also of a column without NULLs
        self._aggregate: Aggregate = AGGREGATES["SUM" if counting else AGGREGATE_OF[operation].upper()]
        self._grouped = group_by is not None
        groups = np.asarray(group_by if group_by is not None else np.zeros(self._rows, int))
        if groups.dtype.kind not in "iu" or groups.min() < 0 or groups.max() > limits.MAX_GROUP:
            raise InputError(f"group_by must hold group numbers from 0 to {limits.MAX_GROUP}")
        order = np.argsort(groups, kind="stable")
        numbers, counts = np.unique(groups, return_counts=True)
        runs = [(int(number), int(count)) for number, count in zip(numbers, counts, strict=True)]
        self._runs = runs
        self._cipher = Cipher(key)
        self._jobs: dict[str, tuple[Job, Slice, MomentsRequest]] = {}
        for name, values in data.items():
            counted = [int(value is not None) for value in values]
            domain, column = _column(name, counted if counting else values)
            columns = Columns([domain], [Asked(self._aggregate, (0,))])
            job = Job(key.profile, columns, [name], [column], Arrangement(order, runs, numbers))
            part, *more = job.slices(1)
            if more:
                raise InputError(f"column {name!r} does not fit one request", hint="use `cleave query` for tables")
            chunks = job.encrypt(self._cipher, part)
            self._jobs[name] = (job, part, job.request(part, key.key_id, "0" * 32, chunks))

    def body(self) -> dict[str, Any]:
        """The JSON of `POST /v1/sensitive`. It holds ciphertexts, group numbers and the names given, and no key."""
        body: dict[str, Any] = {
            "data": {
                name: [base64.b64encode(chunk).decode() for chunk in request.chunks]
                for name, (_, _, request) in self._jobs.items()
            },
            "operation": self._operation,
            "profile": self._key.profile.name,
            "rows": self._rows,
            "lanes": {name: request.lanes for name, (_, _, request) in self._jobs.items()},
        }
        if self._grouped:
            body["group_by"] = [number for number, count in self._runs for _ in range(count)]
        return body

    def decrypt(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Each column's figure (with group_by: by group number), checked. Raises CheckFailed."""
        return {name: self._figures(name, answer) for name in self._jobs}

    def _figures(self, name: str, answer: Mapping[str, Any]) -> Figure | dict[int, Figure]:
        job, part, request = self._jobs[name]
        try:
            totals = answer["result"][name] if self._grouped else [answer["result"][name]]
            groups = answer["groups"] if self._grouped else [0]
            response = MomentsResponse(
                **request.model_dump(include={"profile", "key_id", "schema_hash", "lanes", "rows", "chunk_range"}),
                groups=[
                    GroupTotals(group=group, rows=count, totals=total)
                    for group, count, total in zip(groups, answer["counts"], totals, strict=True)
                ],
                sentinel=answer["sentinel"][name],
            )
        except (KeyError, TypeError, ValueError):
            raise CheckFailed("envelope", "this is not an answer of the sensitive service") from None
        job.accept(self._cipher, part, request, response)
        figures = {group: job.figures(group)[0] for group, _ in self._runs}
        return figures if self._grouped else figures[0]


def _column(name: str, values: Sequence[Value]) -> tuple[Domain, Values]:
    valid = np.array([value is not None for value in values])
    present = [value for value in values if value is not None]
    decimals: int | None = 0
    if all(isinstance(value, int) for value in present):
        decimals = 0
    elif all(isinstance(value, int | Decimal) for value in present):
        scale = max(-int(value.as_tuple().exponent) for value in present if isinstance(value, Decimal))
        decimals = max(scale, 0)
    elif all(isinstance(value, int | float | Decimal) for value in present):
        decimals = None
    else:
        raise InputError(f"column {name!r} holds something other than numbers")
    try:
        if decimals is None:
            numbers = np.array([0.0 if value is None else float(value) for value in values])
        else:
            unit = 10**decimals
            numbers = np.array([0 if value is None else int(value * unit) for value in values], np.int64)
    except OverflowError:
        raise InputError(f"column {name!r} holds a number of more than 64 bits") from None
    nullable = not valid.all()
    least, largest = (
        (int(numbers[valid].min()), int(numbers[valid].max())) if present and decimals is not None else (0, 0)
    )
    return Domain(decimals, least, largest, nullable), Values(numbers, valid if nullable else None)

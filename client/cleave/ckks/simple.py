"""The sensitive service's simplest call from Python, without table or SQL: lists in, figures out.

question = Question({"bill": [12.5, 99.0, 7.25]}, "mean")
answer = httpx.post(f"{url}/v1/sensitive", json=question.body()).json()
print(question.decrypt(answer))

Each question has a key of its own, which exists as long as the question.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from cleave.aggregates import AGGREGATES
from cleave.aggregates.base import Estimate, Figure
from cleave.aggregates.columns import Domain, Values
from cleave.aggregates.group import Aggregate, EncryptedAggregate
from cleave.ckks.cipher import Cipher
from cleave.ckks.columns import Columns
from cleave.ckks.encode import encode
from cleave.ckks.job import Job
from cleave.ckks.packing import plan_packing
from cleave.ckks.secret_key import SecretKey, fresh_key
from cleave_shared import limits
from cleave_shared.chunks import split
from cleave_shared.errors import CheckFailed, InputError
from cleave_shared.params import AGGREGATE_OF, DEFAULT_PROFILE
from cleave_shared.requests import SumsResponse

_Number = int | float | Decimal | bool | None


class Question:
    """One operation over lists of numbers of equal length.

    Raises InputError for columns that are not numbers, differ in length or do not fit one request, and for an unknown
    operation.
    """

    def __init__(self, data: Mapping[str, Sequence[_Number]], operation: str) -> None:
        lengths = {len(values) for values in data.values()}
        if len(lengths) != 1 or not min(lengths):
            raise InputError("columns must have the same number of rows, at least one")
        if operation not in AGGREGATE_OF:
            raise InputError(f"there is no operation {operation!r}", hint=f"one of {', '.join(AGGREGATE_OF)}")
        key = fresh_key(DEFAULT_PROFILE)
        (self._rows,) = lengths
        self._profile = key.profile.name
        self._operation = operation
        cipher = Cipher(key)
        counting = operation == "count"  # sum of a 1 per value, also for a column without NULLs
        aggregate: Aggregate = AGGREGATES["SUM" if counting else AGGREGATE_OF[operation].upper()]
        self._sums: dict[str, _Sum] = {}
        for name, values in data.items():
            domain, column = _counted(values) if counting else _column(name, values)
            columns = Columns([domain], [EncryptedAggregate(aggregate, (0,))])
            packing = plan_packing(columns.types, [self._rows], key.profile)
            if packing.chunks > limits.MAX_REQUEST_CHUNKS:
                raise InputError(f"column {name!r} does not fit one request", hint="use `cleave query` for tables")
            job = Job(packing, encode(packing, columns.encode([name], [column])), cipher)
            self._sums[name] = _Sum(columns, job, key)

    def body(self) -> dict[str, Any]:
        """The JSON body of `POST /v1/sensitive`: ciphertexts and the given names, no key."""
        return {
            "data": {
                name: [base64.b64encode(chunk).decode() for chunk in each.chunks] for name, each in self._sums.items()
            },
            "operation": self._operation,
            "profile": self._profile,
            "rows": self._rows,
        }

    def decrypt(self, answer: Mapping[str, Any]) -> dict[str, Figure]:
        """Each column's figure, after all checks. Raises CheckFailed."""
        return {name: self._figure(each, name, answer) for name, each in self._sums.items()}

    def _figure(self, sums: _Sum, name: str, answer: Mapping[str, Any]) -> Figure:
        try:
            total, rows = base64.b64decode(answer["result"][name], validate=True), answer["rows"]
        except (KeyError, TypeError, ValueError):
            raise CheckFailed("envelope", "this is not an answer of the sensitive service") from None
        if rows != self._rows:
            raise CheckFailed("envelope", "the answer is of another number of rows")
        return sums.columns.figures(sums.accept(total), self._rows)[0]


class _Sum:
    """A column whose chunks are all added up, like a query of one group."""

    def __init__(self, columns: Columns, job: Job, key: SecretKey) -> None:
        self.columns = columns
        self._job = job
        (self._part,) = job.packing.ranges(1)
        objects = list(job.encrypt(self._part))
        self.chunks = [chunk for each in objects for chunk in split(each)]
        self._request = job.request(self._part, key.key_id, objects)

    def accept(self, total: bytes) -> list[Estimate]:
        job = self._job.unanswered()  # an answer may be decrypted again
        request = self._request
        answer = SumsResponse(profile=request.profile, key_id=request.key_id, label=request.label, totals=[[total]])
        job.accept(self._part, request, answer)
        return job.totals.estimates(0)


def _counted(values: Sequence[_Number]) -> tuple[Domain, Values]:
    return Domain(0, 0, 1, nullable=False), Values(np.array([int(value is not None) for value in values]), None)


def _column(name: str, values: Sequence[_Number]) -> tuple[Domain, Values]:
    """The domain and values of a column. Bounds are rounded outwards to powers of two, so the number of lanes reveals
    the magnitude only.
    """
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

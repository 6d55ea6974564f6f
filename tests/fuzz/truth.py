"""What figures an answered message must have: the client's checks refuse the answer, or the figures are the truth.

A message to the sensitive half is judged by the client that sent the sound one and takes the answer for its own, even
where its digest tells that it is not: as if somebody had forged that. A message to the plain half is another question,
and is asked once more without Cleave: of DuckDB alone, or of Python.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np

from aws.events import AGGREGATE, MOMENTS, OPERATE, OPERATE_ENCRYPTED, plain_request
from cleave.aggregates import AGGREGATES
from cleave.aggregates.base import Figure
from cleave.aggregates.columns import Domain, Values
from cleave.aggregates.group import EncryptedAggregate
from cleave.ckks.cipher import Cipher
from cleave.ckks.columns import Columns
from cleave.ckks.encode import encode
from cleave.ckks.job import Job
from cleave.ckks.packing import plan_packing
from cleave.ckks.secret_key import SecretKey
from cleave.ckks.simple import Question
from cleave_services.plain import simple as plain_simple
from cleave_services.sensitive import simple as sensitive_simple
from cleave_shared import requests, wire
from cleave_shared.errors import CheckFailed, WireError
from cleave_shared.requests import PlainRequest, PlainResponse, SumsResponse
from tests.fuzz.mutate import Message

RIGHT, WRONG = "right", "WRONG"
Judge = Callable[[Message, "Answer"], str]


@dataclass(frozen=True)
class Answer:
    status: int
    kind: str
    body: bytes


def seeds(key: SecretKey, data: int = 1) -> list[Message]:
    """Valid requests to every route in both forms of body, judged; `data` seeds what the jobs encrypt."""
    ages: dict[str, list[Any]] = {"age": [61, 47, None, 80, 19], "bill": [12.5, -3.25, 0.0, 1e6, 0.125]}
    questions: list[tuple[Question, dict[str, Any]]] = [
        (Question(ages, "mean"), {"age": Fraction(207, 4), "bill": sum(map(Fraction, ages["bill"])) / 5}),
        (Question({"age": [61, 47, 33]}, "sum"), {"age": Fraction(141)}),
    ]
    sick = {"data": {"ward": ["A", "A", "B", None], "age": [61, 47, 80, None]}, "operation": "mean", "group_by": "ward"}
    whole = {"data": {"n": [3, 2**60, -5], "x": [0.5, None, 2.25]}, "operation": "sum"}
    truths = [(AGGREGATE, plain_request(6), _aggregated)]
    unread = PlainRequest(rows=[7], aggregates=["count(*)"])
    found = []
    for path, request, judge in [*_jobs(key, data), *truths, (AGGREGATE, unread, _aggregated)]:
        found.append(Message("POST", path, {"content-type": wire.FRAMES_TYPE}, wire.dump_frames(request), judge=judge))
        found.append(Message("POST", path, {"content-type": wire.JSON_TYPE}, wire.dump_json(request), judge=judge))
    told = [(OPERATE_ENCRYPTED, each.body(), _decrypted(each, truth)) for each, truth in questions]
    told += [(OPERATE, body, _operated) for body in (sick, whole)]
    for path, body, judge in told:
        found.append(Message("POST", path, {"content-type": wire.JSON_TYPE}, json.dumps(body).encode(), judge=judge))
    return found


def judged(message: Message, answer: Answer) -> str:
    """`RIGHT`, by what the client refuses it, or `WRONG` and how; for an answer of 200 to a POST."""
    return message.judge(message, answer) if message.judge else RIGHT


# --- the sensitive half ----------------------------------------------------------------------------------------------


def _jobs(key: SecretKey, data: int) -> list[tuple[str, requests.SumsRequest, Judge]]:
    """One chunk, and several in two blocks."""
    return [_job(key, [3, 2, 1], data), _job(key, [9000, 5, *[1] * 3000], data)]


def _job(key: SecretKey, counts: Sequence[int], data: int) -> tuple[str, requests.SumsRequest, Judge]:
    r, rows = np.random.default_rng(data), sum(counts)
    ages, bills, weights = r.integers(0, 120, rows), r.integers(-(10**6), 10**6, rows), r.normal(70, 20, rows)
    known = r.random(rows) < 0.9
    domains = [Domain(0, 0, 127, nullable=False), Domain(2, -(10**6), 10**6), Domain(None, nullable=False)]
    columns = Columns(
        domains, [EncryptedAggregate(AGGREGATES[name], (at,)) for at, name in enumerate(("AVG", "SUM", "SUM"))]
    )
    packing = plan_packing(columns.types, counts, key.profile)
    values = [Values(ages, None), Values(bills, known), Values(weights, None)]
    job = Job(packing, encode(packing, columns.encode(["age", "bill", "weight"], values)), Cipher(key))
    (part,) = packing.ranges(1)
    request = job.request(part, key.key_id, list(job.encrypt(part)))
    truth = []
    for start, stop in zip(np.cumsum([0, *counts[:-1]]), np.cumsum(counts), strict=True):
        of = slice(start, stop)
        billed = int(bills[of][known[of]].sum())
        truth.append(
            [
                Fraction(int(ages[of].sum()), int(stop - start)),
                Fraction(billed, 100) if known[of].any() else None,
                sum(map(Fraction, weights[of].tolist())),
            ]
        )

    def judge(message: Message, answer: Answer) -> str:
        try:
            response = wire.load(SumsResponse, answer.body, answer.kind)
        except WireError:
            return f"{WRONG}: an answer that is none"
        fresh = job.unanswered()
        try:
            fresh.accept(part, request, response)
        except CheckFailed as failed:
            return f"refused by check: {failed.check}"
        for group, rows in enumerate(counts):
            for figure, true in zip(columns.figures(fresh.totals.estimates(group), rows), truth[group], strict=True):
                if not _holds(figure, true):
                    return f"{WRONG}: a figure of group {group}"
        return RIGHT

    return MOMENTS, request, judge


def _holds(figure: Figure, true: Fraction | None) -> bool:
    if figure.value is None or true is None:
        return figure.value is None and true is None
    if figure.exact:
        return Fraction(figure.value) == (Fraction(float(true)) if isinstance(figure.value, float) else true)
    return abs(Fraction(figure.value) - true) <= Fraction(figure.bound)


def _decrypted(question: Question, truth: Mapping[str, Any]) -> Judge:
    """`truth`: each column's figure, by group number where there are groups."""

    def judge(message: Message, answer: Answer) -> str:
        content = json.loads(
            wire.dump_json(wire.load(sensitive_simple.SimpleSensitiveResponse, answer.body, answer.kind))
        )
        try:
            figures = question.decrypt(content)
        except CheckFailed as failed:
            return f"refused by check: {failed.check}"
        for name, true in truth.items():
            for group, each in true.items() if isinstance(true, dict) else [(None, true)]:
                if not _holds(figures[name] if group is None else figures[name][group], each):
                    return f"{WRONG}: a figure of {name}"
        return RIGHT

    return judge


# --- the plain half --------------------------------------------------------------------------------------------------


def _aggregated(message: Message, answer: Answer) -> str:
    """Of DuckDB alone: the groups, their sizes and their aggregates, as text, in whatever order."""
    asked = wire.load(PlainRequest, message.body, message.kind)
    told = wire.load(PlainResponse, answer.body, answer.kind)
    head, _ = wire.parse(message.body, message.kind)
    label = asked.label if "label" in head else told.label  # the service draws one that is missing
    if (told.rows, told.label) != (sum(asked.rows), label):
        return f"{WRONG}: another envelope"
    keys = [f", ({sql}\n) AS zz_k{i}" for i, sql in enumerate(asked.keys)]
    named = [f"zz_k{i}" for i in range(len(keys))]
    texts = ["CAST(count(*) AS VARCHAR)", *(f"CAST({each} AS VARCHAR)" for each in named)]
    texts += [f"CAST(({sql}\n) AS VARCHAR)" for sql in asked.aggregates]
    where = f"WHERE ({asked.where}\n)" if asked.where is not None else ""
    with tempfile.NamedTemporaryFile() as file, duckdb.connect(config={"threads": 1}) as connection:
        source = f"(SELECT true AS zz FROM range({sum(asked.rows)}))"
        for table in asked.objects:
            file.write(bytes(table))
            file.flush()
            source = f"read_parquet('{file.name}')"
        try:
            # of a damaged file DuckDB reads other values, or none, where it reads and groups at once
            connection.execute(f"CREATE TABLE zz_rows AS FROM {source}")
            expected = connection.execute(
                f"SELECT {', '.join(texts)} FROM (SELECT *{''.join(keys)} FROM zz_rows {where}) "
                + (f"GROUP BY {', '.join(named)}" if named else "")
            ).fetchall()
        except duckdb.Error as error:
            return f"{WRONG}: DuckDB alone refuses it ({type(error).__name__})"
    columns = [list(map(str, told.counts)), *(each.values for each in (*told.keys, *told.aggregates))]
    found = list(zip(*columns, strict=True))
    return RIGHT if Counter(found) == Counter(expected) else f"{WRONG}: other groups than DuckDB alone finds"


def _operated(message: Message, answer: Answer) -> str:
    """Of Python: exact integers, floats within the rounding of a sum."""
    asked = wire.load(plain_simple.SimplePlainRequest, message.body, message.kind)
    told = wire.load(plain_simple.SimplePlainResponse, answer.body, answer.kind)
    rows = len(next(iter(asked.data.values())))
    if (told.rows, told.operation) != (rows, asked.operation):
        return f"{WRONG}: another envelope"
    places: dict[tuple[Any, ...], list[int]] = {} if asked.keys else {(): list(range(rows))}
    for row in range(rows) if asked.keys else ():
        places.setdefault(tuple(asked.data[name][row] for name in asked.keys), []).append(row)
    if set(told.result) != set(asked.operands):
        return f"{WRONG}: other columns"
    found: dict[tuple[Any, ...], int] = {(): 0}
    if asked.keys:
        if told.groups is None:
            return f"{WRONG}: no groups"
        keys = [[_key(value, asked.data[name]) for value in told.groups[name]] for name in asked.keys]
        found = {each: at for at, each in enumerate(zip(*keys, strict=True))}
    if found.keys() != places.keys():
        return f"{WRONG}: other groups"
    for name in asked.operands:
        column = told.result[name]
        for group, at in found.items():
            values = [value for row in places[group] if (value := asked.data[name][row]) is not None]
            if not _close(column[at] if isinstance(column, list) else column, asked.operation, values):
                return f"{WRONG}: {asked.operation} of a column"
    return RIGHT


def _key(value: Any, column: Sequence[Any]) -> Any:
    """An integer of more than 53 bits comes as text."""
    whole = any(isinstance(each, int) and not isinstance(each, bool) for each in column)
    return int(value) if whole and isinstance(value, str) else value


def _close(found: Any, operation: str, values: list[Any]) -> bool:
    if operation == "count":
        return bool(found == len(values))
    if len(values) < (2 if operation in ("var", "stddev") else 1):
        return found is None
    exact = [Fraction(value) for value in values]
    size = max(map(abs, exact))
    if operation == "sum":
        true, scale = sum(exact), size * len(exact)
    elif operation == "mean":
        true, scale = sum(exact) / len(exact), size
    elif operation == "product":
        true = math.prod(exact)
        scale = abs(true)
    else:
        true, scale = statistics.variance(exact), size * size
        if operation == "stddev":
            true, scale = _root(true), size
    if found is None or (isinstance(found, str) and not found.lstrip("-").isdigit()):  # inf and nan are text
        return found is not None and scale * size > Fraction(10) ** 300
    whole = operation == "sum" and all(isinstance(value, int) for value in values)
    return Fraction(found) == true if whole else abs(Fraction(found) - true) <= scale * Fraction(1, 10**9)


def _root(square: Fraction) -> Fraction:
    return Fraction(math.isqrt(int(square * 10**60)), 10**30)

"""Stored tables asked of the services, and a sensitive service that adds up otherwise than it was asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.local.embedded import embedded_services
from cleave.objects.locate import Folder
from cleave.objects.s3 import Bucket
from cleave.objects.storage import Storage
from cleave.store.measures import columns_of
from cleave.store.segment import lane_checks
from cleave.sums import remote as remoting
from cleave.sums import totals as of_totals
from cleave.sums.remote import Remote
from cleave.sums.stored import Stored
from cleave.table.lazy import of_files
from cleave.transport.base import Service, Transport
from cleave_shared.errors import CheckFailed, ServiceError
from cleave_shared.requests import SumsRequest, SumsResponse
from cleave_shared.seal import ring, save
from cleave_shared.wire import Envelope
from tests.campaign import sampled
from tests.store.asking import ask
from tests.store.conftest import BUCKET, aws_session
from tests.store.made import filled
from tests.store.test_stored import QUESTIONS
from tests.store.trial import SCHEMA, World, check, copied, samples, truth


class Segments(World):
    """The samples in segments: of which the first has fewer cells than the others."""

    def fill(self) -> None:
        whole = samples()
        for number, where in enumerate(("ward = 'Surgery'", "ward <> 'Surgery'", "true")):
            path = self.root / "piece.csv"
            content = whole.connection.execute(f"FROM {whole.relation} WHERE {where}").df().to_csv(index=False)
            path.write_text(content, "utf-8")
            self.write(of_files([path], SCHEMA, "trial"), "ward", "admitted", append=number > 0)

    def with_service(self, transport: Transport) -> Stored:
        made = self.stored()
        folder = self.tables.folder("trial")
        made.remote = Remote(transport.begin, transport.stop, self.stores, folder, made.manifest)
        return made


@pytest.fixture(scope="module", params=["folder", pytest.param("s3", marks=pytest.mark.slow)])
def table(
    request: pytest.FixtureRequest, key: OwnerKey, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Segments]:
    """Made once: nothing here changes it."""
    folder = tmp_path_factory.mktemp("stored")
    if request.param == "folder":
        storage: Storage = Folder(folder / "store")
    else:
        storage = Bucket(aws_session(), BUCKET, "remote tests", request.getfixturevalue("s3_endpoint"))
    copied(filled(("remote", key.key_id), lambda it: Segments(Folder(it / "store"), key, it).fill()) / "store", storage)
    made = Segments(storage, key, folder)
    made.tables.open("trial")  # so that it is remembered
    yield made
    storage.close()


@pytest.fixture
def embedded(table: Segments) -> Iterator[Transport]:
    transport = embedded_services([table.stores.sensitive.base])
    yield transport
    transport.close()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sql", QUESTIONS)
def test_totals_that_the_service_added_up_are_those_of_all_segments(
    table: Segments, embedded: Transport, sql: str
) -> None:
    stored = table.with_service(embedded)
    answer = ask(stored, sql)
    doubled = "trial" if "trial" not in sql else "(FROM trial UNION ALL FROM trial) AS trial"
    check(answer.result.rows, answer.result.bounds, truth(sql.replace("FROM trial", f"FROM {doubled}", 1)))
    if stored.remote and stored.remote.sums_asked:
        assert answer.usage.sensitive_requests == 1
        assert answer.usage.bytes_sent > 0


def test_nothing_is_left_in_the_store_and_all_is_in_one_request(table: Segments, embedded: Transport) -> None:
    before = sorted(table.stores.sensitive.names(""))
    stored = table.with_service(embedded)
    ask(stored, QUESTIONS[0])
    assert stored.remote is not None
    assert stored.remote.transport is not None
    assert (stored.remote.sums_asked, stored.remote.transport.requests) == (1, 1)
    assert sorted(table.stores.sensitive.names("")) == before


def test_what_is_too_large_for_an_answer_comes_through_the_store(
    table: Segments, embedded: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cleave_shared.limits.MAX_BODY_BYTES", 100_000)
    monkeypatch.setattr(remoting, "DIRECT_SUMS", 0)
    stored = table.with_service(embedded)
    seen: list[str] = []
    read = table.stores.sensitive.read

    def spy(name: str, start: int = 0, stop: int | None = None, *most: int) -> bytes:
        seen.append(name)
        return read(name, start, stop, *most)

    monkeypatch.setattr(table.stores.sensitive, "read", spy)
    answer = ask(stored, "SELECT COUNT(*), SUM(bill), SUM(age), VAR_POP(bill) FROM trial").result
    ((count, bill, age, variance),) = truth("SELECT COUNT(*), SUM(bill), SUM(age), VAR_POP(bill) FROM trial")
    assert [str(each) for each in answer.rows[0][:3]] == [str(2 * each) for each in (count, bill, age)]  # type: ignore[operator]
    assert answer.rows[0][3] == pytest.approx(variance)
    assert [name for name in seen if name.startswith("results/")]
    assert [name for name in table.stores.sensitive.names("") if name.startswith("results/")] == []


def test_runs_of_segments_and_ranges_of_chunks_come_to_the_same(
    table: Segments, embedded: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [(column.measure, column.part) for column in columns_of(table.with_service(embedded).manifest.measures)]
    direct = Stored(table.tables, table.tables.open("trial")).totals(parts)
    for most in (1, 2, 64):
        monkeypatch.setattr("cleave_shared.limits.MAX_LANE_OBJECTS", most)
        found = table.with_service(embedded).totals(parts)
        for part in parts:
            assert (found[part] == direct[part]).all()


# --- a service that does otherwise

Alter = Callable[[Any], Any]


class Faulty:
    """The embedded services behind one that changes requests to, or answers of, the sensitive half."""

    def __init__(self, inside: Transport, request: Alter | None, answer: Alter | None) -> None:
        self._inside = inside
        self._request = request
        self._answer = answer

    def begin(self, deadline: Any = None) -> Faulty:
        return Faulty(self._inside.begin(deadline), self._request, self._answer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inside, name)

    def ask(self, service: Service, path: str, request: Envelope, model: Any) -> Any:
        if isinstance(request, SumsRequest) and self._request:
            request = self._request(request)
        found, mark = self._inside.ask(service, path, request, model)
        if isinstance(found, SumsResponse) and self._answer:
            found = replace(found, totals=self._answer(found.totals))
        return found, mark


def lanes(change: Callable[[list[Any]], list[Any]]) -> Alter:
    """Changes the objects of the first lane."""

    def alter(request: SumsRequest) -> SumsRequest:
        first, *others = request.lanes
        first = replace(first, objects=change(list(first.objects)))
        return replace(request, lanes=[first, *others])

    return alter


def plus(offsets: dict[int, int]) -> Alter:
    """Adds a public polynomial to the first sum, as anybody can to a ciphertext."""

    def alter(totals: list[list[bytes]]) -> list[list[bytes]]:
        of = ring("sum60-pack")
        polynomial = np.zeros(of.degree, np.int64)
        for place, offset in offsets.items():
            polynomial[place] = offset
        ciphertext = of.ciphertext(totals[0][0])
        of.evaluator.add_plain_inplace(ciphertext, of.plaintexts([polynomial])[0])
        return [[save(ciphertext), *totals[0][1:]], *totals[1:]]

    return alter


UNIT = 1 << 22  # a multiple of every guard here
FAULTS: dict[str, tuple[Alter | None, Alter | None]] = {
    "a segment left out": (lanes(lambda each: each[:-1]), None),
    "a segment twice": (lanes(lambda each: [*each[1:], each[-1]]), None),
    "a segment more": (lanes(lambda each: [*each, each[-1]]), None),
    "only one": (lanes(lambda each: each[:1]), None),
    "an offset": (None, plus({0: UNIT})),
    "an offset moved": (None, plus({0: UNIT, 1: -UNIT})),
    "an offset far away moved": (None, plus({2: 5 * UNIT, 3: -5 * UNIT})),
    "sentinels changed": (None, plus({8191: UNIT})),
    "half a unit": (None, plus({1: 1 << 8})),
    "two lanes swapped": (None, lambda totals: [totals[1], totals[0], *totals[2:]]),
    "a lane twice": (None, lambda totals: [totals[1], totals[1], *totals[2:]]),
    "no ciphertext": (None, lambda totals: [[b"x" * 1000], *totals[1:]]),
    "nothing": (None, lambda totals: totals[1:]),
    "one more": (None, lambda totals: [*totals, totals[0]]),
    "an empty lane": (None, lambda totals: [[], *totals[1:]]),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_service_that_adds_up_otherwise_is_found_out(table: Segments, embedded: Transport, fault: str) -> None:
    stored = table.with_service(Faulty(embedded, *FAULTS[fault]))
    with pytest.raises(CheckFailed):
        ask(stored, QUESTIONS[0])


@pytest.mark.parametrize("step", sampled(22, 5, 1))
def test_no_moved_offset_passes_whatever_its_size(table: Segments, embedded: Transport, step: int) -> None:
    exact = ask(table.with_service(embedded), QUESTIONS[0]).result.rows
    for unit in (1 << bits for bits in range(4, 50, step)):
        stored = table.with_service(Faulty(embedded, None, plus({0: unit, 1: -unit})))
        try:
            found = ask(stored, QUESTIONS[0]).result.rows
        except CheckFailed:
            continue
        assert found == exact, "within the noise, and rounded away"


def test_weights_find_what_sums_do_not(table: Segments, embedded: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two checks are two: without weights a moved offset passes."""
    every = "SELECT ward, admitted, SUM(age), SUM(bill), AVG(weight) FROM trial GROUP BY ALL ORDER BY ALL"
    honest = ask(table.with_service(embedded), every).result.rows
    checks = lane_checks
    monkeypatch.setattr(of_totals, "lane_checks", lambda *of: (checks(*of)[0], 0))
    stored = table.with_service(Faulty(embedded, *FAULTS["an offset moved"]))
    for segment in stored.manifest.segments:
        for totals in segment.totals:
            object.__setattr__(totals, "weighted", (0,) * len(totals.weighted))
    assert ask(stored, every).result.rows != honest


def test_a_service_that_may_not_read_the_store_is_told(table: Segments) -> None:
    transport = embedded_services([])
    with pytest.raises(ServiceError, match="leads to no store of this service"):
        ask(table.with_service(transport), QUESTIONS[0])
    transport.close()

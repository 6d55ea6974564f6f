"""Requests to the services about stored objects. Services get links to the objects that a question reads, and no
others.

An answer too large for Lambda goes through the store: a link lets the service write one new object under results/. The
client reads it, compares it with the service's description, and deletes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from cleave.objects.locate import Stores
from cleave.objects.storage import NotStoredError, Storage, StoreError
from cleave.sql.plan import QueryPlan
from cleave.store.manifest import Manifest, Object, Segment, new_id
from cleave.transport.base import Service, Transport
from cleave_shared import limits, wire
from cleave_shared.errors import DISTRUST, CheckFailed, WireError
from cleave_shared.requests import (
    Lane,
    Linked,
    PlainRequest,
    PlainResponse,
    ScanRequest,
    ScanResponse,
    StoredAnswer,
    SumsRequest,
    SumsResponse,
)
from cleave_shared.wire import Envelope

LINK_SECONDS = 900  # enough for a request, its repetitions and clock differences
# ciphertexts in an answer that Lambda can return
DIRECT_SUMS = (limits.MAX_BODY_BYTES - limits.HEAD_BYTES) // limits.RESULT_BYTES
_LINKS_BYTES = 3_000_000  # of links in one request
_LINK_EXTRA = 200  # characters of an object besides its link

_Answer = TypeVar("_Answer", SumsResponse, PlainResponse)
_Model = TypeVar("_Model", bound=Envelope)
_Request = PlainRequest | SumsRequest


@dataclass(frozen=True, slots=True)
class RemoteSum:
    """A sum to compute: ciphertexts `start`..`stop` of each of `objects`, added up by position."""

    objects: tuple[Object, ...]
    start: int
    stop: int


def divided(objects: Sequence[Object], most: int = limits.MAX_LANE_OBJECTS) -> list[tuple[Object, ...]]:
    """Split `objects` into runs that fit one sum or one request: at most `most` objects.

    Raises StoreError for an object too large for a service.
    """
    runs: list[list[Object]] = []
    size = 0
    for stored in objects:
        if stored.bytes > limits.MAX_LINKED_BYTES:
            raise StoreError("an object of the table is larger than a service reads", hint="put it by fewer columns")
        if not runs or len(runs[-1]) == most or size + stored.bytes > limits.MAX_LINKED_BYTES:
            runs.append([])
            size = 0
        runs[-1].append(stored)
        size += stored.bytes
    return [tuple(run) for run in runs]


class Remote:
    """The services, for one query over one table. If one request fails, all end."""

    def __init__(
        self,
        connect: Callable[[], Transport],
        stop: Callable[[], None],
        stores: Stores,
        folder: str,
        manifest: Manifest,
    ) -> None:
        """`connect` opens the transport at the first request. `stop` ends every wait for it.

        `folder`: where the table's objects are stored, tables/SET.
        """
        self.stop = stop
        self.transport: Transport | None = None  # None before the first request
        self.sums_asked = 0  # scans included
        self._connect = connect
        self._lock = threading.Lock()
        self._stores = stores
        self._set = folder.removeprefix("tables/")
        self._manifest = manifest

    def sums(self, wanted: Sequence[RemoteSum]) -> list[list[bytes]]:
        """The ciphertexts of each sum, (stop - start) of them. Split objects with `divided` first.

        Raises ServiceError, StoreError; CheckFailed for an answer of a different shape.
        """
        requests = list(_packed(wanted))
        self.sums_asked += len(requests)
        with ThreadPoolExecutor(limits.REQUESTS_UNDER_WAY, "sums") as pool:
            return [lane for lanes in pool.map(self._sums, requests) for lane in lanes]

    def aggregate(self, plan: QueryPlan) -> list[PlainResponse]:
        """The plain service's aggregates over all rows. Raises ServiceError, StoreError, CheckFailed."""
        request = PlainRequest(
            **rows_of(self, self._manifest.segments, plan.plain_columns),
            where=plan.where,
            keys=list(plan.keys),
            aggregates=[part for aggregate in plan.plain for part in aggregate.parts],
        )
        answer = self.grouped(request)
        counted = sum(answer.counts)
        if (
            answer.rows != self._manifest.rows
            or counted > answer.rows
            or (plan.where is None and counted != answer.rows)
        ):
            raise CheckFailed("plain groups", "the plain service's groups have another number of rows than the table")
        return [answer]

    def grouped(self, request: PlainRequest) -> PlainResponse:
        """The plain service's answer, also if it comes through the store. Raises ServiceError, StoreError,
        CheckFailed.
        """
        answer = self._ask(Service.PLAIN, "aggregate", request, PlainResponse)
        if answer.label != request.label:
            raise CheckFailed("plain groups", "the plain service's answer is to another request")
        return answer

    def scan(self, request: ScanRequest) -> ScanResponse:
        """Sums of rows. Raises ServiceError; CheckFailed for the answer to another request."""
        with self._lock:
            self.sums_asked += 1
        path = f"/v1/sensitive/tables/{self._set}/scan"
        reply, _ = self._connected().ask(Service.SENSITIVE, path, request, ScanResponse)
        if (reply.profile, reply.key_id, reply.label) != (request.profile, request.key_id, request.label):
            raise CheckFailed("envelope", "the sensitive service's answer is to another request", hint=DISTRUST)
        return reply

    def linked(self, which: Object, *, plain: bool = False, seconds: int = LINK_SECONDS) -> Linked:
        store = self._stores.plain if plain else self._stores.sensitive
        return Linked(link=store.link(which.name, seconds), bytes=which.bytes, sha256=which.sha256)

    def _sums(self, wanted: Sequence[RemoteSum]) -> list[list[bytes]]:
        lanes = [
            Lane(objects=[self.linked(which) for which in each.objects], start=each.start, stop=each.stop)
            for each in wanted
        ]
        request = SumsRequest(profile=self._manifest.profile, key_id=self._manifest.table_id, lanes=lanes)
        shape = [each.stop - each.start for each in wanted]
        reply = self._ask(Service.SENSITIVE, "sums", request, SumsResponse, large=sum(shape) > DIRECT_SUMS)
        named = (reply.profile, reply.key_id, reply.label) == (request.profile, request.key_id, request.label)
        if not named or [*map(len, reply.totals)] != shape:
            raise CheckFailed("stored", "the sensitive service's answer is to another request", hint=DISTRUST)
        return reply.totals

    def _connected(self) -> Transport:
        with self._lock:
            if self.transport is None:
                self.transport = self._connect()
            return self.transport

    def _ask(
        self, service: Service, what: str, request: _Request, model: type[_Answer], *, large: bool = True
    ) -> _Answer:
        """Send a request and return its answer. With `large` the answer may come through the store.

        Raises CheckFailed if the stored answer differs from the service's description.
        """
        store = self._stores.plain if service is Service.PLAIN else self._stores.sensitive
        name = f"results/{self._set}/{new_id()}"
        link = store.put_link(name, LINK_SECONDS) if large else None
        there = large  # the answer's object may exist until the service says otherwise
        try:
            request = replace(request, result=link)
            path = f"/v1/{'plain' if service is Service.PLAIN else 'sensitive'}/tables/{self._set}/{what}"
            reply, mark = self._connected().ask(service, path, request, model)
            if reply.stored is None:
                there = False
                return reply
            answer = read_kept(store, name, reply.stored, model, mark) if large else None
            if answer is None or answer.stored is not None:
                wrong = "an answer in the store is not what the service said it put there"
                raise CheckFailed("stored", wrong, hint=DISTRUST)
            return answer
        finally:
            if there:
                with contextlib.suppress(StoreError):  # the bucket's lifecycle rule deletes it later
                    store.delete([name])


def rows_of(remote: Remote, segments: Sequence[Segment], columns: Sequence[str]) -> dict[str, Any]:
    """The fields of a PlainRequest for the rows of `segments` and links to their `columns`. Raises CheckFailed,
    StoreError.
    """
    objects = [each.plain for each in segments if each.plain is not None] if columns else []
    if columns and len(objects) != len(segments):
        raise CheckFailed("stored", "a segment has no plain half, though the table has plain columns")
    linked = [remote.linked(each, plain=True) for each in objects]
    return {"objects": linked, "rows": [each.rows for each in segments], "columns": list(columns)}


def read_kept(store: Storage, name: str, claim: StoredAnswer, model: type[_Model], mark: bytes) -> _Model | None:
    """Read an answer that a service claims to have stored. None if it is not the answer to the question of
    that mark.
    """
    if claim.bytes > limits.MAX_RESULT_BYTES:
        return None
    try:
        content = store.read(name, 0, claim.bytes + 1)
        if len(content) != claim.bytes or hashlib.sha256(content).hexdigest() != claim.sha256:
            return None
        answer = wire.load(model, content, wire.FRAMES_TYPE)
    except (NotStoredError, WireError):
        return None
    return answer if wire.answers(content, wire.FRAMES_TYPE) == mark else None


def _packed(wanted: Sequence[RemoteSum]) -> Iterator[list[RemoteSum]]:
    """Pack sums into requests: small ones together as far as their answer fits, large ones alone."""
    request: list[RemoteSum] = []
    sums = size = links = 0
    for wanted_sum in wanted:
        length = wanted_sum.stop - wanted_sum.start
        more = sum(which.bytes for which in wanted_sum.objects)
        chars = len(wanted_sum.objects) * (limits.MAX_LINK_CHARS // 2 + _LINK_EXTRA)
        full = (
            sums + length > DIRECT_SUMS
            or size + more > limits.MAX_LINKED_BYTES
            or links + chars > _LINKS_BYTES
            or len(request) == limits.MAX_LANES
        )
        if request and full:
            yield request
            request, sums, size, links = [], 0, 0, 0
        request.append(wanted_sum)
        sums, size, links = sums + length, size + more, links + chars
    if request:
        yield request

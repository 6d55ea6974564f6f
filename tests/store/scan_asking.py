"""Questions answered by scans, as tests of a store put them, to services in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from cleave.ask.choice import WAYS
from cleave.ask.plan import AnswerPlan
from cleave.ask.question import DEFAULTS, Answer, Options
from cleave.ask.ways.choosing import ways_of
from cleave.ask.ways.scan import ScanWay
from cleave.objects.locate import Stores
from cleave.sql.plan import QueryPlan
from cleave.sql.planner import plan_query
from cleave.store.manifest import Object
from cleave.sums.needs import CutSums, SummedRows
from cleave.sums.stored import Stored
from cleave_services.links import Links, TableLinks
from cleave_services.plain.calls import aggregate
from cleave_services.sensitive.scan import answer_scan
from cleave_shared import limits, wire
from cleave_shared.errors import QueryRefused
from cleave_shared.requests import Linked, PlainRequest, PlainResponse, ScanRequest, ScanResponse
from tests.store import asking

Asked = TypeVar("Asked", PlainRequest, ScanRequest)
Harm = Callable[[str, Any, Any], Any]  # of an endpoint's name, its request and its answer, the answer


class Services:
    """Both, over the wire's own forms. `asked`: the names of endpoints, in order."""

    transport = None
    sums_asked = 0

    def __init__(self, stores: Stores, harm: Harm = lambda _name, _request, reply: reply) -> None:
        self._stores = stores
        self._harm = harm
        self.asked: list[str] = []
        self.bytes_sent = self.bytes_received = 0

    def linked(self, which: Object, *, plain: bool = False, seconds: int = 900) -> Linked:
        store = self._stores.plain if plain else self._stores.sensitive
        return Linked(link=store.link(which.name, seconds), bytes=which.bytes, sha256=which.sha256)

    def grouped(self, request: PlainRequest) -> PlainResponse:
        asked = self._sent("select", request)
        reply = aggregate(asked, _forget, self._of(asked.objects[0]) if asked.objects else None)
        return self._received("select", asked, reply)

    def scan(self, request: ScanRequest) -> ScanResponse:
        asked = self._sent("scan", request)
        reply = answer_scan(asked, _forget, self._of(asked.lanes[0][0]))
        return self._received("scan", asked, reply)

    def _sent(self, name: str, request: Asked) -> Asked:
        self.asked.append(name)
        sent = wire.dump_frames(request)
        assert len(sent) < limits.MAX_BODY_BYTES
        self.bytes_sent += len(sent)
        return wire.load(type(request), sent, wire.FRAMES_TYPE)

    def _received(self, name: str, request: Any, reply: Any) -> Any:
        content = wire.dump_frames(self._harm(name, request, reply))
        assert len(content) < limits.MAX_BODY_BYTES
        self.bytes_received += len(content)
        return wire.load(type(reply), content, wire.FRAMES_TYPE)

    def _of(self, linked: object) -> TableLinks:
        assert isinstance(linked, Linked)
        before, _, rest = linked.link.partition("/tables/")
        base = before if before.startswith("file:") else "/".join(before.split("/")[:4])
        return Links([base + "/"]).below(rest.split("/")[0])


class Replayed(Services):
    """Answers as they were kept of another question, as `harm` leaves them: nothing is asked again."""

    def __init__(self, stores: Stores, kept: PlainResponse, harm: Harm) -> None:
        super().__init__(stores, harm)
        self._kept = kept

    def grouped(self, request: PlainRequest) -> PlainResponse:
        return self._received("select", self._sent("select", request), self._kept)

    def scan(self, request: ScanRequest) -> ScanResponse:
        asked = self._sent("scan", request)
        reply = ScanResponse(profile=asked.profile, key_id=asked.key_id, label=asked.label, totals=[])
        return self._received("scan", asked, reply)


def _forget(**_numbers: Any) -> None:
    pass


def scan_plan(stored: Stored, sql: str, table: str = "trial", *, cloud_only: bool = True) -> AnswerPlan:
    """Raises QueryRefused where a scan does not answer it and no row may be fetched, or it cannot be cut."""
    sums = SummedRows(stored.manifest, stored.schema)
    cut = plan_query(sql, stored.schema, table, cloud_only=cloud_only, sums=sums)
    if not isinstance(cut, QueryPlan):
        raise QueryRefused(cut.reason)
    return AnswerPlan(cut, ways_of(WAYS, cut, sums))


def scan_sums(stored: Stored, sql: str) -> CutSums:
    """Those that a scan makes."""
    return next(each.needs for each in scan_plan(stored, sql).ways if isinstance(each, ScanWay))


def ask_by_scan(
    stored: Stored, services: Services, sql: str, options: Options = DEFAULTS, *, cloud_only: bool = True
) -> Answer:
    return ask_plan(stored, services, scan_plan(stored, sql, cloud_only=cloud_only), options)


def ask_plan(stored: Stored, services: Services, plan: AnswerPlan, options: Options = DEFAULTS) -> Answer:
    stored.remote = services
    return asking.ask_plan(stored, plan, options)

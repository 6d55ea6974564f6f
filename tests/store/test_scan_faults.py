"""Scans whose parts fail, one at random each time: an answer is right, or there is none, and soon.

What travels is damaged, exchanged or lost; the service loses, doubles and exchanges chunks, spoils a mask, and its
workers die; objects are damaged where they rest; S3 fails in all its ways. `make campaign` does each many times.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config

from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.ask.stored import StoredSource
from cleave.ckks.owner_key import OwnerKey
from cleave.deadline import Deadline
from cleave.local.embedded import embedded_services
from cleave.objects import s3
from cleave.objects.locate import Bounded, Folder, Stores
from cleave.objects.storage import Storage
from cleave.store import put as putting
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.table.progress import Silent
from cleave.table.schema import load_schema
from cleave.table.stream import open_table
from cleave.transport.base import Service, Transport
from cleave.transport.responses import Response
from cleave_services.sensitive import scan, workers
from cleave_shared.errors import CheckFailed, CleaveError, ServiceError
from tests.campaign import FACTOR, FULL, sampled
from tests.conftest import no_passphrase
from tests.store.conftest import BUCKET, aws_session
from tests.store.faulty import DAMAGES, damage
from tests.store.proxy import KINDS, WAITS, Proxy

ROUNDS = 4 * FACTOR if FULL else 1  # of each kind; CLEAVE_CAMPAIGN
ROWS = 20_000  # three ciphertexts of a lane
SECONDS = 60.0  # that a question is given; where S3 keeps it waiting half a second, or what it needs to come to that
SCHEMA = """
[columns.day]
kind = "plain"
type = "INTEGER"
[columns.bill]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 99999
"""
SUM = "SELECT day % 3 AS third, COUNT(*), SUM(bill) FROM trial WHERE day < 300 GROUP BY third ORDER BY third"


class World:
    """A table of two segments, and what it answers."""

    def __init__(self, folder: Path, key: OwnerKey, key_file: Path, places: Callable[[str], Stores]) -> None:
        self.folder, self.key_file, self.places = folder, key_file, places
        bills = [row * 104_729 % 100_000 for row in range(ROWS)]
        days = [row * 7_919 % 365 for row in range(ROWS)]
        lines = "".join(f"{day},{bill}\n" for day, bill in zip(days, bills, strict=True))
        (folder / "trial.csv").write_text(f"day,bill\n{lines}")
        (folder / "trial.schema.toml").write_text(SCHEMA)
        taken = [
            [bill for day, bill in zip(days, bills, strict=True) if day < 300 and day % 3 == rest] for rest in range(3)
        ]
        self.truth = [[rest, 2 * len(each), 2 * sum(each)] for rest, each in enumerate(taken)]
        stores = places("")
        for append in (False, True):
            with open_table([folder / "trial.csv"], load_schema(folder / "trial.schema.toml")) as table:
                tables = Tables(stores, key, SeenVersions(folder / "tables.json"))
                if append:
                    putting.append(tables, table, "trial", Silent())
                else:
                    putting.put(tables, table, "trial", [], Silent(), scan=True)

    def ask(
        self, stores: Stores, carry: Callable[[Any], Any] = lambda carrier: carrier, seconds: float = SECONDS
    ) -> CleaveError | None:
        """How it failed, if it did; else the answer was right. `carry` stands between the client and the services."""

        def opened(bases: Sequence[str] = ()) -> Transport:
            return Transport(carry(embedded_services(bases)._carrier))  # type: ignore[attr-defined]

        found, failed = None, None
        try:
            with Session(
                StoredSource(
                    "trial",
                    stores,
                    Access(self.key_file, no_passphrase),
                    memory=SeenVersions(self.folder / "tables.json"),
                    embedded=opened,
                    seconds=seconds,
                )
            ) as session:
                plan = session.plan(SUM, cloud_only=True)
                assert plan.scanned
                found = session.ask(plan, seconds=seconds).result.rows
        except CleaveError as error:
            failed = error
        if failed is None:
            assert found == self.truth
            return None
        assert isinstance(failed, ServiceError | CheckFailed), failed
        assert not any(str(row[2]) in f"{failed.message}{failed.hint}" for row in self.truth)
        return failed


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, key: OwnerKey, key_file: Path) -> World:
    folder = tmp_path_factory.mktemp("scan-faults")
    return World(folder, key, key_file, lambda _: Stores(Folder(folder / "s"), Folder(folder / "p")))


class Harmful:
    """Calls the services, and harms one of the calls that scan, or its answer."""

    def __init__(self, carrier: Any, kind: str, rng: random.Random, kept: list[Response]) -> None:
        self._carrier, self._kind, self._rng = carrier, kind, rng
        self._kept = kept  # the answers of a question before
        self._left = rng.randrange(2)  # calls to let pass; there are two, one for each segment

    def exchange(self, service: Service, path: str, body: bytes, deadline: Deadline) -> Response:
        hit = path.endswith("/scan") and self._kind != "" and self._left == 0
        self._left -= path.endswith("/scan")
        if hit and self._kind.startswith("request"):
            body = self._harmed(body)
        if hit and self._kind == "no answer":
            return Response(504, "application/json", b"{}")
        reply: Response = self._carrier.exchange(service, path, body, deadline)
        if hit and self._kind.startswith("answer"):
            if self._kind.endswith("another's"):
                return self._rng.choice(self._kept)
            return Response(reply.status, reply.content_type, self._harmed(reply.body))
        if path.endswith("/scan") and not self._kind:
            self._kept.append(reply)
        return reply

    def close(self) -> None:
        self._carrier.close()

    def _harmed(self, content: bytes) -> bytes:
        place = self._rng.randrange(len(content))
        if self._kind.endswith("cut"):
            return content[:place]
        return content[:place] + bytes([content[place] ^ 1 << self._rng.randrange(8)]) + content[place + 1 :]


@pytest.fixture(scope="module")
def kept(world: World) -> list[Response]:
    """The services' answers to a question that nothing harms."""
    found: list[Response] = []
    assert world.ask(world.places(""), lambda carrier: Harmful(carrier, "", random.Random(0), found)) is None
    assert len(found) == 2
    return found


WIRE = ("request flipped", "request cut", "answer flipped", "answer cut", "answer another's", "no answer")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", WIRE)
def test_what_travels_is_damaged(world: World, kept: list[Response], kind: str) -> None:
    rng = random.Random(kind)
    for _ in range(ROUNDS):
        assert world.ask(world.places(""), lambda carrier: Harmful(carrier, kind, rng, kept)) is not None


def _chunks(kind: str, rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    real = scan.LaneObject.files

    def files(self: scan.LaneObject, lane: int) -> list[memoryview]:
        found = real(self, lane)
        one, other = rng.sample(range(len(found)), 2)
        if kind == "chunk doubled":
            found[one] = found[other]
        else:
            found[one], found[other] = found[other], found[one]
        return found

    monkeypatch.setattr(scan.LaneObject, "files", files)


def _masks(kind: str, rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    real = scan.MaskedSums._masks
    chunk = rng.randrange(3)

    def masks(self: scan.MaskedSums, of: scan.ScanChunk) -> tuple[list[int], list[Any]]:
        numbers, made = real(self, of)
        if of.number == chunk and kind == "worker dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if of.number == chunk and kind == "mask of another chunk":
            at = rng.randrange(1, len(made))
            shifted = scan.selected_mask(self._evaluator.degree, of.numbers[::-1] == at)
            assert shifted is not None
            (made[at],) = self._evaluator.masks([shifted])
        if of.number == chunk and kind == "chunk lost for a group":
            at = rng.randrange(1, len(made))
            del numbers[at], made[at]
        return numbers, made

    monkeypatch.setattr(scan.MaskedSums, "_masks", masks)


SERVICE: dict[str, Callable[[str, random.Random, pytest.MonkeyPatch], None]] = {
    "chunk doubled": _chunks,
    "chunks exchanged": _chunks,
    "chunk lost for a group": _masks,
    "mask of another chunk": _masks,
    "worker dies": _masks,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", SERVICE)
def test_the_service_does_otherwise(world: World, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(kind)
    for _ in range(ROUNDS):
        with monkeypatch.context() as patch:
            SERVICE[kind](kind, rng, patch)
            patch.setattr(workers, "prepare", lambda: None)  # children of this process, as a function's are
            patch.setattr(workers, "_crew", None)
            error = world.ask(world.places(""))
        assert isinstance(error, ServiceError if kind == "worker dies" else CheckFailed), error


@pytest.mark.parametrize("step", sampled(4, 2, 1))
def test_objects_are_damaged(world: World, step: int) -> None:
    rng, found = random.Random(6), 0
    stores = world.places("")
    every = [(store, name) for store in (stores.sensitive, stores.plain) for name in store.names("tables")]
    kinds = DAMAGES * -(-ROUNDS // len(DAMAGES)) if FULL else DAMAGES[::step]
    for kind in kinds:
        store, name = rng.choice(every)
        whole = store.read(name)
        damage(store, name, kind, rng, [other for at, other in every if at is store and other != name])
        try:
            found += world.ask(world.places("")) is not None
        finally:
            store.delete([name])
            store.write(name, whole)
    assert found > len(kinds) // 4 or ROUNDS == 1, "hardly any object was read"
    assert world.ask(world.places("")) is None


@pytest.fixture
def proxied(
    s3_endpoint: str, tmp_path: Path, key: OwnerKey, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[World, Proxy]]:
    """In S3, through a proxy where that is wanted. Nothing is tried twice, so that every fault comes through."""
    quick = Config(connect_timeout=5, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 1})
    monkeypatch.setattr(s3, "_CONFIG", s3._CONFIG.merge(quick))
    with Proxy(s3_endpoint) as proxy:

        def places(endpoint: str) -> Stores:
            made: list[Storage] = [  # bounded, as `open_stores` has them
                Bounded(s3.Bucket(aws_session(), BUCKET, f"{tmp_path.name}/{half}", endpoint or s3_endpoint))
                for half in "sp"
            ]
            return Stores(*made)

        yield World(tmp_path, key, key_file, places), proxy


@pytest.mark.slow
def test_a_failing_s3_is_survived_or_told(proxied: tuple[World, Proxy]) -> None:
    world, proxy = proxied
    rng, failed = random.Random(9), 0
    proxy.arm(None)
    assert world.ask(world.places(proxy.url)) is None
    requests = proxy.requests
    kinds = KINDS * max(1, FACTOR // 10) if FULL else KINDS[::3]
    for kind in kinds:
        at, lasting, seconds = rng.randrange(requests), rng.random() < 0.3, 0.5 if kind in WAITS else SECONDS
        proxy.arm(kind, at, lasting=lasting)
        error = world.ask(world.places(proxy.url), seconds=seconds)
        while error is not None and proxy.requests <= at and seconds < SECONDS:
            seconds *= 2
            proxy.arm(kind, at, lasting=lasting)
            error = world.ask(world.places(proxy.url), seconds=seconds)
        failed += error is not None
    assert failed > (len(kinds) // 4 if FULL else 0), "S3 hardly ever failed"
    proxy.arm(None)
    assert world.ask(world.places(proxy.url)) is None

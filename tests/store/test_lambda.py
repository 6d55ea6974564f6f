"""Both halves as Lambda runs them, over tables in S3: links are all that functions get; they have no credentials."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from aws.events import rest_event
from aws.runtime_api import Function
from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.ask.stored import StoredSource
from cleave.ckks.owner_key import OwnerKey
from cleave.objects.locate import Stores
from cleave.objects.s3 import Bucket
from cleave.processes.deadline import Deadline
from cleave.store import put as putting
from cleave.store.memory import Memory
from cleave.store.tables import Tables
from cleave.table.progress import Silent
from cleave.table.schema import load_schema
from cleave.table.stream import open_table
from cleave.transport.base import Service, Transport
from cleave.transport.responses import Response
from cleave_services.links import VARIABLE
from cleave_shared import wire
from cleave_shared.errors import ServiceError
from tests.conftest import no_passphrase
from tests.store.conftest import BUCKET, aws_session
from tests.store.test_services import SOURCES, Two, totals_come_first, twice
from tests.store.trial import check, truth

__all__ = ["totals_come_first"]

HANDLERS = {half: f"cleave_services.{half.name.lower()}.app.handler" for half in Service}


class Invoked:
    """A carrier: events to functions, one at a time as Lambda hands them."""

    def __init__(self, functions: dict[Service, Function]) -> None:
        self._functions = functions
        self.bodies: dict[Service, list[bytes]] = {each: [] for each in Service}

    def exchange(self, service: Service, path: str, body: bytes, deadline: Deadline) -> Response:
        self.bodies[service].append(body)
        reply = deadline.call(lambda: self._functions[service].invoke(rest_event(path, body, wire.FRAMES_TYPE)))
        content = base64.b64decode(reply["body"]) if reply["isBase64Encoded"] else reply["body"].encode()
        return Response(reply["statusCode"], reply["headers"]["content-type"], content)

    def close(self) -> None:
        pass


@pytest.fixture
def stores(s3_endpoint: str, request: pytest.FixtureRequest) -> Iterator[Stores]:
    prefix = request.node.name.replace("[", "-").replace("]", "")
    made = Stores(*(Bucket(aws_session(), BUCKET, f"{prefix}/{half}", s3_endpoint) for half in ("s", "p")))
    yield made
    made.close()


def test_a_table_in_s3_is_asked_through_functions_without_credentials(
    stores: Stores, key: OwnerKey, key_file: Path, tmp_path: Path
) -> None:
    Two(key, tmp_path, "ward", stores=stores)
    environment = {VARIABLE: stores.sensitive.base}
    with (
        Function(HANDLERS[Service.SENSITIVE], **environment) as sensitive,
        Function(HANDLERS[Service.PLAIN], **environment) as plain,
    ):
        functions = {Service.SENSITIVE: sensitive, Service.PLAIN: plain}
        assert not [name for function in functions.values() for name in function.environment if "ACCESS_KEY" in name]
        with Session(
            StoredSource(
                "trial",
                stores,
                Access(key_file, no_passphrase),
                memory=Memory(tmp_path / "tables.json"),
                embedded=lambda _=(): Transport(Invoked(functions)),
            )
        ) as session:
            for sql in SOURCES:
                answer = session.ask(session.plan(sql))
                check(answer.result.rows, answer.result.bounds, truth(twice(sql)))
        lines = [json.loads(line) for function in functions.values() for line in function.log()]
        assert {line["route"] for line in lines} == {
            "/v1/sensitive/tables/{set}/sums",
            "/v1/plain/tables/{set}/aggregate",
        }
        assert {line["status"] for line in lines} == {200}
        assert "Signature" not in json.dumps(lines)
        assert BUCKET not in json.dumps(lines)
    assert not [name for name in stores.plain.names("") if name.startswith("results")]


SCANNED = "SELECT canary_ward, COUNT(*), SUM(canary_bill) FROM trial WHERE canary_day < 20 GROUP BY ALL ORDER BY ALL"
CANARIES = """
[columns.canary_ward]
kind = "plain"
type = "VARCHAR"
[columns.canary_day]
kind = "plain"
type = "INTEGER"
[columns.canary_bill]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 987654399
"""


def test_a_scan_runs_in_functions_and_leaves_nothing_of_the_table(
    stores: Stores, key: OwnerKey, key_file: Path, tmp_path: Path
) -> None:
    """Neither a name nor a cell in a log, or in what the sensitive side is sent, or stored there."""
    (tmp_path / "trial.schema.toml").write_text(CANARIES)
    lines = [f"canary {'AB'[row % 2]},{row % 40},{987_654_300 + row % 90}" for row in range(400)]
    (tmp_path / "trial.csv").write_text("\n".join(["canary_ward,canary_day,canary_bill", *lines, ""]))
    tables = Tables(stores, key, Memory(tmp_path / "tables.json"))
    with open_table([tmp_path / "trial.csv"], load_schema(tmp_path / "trial.schema.toml")) as table:
        putting.put(tables, table, "trial", [], Silent(), scan=True)
        truth = table.connection.execute(SCANNED.replace("trial", table.relation)).fetchall()
    environment = {VARIABLE: stores.sensitive.base}
    with (
        Function(HANDLERS[Service.SENSITIVE], **environment) as sensitive,
        Function(HANDLERS[Service.PLAIN], **environment) as plain,
    ):
        carrier = Invoked({Service.SENSITIVE: sensitive, Service.PLAIN: plain})
        with Session(
            StoredSource(
                "trial",
                stores,
                Access(key_file, no_passphrase),
                memory=Memory(tmp_path / "tables.json"),
                embedded=lambda _=(): Transport(carrier),
            )
        ) as session:
            for _ in range(2):  # the second finds warm functions
                answer = session.ask(session.plan(SCANNED, cloud_only=True))
                assert [tuple(row) for row in answer.result.rows] == truth
        logs = json.dumps([function.log() for function in (sensitive, plain)])
    assert [json.loads(line)["route"] for line in sensitive.log()] == ["/v1/sensitive/tables/{set}/scan"] * 2
    assert [json.loads(line)["route"] for line in plain.log()] == ["/v1/plain/tables/{set}/aggregate"] * 2
    seen = [logs.encode(), *carrier.bodies[Service.SENSITIVE]]
    seen += [stores.sensitive.read(name) for name in stores.sensitive.names("")]
    sums = [str(row[2]).encode() for row in truth]
    for content in seen:
        for canary in (b"canary", b"9876543", *sums):
            assert canary not in content
    assert b"canary_ward" in b"".join(carrier.bodies[Service.PLAIN]), "the plain service is asked in clear"
    assert b"canary_bill" not in b"".join(carrier.bodies[Service.PLAIN])
    assert not [name for store in stores.apart() for name in store.names("") if name.startswith("results")]


def test_a_function_reads_no_other_bucket(stores: Stores, key: OwnerKey, key_file: Path, tmp_path: Path) -> None:
    Two(key, tmp_path, "ward", stores=stores)
    with Function(HANDLERS[Service.SENSITIVE], **{VARIABLE: "https://its-own.s3.eu-central-1.amazonaws.com/"}) as own:
        with (
            Session(
                StoredSource(
                    "trial",
                    stores,
                    Access(key_file, no_passphrase),
                    memory=Memory(tmp_path / "tables.json"),
                    embedded=lambda _=(): Transport(Invoked({Service.SENSITIVE: own})),
                )
            ) as session,
            pytest.raises(ServiceError, match="leads to no store of this service") as caught,
        ):
            session.ask(session.plan("SELECT SUM(bill) FROM trial"))
        assert "Signature" not in f"{caught.value.message}{caught.value.hint}"

"""Both halves as Lambda runs them, over tables in S3: links are all that functions get; they have no credentials."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from aws.events import rest_event
from aws.runtime_api import Function
from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.ask.stored import StoredSource
from cleave.ckks.owner_key import OwnerKey
from cleave.deadline import Deadline
from cleave.objects.locate import Stores
from cleave.objects.s3 import Bucket
from cleave.store import put as putting
from cleave.store.manifest import new_id
from cleave.store.seen_versions import SeenVersions
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


def stores_at(endpoint: str) -> Stores:
    place = new_id()
    return Stores(*(Bucket(aws_session(), BUCKET, f"{place}/{half}", endpoint) for half in ("s", "p")))


def session(stores: Stores, key_file: Path, memory: Path, carrier: Invoked) -> Session:
    access = Access(key_file, no_passphrase)
    transport = Transport(carrier)
    return Session(StoredSource("trial", stores, access, memory=SeenVersions(memory), embedded=lambda _=(): transport))


def test_tables_in_s3_are_asked_and_scanned_through_functions_without_credentials(
    s3_endpoint: str, key: OwnerKey, key_file: Path, tmp_path: Path
) -> None:
    """Of a scan neither a name nor a cell is in a log, or in what the sensitive side is sent, or stored there."""
    stores, scanned = stores_at(s3_endpoint), stores_at(s3_endpoint)
    Two(key, tmp_path, "ward", stores=stores)
    (tmp_path / "trial.schema.toml").write_text(CANARIES)
    rows = [f"canary {'AB'[row % 2]},{row % 40},{987_654_300 + row % 90}" for row in range(400)]
    (tmp_path / "trial.csv").write_text("\n".join(["canary_ward,canary_day,canary_bill", *rows, ""]))
    tables = Tables(scanned, key, SeenVersions(tmp_path / "scanned.json"))
    with open_table([tmp_path / "trial.csv"], load_schema(tmp_path / "trial.schema.toml")) as table:
        putting.put(tables, table, "trial", [], Silent(), scan=True)
        wanted = table.connection.execute(SCANNED.replace("trial", table.relation)).fetchall()
    environment = {VARIABLE: stores.sensitive.base}
    with (
        Function(HANDLERS[Service.SENSITIVE], **environment) as sensitive,
        Function(HANDLERS[Service.PLAIN], **environment) as plain,
    ):
        functions = {Service.SENSITIVE: sensitive, Service.PLAIN: plain}
        assert not [name for function in functions.values() for name in function.environment if "ACCESS_KEY" in name]
        asking, scanning = Invoked(functions), Invoked(functions)
        with session(stores, key_file, tmp_path / "tables.json", asking) as asked:
            for sql in SOURCES:
                answer = asked.ask(asked.plan(sql))
                check(answer.result.rows, answer.result.bounds, truth(twice(sql)))
        with session(scanned, key_file, tmp_path / "scanned.json", scanning) as asked:
            for _ in range(2):  # the second finds warm functions
                answer = asked.ask(asked.plan(SCANNED, cloud_only=True))
                assert [tuple(row) for row in answer.result.rows] == wanted
        lines = {half: [json.loads(line) for line in function.log()] for half, function in functions.items()}
    sums = len(asking.bodies[Service.SENSITIVE])
    routes = ["/v1/sensitive/tables/{set}/sums"] * sums + ["/v1/sensitive/tables/{set}/scan"] * 2
    assert sums > 0
    assert [line["route"] for line in lines[Service.SENSITIVE]] == routes
    assert {line["route"] for line in lines[Service.PLAIN]} == {"/v1/plain/tables/{set}/aggregate"}
    assert len(scanning.bodies[Service.PLAIN]) == 2
    assert len(lines[Service.PLAIN]) == len(asking.bodies[Service.PLAIN]) + 2
    assert {line["status"] for each in lines.values() for line in each} == {200}
    logs = json.dumps([*lines.values()])
    assert "Signature" not in logs
    assert BUCKET not in logs
    seen = [logs.encode(), *scanning.bodies[Service.SENSITIVE]]
    seen += [scanned.sensitive.read(name) for name in scanned.sensitive.names("")]
    for content in seen:
        for canary in (b"canary", b"9876543", *(str(row[2]).encode() for row in wanted)):
            assert canary not in content
    assert b"canary_ward" in b"".join(scanning.bodies[Service.PLAIN]), "the plain service is asked in clear"
    assert b"canary_bill" not in b"".join(scanning.bodies[Service.PLAIN])
    for store in (*stores.distinct(), *scanned.distinct()):
        assert not [name for name in store.names("") if name.startswith("results")]


# In a server: test_a_server_that_was_given_no_folder_reads_none in test_services.py.
@pytest.mark.slow
def test_a_function_reads_no_other_bucket(s3_endpoint: str, key: OwnerKey, key_file: Path, tmp_path: Path) -> None:
    stores = stores_at(s3_endpoint)
    Two(key, tmp_path, "ward", stores=stores)
    with Function(HANDLERS[Service.SENSITIVE], **{VARIABLE: "https://its-own.s3.eu-central-1.amazonaws.com/"}) as own:
        with (
            session(stores, key_file, tmp_path / "tables.json", Invoked({Service.SENSITIVE: own})) as asked,
            pytest.raises(ServiceError, match="leads to no store of this service") as caught,
        ):
            asked.ask(asked.plan("SELECT SUM(bill) FROM trial"))
        assert "Signature" not in f"{caught.value.message}{caught.value.hint}"

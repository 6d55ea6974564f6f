"""The built functions in containers, as `sam local` runs them: `make test-sam`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from aws import many_chunks, sam
from aws.events import TABLE, decrypt_totals, make_events
from aws.make_events import write_events
from cleave.ckks.secret_key import SecretKey
from tests.functional.processes import met

pytestmark = [pytest.mark.sam, pytest.mark.usefixtures("containers")]

CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
PATIENTS = sam.ROOT / "tests" / "samples" / "patients.csv"
QUERY = "SELECT ward, COUNT(*) AS n, SUM(bill) AS bills, AVG(age) AS age, STDDEV(weight) AS spread FROM patients "
QUERY += "WHERE admitted >= DATE '2025-01-10' GROUP BY ward ORDER BY ward"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def made_with(folder: Path) -> SecretKey:
    """The key of the events now in `folder`."""
    return write_events(folder)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sam.Api]:
    with sam.start("start-api", tmp_path_factory.mktemp("api") / "log") as running:
        yield running


def test_invoke_answers_the_good_event(folder: Path, made_with: SecretKey) -> None:
    done = sam.invoke("SensitiveFunction", folder / "sensitive-moments.json")
    assert decrypt_totals(made_with, done.reply) == {ward: sum(ages) for ward, ages in TABLE.items()}
    lines = [json.loads(line) for line in done.log.splitlines() if line.startswith('{"')]
    assert [line["status"] for line in lines] == [200], "one line a request"
    assert {"request_id", "sums", "chunks", "timings", "peak_kb"} <= lines[0].keys()
    assert not {"rows", "groups"} & lines[0].keys(), "the service is told neither"


def test_invoke_starts_workers_where_there_is_no_shared_memory(tmp_path: Path, made_with: SecretKey) -> None:
    event = tmp_path / "many.json"
    event.write_text(json.dumps(many_chunks.event(made_with)))
    done = sam.invoke("SensitiveFunction", event)
    assert many_chunks.total(made_with, done.reply) == many_chunks.TOTAL


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("SensitiveFunction", "sensitive-not-a-ciphertext"),
        ("SensitiveFunction", "sensitive-truncated"),
        ("PlainFunction", "plain-aggregate"),
        ("PlainFunction", "plain-reads-a-file"),
    ],
)
def test_invoke_gives_each_event_its_outcome(function: str, name: str, folder: Path, made_with: SecretKey) -> None:
    assert sam.invoke(function, folder / f"{name}.json").reply["statusCode"] == make_events(made_with)[name].status


def post(url: str, body: bytes) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - our own http URL
    try:
        with urllib.request.urlopen(request, timeout=sam.RUN_SECONDS) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_start_api_answers_curl(api: sam.Api) -> None:
    status, answer = post(f"{api.url}/v1/plain", b'{"data": {"age": [61, 47, 33]}, "operation": "sum"}')
    assert (status, answer["result"]) == (200, {"age": 141})
    status, answer = post(f"{api.url}/v1/plain", b'{"data"')
    assert (status, answer["error"]) == (422, "the body is not JSON")
    status, _ = post(f"{api.url}/v1/health", b"{}")
    assert status == 403, "the API has no route that the template does not name"


def test_query_end_to_end_agrees_with_duckdb(api: sam.Api, key_file: Path) -> None:
    assert_right(cleave("query", str(PATIENTS), QUERY, "--json", "--key", str(key_file), "--endpoint", api.url))


def test_query_by_invoking_both_functions(tmp_path: Path, key_file: Path) -> None:
    with sam.start("start-lambda", tmp_path / "log") as functions:
        asked = ["query", str(PATIENTS), QUERY, "--json", "--key", str(key_file), "--lambda"]
        environment = {"AWS_ENDPOINT_URL_LAMBDA": functions.url, **dict.fromkeys(CREDENTIALS, "x")}
        assert_right(cleave(*asked, "SensitiveFunction,PlainFunction", AWS_REGION="eu-central-1", **environment))
        done = cleave(*asked, "SensitiveFunction,NoFunction", AWS_REGION="eu-central-1", **environment)
    assert (done.returncode, done.stdout) == (6, "")
    assert "ResourceNotFound" in done.stderr


def assert_right(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["plan"]["sensitive_requests"] == 1
    with duckdb.connect() as connection:
        connection.read_csv(str(PATIENTS)).create("patients")
        expected = connection.sql(QUERY).fetchall()
    assert len(answer["rows"]) == len(expected) > 1
    for got, bounds, exact, truth in zip(answer["rows"], answer["bounds"], answer["exact"], expected, strict=True):
        for value, bound, is_exact, true in zip(got, bounds, exact, truth, strict=True):
            if bound is None or is_exact:
                assert value == true or float(value) == pytest.approx(float(true), rel=1e-12)
            else:  # DuckDB's own float64 loses as well
                assert abs(float(value) - float(true)) <= bound + 1e-12 * abs(float(true))


def test_query_at_a_path_that_is_not_there_is_an_error_with_a_hint(api: sam.Api, key_file: Path) -> None:
    done = cleave("query", str(PATIENTS), QUERY, "--key", str(key_file), "--endpoint", f"{api.url}/nowhere")
    assert done.returncode == 6, done.stderr
    assert done.stdout == ""
    assert "error:" in done.stderr
    assert "hint:" in done.stderr


@pytest.mark.skipif(sam.IMAGE != sam.STAND_IN, reason="the real image, run by SAM, is not locked down like Lambda")
def test_containers_are_as_confined_as_lambda(api: sam.Api) -> None:
    def have_started() -> bool:
        for path in ("/v1/plain", "/v1/sensitive/moments"):  # starts runtimes, also again where one has died
            post(api.url + path, b"{}")
        return all(map(users_of, api.containers))

    def users_of(container: str) -> set[str]:
        processes = sam.docker("top", container, "-eo", "pid,uid,args").stdout.splitlines()
        return {line.split()[1] for line in processes if "-m awslambdaric" in line}

    assert met(have_started)
    assert len(api.containers) == 2, "a function has another container than the one that it is asked in"
    memory = set()
    for container in api.containers:
        assert users_of(container) == {"993"}
        assert sam.docker("exec", "--user", "993:990", container, "touch", "/var/task/x").returncode != 0
        assert sam.docker("exec", "--user", "0", container, "touch", "/var/task/x").returncode != 0, "read-only for all"
        assert sam.docker("exec", "--user", "993:990", container, "touch", "/dev/shm/x").returncode != 0  # noqa: S108
        memory.add(int(sam.docker("inspect", "--format", "{{.HostConfig.Memory}}", container).stdout) >> 20)
    assert memory == {1769}


def cleave(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("cleave")), *arguments]
    everything = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=sam.RUN_SECONDS, env=everything)

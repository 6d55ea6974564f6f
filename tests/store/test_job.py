"""A scan through a state machine: the template's own, run by moto, with the real steps and S3 over HTTP."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
from moto import mock_aws
from moto.core.exceptions import JsonRESTError

from aws.translate import source
from cleave.ask.options import Access
from cleave.ask.owners import open_tables
from cleave.ask.question import Options
from cleave.ask.session import Session
from cleave.ckks.owner_key import OwnerKey
from cleave.ckks.secret_key import SecretKey, fresh_key
from cleave.deadline import Deadline, OutOfTime
from cleave.objects.locate import Folder, Stores
from cleave.objects.s3 import Bucket
from cleave.store.manifest import new_id
from cleave.store.put import put
from cleave.store.seen_versions import SeenVersions
from cleave.store.vault import Vault
from cleave.sums import job
from cleave.sums.job import JobAnswer, ScanJob
from cleave.sums.machine import Execution, Machine
from cleave.sums.scan import ScanCall
from cleave.table.progress import Silent
from cleave.table.schema import load_schema
from cleave.table.stream import open_table
from cleave.transport.aws import open_session
from cleave_services import links
from cleave_services.sensitive import job as steps
from cleave_shared import limits, wire
from cleave_shared.chunks import joined
from cleave_shared.errors import CheckFailed, CleaveWarning, InputError, ServiceError
from cleave_shared.folder_store import write
from cleave_shared.jobs import Answered, ReduceRequest
from cleave_shared.params import DEFAULT_PROFILE
from cleave_shared.requests import ScanObject, ScanRequest
from tests.conftest import no_passphrase
from tests.functional.processes import HANGS
from tests.store import test_scan_session
from tests.store.asking import session_of
from tests.store.conftest import BUCKET, aws_session, aws_session_in
from tests.store.contributing import World, kept
from tests.store.scanning import SEGMENT, Rows
from tests.store.test_contributors import NORTH, OWN, SOUTH, expected
from tests.store.test_reduced import GROUPS, WINDOW, Segments
from tests.store.trial import copied
from tests.unchecked import unchecked

REGION = "us-east-1"
ROLE = "arn:aws:iam::123456789012:role/a-role"
Step = Callable[[dict[str, Any]], dict[str, Any]]


Placed = tuple[str, dict[int, list[ScanObject]]]  # a set in S3, and the lanes of each segment


@pytest.fixture(scope="module")
def segments() -> Segments:
    return Segments(fresh_key(DEFAULT_PROFILE), 2)


@pytest.fixture(scope="module")
def placed(segments: Segments, s3_endpoint: str) -> Placed:
    """Their lanes in S3, where nothing changes them."""
    storage, name = Bucket(aws_session(), BUCKET, new_id(), s3_endpoint), new_id()

    def stored(files: list[bytes]) -> ScanObject:
        content = joined(files)
        storage.write(at := f"tables/{name}/{new_id()}", content)
        digest = hashlib.sha256(content).hexdigest()
        return ScanObject(link=storage.link(at, 36_000), bytes=len(content), sha256=digest, first=0)

    return name, {id(rows): [stored(files) for files in rows.files] for rows in segments.segments}


class Cloud:
    """Runs steps in this process; `step` may be replaced by one that fails."""

    def __init__(
        self, machine: Machine, arn: str, storage: Bucket, key: OwnerKey, segments: Segments, placed: Placed
    ) -> None:
        self.machine = machine
        self.arn = arn
        self.storage = storage
        self.key: SecretKey = segments.segments[0].key
        self.segments = segments
        self.set, self.files = placed
        self.vault = Vault(key, new_id())
        self.name = new_id()
        self.events: list[dict[str, Any]] = []
        self.step: Step = lambda event: steps.handler(event, None)

    def invoke(self, event: dict[str, Any]) -> dict[str, Any]:
        self.events.append(event)
        return self.step(event)

    def calls(self) -> Iterator[ScanCall]:
        for rows, question in self.segments.asked:

            def request(rows: Rows = rows, question: Any = question) -> ScanRequest:
                cut = question.cut
                return ScanRequest(
                    profile=self.key.profile.name,
                    key_id=self.key.key_id,
                    label=question.label,
                    lanes=[[self.files[id(rows)][lane]] for lane in cut.lanes],
                    chunks=list(cut.chunks),
                    numbers=cut.numbers,
                    cuts=[list(each) for each in cut.cuts],
                    weights=list(question.weights),
                )

            yield ScanCall(f"{self.segments.segments.index(rows):032x}", question, request)

    def job(self) -> ScanJob:
        return ScanJob(self.storage, f"tables/{self.set}", self.vault, self.machine, self.name)

    def run(
        self, seconds: float = HANGS, calls: Callable[[], Iterator[ScanCall]] | None = None, window: int = WINDOW
    ) -> list[JobAnswer]:
        return self.job().run(
            calls or self.calls,
            [5] * GROUPS,
            window,
            (self.key.profile.name, self.key.key_id),
            Deadline(seconds),
            lambda _, __: None,
        )

    def totals(self, answers: list[JobAnswer]) -> dict[tuple[int, int], int]:
        (answer,) = answers
        assert [question.label for _, question in answer.calls] == [each.label for _, each in self.segments.asked]
        return self.segments.totals(answer.shape, answer.files)

    def left(self) -> list[str]:
        return list(self.storage.names("results"))


@cache
def definition() -> str:
    """The template's, as moto can run it: items in one thread, which Python 3.11 needs."""
    made = source()["Resources"]["Job"]["Properties"]
    text = json.dumps(made["Definition"])
    assert made["DefinitionSubstitutions"].keys() == {"Function", "Bucket", "Partition"}
    function = f"arn:aws:lambda:{REGION}:123456789012:function:JobFunction"
    text = text.replace("${Function}", function).replace("${Bucket}", BUCKET)
    text = text.replace("${Partition}", "aws")
    assert "${" not in text
    text, maps = re.subn(r'"MaxConcurrency": \d+', '"MaxConcurrency": 1', text)
    assert maps == 2
    return text


@cache
def _valid() -> None:
    from moto.stepfunctions.parser.models import StepFunctionsParserBackend  # noqa: PLC0415 - as below

    StepFunctionsParserBackend._validate_definition(definition())


@pytest.fixture
def cloud(
    s3_endpoint: str, key: OwnerKey, segments: Segments, placed: Placed, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cloud]:
    from moto.awslambda_simple.models import LambdaSimpleBackend  # noqa: PLC0415 - 0.6 s, which only this file needs
    from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl  # noqa: PLC0415
    from moto.stepfunctions.parser.models import StepFunctionsParserBackend  # noqa: PLC0415

    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    aws = mock_aws(config={"stepfunctions": {"execute_state_machine": True}, "lambda": {"use_docker": False}})
    aws.start(reset=False)
    session = aws_session()
    client = session.client("stepfunctions", region_name=REGION)
    name = new_id()
    stated = definition().replace("JobFunction", name)
    _valid()  # moto parses it for 0.2 s, and again when it runs; only the function's name differs from test to test
    monkeypatch.setattr(StepFunctionsParserBackend, "_validate_definition", lambda **_: None)
    arn = client.create_state_machine(name=name, definition=stated, roleArn=ROLE)["stateMachineArn"]
    made = Cloud(Machine(session, arn), arn, Bucket(session, BUCKET, new_id(), s3_endpoint), key, segments, placed)

    def invoke(_: Any, function: str, __: Any, body: str, ___: Any, response_headers: dict[str, str]) -> bytes:
        if name not in function:  # of a job that an earlier test did not wait for
            return b"{}"
        try:
            return json.dumps(made.invoke(json.loads(body))).encode()
        except Exception as error:  # noqa: BLE001 - as Lambda's runtime tells of it
            response_headers["x-amz-function-error"] = "Unhandled"
            return json.dumps({"errorType": type(error).__name__, "errorMessage": str(error)}).encode()

    def map_runs(self: Any, execution_arn: str) -> dict[str, Any]:
        """None yet, where moto has started an execution but not its thread."""
        worker = self.describe_execution(execution_arn=execution_arn).exec_worker
        return list_map_runs(self, execution_arn) if worker is not None and worker.env is not None else {"mapRuns": []}

    list_map_runs = StepFunctionsParserBackend.list_map_runs
    monkeypatch.setattr(StepFunctionsParserBackend, "list_map_runs", map_runs)
    monkeypatch.setattr(LambdaSimpleBackend, "invoke", invoke)
    monkeypatch.setattr(retrier_decl, "time", SimpleNamespace(sleep=lambda _: None))
    monkeypatch.setattr(job, "_WAITS", (0.5,))  # a look at a job takes moto 40 ms
    monkeypatch.setattr(links, "_own", links.Links([f"{s3_endpoint}/{BUCKET}/"]))
    yield made
    aws.stop(remove_data=False)


@pytest.mark.slow
def test_batches_are_added_up_further(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "CALLS_OF_A_BATCH", 3)
    assert cloud.totals(cloud.run()) == cloud.segments.truth
    reduces = [event for event in cloud.events if event["step"] == "reduce"]
    assert len(reduces) == -(-len(cloud.segments.asked) // 3) + 1
    assert cloud.left() == []


@pytest.fixture
def inside(cloud: Cloud) -> Iterator[pytest.MonkeyPatch]:
    """Undone before moto takes its own credentials out of the environment, and not after it."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


HOURS = {"a user's": None, "a day's": 24, "an hour's": 1, "of no stated end": 0}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", HOURS)
def test_a_job_whose_credentials_end_before_its_links_is_warned_of(
    cloud: Cloud, s3_endpoint: str, kind: str, inside: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """As botocore reads them from the environment, where it gets each from."""
    inside.setenv("AWS_ACCESS_KEY_ID", "an-access-key")
    inside.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    hours = HOURS[kind]
    end = datetime.now(UTC) + timedelta(hours=hours or 0)
    if hours is not None:
        inside.setenv("AWS_SESSION_TOKEN", "a-token")
    if hours:
        inside.setenv("AWS_CREDENTIAL_EXPIRATION", end.isoformat())
    cloud.storage = Bucket(open_session(None, REGION), BUCKET, new_id(), s3_endpoint)
    cloud.machine = Recorded(cloud.storage)
    warned = {"an hour's": f"end at {end:%Y-%m-%d %H:%M} UTC", "of no stated end": "nothing tells when"}.get(kind)
    with pytest.raises(ServiceError, match="ABORTED"):
        cloud.run()
    said = [str(each.message) for each in recwarn if issubclass(each.category, CleaveWarning)]
    assert len(said) == (warned is not None)
    assert (warned or "") in "".join(said)


class Recorded(Machine):
    """What a job is started with: every state of the machine's at its largest, in bytes of JSON."""

    def __init__(self, storage: Bucket) -> None:
        self._storage = storage
        self.calls: list[int] = []  # of each batch
        self.states: list[int] = []

    def start(self, _: str, content: Mapping[str, Any]) -> None:
        most = Answered(number=limits.MAX_REDUCED - 1, attempt=2, bytes=limits.MAX_RESULT_BYTES, sha256="0" * 64)
        batches = json.loads(self._storage.read("results/" + content["batches"].rpartition("results/")[2]))
        for batch in batches:
            self.calls.append(len(batch["calls"]))
            assert [each["number"] for each in batch["calls"]] == list(range(len(batch["calls"])))
            batch["reduce"]["parts"] = [asdict(most)] * len(batch["calls"])
        whole = {**content, "reduce": {**content["reduce"], "parts": [asdict(most)] * limits.MAX_REDUCED}}
        self.states += [len(json.dumps(each)) for each in (*batches, whole)]

    def find(self, name: str) -> Execution:
        return Execution(name, "ABORTED")


@pytest.mark.filterwarnings("ignore:the job's links end with:cleave_shared.errors.CleaveWarning")
@pytest.mark.parametrize("characters", [*(pytest.param(each, marks=pytest.mark.slow) for each in (0, 400)), 2_000])
def test_every_state_holds_links_with_a_session_token(
    cloud: Cloud, s3_endpoint: str, characters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = base64.b64encode(random.Random(1).randbytes(characters * 3 // 4)).decode()
    session = aws_session_in(REGION, token or None)
    cloud.storage = Bucket(session, BUCKET, new_id(), s3_endpoint)
    link = cloud.storage.link(f"tables/{cloud.set}/{new_id()}", 36_000)
    assert len(link) > characters
    cloud.files = {rows: [replace(each, link=link) for each in lanes] for rows, lanes in cloud.files.items()}
    cloud.machine = recorded = Recorded(cloud.storage)
    calls = [*cloud.calls()] * (50 // len(cloud.segments.asked))
    with pytest.raises(ServiceError, match="ABORTED"):
        cloud.run(calls=lambda: iter(calls), window=1)
    assert max(recorded.states) <= 256 * 1024
    assert sum(recorded.calls) == len(calls)
    assert recorded.calls[0] == 40 or characters == 2_000
    assert min(recorded.calls[:-1]) > 10
    assert cloud.left() == []


@pytest.mark.slow
def test_who_may_not_see_progress_waits_all_the_same(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    from moto.stepfunctions.parser.models import StepFunctionsParserBackend  # noqa: PLC0415 - as above

    def refuse(*_: Any, **__: Any) -> Any:
        raise JsonRESTError("AccessDeniedException", "not allowed")

    started: list[str] = []
    start = cloud.machine.start
    monkeypatch.setattr(cloud.machine, "start", lambda name, content: (started.append(name), start(name, content)))
    assert cloud.totals(cloud.run()) == cloud.segments.truth
    (name,) = started
    assert cloud.machine.progress(name) == (1, 1)
    for denied in ("list_map_runs", "describe_map_run"):
        with monkeypatch.context() as patch:
            patch.setattr(StepFunctionsParserBackend, denied, refuse)
            assert cloud.machine.progress(name) == (0, 0)


@pytest.mark.slow
def test_batches_that_are_too_many_sums_come_one_by_one(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    fewest = max(shape.results for shape in cloud.segments.shapes)
    monkeypatch.setattr(limits, "MAX_STORED_SUMS", fewest)
    answers = cloud.run(window=1)
    assert len(answers) == len(cloud.segments.asked)
    scanned, rows = cloud.segments.segments[0].scanned(), cloud.segments.rows
    for answer in answers:
        scanned.accept(answer.shape, answer.files, [(SEGMENT, question) for _, question in answer.calls])
    truth = cloud.segments.truth
    assert {(at, group): scanned.total(at, group, rows[group]) for at, group in truth} == truth


def test_the_answer_of_a_job_is_that_of_its_calls_and_a_step_whose_answer_was_lost_is_tried_again(
    cloud: Cloud,
) -> None:
    lost = {"call": 2, "reduce": 1}

    def step(event: dict[str, Any]) -> dict[str, Any]:
        answered = steps.handler(event, None)
        if lost[event["step"]]:
            lost[event["step"]] -= 1
            raise ConnectionError
        return answered

    cloud.step = step
    assert cloud.totals(cloud.run()) == cloud.segments.truth
    assert lost == {"call": 0, "reduce": 0}
    assert [event["step"] for event in cloud.events].count("call") == len(cloud.segments.asked) + 2
    assert cloud.left() == []


@pytest.mark.slow
def test_a_job_that_fails_says_so_and_can_be_asked_anew(cloud: Cloud) -> None:
    def broken(_: dict[str, Any]) -> dict[str, Any]:
        raise steps.Failed("a store that is gone")

    sound, cloud.step = cloud.step, broken
    with pytest.raises(ServiceError, match="ended as FAILED"):
        cloud.run()
    assert cloud.left() == []
    cloud.step = sound
    assert cloud.totals(cloud.run()) == cloud.segments.truth


def waiting(going: threading.Event, come: threading.Event) -> Step:
    """Step that sets `come` and waits until it may go on."""

    def step(event: dict[str, Any]) -> dict[str, Any]:
        come.set()
        assert going.wait(300)
        return steps.handler(event, None)

    return step


def left(cloud: Cloud, come: threading.Event) -> OutOfTime:
    """How a job ends here that is given time enough to come to its first step, however slow the machine."""
    seconds = 0.5
    while True:
        with pytest.raises(OutOfTime) as caught:
            cloud.run(seconds)
        if come.is_set():
            return caught.value
        seconds *= 2


@pytest.mark.slow
def test_a_job_is_left_and_taken_up_and_runs_once(cloud: Cloud) -> None:
    going, come = threading.Event(), threading.Event()
    cloud.step = waiting(going, come)
    assert "goes on" in str(left(cloud, come))
    going.set()

    def never() -> Iterator[ScanCall]:
        raise AssertionError("the calls are made already")

    assert cloud.totals(cloud.run(calls=never)) == cloud.segments.truth
    assert [event["step"] for event in cloud.events].count("call") == len(cloud.segments.asked)
    assert cloud.left() == []


def test_a_job_is_stopped(cloud: Cloud) -> None:
    going, come = threading.Event(), threading.Event()
    cloud.step = waiting(going, come)
    left(cloud, come)
    assert cloud.job().stop()
    assert not cloud.job().stop()
    going.set()
    assert cloud.left() == []


def test_a_job_of_other_groups_is_not_taken_up(cloud: Cloud) -> None:
    with pytest.raises(OutOfTime):
        cloud.run(0.001)
    with pytest.raises(InputError, match="different groups"):
        cloud.job().run(cloud.calls, [6] * GROUPS, WINDOW, ("p", "k"), Deadline(HANGS), lambda _, __: None)


def test_a_job_that_the_last_release_started_is_refused_and_can_be_ended(cloud: Cloud) -> None:
    """Its questions and answers have another wire version."""
    going = threading.Event()
    cloud.step = waiting(going, threading.Event())  # it writes nothing while the job is stopped
    with pytest.raises(OutOfTime):
        cloud.run(0.001)
    job = cloud.job()
    state = json.loads(job._vault.open("job", job._state_name, cloud.storage.read(job._state_name)))
    assert state["wire"] == wire.VERSION
    state["wire"] -= 1
    cloud.storage.delete([job._state_name])
    cloud.storage.write(job._state_name, job._vault.seal("job", job._state_name, json.dumps(state).encode()))
    with pytest.raises(InputError, match="by another release") as refused:
        cloud.run()
    assert "--stop-job" in str(refused.value.hint)
    assert cloud.job().stop()
    going.set()
    assert cloud.left() == []


@pytest.mark.slow
def test_an_item_that_failed_in_silence_is_counted(cloud: Cloud) -> None:
    """As moto, and a map that tolerates failures, tell of it: null among the parts."""

    def step(event: dict[str, Any]) -> dict[str, Any]:
        if event["step"] == "reduce":
            event = event | {"parts": [*event["parts"][:-1], None]}
        return steps.handler(event, None)

    cloud.step = step
    with pytest.raises(ServiceError, match="ended as FAILED"):
        cloud.run()


@pytest.mark.parametrize(
    "fault", ["flipped", *(pytest.param(it, marks=pytest.mark.slow) for it in ("another job's", "lost"))]
)
def test_an_answer_in_the_store_is_the_jobs_or_refused(cloud: Cloud, fault: str) -> None:
    def step(event: dict[str, Any]) -> dict[str, Any]:
        answered = steps.handler(event, None)
        if event["step"] == "reduce" and "parts" in event and len(event["parts"]) == 1:
            name = f"results/{cloud.set}/" + event["results"][0].partition("?")[0].rpartition("/")[2]
            content = bytearray(cloud.storage.read(name))
            cloud.storage.delete([name])
            if fault == "flipped":
                content[len(content) // 2] ^= 1
            elif fault == "another job's":  # the mark of the question, and the digest over it
                content[36] ^= 1
                content[4:36] = hashlib.sha256(content[36:]).digest()
            if fault != "lost":
                cloud.storage.write(name, bytes(content))
            if fault == "another job's":
                answered["sha256"] = hashlib.sha256(content).hexdigest()
        return answered

    cloud.step = step
    with pytest.raises(CheckFailed, match="answer is not this job's"):
        cloud.run()


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "event",
    [
        None,
        {},
        {"step": "call"},
        {"step": "sum", "set": "0" * 32},
        {"step": "reduce", "set": "0" * 32, "number": 0, "question": {}, "results": ["https://x.example/?sig=Canary"]},
    ],
)
def test_what_is_no_step_is_told_without_what_it_holds(event: Any) -> None:
    with pytest.raises(steps.Failed, match="not a step") as failed:
        steps.handler(event, None)
    assert "Canary" not in str(failed.value)
    assert failed.value.__context__ is None or failed.value.__suppress_context__


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("sums", "attempt", "error"),
    [
        ([[(0, 0)]], 2, "step 0 answered by link 2, it has 1"),
        pytest.param([[(0, 0)] * 1_000_000], 0, "added more than once", marks=pytest.mark.slow),
        ([[(0, 0), (0, 1)], [(0, 1)]], 0, "added more than once"),
        ([[(0, limits.MAX_SCAN_RESULTS)]], 0, "beyond the 60 ciphertexts"),
    ],
    ids=["a link that is not there", "a million times", "in two sums", "beyond an answer"],
)
def test_a_step_of_more_than_its_answers_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    sums: list[list[tuple[int, int]]],
    attempt: int,
    error: str,
) -> None:
    """Before an answer is read: there is none. The log has the set, as that of a request has."""
    base, set_ = f"{tmp_path.as_uri()}/", new_id()
    monkeypatch.setattr(links, "_own", links.Links([base]))
    answers = [[f"{base}results/{set_}/{new_id()}"]]
    request = unchecked(
        ReduceRequest, profile=DEFAULT_PROFILE.name, key_id=new_id(), answers=answers, kind="scan", sums=sums
    )
    content = wire.dump_frames(request)
    name = f"results/{set_}/{new_id()}"
    write(str(tmp_path), name, content)
    question = {"link": base + name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    parts = [{"number": 0, "attempt": attempt, "bytes": 1, "sha256": "0" * 64}]
    event = {"step": "reduce", "set": set_, "number": 0, "question": question, "results": [base], "parts": parts}
    with pytest.raises(steps.Failed, match=error):
        steps.handler(event, None)
    line = json.loads(capsys.readouterr().err)
    assert (line["set"], line["step"], line["error"]) == (set_, "reduce", "WireError")


def test_what_names_no_machine_is_refused() -> None:
    with pytest.raises(InputError, match="ARN"):
        Machine(aws_session(), "arn:aws:lambda:us-east-1:123456789012:function:x")


QUESTIONS = [
    "SELECT day % 2 AS odd, SUM(bill), AVG(age), COUNT(*) FROM trial WHERE day < 200 GROUP BY odd ORDER BY odd",
    "SELECT SUM(bill) FILTER (day > 300), COUNT(age) FILTER (day < 9), AVG(bill), MAX(bed) FROM trial WHERE bed < 500",
]


def _put(folder: Path, access: Access) -> None:
    """A table of several segments."""
    with duckdb.connect() as oracle:
        oracle.execute(
            f"COPY (SELECT 'ward ' || i % 5 AS ward, (i * 7919) % 365 AS day, (i * 31) % 997 AS bed, "
            f"((i * 104729) % 100000 / 100)::DECIMAL(9,2) AS bill, CASE WHEN i % 11 > 0 THEN i % 97 END AS age "
            f"FROM range(40_000) r(i)) TO '{folder / 'trial.parquet'}' (FORMAT PARQUET)"
        )
    (folder / "trial.schema.toml").write_text(test_scan_session.SCHEMA)
    store = Folder(folder / "s")
    tables = open_tables(Stores(store, store), access, SeenVersions(folder / "tables.json"))
    with open_table([folder / "trial.parquet"], load_schema(folder / "trial.schema.toml")) as table:
        put(tables, table, "trial", ["ward"], Silent(), scan=True, segment_rows=15_000)


@pytest.fixture(scope="module")
def store(key_file: Path, s3_endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Bucket:
    """The table's, which nothing changes."""
    _put(folder := tmp_path_factory.mktemp("job"), Access(key_file, no_passphrase))
    bucket = Bucket(aws_session(), BUCKET, new_id(), s3_endpoint)
    copied(folder / "s", bucket)
    return bucket


@pytest.fixture
def asked(cloud: Cloud, store: Bucket, key_file: Path, tmp_path: Path) -> Iterator[Callable[..., Session]]:
    """Sessions over a table in S3, with a machine that runs its scans or without."""
    memory = SeenVersions(tmp_path / "tables.json")
    with ExitStack() as stack:
        yield lambda machine: stack.enter_context(session_of(Stores(store, store), key_file, memory, machine=machine))


@pytest.mark.parametrize("sql", [QUESTIONS[0], pytest.param(QUESTIONS[1], marks=pytest.mark.slow)])
def test_a_session_answers_by_a_job_what_it_answers_by_calls(
    cloud: Cloud, store: Bucket, asked: Callable[..., Session], sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plain service is asked about one segment at a time by the job."""
    by_job, by_calls = asked(cloud.machine), asked(None)
    with monkeypatch.context() as patch:
        patch.setattr(limits, "MAX_PLAIN_OBJECTS", 1)
        answer = by_job.ask(by_job.plan(sql)).result
    assert cloud.events
    assert answer.rows == by_calls.ask(by_calls.plan(sql)).result.rows
    assert [column.source for column in answer.columns].count("encrypted") >= 2
    assert list(store.names("results")) == []


class _InBucket(World):
    """Whose store is S3."""

    storage: Bucket

    def stores(self) -> Stores:
        return Stores(self.storage, self.storage)


@pytest.fixture
def contributed(cloud: Cloud, key_file: Path, tmp_path: Path) -> World:
    """A table of the owner's and two contributors' segments."""
    made = kept(tmp_path / "made", key_file, collected)
    world = _InBucket(tmp_path / "world", key_file)
    world.storage = cloud.storage
    for half in ("s", "p"):
        copied(made.root / half, cloud.storage)
    world.open()  # so that it is remembered
    return world


def collected(world: World) -> None:
    world.put(OWN, (), scan=True)
    for name, rows in (("north", NORTH), ("south", SOUTH)):
        world.register(name)
        world.contribute(name, rows)
    world.collect()


OF_ALL = "SELECT ward, COUNT(*), SUM(bill), SUM(age), COUNT(bill) FROM trial GROUP BY ward ORDER BY ward"


@pytest.mark.slow
def test_a_job_adds_up_the_owners_rows_and_contributors(cloud: Cloud, contributed: World, key_file: Path) -> None:
    assert _by_job(cloud, contributed, key_file) == expected(contributed, OWN + NORTH + SOUTH, OF_ALL)
    assert cloud.events
    assert cloud.left() == []


@pytest.mark.slow  # of one segment, without a machine: test_scanned.py
def test_rows_that_no_answer_of_a_job_is_of_are_missed(
    cloud: Cloud, contributed: World, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A contributor's sums are whole, and the owner's are not there at all."""
    run = ScanJob.run
    owners = contributed.open().manifest.segments[0]

    def less(self: ScanJob, calls: Callable[[], Iterable[ScanCall]], *how: Any) -> list[JobAnswer]:
        return run(self, lambda: [each for each in calls() if each.segment != owners.id], *how)

    monkeypatch.setattr(ScanJob, "run", less)
    with pytest.raises(CheckFailed, match="not of all rows"):
        _by_job(cloud, contributed, key_file)


def _by_job(cloud: Cloud, world: World, key_file: Path) -> list[list[object]]:
    with world.session(machine=cloud.machine) as session:
        return session.ask(session.plan(OF_ALL, Options(min_group=1, yes=True))).result.rows


def test_a_job_is_for_scans(cloud: Cloud, asked: Callable[..., Session]) -> None:
    session = asked(cloud.machine)
    for sql in ("SELECT ward, SUM(bill) FROM trial GROUP BY ward", "SELECT MEDIAN(bill) FROM trial"):
        with pytest.raises(InputError, match="this query needs none"):
            session.ask(session.plan(sql))
    assert not session.stop_job(session.plan(QUESTIONS[0]))
    # and not by events: another test's execution may still be at its last steps
    assert (
        aws_session()
        .client("stepfunctions", region_name=REGION)
        .list_executions(stateMachineArn=cloud.arn)["executions"]
        == []
    )

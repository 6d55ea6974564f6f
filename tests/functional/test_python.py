"""`import cleave`: questions over files and frames, what an answer offers, and a process that is left alone."""

from __future__ import annotations

import asyncio
import datetime
import inspect
import math
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cleave
from cleave.table import progress

ROOT = Path(__file__).parents[2]
PATIENTS = ROOT / "tests" / "samples" / "patients.csv"
WARDS = "SELECT ward, COUNT(*) AS stays, AVG(age) AS age, STDDEV(weight) AS w FROM patients GROUP BY ward ORDER BY ward"
KINDS = {"ward": "plain", "bill": "encrypted", "name": "local"}


pytestmark = pytest.mark.usefixtures("own_key")


def wards() -> pd.DataFrame:
    return pd.DataFrame({"ward": ["A", "B", "A", None], "bill": [1, 2, 4, 8], "name": ["x", "y", "z", "w"]})


def test_a_file_and_its_frame_answer_alike() -> None:
    schema = cleave.load_schema(PATIENTS.with_name("patients.schema.toml"))
    frame = pd.read_csv(PATIENTS, dtype={"bill": str}, parse_dates=["admitted"])
    frame["bill"] = frame["bill"].map(Decimal)
    frame["admitted"] = frame["admitted"].dt.date
    of_file = cleave.query(PATIENTS, WARDS)
    for data in (frame, pa.Table.from_pandas(frame, preserve_index=False)):
        of_frame = cleave.query(data, WARDS, schema=schema, table="patients")
        assert [row[:3] for row in of_frame] == [row[:3] for row in of_file]
        assert of_frame.types == of_file.types
    of_list = cleave.query([PATIENTS], WARDS, schema=str(PATIENTS.with_name("patients.schema.toml")))
    assert [row[:3] for row in of_list] == [row[:3] for row in of_file]


def test_an_answer_as_values() -> None:
    answer = cleave.query(PATIENTS, f"{WARDS} LIMIT 2")
    assert (answer.columns, answer.sources) == (
        ("ward", "stays", "age", "w"),
        ("key", "plain", "encrypted", "encrypted"),
    )
    assert answer.types == ("VARCHAR", "BIGINT", "DOUBLE", "DOUBLE")
    assert len(answer) == len(list(answer)) == len(answer.bounds) == len(answer.undecided) == 2
    assert [type(value) for value in answer.rows[0]] == [str, int, float, float]
    assert answer.bounds[0][:3] == (None, 0.0, 0.0)
    assert answer.exact[0] == (None, True, True, False)
    assert answer.is_decided
    assert set(answer.checks.values()) == {"passed"}
    assert answer.usage.rows == 600
    assert (sums := answer.plan.sums()) is not None
    assert sums.keys == ('"ward"',)
    assert answer.timings["ask"] < answer.seconds
    assert "passed" in answer.footer()


def test_what_no_service_can_answer_is_answered_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEAVE_KEY", "/nowhere")  # nothing is sent, so no key is needed
    sql = "SELECT ward, bill, rank() OVER (ORDER BY bill DESC) AS place FROM frame ORDER BY place"
    answer = cleave.query(wards(), sql, schema=KINDS)
    assert answer.sources == ("local",) * 3
    assert answer.rows[0] == (None, 8, 1)
    assert answer.df()["bill"].tolist() == [8, 4, 2, 1]
    with pytest.raises(cleave.QueryRefused):
        cleave.query(wards(), sql, schema=KINDS, cloud_only=True)


def test_further_tables_are_frames_or_files_and_stay_here(tmp_path: Path) -> None:
    floors = pd.DataFrame({"ward": ["A", "B"], "floor": [3, 4]})
    floors.to_csv(tmp_path / "f.csv", index=False)
    sql = "SELECT floor, SUM(bill) AS s FROM frame JOIN floors USING (ward) GROUP BY floor ORDER BY floor"
    for other in (floors, pa.Table.from_pandas(floors).to_reader(), tmp_path / "f.csv"):
        answer = cleave.query(wards(), sql, schema=KINDS, others={"floors": other})
        assert answer.rows == [(3, 5), (4, 2)]
        assert answer.sources == ("local", "local")
    with cleave.connect(wards(), schema=KINDS, others={"floors": floors}) as connection:
        assert connection.execute(f"{sql} LIMIT ?", [1]).fetchall() == [(3, 5)]


def test_no_digit_beyond_its_bound() -> None:
    rounded = cleave.query(PATIENTS, "SELECT STDDEV(weight) AS w FROM patients")
    (bound,) = rounded.bounds[0]
    assert bound is not None
    assert bound == float(f"{bound:.0e}")  # one digit
    assert -Decimal(repr(rounded.rows[0][0])).as_tuple().exponent <= -Decimal(f"{bound:.0e}").adjusted()


def test_frames_and_arrow_tables_of_an_answer() -> None:
    sql = "SELECT ward, SUM(bill) AS s, COUNT(*) AS n, AVG(weight) AS w, MIN(admitted) AS first FROM patients"
    answer = cleave.query(PATIENTS, f"{sql} GROUP BY ward")
    frame = answer.df()
    assert list(frame.columns) == list(answer.columns)
    assert frame["n"].dtype == "int64"
    assert frame["w"].dtype == "float64"
    assert isinstance(frame["s"][0], Decimal)
    assert isinstance(frame["first"][0], datetime.date)
    assert frame.to_numpy().tolist() == [list(row) for row in answer]
    bounded = answer.df(bounds=True)
    assert list(bounded.columns) == ["ward", "s", "s_bound", "n", "w", "w_bound", "first"]
    assert bounded["w_bound"].tolist() == [row[3] for row in answer.bounds]
    table = answer.arrow()
    assert table.schema.field("s").type == pa.decimal128(38, 2)
    assert table.column("w").to_pylist() == [row[3] for row in answer]
    assert answer.arrow(bounds=True).column_names == list(bounded.columns)


def test_whole_numbers_with_nulls_and_of_128_bits() -> None:
    frame = pd.DataFrame({"g": ["a", "b"], "x": pd.array([2**62, None], dtype="Int64")})
    asked = cleave.query(
        pd.concat([frame] * 4, ignore_index=True),
        "SELECT g, SUM(x) AS s, COUNT(x) AS n FROM frame GROUP BY g ORDER BY g",
        schema={"g": "plain", "x": "encrypted"},
    )
    assert asked.types[1] == "HUGEINT"
    assert asked.rows == [("a", 2**64, 4), ("b", None, 0)]
    assert asked.df()["s"].tolist() == [2**64, None]
    assert asked.arrow().column("s").to_pylist() == [Decimal(2**64), None]
    small = cleave.query(
        frame.fillna({"x": 3}).iloc[1:], "SELECT SUM(x) AS s FROM frame", schema={"g": "plain", "x": "encrypted"}
    )
    assert small.df()["s"].dtype == "int64"


def test_a_notebook_shows_bounds_sources_and_marks_and_runs_nothing() -> None:
    evil = "<script>alert(1)</script>"
    frame = pd.DataFrame({"ward": [evil, "b"], "bill": [1.5, 3e14 / 7]})
    answer = cleave.query(
        frame,
        f'SELECT ward, SUM(bill) AS "{evil}" FROM frame GROUP BY ward',
        schema={"ward": "plain", "bill": "encrypted"},
    )
    page = answer._repr_html_()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 2
    assert "<small>encrypted</small>" in page
    assert "±" in page
    assert "checks passed" in page
    assert "<mark>" not in page
    table = replace(
        answer._table, undecided=[[False, True], [False, False]], doubts=[(), ("HAVING",)], warnings=["<b>"]
    )
    torn = replace(answer, _answer=replace(answer._answer, result=table))
    assert torn._repr_html_().count("<mark>") == 2
    assert "&lt;b&gt;" in torn._repr_html_()
    assert not torn.is_decided
    assert list(torn.df().columns)[-1] == "undecided"
    assert "undecided: HAVING" in repr(torn)


def test_a_schema_is_shown_as_a_table() -> None:
    frame = pd.DataFrame({"<b>ward": ["A", "b"], "bill": [1.5, 2.5]})
    proposal = cleave.schema(frame, {"bill": "encrypted"})
    assert repr(proposal).splitlines()[0].split() == ["column", "kind", "type", "reason"]
    assert "Column(" not in repr(proposal)
    page = proposal._repr_html_()
    assert page.count("<tr>") == 3
    assert "&lt;b&gt;ward" in page
    assert "<b>" not in page


def test_errors_print_under_the_name_by_which_they_are_caught() -> None:
    with pytest.raises(cleave.QueryRefused) as refused:
        cleave.query("tests/samples/patients.csv", "SELECT nothing FROM patients")
    assert traceback.format_exception_only(refused.value)[0].startswith("cleave.QueryRefused: ")
    with cleave.connect("tests/samples/patients.csv") as connection, pytest.raises(cleave.ProgrammingError) as both:
        connection.execute("SELECT nothing FROM patients")
    assert traceback.format_exception_only(both.value)[0].startswith("cleave.QueryRefused: ")
    for name in cleave.__all__:
        kind = getattr(cleave, name)
        if isinstance(kind, type) and issubclass(kind, Exception):
            assert f"{kind.__module__}.{kind.__name__}" in (f"cleave.{name}", f"cleave.api.ask.{name}"), name


def test_a_long_answer_is_shown_in_part() -> None:
    frame = pd.DataFrame({"k": range(250), "x": range(250)})
    answer = cleave.query(frame, "SELECT k, SUM(x) FROM frame GROUP BY k", schema={"k": "plain", "x": "encrypted"})
    assert len(answer) == 250
    assert len(repr(answer).splitlines()) == 3 + 100 + 1
    assert "... and 150 more rows" in repr(answer)
    assert answer._repr_html_().count("<tr>") == 101


def test_what_is_undecided_is_warned_of_at_the_line_that_asked() -> None:
    frame = pd.DataFrame({"x": np.sqrt(np.arange(5000))})
    sql = f"SELECT CASE WHEN SUM(x) > {math.fsum(frame['x'])!r}e0 THEN 'more' ELSE 'less' END AS it FROM frame"
    with pytest.warns(cleave.UndecidedWarning) as caught:
        answer = cleave.query(frame, sql, schema={"x": "encrypted"})
    assert caught[0].filename == __file__
    assert answer.undecided == [(True,)]
    with pytest.raises(cleave.Undecided):
        cleave.query(frame, sql, schema={"x": "encrypted"}, strict=True)
    with (
        cleave.connect(frame, schema={"x": "encrypted"}) as connection,
        pytest.warns(cleave.UndecidedWarning) as caught,
    ):
        connection.cursor().execute(sql)
    assert caught[0].filename == __file__


def test_a_plan_sends_nothing_and_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEAVE_KEY", "/nowhere")
    plan = cleave.plan(wards(), "SELECT ward, SUM(bill) FROM frame GROUP BY ward", schema=KINDS)
    assert plan.description.groups == 3
    assert repr(plan).splitlines()[-1].startswith("in short  No value of ")


STORED = {"store": "/nowhere", "table": None}


@pytest.mark.parametrize(
    ("data", "more", "kind", "message"),
    [
        (wards(), {}, cleave.InputError, "a frame needs a schema"),
        (wards(), {"schema": {"ward": "plain"}}, cleave.InputError, "is not named in the schema"),
        (PATIENTS, {"schema": KINDS}, cleave.InputError, "a schema that names only kinds needs a data frame"),
        (7, {}, cleave.InputError, "a int is no table"),
        ([], {}, cleave.InputError, "a list is no table"),
        ("nowhere.csv", {}, cleave.InputError, "there is no such file"),
        (wards(), {"schema": KINDS, "min_group": -1}, cleave.InputError, "0 or more"),
        (wards(), {"schema": KINDS, "timeout": 0}, cleave.InputError, "seconds above 0"),
        ("frame", {**STORED, "key": "/nowhere/key.json"}, cleave.KeyFileError, "no such key"),
        (
            "frame",
            {**STORED, "passphrase": "surprise"},
            cleave.KeyFileError,
            "has no passphrase, and one was given",
        ),
        (wards(), {"schema": KINDS, "endpoint": "http://example.org"}, cleave.InputError, "plain http"),
        (wards(), {"schema": KINDS, "region": "eu-central-1"}, cleave.InputError, "name it with"),
    ],
)
def test_what_is_wrong_is_told(data: Any, more: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        cleave.query(data, "SELECT COUNT(bill) FROM frame", **({"table": "frame"} | more))


class Unread:
    def collect(self) -> None: ...


@pytest.mark.parametrize(
    ("data", "hint"), [(Unread(), "collect"), ({"a": [1]}, "pandas.DataFrame"), ([{"a": 1}], "pandas.DataFrame")]
)
def test_what_is_nearly_a_table_is_answered_with_what_to_do(data: Any, hint: str) -> None:
    with pytest.raises(cleave.InputError, match="is no table") as error:
        cleave.query(data, "SELECT 1", schema={"a": "plain"})
    assert hint in str(error.value.hint)


def test_a_further_table_without_rows_is_answered_with_what_to_do() -> None:
    with pytest.raises(cleave.InputError) as error:
        cleave.query(PATIENTS, "SELECT COUNT(*) FROM patients, others", others={"others": Unread()})
    assert error.value.hint == "it has no rows yet: pass what its .collect() returns"


def test_a_frame_with_a_store_is_answered_with_what_to_do() -> None:
    with pytest.raises(cleave.InputError) as error:
        cleave.query(Unread(), "SELECT 1", store="tables")
    assert error.value.hint == "leave the store out to query files or a frame"


def test_rows_of_an_answer_are_indexed_iterated_and_fetched() -> None:
    answer = cleave.query(PATIENTS, WARDS)
    assert answer[0] == answer.rows[0]
    assert answer[-2:] == answer.fetchall()[-2:] == list(answer)[-2:]


def test_a_question_is_text() -> None:
    with pytest.raises(cleave.InputError, match="a query is text, not NoneType"):
        cleave.query(PATIENTS, None)  # type: ignore[arg-type]
    with pytest.raises(cleave.InputError, match="a query is text, not int"):
        cleave.plan(PATIENTS, 7)  # type: ignore[arg-type]
    with cleave.connect(PATIENTS) as connection, pytest.raises(cleave.ProgrammingError, match="a statement is text"):
        connection.execute(7)  # type: ignore[arg-type]


def test_a_wrapped_key_is_asked_for_when_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "key.json"
    cleave.create_key(path, b"correct horse battery staple")
    asked = []

    def ask() -> str:
        asked.append(1)
        return "correct horse battery staple"

    with cleave.connect(PATIENTS, key=path, passphrase=ask) as connection:
        connection.execute("SELECT SUM(age) FROM patients")
    assert not asked, "a question over a file needs no key"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    store, sql = tmp_path / "store", "SELECT SUM(bill) FROM t"
    cleave.put(wards(), "t", store=store, by=["ward"], schema=KINDS, key=path, passphrase=ask)
    asked.clear()
    with cleave.connect("t", store=store, key=path, passphrase=ask) as connection:
        connection.execute(sql)
        connection.execute("SELECT COUNT(bill) FROM t")
    assert len(asked) == 1
    with pytest.raises(cleave.KeyFileError, match="no passphrase was given"):
        cleave.query("t", sql, store=store, key=path)
    monkeypatch.setenv("CLEAVE_PASSPHRASE", "correct horse battery staple")
    assert len(cleave.query("t", sql, store=store, key=path).rows) == 1
    assert os.environ["CLEAVE_PASSPHRASE"]  # the user's own: the command alone takes it away


def test_services_elsewhere_are_asked_by_endpoint(service: str) -> None:
    assert cleave.query(PATIENTS, WARDS, endpoint=service).rows[0][:3] == cleave.query(PATIENTS, WARDS).rows[0][:3]


def test_it_works_in_threads_beside_a_running_loop() -> None:
    """As in a notebook's kernel: an event loop is at work in this thread, or the question is asked in another."""
    expected = [row[:3] for row in cleave.query(PATIENTS, WARDS)]

    async def within() -> list[Any]:
        here = cleave.query(PATIENTS, WARDS, progress=True)
        other = await asyncio.to_thread(cleave.query, PATIENTS, WARDS)
        return [here, other]

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: cleave.query(PATIENTS, WARDS), range(4)))
    for answer in asyncio.run(within()) + answers:
        assert [row[:3] for row in answer] == expected


def test_bars_are_drawn_once_something_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, int] = {}

    class Drawn:
        def start(self) -> None: ...

        def stop(self) -> None: ...

        def refresh(self) -> None: ...

        def add_task(self, name: str, total: int, unit: str) -> str:  # noqa: ARG002 - as rich has it
            return name

        def update(self, task: str, completed: int) -> None:
            drawn[task] = completed

    monkeypatch.setattr(progress, "_rich", Drawn)
    monkeypatch.setattr(progress, "_PATIENCE", 60.0)
    cleave.query(PATIENTS, WARDS, progress=True)
    assert drawn == {}
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    answer = cleave.query(PATIENTS, WARDS, progress=True)
    drawn.pop(f"read {PATIENTS}", None)  # shown where the machine takes its time for it
    assert drawn == {"plain half": 600, "encrypt and send": answer.usage.chunks}


def test_encrypting_processes_are_forked_from_a_thread_and_leave_nothing() -> None:
    rows = 300_000
    frame = pd.DataFrame({"x": np.arange(rows) % 1000, "y": np.linspace(0, 1, rows)})
    found: list[Any] = []
    cleave.query(frame.head(), "SELECT SUM(x) AS s FROM frame", schema=dict.fromkeys("xy", "encrypted"))
    before = children_of_this_process()  # what the plain service's processes are forked from stays
    asking = threading.Thread(
        target=lambda: found.append(
            cleave.query(
                frame, "SELECT SUM(x) AS s, AVG(y) AS m FROM frame", schema={"x": "encrypted", "y": "encrypted"}
            )
        )
    )
    asking.start()
    asking.join()
    assert found[0].usage.chunks >= 12  # enough for processes of its own
    assert found[0].rows[0][0] == sum(range(1000)) * 300
    assert children_of_this_process() == before


def children_of_this_process() -> set[str]:
    return {each for path in Path("/proc/self/task").glob("*/children") for each in path.read_text().split()}


def test_an_interrupt_ends_a_question_and_leaves_the_process_alone() -> None:
    """A service that never answers; then Ctrl-C, as a kernel's interrupt is one; then the next question.

    Signals, core dumps and dumpability are the user's; `cleave.protect` changes the last two.
    """
    code = f"""
        import cleave, ctypes, os, resource, signal, socket, threading
        from pathlib import Path
        def dumpable():
            return ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
        before = dumpable(), resource.getrlimit(resource.RLIMIT_CORE)
        silent = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{{silent.getsockname()[1]}}"
        def told():
            silent.accept()
            print("asked", flush=True)
        threading.Thread(target=told, daemon=True).start()
        try:
            cleave.query({str(PATIENTS)!r}, "SELECT ward, SUM(age) FROM patients GROUP BY ward", endpoint=url)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        children = Path(f"/proc/self/task/{{os.getpid()}}/children").read_text().split()
        assert not children, children
        print(len(cleave.query({str(PATIENTS)!r}, "SELECT ward, SUM(age) FROM patients GROUP BY ward")))
        assert (dumpable(), resource.getrlimit(resource.RLIMIT_CORE)) == before, "changed"
        assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == handlers
        cleave.protect()
        assert dumpable() == 0
        assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)
    """
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if hard not in (resource.RLIM_INFINITY,) and hard < 1 << 20:
        code = code.replace("1 << 20, ", f"{hard}, ")
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        assert asking.stdout.readline() == "asked\n"
        asking.send_signal(signal.SIGINT)
        assert asking.stdout.readline() == "interrupted\n"
        assert asking.stdout.readline() == "6\n"
        assert asking.wait(120) == 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("end", ["", "connection.close()", "raise SystemExit(0)"])
def test_a_script_prints_only_what_it_says(end: str) -> None:
    """DuckDB's library reports connections that outlive Python, in pages on stderr."""
    code = f"""
        import cleave
        connection = cleave.connect({str(PATIENTS)!r})
        cursor = connection.cursor()
        cursor.execute("SELECT ward, SUM(age) FROM patients GROUP BY ward")
        print(len(cursor.fetchall()))
        print(len(cleave.query({str(PATIENTS)!r}, "SELECT ward, SUM(age) FROM patients GROUP BY ward", progress=False)))
        {end}
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("6\n6\n", "")


def test_a_kernel_without_ipywidgets_is_no_error(key_file: Path) -> None:
    """There DuckDB refuses to set its progress bar. A notebook is run as a whole in tests/gateway/clients."""
    code = f"""
        import sys, types

        class Kernel:
            config = {{"IPKernelApp": {{}}}}

        sys.modules["IPython"] = types.ModuleType("IPython")
        sys.modules["IPython"].get_ipython = lambda: Kernel
        import cleave, duckdb
        try:
            duckdb.connect().execute("SET enable_progress_bar = false")
        except duckdb.InvalidInputException:
            print("DuckDB refuses it")
        rows = {str(PATIENTS)!r}
        sql = "SELECT ward, SUM(age), MAX(bill) FROM patients GROUP BY ward"
        print(len(cleave.schema(rows).columns) > 5, bool(str(cleave.plan(rows, sql))))
        for progress in (None, False, True):
            with cleave.connect(rows, key={str(key_file)!r}, progress=progress) as connection:
                print(len(connection.execute(sql).fetchall()))
            print(len(cleave.query(rows, sql, key={str(key_file)!r}, progress=progress)))
        print(cleave.fit(rows, "bill ~ age", key={str(key_file)!r}, progress=True).n)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["DuckDB refuses it", "True True", *["6"] * 6, "600"]


def test_without_the_extras_files_are_still_asked() -> None:
    code = f"""
        import sys
        sys.modules["pandas"] = sys.modules["pyarrow"] = None
        import cleave
        answer = cleave.query({str(PATIENTS)!r}, "SELECT SUM(age) AS s FROM patients")
        assert answer.rows == [(28575,)], answer.rows
        for what in (answer.df, answer.arrow):
            try:
                what()
            except cleave.InputError as error:
                print(error.hint)
        class Frame:
            def __arrow_c_stream__(self, requested_schema=None): ...
        try:
            cleave.query(Frame(), "SELECT 1", schema={{"a": "plain"}})
        except cleave.InputError as error:
            print(error.hint)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("pip install") == 3


SAMPLE = """
from datetime import date

import cleave

answer: cleave.Result = cleave.query("patients.csv", "SELECT 1", key="key.json", passphrase=b"x")
first: float | None = answer.bounds[0][0]
where: tuple[str, ...] = answer.sources
plan: cleave.Plan = cleave.plan(["a.csv", "b.csv"], "SELECT 1")
with cleave.connect("patients.csv", schema="s.toml", passphrase=lambda: "x") as connection:
    cursor: cleave.Cursor = connection.cursor()
    cursor.execute("SELECT ?", [date(2025, 1, 1)])
    for row in cursor:
        print(row[0])
try:
    pass
except (cleave.OperationalError, cleave.ServiceError, cleave.Warning) as error:
    print(error)
stored: cleave.StoredTable = cleave.put("a.csv", "t", store="s", by=["ward"], scan=True)
stored = cleave.collect("t", "west", "north", store="s")
pulled: cleave.Pulled | None = cleave.pull("t", output="t.parquet", contributor="west")
changed: cleave.Changed = cleave.delete("t", "age > 90", yes=True)
cleave.put("a.csv", "t", bi=["ward"])  # E
cleave.put("a.csv")  # E
cleave.alter("t", yes=True)  # E
cleave.query(7, "SELECT 1")  # E: 7 is no table
cleave.query("a.csv", "SELECT 1", timeout="long")  # E
cleave.example  # E
"""


def test_what_is_public_has_types() -> None:
    public = [getattr(cleave, name) for name in cleave.__all__]
    functions = [each for each in public if inspect.isfunction(each)]
    functions += [
        each for kind in public if isinstance(kind, type) for name, each in vars(kind).items() if is_public(name, each)
    ]
    assert len(functions) > 30
    for each in functions:
        signature = inspect.signature(each)
        given = [parameter for name, parameter in signature.parameters.items() if name != "self"]
        assert all(parameter.annotation is not parameter.empty for parameter in given), each
        assert signature.return_annotation is not signature.empty, each


def test_an_operation_shows_what_its_caller_gives_and_gets() -> None:
    shown = inspect.signature(cleave.put)
    assert list(shown.parameters)[:3] == ["data", "name", "store"]
    assert {"by", "scan", "timeout"} <= shown.parameters.keys()
    assert shown.return_annotation == "StoredTable"
    assert list(inspect.signature(cleave.collect).parameters)[:2] == ["name", "contributors"]
    assert str(inspect.signature(cleave.pull)).endswith("-> 'Pulled | None'")


def test_wrong_arguments_of_an_operation_are_refused_before_a_store_is_opened(tmp_path: Path) -> None:
    given = {"store": tmp_path / "store", "key": tmp_path / "no key"}
    there = tmp_path / "there.csv"
    there.touch()
    for call in (
        lambda: cleave.put("a.csv", **given),  # type: ignore[call-arg]
        lambda: cleave.put("a.csv", "t", "more", **given),  # type: ignore[call-arg]
        lambda: cleave.put("a.csv", "t", bi=["ward"], **given),  # type: ignore[call-arg]
        lambda: cleave.collect("t", contributors="west", **given),  # type: ignore[call-arg]
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(cleave.InputError, match="already exists"):
        cleave.pull("t", there, **given)
    with pytest.raises(cleave.KeyFileError):
        cleave.ls(**given)


def is_public(name: str, member: object) -> bool:
    return inspect.isfunction(member) and not name.startswith("_") and member.__module__.startswith("cleave")


@pytest.mark.slow
def test_a_users_program_is_type_checked(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(SAMPLE)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache"), str(sample)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    expected = [number for number, line in enumerate(SAMPLE.splitlines(), 1) if "# E" in line]
    found = [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line]
    assert found == expected, done.stdout
    assert (ROOT / "client" / "cleave" / "py.typed").exists()

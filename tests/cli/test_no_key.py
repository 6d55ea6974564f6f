"""A question over a file or a frame asks for no key file and no passphrase: it has a CKKS key of its session's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

import cleave
from cleave.ask.files import FileSource
from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.ckks import key_file
from cleave.cli import passphrase
from cleave.deadline import Deadline
from cleave.local.embedded import embedded_services
from cleave.table.lazy import of_files
from cleave.transport.base import Transport
from cleave_shared.errors import CheckFailed
from cleave_shared.requests import SumsRequest, SumsResponse
from tests.cli.runner import Cli
from tests.samples import copy_patients

AGES = "SELECT AVG(age) FROM patients"
KINDS = {"ward": "plain", "age": "encrypted"}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table, where each attempt to open a key or to learn a passphrase fails."""

    def never(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a key file or a passphrase was wanted")

    for module, names in ((key_file, ("open_key", "describe_key", "read_key_file")), (passphrase, ("_prompt",))):
        for name in names:
            monkeypatch.setattr(module, name, never)
    monkeypatch.setenv("CLEAVE_KEY", str(tmp_path / "none.json"))
    return copy_patients(tmp_path)


@pytest.mark.parametrize("words", [["--key", "none.json"], []])
def test_the_command_line_asks_for_none(cli: Cli, table: Path, words: list[str]) -> None:
    cli.environment |= {"CLEAVE_PASSPHRASE": "a passphrase of another key"}
    result = cli.run("query", table, AGES, "--format", "csv", *words)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("avg(age),")
    assert cli.run("plan", table, AGES, *words).exit_code == 0


def test_the_shell_asks_for_none(cli: Cli, table: Path) -> None:
    result = cli.run("--quiet", "shell", table, typed=f"{AGES};\n{AGES};\n")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("avg(age)") == 2


def test_python_asks_for_none(table: Path) -> None:
    def never() -> NoReturn:
        raise AssertionError("a passphrase was asked for")

    asked: list[Any] = [(table, AGES, {}), ({"age": [1, 2], "ward": ["a", "b"]}, "SELECT SUM(age) FROM frame", KINDS)]
    pandas = pytest.importorskip("pandas")
    for data, sql, kinds in asked:
        frame = pandas.DataFrame(data) if kinds else data
        answer = cleave.query(frame, sql, schema=kinds or None, passphrase=never)
        assert answer.sources == ("encrypted",)
        with cleave.connect(frame, schema=kinds or None, passphrase=never) as connection:
            assert connection.cursor().execute(sql).fetchone() is not None


class Watched:
    """The embedded services. Notes the key each request names; `spoil` changes an answer."""

    def __init__(self) -> None:
        self._inner = embedded_services()
        self.keys: list[str] = []
        self.spoil: Callable[[SumsResponse], SumsResponse] = lambda answer: answer

    def opened(self) -> Transport:
        self._inner = embedded_services()
        return cast("Transport", self)

    def begin(self, deadline: Deadline) -> Transport:
        self._begun = self._inner.begin(deadline)
        return cast("Transport", self)

    def stop(self) -> None:
        self._begun.stop()

    def sensitive(self, request: SumsRequest) -> SumsResponse:
        self.keys.append(request.key_id)
        return self.spoil(self._begun.sensitive(request))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_a_session_makes_another_key_after_a_failed_check(table: Path) -> None:
    """And keeps its key as long as all checks hold; the next session has another one."""
    services = Watched()
    for _ in range(2):
        with Session(FileSource(of_files([table]), Access(table.with_name("none.json")), services.opened)) as session:
            plan = session.plan(AGES)
            first = session.ask(plan)
            session.ask(plan)
            services.spoil = lambda answer: replace(answer, totals=[[bytes(len(answer.totals[0][0]))]])
            with pytest.raises(CheckFailed):
                session.ask(plan)
            services.spoil = lambda answer: answer
            again = session.ask(plan)
            session.ask(plan)
            assert again.result.rows == first.result.rows
    a, b, c, d, e, *others = services.keys
    assert a == b == c != d == e
    assert len(set(services.keys)) == 4
    assert len(others) == 5

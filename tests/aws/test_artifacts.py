"""What each function ships: modules its handler reaches, wheels locked like everyone else's, nothing of the client."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from aws.build import own_modules, shipped
from aws.check_artifacts import FORBIDDEN, LIMIT_MB, problems
from cleave_services.plain import contained
from cleave_services.plain import service as plain
from cleave_services.sensitive import service as sensitive
from cleave_services.sensitive import workers
from tests.aws import stack

ROOT = Path(__file__).parents[2]
LOCKS = ["locks/sensitive.lock", "locks/plain.lock", "tests/aws/requirements-image.lock"]
PINNED = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)


@pytest.mark.parametrize(("half", "other"), [("sensitive", "plain"), ("plain", "sensitive")])
def test_a_handler_reaches_its_own_half_and_shared(half: str, other: str) -> None:
    modules = {str(path) for path in shipped(half)}
    assert {
        f"cleave_services/{half}/app.py",
        "cleave_services/http.py",
        "cleave_services/__init__.py",
        "cleave_shared/wire.py",
    } <= modules
    assert {path.split("/")[0] for path in modules} == {"cleave_services", "cleave_shared"}
    assert not any(path.startswith(f"cleave_services/{other}/") for path in modules)


def test_every_function_ships_its_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    functions = stack.of_type(stack.translate(), "AWS::Lambda::Function")
    assert functions.keys() == FORBIDDEN.keys(), "each artifact is checked"
    for function in functions.values():
        module = Path(function["Handler"].replace(".", "/")).parent.with_suffix(".py")
        assert module in shipped(module.parent.name)


def test_what_a_fork_server_imports_and_where_operations_are_is_shipped() -> None:
    """It is named as text, and nothing imports some of it."""
    for half, server, service in (("plain", contained._server, plain), ("sensitive", workers._server, sensitive)):
        loaded = {each.partition(":")[0] for each in server._preload}
        named = loaded | {each.work.__module__ for each in service.operations}
        assert {Path(f"{module.replace('.', '/')}.py") for module in named} <= shipped(half).keys()


def test_only_the_sensitive_function_reaches_seal() -> None:
    assert Path("cleave_shared/seal.py") in shipped("sensitive")
    assert Path("cleave_shared/seal.py") not in shipped("plain")


def test_a_handler_that_is_not_there_stops_the_build() -> None:
    with pytest.raises(SystemExit, match=r"cleave_services\.nowhere\.app"):
        own_modules("cleave_services.nowhere.app")


@pytest.mark.parametrize("lock", LOCKS)
def test_locks_pin_what_the_tests_run_with(lock: str) -> None:
    tested = set(PINNED.findall((ROOT / "locks/dev.lock").read_text("utf-8")))
    pinned = PINNED.findall((ROOT / lock).read_text("utf-8"))
    assert pinned
    assert set(pinned) <= tested, "run `make lock-aws`"


@pytest.mark.parametrize("lock", [*LOCKS, "locks/sam.lock", "tests/aws/requirements-localstack.lock"])
def test_locks_hold_hashes_and_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text("utf-8")
    assert "://" not in text
    blocks = re.split(r"^(?=[a-z0-9-]+[=\[])", text, flags=re.MULTILINE)
    assert all("--hash=sha256:" in block for block in blocks if "==" in block)


@pytest.mark.parametrize("function", FORBIDDEN)
def test_an_artifact_with_what_its_half_must_not_have_is_refused(function: str) -> None:
    fine = Counter({"cleave_services": 10_000, "fastapi": 2_000_000})
    assert problems(function, fine) == []
    for name in FORBIDDEN[function]:
        assert problems(function, fine + Counter({name: 1})) == [f"{function} ships {name}"]
    assert problems(function, fine + Counter({"_duckdb.abi3.so": 1, "numpy": 1}))
    assert problems(function, fine + Counter({"data": LIMIT_MB * 1_000_000}))
    assert problems(function, Counter({"fastapi": 1})) == [f"{function} has no handler"]

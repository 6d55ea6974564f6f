"""Fixtures of the functional tier."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave schemathesis out of `make test`: it makes its cases while it is collected, for 4 s in each process."""
    return True if collection_path.stem == "test_schemathesis" and "not slow" in config.option.markexpr else None


_TOKEN = (
    '{"startUrl": "https://company.awsapps.com/start", "region": "us-east-1", "accessToken": "a-token", '
    '"expiresAt": "2125-01-01T00:00:00Z"}'
)


@pytest.fixture
def own_folder(own_key: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is in a folder of the test's own, and remembers stored tables there."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def aws_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory for AWS's files, with a token of SSO for the session `company`."""
    cache = tmp_path / ".aws" / "sso" / "cache"
    cache.mkdir(parents=True)
    name = hashlib.sha1(b"company").hexdigest()  # noqa: S324 - as AWS's tools name it
    (cache / f"{name}.json").write_text(_TOKEN)
    for reader in ("credentials.SSOProvider", "tokens.SSOTokenProvider"):  # which read HOME when they are imported
        monkeypatch.setattr(f"botocore.{reader}._SSO_TOKEN_CACHE_DIR", str(cache))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """Everything any logger says, as text with its traceback, from DEBUG on."""
    collected: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            collected.append(logging.Formatter().format(record))

    collector = Collector()
    root, service = logging.getLogger(), logging.getLogger("cleave.service")
    state = root.level, service.level, service.handlers, service.propagate
    root.addHandler(collector)
    service.handlers, service.propagate = [collector], False
    root.setLevel(logging.DEBUG)
    service.setLevel(logging.DEBUG)
    yield collected
    root.removeHandler(collector)
    root.level, service.level, service.handlers, service.propagate = state

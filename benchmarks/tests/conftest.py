"""Fixtures of the laboratory's tests, all of which are marked slow: `make test-all` runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleave.ckks.key_file import create_key
from cleave.ckks.secret_key import SecretKey, fresh_key
from cleave_shared.params import DEFAULT_PROFILE

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "key.json"
    create_key(path, None)
    return path


@pytest.fixture(scope="session")
def key() -> SecretKey:
    return fresh_key(DEFAULT_PROFILE)

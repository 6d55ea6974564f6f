"""Fixtures of the tier that runs the finished build."""

from __future__ import annotations

import os

import pytest

from aws import sam


@pytest.fixture(scope="session")
def containers() -> None:
    """Without containers a test fails, unless whoever runs it has said that it is known."""
    reason = sam.why_no_containers()
    if reason and os.environ.get("CLEAVE_NO_CONTAINERS"):
        pytest.skip(f"NOT TESTED IN A CONTAINER: {reason}")
    assert reason is None

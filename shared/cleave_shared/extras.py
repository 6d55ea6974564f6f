"""Packages that a plain installation does without, and how to get them.

with extra("aws", "S3, Lambda and signed requests"):
    from botocore.session import Session
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cleave_shared.errors import InputError

DISTRIBUTION = "cleave-sql"


@contextmanager
def extra(name: str, feature: str) -> Iterator[None]:
    """Raise InputError where an import fails because the extra `name` of pyproject.toml is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(
            f"{feature} need the package {(error.name or '').partition('.')[0]}, which is not installed",
            hint=f"pip install '{DISTRIBUTION}[{name}]'",
        ) from None

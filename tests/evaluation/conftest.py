from __future__ import annotations

import pytest

from cleave.ckks.secret_key import SecretKey
from tests.evaluation.schemes import Scheme, ckks_scheme, plain_scheme


@pytest.fixture(params=["plain", "ckks"])
def scheme(request: pytest.FixtureRequest, key: SecretKey) -> Scheme:
    return plain_scheme() if request.param == "plain" else ckks_scheme(key)

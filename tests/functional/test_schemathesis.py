"""Whatever a client makes of the OpenAPI documents, well- or ill-formed, no service answers with a 5xx."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error

from cleave_services.plain.app import app as plain
from cleave_services.sensitive.app import app as sensitive

pytest_plugins = ["schemathesis.pytest.plugin"]
pytestmark = pytest.mark.slow  # quicker: test_fuzz, test_openapi
BUDGET = settings(
    max_examples=40,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
sensitive_schema = schemathesis.openapi.from_asgi("/openapi.json", sensitive)
plain_schema = schemathesis.openapi.from_asgi("/openapi.json", plain)


@sensitive_schema.parametrize()
@BUDGET
def test_sensitive_service_never_fails(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=[not_a_server_error])


@plain_schema.parametrize()
@BUDGET
def test_plain_service_never_fails(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=[not_a_server_error])

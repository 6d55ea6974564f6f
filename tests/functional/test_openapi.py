"""docs/openapi-*.json are what the applications serve."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from aws.write_openapi import APPLICATIONS, document, path_of
from tests.functional.gateway import call


@pytest.mark.parametrize("name", APPLICATIONS)
def test_the_document_in_docs_is_current(name: str) -> None:
    assert path_of(name).read_text("utf-8") == document(APPLICATIONS[name]), "run `make openapi`"


@pytest.mark.parametrize("name", APPLICATIONS)
def test_the_document_is_served(name: str) -> None:
    assert call(APPLICATIONS[name], "GET", "/openapi.json").json() == json.loads(document(APPLICATIONS[name]))


@pytest.mark.parametrize("name", APPLICATIONS)
def test_a_caller_reads_where_to_ask_how_to_sign_and_what_a_gateway_answers(name: str) -> None:
    read = json.loads(document(APPLICATIONS[name]))
    assert [server["url"].partition("://")[0] for server in read["servers"]] == ["http", "https"]
    assert read["components"]["securitySchemes"]["sigv4"]["x-amazon-apigateway-authtype"] == "awsSigv4"
    assert read["security"] == [{}, {"sigv4": []}], "cleave serve asks for no signature"
    for path, item in read["paths"].items():
        if "post" in item:
            assert {"200", "413", "415", "422", "429", "500", "502", "503", "504"} <= item["post"][
                "responses"
            ].keys(), path


def test_services_start_without_building_what_only_their_documents_need() -> None:
    """It took a third of the start: validators for forty models of OpenAPI's, and pydantic's old version."""
    looked = """
import sys
from cleave_services.plain.app import app as plain
from cleave_services.sensitive.app import app as sensitive
from fastapi.openapi.models import OpenAPI
from pydantic import BaseModel
from cleave_shared import wire
assert "defer_build" not in BaseModel.model_config
assert not OpenAPI.__pydantic_complete__ and not wire._adapter.cache_info().currsize
assert not {"cleave_services.plain.simple", "cleave_services.sensitive.simple"} & sys.modules.keys()
assert "pydantic.v1" not in sys.modules
for app in (plain, sensitive):
    assert app.openapi()["openapi"] and OpenAPI.__pydantic_complete__
"""
    subprocess.run([sys.executable, "-c", looked], check=True)

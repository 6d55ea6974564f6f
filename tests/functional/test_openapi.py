"""docs/openapi-*.json are what the applications serve."""

from __future__ import annotations

import json

import pytest

from aws.write_openapi import APPLICATIONS, document, path_of
from tests.functional.gateway import call


@pytest.mark.parametrize("name", APPLICATIONS)
def test_the_document_in_docs_is_current(name: str) -> None:
    assert path_of(name).read_text("utf-8") == document(APPLICATIONS[name]), "run `make openapi`"


@pytest.mark.parametrize("name", APPLICATIONS)
def test_the_document_is_served(name: str) -> None:
    assert call(APPLICATIONS[name], "GET", "/openapi.json").json() == json.loads(document(APPLICATIONS[name]))

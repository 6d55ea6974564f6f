"""Dependencies go one way, one module imports TenSEAL, and the services cannot hold a secret key."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from pydantic import BaseModel

from shared import wire

ROOT = Path(__file__).parents[2]
SOURCES = [path for package in ("shared", "functions", "client", "local") for path in (ROOT / package).rglob("*.py")]


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def roots(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(path)}


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("shared", {"functions", "client", "local"}),
        ("functions", {"client", "local"}),
        ("client", {"functions", "local"}),
    ],
)
def test_dependencies_go_one_way(package: str, forbidden: set[str]) -> None:
    files = list((ROOT / package).rglob("*.py"))
    assert files
    for path in files:
        assert not roots(path) & forbidden, path


def test_one_module_imports_tenseal() -> None:
    assert [path.relative_to(ROOT).as_posix() for path in SOURCES if "tenseal" in roots(path)] == ["shared/seal.py"]


def test_only_the_clients_key_modules_name_what_handles_a_secret_key() -> None:
    handlers = {"SecretKey", "KeyGenerator", "Decryptor", "Encryptor"}
    users = set()
    for path in SOURCES:
        tree = ast.walk(ast.parse(path.read_text()))
        if any(isinstance(node, ast.Attribute) and node.attr in handlers for node in tree):
            users.add(path.relative_to(ROOT).as_posix())
    assert users == {"client/encrypt.py"}


def test_services_never_import_key_code_or_heavy_libraries() -> None:
    heavy = {"boto3", "botocore", "pandas", "sqlglot", "typer", "rich", "cryptography", "httpx", "stdnum"}
    for path in (ROOT / "functions").rglob("*.py"):
        assert not roots(path) & heavy, path
    for path in (ROOT / "functions" / "sensitive").rglob("*.py"):
        assert "duckdb" not in roots(path), path
    for path in (ROOT / "functions" / "plain").rglob("*.py"):
        assert not {"shared.seal", "tenseal"} & imports(path), path


def fields(model: type[BaseModel]) -> set[str]:
    found = set(model.model_fields)
    for field in model.model_fields.values():
        for part in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(part, type) and issubclass(part, BaseModel):
                found |= fields(part)
    return found


def test_no_wire_model_can_hold_a_secret_key() -> None:
    """Every model forbids what it does not name, and names nothing a secret or its passphrase could go into."""
    models = [value for value in vars(wire).values() if isinstance(value, type) and issubclass(value, BaseModel)]
    blobs = {
        "MomentsRequest": {"chunks"},
        "MomentsResponse": {"sentinel", "totals"},
        "GroupTotals": {"totals"},
        "PlainRequest": {"table"},
    }
    for model in models:
        if model in (BaseModel, wire.Envelope):
            continue
        assert not [name for name in fields(model) if any(word in name for word in ("secret", "pass", "master"))]
        if model is not wire.Problem:
            assert model.model_config.get("extra") == "forbid", model
        carried = {
            name
            for name, schema in _properties(model).items()
            if '"format": "base64"' in schema or "'format': 'base64'" in schema
        }
        assert carried <= blobs.get(model.__name__, set()), model


def _properties(model: type[BaseModel]) -> dict[str, str]:
    return {name: str(schema) for name, schema in model.model_json_schema().get("properties", {}).items()}

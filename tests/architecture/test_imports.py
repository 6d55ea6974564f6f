"""Dependencies go one way, one module imports TenSEAL, and the services cannot hold a secret key."""

from __future__ import annotations

import ast
from dataclasses import fields
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from pydantic import TypeAdapter

import cleave
from cleave_shared import jobs, requests, wire
from cleave_shared.messages import Item, Message

ROOT = Path(__file__).parents[2]
PACKAGES = {"cleave_shared": "shared", "cleave_services": "functions", "cleave": "client"}
SOURCES = {package: sorted((ROOT / root / package).rglob("*.py")) for package, root in PACKAGES.items()}

# Room -> the rooms it may import. `deadline`, `files`, `formats` and `names` are modules of their own.
ROOMS = {
    "text": set(),
    "files": set(),
    "formats": set(),
    "deadline": set(),
    "names": set(),
    "aggregates": {"text"},
    "transport": {"deadline"},
    "table": {"deadline", "files", "text"},
    "propose": {"table", "text"},
    "objects": {"deadline", "files", "text", "transport"},
    "sql": {"aggregates", "table", "text"},
    "finish": {"aggregates", "sql", "table", "text"},
    "ckks": {"aggregates", "deadline", "files", "formats", "text"},
    "store": {"aggregates", "ckks", "deadline", "files", "formats", "objects", "sql", "table", "text"},
    "sums": {"aggregates", "ckks", "deadline", "objects", "sql", "store", "table", "text", "transport"},
    "ask": {
        *("aggregates", "ckks", "deadline", "disclosure", "files", "finish", "objects", "propose", "releases", "share"),
        *("sql", "store", "sums", "table", "text", "transport"),
    },
    "disclosure": {"sql", "table", "text"},
    "share": {"ckks", "formats", "objects", "store"},
    "releases": {"ckks", "disclosure", "share", "sql", "store", "sums", "table", "text"},
    "contributions": {"ckks", "files", "formats", "objects", "sql", "store", "table", "text"},
    "logins": {"ckks", "files", "table"},
    "shown": {"ask", "finish", "sql", "table", "text"},
    "maintain": {
        *("ask", "ckks", "contributions", "files", "formats", "logins", "objects", "releases", "share"),
        *("sql", "store", "sums", "table", "text"),
    },
    "models": {"aggregates", "ask", "finish", "sql", "table", "text"},
    "report": {"ask", "finish", "models", "propose", "sql", "table", "text"},
    "cli": {
        *("ask", "ckks", "contributions", "files", "finish", "logins", "maintain", "models", "names", "propose"),
        *("releases", "report", "share", "shown", "sql", "store", "table", "text", "transport"),
    },
    "front": {"files", "transport"},
    "gateway": {"ask", "disclosure", "finish", "front", "logins", "sql", "table", "text", "transport"},
    "local": {"ask", "ckks", "cli", "files", "front", "gateway", "objects", "table", "text", "transport"},
    "api": {"ask", "finish", "local", "models", "propose", "shown", "sql", "table", "text"},
}

# What stands inside a package that has subpackages, floor by floor from the ground: a module or subpackage imports only
# from floors below its own.
FLOORS = {
    "cleave.ask": (
        "config joining pointing question",
        "options threshold way",
        "owners plan services",
        "describe reader",
        "source",
        "finishing versioned",
        "session ways",
        "choice files released",
        "stored",
        "opening",
    ),
    "cleave.cli": (
        "console schema_text",
        "passphrase",
        "process",
        "group",
        "options",
        "analysts answer app config contributors key stored users",
        "models questions readers recovery schema shell",
    ),
    "cleave_services": (
        "bodies link_files log web",
        "link_http",
        "link_places",
        "links",
        "operations",
        "openapi",
        "http",
        "plain sensitive",
    ),
}


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Those that a test looks at."""
    tree = ast.walk(ast.parse(path.read_text()))
    return [node for node in tree if isinstance(node, ast.Import | ast.ImportFrom | ast.Attribute)]


@cache
def imports(path: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def roots(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(path)}


def module_of(path: Path, package: str) -> str:
    parts = path.relative_to(ROOT / PACKAGES[package]).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """The room of a module of `cleave`, late imports of which count as well."""
    return module.split(".")[1] if "." in module else ""


def test_sources_are_found() -> None:
    assert all(len(files) > 5 for files in SOURCES.values())


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("cleave_shared", {"cleave_services", "cleave"}),
        ("cleave_services", {"cleave"}),
        ("cleave", {"cleave_services"}),
    ],
)
def test_dependencies_go_one_way(package: str, forbidden: set[str]) -> None:
    for path in SOURCES[package]:
        if room_of(module_of(path, package)) != "local":  # the composition root
            assert not roots(path) & forbidden, path


def graph() -> dict[str, set[str]]:
    """Module -> the modules of the project it imports, late imports and those for types alone included."""
    modules = {module_of(path, package): path for package, files in SOURCES.items() for path in files}
    found: dict[str, set[str]] = {}
    for module, path in modules.items():
        names = imports(path) & modules.keys()
        # `from package import module` names the package too, without needing anything of it
        found[module] = {
            name for name in names if not any(other.startswith(f"{name}.") for other in names) and name != module
        }
    return found


def test_rooms_import_only_what_they_may() -> None:
    for module, imported in graph().items():
        if module.split(".")[0] != "cleave" or module == "cleave":  # the public names come from everywhere
            continue
        room = room_of(module)
        assert room in ROOMS, f"{module} stands in no known room"
        others = {room_of(name) for name in imported if name.startswith("cleave.")} - {room}
        assert others <= ROOMS[room], f"{module} imports from {sorted(others - ROOMS[room])}"


def inside(package: str, edges: dict[str, set[str]]) -> dict[str, set[str]]:
    """Each module or subpackage of a package, and which of the others it imports. A subpackage is one, whatever stands
    in it.
    """

    def part(module: str) -> str:
        return module.removeprefix(f"{package}.").split(".")[0]

    found: dict[str, set[str]] = {}
    for module, imported in edges.items():
        if module.startswith(f"{package}."):
            others = {part(name) for name in imported if name.startswith(f"{package}.")}
            found.setdefault(part(module), set()).update(others - {part(module)})
    return found


def test_rooms_import_all_that_they_may() -> None:
    """So the map of docs/design.md shows no arrow that is not there."""
    used = inside("cleave", graph())
    assert {room: sorted(may - used[room]) for room, may in ROOMS.items() if may - used[room]} == {}


def upward(package: str, edges: dict[str, set[str]]) -> list[str]:
    """The imports inside a package that do not go to a lower floor."""
    floors = {part: number for number, floor in enumerate(FLOORS[package]) for part in floor.split()}
    parts = inside(package, edges)
    assert floors.keys() == parts.keys(), "FLOORS names exactly what stands there"
    return [
        f"{part} -> {other}"
        for part, others in sorted(parts.items())
        for other in sorted(others)
        if floors[other] >= floors[part]
    ]


def test_every_package_with_subpackages_has_floors() -> None:
    """Modules of other rooms cannot go up: without a circle (below) there is an order of them."""
    packages = {
        module_of(path, package).rpartition(".")[0]
        for package, files in SOURCES.items()
        for path in files
        if path.name == "__init__.py" and path.parent.name != package
    }
    assert packages - {"cleave"} == FLOORS.keys()  # ROOMS are the floors of cleave


@pytest.mark.parametrize("package", FLOORS)
def test_no_import_goes_up_inside_a_room(package: str) -> None:
    assert upward(package, graph()) == []


@pytest.mark.parametrize(
    ("module", "imported", "seen"),
    [
        ("cleave.ask.plan", "cleave.ask.ways.rows", "plan -> ways"),  # up into a folder
        ("cleave.ask.ways.rows", "cleave.ask.session", "ways -> session"),  # beside
        ("cleave_services.http", "cleave_services.plain.app", "http -> plain"),
    ],
)
def test_an_import_that_goes_up_is_seen(module: str, imported: str, seen: str) -> None:
    edges = graph()
    edges[module] = edges[module] | {imported}
    (package,) = (each for each in FLOORS if module.startswith(f"{each}."))
    assert seen in upward(package, edges)


def test_tests_and_benchmarks_do_not_import_each_other() -> None:
    for folder, other in (("tests", "benchmarks"), ("benchmarks", "tests"), ("aws", "tests"), ("aws", "benchmarks")):
        for path in (ROOT / folder).rglob("*.py"):
            assert other not in path.read_text("utf-8") or other not in roots(path), path


def test_no_room_takes_the_name_of_a_public_function() -> None:
    """Python sets a package's submodule as its attribute, so that `cleave.release` would become a module."""
    assert not ROOMS.keys() & set(cleave.__all__)


def test_rooms_are_in_order() -> None:
    """The allowed edges hold no circle, so that neither can the rooms."""
    assert tuple(TopologicalSorter(ROOMS).static_order())


def test_there_is_no_import_circle() -> None:
    edges = graph()
    edges.pop("cleave")  # lazy: it loads nothing until asked for a name
    try:
        tuple(TopologicalSorter(edges).static_order())
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_one_module_imports_tenseal() -> None:
    users = [path.name for files in SOURCES.values() for path in files if roots(path) & {"tenseal"}]
    assert users == ["seal.py"]


def test_one_module_of_the_services_imports_fastapi_and_mangum() -> None:
    """With what they build for a document nobody asks for put off."""
    users = [path.name for path in SOURCES["cleave_services"] if roots(path) & {"fastapi", "mangum"}]
    assert users == ["web.py"]


def test_only_the_clients_key_modules_name_what_handles_a_secret_key() -> None:
    handlers = {"SecretKey", "KeyGenerator", "Decryptor", "Encryptor"}
    users = set()
    for path in SOURCES["cleave_shared"] + SOURCES["cleave_services"] + SOURCES["cleave"]:
        if any(isinstance(node, ast.Attribute) and node.attr in handlers for node in nodes(path)):
            users.add(path.relative_to(ROOT).as_posix())
    assert users == {"client/cleave/ckks/cipher.py", "client/cleave/ckks/secret_key.py"}


def test_clients_of_other_programs_are_made_in_one_place_each() -> None:
    """There failures name settings: see cleave.transport.foreign. Sessions of boto3 are types everywhere else."""
    makers = {"client", "create_client", "resource", "AsyncClient", "Client", "create_ssl_context", "Session"}
    calls = set()
    for path in SOURCES["cleave"]:
        if not roots(path) & {"boto3", "botocore", "httpx", "requests", "urllib3"}:
            continue
        ours = {"Session"} if "cleave.ask.session.Session" in imports(path) else set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                calls |= {(path.relative_to(ROOT).as_posix(), name)} if name in makers - ours else set()
    assert calls == {
        ("client/cleave/transport/aws.py", "Session"),
        ("client/cleave/transport/aws.py", "client"),
        ("client/cleave/transport/http.py", "AsyncClient"),
        ("client/cleave/transport/http.py", "create_ssl_context"),
    }


def test_services_never_import_key_code_or_heavy_libraries() -> None:
    heavy = {"boto3", "botocore", "pandas", "typer", "rich", "cryptography", "httpx", "stdnum"}
    for path in SOURCES["cleave_services"]:
        assert not roots(path) & heavy, path
    for path in (ROOT / "functions" / "cleave_services" / "sensitive").rglob("*.py"):
        assert not {"duckdb"} & imports(path), path
    for path in (ROOT / "functions" / "cleave_services" / "plain").rglob("*.py"):
        assert not {"cleave_shared.seal", "tenseal"} & imports(path), path


def test_no_wire_model_can_hold_a_secret_key() -> None:
    """Every model forbids what it does not name, and names nothing a secret or its passphrase could go into."""
    named = (vars(wire) | vars(requests) | vars(jobs)).values()
    models = [value for value in named if isinstance(value, type) and issubclass(value, Message)]
    blobs = {
        "Lane": {"objects"},
        "PlainRequest": {"objects"},
        "SumsResponse": {"totals"},
        "PlainResponse": {"numbers", "filters"},
        "ScanRequest": {"numbers"},
        "ScanResponse": {"totals"},
        "Reduced": {"totals"},
    }
    for model in models:
        if model in (Message, Item, wire.Envelope):
            continue
        names = [each.name for each in fields(model)]
        assert not [name for name in names if any(word in name for word in ("secret", "pass", "master"))]
        assert issubclass(model, Item) or model is wire.Problem
        carried = {
            name
            for name, schema in _properties(model).items()
            if '"format": "base64"' in schema or "'format': 'base64'" in schema
        }
        assert carried <= blobs.get(model.__name__, set()), model


def _properties(model: type[Message]) -> dict[str, str]:
    schemas = TypeAdapter(model).json_schema().get("properties", {})
    return {name: str(schema) for name, schema in schemas.items()}

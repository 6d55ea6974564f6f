"""Stores of both kinds; S3 is moto's server, spoken to over HTTP."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from boto3.session import Session
from botocore.config import Config
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.server import ThreadedMotoServer

from cleave.ckks.owner_key import OwnerKey
from cleave.objects.locate import Folder
from cleave.objects.s3 import Bucket
from cleave.objects.storage import Storage
from cleave.store import cells
from cleave.store.manifest import Batches, HandledParts, Segments
from cleave.table import schema
from tests.store import made
from tests.store.trial import World

BUCKET = "a-bucket"
_COUNTER = itertools.count()


_CLIENTS: dict[str, Any] = {}


class OneClientEach(Session):
    """A session whose S3 clients of the same arguments and credentials are one, which takes 25 ms to make."""

    def client(self, service_name: str, *given: Any, config: Config | None = None, **named: Any) -> Any:
        if service_name != "s3":
            return super().client(service_name, *given, config=config, **named)
        who = self.get_credentials().get_frozen_credentials()
        arguments = repr((who, given, config and sorted(vars(config).items(), key=str), sorted(named.items())))
        if arguments not in _CLIENTS:
            _CLIENTS[arguments] = super().client(service_name, *given, config=config, **named)
        return _CLIENTS[arguments]


def aws_session_in(region: str, token: str | None = None) -> Session:
    return OneClientEach("an-access-key", "a-secret", token, region)


def aws_environment(endpoint: str) -> dict[str, str]:
    """Settings by which a program asks S3 at `endpoint`."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "an-access-key",
        "AWS_SECRET_ACCESS_KEY": "a-secret",
        "AWS_REGION": "us-east-1",
    }


@cache
def aws_session() -> Session:
    return aws_session_in("us-east-1")


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # a line for every request otherwise
    # moto lists its modules for every request: a third of what it takes
    DomainDispatcherApplication.get_backend_for_host = cache(DomainDispatcherApplication.get_backend_for_host)  # type: ignore[method-assign]
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    httpx.put(f"{url}/{BUCKET}").raise_for_status()
    yield url
    server.stop()


@pytest.fixture(scope="session", autouse=True)
def folders_filled_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    made.root = tmp_path_factory.mktemp("made")


@pytest.fixture(scope="session", autouse=True)
def schemas_written_once() -> Iterator[None]:
    """A schema takes 3 ms to write as TOML, which every put, change and release does."""
    with pytest.MonkeyPatch.context() as patch:
        for part in (schema.schema_head, schema.column_text):
            patch.setattr(schema, part.__name__, cache(part))
        yield


@pytest.fixture(scope="session", autouse=True)
def small_pages() -> Iterator[None]:
    """Tables of a few segments and cells have several pages."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in (Segments, Batches, HandledParts):
            patch.setattr(kind, "MOST", 2)
        patch.setattr(cells, "PAGE", 2)
        yield


@pytest.fixture(params=["folder", pytest.param("s3", marks=[pytest.mark.slow, pytest.mark.again(4)])])
def kind(request: pytest.FixtureRequest) -> str:
    """Kind of a store. A file runs one test in four over S3; where the protocol matters, it has its own fixture."""
    return str(request.param)


@pytest.fixture
def open_again(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> Iterator[Callable[[], Storage]]:
    """Function that opens one store each time it is called: another process's view of it."""
    opened: list[Storage] = []
    place = f"place-{next(_COUNTER)}"
    endpoint = request.getfixturevalue("s3_endpoint") if kind == "s3" else None

    def make() -> Storage:
        opened.append(Bucket(aws_session(), BUCKET, place, endpoint) if endpoint else Folder(tmp_path / "store"))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


@pytest.fixture
def storage(open_again: Callable[[], Storage]) -> Storage:
    return open_again()


@pytest.fixture
def world(storage: Storage, key: OwnerKey, tmp_path: Path) -> World:
    return World(storage, key, tmp_path)


@pytest.fixture(scope="session")
def key(owner: OwnerKey) -> OwnerKey:
    """In these tests the owner's."""
    return owner


@pytest.fixture(scope="session")
def other_key(other_owner: OwnerKey) -> OwnerKey:
    return other_owner

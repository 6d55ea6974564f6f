"""A gateway whose key is wrapped by a KMS key and a passphrase: no terminal is there, and none is needed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from cleave.logins.users import write_user
from tests.cli.runner import Cli, cli
from tests.gateway.conftest import PASSWORD, Gateway, connect, started, stop

__all__ = ["cli"]


@pytest.fixture
def arn(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A KMS key of a server that other processes reach too."""
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", f"http://{host}:{port}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    yield boto3.client("kms", "eu-west-1").create_key()["KeyMetadata"]["Arn"]
    server.stop()


def test_a_kms_key_opens_the_tables_of_a_gateway(gateway: Gateway, arn: str, cli: Cli, tmp_path: Path) -> None:
    shutil.copytree(gateway.folder / "store", tmp_path / "store")
    shutil.copyfile(gateway.folder / "key.json", key := tmp_path / "key.json")
    key.chmod(0o600)
    write_user(tmp_path / "users.toml", "dan", PASSWORD.encode(), tables=None, min_group=0, rows=True, token=False)
    for words in (("--passphrase",), ("--kms", arn)):
        cli.environment["CLEAVE_NEW_PASSPHRASE"] = "eleven loud ibises"
        cli.environment["CLEAVE_PASSPHRASE"] = "eleven loud ibises" if "--kms" in words else None
        done = cli.run("key", "wrap", "--key", key, *words)
        assert done.exit_code == 0, done.output
    process, (address,) = started(tmp_path, "--workers", "1")
    try:
        with closing(connect(int(address.rpartition(":")[2]), "dan")) as connection:
            sql = "SELECT ward, COUNT(*) AS n, SUM(bill) AS s FROM visits GROUP BY ward ORDER BY ward"
            assert connection.execute(sql).fetchall() == gateway.truth.execute(sql).fetchall()
    finally:
        stop(process)

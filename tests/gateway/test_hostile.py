"""Clients that lie, stall, leave or come in crowds: none stops the gateway, or hears more than it may."""

from __future__ import annotations

import random
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import pymysql
import pytest
from sqlglot import TokenType
from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import SqlglotError

from cleave.front.certificates import Certificate, self_signed
from cleave.gateway.dialect import placeholders
from tests.cli.runner import Cli, cli
from tests.functional.processes import HANGS, descendants, met
from tests.gateway.conftest import PASSWORD, Gateway, started

__all__ = ["cli"]

SLOW = "SELECT COUNT(*) FROM visits a, visits b, visits c WHERE a.name < b.name AND b.name < c.name"


def lives(gateway: Gateway) -> bool:
    return gateway.process.poll() is None and gateway.rows("SELECT COUNT(*) FROM wards") == [(3,)]


def sent(gateway: Gateway, content: bytes) -> bytes:
    """What the gateway says to `content`, until it ends the connection."""
    with socket.create_connection(("127.0.0.1", gateway.port), HANGS) as connection:
        try:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(1 << 16), b""))
        except OSError:  # it has cut us off
            return b""


def test_what_is_no_login(gateway: Gateway) -> None:
    for content in (
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("<I", 0xFFFFFF | 1 << 24) + bytes(1 << 17),  # more than may be sent before a login
        struct.pack("<I", 32 | 1 << 24) + b"\xff" * 32 + b"no TLS",
        struct.pack("<I", 40 | 9 << 24) + bytes(40),  # out of order
        struct.pack("<I", 5 | 1 << 24) + b"\x8d",  # cut
        struct.pack("<I", 64 | 1 << 24) + b"\xff" * 64,
        struct.pack("<I", 4 | 1 << 24) + bytes(4),
    ):
        said = sent(gateway, content)
        assert b"Traceback" not in said
        assert b"visits" not in said
    assert lives(gateway)


@pytest.mark.parametrize("rounds", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_random_packets(gateway: Gateway, rounds: int) -> None:
    """Of clients that are logged in, too: each command with random bytes behind it."""
    source = random.Random(7)
    for _ in range(20 * rounds):
        size = source.randrange(200)
        sent(gateway, struct.pack("<I", size | 1 << 24) + source.randbytes(size))
    connection = gateway.connect()  # a login costs 0.1 s: a new one where the last was cut off
    for command in (each for each in range(32) for _ in range(rounds)):
        try:
            connection._next_seq_id = 0
            connection.write_packet(bytes([command]) + source.randbytes(source.randrange(40)))
            if command in (0x01, 0x18, 0x19):  # without an answer
                raise OSError
            connection._read_packet()
        except (pymysql.err.Error, OSError):
            connection._force_close()
            connection = gateway.connect()
    connection._force_close()
    assert lives(gateway)


def test_two_hundred_connections(gateway: Gateway) -> None:
    with ExitStack() as stack:
        held = [stack.enter_context(closing(gateway.connect())) for _ in range(12)]
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port))) for _ in range(188)]
        assert len(silent) == 188
        for connection in held[::4]:
            with connection.cursor() as cursor:
                cursor.execute("SELECT COUNT(*) FROM wards")
                assert cursor.fetchall() == ((3,),)
    assert lives(gateway)


def workers(gateway: Gateway) -> set[int]:
    return set(descendants(gateway.process.pid))


def test_a_statement_that_is_refused_leaves_its_worker(gateway: Gateway) -> None:
    with closing(gateway.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM wards")
        before = workers(gateway)
        for sql in ("DROP TABLE visits", "SELECT nothing FROM visits", "SELECT CAST(name AS INTEGER) AS c FROM visits"):
            with pytest.raises(pymysql.err.Error):
                cursor.execute(sql)
        cursor.execute("SELECT COUNT(*) FROM wards")
        assert workers(gateway) == before


def test_a_client_that_leaves_stops_its_question(gateway: Gateway) -> None:
    lives(gateway)
    connection = gateway.connect()
    other = gateway.connect()
    with closing(other), other.cursor() as cursor:
        cursor.execute("SELECT CONNECTION_ID()")
    before = workers(gateway)
    connection._execute_command(3, SLOW)
    connection._force_close()
    assert met(lambda: before - workers(gateway))  # its worker is ended
    assert lives(gateway)


def test_a_question_is_killed(gateway: Gateway) -> None:
    with closing(gateway.connect()) as one, closing(gateway.connect()) as other:
        caught: list[Exception] = []

        def ask() -> None:
            try:
                one.query(SLOW)
            except pymysql.err.Error as error:
                caught.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        while thread.is_alive():
            with other.cursor() as cursor:
                cursor.execute(f"KILL QUERY {one.thread_id()}")
            thread.join(0.5)
        assert "killed" in str(caught[0])
        with one.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM wards")
            assert cursor.fetchall() == ((3,),)


def test_a_long_question_stops_nobody_else(gateway: Gateway) -> None:
    """Two workers: one user gets one of them at most."""
    with ExitStack() as stack:
        busy = [stack.enter_context(closing(gateway.connect())) for _ in range(3)]
        for connection in busy:
            connection._execute_command(3, SLOW)
        assert gateway.rows("SELECT COUNT(*) FROM visits", "counter") == [(3000,)]
        for connection in busy:
            connection._force_close()
    assert lives(gateway)


def test_limits_of_a_question(gateway: Gateway) -> None:
    with closing(gateway.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET max_execution_time = 300")
        with pytest.raises(pymysql.err.Error, match=r"0\.3 s|not answered|longer"):
            cursor.execute(SLOW)
        cursor.execute("SET max_execution_time = 0")
        with pytest.raises(pymysql.err.Error, match="more than"):
            cursor.execute("SELECT a.id FROM visits a, visits b WHERE b.id < 400")
        with pytest.raises(pymysql.err.Error):
            cursor.execute("SELECT '" + "x" * (1 << 21) + "'")
    assert lives(gateway)


def test_what_keeps_it_from_starting(gateway: Gateway, cli: Cli) -> None:
    words = ["gateway", "--store", gateway.folder / "store", "--key", gateway.folder / "key.json"]
    words += ["--users", gateway.folder / "users.toml"]
    assert "--tls-cert" in cli.fails(3, *words, "--host", "0.0.0.0")  # noqa: S104
    command = [Path(sys.executable).with_name("cleave"), *words, "--port", "0", "--with", "nosuch.csv"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)  # a worker finds it
    assert done.returncode == 3
    assert "nosuch.csv: there is no such" in done.stderr


def test_tls_of_our_own_and_nothing_is_left_behind(gateway: Gateway, tmp_path: Path) -> None:
    pem = tmp_path / "cert.pem"
    pem.write_bytes(b"".join(self_signed()))
    (tmp_path / "store").symlink_to(gateway.folder / "store")
    (tmp_path / "key.json").symlink_to(gateway.folder / "key.json")
    (tmp_path / "users.toml").symlink_to(gateway.folder / "users.toml")
    process, (address,) = started(tmp_path, "--tls-cert", str(pem), "--tls-key", str(pem), "--tables", "wards")
    with process:
        port = int(address.rpartition(":")[2])
        context = ssl.create_default_context(cafile=pem)
        given = {"host": "localhost", "port": port, "user": "owner", "password": PASSWORD, "ssl": context}
        with closing(pymysql.connect(**given)) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW TABLES")
            assert cursor.fetchall() == (("wards",),)
            assert isinstance(connection._sock, ssl.SSLSocket)
        children = descendants(process.pid)
        assert children
        process.kill()
    assert met(lambda: not any(Path(f"/proc/{each}/exe").exists() for each in children))


def test_the_key_of_a_made_certificate_is_on_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    Certificate(None, None)


@pytest.mark.parametrize(
    "sql",
    [
        "BEGIN; SELECT 1 + 1",
        "BEGIN; SELECT POW(9, POW(9, 9))",  # as Python's number it has 370 million digits
        'BEGIN; SELECT `x\\`(\'" + open("PATH", "w").name #\')',  # text of a name and a value, read as Python
        'SET autocommit = 1; SELECT `x\\`(\'" + open("PATH", "w").name #\')',
        "USE cleave; SELECT COUNT(*) FROM visits",
        "START TRANSACTION; SHOW TABLES",
        "SET NAMES utf8mb4; DESCRIBE wards",
        "COMMIT; KILL ID",
        "ROLLBACK; BEGIN",
    ],
)
def test_a_statement_about_the_session_brings_no_other(gateway: Gateway, tmp_path: Path, sql: str) -> None:
    """The process that all clients share has the passphrase; a user without rights is enough to ask it."""
    path = tmp_path / "made"
    with closing(gateway.connect()) as other, closing(gateway.connect("counter")) as connection:
        hostile = sql.replace("PATH", str(path)).replace("ID", str(other.thread_id()))
        with pytest.raises(pymysql.err.ProgrammingError, match="several statements"):
            connection.query(hostile)
        with other.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM wards")
            assert cursor.fetchall() == ((3,),)
    assert not path.exists()


def test_long_statements_hold_up_nobody(gateway: Gateway) -> None:
    """Some are looked at where all clients are served: that took minutes of these."""
    with closing(gateway.connect("counter")) as connection:
        for sql in ("/**/" * 250_000, "#\n" * 500_000, "-- \n" * 250_000):
            connection.query(sql)
        for sql in ("SELECT " + "1+" * 500_000 + "1", "(" * (1 << 20), "SELECT " + "?," * 100_000 + "1"):
            connection._execute_command(0x16, sql.encode())
            if "?" in sql:
                with pytest.raises(pymysql.err.Error, match="placeholders"):
                    connection._read_packet()
                continue
            answer = connection._read_packet().get_all_data()
            connection._execute_command(0x19, answer[1:5])  # close it again
    assert lives(gateway)


def test_prepared_statements_have_a_size_together(gateway: Gateway) -> None:
    with closing(gateway.connect("counter")) as connection:
        half = b"SELECT '" + b"x" * (1 << 19) + b"'"
        connection._execute_command(0x16, half)
        connection._read_packet()
        connection._execute_command(0x16, half)
        with pytest.raises(pymysql.err.Error, match="close some"):
            connection._read_packet()
    assert lives(gateway)


def test_placeholders_are_those_of_the_parser() -> None:
    source = random.Random(5)
    parts = [*"?? '\"`\\#\n\ta1-/*,(", "''", "/*", "*/", "--", "-- ", "'a?'", "`a?`", "->>", "$$", "@"]
    compared = 0
    for _ in range(3000):
        sql = "".join(source.choices(parts, k=source.randrange(1, 12)))
        try:
            tokens = MySQL().tokenize(sql)
        except SqlglotError:
            continue
        if "??" not in sql:  # another operator, of which DuckDB makes two
            compared += 1
            assert placeholders(sql) == sum(each.token_type == TokenType.PLACEHOLDER for each in tokens), sql
    assert compared > 1000

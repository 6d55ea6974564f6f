"""Clients that lie, stall, leave or come in crowds: none stops the gateway, or hears more than it may."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from cleave.front.certificates import Certificate, self_signed
from tests.cli.runner import Cli, cli
from tests.functional.processes import HANGS, descendants, met
from tests.gateway.conftest import Gateway, connect, started
from tests.gateway.test_users import Raw, proven

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
    tls, gss = struct.pack("!II", 8, 80877103), struct.pack("!II", 8, 80877104)
    for content in (
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("!II", 0x7FFFFFFF, 3 << 16),  # more than may be sent before a login
        struct.pack("!II", 4, 3 << 16),
        struct.pack("!II", 0, 0),
        struct.pack("!II", 40, 3 << 16) + b"user\0own",  # cut
        struct.pack("!II", 9, 3 << 16) + b"\xff",
        struct.pack("!II", 8, 2 << 16),
        struct.pack("!II", 8, 80877102),
        struct.pack("!II", 12, 80877102) + bytes(4),
        tls + b"no TLS",
        tls + struct.pack("!II", 8, 3 << 16),  # before TLS, behind the wish for it
        gss + gss,
        gss + tls,
        tls + tls,
    ):
        said = sent(gateway, content)
        assert b"Traceback" not in said
        assert b"visits" not in said
    assert lives(gateway)


KINDS = (*map(bytes, zip(b"BCDEFHPQScdf")), b"p", b"\0", b"\xff", b"Z")


@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_the_gateway_survives_random_messages(gateway: Gateway, rounds: int) -> None:
    """Of clients that are logged in, too: each kind with random bytes behind it, and with those of another."""
    source = random.Random(7)
    for _ in range(20 * rounds):
        size = source.randrange(200)
        sent(gateway, struct.pack("!I", size + 4) + source.randbytes(size))
    whole = [b"s\0SELECT 1\0\0\0", b"\0s\0\0\0\0\0\0\0", b"\0\0\0\0\0", b"Ss\0", b"P\0", b"SELECT 1\0", b""]
    raw = logged_in(gateway)
    for _ in range(20 * rounds):
        for kind in KINDS:
            content = source.choice([source.randbytes(source.randrange(40)), source.choice(whole)])
            if content and source.random() < 0.3:
                content = content[: source.randrange(len(content))]
            raw.send(kind, content)
        raw.send(b"S")
        seen = list(iter(raw.read, (b"Z", b"I"))) if raw.socket.fileno() >= 0 else []
        if (b"", b"") in seen[:1]:
            raw.socket.close()
            raw = logged_in(gateway)
    raw.socket.close()
    assert lives(gateway)


def logged_in(gateway: Gateway, user: str = "owner") -> Raw:
    """By hand, up to the first ReadyForQuery."""
    raw = Raw(gateway)
    raw.startup(user)
    raw.read()
    raw.send(b"p", proven(b"n=,r=abcdefgh", raw.first()[1][4:]))
    while raw.read()[0] != b"Z":
        pass
    return raw


def test_lengths_are_looked_at_before_contents(gateway: Gateway) -> None:
    """A message that says it has 2 GB is not waited for; a value that says so is refused."""
    raw = logged_in(gateway)
    raw.socket.sendall(b"Q" + struct.pack("!I", 0x7FFFFFFF) + b"SELECT 1")
    assert raw.rest() == b""
    raw = logged_in(gateway)
    with contextlib.suppress(OSError):  # it is cut off before
        raw.send(b"Q", b"SELECT 1" + b" " * (5 << 20) + b"\0")
        raw.send(b"X")
    assert raw.rest() == b""
    raw = logged_in(gateway)
    raw.send(b"P", b"\0SELECT $1\0\0\0")
    for count, size in ((1, 0x7FFFFFFF), (1, -7), (0xFFFF, -1), (2, 1)):
        raw.send(b"B", b"\0\0\0\0" + struct.pack("!Hi", count, size) + b"x\0\0")
        raw.send(b"S")
        kind, content = raw.read()
        while kind != b"E":
            kind, content = raw.read()
        assert b"C08P01\0" in content
        assert raw.read()[0] == b"Z"
    raw.socket.close()
    assert lives(gateway)


def test_statements_and_portals_that_are_never_closed(gateway: Gateway) -> None:
    for kind, content in (
        (b"P", lambda number: b"s%d\0SELECT 1\0\0\0" % number),
        (b"B", lambda number: b"p%d\0\0\0\0\0\0\0\0" % number),
    ):
        raw = logged_in(gateway)
        raw.send(b"P", b"\0SELECT 1\0\0\0")
        for number in range(1100):
            raw.send(kind, content(number))
        raw.send(b"S")
        assert b"C54000\0" in b"".join(content for _, content in iter(raw.read, (b"Z", b"I")))
        raw.socket.close()
    raw = logged_in(gateway)
    large = b"SELECT '" + b"x" * (1 << 17) + b"'"
    for number in range(60):
        raw.send(b"P", b"s%d\0%s\0\0\0" % (number, large))
    raw.send(b"S")
    assert b"C54000" in b"".join(content for _, content in iter(raw.read, (b"Z", b"I")))
    raw.socket.close()
    assert lives(gateway)


def test_who_takes_nothing_is_waited_for_by_nobody(gateway: Gateway) -> None:
    """A slow client's answer is in memory, and its worker answers others."""
    raws = [logged_in(gateway, "owner") for _ in range(2)]
    for raw in raws:
        raw.send(b"Q", b"SELECT a.*, b.* FROM visits a, visits b WHERE b.id < 30\0")
    for _ in range(3):
        assert lives(gateway)
    for raw in raws:
        raw.socket.shutdown(socket.SHUT_WR)  # half closed: it may still read
        raw.socket.close()
    assert lives(gateway)


def test_two_hundred_silent_connections_keep_nobody_out(gateway: Gateway) -> None:
    with ExitStack() as stack:
        held = [stack.enter_context(closing(gateway.connect())) for _ in range(12)]
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port))) for _ in range(188)]
        assert len(silent) == 188
        for connection in held[::4]:
            assert connection.execute("SELECT COUNT(*) FROM wards").fetchall() == [(3,)]
    assert lives(gateway)


@pytest.mark.parametrize("formats", [(0, 1, 1), (7,), (1, -1)])
def test_formats_that_do_not_fit(gateway: Gateway, formats: tuple[int, ...]) -> None:
    """The message is wrong, not the statement."""
    raw = logged_in(gateway)
    raw.send(b"P", b"\0SELECT 1, 2\0\0\0")
    raw.send(b"B", bytes(6) + struct.pack(f"!H{len(formats)}h", len(formats), *formats))
    raw.send(b"E", bytes(5))
    raw.send(b"S")
    (said,) = [content for kind, content in iter(raw.read, (b"Z", b"I")) if kind == b"E"]
    assert b"C08P01\0" in said
    raw.socket.close()


def test_fewer_values_than_parameters_are_not_bound(gateway: Gateway) -> None:
    """The statement stays, and is bound with as many as it has."""
    raw = logged_in(gateway)
    raw.send(b"P", b"s\0SELECT $1, $2\0" + struct.pack("!HII", 2, 25, 25))
    for values in (0, 1):
        raw.send(b"B", b"\0s\0\0\0" + struct.pack("!H", values) + struct.pack("!is", 1, b"x") * values + bytes(2))
        raw.send(b"S")
        kinds, said = zip(*iter(raw.read, (b"Z", b"I")), strict=True)
        assert kinds[-1:] == (b"E",)
        assert b"2" not in kinds
        assert b"C08P01\0" in said[-1]
        assert b"%d parameters are bound, and the statement has 2" % values in said[-1]
    raw.send(b"B", b"\0s\0\0\0" + struct.pack("!H", 2) + struct.pack("!is", 1, b"x") * 2 + bytes(2))
    raw.send(b"E", bytes(5))
    raw.send(b"S")
    assert [kind for kind, _ in iter(raw.read, (b"Z", b"I"))] == [b"2", b"D", b"C"]
    raw.socket.close()


@pytest.mark.parametrize("most", [-1, -(1 << 31), 0])
def test_no_limit_of_rows_is_none(gateway: Gateway, most: int) -> None:
    raw = logged_in(gateway)
    raw.send(b"P", b"\0SELECT ward FROM wards\0\0\0")
    raw.send(b"B", bytes(8))
    raw.send(b"E", b"\0" + struct.pack("!i", most))
    raw.send(b"S")
    assert [kind for kind, _ in iter(raw.read, (b"Z", b"I"))] == [b"1", b"2", b"D", b"D", b"D", b"C"]
    raw.socket.close()


def test_a_prepared_fetch_has_the_columns_of_its_cursor(gateway: Gateway) -> None:
    raw = logged_in(gateway)
    for sql in (b"BEGIN", b"DECLARE c CURSOR FOR SELECT region FROM wards"):
        raw.send(b"Q", sql + b"\0")
        assert [kind for kind, _ in iter(raw.read, (b"Z", b"T"))] == [b"C"]
    raw.send(b"P", b"f\0FETCH 1 FROM c\0\0\0")
    for _ in range(2):  # before the first row and behind it
        raw.send(b"D", b"Sf\0")
        raw.send(b"B", b"\0f\0" + bytes(6))
        raw.send(b"E", bytes(5))
        raw.send(b"S")
        seen = [each for each in iter(raw.read, (b"Z", b"T")) if each[0] != b"1"]
        assert [kind for kind, _ in seen] == [b"t", b"T", b"2", b"D", b"C"]
        assert seen[1][1].startswith(b"\0\1region\0")
    raw.socket.close()


def workers(gateway: Gateway) -> set[int]:
    return set(descendants(gateway.process.pid))


def test_a_statement_that_is_refused_leaves_its_worker(gateway: Gateway) -> None:
    with closing(gateway.connect()) as cursor:
        cursor.execute("SELECT COUNT(*) FROM wards")
        before = workers(gateway)
        for sql in ("DROP TABLE visits", "SELECT nothing FROM visits", "SELECT CAST(name AS INTEGER) AS c FROM visits"):
            with pytest.raises(psycopg.Error):
                cursor.execute(sql)
        cursor.execute("SELECT COUNT(*) FROM wards")
        assert workers(gateway) == before


@pytest.mark.parametrize("half", [False, True])
def test_a_client_that_leaves_stops_its_question(gateway: Gateway, half: bool) -> None:
    lives(gateway)
    raw = logged_in(gateway)
    before = workers(gateway)
    raw.send(b"Q", SLOW.encode() + b"\0")
    if half:
        raw.socket.shutdown(socket.SHUT_WR)
    else:
        raw.socket.close()
    assert met(lambda: before - workers(gateway))  # its worker is ended
    raw.socket.close()
    assert lives(gateway)


def test_a_question_is_cancelled(gateway: Gateway) -> None:
    with closing(gateway.connect()) as one:
        caught: list[Exception] = []

        def ask() -> None:
            try:
                one.execute(SLOW)
            except psycopg.Error as error:
                caught.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        while thread.is_alive():
            one.cancel_safe()
            thread.join(0.5)
        assert isinstance(caught[0], psycopg.errors.QueryCanceled)
        assert one.execute("SELECT COUNT(*) FROM wards").fetchall() == [(3,)]


def test_a_long_question_stops_nobody_else(gateway: Gateway) -> None:
    """Two workers: one user gets one of them at most."""
    busy = [logged_in(gateway) for _ in range(3)]
    for raw in busy:
        raw.send(b"Q", SLOW.encode() + b"\0")
    assert gateway.rows("SELECT COUNT(*) FROM visits", "counter") == [(3000,)]
    for raw in busy:
        raw.socket.close()
    assert lives(gateway)


def test_limits_of_a_question(gateway: Gateway) -> None:
    with closing(gateway.connect()) as cursor:
        cursor.execute("SET statement_timeout = 300")
        with pytest.raises(psycopg.Error, match=r"0\.3 s|not answered|longer"):
            cursor.execute(SLOW)
        cursor.execute("SET statement_timeout = 0")
        with pytest.raises(psycopg.Error, match="more than"):
            cursor.execute("SELECT a.id FROM visits a, visits b WHERE b.id < 400")
        with pytest.raises(psycopg.Error):
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
        given = {"host": "localhost", "sslmode": "verify-full", "sslrootcert": pem, "channel_binding": "require"}
        with closing(connect(port, **given)) as connection:
            assert connection.execute("SHOW TABLES").fetchall() == [("wards",)]
            assert connection.pgconn.ssl_in_use
        children = descendants(process.pid)
        assert children
        process.kill()
    assert met(lambda: not any(Path(f"/proc/{each}/exe").exists() for each in children))


def test_the_key_of_a_made_certificate_is_on_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    Certificate(None, None)


def test_long_statements_hold_up_nobody(gateway: Gateway) -> None:
    """Some are looked at where all clients are served."""
    with closing(gateway.connect("counter")) as connection:
        for sql in ("/**/" * 60_000, "-- \n" * 60_000, ";" * 200_000):
            assert connection.execute(sql).description is None
        for sql in (
            "SELECT " + "1+" * 100_000 + "1",
            "(" * (1 << 17),
            "SELECT '" + "x" * (1 << 21) + "'",
            "SELECT 1;" * 60_000,
        ):
            with pytest.raises(psycopg.Error, match="characters"):
                connection.execute(sql)
    assert lives(gateway)


def test_a_statement_about_the_session_is_no_other(gateway: Gateway) -> None:
    """Statements behind it are statements of their own, with the rights of the user."""
    with closing(gateway.connect("wards_only")) as connection:
        for sql in ("BEGIN; SELECT COUNT(*) FROM visits", "SET jit = off; DECLARE c CURSOR FOR TABLE visits; FETCH c"):
            with pytest.raises(psycopg.errors.UndefinedTable):
                connection.execute(sql)
            connection.execute("ROLLBACK")

"""Who may connect, and what each user may ask."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from contextlib import closing

import pymysql
import pytest

from cleave.share import users
from cleave.share.users import read_users, write_user
from cleave_shared.errors import InputError, KeyFileError
from tests.gateway.conftest import PASSWORD, Gateway


def test_a_wrong_password_and_an_unknown_user_are_alike(gateway: Gateway) -> None:
    told = set()
    for user, password in (("owner", "wrong"), ("nobody", PASSWORD), ("owner", ""), ("owner", PASSWORD + " ")):
        with pytest.raises(pymysql.err.OperationalError) as caught:
            gateway.connect(user, password=password)
        told.add(str(caught.value).replace(user, "?").replace("a password is needed", "Access denied for user ?"))
    assert told == {"(1045, 'Access denied for user ?')"}


def packet(sequence: int, content: bytes) -> bytes:
    return struct.pack("<I", len(content) | sequence << 24) + content


def read_packet(connection: socket.socket) -> bytes:
    head = connection.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        return b""
    return connection.recv(struct.unpack("<I", head)[0] & 0xFFFFFF, socket.MSG_WAITALL)


def test_who_is_refused_is_cut_off(gateway: Gateway) -> None:
    """mysql-mimic alone tells the client, and takes its next statement."""
    with socket.create_connection(("127.0.0.1", gateway.port), 600) as connection:
        read_packet(connection)
        login = struct.pack("<IIB23x", 0x000F_A28D, 1 << 24, 45) + b"owner\0" + b"\x20" + b"x" * 32 + b"cleave\0"
        connection.sendall(packet(1, login + b"caching_sha2_password\0"))
        assert read_packet(connection) == b"\x01\x04"  # the password itself is wanted
        connection.sendall(packet(3, b"not this one\0"))
        assert read_packet(connection)[0] == 0xFF
        rest = b""
        with contextlib.suppress(OSError):
            connection.sendall(packet(0, b"\x03SELECT COUNT(*) FROM visits"))
            for each in iter(lambda: connection.recv(1 << 16), b""):
                rest += each
        assert b"COUNT" not in rest
        assert b"3000" not in rest


def test_a_change_of_user_needs_its_password(gateway: Gateway) -> None:
    with closing(gateway.connect("owner")) as connection:
        sent = b"\x11wards_only\0\x20" + b"x" * 32 + b"cleave\0" + struct.pack("<H", 45) + b"caching_sha2_password\0\0"
        connection._next_seq_id = 0
        connection.write_packet(sent)
        connection._read_packet()
        connection.write_packet(b"wrong\0")
        with pytest.raises(pymysql.err.Error):
            connection._read_packet()
        with pytest.raises((pymysql.err.Error, OSError)):
            connection.query("SELECT COUNT(*) FROM visits")


def test_tables_of_others_do_not_exist(gateway: Gateway) -> None:
    assert gateway.rows("SHOW TABLES", "wards_only") == [("wards",)]
    assert gateway.rows("SELECT COUNT(*) FROM wards", "wards_only") == [(3,)]
    told = set()
    for sql in (
        "SELECT COUNT(*) FROM visits",
        "SELECT COUNT(*) FROM wards JOIN visits USING (ward)",
        "SELECT (SELECT MAX(id) FROM visits) FROM wards",
        "WITH w AS (SELECT * FROM visits) SELECT COUNT(*) FROM w, wards",
        "SELECT COUNT(*) FROM `cleave`.`visits`",
        "SELECT COUNT(*) FROM VISITS",
        "DESCRIBE visits",
        "SHOW CREATE TABLE visits",
    ):
        for name in ("visits", "absents") if sql.endswith(" visits") else ("visits",):
            with pytest.raises(pymysql.err.Error) as caught:
                gateway.rows(sql.replace("visits", name).replace("VISITS", name), "wards_only")
            told.add(str(caught.value).replace("absents", "visits"))
    assert told == {"(1105, \"there is no table 'visits' (SHOW TABLES lists them)\")"}
    with pytest.raises(pymysql.err.Error) as caught:
        gateway.rows("SELECT blil FROM wards", "wards_only")
    assert "bill" not in str(caught.value)
    columns = gateway.rows("SELECT DISTINCT table_name FROM information_schema.columns", "wards_only")
    assert columns == [("wards",)]


def test_without_rows_sums_alone_are_answered(gateway: Gateway) -> None:
    assert gateway.rows("SELECT SUM(bill) FROM visits", "counter") == gateway.rows("SELECT SUM(bill) FROM visits")
    for sql in ("SELECT name FROM visits LIMIT 1", "SELECT MEDIAN(bill) FROM visits", "SELECT MAX(id) FROM visits"):
        with pytest.raises(pymysql.err.Error):
            gateway.rows(sql, "counter")


def test_small_groups_are_left_out(gateway: Gateway) -> None:
    """Each ward has 750 rows, and all of them together 3,000."""
    sql = "SELECT ward, COUNT(*) FROM visits GROUP BY ward"
    assert len(gateway.rows(sql, "counter")) == 4
    assert gateway.rows(sql, "grouped") == []
    assert gateway.rows("SELECT COUNT(*) FROM visits", "grouped") == [(3000,)]


def test_a_question_of_another_user_cannot_be_killed(gateway: Gateway) -> None:
    with closing(gateway.connect("owner")) as mine, closing(gateway.connect("counter")) as other:
        with pytest.raises(pymysql.err.Error), other.cursor() as cursor:
            cursor.execute(f"KILL {mine.thread_id()}")
        assert mine.ping() is None


def test_the_file_of_users(tmp_path, monkeypatch) -> None:
    path = tmp_path / "users.toml"
    told = {"tables": ["a"], "min_group": 3, "rows": False}
    write_user(path, "alice", PASSWORD.encode(), **told, token=False)
    token = write_user(path, "alice", None, **told, token=True)
    text = path.read_text()
    assert PASSWORD not in text
    assert token not in text
    assert path.stat().st_mode & 0o777 == 0o600
    held = read_users(path)
    assert held.with_password("alice", PASSWORD.encode()) == held.users["alice"]
    assert held.with_token(token) == ("alice", held.users["alice"])
    assert held.with_token(token[:-1] + "x") is None
    with pytest.raises(KeyFileError, match="the password has fewer than"):
        write_user(path, "bob", b"password", **told, token=False)
    assert list(read_users(path).users) == ["alice"]
    users.delete_user(path, "alice")
    with pytest.raises(InputError, match="no user"):
        users.delete_user(path, "alice")
    path.chmod(0o644)
    with pytest.raises(InputError, match="others on this machine"):
        read_users(path)
    path.chmod(0o600)
    for content in ("[users", "[users.x]\nroot = true", "users = 1", "[users.x]\npassword = 'secret'"):
        path.write_text(content)
        with pytest.raises(InputError) as caught:
            read_users(path)
        assert "secret" not in str(caught.value)
    os.truncate(path, 1 << 21)
    with pytest.raises(InputError, match="at most"):
        read_users(path)


def test_a_name_that_there_is_not_takes_as_long() -> None:
    hashed = users._hashed(b"a password of a user")
    assert users._NOBODY.split("$")[:4] == hashed.split("$")[:4]
    assert [len(part) for part in users._NOBODY.split("$")] == [len(part) for part in hashed.split("$")]
    assert users.Users().with_password("nobody", b"a password of a user") is None

"""Who may connect, and what each user may ask."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import socket
import struct
from base64 import b64decode, b64encode
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from cleave.logins import users
from cleave.logins.scram import Login, ScramError, Verifier, prepared
from cleave.logins.users import read_users, write_user
from cleave_shared.errors import InputError, KeyFileError
from tests.gateway.conftest import PASSWORD, Gateway, connect, started, stop


def test_a_wrong_password_and_an_unknown_user_are_alike(gateway: Gateway) -> None:
    told = set()
    for user, password in (("owner", "wrong"), ("nobody", PASSWORD), ("owner", "x"), ("owner", PASSWORD + " ")):
        with pytest.raises(psycopg.OperationalError) as caught:
            gateway.connect(user, password=password)
        told.add(str(caught.value).rpartition("FATAL")[2].replace(user, "?"))
    (said,) = told
    assert "password authentication failed for user '?'" in said


class Raw:
    """A client of PostgreSQL's protocol by hand."""

    def __init__(self, gateway: Gateway) -> None:
        self.socket = socket.create_connection(("127.0.0.1", gateway.port), 600)

    def startup(self, user: str = "owner", version: int = 3 << 16, **more: str) -> None:
        words = [word for pair in {"user": user, "database": "cleave", **more}.items() for word in pair]
        content = struct.pack("!I", version) + b"\0".join(each.encode() for each in words) + b"\0\0"
        self.socket.sendall(struct.pack("!I", len(content) + 4) + content)

    def send(self, kind: bytes, content: bytes = b"") -> None:
        self.socket.sendall(kind + struct.pack("!I", len(content) + 4) + content)

    def read(self) -> tuple[bytes, bytes]:
        """The next message; nothing at the end."""
        with contextlib.suppress(OSError):
            head = self.socket.recv(5, socket.MSG_WAITALL)
            if len(head) == 5:
                size = struct.unpack("!I", head[1:])[0] - 4
                return head[:1], self.socket.recv(size, socket.MSG_WAITALL) if size else b""
        return b"", b""

    def rest(self) -> bytes:
        with self.socket:
            return b"".join(kind + content for kind, content in iter(self.read, (b"", b"")))

    def first(self, mechanism: bytes = b"SCRAM-SHA-256", message: bytes = b"n,,n=,r=abcdefgh") -> tuple[bytes, bytes]:
        self.send(b"p", mechanism + b"\0" + struct.pack("!i", len(message)) + message)
        return self.read()


def test_a_name_that_is_no_users_has_a_salt_that_stays(gateway: Gateway) -> None:
    """And as many iterations as one that is."""
    seen: dict[str, set[bytes]] = {}
    for user in ("careful", "nobody", "somebody") * 2:
        raw = Raw(gateway)
        raw.startup(user)
        assert raw.read() == (b"R", b"\0\0\0\x0aSCRAM-SHA-256\0\0")
        kind, content = raw.first()
        assert kind == b"R"
        seen.setdefault(user, set()).add(content.partition(b",s=")[2])
        raw.socket.close()
    assert all(len(each) == 1 for each in seen.values())
    salts, iterations = zip(*(each.pop().split(b",") for each in seen.values()), strict=True)
    assert len({*salts}) == 3
    assert {*iterations} == {b"i=65536"}
    assert {len(b64decode(each)) for each in salts} == {16}


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (b"SCRAM-SHA-256-PLUS", b"p=tls-server-end-point,,n=,r=abc"),
        (b"SCRAM-SHA-256", b"p=tls-server-end-point,,n=,r=abc"),
        (b"SCRAM-SHA-256", b"n,a=owner,n=,r=abc"),
        (b"SCRAM-SHA-256", b"n,,m=x,n=,r=abc"),
        (b"SCRAM-SHA-256", b"n,,n=,r="),
        (b"SCRAM-SHA-256", b"n,,n=,r=\xff"),
        (b"SCRAM-SHA-256", b""),
        (b"SCRAM-SHA-1", b"n,,n=,r=abc"),
        (b"", b"n,,n=,r=abc"),
    ],
)
def test_a_first_message_that_is_none(gateway: Gateway, mechanism: bytes, message: bytes) -> None:
    raw = Raw(gateway)
    raw.startup()
    raw.read()
    kind, content = raw.first(mechanism, message)
    assert kind == b"E"
    assert b"C08P01\0" in content
    raw.send(b"Q", b"SELECT COUNT(*) FROM visits\0")
    assert b"3000" not in raw.rest()


def proven(first: bytes, said: bytes, password: str = PASSWORD) -> bytes:
    """The client's last message."""
    fields = dict(each.split("=", 1) for each in said.decode().split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), b64decode(fields["s"]), int(fields["i"]))
    key = hmac.digest(salted, b"Client Key", "sha256")
    final = f"c=biws,r={fields['r']}"
    signed = hmac.digest(hashlib.sha256(key).digest(), b",".join([first, said, final.encode()]), "sha256")
    return f"{final},p={b64encode(bytes(a ^ b for a, b in zip(key, signed, strict=True))).decode()}".encode()


def test_a_proof_that_was_seen_opens_nothing(gateway: Gateway) -> None:
    """Replayed, cut and with another nonce; nor does a message in its place."""

    def begun() -> tuple[Raw, bytes]:
        raw = Raw(gateway)
        raw.startup()
        raw.read()
        return raw, raw.first()[1][4:]

    raw, said = begun()
    proof = proven(b"n=,r=abcdefgh", said)
    raw.send(b"p", proof)
    assert raw.read()[1][:4] == b"\0\0\0\x0c"
    raw.socket.close()
    raw, said_to_other = begun()
    raw.socket.close()
    other = said_to_other.split(b",")[0]
    for content in (
        proof,
        proof[:-8],
        proof.replace(b"c=biws", b"c=eSws"),
        b"",
        proof.replace(said.split(b",")[0], other),
    ):
        raw, _ = begun()
        raw.send(b"p", content)
        assert raw.read()[0] == b"E", content
        raw.send(b"Q", b"SELECT COUNT(*) FROM visits\0")
        assert b"3000" not in raw.rest()
    raw, _ = begun()
    raw.send(b"Q", b"SELECT COUNT(*) FROM visits\0")
    assert raw.rest() == b""


def test_a_login_is_bound_to_the_certificate() -> None:
    """Python's own arithmetic on the client's side."""
    verifier = Verifier.read(str(Verifier.of(PASSWORD.encode())))
    binding = b"hash of a certificate"

    def final(login: Login, flag: str, bound: bytes, mechanism: str) -> bytes | None:
        said = login.first(mechanism, f"{flag},,n=,r=abc".encode())
        proof = proven(b"n=,r=abc", said).decode()
        cbind = b64encode(f"{flag},,".encode() + bound).decode()
        assert "c=biws" in proof
        del said
        return login.final(proof.replace("c=biws", f"c={cbind}").encode())

    assert Login(verifier, None).mechanisms == ["SCRAM-SHA-256"]
    assert Login(verifier, binding).mechanisms == ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"]
    assert final(Login(verifier, None), "n", b"", "SCRAM-SHA-256")
    with pytest.raises(ScramError, match="another machine is between"):
        final(Login(verifier, binding), "p=tls-server-end-point", b"another", "SCRAM-SHA-256-PLUS")
    with pytest.raises(ScramError, match="this server offers it"):  # somebody took PLUS out of the list
        final(Login(verifier, binding), "y", b"", "SCRAM-SHA-256")
    assert (
        final(Login(verifier, binding), "p=tls-server-end-point", binding, "SCRAM-SHA-256-PLUS") is None
    )  # proof is of `biws`


def test_a_password_of_the_standards_example() -> None:
    """RFC 7677, section 3."""
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    client, server = (hmac.digest(salted, word, "sha256") for word in (b"Client Key", b"Server Key"))
    login = Login(Verifier(4096, salt, hashlib.sha256(client).digest(), server), None)
    login.first("SCRAM-SHA-256", b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    login._nonce, login._said = nonce, f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert login.final(final.encode()) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    other = f"c=biws,r={nonce}x"  # proven, but for another nonce
    signed = hmac.digest(hashlib.sha256(client).digest(), f"{login._said},{other}".encode(), "sha256")
    proof = b64encode(bytes(a ^ b for a, b in zip(client, signed, strict=True))).decode()
    with pytest.raises(ScramError):
        login.final(f"{other},p={proof}".encode())


@pytest.mark.parametrize(
    ("password", "same"),
    [
        ("I\u00adX", "IX"),  # RFC 4013, section 3
        ("user", "user"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("a\u00a0b", "a b"),
        ("\u0007x", "\u0007x"),  # not allowed: as it is, as in PostgreSQL
        ("\u06271", "\u06271"),
    ],
)
def test_passwords_are_prepared_by_saslprep(password: str, same: str) -> None:
    assert prepared(password.encode()) == same.encode()
    assert prepared(b"\xff\xfe") == b"\xff\xfe"


@pytest.mark.parametrize(
    "password",
    ["I\u00adXeleven quiet herons 41", pytest.param("seventeen quiet herons \u2168", marks=pytest.mark.slow)],
)
def test_passwords_beyond_ascii(gateway: Gateway, tmp_path: Path, password: str) -> None:
    """libpq prepares them in its own way."""
    for name in ("store", "key.json"):
        (tmp_path / name).symlink_to(gateway.folder / name)
    write_user(tmp_path / "users.toml", "Inès", password.encode(), tables=None, min_group=0, rows=False, token=False)
    process, (address,) = started(tmp_path, "--workers", "1", "--tables", "wards")
    try:
        port = int(address.rpartition(":")[2])
        with closing(connect(port, "Inès", password=password)) as connection:
            assert connection.execute("SELECT COUNT(*) FROM wards").fetchall() == [(3,)]
    finally:
        stop(process)


def test_tables_of_others_do_not_exist(gateway: Gateway) -> None:
    assert gateway.rows("SHOW TABLES", "wards_only") == [("wards",)]
    assert gateway.rows("SELECT COUNT(*) FROM wards", "wards_only") == [(3,)]
    told = set()
    for sql in (
        "SELECT COUNT(*) FROM visits",
        "SELECT COUNT(*) FROM wards JOIN visits USING (ward)",
        "SELECT (SELECT MAX(id) FROM visits) FROM wards",
        "WITH w AS (SELECT * FROM visits) SELECT COUNT(*) FROM w, wards",
        'SELECT COUNT(*) FROM "cleave"."public"."visits"',
        "COPY visits TO STDOUT",
        "DECLARE c CURSOR FOR SELECT * FROM visits; FETCH c",
        "SELECT COUNT(*) FROM VISITS",
        "DESCRIBE visits",
    ):
        places = set()
        for name in ("visits", "absent"):
            with pytest.raises(psycopg.Error) as caught:
                gateway.rows(sql.replace("visits", name).replace("VISITS", name), "wards_only")
            said = caught.value.diag
            told.add(((said.message_primary or "").replace("absent", "visits"), said.message_hint))
            places.add(said.statement_position)
        assert len(places) == 1, sql
    assert told == {("there is no table 'visits'", "SHOW TABLES lists them")}
    with pytest.raises(psycopg.Error) as caught:
        gateway.rows("SELECT blil FROM wards", "wards_only")
    assert "bill" not in str(caught.value)
    for sql in (
        "SELECT DISTINCT table_name FROM information_schema.columns",
        "SELECT relname FROM pg_class",
        "SELECT tablename FROM pg_tables",
        "SELECT DISTINCT attrelid::regclass::text FROM pg_attribute",
    ):
        assert gateway.rows(sql, "wards_only") == [("wards",)]
    for sql in ("SELECT to_regclass('visits')", "SELECT 'visits'::regclass"):
        assert gateway.rows(sql, "wards_only") == [(None,)]


def test_without_rows_sums_alone_are_answered(gateway: Gateway) -> None:
    assert gateway.rows("SELECT SUM(bill) FROM visits", "counter") == gateway.rows("SELECT SUM(bill) FROM visits")
    for sql in ("SELECT name FROM visits LIMIT 1", "SELECT MEDIAN(bill) FROM visits", "SELECT MAX(id) FROM visits"):
        with pytest.raises(psycopg.Error):
            gateway.rows(sql, "counter")


def test_small_groups_are_left_out(gateway: Gateway) -> None:
    """Each ward has 750 rows, and all of them together 3,000."""
    sql = "SELECT ward, COUNT(*) FROM visits GROUP BY ward"
    assert len(gateway.rows(sql, "counter")) == 4
    assert gateway.rows(sql, "grouped") == []
    assert gateway.rows("SELECT COUNT(*) FROM visits", "grouped") == [(3000,)]


def cancel(gateway: Gateway, pid: int, key: bytes) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), 600) as other:
        content = struct.pack("!II", 80877102, pid) + key
        other.sendall(struct.pack("!I", len(content) + 4) + content)
        assert other.recv(1) == b""


def test_a_question_is_cancelled_with_its_key_alone(gateway: Gateway) -> None:
    """Of both lengths: 4 bytes, and 32 from version 3.2 on."""
    for version, size in ((3 << 16, 4), (3 << 16 | 2, 32), (3 << 16 | 9, 32)):
        raw = Raw(gateway)
        raw.startup(version=version)
        kind, content = raw.read()
        assert (kind == b"v") == (version == 3 << 16 | 9)
        if kind == b"v":
            assert content == struct.pack("!II", 3 << 16 | 2, 0)
            raw.read()
        raw.send(b"p", proven(b"n=,r=abcdefgh", raw.first()[1][4:]))
        told = dict(iter(raw.read, (b"Z", b"I")))
        pid, key = struct.unpack("!I", told[b"K"][:4])[0], told[b"K"][4:]
        assert len(key) == size
        raw.send(b"Q", b"SELECT COUNT(*) FROM visits a, visits b, visits c WHERE a.name < b.name AND b.name < c.name\0")
        for wrong in (b"", bytes(size), key[:-1], key + b"x", key[::-1] + b"y"):
            cancel(gateway, pid, wrong)
        cancel(gateway, pid + 1, key)
        raw.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            raw.socket.recv(1)
        raw.socket.settimeout(600)
        cancel(gateway, pid, key)
        kind, content = raw.read()
        assert kind == b"E"
        assert b"C57014\0" in content
        raw.socket.close()


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
    assert held.users["alice"].password == str(held.verifier("alice"))
    assert held.verifier("bob") == held.verifier("bob") != held.verifier("alice")
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
    for content in ("[users", "[users.x]\nroot = true", "users = 1", "[users.x]\npassword = 'canary'"):
        path.write_text(content)
        with pytest.raises(InputError) as caught:
            read_users(path)
        assert "canary" not in str(caught.value)
    os.truncate(path, 1 << 21)
    with pytest.raises(InputError, match="at most"):
        read_users(path)


@pytest.mark.parametrize(
    ("sql", "wrong"),
    [
        ("SELECT 'ź', nosuch FROM visits", "nosuch"),
        ("SELECT 1; /* ź */ SELECT 1 FROM visits; -- ź\n SELECT nosuch FROM visits", "nosuch"),
        ("SELECT COUNT(*) FROM\n visitz", "visitz"),
        ("SELECT COUNT(*) FROM visits WHERE day > 2025", "2025"),
        ("COPY (SELECT nosuch FROM visits) TO STDOUT", "nosuch"),
        ("SELECT 'ź' FORM visits", "visits"),
        ("SELECT SUM(id) FROM visits HAVING CAST('x' AS INTEGER) = 1", None),
        ("COPY visitz TO STDOUT", None),
    ],
)
def test_an_error_has_its_place_in_the_text(gateway: Gateway, sql: str, wrong: str | None) -> None:
    with closing(gateway.connect()) as connection:
        said = connection.pgconn.exec_(sql.encode())
        assert said.status == psycopg.pq.ExecStatus.FATAL_ERROR
        place = said.error_field(psycopg.pq.DiagnosticField.STATEMENT_POSITION)
        assert (place and int(place)) == (sql.index(wrong) + 1 if wrong else None)


def test_an_error_has_its_place_in_a_prepared_statement_and_in_a_cursor(gateway: Gateway) -> None:
    for user in ("owner", "counter"):
        with closing(gateway.connect(user)) as connection:
            sql = " /* ź */ SELECT SUM(nosuch) FROM visits WHERE ward = $1"
            connection.pgconn.prepare(b"a", sql.encode())
            said = connection.pgconn.describe_prepared(b"a")
            place = said.error_field(psycopg.pq.DiagnosticField.STATEMENT_POSITION)
            assert int(place or 0) == sql.index("nosuch") + 1
            declared = "DECLARE c CURSOR WITH HOLD FOR SELECT SUM(nosuch) FROM visits"
            connection.execute(declared)
            with pytest.raises(psycopg.errors.UndefinedColumn) as caught:
                connection.execute("FETCH c")
            assert int(caught.value.diag.statement_position or 0) == declared.index("nosuch") + 1


@pytest.mark.parametrize("sql", ["SELECT COUNT(*) FROM visitz", "DESCRIBE visitz"])
def test_a_misspelled_table_is_guessed_among_those_of_the_user(gateway: Gateway, sql: str) -> None:
    for user, hint in (("owner", "did you mean 'visits'?"), ("wards_only", "SHOW TABLES lists them")):
        with pytest.raises(psycopg.errors.UndefinedTable) as caught:
            gateway.rows(sql, user)
        assert caught.value.diag.message_hint == hint

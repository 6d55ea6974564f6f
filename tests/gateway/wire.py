"""PostgreSQL's protocol 3.0 by its documentation: messages as lists for JSON, and a client that sends what it is told.

It shares no code with the gateway. A value that is no text is a list of its bytes in hexadecimal.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.functional.processes import HANGS

Message = list[Any]
"""A message: its letter, then its fields."""

SSL_REQUEST: Final = struct.pack("!II", 8, 80877103)
PROTOCOL: Final = 196608


class Reader:
    """Fields of one message's body."""

    def __init__(self, body: bytes) -> None:
        self.body, self.place = body, 0

    def take(self, size: int) -> bytes:
        start, self.place = self.place, self.place + size
        assert self.place <= len(self.body), "a message ends early"
        return self.body[start : self.place]

    def number(self, kind: str) -> int:
        return int(struct.unpack("!" + kind, self.take(struct.calcsize("!" + kind)))[0])

    def name(self) -> str:
        end = self.body.index(b"\0", self.place)
        text = self.body[self.place : end].decode()
        self.place = end + 1
        return text

    def several(self, kind: str) -> list[int]:
        return [self.number(kind) for _ in range(self.number("H"))]

    def value(self) -> bytes | None:
        size = self.number("i")
        return None if size < 0 else self.take(size)

    def rest(self) -> bytes:
        return self.take(len(self.body) - self.place)


def cell(value: bytes | None, form: int = 0) -> Any:
    """A value for JSON: text in format 0, a list of one hexadecimal text in format 1."""
    if value is None:
        return None
    return [value.hex()] if form else value.decode()


def uncell(value: Any) -> bytes | None:
    if value is None:
        return None
    return bytes.fromhex(value[0]) if isinstance(value, list) else str(value).encode()


def form_of(forms: Sequence[int], place: int) -> int:
    """The format of one of several values, of which all may have one, or none a stated one."""
    return (forms[place] if len(forms) > 1 else forms[0]) if forms else 0


def from_client(tag: str, body: bytes) -> Message:
    fields = Reader(body)
    if tag == "Q":
        return ["Q", fields.name()]
    if tag == "P":
        return ["P", fields.name(), fields.name(), fields.several("I")]
    if tag == "B":
        names = [fields.name(), fields.name()]
        forms = fields.several("h")
        values = [cell(fields.value(), form_of(forms, place)) for place in range(fields.number("H"))]
        return ["B", *names, forms, values, fields.several("h")]
    if tag in "DC":
        return [tag, fields.take(1).decode(), fields.name()]
    if tag == "E":
        return ["E", fields.name(), fields.number("I")]
    if tag == "p":
        return ["p"]
    return [tag, *([body.hex()] if body else [])]


def to_server(message: Message) -> bytes:
    """The bytes of a message of `from_client`."""
    tag, *fields = message

    def name(text: str) -> bytes:
        return text.encode() + b"\0"

    def many(kind: str, numbers: Iterable[int]) -> bytes:
        held = list(numbers)
        return struct.pack(f"!H{len(held)}{kind}", len(held), *held)

    if tag == "Q":
        body = name(fields[0])
    elif tag == "P":
        body = name(fields[0]) + name(fields[1]) + many("I", fields[2])
    elif tag == "B":
        body = name(fields[0]) + name(fields[1]) + many("h", fields[2]) + struct.pack("!H", len(fields[3]))
        for value in map(uncell, fields[3]):
            body += struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value
        body += many("h", fields[4])
    elif tag in "DC":
        body = fields[0].encode() + name(fields[1])
    elif tag == "E":
        body = name(fields[0]) + struct.pack("!I", fields[1])
    else:
        body = bytes.fromhex(fields[0]) if fields else b""
    return framed(tag, body)


def framed(tag: str, body: bytes) -> bytes:
    return tag.encode() + struct.pack("!I", len(body) + 4) + body


class FromServer:
    """Reads a server's messages; it remembers the formats of the rows that follow, by what the client sent."""

    def __init__(self) -> None:
        self.forms: list[int] = []
        self.asked: deque[Message] = deque()

    def sent(self, message: Message) -> None:
        if message[0] in "BQS":
            self.asked.append(message)

    def _reached(self, tags: str) -> Message:
        """Leave behind what the client sent, up to the message that is answered."""
        while self.asked:
            if (message := self.asked.popleft())[0] in tags:
                return message
        raise AssertionError("an answer that nothing asked for")

    def __call__(self, tag: str, body: bytes) -> Message:
        fields = Reader(body)
        if tag == "T":
            columns = []
            for _ in range(fields.number("H")):
                name = fields.name()
                fields.take(6)  # a table's OID, a column's number
                kind, size, mod, form = (fields.number(each) for each in "Ihih")
                columns.append([name, kind, size, mod, form])
            self.forms = [each[-1] for each in columns]
            return ["T", columns]
        if tag == "D":
            return ["D", [cell(fields.value(), form_of(self.forms, place)) for place in range(fields.number("H"))]]
        if tag == "2":
            self.forms = self._reached("B")[5]
        if tag in "EN":
            held = {}
            while (letter := fields.take(1)) != b"\0":
                held[letter.decode()] = fields.name()
            return [tag, {each: held[each] for each in "SCM" if each in held}]
        if tag == "S":
            return ["S", fields.name(), fields.name()]
        if tag in "CA":
            return [tag, fields.name()]
        if tag == "Z":
            self._reached("QS")
            return ["Z", fields.take(1).decode()]
        if tag == "t":
            return ["t", fields.several("I")]
        if tag in "HG":
            return [tag, fields.number("b"), fields.several("h")]
        if tag == "d":
            try:
                return ["d", body.decode()]
            except UnicodeDecodeError:
                return ["d", [body.hex()]]
        return [tag, *([body.hex()] if body else [])]


class Refused(Exception):  # noqa: N818 - an answer, not a defect
    """An ErrorResponse: its fields by letter."""

    def __init__(self, fields: dict[str, str]) -> None:
        super().__init__(fields.get("M", ""))
        self.fields = fields
        self.code = fields.get("C", "")


@dataclass(frozen=True, slots=True)
class Proof:
    """What a client tells of a password in SCRAM-SHA-256 (RFC 5802, RFC 7677)."""

    first_bare: str
    nonce: str

    def final(self, server_first: str, password: str, binding: bytes = b"n,,") -> tuple[str, bytes]:
        """The last message, and the signature by which the server proves itself."""
        told = dict(each.split("=", 1) for each in server_first.split(","))
        assert told["r"].startswith(self.nonce)
        assert len(told["r"]) > len(self.nonce)
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(told["s"]), int(told["i"]))
        key = hmac.digest(salted, b"Client Key", "sha256")
        without = f"c={base64.b64encode(binding).decode()},r={told['r']}"
        signed = f"{self.first_bare},{server_first},{without}".encode()
        signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
        proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        expected = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256")
        return f"{without},p={base64.b64encode(proof).decode()}", expected


class Wire:
    """A connection that sends messages as they are given. `parameters`: what the server reported of the session."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self.socket: socket.socket = socket.create_connection((host, port), timeout=HANGS)
        if context:
            self.socket.sendall(SSL_REQUEST)
            assert self.socket.recv(1) == b"S"
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self.read_message = FromServer()
        self.parameters: dict[str, str] = {}
        self.key = (0, b"")

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *messages: Message) -> None:
        for each in messages:
            self.read_message.sent(each)
        self.socket.sendall(b"".join(map(to_server, messages)))

    def exactly(self, size: int) -> bytes:
        """Raises ConnectionError where the server has ended the connection."""
        held = bytearray()
        while len(held) < size:
            more = self.socket.recv(size - len(held))
            if not more:
                raise ConnectionError("the server ended the connection")
            held += more
        return bytes(held)

    def raw(self) -> tuple[str, bytes]:
        tag = self.exactly(1).decode()
        (size,) = struct.unpack("!I", self.exactly(4))
        return tag, self.exactly(size - 4)

    def receive(self) -> Message:
        return self.read_message(*self.raw())

    def until(self, last: Callable[[Message], bool]) -> list[Message]:
        """Messages up to the one for which `last` holds."""
        found = [self.receive()]
        while not last(found[-1]):
            found.append(self.receive())
        return found

    def ready(self) -> list[Message]:
        """Messages up to ReadyForQuery."""
        return self.until(lambda message: message[0] == "Z")

    def ask(self, *messages: Message) -> list[Message]:
        self.send(*messages)
        return self.ready()

    def startup(self, version: int = PROTOCOL, **parameters: str) -> None:
        body = struct.pack("!I", version) + b"".join(f"{key}\0{value}\0".encode() for key, value in parameters.items())
        self.socket.sendall(struct.pack("!I", len(body) + 5) + body + b"\0")

    def challenge(self) -> tuple[int, Reader]:
        """The next authentication request. Raises Refused."""
        tag, body = self.raw()
        if tag == "E":
            raise Refused(self.read_message("E", body)[1])
        assert tag == "R", tag
        fields = Reader(body)
        return fields.number("I"), fields

    def scram(self, name: str, nonce: str = "fyko+d2lbbFgONRv9qkxdawL") -> tuple[Proof, str]:
        """Send the first message of SCRAM-SHA-256; give the server's first. Raises Refused."""
        proof = Proof(f"n={name},r={nonce}", nonce)
        first = f"n,,{proof.first_bare}".encode()
        self.socket.sendall(framed("p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first))
        code, fields = self.challenge()
        assert code == 11
        return proof, fields.rest().decode()

    def login(self, password: str, **parameters: str) -> list[Message]:
        """Log in, prove and be proven to; give what the server says up to ReadyForQuery. Raises Refused."""
        self.startup(**parameters)
        code, fields = self.challenge()
        if code == 0:  # a server that trusts everyone
            return self._opened()
        assert code == 10, f"authentication {code} instead of SASL"
        offered = fields.rest().decode().split("\0")
        assert "SCRAM-SHA-256" in offered, offered
        proof, server_first = self.scram("")
        final, expected = proof.final(server_first, password)
        self.socket.sendall(framed("p", final.encode()))
        code, fields = self.challenge()
        assert code == 12
        assert fields.rest() == b"v=" + base64.b64encode(expected)
        code, _ = self.challenge()
        assert code == 0
        return self._opened()

    def _opened(self) -> list[Message]:
        self.read_message.sent(["S"])  # its end is as of a Sync
        said = []
        while not said or said[-1][0] != "Z":
            tag, body = self.raw()
            if tag == "K":
                self.key = (Reader(body).number("I"), body[4:])
            said.append(self.read_message(tag, body))
        self.parameters = {each[1]: each[2] for each in said if each[0] == "S"}
        return said

    def cancel(self, port: int) -> None:
        """Ask to end this connection's statement, as clients do: over another connection."""
        with socket.create_connection(("127.0.0.1", port), timeout=HANGS) as other:
            body = struct.pack("!II", 80877102, self.key[0]) + self.key[1]
            other.sendall(struct.pack("!I", len(body) + 4) + body)
            other.recv(1)

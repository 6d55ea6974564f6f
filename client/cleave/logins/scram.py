"""SCRAM-SHA-256 (RFC 5802, RFC 7677): the verifier of a password, and the server's side of a login.

A verifier is stored in PostgreSQL's format. It cannot be used to log in. A thief of it can try passwords, each at the
cost of 65,536 iterations of PBKDF2, and can impersonate the server.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import stringprep
import unicodedata
from dataclasses import dataclass
from typing import Final

PLAIN, BOUND = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"
PATTERN: Final = r"^SCRAM-SHA-256\$\d{4,7}:[A-Za-z0-9+/=]{4,100}\$[A-Za-z0-9+/]{43}=:[A-Za-z0-9+/]{43}=$"
# RFC 7677 demands at least 4,096; some drivers compute them in Python, pgJDBC accepts 100,000
_ITERATIONS: Final = 1 << 16
_FIRST: Final = re.compile(r"(?P<gs2>(?P<flag>n|y|p=tls-server-end-point),,)(?P<bare>n=[^,]*,r=(?P<nonce>[!-+\--~]+))")
_FINAL: Final = re.compile(r"(?P<without>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[!-+\--~]+)),p=(?P<proof>[^,]+)")
_PROHIBITED: Final = (
    *(stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4),
    *(stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8),
    *(stringprep.in_table_c9, stringprep.in_table_a1),
)


class ScramError(Exception):
    """A client's message does not follow the protocol."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """Verifier of a password. `stored`, `server`: StoredKey and ServerKey of RFC 5802."""

    iterations: int
    salt: bytes
    stored: bytes
    server: bytes

    @staticmethod
    def of(password: bytes) -> Verifier:
        salt = secrets.token_bytes(16)
        salted = hashlib.pbkdf2_hmac("sha256", prepared(password), salt, _ITERATIONS)
        client, server = (hmac.digest(salted, word, "sha256") for word in (b"Client Key", b"Server Key"))
        return Verifier(_ITERATIONS, salt, hashlib.sha256(client).digest(), server)

    @staticmethod
    def read(text: str) -> Verifier:
        """`text` matches PATTERN."""
        _, settings, keys = text.split("$")
        iterations, _, salt = settings.partition(":")
        stored, _, server = keys.partition(":")
        return Verifier(int(iterations), *map(base64.b64decode, (salt, stored, server)))

    @staticmethod
    def of_no_password(name: str, secret: bytes) -> Verifier:
        """A verifier that fits no password. A name always gets the same salt, so nobody can tell users from other
        names.
        """
        salt, stored, server = (hmac.digest(secret, word + name.encode(), "sha256") for word in (b"a", b"b", b"c"))
        return Verifier(_ITERATIONS, salt[:16], stored, server)

    def __str__(self) -> str:
        return f"{PLAIN}${self.iterations}:{_base64(self.salt)}${_base64(self.stored)}:{_base64(self.server)}"


class Login:
    """One login. `binding`: with TLS, the hash of the server's certificate (tls-server-end-point, RFC 5929)."""

    def __init__(self, verifier: Verifier, binding: bytes | None) -> None:
        self._verifier = verifier
        self._binding = binding
        self._nonce = self._said = ""
        self._bound = b""

    @property
    def mechanisms(self) -> list[str]:
        return [PLAIN] if self._binding is None else [BOUND, PLAIN]

    def first(self, mechanism: str, message: bytes) -> bytes:
        """Answer the client's first message. Raises ScramError, also if a machine in between hid the channel
        binding.
        """
        read = _FIRST.fullmatch(_ascii(message))
        if read is None or mechanism not in self.mechanisms:
            raise ScramError("the first message of the login cannot be read")
        if read["flag"] == "y" and self._binding is not None:
            raise ScramError("the client was not offered channel binding, but this server offers it")
        if (mechanism == BOUND) != (read["flag"] == "p=tls-server-end-point"):
            raise ScramError("the channel binding is not the one of the mechanism")
        self._bound = read["gs2"].encode() + (self._binding or b"" if mechanism == BOUND else b"")
        self._nonce = read["nonce"] + secrets.token_urlsafe(24)
        said = f"r={self._nonce},s={_base64(self._verifier.salt)},i={self._verifier.iterations}"
        self._said = f"{read['bare']},{said}"
        return said.encode()

    def final(self, message: bytes) -> bytes | None:
        """The server's last message; None for a wrong password. Raises ScramError."""
        read = _FINAL.fullmatch(_ascii(message))
        if read is None or not hmac.compare_digest(read["nonce"], self._nonce):
            raise ScramError("the last message of the login cannot be read")
        try:
            binding, proof = (base64.b64decode(read[name], validate=True) for name in ("binding", "proof"))
        except binascii.Error:
            raise ScramError("the last message of the login cannot be read") from None
        if not hmac.compare_digest(binding, self._bound):
            raise ScramError("the channel binding does not fit: another machine is between client and server")
        said = f"{self._said},{read['without']}".encode()
        signature = hmac.digest(self._verifier.stored, said, "sha256")
        client = bytes(a ^ b for a, b in zip(proof.ljust(32, b"\0")[:32], signature, strict=True))
        if len(proof) != 32 or not hmac.compare_digest(hashlib.sha256(client).digest(), self._verifier.stored):
            return None
        return b"v=" + base64.b64encode(hmac.digest(self._verifier.server, said, "sha256"))


def prepared(password: bytes) -> bytes:
    """The password after SASLprep (RFC 4013). As in PostgreSQL, a password that it forbids is not changed."""
    try:
        text = password.decode()
    except UnicodeDecodeError:
        return password
    mapped = [" " if stringprep.in_table_c12(each) else each for each in text if not stringprep.in_table_b1(each)]
    text = unicodedata.normalize("NFKC", "".join(mapped))
    right = [stringprep.in_table_d1(each) for each in text]
    mixed = any(right) and (any(map(stringprep.in_table_d2, text)) or not (right[0] and right[-1]))
    if not text or mixed or any(prohibits(each) for each in text for prohibits in _PROHIBITED):
        return password
    return text.encode()


def _ascii(message: bytes) -> str:
    return message.decode("utf-8", "replace")


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()

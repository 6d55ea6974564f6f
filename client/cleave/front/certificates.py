"""A server's certificate: from files, which can be read again, or created for this process."""

from __future__ import annotations

import contextlib
import datetime
import os
import ssl
from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import MD5, SHA1, SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from cleave.files import read_at_most
from cleave_shared.errors import InputError

_MOST_BYTES = 1 << 20  # a chain has some kilobytes


class Certificate:
    """`context`: for the next connection. `names`: hosts of the certificate; "*." matches one label.

    `binding`: the certificate's hash, to which logins are bound (tls-server-end-point, RFC 5929); None if its signature
    has no hash. `path`: its file; None if it was created here.
    """

    context: ssl.SSLContext
    binding: bytes | None
    names: frozenset[str]

    def __init__(self, certificate: Path | None, key: Path | None) -> None:
        """Without files, a self-signed certificate for localhost. Raises InputError."""
        if (certificate is None) != (key is None):
            raise InputError("TLS needs a certificate and its key", hint="--tls-cert FILE --tls-key FILE")
        self.path = certificate
        self._key = key
        self.renew()

    def renew(self) -> None:
        """Read the files again, for new connections. Raises InputError; then the old certificate stays in use."""
        certificate, key = self.path, self._key
        if certificate is None or key is None:
            private, public = self_signed()
        else:
            private, public = _read(key), _read(certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # OpenSSL reads files only; these are in memory, so the secret key is written to no disk
            with _in_memory(public) as chain, _in_memory(private) as secret:
                context.load_cert_chain(chain, secret, password=_no_password)
            first = x509.load_pem_x509_certificates(public)[0]
            names, binding = _names(first), _binding(first)
        except (OSError, ValueError):  # SSLError is an OSError
            raise InputError(
                f"{certificate} and {key} are not a certificate and its key",
                hint="PEM files, the key without a passphrase",
            ) from None
        self.context, self.names, self.binding = context, names, binding

    def is_for(self, host: str) -> bool:
        """True if `host`, in lower case, is a name of the certificate."""
        return host in self.names or f"*.{host.partition('.')[2]}" in self.names


def self_signed() -> tuple[bytes, bytes]:
    """A new private key and certificate for localhost, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=365))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private, certificate.public_bytes(Encoding.PEM)


def _binding(certificate: x509.Certificate) -> bytes | None:
    try:
        signed = certificate.signature_hash_algorithm
    except UnsupportedAlgorithm:
        return None
    if signed is None:
        return None
    return certificate.fingerprint(SHA256() if isinstance(signed, MD5 | SHA1) else signed)


def _names(certificate: x509.Certificate) -> frozenset[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    hosts = names.get_values_for_type(x509.DNSName)
    return frozenset(each.lower() for each in [*hosts, *map(str, names.get_values_for_type(x509.IPAddress))])


def _read(path: Path) -> bytes:
    try:
        return read_at_most(path, _MOST_BYTES, InputError)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def _no_password() -> str:
    raise ValueError


@contextlib.contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """A path to `content` in memory."""
    with os.fdopen(os.memfd_create("certificate"), "wb", 0) as file:
        file.write(content)
        yield f"/proc/self/fd/{file.fileno()}"

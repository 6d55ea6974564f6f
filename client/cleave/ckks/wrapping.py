"""Create, add and remove wrappings of a key file. Tables do not change.

A copy of the file keeps the wrappings it had. So removing a wrapping does not revoke anyone's access: `cleave key
rotate` does.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cleave.ckks.key_content import KeyFile
from cleave.ckks.key_file import (
    MOST_WRAPPINGS,
    KeyInfo,
    Passphrase,
    change_passphrase,
    describe_key,
    fresh_file,
    read_key_file,
    unwrapped,
    wrapped_by,
    write,
)
from cleave.ckks.kms_wrapping import KeyService, KmsWrapping
from cleave_shared.errors import KeyFileError

PASSPHRASE = "passphrase"  # noqa: S105 - what that wrapping is called


def create_with_kms(path: Path, arn: str, kms: KeyService, master: bytes | None = None) -> KeyInfo:
    """Create a key that only the KMS key `arn` opens, and write it to `path`.

    Raises KeyFileError if the file exists, ServiceError if the KMS key cannot encrypt and decrypt.
    """
    file, master = fresh_file(master)
    file = replace(file, kms=(KmsWrapping.make(arn, file.key_id, master, kms),))
    write(path, wrapped_by(file, master, None), overwrite=False)
    return describe_key(path)


def add_kms(path: Path, arn: str, passphrase: Passphrase, kms: KeyService) -> str:
    """Add a wrapping of the key by the KMS key `arn`. A bare key is then wrapped. Returns the ARN of the KMS key.

    Raises KeyFileError if the key cannot be opened or has the most wrappings, ServiceError if KMS fails.
    """
    file = read_key_file(path, writes=True)
    if len(file.kms) + bool(file.wrapping) >= MOST_WRAPPINGS:
        raise KeyFileError(f"{path}: has {MOST_WRAPPINGS} wrappings, which is the most", hint="`cleave key unwrap` one")
    master = unwrapped(path, file, passphrase, kms)
    new = None if _has(file, arn) else KmsWrapping.make(arn, file.key_id, master, kms)
    if new is None or _has(file, new.arn):
        raise KeyFileError(f"{path}: {arn} wraps this key already", hint="`cleave key show` lists its wrappings")
    both = replace(file, kms=(*file.kms, new), secret=b"" if file.is_bare else file.secret)
    write(path, both.authenticated(master), overwrite=True)
    return new.arn


def add_passphrase(path: Path, old: Passphrase, new: bytes, kms: KeyService) -> None:
    """Add a passphrase to the key. Raises KeyFileError if it has one, otherwise as `change_passphrase` does."""
    if read_key_file(path, writes=True).wrapping is not None:
        raise KeyFileError(f"{path}: this key has a passphrase", hint="`cleave key passphrase` changes it")
    change_passphrase(path, old, new, kms)


def remove_wrapping(path: Path, wrapping: str, passphrase: Passphrase, kms: KeyService) -> None:
    """Remove a wrapping: `wrapping` is an ARN or "passphrase". Another one must remain, and must open the key now.

    Raises KeyFileError, ServiceError.
    """
    file = read_key_file(path, writes=True)
    if not (_has(file, wrapping) or (wrapping == PASSPHRASE and file.wrapping is not None)):
        raise KeyFileError(f"{path}: has no such wrapping", hint="`cleave key show` lists its wrappings")
    left = replace(file, kms=tuple(each for each in file.kms if each.arn != wrapping))
    if wrapping == PASSPHRASE:
        left = replace(left, wrapping=None, secret=b"")
    if left.is_bare:
        raise KeyFileError(
            f"{path}: this is its only wrapping",
            hint="`cleave key wrap` adds another one; `cleave key passphrase --no-passphrase` stores a key without any",
        )
    if wrapping == PASSPHRASE:
        passphrase = None  # from now on a KMS key must open it
    master = unwrapped(path, file, passphrase, kms, by=left)
    write(path, left.authenticated(master), overwrite=True)


def _has(file: KeyFile, arn: str) -> bool:
    return arn in {each.arn for each in file.kms}

"""Recovery shares of a key: the master secret as SLIP-39 words. A given number of shares restores it.

Fewer shares reveal nothing about the secret (Shamir's scheme). A share is a text to print: two labels, then 33 words.
The library's errors quote words, so none of its messages is passed on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cleave.ckks.key_file import KeyInfo, Passphrase, fresh_file, read_key_file, unwrapped, wrapped_by, write
from cleave.ckks.key_file import describe_key as described
from cleave.ckks.kms_wrapping import KeyService
from cleave.ckks.owner_key import MASTER_BYTES, OwnerKey
from cleave.ckks.passphrase import refuse_trivial
from cleave.ckks.public_key import public_side
from cleave.ckks.wrapping import create_with_kms
from cleave.files import fill_atomically, read_at_most, require_empty, require_target, write_atomically
from cleave.text.quantities import counted
from cleave_shared.errors import KeyFileError, UsageError, extra

with extra("recovery", "recovery shares"):
    from shamir_mnemonic import MnemonicError, Share, combine_mnemonics, generate_mnemonics
    from shamir_mnemonic.wordlist import WORDLIST

MOST_SHARES = 16  # the limit of SLIP-39
_WORDS = 33  # in a share of 32 bytes
_MOST_BYTES = 64 << 10
_IN_A_LINE = 6
_LABELS = {"key id": re.compile(r"[0-9a-f]{32}"), "fingerprint": re.compile(r"SHA256:[A-Za-z0-9+/]{43}")}


@dataclass(frozen=True, slots=True)
class _Read:
    """A share read from a file. `labels`: its labelled lines."""

    path: Path
    share: Share = field(repr=False)
    labels: dict[str, str]

    @property
    def set(self) -> tuple[object, ...]:
        """Equal for all shares of one split."""
        return self.share.common_parameters(), self.share.group_index, self.share.member_threshold

    @property
    def number(self) -> int:
        number: int = self.share.index + 1
        return number


def split_key(
    path: Path, folder: Path, shares: int, need: int, passphrase: Passphrase, kms: KeyService | None = None
) -> list[Path]:
    """Split the key at `path` into `shares` files in `folder`; any `need` of them restore it. Returns their paths.

    The folder gets all of them at once. Raises UsageError for numbers out of range, KeyFileError if the folder is
    missing or not empty, or the key cannot be opened.
    """
    if not 2 <= need <= shares <= MOST_SHARES:
        raise UsageError(
            f"--shares {shares} --need {need}: at least 2 are needed, at most all, and {MOST_SHARES} are the most",
            hint="a single share would be the key itself",
            name="--need",
        )
    targets = [folder / f"share-{number}-of-{shares}.txt" for number in range(1, shares + 1)]
    for target in targets:
        require_target(target, KeyFileError, "name another folder, or move this one away")
    require_empty(folder, KeyFileError)
    file = read_key_file(path)
    master = unwrapped(path, file, passphrase, kms)
    fingerprint = public_side(OwnerKey(master)).fingerprint
    ((*mnemonics,),) = generate_mnemonics(1, [(need, shares)], master)
    with fill_atomically(folder, error=KeyFileError) as draft:
        for number, (target, mnemonic) in enumerate(zip(targets, mnemonics, strict=True), 1):
            words = mnemonic.split()
            lines = [" ".join(words[start : start + _IN_A_LINE]) for start in range(0, len(words), _IN_A_LINE)]
            text = (
                f"Recovery share {number} of {shares} of a Cleave key: any {need} of them give the key\n"
                f"Key id: {file.key_id}\n"
                f"Fingerprint: {fingerprint}\n\n" + "\n".join(lines) + "\n"
            )
            write_atomically(draft / target.name, text, error=KeyFileError)
    return targets


def join_key(
    shares: Sequence[Path], to: Path, passphrase: bytes | None, arn: str | None = None, kms: KeyService | None = None
) -> KeyInfo:
    """Restore a key from `shares` and write it to `to`, wrapped by the passphrase or the KMS key `arn`; bare without
    both.

    Raises KeyFileError if shares are damaged, repeated, too few or of different splits, if `to` exists, or for a
    trivial passphrase; ServiceError if KMS fails.
    """
    require_target(to, KeyFileError)
    if passphrase is not None:
        refuse_trivial(passphrase)
    master = joined(shares)
    if arn is not None:
        if kms is None or passphrase is not None:
            raise UsageError("a joined key is wrapped by a KMS key or by a passphrase, not by both", name="--kms")
        return create_with_kms(to, arn, kms, master)
    file, _ = fresh_file(master)
    write(to, wrapped_by(file, master, passphrase), overwrite=False)
    return described(to)


def joined(paths: Sequence[Path]) -> bytes:
    """The master secret from shares. Raises KeyFileError."""
    shares = [_read(path) for path in paths]
    if not shares:
        raise KeyFileError("there is no share")
    first = shares[0]
    for place, share in enumerate(shares):
        for name, value in share.labels.items():
            if first.labels.get(name, value) != value:
                raise KeyFileError(
                    f"{first.path} and {share.path}: are shares of different keys", hint="their key ids differ"
                )
        if share.set != first.set:
            raise KeyFileError(
                f"{first.path} and {share.path}: are shares of different splits",
                hint="only shares of one `cleave key split` fit together, also if the key is the same",
            )
        for other in shares[:place]:
            if other.number == share.number:
                raise KeyFileError(
                    f"{other.path} and {share.path}: are both share {share.number}", hint="name another one"
                )
    need: int = first.share.member_threshold
    if len(shares) < need:
        raise KeyFileError(
            f"{counted(len(shares), 'share')}, and {need} are needed",
            hint="fewer say nothing about the key; find another one",
        )
    (master, *others) = {_combined(some) for some in _choices(shares, need)}
    if others or len(master) != MASTER_BYTES:
        raise _unfitting()
    key = OwnerKey(master)
    for share in shares:
        facts = {"key id": key.key_id, "fingerprint": public_side(key).fingerprint}
        if any(facts[name] != value for name, value in share.labels.items()):
            raise KeyFileError(
                f"{share.path}: its words give the key {key.key_id}, which is not the one of its labels",
                hint="compare the file with the paper",
            )
    return master


def _choices(shares: Sequence[_Read], need: int) -> list[tuple[_Read, ...]]:
    """Sets of `need` shares that cover every share at least once."""
    first, more = tuple(shares[:need]), shares[need:]
    return [first, *((*first[1:], each) for each in more)]


def _combined(shares: Sequence[_Read]) -> bytes:
    try:
        master: bytes = combine_mnemonics([each.share.mnemonic() for each in shares])
    except MnemonicError:
        raise _unfitting() from None
    return master


def _unfitting() -> KeyFileError:
    return KeyFileError(
        "these shares do not fit together: one of them was changed, or is of another split",
        hint="try other ones of the shares",
    )


def _read(path: Path) -> _Read:
    try:
        text = read_at_most(path, _MOST_BYTES, KeyFileError).decode()
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be read ({error.strerror})", hint="name files of shares") from None
    except UnicodeDecodeError:
        raise KeyFileError(f"{path}: is no text", hint="name files of shares") from None
    labels: dict[str, str] = {}
    words: list[str] = []
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if not colon:
            words += line.lower().split()
        elif (form := _LABELS.get(name.strip().lower())) is not None:
            if not form.fullmatch(value.strip()):
                raise KeyFileError(f"{path}: its {name.strip().lower()} is damaged", hint="compare it with the paper")
            labels[name.strip().lower()] = value.strip()
    listed = set(WORDLIST)
    for number, word in enumerate(words, 1):
        if word not in listed:
            raise KeyFileError(
                f"{path}: word {number} of the share is not one of SLIP-39's", hint="compare it with the paper"
            )
    if len(words) != _WORDS:
        raise KeyFileError(
            f"{path}: has {len(words)} words, and a share has {_WORDS}", hint="compare it with the paper"
        )
    try:
        share = Share.from_mnemonic(" ".join(words))
    except MnemonicError:
        raise KeyFileError(
            f"{path}: a word of the share is wrong or in the wrong place", hint="compare it with the paper"
        ) from None
    if (share.group_threshold, share.group_count) != (1, 1) or share.iteration_exponent > 1:
        raise KeyFileError(f"{path}: is not a share of `cleave key split`", hint="name files of shares")
    return _Read(path, share, labels)

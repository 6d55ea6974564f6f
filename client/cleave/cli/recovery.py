"""`cleave key split` and `cleave key join`: shares on paper that together restore a lost key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cleave.ask.config import make_config_folder
from cleave.ask.opening import key_file, kms_of
from cleave.cli import console, passphrase
from cleave.cli.key import AwsProfile, KmsKey, NoPassphrase, PassphraseFd, description, require_kms_alone
from cleave.cli.options import argument, flag
from cleave.files import expanded, require_target
from cleave_shared.errors import KeyFileError


def split(
    ctx: typer.Context,
    key: Annotated[str, argument("FILE", "The key file.")],
    folder: Annotated[Path, flag("-o, --output DIR", "Empty folder for the shares.")],
    shares: Annotated[int, flag("--shares N", "How many shares to write: at most 16.", default=5)] = 5,
    need: Annotated[int, flag("--need N", "How many shares recover the key; at least 2.", default=3)] = 3,
    passphrase_fd: PassphraseFd = None,
    profile: AwsProfile = None,
) -> None:
    """Write recovery shares of a key, to print.

    Give each share to another person. Anyone with --need shares has the key, and can read every table of it.

    Examples:
      cleave key split key.json --shares 5 --need 3 -o shares
      cleave key split study.json --shares 3 --need 2 -o /mnt/stick/shares
    """
    from cleave.ckks.recovery import split_key  # noqa: PLC0415 - cryptography takes 30 ms; `--help` does not need it

    written = split_key(
        *(key_file(key), expanded(folder), shares, need), passphrase.current(passphrase_fd), kms_of(profile)
    )
    for path in written:
        console.out(str(path))
    ctx.obj.say("Print them, give each to another person, and delete the files.")


def join(
    ctx: typer.Context,
    shares: Annotated[list[str], argument("SHARE...", "Files of shares: the words, with their labels or without.")],
    output: Annotated[Path, flag("-o, --output FILE", "Key file to write.")],
    passphrase_fd: PassphraseFd = None,
    no_passphrase: NoPassphrase = False,
    kms: KmsKey = None,
    profile: AwsProfile = None,
) -> None:
    """Write the key file that recovery shares give.

    The file has another passphrase, and the same key: compare the key id with that on the shares.

    Examples:
      cleave key join share-1-of-5.txt share-3-of-5.txt share-4-of-5.txt -o key.json
      cleave key join one.txt four.txt five.txt -o key.json --no-passphrase
    """
    from cleave.ckks.recovery import join_key, joined  # noqa: PLC0415 - as above

    to, paths = expanded(output), [expanded(each) for each in shares]
    make_config_folder(to, KeyFileError)
    require_target(to, KeyFileError)
    if kms is not None:
        require_kms_alone(kms, passphrase_fd, no_passphrase)
    joined(paths)  # before a prompt for a passphrase
    chosen = None if no_passphrase or kms is not None else passphrase.chosen(passphrase_fd)
    console.out(description(join_key(paths, to, chosen, kms, kms_of(profile))))
    ctx.obj.say("Nothing is known here of versions of tables: the first command on a table accepts what the store has.")

"""`cleave reader ...`: keys of readers, and the columns of a table that are open to them."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

import cleave
from cleave.ask.opening import access_of, kms_of, open_limited, opened, require_reader_alone
from cleave.ask.options import Opening, Place
from cleave.cli import console
from cleave.cli.key import AwsProfile, KmsKey, NoPassphrase, PassphraseFd, create
from cleave.cli.options import Json, Name, argument, flag
from cleave.files import expanded, require_target
from cleave.text.printable import printable
from cleave.text.tabular import Heading
from cleave.text.tabular import table as text_table
from cleave_shared.errors import KeyFileError

if TYPE_CHECKING:
    from cleave.ask.options import Asking


def new(
    ctx: typer.Context,
    file: Annotated[Path, argument("FILE", "Where to write the key file.")],
    passphrase_fd: PassphraseFd = None,
    no_passphrase: NoPassphrase = False,
    kms: KmsKey = None,
    profile: AwsProfile = None,
) -> None:
    """Create a key that owners can open columns to.

    Only you can read its file. Send the public half, FILE.pub, to the owner of a table, and the printed fingerprint
    over another channel. `cleave key passphrase --key FILE` and `cleave key wrap --key FILE` work on it too.

    Examples:
      cleave reader new carol.json
      cleave reader new job.json --kms arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab
    """
    from cleave.ckks.key_file import open_key  # noqa: PLC0415 - cryptography takes 30 ms
    from cleave.ckks.public_key import export_public, public_side  # noqa: PLC0415 - as above

    path = expanded(file)
    public = path.with_name(path.name + ".pub")
    for each in (path, public):  # reported before a prompt for a passphrase
        require_target(each, KeyFileError)
    _, chosen = create(path, passphrase_fd, no_passphrase, kms, profile)
    key = open_key(path, chosen, kms_of(profile))
    side = public_side(key)
    export_public(key, side, public)
    console.out(f"fingerprint {side.fingerprint}")
    ctx.obj.say(f"send {public} to the owner of the table")


def add(
    ctx: typer.Context,
    name: Name,
    options: Opening,
) -> None:
    """Let a reader query some columns of a stored table.

    The reader gets the keys of these columns, for present and later rows. Run the command again to write the keys
    again.

    Examples:
      cleave reader add stays --to carol.json.pub=SHA256:gwzC... --columns ward,sex,bill --store s3://bucket/prefix
      cleave reader add stays --to job.json.pub=SHA256:9fUt... --columns ward,bill --schema --store tables
    """
    done = cleave.add_reader(name, **options)
    ctx.obj.say(f"{printable(done.name)} reads {', '.join(done.columns)} of {name}")
    ctx.obj.say(f"it needs the right to read objects below {done.folder}/ and {done.place}/")
    if done.plain:
        ctx.obj.say(f"plain columns, {', '.join(done.plain)} among them, are open to all who read the plain place")
    ctx.obj.say("send the fingerprint to the reader over another channel than the store")
    console.out(f"fingerprint {done.fingerprint}")


def ls(name: Name, place: Place, as_json: Json = False) -> None:
    """List the readers of a table, and their columns.

    Examples:
      cleave reader ls stays --store s3://bucket/prefix
      cleave reader ls stays --store tables --json
    """
    from cleave.share.addressed import public_of  # noqa: PLC0415 - --help does not need it

    with opened(place) as tables:
        readers = tables.open(name).manifest.readers
    if as_json:
        facts = [
            {"name": each.name, "fingerprint": public_of(each).fingerprint, "added": each.added}
            | {"columns": list(each.columns), "schema": each.names}
            for each in readers
        ]
        console.out(json.dumps(facts))
        return
    rows = [
        [each.name, public_of(each).fingerprint, each.added, ", ".join(each.columns), "yes" if each.names else "no"]
        for each in readers
    ]
    headings = [Heading(each) for each in ("reader", "fingerprint", "added", "columns", "names of others")]
    console.out(text_table(headings, rows) if rows else "no readers")


def accept(
    ctx: typer.Context,
    name: Name,
    version: Annotated[int, flag("--version N", "The version that the store has, as the error says.")],
    reader: Annotated[Path, flag("--reader FILE", "Key file of the reader.")],
    place: Place,
) -> None:
    """As a reader, accept a table that its owner restored or stored again.

    This machine refuses a table if it saw a newer version or another table of that name. Run this only if the owner
    says that the version is right.

    Examples:
      cleave reader accept stays --version 12 --reader carol.json --store s3://bucket/prefix
      cleave reader accept stays --version 1 --reader carol.json --store tables
    """
    from cleave.ask.reader import open_reader  # noqa: PLC0415 - as above

    require_reader_alone(place)
    access, stores = access_of(cast("Asking", {**place, "reader": reader})), open_limited(place)
    with closing(stores):
        open_reader(stores, access).accept(name, version)
    ctx.obj.say(f"{name}: version {version} is accepted on this machine")


def revoke(
    ctx: typer.Context,
    name: Name,
    reader: Annotated[str, argument("READER", "Name or fingerprint of the reader.")],
    place: Place,
) -> None:
    """Revoke a reader: seal its columns again under new keys, which it does not get.

    All rows of these columns are sealed again, in one step. Run the command again to continue a stopped one. The reader
    can still read copies that it made.

    Examples:
      cleave reader revoke stays carol --store s3://bucket/prefix
      cleave reader revoke stays carol --store tables
    """
    done = cleave.revoke_reader(name, reader, **place)
    ctx.obj.say(f"{printable(done.name)} reads nothing of {name} from version {done.version} on")
    ctx.obj.say(
        f"it may have copied {', '.join(done.columns)} of all rows up to version {done.version - 1}; old versions that "
        "a bucket keeps stay readable to it"
    )
    if done.plain:
        ctx.obj.say(f"plain columns stay open to all who read the plain place: {', '.join(done.plain)}")

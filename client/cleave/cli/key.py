"""`cleave key ...`: create, show, copy, export, rewrap, split and rotate keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import cleave
from cleave.ask.config import config_folder, make_config_folder
from cleave.ask.opening import key_file, kms_of, opened, passphrase_of, require_key
from cleave.ask.options import Place, Rotating
from cleave.cli import console, passphrase
from cleave.cli.options import Json, Name, OutputFile, argument, flag, flag_of
from cleave.files import expanded, require_target
from cleave.text.printable import printable
from cleave.text.quantities import counted
from cleave_shared.errors import KeyFileError

if TYPE_CHECKING:
    from cleave.ckks.key_file import KeyInfo

Key = Annotated[str | None, flag_of(Place, "key")]
AwsProfile = Annotated[str | None, flag_of(Place, "profile")]
PassphraseFd = Annotated[int | None, flag_of(Place, "passphrase")]
NoPassphrase = Annotated[bool, flag("--no-passphrase", "Use no passphrase: anyone with the file has the key.")]
KmsKey = Annotated[
    str | None, flag("--kms ARN", "Wrap the key by this KMS key: who may decrypt with it needs no passphrase.")
]


def new(
    ctx: typer.Context,
    key: Key = None,
    passphrase_fd: PassphraseFd = None,
    no_passphrase: NoPassphrase = False,
    kms: KmsKey = None,
    profile: AwsProfile = None,
) -> None:
    """Create a key for stored tables; queries over files need none.

    Only you can read its file. An existing file is never overwritten.

    Examples:
      cleave key new
      cleave key new --key study.json --no-passphrase
      cleave key new --kms arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab
    """
    path = key_file(key)
    make_config_folder(path, KeyFileError)
    # before a prompt for a passphrase
    require_target(path, KeyFileError, "name another file with --key, or move this one away")
    info, _ = create(path, passphrase_fd, no_passphrase, kms, profile)
    console.out(description(info))
    ctx.obj.say("Keep a copy of this file: without it no stored table can be read.")


def show(key: Key = None, as_json: Json = False) -> None:
    """Show the public part of a key file; needs no passphrase.

    Examples:
      cleave key show
      cleave key show --key study.json --json
    """
    from cleave.ckks.key_file import describe_key  # noqa: PLC0415 - as above

    info = describe_key(key_file(key))
    facts = {"path": str(info.path), "key_id": info.key_id, "created": info.created, "wrapped": info.wrapped}
    if info.kms:
        facts["kms"] = list(info.kms)
    console.out(json.dumps(facts) if as_json else description(info))


def rewrap(
    ctx: typer.Context,
    key: Key = None,
    passphrase_fd: PassphraseFd = None,
    new_passphrase_fd: Annotated[int | None, flag_of(Rotating, "new_passphrase")] = None,
    no_passphrase: NoPassphrase = False,
    profile: AwsProfile = None,
) -> None:
    """Change, set or remove the passphrase of a key. Wrappings by KMS keys stay.

    Examples:
      cleave key passphrase
      cleave key passphrase --no-passphrase
    """
    from cleave.ckks.key_file import change_passphrase, describe_key  # noqa: PLC0415 - as above

    path = key_file(key)
    info = describe_key(path)
    old = passphrase.current(passphrase_fd)
    if info.wrapped and not info.kms and not isinstance(old, bytes):
        old = old()  # ask for it before the new one
    new_one = None if no_passphrase else passphrase.chosen(new_passphrase_fd, "new passphrase")
    change_passphrase(path, old, new_one, kms_of(profile))
    ctx.obj.say("the passphrase was removed" if no_passphrase else "the passphrase was changed")


def wrap(
    ctx: typer.Context,
    key: Key = None,
    kms: KmsKey = None,
    passphrase_too: Annotated[bool, flag("--passphrase", "Wrap the key by a passphrase.")] = False,
    passphrase_fd: PassphraseFd = None,
    new_passphrase_fd: Annotated[int | None, flag_of(Rotating, "new_passphrase")] = None,
    profile: AwsProfile = None,
) -> None:
    """Wrap a key by a KMS key or a passphrase too.

    Each wrapping opens the key alone. No table changes.

    Examples:
      cleave key wrap --kms arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab
      cleave key wrap --passphrase
    """
    from cleave.ckks.wrapping import add_kms, add_passphrase  # noqa: PLC0415 - as above

    if (kms is None) != passphrase_too:
        raise typer.BadParameter("one wrapping is needed: either --kms or --passphrase")
    path, current = key_file(key), passphrase.current(passphrase_fd)
    if kms is not None:
        require_arn(kms)
        arn = add_kms(path, kms, current, kms_of(profile))
        ctx.obj.say(f"{arn} opens the key too")
        return
    add_passphrase(path, current, passphrase.chosen(new_passphrase_fd, "new passphrase"), kms_of(profile))
    ctx.obj.say("the passphrase opens the key too")


def unwrap(
    ctx: typer.Context,
    wrapping: Annotated[str, argument("ARN|passphrase", "Wrapping to remove, as `cleave key show` lists it.")],
    key: Key = None,
    passphrase_fd: PassphraseFd = None,
    profile: AwsProfile = None,
) -> None:
    """Remove one wrapping of a key; another one must open it.

    Older copies of the file keep the wrapping. After a leak, move tables with `cleave key rotate`.

    Examples:
      cleave key unwrap passphrase
      cleave key unwrap arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab
    """
    from cleave.ckks.wrapping import remove_wrapping  # noqa: PLC0415 - as above

    remove_wrapping(key_file(key), wrapping, passphrase.current(passphrase_fd), kms_of(profile))
    ctx.obj.say(f"{wrapping} was removed; older copies of the file still open with it")


def export(
    ctx: typer.Context,
    output: OutputFile,
    place: Place,
    table: Annotated[
        str | None, flag("--table NAME", "Add an invitation to this stored table, with its schema.")
    ] = None,
) -> None:
    """Export the public half of a key, for contributors.

    Contributors encrypt rows with it; it decrypts nothing. Prints its fingerprint: send that to them by another channel
    than the file.

    Examples:
      cleave key export -o owner.pub.json
      cleave key export -o stays.pub.json --table stays --store s3://bucket
    """
    from cleave.ckks.key_file import open_key  # noqa: PLC0415 - as above
    from cleave.ckks.public_key import export_public, public_side  # noqa: PLC0415

    require_target(output, KeyFileError)
    if table is None:
        kms = kms_of(place["profile"])
        secret, invitation = open_key(key_file(place["key"]), passphrase_of(place["passphrase"]), kms), None
    else:
        from cleave.contributions.collect import newest_versions  # noqa: PLC0415
        from cleave.contributions.invitation import invite  # noqa: PLC0415

        with opened(place) as tables:
            secret = tables.key
            tables.writes = True  # its log
            stored = tables.open(table)
            manifest = stored.manifest
            tables.record(stored, "key export", 0)
            invitation = invite(manifest, newest_versions(tables, manifest)).model_dump_json()
    exported = public_side(secret, invitation)
    export_public(secret, exported, output)
    ctx.obj.say(f"wrote {output}")
    console.out(f"fingerprint {exported.fingerprint}")


def copy(ctx: typer.Context, output: OutputFile, place: Place) -> None:
    """Copy a key file for another machine.

    The copy records the versions of stored tables, and which ones were dropped. The other machine refuses older ones.

    Examples:
      cleave key copy -o laptop.json --store s3://bucket
      cleave key copy -o laptop.json --store tables --key study.json
    """
    from cleave.ckks.key_file import copy_key  # noqa: PLC0415 - as above

    require_target(output, KeyFileError)
    path = key_file(place["key"])
    supplied = place["passphrase"]
    info = require_key(path, place)
    if callable(supplied) and not info.kms:  # ask once, for opening and for wrapping
        supplied = place["passphrase"] = supplied() if info.wrapped else None
    assert not isinstance(supplied, str)  # noqa: S101 - the command line reads bytes
    with opened(place) as tables:
        floors = tables.versions()
    given = passphrase_of(supplied) if callable(supplied) else supplied
    copy_key(path, output, given, floors, kms_of(place["profile"]))
    ctx.obj.say(f"wrote {output}, with the versions of {counted(len(floors), 'table')}")


def contributor(
    ctx: typer.Context,
    output: Annotated[
        Path | None, flag("-o, --output FILE", "Where to write it. Default: ~/.config/cleave/contributor.pem.")
    ] = None,
) -> None:
    """Create an identity to contribute to tables of others.

    It decrypts nothing. The owner of a table registers its public half, the file that ends in .pub, and compares the
    printed fingerprint: send that over another channel.

    Examples:
      cleave key contributor
      cleave key contributor -o west.pem
    """
    from cleave.store.first_use import contributor_fingerprint  # noqa: PLC0415 - as above
    from cleave.store.identity import create_identity  # noqa: PLC0415 - as above

    path = expanded(output or config_folder() / "contributor.pem")
    make_config_folder(path, KeyFileError)
    identity, public = create_identity(path)
    console.out(f"contributor {identity.public}")
    console.out(f"fingerprint {contributor_fingerprint(identity.public)}")
    ctx.obj.say(f"send {public} to the owner of the table")


def rotate(
    ctx: typer.Context,
    name: Name,
    options: Rotating,
    new_key: Annotated[Path, flag("--new-key FILE", "Key file to move the table to.")],
) -> None:
    """Move a stored table to another key.

    The whole table is encrypted again. Queries use the old key until that is done. The same command continues a
    rotation that was stopped.

    Examples:
      cleave key rotate stays --new-key new.json --store s3://bucket
      cleave key rotate stays --key old.json --new-key new.json --store tables
    """
    from cleave.ckks.key_file import describe_key  # noqa: PLC0415 - as above

    moved = cleave.rotate(name, new_key, **options)
    ctx.obj.say(f"{name}: version {moved.version}, under key {describe_key(key_file(new_key)).key_id}")


def create(
    path: Path, passphrase_fd: int | None, no_passphrase: bool, kms: str | None, profile: str | None
) -> tuple[KeyInfo, bytes | None]:
    """Create the key file that the options describe. Returns its passphrase too, None without one."""
    from cleave.ckks.key_file import create_key  # noqa: PLC0415 - cryptography takes 30 ms; `--help` does not need it

    if kms is None:
        chosen = None if no_passphrase else passphrase.chosen(passphrase_fd)
        return create_key(path, chosen), chosen
    from cleave.ckks.wrapping import create_with_kms  # noqa: PLC0415 - as above

    require_kms_alone(kms, passphrase_fd, no_passphrase)
    return create_with_kms(path, kms, kms_of(profile)), None


def require_arn(kms: str) -> None:
    """Raises UsageError if it is no ARN of a KMS key."""
    from cleave.transport.kms import check_arn  # noqa: PLC0415 - as above

    check_arn(kms)


def require_kms_alone(kms: str, passphrase_fd: int | None, no_passphrase: bool) -> None:
    """Raises UsageError for anything but an ARN, typer.BadParameter for a second wrapping."""
    require_arn(kms)
    if no_passphrase or passphrase_fd is not None:
        raise typer.BadParameter("--kms wraps a new key alone: `cleave key wrap --passphrase` adds a passphrase")


def description(info: KeyInfo) -> str:
    without = "no" if info.kms else "no: anyone who reads the file has the key"
    lines = [
        f"key id      {printable(info.key_id)}",
        f"file        {printable(str(info.path))}",
        f"created     {printable(info.created)}",
        f"passphrase  {'yes' if info.wrapped else without}",
        *(f"kms         {arn}" for arn in info.kms),
    ]
    return "\n".join(lines)

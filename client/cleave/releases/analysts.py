"""The analysts of a table, whom its releases are sealed for, and those who were revoked."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path

from cleave.ckks.public_key import PublicKey
from cleave.releases.release import ReleaseHead
from cleave.share.addressed import place_of, public_of, read_holders
from cleave.store.manifest import Analyst, Manifest, now
from cleave.store.tables import Tables
from cleave_shared.errors import InputError

MOST_ANALYSTS = 256


def read_analysts(paths: Sequence[Path]) -> dict[str, PublicKey]:
    """The public halves in files, by name. Raises KeyFileError, InputError."""
    return read_holders(
        paths, "analyst", "an analyst makes an identity with `cleave analyst new` and sends the file that ends in .pub"
    )


def analysts_of(tables: Tables, table: str) -> tuple[str, ...]:
    """Fingerprints of the analysts of a table. Raises InputError if there is no such table."""
    newest = tables.open(table).manifest.release
    return tuple(public_of(each).fingerprint for each in newest.analysts) if newest else ()


def joined(manifest: Manifest, to: Mapping[str, PublicKey]) -> tuple[tuple[Analyst, ...], tuple[Analyst, ...]]:
    """The analysts of the newest release and those in `to`; and the revoked ones that are not among these.

    Raises InputError if there is no analyst, or two have the same name or the same key.
    """
    newest = manifest.release
    analysts = {each.name: each for each in (newest.analysts if newest else ())}
    for name, public in to.items():
        previous = analysts.get(name)
        if previous is not None and public_of(previous) != public:
            raise InputError(
                f"there is another analyst {name!r}", hint="revoke that one first, or give the file another name"
            )
        if same := [each.name for each in analysts.values() if each.name != name and public_of(each) == public]:
            raise InputError(f"analyst {name!r} has the key of {same[0]!r}")
        if previous is None:
            box, signing = (base64.b64encode(each).decode() for each in (public.box, public.signing))
            analysts[name] = Analyst(
                name=name, box=box, signing=signing, place=place_of(ReleaseHead, public, manifest.table), added=now()
            )
    if len(analysts) > MOST_ANALYSTS:
        raise InputError(f"a table has at most {MOST_ANALYSTS} analysts")
    if not analysts:
        raise InputError("no analyst is named", hint="--to carol.pem.pub: what `cleave analyst new` wrote")
    keys = {each.box for each in analysts.values()}
    revoked = tuple(each for each in (newest.revoked if newest else ()) if each.box not in keys)
    return tuple(analysts.values()), revoked

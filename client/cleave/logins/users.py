"""Users of a gateway: a TOML file beside the key that opens the tables. Only its owner may read it.

  secret = "64 hex digits"    # makes salts for names that are no user's
  [users.alice]
  password = "SCRAM-SHA-256$65536:...$...:..."
  tokens = ["sha256 of a bearer token, 64 hex digits"]
  tables = ["visits"]         # default: every served table
  columns = ["visits.ward", "visits.bill"]  # of these tables, only these columns; of others, all
  min_group = 10              # groups of fewer people (or rows, without an entity) are hidden; 0: 3; else 3 or more
  [users.bob]
  rows = true                 # may read rows, so no group is hidden; excludes min_group

Passwords are stored as SCRAM verifiers (cleave.logins.scram). A token is 32 random bytes, so its SHA-256 is enough.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import tomlkit
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cleave.ckks.passphrase import refuse_trivial
from cleave.files import names_file, open_file, write_atomically
from cleave.logins.scram import PATTERN, Verifier
from cleave.table.privacy import LEAST
from cleave_shared.errors import InputError

_MOST_BYTES: Final = 1 << 20
_MAKE: Final = "make one with: cleave user add NAME"


class User(BaseModel):
    """Rights of one user (rule G4). `tables` None: every served table. `columns`: see `columns_of`. `rows` False: only
    totals of groups, by the rules of cleave.disclosure.askable. `min_group` 0: the least that there is.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    password: Annotated[str, Field(pattern=PATTERN)] | None = None
    tokens: tuple[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")], ...] = ()
    tables: tuple[str, ...] | None = None
    columns: tuple[str, ...] = ()
    min_group: Annotated[int, Field(ge=0)] = 0
    rows: bool = False

    @property
    def least(self) -> int:
        """Minimum people (or rows, without an entity) of a group that the user sees; 0: the user reads rows."""
        return 0 if self.rows else max(self.min_group, LEAST)

    @property
    def fault(self) -> str:
        """Why these rights are refused, and what to do; "" if they are not."""
        if self.rows and self.min_group:
            return (
                "rows and min_group exclude each other, since rows show everything: run `cleave user add` again, "
                "with --rows or with --min-group N (rule G4)"
            )
        if 0 < self.min_group < LEAST:
            return (
                f"min_group is {self.min_group}, and of two people each could subtract itself: run `cleave user add` "
                f"again, with --min-group {LEAST} or more (rule G4)"
            )
        others = [each for each in self.columns if not any(map(each.lower().startswith, self._starts))]
        if others:
            return f"column {others[0]!r} is of no table in tables: run `cleave user add` again, with both"
        return ""

    @property
    def _starts(self) -> list[str]:
        """Prefixes of columns of `tables`."""
        return [f"{each.lower()}." for each in self.tables or ()]


def columns_of(columns: Sequence[str], table: str) -> frozenset[str] | None:
    """The columns of one table in `columns`, in lower case without its name; None: all of its columns."""
    start = f"{table.lower()}."
    return frozenset(each[len(start) :].lower() for each in columns if each.lower().startswith(start)) or None


class Users(BaseModel):
    """Users by name. `secret`: makes salts for names that are no user's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    secret: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    users: dict[str, User] = {}

    def verifier(self, name: str) -> Verifier:
        """The verifier of `name`. If there is no such user, or it has no password, no password fits it."""
        user = self.users.get(name)
        if user is None or user.password is None:
            return Verifier.of_no_password(name, bytes.fromhex(self.secret))
        return Verifier.read(user.password)

    def with_token(self, token: str) -> tuple[str, User] | None:
        digest = _digest(token)
        return next(
            (
                (name, user)
                for name, user in self.users.items()
                for each in user.tokens
                if hmac.compare_digest(each, digest)
            ),
            None,
        )


def read_users(path: Path) -> Users:
    """Raises InputError for a file that other users can read, or that is no users file."""
    try:
        with open_file(path) as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise InputError(f"{path}: others on this machine may read or change it", hint=f"chmod 600 {path}")
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", hint=_MAKE) from None
    if len(content) > _MOST_BYTES:
        raise InputError(f"{path}: a file of users has at most {_MOST_BYTES:,} bytes")
    try:
        return Users.model_validate(tomllib.loads(content.decode()))
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise InputError(f"{path}: {where} is not valid", hint=_MAKE) from None
    except ValueError:
        raise InputError(f"{path}: not a TOML file", hint=_MAKE) from None


def user_in(path: Path, name: str) -> User | None:
    """The user of that name; None if the user or the file does not exist. Raises InputError as `read_users` does."""
    return read_users(path).users.get(name) if names_file(path) else None


def write_user(
    path: Path,
    name: str,
    password: bytes | None,
    *,
    tables: Sequence[str] | None,
    min_group: int,
    rows: bool,
    token: bool,
    columns: Sequence[str] | None = None,
) -> str | None:
    """Write user `name` into the file, replacing an existing one. Returns the new bearer token, if one was requested.

    `password` None: the user has tokens only, or keeps its password. Raises InputError, also for rights that exclude
    each other, KeyFileError for a too simple password.
    """
    if not name.strip() or len(name) > 32:
        raise InputError("a user's name has 1 to 32 characters")
    there = read_users(path) if names_file(path) else Users(secret=secrets.token_hex(32))
    before = there.users.get(name, User())
    if password is not None:
        refuse_trivial(password, "password")
    new = secrets.token_urlsafe(32) if token else None
    user = User(
        password=before.password if password is None else str(Verifier.of(password)),
        tokens=(*before.tokens, _digest(new)) if new else before.tokens,
        tables=None if tables is None else tuple(tables),
        columns=tuple(columns or ()),
        min_group=min_group,
        rows=rows,
    )
    if user.fault:
        raise InputError(f"user {name!r}: {user.fault}")
    _write(path, there, {**there.users, name: user})
    return new


def delete_user(path: Path, name: str) -> None:
    """Raises InputError for an unknown user."""
    there = read_users(path)
    users = dict(there.users)
    if users.pop(name, None) is None:
        raise InputError(f"{path}: there is no user {name!r}", hint="`cleave user ls` lists them")
    _write(path, there, users)


def _write(path: Path, there: Users, users: dict[str, User]) -> None:
    shown = {each: user.model_dump(exclude_none=True) for each, user in users.items()}
    document = {"secret": there.secret, "users": shown}
    write_atomically(path, tomlkit.dumps(document), error=InputError, overwrite=True)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()

"""Read this user's settings from environment variables, then from config.toml in ~/.config/cleave.

Command-line options and Python arguments override both. The file is read once; a file that cannot be read is an error.
"""

from __future__ import annotations

import os
import re
import tomllib
from functools import cache
from pathlib import Path

from cleave.files import make_folder, read_at_most, write_atomically
from cleave.text.nearest import did_you_mean
from cleave_shared.errors import CleaveError, InputError, UsageError

# Setting -> the environment variable that goes before it.
SETTINGS = {
    "store": "CLEAVE_STORE",
    "endpoint": "CLEAVE_ENDPOINT",
    "profile": "AWS_PROFILE",
    "key": "CLEAVE_KEY",
    "analyst": "CLEAVE_ANALYST",
    "user": "CLEAVE_USER",
}
_LONGEST_USER = 64
_MOST_BYTES = 1 << 20
_PASSPHRASES = re.compile("CLEAVE_.*PASS.*")


def config_folder() -> Path:
    """Return the folder of settings and keys: "cleave" in $XDG_CONFIG_HOME or ~/.config, with "~" not expanded."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(base if os.path.isabs(base) else "~/.config") / "cleave"


def config_path() -> Path | None:
    """Return the path of the settings file, or None for an account without a home directory."""
    try:
        return config_folder().expanduser() / "config.toml"
    except RuntimeError:
        return None


def make_config_folder(path: Path, error: type[CleaveError] = InputError) -> None:
    """Make the folder of settings and keys if the file at `path` belongs there. Raises `error`."""
    own = config_path()
    if own is not None and path.parent == own.parent:
        make_folder(own.parent, error)


def require_text(name: str, value: str) -> None:
    """Raise UsageError if `value` is not UTF-8, which neither DuckDB nor a message can hold."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{name} is not UTF-8 text: {value}", hint="give the file a name in UTF-8", name=name
        ) from None


def usual(name: str) -> str | None:
    """Return a setting from the environment, else from the file, else None. Raises InputError."""
    given = os.environ.get(SETTINGS[name], "")
    require_text(SETTINGS[name], given)
    return given or settings().get(name)


def usual_profile() -> str | None:
    """Return the AWS profile of the settings file.

    It is None if the environment names a profile: boto3 reads that itself, and the keys beside it.
    """
    if os.environ.get("AWS_DEFAULT_PROFILE") or os.environ.get(SETTINGS["profile"]):
        return None
    return settings().get("profile")


def user() -> str:
    """Return what audit logs call this user; empty where nothing was set. Raises InputError."""
    user = usual("user") or ""
    if len(user) > _LONGEST_USER or not user.isprintable():
        raise InputError(
            f"the user's name has {len(user)} characters, or some that cannot be printed",
            hint=f"at most {_LONGEST_USER} characters in {SETTINGS['user']}, or by `cleave config user`",
        )
    return user


def origin(name: str) -> str:
    """Return where `usual` finds a setting, or "" if it is not set."""
    if os.environ.get(SETTINGS[name]):
        return SETTINGS[name]
    return str(config_path()) if name in settings() else ""


def settings() -> dict[str, str]:
    """Return the settings of the file, if there is one. Raises InputError if the file is not valid."""
    path = config_path()
    return _read(path) if path else {}


@cache
def _read(path: Path) -> dict[str, str]:
    try:
        text = read_at_most(path, _MOST_BYTES, InputError).decode("utf-8-sig")
        values = tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:  # not UTF-8, or not TOML
        place = re.search(r"at line (\d+)", str(error))
        raise InputError(
            f"{path}{f', line {place[1]}' if place else ''}: is not TOML", hint='a line of it: store = "s3://bucket"'
        ) from None
    for name, value in values.items():
        line = next(
            (n for n, row in enumerate(text.splitlines(), 1) if re.match(rf'\s*["\[]*{re.escape(name)}\b', row)), 1
        )
        if name not in SETTINGS:
            hint = did_you_mean(name, SETTINGS) or f"settings are {', '.join(SETTINGS)}"
            raise InputError(f"{path}, line {line}: there is no setting {name!r}", hint=hint)
        if not isinstance(value, str) or not value:
            raise InputError(f"{path}, line {line}: {name} is not text", hint=f'{name} = "..."')
    return values


def environment() -> dict[str, str]:
    """Return environment variables with which another process opens tables as this one does.

    State and cache folders are given as whole paths, and the file's settings as variables, so that a later change of
    the file has no effect. No passphrase is included. Raises InputError.
    """
    from cleave.objects.cache import cache_folder  # noqa: PLC0415 - --help does not need it
    from cleave.store.seen_versions import state_folder  # noqa: PLC0415 - as above

    passed = {name: value for name, value in os.environ.items() if not _PASSPHRASES.fullmatch(name)}
    passed |= {"XDG_STATE_HOME": str(state_folder()), "XDG_CACHE_HOME": str(cache_folder())}
    shown = {SETTINGS[name]: value for name, value in settings().items() if name != "profile"}  # see usual_profile
    return shown | {name: value for name, value in passed.items() if value or name not in shown}


def change(name: str, value: str) -> Path:
    """Write a setting to the file, or remove it if `value` is empty.

    Comments in the file are lost. Raises InputError.
    """
    path = config_path()
    if path is None:
        raise InputError("this account has no home directory", hint="set XDG_CONFIG_HOME")
    values = settings() | {name: value}
    quoted = {key: each.replace("\\", "\\\\").replace('"', '\\"') for key, each in values.items() if each}
    if any(not each.isprintable() for each in quoted.values()):
        raise InputError(f"{name}: holds a character that cannot be printed")
    content = "".join(f'{key} = "{each}"\n' for key, each in quoted.items())
    make_config_folder(path)
    write_atomically(path, content, error=InputError, overwrite=True)
    _read.cache_clear()
    return path

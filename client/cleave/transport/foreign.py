"""Settings of other programs: variables and profiles that boto3 reads, proxies, certificates.

Code that reads them runs in a block of `opening`. So each failure names the settings, never their values.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from cleave_shared.errors import CleaveError, ServiceError
from cleave_shared.exhaustion import exhausted

HTTP = re.compile(r"(?i:(http|https|all|no)_proxy)|SSL_CERT_FILE|SSL_CERT_DIR|SSLKEYLOGFILE")
"""Variables that httpx reads."""
AWS = re.compile(rf"AWS_.*|BOTO.*|REQUESTS_CA_BUNDLE|{HTTP.pattern}")
"""Variables that boto3 reads."""
_WAYS = re.compile(
    r"(?i:(http|https|all|no)_proxy)|SSL_CERT_\w+|\w+_CA_BUNDLE|ca_bundle|AWS_ENDPOINT_URL\w*|endpoint_url"
)
"""Settings that decide how a host is reached, and whom it must convince."""


@dataclass(frozen=True, slots=True)
class ForeignSetting:
    """`name`: as the user knows it, such as AWS_CA_BUNDLE, --region, or "region of profile 'x'"."""

    name: str
    value: str

    def fault(self) -> str | None:
        """What is wrong with the value itself; None if nothing is."""
        try:
            self.value.encode()
        except UnicodeEncodeError:
            return "it is not UTF-8 text"
        return next((check(self.value) for names, check in _CHECKS if names.fullmatch(self.key)), None)

    @property
    def key(self) -> str:
        """The name of a variable or option, or of a profile's key without the profile."""
        return self.name.split()[0].rpartition(".")[2]

    def is_quoted(self, text: str) -> bool:
        quoted = {self.value, repr(self.value)[1:-1]}
        return bool(self.value) and any(re.search(rf"(?<!\w){re.escape(each)}(?!\w)", text) for each in quoted)


def variables(names: re.Pattern[str]) -> list[ForeignSetting]:
    """The environment variables with matching names that are set."""
    return [ForeignSetting(name, value) for name, value in os.environ.items() if value and names.fullmatch(name)]


def blamed(what: str, error: Exception, settings: Sequence[ForeignSetting]) -> ServiceError:
    """An error that names the settings behind `error`: those that it quotes, else those with a fault, else all."""
    guilty = guilty_of(error, settings)
    if not guilty:
        hint = f"its settings are {names_of(settings)}: correct or remove one" if settings else None
        return ServiceError(f"{what} cannot be used ({type(error).__name__})", hint=hint)
    reason = next((fault for each in guilty if (fault := each.fault())), None)
    known_as = f": {reason}" if reason else f" ({type(error).__name__})"
    return ServiceError(f"{names_of(guilty)} cannot be used{known_as}", hint="correct or remove it")


def guilty_of(error: Exception, settings: Sequence[ForeignSetting]) -> list[ForeignSetting]:
    """The settings that `error` quotes, else those with a fault."""
    quoted = [each for each in settings if each.is_quoted(str(error))]
    longest = max((len(each.value) for each in quoted), default=0)
    return [each for each in quoted if len(each.value) == longest] or [each for each in settings if each.fault()]


def way_hint(settings: Iterable[ForeignSetting]) -> str:
    """Hint for an unreachable host: faults of network settings, else the names of all network settings."""
    ways = [each for each in settings if _WAYS.fullmatch(each.key)]
    faults = [f"{each.name}: {fault}" for each in ways if (fault := each.fault())]
    return "; ".join(faults) or " and ".join(filter(None, ["check the network", names_of(ways)]))


@contextlib.contextmanager
def opening(
    what: str,
    settings: Callable[[], Sequence[ForeignSetting]],
    words: Callable[[str, Exception, Sequence[ForeignSetting]], ServiceError] = blamed,
) -> Iterator[None]:
    """Turn the block's errors into a ServiceError made by `words`, except Cleave's own errors.

    Errors about exhausted resources of this machine pass unchanged: the command line explains them.
    """
    try:
        yield
    except CleaveError:
        raise
    except Exception as error:
        if exhausted(error):
            raise
        raise words(what, error, settings()) from None


def names_of(settings: Iterable[ForeignSetting]) -> str:
    return ", ".join(each.name for each in settings)


def flat(values: Mapping[str, object], section: str, prefix: str = "") -> list[ForeignSetting]:
    """Settings in a section of AWS's configuration. A nested key gets the name "s3.addressing_style"."""
    settings = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            settings += flat(value, section, f"{prefix}{key}.")
        else:
            settings.append(ForeignSetting(f"{prefix}{key} of {section}", str(value)))
    return settings


def _url(value: str) -> str | None:
    try:
        parts = urlsplit(value)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_one = False
    return None if is_one else "it is not a URL that begins with http:// or https://"


def _proxy(value: str) -> str | None:
    scheme = value.partition("://")[0] if "://" in value else ""
    if scheme.startswith("socks"):
        return "SOCKS proxies are not supported"
    return _url(value if scheme else f"http://{value}")


def _no_proxy(value: str) -> str | None:
    return "IPv6 addresses have no brackets there" if "[" in value else None


def _section(_value: str) -> str:
    return "its own settings are on indented lines below it"


def file_fault(value: str) -> str | None:
    """Why the file cannot be read; None if it can."""
    try:
        Path(value).expanduser().open("rb").close()
    except (OSError, RuntimeError, ValueError) as error:
        return f"that file cannot be read ({getattr(error, 'strerror', None) or type(error).__name__})"
    return None


def _certificates(value: str) -> str | None:
    path = Path(value)
    try:
        if path.is_dir():
            return "that is a folder"
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError:
        return "that file has no certificates"
    except (OSError, ValueError):
        return file_fault(value)
    return None


_CHECKS: tuple[tuple[re.Pattern[str], Callable[[str], str | None]], ...] = (
    (re.compile(r"AWS_ENDPOINT_URL.*|endpoint_url|.*(METADATA|metadata)_(SERVICE|service)_(ENDPOINT|endpoint)"), _url),
    (re.compile(r"AWS_CONTAINER_CREDENTIALS_FULL_URI"), _url),
    (re.compile(r"(?i:(http|https|all)_proxy)"), _proxy),
    (re.compile(r"(?i:no_proxy)"), _no_proxy),
    (re.compile(r"s3|api_versions"), _section),
    (re.compile(r"SSL_CERT_FILE|REQUESTS_CA_BUNDLE|AWS_CA_BUNDLE|ca_bundle"), _certificates),
    (re.compile(r"(?i:(aws_)?web_identity_token_file)|AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"), file_fault),
)

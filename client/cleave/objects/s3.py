"""A store under a prefix of an S3 bucket. Heads change by conditional writes; objects are sent with their SHA-256.

A service other than AWS may ignore conditions. So conditions are tested once, before the first write. Lists and
deletions are compared with the requested names.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import cached_property, partial
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
)
from botocore.exceptions import ConnectionError as S3ConnectionError
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from cleave.objects.retention import Retention, of_bucket
from cleave.objects.storage import ConflictError, NotStoredError, StoreError, checked, too_large
from cleave.transport.aws import LOG_IN, aws_error, find_credentials, open_client, region_of, session_ends, settings_of
from cleave.transport.bounded import WrongAnswerError
from cleave.transport.foreign import way_hint
from cleave_shared import limits

_DELETED_AT_ONCE = 1000  # the limit of DeleteObjects
_CONNECTIONS = 16
_CONFIG = Config(
    connect_timeout=10,
    read_timeout=60,
    retries={"mode": "standard", "total_max_attempts": 4},
    max_pool_connections=_CONNECTIONS,
    signature_version="s3v4",
    s3={"us_east_1_regional_endpoint": "regional"},
)
_NOT_ALLOWED = "these credentials may not read or write there"
_AGAIN = "try again; if it stays so, the bucket's own logs and https://health.aws.amazon.com say more"
_HINTS = {
    "NoSuchBucket": "make the bucket first; docs/deploy.md has one with versions and without public access",
    "AccessDenied": _NOT_ALLOWED,
    "403": _NOT_ALLOWED,
    "InvalidAccessKeyId": LOG_IN,
    "ExpiredToken": LOG_IN,
    "InvalidToken": LOG_IN,
    "SignatureDoesNotMatch": LOG_IN,
    "RequestTimeTooSkewed": "set this machine's clock",
    "PermanentRedirect": "the bucket is in another region: name it with --region",
    "AuthorizationHeaderMalformed": "the bucket is in another region: name it with --region",
}
_NOT_S3 = "a proxy or a log-in page may stand before it; AWS_ENDPOINT_URL names another service that speaks S3"
_UNKEPT = "two writers could lose each other's rows there: use a store that docs/stored.md describes"
_LONGEST_CODE = 60
_READS = 3
_REDIRECT = 300
_UNCHANGED = 304  # status of the answer to If-None-Match
_PART_BYTES = 8 << 20  # of an answer, read at once
_NOT_TOLD = (403, 405, 501)  # no right to read the bucket's rules, or a service without rules
_GONE = "NoSuchKey"  # of status 404, which a page or a missing bucket has too
_MISSING = 404
_CONFLICTS = (412, 409)
_UNKNOWN = (404, 501)  # status of the answer to a condition that the store does not support
_CONDITIONS = (("If-None-Match", {"IfNoneMatch": "*"}), ("If-Match", {"IfMatch": '"0123456789abcdef0123456789abcdef"'}))
_AWS = (".amazonaws.com", ".amazonaws.com.cn")
_VERSIONING = "before-parse.s3.GetBucketVersioning"
_VERSIONS = re.compile(rb"<\w*Versioning\w*[ />]")  # AWS: VersioningConfiguration

_Answer = TypeVar("_Answer")
Fact = TypeVar("Fact")


_tried: set[tuple[str, str]] = set()  # endpoints and buckets that respect conditions, as this process has tested
_trying = threading.Lock()


class _BrokenError(StoreError):
    """An answer that broke off."""


class Bucket:
    """A store in an S3 bucket; see Storage."""

    def __init__(self, session: Session, bucket: str, prefix: str, endpoint: str | None = None) -> None:
        """`endpoint`: of a service that speaks S3 and is not AWS's. Raises ServiceError without credentials."""
        find_credentials(session)
        self.location = f"s3://{bucket}/{prefix}".rstrip("/")
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._session = session
        self._client: Any = open_client(session, "s3", region_of(session), _CONFIG, endpoint)
        self._client.meta.events.register(_VERSIONING, _require_versioning, unique_id=_VERSIONING)

    def read(self, name: str, start: int = 0, stop: int | None = None, most: int = limits.MAX_OBJECT_BYTES) -> bytes:
        wanted = {} if not start and stop is None else {"Range": f"bytes={start}-{'' if stop is None else stop - 1}"}
        return self._content(name, most if stop is None else stop - start, wanted)[0]

    def read_versioned(
        self, name: str, most: int = limits.MAX_HEAD_BYTES, earlier: tuple[bytes, str] | None = None
    ) -> tuple[bytes, str] | None:
        try:
            return self._content(name, most, {"IfNoneMatch": earlier[1]} if earlier else {})
        except NotStoredError:
            return None
        except StoreError as error:
            if earlier is None or error.status != _UNCHANGED:
                raise
            return earlier

    def write(self, name: str, content: bytes) -> None:
        self._put(name, content, {"IfNoneMatch": "*"})

    def flush(self, folders: Iterable[str]) -> None:
        """What S3 has confirmed is durable."""

    def replace(self, name: str, content: bytes, expected: str | None) -> str:
        return self._put(name, content, {"IfNoneMatch": "*"} if expected is None else {"IfMatch": expected})

    def exists(self) -> bool:
        return True

    def sizes(self, prefix: str) -> dict[str, int]:
        return self._listed(prefix, lambda each: int(each["Size"]))

    def dates(self, prefix: str) -> dict[str, float]:
        return self._listed(prefix, lambda each: float(each["LastModified"].timestamp()))

    def _listed(self, prefix: str, fact: Callable[[dict[str, Any]], Fact]) -> dict[str, Fact]:
        """A fact of each object under `prefix`, by name."""
        wanted = {"Bucket": self._bucket, "Prefix": f"{self.key(prefix)}/" if prefix else self._prefix}
        facts: dict[str, Fact] = {}
        while True:
            token = self._try(lambda: _add_page(facts, self._client.list_objects_v2(**wanted), wanted, fact))
            if token is None:
                return {checked(key.removeprefix(self._prefix)): each for key, each in facts.items()}
            wanted["ContinuationToken"] = token

    def names(self, prefix: str) -> Iterator[str]:
        yield from self.sizes(prefix)

    def delete(self, names: Iterable[str]) -> None:
        for batch in _batched(names):
            keys = [self.key(name) for name in batch]
            listed = {"Objects": [{"Key": key} for key in keys]}
            answer = self._try(partial(self._client.delete_objects, Bucket=self._bucket, Delete=listed))
            deleted = {each.get("Key") for each in answer.get("Deleted", ())}
            failed = answer.get("Errors", ())
            if failed or not deleted.issuperset(keys):  # a log-in page has neither list
                left = len(failed) or len(keys) - len(deleted.intersection(keys))
                code = _word(failed[0].get("Code")) if failed else "it does not name them"
                hint = _HINTS.get(code, _AGAIN) if failed else _NOT_S3
                raise StoreError(f"{self.location}: {left} objects could not be deleted ({code})", hint=hint)

    def retention(self) -> Retention | None:
        try:
            versioning = self._try(lambda: self._client.get_bucket_versioning(Bucket=self._bucket))
            if "Status" not in versioning:  # never enabled; a bucket with suspended versioning keeps its old versions
                return Retention(keeps=False)
            return of_bucket(self._prefix, self._try(self._lifecycle))
        except StoreError as error:
            if error.status in _NOT_TOLD:
                return None
            raise

    def _lifecycle(self) -> list[dict[str, Any]]:
        try:
            rules: list[dict[str, Any]] = self._client.get_bucket_lifecycle_configuration(Bucket=self._bucket)["Rules"]
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") != "NoSuchLifecycleConfiguration":
                raise
            return []
        return rules

    def link(self, name: str, seconds: int) -> str:
        return self._link("get_object", self._object(name), seconds)

    def put_link(self, name: str, seconds: int) -> str:
        # the writer must send this header, which is signed: no object can be overwritten
        return self._link("put_object", {**self._object(name), "IfNoneMatch": "*"}, seconds)

    def signing_ends(self) -> datetime | None:
        """When links expire together with the credentials that signed them; see `session_ends`."""
        return session_ends(self._session)

    @property
    def base(self) -> str:
        """The bucket's URL. A service can read any prefix of its bucket through a link."""
        link = self.link("x", 60).partition("?")[0]
        return link.removesuffix(quote(f"{self._prefix}x", safe="/~"))

    def close(self) -> None:
        self._client.close()

    def _link(self, operation: str, parameters: dict[str, str], seconds: int) -> str:
        url: str = self._try(
            lambda: self._signer.generate_presigned_url(operation, Params=parameters, ExpiresIn=seconds)
        )
        return url

    @cached_property
    def _signer(self) -> Any:
        """A client whose links contain the bucket's own regional host. AWS's client does not do so by default."""
        host = urlsplit(self._client.meta.endpoint_url).hostname or ""
        if "." in self._bucket or not host.endswith(_AWS):
            return self._client  # no certificate fits a name with a dot; other stores have one host for all buckets
        virtual = _CONFIG.merge(Config(s3={**_CONFIG.s3, "addressing_style": "virtual"}))
        return open_client(self._session, "s3", self._client.meta.region_name, virtual)

    def _put(self, name: str, content: bytes, condition: dict[str, str]) -> str:
        self._require_conditions(name)
        try:
            return self._send(name, content, condition)
        except NotStoredError as gone:  # the object to be replaced
            raise ConflictError(f"{self.location}: another process dropped the table at the same time") from gone
        except ConflictError:  # also if botocore repeated the request because the first answer was lost
            current = self.read_versioned(name, limits.MAX_MANIFEST_BYTES)
            if current is None or current[0] != content:
                raise
            return current[1]

    def _send(self, name: str, content: bytes, condition: dict[str, str]) -> str:
        digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
        whole = {**self._object(name), "Body": content, "ChecksumSHA256": digest, **condition}
        return self._try(lambda: str(self._client.put_object(**whole)["ETag"]))

    def _require_conditions(self, name: str) -> None:
        """Test once per process whether a store other than AWS respects conditions, with an object beside `name`.

        Raises StoreError if it overwrites an object in spite of them.
        """
        endpoint = str(self._client.meta.endpoint_url)
        host = urlsplit(endpoint).hostname or ""
        if host.endswith(_AWS):
            return
        with _trying:  # several threads write segments
            if (endpoint, self._bucket) in _tried:
                return
            probe = "/".join([*name.split("/")[:-1], f"probe.{secrets.token_hex(16)}"])
            with contextlib.suppress(ConflictError):  # sent twice because the first answer was lost
                self._send(probe, b"", {"IfNoneMatch": "*"})
            try:
                for header, condition in _CONDITIONS:
                    if not self._is_kept(probe, condition):
                        raise StoreError(
                            f"{self.location}: the store at {host} writes over an object in spite of {header}",
                            hint=_UNKEPT,
                        )
            finally:
                with contextlib.suppress(StoreError):  # without the right to delete, the object remains
                    self.delete([probe])
            _tried.add((endpoint, self._bucket))

    def _is_kept(self, probe: str, condition: dict[str, str]) -> bool:
        try:
            self._send(probe, b"x", condition)
        except ConflictError:
            return True
        except StoreError as error:
            if error.status not in _UNKNOWN:
                raise
        return False

    def _content(self, name: str, most: int, wanted: dict[str, str]) -> tuple[bytes, str]:
        """At most `most` bytes, and their version. Raises ForeignError if S3 announces or sends more."""

        def whole() -> tuple[bytes, str]:
            answer = self._client.get_object(**self._object(name), **wanted)
            with contextlib.closing(answer["Body"]) as body:
                if answer["ContentLength"] > most:
                    raise too_large(self.location, name, most)
                return self._received(name, body, most), str(answer["ETag"])

        for _ in range(_READS - 1):  # botocore repeats a failed request, but not one whose answer breaks off
            try:
                return self._try(whole)
            except _BrokenError:
                pass
        return self._try(whole)

    def _received(self, name: str, body: Any, most: int) -> bytes:
        parts, size = [], 0
        while part := body.read(_PART_BYTES):  # read to EOF so that botocore verifies length and checksum
            parts.append(part)
            size += len(part)
            if size > most:
                raise too_large(self.location, name, most)
        return b"".join(parts)

    def _try(self, ask: Callable[[], _Answer]) -> _Answer:
        try:
            return ask()
        except ClientError as error:
            raise self._refused(error) from None
        except S3ConnectionError:
            raise StoreError(f"{self.location}: the store cannot be reached", hint=self._way()) from None
        # urllib3's errors: the body of an error broke off
        except (HTTPClientError, IncompleteReadError, FlexibleChecksumError, HTTPError, OSError) as error:
            name = type(error).__name__
            raise _BrokenError(f"{self.location}: the connection broke ({name})", hint=self._way()) from None
        except BotoCoreError as error:
            translated = aws_error("S3", error, settings_of(self._session))
            raise StoreError(f"{self.location}: {translated.message}", hint=translated.hint) from None
        except WrongAnswerError as error:
            raise StoreError(f"{self.location}: the answering service is not S3 ({error})", hint=_NOT_S3) from None
        # botocore follows circular redirects without end
        except (ResponseParserError, RecursionError, KeyError, TypeError, ValueError, AttributeError) as error:
            name = type(error).__name__
            raise StoreError(f"{self.location}: the answering service is not S3 ({name})", hint=_NOT_S3) from None

    def _way(self) -> str:
        return way_hint(settings_of(self._session))

    def _refused(self, error: ClientError) -> StoreError:
        """The error without S3's text, which may quote credentials and names."""
        code = str(error.response.get("Error", {}).get("Code"))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if status == _MISSING and code == _GONE:
            return NotStoredError(f"{self.location}: an object of the table is not there", status=status)
        if status in _CONFLICTS:
            return ConflictError(f"{self.location}: another process changed the table at the same time", status=status)
        return StoreError(f"{self.location}: S3 answered {_word(code)}", hint=_HINTS.get(code, _AGAIN), status=status)

    def key(self, name: str) -> str:
        return self._prefix + checked(name)

    def _object(self, name: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self.key(name)}


def _require_versioning(response_dict: dict[str, Any], **_: Any) -> None:
    """Raise StoreError if the answer does not state the bucket's versioning.

    Botocore would read any other answer, for instance a list of objects or a web page, as "no versions".
    """
    if response_dict["status_code"] < _REDIRECT and not _VERSIONS.search(response_dict["body"]):
        raise StoreError("the store does not say whether it keeps old versions", hint=_NOT_S3, status=_NOT_TOLD[-1])


def _add_page(
    facts: dict[str, Fact], page: dict[str, Any], wanted: dict[str, str], fact: Callable[[dict[str, Any]], Fact]
) -> str | None:
    """Add a `fact` of each object of a page of a list to `facts`, by key. Returns the token of the next page, None
    after the last.

    Raises ValueError, KeyError or AttributeError for anything that is no page of that list.
    """
    token = str(page["NextContinuationToken"]) if page["IsTruncated"] else None
    if token is not None and token == wanted.get("ContinuationToken"):
        raise WrongAnswerError("its list of objects never ends")
    listed = page.get("Contents", ())
    if page.get("KeyCount", len(listed)) != len(listed):
        raise WrongAnswerError("its list names fewer objects than it counts")
    for entry in listed:
        key, found = str(entry["Key"]), fact(entry)
        if not key.startswith(wanted["Prefix"]):
            raise WrongAnswerError("its list names objects of another folder")
        if key in facts:
            raise WrongAnswerError("its list names an object twice")
        facts[key] = found
    if len(facts) > limits.MAX_LISTED_NAMES:
        raise WrongAnswerError(f"its list has more than {limits.MAX_LISTED_NAMES:,} names")
    return token


def _word(code: Any) -> str:
    """An error's code, if it is one; a text could quote anything."""
    return code if isinstance(code, str) and code.isalnum() and len(code) < _LONGEST_CODE else "an error"


def _batched(names: Iterable[str]) -> Iterator[tuple[str, ...]]:  # itertools.batched needs Python 3.12
    waiting = iter(names)
    while batch := tuple(itertools.islice(waiting, _DELETED_AT_ONCE)):
        yield batch

"""A store under a prefix of an S3 bucket. Heads change by conditional writes, objects go with their SHA-256."""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.exceptions import ConnectionError as S3ConnectionError
from botocore.session import Session

from cleave.store.storage import ConflictError, NotStoredError, StoreError, checked
from cleave.transport.aws import credentials_error, find_credentials, region_of

_DELETED_AT_ONCE = 1000  # by DeleteObjects
_CONNECTIONS = 16
_CONFIG = Config(
    connect_timeout=10,
    read_timeout=60,
    retries={"mode": "standard", "total_max_attempts": 4},
    max_pool_connections=_CONNECTIONS,
    signature_version="s3v4",
    s3={"us_east_1_regional_endpoint": "regional"},
)
_GONE = {"NoSuchKey", "404", "NotFound"}
_TAKEN = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}

Answer = TypeVar("Answer")


class Bucket:
    """See Storage."""

    def __init__(self, session: Session, bucket: str, prefix: str, endpoint: str | None = None) -> None:
        """`endpoint`: of a service that speaks S3 and is not AWS's. Raises ServiceError without credentials."""
        find_credentials(session)
        self.location = f"s3://{bucket}/{prefix}".rstrip("/")
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._client: Any = session.create_client(
            "s3", region_name=region_of(session), endpoint_url=endpoint, config=_CONFIG
        )

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        wanted = {} if not start and stop is None else {"Range": f"bytes={start}-{'' if stop is None else stop - 1}"}
        return self._content(lambda: self._client.get_object(**self._object(name), **wanted))[0]

    def read_versioned(self, name: str) -> tuple[bytes, str] | None:
        try:
            return self._content(lambda: self._client.get_object(**self._object(name)))
        except NotStoredError:
            return None

    def write(self, name: str, content: bytes) -> None:
        self._put(name, content, {"IfNoneMatch": "*"})

    def replace(self, name: str, content: bytes, expected: str | None) -> str:
        return self._put(name, content, {"IfNoneMatch": "*"} if expected is None else {"IfMatch": expected})

    def names(self, prefix: str) -> Iterator[str]:
        wanted = {"Bucket": self._bucket, "Prefix": f"{self._key(prefix)}/" if prefix else self._prefix}
        while True:
            page = self._try(partial(self._client.list_objects_v2, **wanted))
            for each in page.get("Contents", ()):
                yield checked(str(each["Key"])[len(self._prefix) :])
            if not page.get("IsTruncated"):
                return
            wanted["ContinuationToken"] = page["NextContinuationToken"]

    def delete(self, names: Iterable[str]) -> None:
        for batch in _batched(names):
            listed = {"Objects": [{"Key": self._key(name)} for name in batch], "Quiet": True}
            answer = self._try(partial(self._client.delete_objects, Bucket=self._bucket, Delete=listed))
            if errors := answer.get("Errors"):
                raise StoreError(f"{self.location}: {len(errors)} objects could not be deleted")

    def link(self, name: str, seconds: int) -> str:
        url: str = self._try(
            lambda: self._client.generate_presigned_url("get_object", Params=self._object(name), ExpiresIn=seconds)
        )
        return url

    def close(self) -> None:
        self._client.close()

    def _put(self, name: str, content: bytes, condition: dict[str, str]) -> str:
        digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
        answer = self._try(
            lambda: self._client.put_object(**self._object(name), Body=content, ChecksumSHA256=digest, **condition)
        )
        return str(answer["ETag"])

    def _content(self, ask: Callable[[], Any]) -> tuple[bytes, str]:
        def whole() -> tuple[bytes, str]:
            answer = ask()
            with answer["Body"] as body:
                return body.read(), str(answer["ETag"])

        return self._try(whole)

    def _try(self, ask: Callable[[], Answer]) -> Answer:
        try:
            return ask()
        except ClientError as error:
            raise self._refused(error) from None
        except S3ConnectionError:
            raise StoreError(f"{self.location}: the store cannot be reached", hint="check the network") from None
        except BotoCoreError as error:
            raise self._broken(error) from None
        except OSError as error:
            raise StoreError(f"{self.location}: the connection broke ({type(error).__name__})") from None

    def _refused(self, error: ClientError) -> StoreError:
        """Without S3's own text, which may quote credentials and names."""
        code = str(error.response.get("Error", {}).get("Code"))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if code in _GONE:
            return NotStoredError(f"{self.location}: an object of the table is not there", status=status)
        if code in _TAKEN:
            return ConflictError(f"{self.location}: the table was changed by somebody else meanwhile", status=status)
        hints = {
            "NoSuchBucket": "make the bucket first; docs/deploy.md has one with versions and without public access",
            "AccessDenied": "these credentials may not read or write there",
            "403": "these credentials may not read or write there",
        }
        word = code if code.isalnum() else "an error"
        return StoreError(f"{self.location}: S3 answered {word}", hint=hints.get(code), status=status)

    def _broken(self, error: BotoCoreError) -> StoreError:
        known = credentials_error(error)
        return StoreError(f"{self.location}: {known.message}", hint=known.hint)

    def _object(self, name: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._key(name)}

    def _key(self, name: str) -> str:
        return self._prefix + checked(name)


def _batched(names: Iterable[str]) -> Iterator[tuple[str, ...]]:  # itertools.batched is there from 3.12
    waiting = iter(names)
    while batch := tuple(itertools.islice(waiting, _DELETED_AT_ONCE)):
        yield batch

"""Limits on answers to botocore's clients: botocore reads most answers whole, whatever their size.

botocore sends with URLLib3Session. Here that session does not read an answer; the caller reads its content up to a
limit. Objects are streamed, and their reader counts the bytes.
"""

from __future__ import annotations

from typing import Any, TypeVar

from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError
from urllib3.exceptions import HTTPError

from cleave_shared import limits

_Client = TypeVar("_Client")

_FIRST_ERROR = 300


class WrongAnswerError(ValueError):
    """An answer that the service would not give. The text says why, and quotes nothing."""


class _Answer(AWSResponse):  # type: ignore[misc]
    _whole: bytes | None = None

    @property
    def content(self) -> bytes:
        """The answer's body. Raises WrongAnswerError, and urllib3's errors if the connection breaks."""
        if self._whole is None:
            is_error = self.status_code >= _FIRST_ERROR
            most = limits.MAX_STORE_ERROR_BYTES if is_error else limits.MAX_STORE_ANSWER_BYTES
            parts, size = [], 0
            for part in self.raw.stream(1 << 16):
                size += len(part)
                if size > most:
                    self.raw.close()
                    raise WrongAnswerError(f"an {'error' if is_error else 'answer'} of more than {most:,} bytes")
                parts.append(part)
            self._whole = b"".join(parts)
        return self._whole


class _Session:
    """HTTP session of a botocore client; replaces URLLib3Session."""

    def __init__(self, inside: Any) -> None:
        self._inside = inside

    def send(self, request: Any) -> AWSResponse:
        is_object, request.stream_output = request.stream_output, True
        sent = self._inside.send(request)
        answer = _Answer(sent.url, sent.status_code, sent.headers, sent.raw)
        if not is_object:
            try:
                answer.content  # noqa: B018 - read here, where botocore repeats a request whose answer breaks off
            except (HTTPError, OSError) as error:
                raise ConnectionClosedError(error=error, request=request, endpoint_url=request.url) from None
        return answer

    def close(self) -> None:
        self._inside.close()


def bounded(client: _Client) -> _Client:
    """Limit the answers of a client, and return it."""
    endpoint: Any = client._endpoint  # type: ignore[attr-defined]
    if not isinstance(endpoint.http_session, _Session):
        endpoint.http_session = _Session(endpoint.http_session)
    return client

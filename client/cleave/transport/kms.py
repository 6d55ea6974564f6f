"""AWS KMS, which makes and decrypts the data keys that wrap a key file."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cleave_shared.errors import InputError, KeyFileError, ServiceError, UsageError

if TYPE_CHECKING:
    from boto3.session import Session

ARN = re.compile(
    r"arn:aws[a-z-]{0,20}:kms:(?P<region>[a-z0-9-]{1,40}):[0-9]{12}:(key/[A-Za-z0-9-]{1,128}|alias/[A-Za-z0-9/_-]{1,250})"
)
CONTEXT = "cleave-key-id"  # name in the encryption context, which policies can use
_BYTES = 32
_RIGHTS = "docs/key-file.md has the policy that it needs"
_LATER = "try again; https://health.aws.amazon.com says more"
_ANOTHER = "if the key file has another wrapping, that still opens it: `cleave key show` lists them"
_PROBLEMS: dict[str, tuple[str, str]] = {
    "AccessDeniedException": ("these credentials have no right to use it", _RIGHTS),
    "DisabledException": ("it is disabled", f"enable it; {_ANOTHER}"),
    "KMSInvalidStateException": (
        "it cannot be used in its state: it may be scheduled for deletion",
        f"cancel its deletion; {_ANOTHER}",
    ),
    "InvalidKeyUsageException": ("it does not encrypt", "name a symmetric key for encryption and decryption"),
    **dict.fromkeys(
        ("ThrottlingException", "LimitExceededException", "KMSInternalException", "DependencyTimeoutException"),
        ("AWS KMS is too busy or has a fault", _LATER),
    ),
    "KeyUnavailableException": ("AWS KMS cannot reach it now", _LATER),
}
_LOGGED_OUT = {
    *("UnrecognizedClientException", "InvalidClientTokenId", "ExpiredTokenException", "ExpiredToken"),
    *("IncompleteSignature", "InvalidSignatureException", "MissingAuthenticationToken"),
}
_NOT_ITS_OWN = {"InvalidCiphertextException", "IncorrectKeyException"}


def check_arn(arn: str) -> str:
    """Return `arn`, of a key or an alias. Raises UsageError if it is no ARN of KMS."""
    if not ARN.fullmatch(arn):
        raise UsageError(
            f"--kms {arn}: not the ARN of a KMS key",
            hint="it names region, account and key: arn:aws:kms:eu-west-1:111122223333:key/...",
            name="--kms",
        )
    return arn


class Kms:
    """AWS KMS, over a session that is opened at first use."""

    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session

    def data_key(self, arn: str, key_id: str) -> tuple[str, bytes, bytes]:
        """See cleave.ckks.kms_wrapping.KeyService."""
        answer = self._ask(arn, "generate_data_key", key_id, KeySpec="AES_256")
        own, sealed = answer.get("KeyId"), answer.get("CiphertextBlob")
        if not isinstance(own, str) or not isinstance(sealed, bytes):
            raise _wrong(arn)
        return own, _plain(arn, answer), sealed

    def decrypt(self, arn: str, key_id: str, sealed: bytes) -> bytes:
        return _plain(arn, self._ask(arn, "decrypt", key_id, CiphertextBlob=sealed))

    def _ask(self, arn: str, operation: str, key_id: str, **more: Any) -> dict[str, Any]:
        match = ARN.fullmatch(arn)
        if match is None:
            raise InputError(f"{arn}: not the ARN of a KMS key")
        session, region = self._session(), match["region"]
        from botocore.config import Config  # noqa: PLC0415 - boto3 takes 120 ms; a passphrase needs none
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - as above
        from botocore.parsers import ResponseParserError  # noqa: PLC0415 - as above

        from cleave.transport.aws import aws_error, find_credentials, open_client, settings_of  # noqa: PLC0415

        find_credentials(session)
        waits = Config(connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 3})
        client = open_client(session, "kms", region, waits)
        try:
            answer: dict[str, Any] = getattr(client, operation)(KeyId=arn, EncryptionContext={CONTEXT: key_id}, **more)
        except ClientError as error:
            raise _problem(arn, region, operation, error) from None
        except BotoCoreError as error:
            raise aws_error(f"AWS KMS in {region}", error, settings_of(session, region)) from None
        except (ResponseParserError, RecursionError, KeyError, TypeError, ValueError):  # WrongAnswerError too
            raise _wrong(arn) from None
        return answer


def _problem(arn: str, region: str, operation: str, error: Any) -> ServiceError | KeyFileError:
    """The error for an answer, from its code: its text may quote a request."""
    code = str(error.response.get("Error", {}).get("Code"))
    if code in _NOT_ITS_OWN:
        return KeyFileError(
            f"{arn}: AWS KMS decrypts no wrapping of this key file with it",
            hint="the file is damaged, or the wrapping is of another key id: restore it from a backup",
        )
    if code == "NotFoundException":
        return ServiceError(
            f"{arn}: there is no such key in {region}", hint="a key is in one region and account: check its whole ARN"
        )
    if code in _LOGGED_OUT:
        from cleave.transport.aws import LOG_IN  # noqa: PLC0415 - as above

        return ServiceError(f"{arn}: AWS does not accept these credentials", hint=LOG_IN)
    if code in _PROBLEMS:
        said, hint = _PROBLEMS[code]
        right = "kms:Decrypt" if operation == "decrypt" else "kms:GenerateDataKey"
        return ServiceError(f"{arn}: {said}{f' ({right})' if hint == _RIGHTS else ''}", hint=hint)
    word = code if code.isalnum() else "an error"
    return ServiceError(f"{arn}: AWS KMS answered {word}", hint=_LATER)


def _plain(arn: str, answer: dict[str, Any]) -> bytes:
    plain = answer.get("Plaintext")
    if not isinstance(plain, bytes) or len(plain) != _BYTES:
        raise _wrong(arn)
    return plain


def _wrong(arn: str) -> ServiceError:
    return ServiceError(f"{arn}: the answer is not AWS KMS's", hint="check AWS_ENDPOINT_URL and proxies")

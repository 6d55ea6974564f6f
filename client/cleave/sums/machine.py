"""A state machine of the deployed stack in AWS Step Functions: start, look up, watch and stop an execution.

Errors show AWS's error code only. AWS's texts may quote the input, which contains links.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.exceptions import ConnectionError as AwsConnectionError

from cleave.transport.aws import aws_error, find_credentials, open_client, settings_of
from cleave.transport.bounded import WrongAnswerError
from cleave.transport.foreign import way_hint
from cleave_shared.errors import InputError, ServiceError

_ARN = re.compile(r"arn:[\w-]+:states:([\w-]+):\d{12}:stateMachine:([\w-]+)")
_CONFIG = Config(connect_timeout=10, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 4})
_HINTS = {
    "StateMachineDoesNotExist": "the stack's output Job has the machine's ARN",
    "AccessDeniedException": "docs/deploy.md has the policy of who runs a job",
}


@dataclass(frozen=True, slots=True)
class Execution:
    """`status`: in the words of Step Functions. `output`: of a successful execution."""

    name: str
    status: str
    output: Any = None
    error: str | None = None

    @property
    def is_over(self) -> bool:
        return self.status not in ("RUNNING", "PENDING_REDRIVE")


class Machine:
    def __init__(self, session: Session, arn: str) -> None:
        """Raises InputError if `arn` is not a state machine's ARN, ServiceError without credentials."""
        match = _ARN.fullmatch(arn)
        if match is None:
            raise InputError(
                "--job takes the ARN of a state machine",
                hint="the stack's output Job: arn:aws:states:...:stateMachine:...",
            )
        find_credentials(session)
        self._session = session
        self._arn = arn
        self._client: Any = open_client(session, "stepfunctions", match[1], _CONFIG)

    def start(self, name: str, content: Mapping[str, Any]) -> None:
        """Start the execution `name`, unless an execution of that name exists."""
        self._try(
            lambda: self._client.start_execution(stateMachineArn=self._arn, name=name, input=json.dumps(content)),
            passing="ExecutionAlreadyExists",
        )

    def find(self, name: str) -> Execution | None:
        """The execution of that name; None if there is none, or AWS has deleted it (after 90 days)."""
        answer = self._try(
            lambda: self._client.describe_execution(executionArn=self._execution(name)), passing="ExecutionDoesNotExist"
        )
        if answer is None:
            return None
        output = answer.get("output")
        return Execution(name, str(answer["status"]), json.loads(output) if output else None, answer.get("error"))

    def progress(self, name: str) -> tuple[int, int]:
        """(Finished items, all items) of the execution's map; (0, 0) if AWS does not show them."""
        listed = self._try(
            lambda: self._client.list_map_runs(executionArn=self._execution(name)), passing="AccessDeniedException"
        )
        if not listed or not listed["mapRuns"]:
            return 0, 0
        run = listed["mapRuns"][0]["mapRunArn"]
        answer = self._try(lambda: self._client.describe_map_run(mapRunArn=run), passing="AccessDeniedException")
        counts = answer["itemCounts"] if answer else {"succeeded": 0, "total": 0}
        return int(counts["succeeded"]), int(counts["total"])

    def stop(self, name: str) -> None:
        self._try(
            lambda: self._client.stop_execution(executionArn=self._execution(name)), passing="ExecutionDoesNotExist"
        )

    def close(self) -> None:
        self._client.close()

    def _execution(self, name: str) -> str:
        return f"{self._arn.replace(':stateMachine:', ':execution:')}:{name}"

    def _try(self, ask: Callable[[], Any], passing: str | None = None) -> Any:
        """Return None if AWS answers with the error `passing`."""
        try:
            return ask()
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code"))
            if code == passing:
                return None
            word = code if code.isalnum() else "an error"
            raise ServiceError(f"Step Functions answered {word}", hint=_HINTS.get(code)) from None
        except AwsConnectionError:
            raise ServiceError("Step Functions cannot be reached", hint=way_hint(settings_of(self._session))) from None
        except WrongAnswerError as error:
            raise ServiceError(f"Step Functions answered {error}", hint="a proxy may stand before it") from None
        except BotoCoreError as error:
            raise aws_error("Step Functions", error, settings_of(self._session)) from None

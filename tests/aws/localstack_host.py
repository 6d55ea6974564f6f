"""Run LocalStack in host mode, with the functions it is given on this machine instead of in containers.

Runs in the environment of requirements-localstack.lock (`make deploy-local`), not in ours. Each invocation is a new
process of a bare Python 3.13, as Lambda's, with the function's own packages from the deployed archive.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from localstack.runtime.main import main
from localstack.services.lambda_.invocation import execution_environment, version_manager
from localstack.services.lambda_.invocation.lambda_models import FunctionVersion, InvocationResult
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor

_CALL = """
import importlib, json, sys
code, handler = sys.argv[1:]
sys.path.insert(0, code)
module, _, name = handler.rpartition(".")
answer = sys.stdout
sys.stdout = sys.stderr
try:
    reply = getattr(importlib.import_module(module), name)(json.load(sys.stdin), None)
except Exception as error:
    json.dump({"errorType": type(error).__name__, "errorMessage": str(error)}, answer)
    sys.exit(1)
json.dump(reply, answer)
"""


class HostExecutor(RuntimeExecutor):
    def start(self, env_vars: dict[str, str]) -> None:
        # Links of clients here lead to LocalStack's address, and not to the bucket's domain as the template says.
        domain, _, prefix = env_vars["CLEAVE_STORE_URLS"].removeprefix("https://").partition("/")
        place = f"http://{os.environ['GATEWAY_LISTEN']}/{domain.partition('.s3.')[0]}/{prefix}"
        given = {name: str(value) for name, value in env_vars.items()}
        self._environment = given | {"CLEAVE_STORE_URLS": place, "PATH": os.environ["PATH"]}

    def invoke(self, payload: dict[str, str]) -> InvocationResult:
        config = self.function_version.config
        python = sys._base_executable  # type: ignore[attr-defined]
        command = [python, "-I", "-c", _CALL, str(config.code.get_unzipped_code_location())]
        done = subprocess.run(
            [*command, config.handler],
            input=payload["payload"].encode(),
            env=self._environment,
            capture_output=True,
            timeout=config.timeout,
            check=False,
        )
        log = done.stderr.decode(errors="replace")
        sys.stderr.write(log)
        answer = done.stdout or json.dumps({"errorType": "Runtime.ExitError", "errorMessage": ""}).encode()
        return InvocationResult(payload["invoke-id"], answer, done.returncode != 0, log)

    def stop(self) -> None: ...

    def get_address(self) -> str:
        return "127.0.0.1"

    def get_endpoint_from_executor(self) -> str:
        return "127.0.0.1"

    def get_runtime_endpoint(self) -> str:
        return ""

    def get_logs(self) -> str:
        return ""

    @classmethod
    def prepare_version(cls, function_version: FunctionVersion) -> None:
        function_version.config.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: FunctionVersion) -> None: ...


if __name__ == "__main__":
    for module in (execution_environment, version_manager):
        module.get_runtime_executor = lambda: HostExecutor
    main()

"""One line of JSON per request on the logger cleave.service: numbers, no names, no SQL, no bodies."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

_log = logging.getLogger("cleave.service")
_log.addHandler(logging.NullHandler())  # embedded in the client, a service logs nothing; see `log_to_stderr`


def log_to_stderr() -> None:
    """Send the request log to stderr, as lines of bare JSON, independent of the root logger."""
    _log.handlers = [_Stderr()]
    _log.setLevel(logging.INFO)
    _log.propagate = False


def log(line: Mapping[str, Any]) -> None:
    """Write one line. On Lambda it has CloudWatch's embedded metric format, which makes metrics of three of the
    numbers.
    """
    function = os.environ.get("AWS_LAMBDA_FUNCTION_NAME")
    if function is not None:
        line = {"function": function, **line, "refused": int("error" in line or line.get("status", 200) != 200)}
        named = [{"Name": name} for name in ("seconds", "chunks", "refused") if name in line]
        metrics = {"Namespace": "Cleave", "Dimensions": [["function"]], "Metrics": named}
        line |= {"_aws": {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [metrics]}}
    _log.info(json.dumps(line))


class _Stderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(record.getMessage() + "\n")

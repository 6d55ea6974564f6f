"""Print template.yaml as SAM's own translator passes it to CloudFormation, for cfn-lint.

AWS_DEFAULT_REGION=eu-central-1 python -m aws.translate > translated.json
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TEMPLATE = Path(__file__).parent.parent / "template.yaml"


class _NoPolicies:
    def load(self) -> dict[str, str]:
        return {}  # no function names a managed policy


def source() -> dict[str, Any]:
    return copy.deepcopy(_parsed())  # the translator changes what it is given


@functools.cache
def _parsed() -> dict[str, Any]:
    from samtranslator.yaml_helper import yaml_parse  # noqa: PLC0415 - 0.6 s, which most tests of the template do not need

    parsed: dict[str, Any] = yaml_parse(TEMPLATE.read_text("utf-8"))
    return parsed


def translate(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the translated template, with conditions unchanged. It needs AWS_DEFAULT_REGION, but no network."""
    from samtranslator.translator.transform import transform  # noqa: PLC0415 - as above

    template = source()
    template["Globals"]["Function"]["CodeUri"] = "s3://bucket/artifact"  # what `sam deploy` puts there
    translated: dict[str, Any] = transform(template, dict(parameters), _NoPolicies())
    return translated


def main() -> None:
    defaults = {name: each.get("Default") for name, each in source()["Parameters"].items()}
    print(json.dumps(translate(defaults), indent=1))


if __name__ == "__main__":
    main()

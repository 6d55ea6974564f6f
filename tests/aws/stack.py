"""template.yaml as CloudFormation would see it: translated by SAM's own translator, conditions resolved."""

from __future__ import annotations

import copy
import functools
import json
from typing import Any

_ABSENT = {"Ref": "AWS::NoValue"}


def translate(**parameters: str) -> dict[str, Any]:
    """The stack with these parameters: resources that are really made, `Fn::If` and parameters' Refs replaced.

    Needs AWS_DEFAULT_REGION; asks nobody.
    """
    return copy.deepcopy(_translated(frozenset(parameters.items())))


@functools.cache
def _translated(parameters: frozenset[tuple[str, str]]) -> dict[str, Any]:
    from aws.translate import source, translate  # noqa: PLC0415 - SAM's translator takes 0.6 s to import

    values = {name: each.get("Default") for name, each in source()["Parameters"].items()} | dict(parameters)
    stack = translate(values)
    conditions = {name: _holds(rule, values) for name, rule in stack["Conditions"].items()}
    for section in ("Resources", "Outputs"):
        made = {name: each for name, each in stack[section].items() if conditions.get(each.get("Condition"), True)}
        stack[section] = _resolve(made, conditions, values)
    return stack


def of_type(stack: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """Properties by logical id."""
    return {name: each["Properties"] for name, each in stack["Resources"].items() if each["Type"] == kind}


def references(value: Any) -> set[str]:
    """Logical ids that Ref, GetAtt, Sub and DependsOn name; pseudo parameters and `Sub`'s own variables left out."""
    found: set[str] = set()
    if isinstance(value, list):
        return set().union(*map(references, value))
    if not isinstance(value, dict):
        return found
    for name, inner in value.items():
        if name == "Ref" or (name == "DependsOn" and isinstance(inner, str)):
            found.add(inner)
        elif name == "DependsOn":
            found |= set(inner)
        elif name == "Fn::GetAtt":
            found.add(inner[0])
        elif name == "Fn::Sub":
            text = inner if isinstance(inner, str) else inner[0]
            found |= {part.split("}")[0].split(".")[0] for part in text.split("${")[1:]}
            found |= references(inner)
        else:
            found |= references(inner)
    return {name for name in found if not name.startswith(("AWS::", "__"))}


def _holds(rule: dict[str, Any], values: dict[str, Any]) -> bool:
    ((name, arguments),) = rule.items()
    if name == "Fn::Not":
        return not _holds(arguments[0], values)
    if name == "Fn::Equals":
        left, right = (_value(side, values) for side in arguments)
        return str(left) == str(right)
    raise AssertionError(f"condition function {name}: {json.dumps(rule)}")


def _value(side: Any, values: dict[str, Any]) -> Any:
    if not isinstance(side, dict):
        return side
    if "Fn::Join" in side:
        separator, parts = side["Fn::Join"]
        return separator.join(_value(parts, values))
    return values[side["Ref"]]


def _resolve(value: Any, conditions: dict[str, bool], values: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [kept for each in value if (kept := _resolve(each, conditions, values)) != _ABSENT]
    if not isinstance(value, dict):
        return value
    if "Fn::If" in value:
        condition, yes, no = value["Fn::If"]
        return _resolve(yes if conditions[condition] else no, conditions, values)
    if value.keys() == {"Ref"} and value["Ref"] in values:
        return values[value["Ref"]]
    resolved = {name: _resolve(inner, conditions, values) for name, inner in value.items()}
    return {name: inner for name, inner in resolved.items() if inner != _ABSENT}

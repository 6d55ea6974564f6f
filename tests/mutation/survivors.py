"""What is mutated, by which tests, and which survivors are justified: targets.toml and survivors.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

TARGETS = Path(__file__).with_name("targets.toml")
SURVIVORS = Path(__file__).with_name("survivors.toml")


@dataclass(frozen=True, slots=True)
class Target:
    """`modules`: paths below the source roots."""

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A mutant by what it changes, since numbers move with every edit: one line, or the lines of one statement."""

    function: str
    was: str
    becomes: str

    @property
    def module(self) -> str:
        """The module's path below its source root: `cleave.ckks.layout:Layout.fields` -> `cleave/ckks/layout.py`."""
        return self.function.split(":")[0].replace(".", "/") + ".py"


def targets() -> dict[str, Target]:
    read = tomllib.loads(TARGETS.read_text(encoding="utf-8"))
    return {name: Target(name, tuple(told["modules"]), tuple(told["tests"])) for name, told in read["target"].items()}


def justifications() -> dict[Change, str]:
    """Every justified survivor and its reason; one reason may serve several changes of a function."""
    read = tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))
    return {
        Change(entry["function"], was, becomes): entry["reason"]
        for entry in read.get("survivor", [])
        for was, becomes in entry["changes"]
    }


def unsteady() -> frozenset[Change]:
    """Those that a test sometimes kills, marked `sometimes = true`: no error if they do not survive."""
    read = tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))
    return frozenset(
        Change(entry["function"], was, becomes)
        for entry in read.get("survivor", [])
        if entry.get("sometimes", False)
        for was, becomes in entry["changes"]
    )


def justified(target: Target) -> dict[Change, str]:
    return {change: reason for change, reason in justifications().items() if change.module in target.modules}

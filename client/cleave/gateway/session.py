"""The session of a connection: its settings and its transaction, changed by commands.

A command is data: a worker has read it from a client's text (cleave.gateway.commands). Nothing here reads a text. The
gateway writes nothing, so a transaction is only a state for the client. Settings are in settings.toml.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final, NamedTuple

from cleave.gateway.refusal import Refused

DATA: Final[dict[str, Any]] = tomllib.loads(files(__package__).joinpath("settings.toml").read_text())
REPORTED: Final = {each.lower(): each for each in DATA["reported"].split()}
FIXED: Final[dict[str, str]] = DATA["fixed"]


class Setting(NamedTuple):
    """A setting's value. `number`: seconds of statement_timeout; 1 for a switch that is on."""

    text: str
    number: float = 0.0


DEFAULTS: Final[dict[str, Setting]] = {
    **{name: Setting(text) for name, text in DATA["any"].items()},
    **{name: Setting(spellings[0]) for name, spellings in DATA["one"].items()},
    **{"cleave_bounds": Setting("off"), "statement_timeout": Setting("0")},
}


@dataclass(frozen=True, slots=True)
class Command:
    """A statement, as a worker has read it.

    `tag`: its command tag; "" for a question. `size`: characters of the statement. `sql`: the question itself, or that
    of COPY or DECLARE. `start`: index of its first character in the client's text; None if `sql` is not there. `form`:
    of COPY, or "hold" for a cursor. `name`: of a cursor, statement, savepoint or setting. `count`: rows to fetch; -1
    means all. `values`: settings to change, `local`: until the transaction ends. `refusal`: message, hint and SQLSTATE,
    if it is refused.
    """

    tag: str
    size: int = 0
    sql: str = ""
    start: int | None = None
    form: str = ""
    name: str = ""
    count: int = 1
    values: Mapping[str, Setting] = field(default_factory=dict)
    local: bool = False
    refusal: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CommandComplete:
    """A command was executed. `tag`: the command tag for the client. `shown`: name and value of a setting."""

    tag: str
    shown: tuple[str, str] | None = None


@dataclass(slots=True)
class SessionSettings:
    """Settings of a connection, and its transaction. `status`: I for none, T for open, E for failed."""

    user: str
    pid: int
    values: dict[str, Setting] = field(default_factory=DEFAULTS.copy)
    status: str = "I"
    _before: dict[str, Setting] = field(default_factory=dict)
    _local: set[str] = field(default_factory=set)

    @property
    def shown(self) -> dict[str, str]:
        """Every setting, also for the catalog."""
        values = {name: each.text for name, each in self.values.items()}
        return values | FIXED | {"user": self.user, "session_authorization": self.user, "pid": str(self.pid)}

    @property
    def bounds(self) -> bool:
        return bool(self.values["cleave_bounds"].number)

    @property
    def seconds(self) -> float | None:
        """Maximum seconds of a statement; None: the gateway's own limit."""
        return self.values["statement_timeout"].number or None

    def require(self, command: Command) -> None:
        """Raises Refused if the command cannot be executed now."""
        if self.status == "E" and command.tag not in ("COMMIT", "ROLLBACK"):
            raise Refused("current transaction is aborted: ROLLBACK ends it", code="25P02")
        if command.refusal:
            said, hint, code = command.refusal
            raise Refused(said, hint, code)

    def execute(self, command: Command) -> CommandComplete | None:
        """Execute a command; None for a question. Raises Refused."""
        self.require(command)
        match command.tag:
            case "":
                return None
            case "BEGIN" | "START TRANSACTION":
                if self.status == "I":
                    self.status, self._before = "T", dict(self.values)
            case "COMMIT":
                tag = "ROLLBACK" if self.status == "E" else "COMMIT"
                self._end(commits=self.status != "E")
                return CommandComplete(tag)
            case "ROLLBACK" | "SAVEPOINT" | "RELEASE" if command.name:
                if self.status == "I":
                    raise Refused(f"{command.tag} of a savepoint needs a transaction", code="25P01")
                self.status = "T"
            case "ROLLBACK":
                self._end(commits=False)
            case "SHOW":
                return CommandComplete("SHOW", (REPORTED.get(command.name, command.name), self.shown[command.name]))
        self.values |= command.values
        if command.local and self.status != "I":
            self._local |= command.values.keys()
        return CommandComplete(command.tag)

    def _end(self, *, commits: bool) -> None:
        """End the transaction. If it `commits`, its settings stay, except those set LOCAL."""
        self.values |= {name: value for name, value in self._before.items() if not commits or name in self._local}
        self._before, self._local, self.status = {}, set(), "I"

"""Commands of the shell: a point or a backslash, a name and at most one argument, on a line of their own."""

from __future__ import annotations

from cleave.text.nearest import did_you_mean
from cleave_shared.errors import InputError

# Name -> what it does, and how its argument is called, in brackets where it may be left out.
COMMANDS = {
    ".plan": ("show what a query would send where; sends nothing", "SQL"),
    ".report": ("write the last answer as one HTML page", "FILE"),
    ".format": ("how answers are written: table, csv, json, ndjson or markdown", "[FORMAT]"),
    ".timer": ("show seconds by stage after each answer", "[on|off]"),
    ".tables": ("list the tables, as SHOW TABLES", ""),
    ".schema": ("list the columns of a table, as DESCRIBE", "[TABLE]"),
    ".help": ("show this", ""),
    ".exit": ("leave, like Ctrl-D", ""),
}
# As other shells call them; the first ones need no point.
_WORDS = {"help": ".help", "exit": ".exit", "quit": ".exit"}
_OTHERS = {".quit": ".exit", "\\q": ".exit", "\\?": ".help", "\\h": ".help"}


def is_command(text: str) -> bool:
    """Check whether a line is a command rather than SQL."""
    line = text.strip()
    return line.startswith((".", "\\")) or line.rstrip("; ").lower() in _WORDS


def read_command(line: str) -> tuple[str, str]:
    """Name and argument. Raises InputError for an unknown name, an argument too few or too many."""
    given, _, argument = line.strip().rstrip(";").partition(" ")
    argument, name = argument.strip(), given.lower()
    name = ({"\\d": ".schema" if argument else ".tables"} | _WORDS | _OTHERS).get(name, name)
    if name not in COMMANDS:
        raise InputError(
            f"there is no command {given}", hint=did_you_mean(name, COMMANDS) or ".help lists the commands"
        )
    wanted = COMMANDS[name][1]
    if argument and not wanted:
        raise InputError(f"{name} takes no argument")
    if not argument and wanted and not wanted.startswith("["):
        raise InputError(f"{name} needs an argument", hint=f"{name} {wanted}")
    return name, argument


def help_text() -> str:
    width = max(len(f"{name} {argument}") for name, (_, argument) in COMMANDS.items())
    lines = [f"{f'{name} {argument}'.ljust(width)}  {about}" for name, (about, argument) in COMMANDS.items()]
    lines += [
        "",
        "help, quit, exit, \\q, \\d and \\d TABLE work too. Anything else is SQL: one SELECT, ended by a semicolon.",
        "Tab completes, arrows recall, Ctrl-C stops what is running, Ctrl-D leaves.",
    ]
    return "\n".join(lines)

"""The shell's own commands: a point, a name and at most one argument, on a line of their own."""

from __future__ import annotations

from cleave_shared.errors import InputError

# Name -> what it does, and how its argument is called, in brackets where it may be left out.
COMMANDS = {
    ".plan": ("show what a query would send where; send nothing", "SQL"),
    ".report": ("write the last answer as one HTML page", "FILE"),
    ".format": ("how answers are written: table, csv, json, ndjson or markdown", "[FORMAT]"),
    ".timer": ("seconds by stage after each answer", "[on|off]"),
    ".tables": ("the tables, their rows and columns, as SHOW TABLES", ""),
    ".schema": ("the columns of a table as its schema declares them, as DESCRIBE", "[TABLE]"),
    ".help": ("this", ""),
    ".exit": ("leave, like Ctrl-D", ""),
}
_OTHERS = {".quit": ".exit"}


def read_command(line: str) -> tuple[str, str]:
    """Name and argument. Raises InputError for a name there is not, an argument too few or too many."""
    name, _, argument = line.strip().partition(" ")
    name, argument = _OTHERS.get(name.lower(), name.lower()), argument.strip()
    if name not in COMMANDS:
        raise InputError(f"there is no command {name}", hint=".help shows those there are")
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
        "Anything else is SQL, up to a semicolon: one SELECT a statement.",
        "Tab completes, arrows recall, Ctrl-C ends what is under way, Ctrl-D leaves.",
    ]
    return "\n".join(lines)

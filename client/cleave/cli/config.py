"""`cleave config`."""

from __future__ import annotations

from typing import Annotated

import typer

from cleave.ask.config import SETTINGS, change, config_path, origin, usual
from cleave.cli import console
from cleave.cli.options import argument
from cleave.text.nearest import did_you_mean
from cleave.text.tabular import Heading, table


def config(
    ctx: typer.Context,
    name: Annotated[str | None, argument("[NAME]", f"The setting: {', '.join(SETTINGS)}.")] = None,
    value: Annotated[str | None, argument("[VALUE]", "Its new value; '' removes it.")] = None,
) -> None:
    """Show or change settings that commands use.

    Options override environment variables, which override the file.

    Examples:
      cleave config
      cleave config store s3://bucket/prefix
    """
    if name is not None and name not in SETTINGS:
        hint = did_you_mean(name, SETTINGS) or f"settings are {', '.join(SETTINGS)}"
        raise typer.BadParameter(f"there is no setting {name!r}; {hint}")
    if name is not None and value is not None:
        path = change(name, value)
        ctx.obj.say(f"wrote {path}")
        if origin(name) == SETTINGS[name]:
            ctx.obj.say(f"warning: {SETTINGS[name]} is set and takes precedence")
        return
    if name is not None:
        console.out(usual(name) or "")
        return
    rows = [[each, usual(each) or "", origin(each)] for each in SETTINGS]
    console.out(table([Heading("setting"), Heading("value"), Heading("from")], rows))
    ctx.obj.say(f"file {config_path()}")

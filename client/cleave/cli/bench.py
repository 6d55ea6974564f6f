"""`cleave bench`: what Cleave takes on this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.cli import console
from cleave.files import PUBLIC, write_atomically
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.bench.primitive import Measured
    from cleave.bench.tables import Table
    from cleave.cli.group import Settings


def bench(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Only these, as the tables name them.", show_default=False),
    ] = None,
    primitives: Annotated[bool, typer.Option("--primitives", help="Single operations on ciphertexts.")] = False,
    micro: Annotated[bool, typer.Option("--micro", help="What services and answers are made of.")] = False,
    workloads: Annotated[bool, typer.Option("--workloads", help="Whole questions, each a process.")] = False,
    seconds: Annotated[
        float,
        typer.Option(min=0.001, max=60, help="Seconds that accumulate in each run of what is shorter than a question."),
    ] = 0.5,
    runs: Annotated[int, typer.Option(min=1, max=99, help="Runs, of which the median is told.")] = 5,
    processor: Annotated[
        bool,
        typer.Option("--cpu", help="Go by processor time, which a busy machine tells better; whole questions do not."),
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write everything that was found as JSON.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="Also write one HTML page: tables, plots, flame graphs (by py-spy)."
        ),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown tables.")] = False,
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Only measure and keep what `cleave plan` estimates with: 45 seconds."),
    ] = False,
) -> None:
    """Measure what Cleave takes on this machine, on data it makes up. Without options: everything, some minutes."""
    settings: Settings = ctx.obj
    if calibrate:
        _calibrate(settings)
        return
    for path in (json_file, html):
        if path is not None and path.exists():
            raise InputError(f"{path}: is there already", hint="name another file, or move this one away first")
    from cleave.bench import results, suite, tables  # noqa: PLC0415 - all of it loads SEAL
    from cleave.bench.micro import MICRO  # noqa: PLC0415
    from cleave.bench.primitive import PRIMITIVES  # noqa: PLC0415
    from cleave.bench.workloads import workloads as questions  # noqa: PLC0415

    everything = not (primitives or micro or workloads)
    kinds = ((primitives, PRIMITIVES), (micro, MICRO), (workloads, [each.name for each in questions()]))
    known = [name for chosen, of in kinds if chosen or everything for name in of]
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise typer.BadParameter(f"there is no {unknown[0]!r} among {', '.join(map(repr, known))}")
    wanted = names or known
    effort = suite.Effort(seconds, runs, "processor" if processor else "wall")

    def tell(name: str, taken: float) -> None:
        if not settings.quiet:
            console.say(f"{name}: {tables.told_seconds(taken)}")

    def tell_measured(measured: Measured) -> None:
        tell(f"{measured.of}, {measured.name}", measured.seconds)

    found = results.begun(seconds, runs, effort.clock)
    if any(name in PRIMITIVES for name in wanted):
        found = replace(found, primitives=tuple(suite.primitives(effort, wanted, done=tell_measured)))
    if any(name in MICRO for name in wanted):
        found = replace(found, micro=tuple(suite.microbenchmarks(effort, wanted, done=tell_measured)))
    watched = suite.whole_questions(
        [each for each in questions() if each.name in wanted],
        runs,
        stacks=html is not None,
        done=lambda observed: tell(observed.name, observed.runs[-1].seconds),
    )
    found = replace(found, workloads=tuple(each.observed for each in watched))
    made = tables.tables(found)
    console.out(tables.lines(made) if markdown else "\n\n".join(map(_shown, made)))
    console.say(tables.machine_line(found.machine))
    if json_file is not None:
        write_atomically(json_file, results.as_json(found) + "\n", mode=PUBLIC, error=InputError)
    if html is not None:
        from cleave.bench.page import page  # noqa: PLC0415 - jinja2

        stacks = {each.observed.name: each.stacks for each in watched}
        write_atomically(html, page(found, stacks), mode=PUBLIC, error=InputError)


def _shown(made: Table) -> str:
    headings = [
        console.Heading(name, justify="left" if place == 0 else "right") for place, name in enumerate(made.headings)
    ]
    return "\n".join([made.title, "", console.table(headings, made.rows), *([made.note] if made.note else [])])


def _calibrate(settings: Settings) -> None:
    settings.prepare()  # before there is a second thread, as for a question
    from cleave.bench.calibrate import calibrate  # noqa: PLC0415 - SEAL
    from cleave.model import cache  # noqa: PLC0415

    found = calibrate(settings.embedded, console.say if not settings.quiet else lambda _: None)
    place = cache.save(found)
    headings = [console.Heading("operation"), console.Heading("microseconds, on one core", justify="right")]
    rows = [[str(name), f"{taken * 1e6:,.3g}"] for name, taken in found.seconds.items()]
    console.out(console.table(headings, rows))
    console.say(f"kept in {place}; `cleave plan` estimates with them")

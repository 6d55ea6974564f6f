"""What was found as one HTML page: tables, plots, and a flame graph of each workload; as closed as a report's page."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from markupsafe import Markup

from cleave.bench import flame
from cleave.bench.charts import charts
from cleave.bench.results import Results
from cleave.bench.tables import machine_line, tables
from cleave.report import inline
from cleave_shared.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Flame:
    """Without boxes: it could not be taken."""

    name: str
    samples: int
    boxes: list[flame.Box]
    height: int


def page(results: Results, recorded: Mapping[str, flame.Frame | None]) -> str:
    """The page, UTF-8 when written. `recorded`: stacks by workload."""
    style = inline.asset("style.css") + files("cleave.bench").joinpath("page.css").read_text("utf-8")
    scripts = [inline.asset(name) for name in inline.DRAWING] if charts(results) else []
    return inline.template("cleave.bench", "page.html").render(
        policy=inline.policy(scripts, style),
        style=Markup(style),  # noqa: S704 - files of these packages, none of their text comes from data
        scripts=[Markup(script) for script in scripts],  # noqa: S704
        data=Markup(inline.as_json(charts(results))),  # noqa: S704 - escaped there
        made=results.made.strftime("%Y-%m-%d %H:%M UTC"),
        machine=results.machine,
        machine_line=machine_line(results.machine),
        tables=tables(results),
        charts=charts(results),
        flames=[_flame(name, root) for name, root in recorded.items()],
        width=flame.WIDTH,
        rate=flame.RATE,
    )


def _flame(name: str, root: flame.Frame | None) -> Flame:
    placed = flame.boxes(root) if root is not None else []
    return Flame(name, root.samples if root is not None else 0, placed, flame.height(placed))

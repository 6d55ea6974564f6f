"""A page complete in itself, and closed: scripts, style and data are inline, and its policy admits nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files

from cleave.report.charts import Chart
from cleave.text.printable import printable
from cleave.text.quantities import counted, sized
from cleave_shared.extras import extra

with extra("report", "reports"):
    from jinja2 import Environment, PackageLoader, StrictUndefined, Template

_IN_JSON = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
DRAWING = ("vendor/plot.js", "draw.js")


@cache
def template(package: str, name: str) -> Template:
    environment = Environment(
        loader=PackageLoader(package, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(printable=lambda text: printable(str(text)), sized=sized, counted=counted)
    return environment.get_template(name)


@cache
def asset(name: str) -> str:
    """A file of this package, none of whose text comes from data."""
    return files("cleave.report").joinpath(name).read_text("utf-8")


def policy(scripts: Sequence[str], style: str) -> str:
    """Nothing but these very scripts and this very style, by the hash of the text between their tags."""
    admitted = " ".join(map(_hash, scripts)) or "'none'"
    return f"default-src 'none'; script-src {admitted}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"


def as_json(charts: Sequence[Chart]) -> str:
    """JSON that a script element holds whatever the names are: every `<`, `>` and `&` as an escape."""
    drawn = [asdict(chart) for chart in charts]
    return json.dumps(drawn, separators=(",", ":"), allow_nan=False).translate(_IN_JSON)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

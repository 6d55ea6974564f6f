"""Write HTML pages that hold everything they need: template, style sheet, scripts and data.

A page can load nothing. Its policy allows only its own scripts and style, by their hashes, and no connection, image,
font or form. Names and cells of a table are escaped by the template, or come in JSON in which no "<", ">" or "&" is
left.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from cleave.text.printable import printable
from cleave.text.quantities import counted, sized
from cleave_shared.errors import extra
from cleave_shared.version import VERSION

with extra("report", "pages"):
    from jinja2 import Environment, PackageLoader, StrictUndefined, Template
    from markupsafe import Markup

_IN_JSON = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def html(name: str, scripts: Sequence[str], data: Any, **values: Any) -> str:
    """Return the page of a template in this package, with scripts from this package. They read `data` as JSON."""
    sources, style = [_asset(script) for script in scripts], _asset("style.css")
    return _template(name).render(
        policy=_policy(sources, style),
        style=Markup(style),  # noqa: S704 - these three are files of this package, none of their text comes from data
        scripts=[Markup(source) for source in sources],  # noqa: S704
        data=Markup(_as_json(data)),  # noqa: S704 - escaped there
        version=VERSION,
        **values,
    )


def shown_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


@cache
def _template(name: str) -> Template:
    environment = Environment(
        loader=PackageLoader("cleave.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(printable=lambda text: printable(str(text)), sized=sized, counted=counted)
    return environment.get_template(name)


@cache
def _asset(name: str) -> str:
    """Return a file of this package, none of which comes from a table."""
    return files("cleave.report").joinpath(name).read_text("utf-8")


def _policy(scripts: Sequence[str], style: str) -> str:
    """Allow only these scripts and this style, by the hash of the text between their tags."""
    admitted = " ".join(map(_hash, scripts)) or "'none'"
    return f"default-src 'none'; script-src {admitted}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"


def _as_json(data: Any) -> str:
    """Return JSON for a script element, with every "<", ">" and "&" escaped, so that no name can end the element."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).translate(_IN_JSON)


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

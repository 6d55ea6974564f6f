"""How Cleave was installed, and the command that adds an extra.

The public index has no `cleave-sql` yet, so anybody could register the name. The command therefore names the checkout
or wheel from which Cleave was installed, or else the extra's packages.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata, util
from pathlib import Path
from urllib.parse import unquote, urlsplit

DISTRIBUTION = "cleave-sql"
_OF_EXTRA = re.compile(r"""\s*([^;]+?)\s*;.*\bextra == ['"](.+?)['"]""")


def install_command(extra: str, missing: str) -> str:
    """The command that installs the extra `extra` of pyproject.toml into this Python.

    If Cleave is only on Python's path, it installs the package `missing`.
    """
    distribution = next(_installed(), None)
    if distribution is None:
        return _command([missing])
    said = json.loads(distribution.read_text("direct_url.json") or "{}")
    address = urlsplit(said.get("url", ""))
    source = Path(unquote(address.path))
    if address.scheme == "file" and source.exists():
        editable = ["-e"] if said.get("dir_info", {}).get("editable") else []
        return _command([*editable, f"{source}[{extra}]"])
    declared = [match for each in distribution.requires or () if (match := _OF_EXTRA.fullmatch(each))]
    return _command([match[1] for match in declared if match[2] == extra] or [missing])


def _installed() -> Iterator[metadata.Distribution]:
    """What was installed under the name. A build leaves an egg-info in its checkout, which was not (PEP 376)."""
    for each in metadata.distributions(name=DISTRIBUTION):
        if each.read_text("METADATA") is not None:
            yield each


def _command(words: Iterable[str]) -> str:
    python = shlex.quote(sys.executable)
    pip = f"{python} -m pip install" if util.find_spec("pip") else f"uv pip install --python {python}"
    return f"{pip} {shlex.join(words)}"

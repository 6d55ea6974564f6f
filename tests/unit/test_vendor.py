"""The library that a report's charts are drawn with is the recorded one, licences beside it."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
VENDOR = ROOT / "client" / "cleave" / "report" / "vendor"
WEB = ROOT / "web"
RECORD = tomllib.loads((VENDOR / "vendor.toml").read_text())


def test_the_bundle_is_the_recorded_one() -> None:
    bundle = (VENDOR / "plot.js").read_bytes()
    assert (hashlib.sha256(bundle).hexdigest(), len(bundle)) == (RECORD["sha256"], RECORD["bytes"])


def test_the_bundle_can_stand_inside_a_script_element() -> None:
    for path in (VENDOR / "plot.js", *VENDOR.parent.glob("*.js")):
        assert not re.search(r"</script|<!--", path.read_text(), re.IGNORECASE)


def test_the_bundle_has_no_way_to_run_text_or_to_ask_anyone() -> None:
    bundle = (VENDOR / "plot.js").read_text()
    assert not re.search(r"\beval\(|new Function|XMLHttpRequest|\bfetch\(|WebSocket|sendBeacon|import\(", bundle)


def test_every_package_has_its_licence() -> None:
    licences = (VENDOR / "licences.txt").read_text()
    assert {"@observablehq/plot", "d3-scale", "d3-shape"} <= RECORD["packages"].keys()
    for name, version in RECORD["packages"].items():
        assert f"{name} {version} (ISC)\n" in licences


def test_what_it_is_made_of_is_pinned_by_hash_and_names_no_registry() -> None:
    lock = json.loads((WEB / "package-lock.json").read_text())
    packages = {path: entry for path, entry in lock["packages"].items() if path}
    assert all(entry["integrity"].startswith("sha512-") and "resolved" not in entry for entry in packages.values())
    for name, version in RECORD["packages"].items():
        assert packages[f"node_modules/{name}"]["version"] == version
    asked = json.loads((WEB / "package.json").read_text())
    versions = [*asked["dependencies"].values(), *asked["devDependencies"].values()]
    assert all(re.fullmatch(r"[0-9.]+", version) for version in versions)

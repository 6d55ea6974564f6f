"""Mutation check: change the code that guards answers and keys in small ways, and see whether a test notices.

    python -m tests.mutation.run [TARGET ...]        as `make mutants` does

mutmut makes the mutants of one target at a time, in a scratch copy of the tree. It takes a module's name from its path,
so the three source roots are side by side under src/. `driver` tests the mutants. A mutant that no test kills must be
justified in survivors.toml, by the line it changes; one that is not is an error, and so is a justification that no
mutant needs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.survivors import SURVIVORS, Change, Target, justified, targets, unsteady

ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("driver.py")
# What a message says is for its own tests; here its wording would drown what matters.
WORDS = (r"\bhint=", r"\braise \w+(Error|Failed|Refused|Died)\(", r"^\s*f?\"[^\"]*\",?$")
CONFIG = """
[tool.mutmut]
source_paths = ["src"]
only_mutate = {modules}
also_copy = ["tests", "docs", "aws", "README.md", ".gitignore", "pyproject.toml"]
do_not_mutate_patterns = {words}
pytest_add_cli_args_test_selection = {tests}
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a target's mutants: `counts` by outcome, `alive` the change of each that no test killed."""

    counts: Counter[str]
    alive: tuple[Change, ...]
    minutes: float


def scratch(folder: Path, target: Target) -> None:
    """Lay out a tree as mutmut wants it: sources under src/, no pythonpath that would bring back the originals."""
    junk = shutil.ignore_patterns("__pycache__")
    for package, root in (("cleave", "client"), ("cleave_shared", "shared"), ("cleave_services", "functions")):
        shutil.copytree(ROOT / root / package, folder / "src" / package, ignore=junk)
    for name in ("tests", "docs", "aws"):
        shutil.copytree(ROOT / name, folder / name, ignore=junk)
    for name in ("README.md", ".gitignore"):
        shutil.copy(ROOT / name, folder)
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    pyproject, replaced = re.subn(r"^pythonpath = .*$", 'pythonpath = ["."]', pyproject, flags=re.MULTILINE)
    if replaced != 1:
        raise SystemExit("error: pyproject.toml has no pythonpath for the tests; the originals would be tested")
    config = CONFIG.format(
        modules=json.dumps([f"src/{module}" for module in target.modules]),
        tests=json.dumps(target.tests),
        words=json.dumps(WORDS),
    )
    (folder / "pyproject.toml").write_text(pyproject + config, encoding="utf-8")


def mutate(target: Target, children: int) -> Outcome:
    """Make and run the mutants of one target. Raises SystemExit where mutmut itself fails."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"mutants-{target.name}-") as name:
        folder = Path(name)
        scratch(folder, target)
        environment = os.environ | {
            # bytecode is kept by modification time in whole seconds: a mutated file must not meet an original's
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DEBUG_TEMPROOT": name,  # what killed tests leave goes with the folder
        }
        log, report = folder / "mutmut.log", folder / "report.json"
        with log.open("wb") as out:
            command = [sys.executable, DRIVER, str(children)]
            ran = subprocess.run(command, cwd=folder, env=environment, stdout=out, stderr=out, check=False)
        if ran.returncode or not report.is_file():
            for told in (log, folder / "tests.log"):
                print(told.read_text(encoding="utf-8", errors="replace")[-5_000:] if told.exists() else "")
            raise SystemExit(f"error: mutmut failed on {target.name}")
        mutants = json.loads(report.read_text(encoding="utf-8"))
    counts = Counter(mutant["outcome"] for mutant in mutants)
    changes = [(mutant["outcome"], Change(mutant["function"], mutant["was"], mutant["becomes"])) for mutant in mutants]
    return Outcome(
        counts,
        tuple(change for outcome, change in changes if outcome == "survived"),
        (time.monotonic() - began) / 60,
    )


def judge(target: Target, outcome: Outcome) -> bool:
    """Print what became of a target's mutants; whether all of them are killed or justified, and nothing else is."""
    reasons = justified(target)
    unexplained = [change for change in outcome.alive if change not in reasons]
    needless = reasons.keys() - set(outcome.alive) - unsteady()
    for change in unexplained:
        print(f"survived: {change.function}\n  - {change.was}\n  + {change.becomes}")
    for change in needless:
        print(f"justified, but no such mutant survives: {change.function}\n  - {change.was}\n  + {change.becomes}")
    total = outcome.counts.total()
    killed = total - len(outcome.alive)
    detail = ", ".join(f"{count} {what}" for what, count in sorted(outcome.counts.items()))
    print(
        f"{target.name}: {total} mutants, {killed} killed, {len(outcome.alive) - len(unexplained)} justified, "
        f"{len(unexplained)} neither, {outcome.minutes:.1f} minutes ({detail})",
        flush=True,
    )
    return total > 0 and not unexplained and not needless


def main() -> None:
    known = targets()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(known)}; all if none is named")
    parser.add_argument("--children", type=int, default=2, help="mutants tested at a time")
    arguments = parser.parse_args()
    if strange := [name for name in arguments.targets if name not in known]:
        parser.error(f"there is no target {strange[0]}")
    sound = [judge(known[name], mutate(known[name], arguments.children)) for name in arguments.targets or known]
    if not all(sound):
        raise SystemExit(f"error: kill these by a test, or justify them in {SURVIVORS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

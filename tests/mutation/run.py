"""Mutation check: change the code that guards answers and keys in small ways, and see whether a test notices.

    python -m tests.mutation.run [TARGET ...]        as `make mutants` does

Mutants are made and run by mutmut, one target at a time, in a scratch copy of the tree: mutmut takes a module's name
from its path, so the three source roots are laid side by side under src/. A mutant that no test kills must be justified
in survivors.toml, by the line it changes; one that is not is an error, and so is a justification that no mutant needs.
"""

from __future__ import annotations

import argparse
import json
import os
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
# The test run ended as it would have without the change, or none was run.
ALIVE = frozenset({"survived", "no tests", "not checked", "skipped"})
CONFIG = """
[tool.mutmut]
source_paths = ["src"]
only_mutate = {modules}
also_copy = ["tests", "docs", "README.md", ".gitignore", "pyproject.toml"]
do_not_mutate_patterns = {words}
pytest_add_cli_args_test_selection = {tests}
pytest_add_cli_args = ["-p", "no:cacheprovider", "-x", "-q"]
timeout_multiplier = 3.0
timeout_constant = 3.0
use_git_change_detection = false
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`alive`: the change of every mutant that no test killed; `timed_out`: of those that ran into the time limit.

    `counts`: mutants by what became of them.
    """

    counts: Counter[str]
    alive: tuple[Change, ...]
    timed_out: tuple[Change, ...]
    minutes: float


def scratch(folder: Path, target: Target) -> None:
    """A tree as mutmut wants it: sources under src/, no pythonpath that would bring back the originals."""
    junk = shutil.ignore_patterns("__pycache__")
    for package, root in (("cleave", "client"), ("cleave_shared", "shared"), ("cleave_services", "functions")):
        shutil.copytree(ROOT / root / package, folder / "src" / package, ignore=junk)
    for name in ("tests", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=junk)
    for name in ("README.md", ".gitignore"):
        shutil.copy(ROOT / name, folder)
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    pyproject = pyproject.replace('pythonpath = ["client", "shared", "functions"]\n', "")
    config = CONFIG.format(
        modules=json.dumps([f"src/{module}" for module in target.modules]),
        tests=json.dumps(target.tests),
        words=json.dumps(WORDS),
    )
    (folder / "pyproject.toml").write_text(pyproject + config, encoding="utf-8")


def mutate(target: Target, children: int) -> Outcome:
    """Make and run the mutants of one target. Raises SystemExit where mutmut itself fails."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        scratch(folder, target)
        # bytecode is kept by modification time in whole seconds: a mutated file must not meet an original's
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
        arguments = [str(children), *(["--every-test"] if target.forks else [])]
        log, report = folder / "mutmut.log", folder / "report.json"
        with log.open("wb") as out:  # mutmut draws spinners
            command = [sys.executable, DRIVER, *arguments]
            ran = subprocess.run(command, cwd=folder, env=environment, stdout=out, stderr=out, check=False)
        if ran.returncode or not report.is_file():
            print(log.read_text(encoding="utf-8", errors="replace")[-10_000:])
            raise SystemExit(f"error: mutmut failed on {target.name}")
        mutants = json.loads(report.read_text(encoding="utf-8"))
    counts = Counter(mutant["outcome"] for mutant in mutants)
    changes = [(mutant["outcome"], Change(mutant["function"], mutant["was"], mutant["becomes"])) for mutant in mutants]
    return Outcome(
        counts,
        tuple(change for outcome, change in changes if outcome in ALIVE),
        tuple(change for outcome, change in changes if outcome == "timeout"),
        (time.monotonic() - began) / 60,
    )


def judge(target: Target, outcome: Outcome) -> bool:
    """Print what became of a target's mutants; whether all of them are killed or justified, and nothing else is."""
    reasons = justified(target)
    unexplained = [change for change in outcome.alive if change not in reasons]
    # on a busy machine one that would survive may run into the time limit
    needless = reasons.keys() - set(outcome.alive) - set(outcome.timed_out) - unsteady()
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
    parser.add_argument("--children", type=int, default=1, help="mutants tested at a time")
    arguments = parser.parse_args()
    if strange := [name for name in arguments.targets if name not in known]:
        parser.error(f"there is no target {strange[0]}")
    sound = [judge(known[name], mutate(known[name], arguments.children)) for name in arguments.targets or known]
    if not all(sound):
        raise SystemExit(f"error: kill these by a test, or justify them in {SURVIVORS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

"""Mutation check: change the code that guards answers and keys in small ways, and see whether a test notices.

python -m tests.mutation.run [TARGET ...]        as `make mutants` does

Mutants are made and run by mutmut, one target at a time, in a scratch copy of the tree: mutmut takes a module's name
from its path, so the three source roots are laid side by side under src/. A mutant that no test kills must be justified
in survivors.toml; one that is not, or a justification that no mutant needs any more, is an error.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SURVIVORS = Path(__file__).with_name("survivors.toml")
TARGETS = tomllib.loads(Path(__file__).with_name("targets.toml").read_text())["target"]
# What a message says is for its own tests; here it would drown what matters.
WORDS = [r"hint=", r"raise \w+(Error|Failed|Refused)\(", r"^\s*f?\"[^\"]*\",?$"]
ALIVE = {"survived", "no tests", "suspicious", "timeout?"}

CONFIG = """
[tool.mutmut]
source_paths = ["src"]
only_mutate = {modules}
also_copy = ["tests", "aws", "docs", "events", "README.md", "template.yaml", "pyproject.toml"]
do_not_mutate_patterns = {words}
pytest_add_cli_args_test_selection = {tests}
pytest_add_cli_args = ["-p", "no:cacheprovider", "-x", "-q"]
"""


def scratch(folder: Path, target: dict[str, list[str]]) -> None:
    """A tree as mutmut wants it: sources under src/, no pythonpath that would bring back the originals."""
    for package, root in (("cleave", "client"), ("cleave_shared", "shared"), ("cleave_services", "functions")):
        shutil.copytree(ROOT / root / package, folder / "src" / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("tests", "aws", "docs", "events"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "template.yaml"):
        shutil.copy(ROOT / name, folder)
    pyproject = (ROOT / "pyproject.toml").read_text()
    pyproject = pyproject.replace('pythonpath = ["client", "shared", "functions"]\n', "")
    config = CONFIG.format(
        modules=json.dumps([f"src/{module}" for module in target["modules"]]),
        tests=json.dumps(target["tests"]),
        words=json.dumps(WORDS),
    )
    (folder / "pyproject.toml").write_text(pyproject + config)


def mutate(target: dict[str, list[str]]) -> dict[str, str]:
    """Mutant -> what became of it."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        scratch(folder, target)
        mutmut = str(Path(sys.executable).with_name("mutmut"))
        subprocess.run([mutmut, "run"], cwd=folder, check=False)
        listed = subprocess.run(
            [mutmut, "results", "--all", "true"], cwd=folder, capture_output=True, text=True, check=True
        )
        outcomes = dict(line.strip().rsplit(": ", 1) for line in listed.stdout.splitlines() if ": " in line)
        for mutant, outcome in outcomes.items():
            if outcome in ALIVE:
                shown = subprocess.run(
                    [mutmut, "show", mutant], cwd=folder, capture_output=True, text=True, check=False
                )
                print(f"--- {mutant}: {outcome}\n{shown.stdout}")
        return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all if none is named")
    chosen = parser.parse_args().targets or list(TARGETS)
    justified: dict[str, str] = tomllib.loads(SURVIVORS.read_text())
    failed = False
    for name in chosen:
        outcomes = mutate(TARGETS[name])
        alive = {mutant for mutant, outcome in outcomes.items() if outcome in ALIVE}
        unexplained = alive - justified.keys()
        failed = failed or bool(unexplained) or not outcomes
        print(f"{name}: {len(outcomes)} mutants, {len(alive)} alive, {len(unexplained)} of them not justified")
    if failed:
        raise SystemExit("error: kill these by a test, or justify them in tests/mutation/survivors.toml")


if __name__ == "__main__":
    main()

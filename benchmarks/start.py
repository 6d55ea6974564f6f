"""`cleave query` over 6,000 rows as a whole process, beside an interpreter that does nothing: `make bench-start`.

In turn, so that what else the machine does weighs on all alike. wall is what a user waits, cpu what all its processes
take together. The command runs as from a user's installation: its own environment, whose packages are those of this
one, without what an editable install and tools of development add to every start of Python. With BESIDE=FOLDER, another
checkout of the project (git worktree add), the same question is planned and asked there too, in the same turns.
"""

from __future__ import annotations

import argparse
import compileall
import os
import resource
import shutil
import statistics
import subprocess
import sysconfig
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path

from cleave.ckks.key_file import create_key

COPIES = 10  # of the sample's 600 people
QUESTION = "SELECT ward, COUNT(*), AVG(age), SUM(bill), STDDEV(weight) FROM patients GROUP BY ward"
ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "tests" / "samples" / "patients.csv"
START = "from cleave.local.main import main; main()"


def installed(folder: Path, root: Path = ROOT) -> Path:
    """The Python of an environment that finds the sources in `root` and this environment's packages, all compiled."""
    venv.create(folder, with_pip=False)
    paths = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", paths))
    sources = [root / name for name in ("client", "shared", "functions")]
    found = [*sources, Path(sysconfig.get_path("purelib"))]
    for each in sources:
        compileall.compile_dir(each, quiet=2)
    (packages / "sources.pth").write_text("".join(f"{path}\n" for path in found))
    return folder / "bin" / "python"


def table(folder: Path) -> Path:
    header, _, rows = SAMPLE.read_bytes().partition(b"\n")
    path = folder / SAMPLE.name
    path.write_bytes(header + b"\n" + COPIES * rows)
    shutil.copy(SAMPLE.with_suffix(".schema.toml"), folder)
    return path


def timed(command: Sequence[str | Path]) -> tuple[float, float]:
    """Seconds by the clock, and of processors."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=15, help="of each command; the first is not counted")
    parser.add_argument("--beside", type=Path, help="another checkout of the project")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python, path, key = installed(folder / "venv"), table(folder), folder / "key.json"
        create_key(key, None)
        asked = ["-c", START, "--quiet", "query", path, QUESTION, "--key", key]
        commands: dict[str, list[str | Path]] = {
            "python -c pass": [python, "-c", "pass"],
            "cleave --help": [python, "-c", START, "--help"],
            "cleave plan": [python, "-c", START, "plan", path, QUESTION],
            "cleave query": [python, *asked],
        }
        if given.beside is not None:
            other = installed(folder / "beside", given.beside.resolve())
            commands["cleave plan, beside"] = [other, *commands["cleave plan"][1:]]
            commands["cleave query, beside"] = [other, *asked]
        taken: dict[str, list[tuple[float, float]]] = {what: [] for what in commands}
        for run in range(given.runs + 1):
            for what, command in commands.items():
                seconds = timed(command)
                if run:
                    taken[what].append(seconds)
    print(f"| {600 * COPIES:,} rows, medians of {given.runs} | wall, s (least-most) | CPU, s (least-most) |")
    print("|---|---:|---:|")
    for what, figures in taken.items():
        print(f"| `{what}` | {' | '.join(spread([each[place] for each in figures]) for place in (0, 1))} |")
    print(f"\n{os.cpu_count()} processors, load {load()}")


def spread(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.3f} ({min(seconds):.3f}-{max(seconds):.3f})"


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    main()

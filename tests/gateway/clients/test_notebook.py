"""Python in a fresh notebook: the wheel, ipykernel and nothing else; then each extra is installed in turn.

DuckDB refuses to set its progress bar in a kernel without ipywidgets. nbclient runs in an environment of its own, so
that the kernel has only what a user installs.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.samples import copy_patients
from tests.wheels import built_wheel, copied_sources

pytestmark = pytest.mark.clients

ROOT = Path(__file__).parents[3]
LOCK = Path(__file__).with_name("notebook.txt")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
(README,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
SQL = "SELECT ward, SUM(bill) AS bill, MAX(age) FROM patients GROUP BY ward"
BARE = [
    "import cleave",
    "assert len(cleave.schema('patients.csv').columns) > 5",
    f"sql = {SQL!r}",
    "assert str(cleave.plan('patients.csv', sql))",
    "assert len(cleave.query('patients.csv', sql)) == 6",
    "with cleave.connect('patients.csv') as connection:\n    assert len(connection.execute(sql).fetchall()) == 6",
    "assert cleave.put('patients.csv', 'trial', store='tables', by=['ward']).rows == 600",
    "assert len(cleave.query('trial', sql.replace('patients', 'trial'), store='tables', progress=True)) == 6",
    "cleave.pull('trial', 'back.csv', store='tables')",
]
# What Python does with an extra; the others are for commands.
WITH = {
    "arrow": "assert answer.arrow().num_rows == 6",
    "models": "assert cleave.fit('patients.csv', 'bill ~ age').n == 600",
    "pandas": README,
    "sqlalchemy": "import sqlalchemy\nassert sqlalchemy.create_engine('cleave:///tables').dialect.name == 'cleave'",
}
RUN = """
import json, sys, nbformat, nbclient
cells = [nbformat.v4.new_code_cell(each) for each in json.load(sys.stdin)]
notebook = nbformat.v4.new_notebook(cells=cells)
nbclient.NotebookClient(notebook, kernel_name="cleave", timeout=120).execute()
print(json.dumps([[each.get("text", "") for each in cell.outputs if each.get("name") == "stderr"] for cell in cells]))
"""


UV = Path(sys.executable).with_name("uv")
INSTALL = [str(UV), "pip", "install", "--quiet", "--link-mode", "symlink", "--constraints", str(LOCK), "--python"]


def done(*command: object) -> None:
    ended = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def with_extra(name: str) -> list[str]:
    """Cells that install an extra beside those before it, ask a question and use the extra."""
    install = f"subprocess.run([*{INSTALL!r}, sys.executable, *{EXTRAS[name]!r}], check=True)"
    return [
        f"import importlib, subprocess, sys\n{install}\nimportlib.invalidate_caches()",
        "answer = cleave.query('patients.csv', sql)\nanswer",
        WITH.get(name, ""),
    ]


@dataclass
class Notebooks:
    """`kernel` is the Python of the wheel and ipykernel, `client` that of nbclient."""

    folder: Path
    kernel: Path
    client: Path
    key: Path

    def run(self, cells: list[str]) -> None:
        """Run a notebook, whose cells print nothing on stderr."""
        folder = self.folder / "kernels" / "cleave"
        folder.mkdir(parents=True, exist_ok=True)
        argv = [str(self.kernel), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        (folder / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "", "language": "python"}))
        own = {"HOME": str(self.folder), "CLEAVE_KEY": str(self.key), "JUPYTER_PATH": str(self.folder)}
        ended = subprocess.run(
            [self.client, "-c", RUN],
            input=json.dumps(cells),
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | own,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert ended.returncode == 0, ended.stderr[-4000:]
        assert json.loads(ended.stdout.splitlines()[-1]) == [[] for _ in cells]


def test_python_in_a_fresh_notebook(tmp_path: Path, key_file: Path) -> None:
    for name in ("sources", "wheel"):
        (tmp_path / name).mkdir()
    wheel = built_wheel(copied_sources(tmp_path / "sources"), tmp_path / "wheel")
    kernel, client = (tmp_path / name / "bin" / "python" for name in ("kernel", "client"))
    for python, packages in ((kernel, [wheel, "ipykernel"]), (client, ["nbclient", "nbformat"])):
        done(UV, "venv", "--quiet", "--python", sys.executable, python.parents[1])
        done(*INSTALL, python, *packages)
    copy_patients(tmp_path)
    notebooks = Notebooks(tmp_path, kernel, client, key_file)
    others = [name for name in EXTRAS if name not in ("dev", "notebook")]
    notebooks.run([*BARE, *itertools.chain.from_iterable(map(with_extra, others))])
    done(*INSTALL, kernel, *EXTRAS["notebook"])  # DuckDB looks for ipywidgets once in a kernel
    notebooks.run([*BARE[:-3], README])

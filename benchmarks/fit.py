"""`make bench-fit`: `cleave fit` and `cleave survival` beside statsmodels over the clear Parquet, in one run.

A table has nine columns of whole numbers, which are encrypted, and one factor. Cleave answers from the file, from a
stored table that keeps totals of products, and from one whose rows are fetched. Every figure is of a whole process:
statsmodels' reads the Parquet with pandas and builds the design. Memory is the most that a process and its children
had at once. Coefficients and curves are compared. The rows printed are those of docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import memory
from benchmarks.store import program
from benchmarks.tables import figure, machine, markdown

ROWS = (1_000_000, 6_000_000)
LEVELS, MONTHS = "ABCDEFGH", 48
REGRESSORS = ("age", "visits", "days", "weight", "height", "dose", "score", "distance")
_MOST = {
    "age": 100,
    "visits": 30,
    "days": 365,
    "weight": 150,
    "height": 200,
    "dose": 1_000,
    "score": 50,
    "distance": 500,
}
FORMULA = f"bill ~ {' + '.join(REGRESSORS)} + C(ward)"
_AGREE = 1e-6  # of a standard error, for statsmodels calculates in doubles
_CLOSE = 1e-9  # of shares and of a chi-square, likewise

_OLS = """
import json, sys, pandas, statsmodels.formula.api as smf
model = smf.ols(sys.argv[2], pandas.read_parquet(sys.argv[1])).fit()
print(json.dumps({name: [value, model.bse[name]] for name, value in model.params.items()}))
"""
_CURVES = """
import json, sys, pandas, statsmodels.api as sm
rows, curves = pandas.read_parquet(sys.argv[1], columns=["ward", "months", "left"]), {}
for ward, each in rows.groupby("ward"):
    found = sm.SurvfuncRight(each["months"], each["left"])
    curves[ward] = [found.surv_times.tolist(), found.surv_prob.tolist()]
chi2, _ = sm.duration.survdiff(rows["months"], rows["left"], rows["ward"])
print(json.dumps({"curves": curves, "chi2": chi2}))
"""


def write_table(folder: Path, rows: int) -> Path:
    """Parquet files of a regression and of a trial, each with its schema. Returns the first."""
    rng = np.random.default_rng(rows)
    ward = rng.integers(0, len(LEVELS), rows)
    columns = {name: rng.integers(0, most, rows) for name, most in _MOST.items()}
    effects = sum((place + 1) * each for place, each in enumerate(columns.values()))
    columns["bill"] = effects + 10 * ward + rng.integers(0, 1_000, rows)
    bounds = _MOST | {"bill": int(columns["bill"].max()) + 1}
    path = folder / "people.parquet"
    wards = pa.array(np.array(list(LEVELS))[ward])
    pq.write_table(pa.table({"ward": wards, **columns}), path)
    lines = [_column("ward", "plain", "VARCHAR")]
    lines += [_column(name, "encrypted", "BIGINT", f"lower = 0\nupper = {most}") for name, most in bounds.items()]
    path.with_suffix(".schema.toml").write_text("\n".join(lines))
    trial = folder / "trial.parquet"
    months = np.minimum(rng.geometric(0.02 + 0.002 * ward), MONTHS)
    left = (rng.random(rows) < 0.6).astype(np.int64)
    pq.write_table(pa.table({"ward": wards, "months": months, "left": left}), trial)
    lines = [_column("ward", "plain", "VARCHAR"), _column("months", "plain", "BIGINT")]
    lines += [_column("left", "encrypted", "BIGINT", "lower = 0\nupper = 1")]
    trial.with_suffix(".schema.toml").write_text("\n".join(lines))
    return path


def _column(name: str, kind: str, type_: str, more: str = "") -> str:
    return f'[columns.{name}]\nkind = "{kind}"\ntype = "{type_}"\nnullable = false\n{more}\n'


class Bench:
    """Tables of so many rows in a folder, and everybody who is asked. `measured`: lines of the page's table."""

    def __init__(self, folder: Path, rows: int) -> None:
        self._folder, self._rows = folder, rows
        self._environment = os.environ | {"XDG_STATE_HOME": str(folder / "state")}
        self._key = folder / "key.json"
        self.measured: list[list[str]] = []
        self._people = write_table(folder, rows)
        self._cleave("key", "new", "--no-passphrase")
        numbers = ",".join((*REGRESSORS, "bill"))
        for table, source, more in (
            ("with_products", "people", ("--by", "ward", "--products", numbers)),
            ("rows_only", "people", ("--by", "")),
            ("by_months", "trial", ("--by", "ward,months")),
        ):
            path = folder / f"{source}.parquet"
            self._cleave("put", path, "--table", table, *more, "--store", folder / "store")

    def _cleave(self, *words: object) -> memory.Ran:
        command = [program("cleave"), "--quiet", *map(str, words), "--key", str(self._key)]
        return memory.run(command, self._environment)

    def _ways(self, source: str, stored: dict[str, tuple[str, ...]]) -> dict[str, tuple[object, ...]]:
        place = "--store", self._folder / "store"
        tables = {way: (name, *place, *more) for way, (name, *more) in stored.items()}
        return {"file": (self._folder / f"{source}.parquet",), **tables}

    def fit(self) -> None:
        theirs = memory.run([sys.executable, "-c", _OLS, str(self._people), FORMULA], self._environment)
        known = json.loads(theirs.output)
        ways = {
            "totals of products": ("with_products", "--cloud-only"),
            "rows": ("rows_only", "--fetch-limit", "8GB", "--memory", "8GB"),
        }
        ran = {}
        for way, (source, *more) in self._ways("people", ways).items():
            ran[way] = self._cleave("fit", source, FORMULA, "--json", *more)
            check_fit(json.loads(ran[way].output), known)
        self._add("regression", ran, theirs)

    def survival(self) -> None:
        theirs = memory.run([sys.executable, "-c", _CURVES, str(self._folder / "trial.parquet")], self._environment)
        known = json.loads(theirs.output)
        asked = ("--time", "months", "--event", "left", "--by", "ward", "--json")
        ran = {}
        for way, (source, *more) in self._ways("trial", {"totals of steps": ("by_months", "--cloud-only")}).items():
            ran[way] = self._cleave("survival", source, *asked, *more)
            check_curves(json.loads(ran[way].output), known)
        self._add("survival", ran, theirs)

    def _add(self, model: str, ran: dict[str, memory.Ran], theirs: memory.Ran) -> None:
        for way, each in ran.items():
            other = f"{figure(theirs.seconds)} ({figure(theirs.seconds / each.seconds)}x)"
            own = [figure(each.seconds), other, figure(each.peak_mb), figure(theirs.peak_mb)]
            self.measured.append([f"{model}, {self._rows:,}, {way}", *own])


def check_fit(found: dict[str, Any], known: dict[str, list[float]]) -> None:
    """Raise SystemExit unless all coefficients and their errors are those of statsmodels."""
    ours = found["coefficients"]
    if ours.keys() != known.keys():
        raise SystemExit(f"other terms than statsmodels: {sorted(ours.keys() ^ known.keys())}")
    for name, (value, error) in known.items():
        estimate, deviation = ours[name]["estimate"], ours[name]["error"]
        near = abs(estimate[0] - value) <= estimate[1] + _AGREE * error
        if not near or abs(deviation[0] - error) > deviation[1] + _AGREE * error:
            raise SystemExit(f"{name}: not what statsmodels finds")


def check_curves(found: dict[str, Any], known: dict[str, Any]) -> None:
    """Raise SystemExit unless all curves and the log-rank test are those of statsmodels."""
    groups = {curve["group"]: curve["steps"] for curve in found["curves"]}
    if groups.keys() != known["curves"].keys():
        raise SystemExit("other groups than statsmodels")
    for group, (times, wanted) in known["curves"].items():
        ours = {step["time"]: step["survival"] for step in groups[group]}
        if not set(times) <= ours.keys():
            raise SystemExit(f"{group}: other times than statsmodels")
        for time, share in zip(times, wanted, strict=True):
            if abs(ours[time][0] - share) > ours[time][1] + _CLOSE:
                raise SystemExit(f"{group}, {time}: not the share that statsmodels finds")
    chi_square, bound = found["log_rank"]["chi_square"]
    if abs(chi_square - known["chi2"]) > bound + _CLOSE * known["chi2"]:
        raise SystemExit("log-rank: not what statsmodels finds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help="of each table; curves are of the first")
    given = parser.parse_args()
    head = ["", "seconds", "statsmodels", "MB of memory", "statsmodels"]
    measured: list[list[str]] = []
    for rows in given.rows:
        with tempfile.TemporaryDirectory() as name:
            bench = Bench(Path(name), rows)
            bench.fit()
            if rows == given.rows[0]:
                bench.survival()
            measured += bench.measured
    print(f"{machine()}; whole processes, {len(REGRESSORS) + 2} columns\n")
    print(markdown(head, measured))


if __name__ == "__main__":
    main()

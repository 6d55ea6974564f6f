"""`make bench-upload`: bits uploaded for each bit that comes out certified, beside HERMES's 1.58 of transciphering.

First what the profile's ring can do: bits of a ciphertext's file for each coefficient, over the bits a coefficient's
total keeps above the noise bound (docs/ckks.md). Then whole questions: bytes sent of a sum over four columns, over what
is certified of it: an exact column's bits are those of its range, a real one's log2(sum / bound), each as Cleave says.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables import markdown
from cleave.ckks.cipher import Cipher
from cleave.ckks.layout import FRESH_VARIANCE
from cleave.ckks.secret_key import fresh_key
from cleave_shared.params import PROFILES, Profile

PUBLISHED = 1.58  # HERMES (Bae, Cheon, Kim, Park, Stehle, CRYPTO 2023)
COLUMNS = 4
OUTPUTS, FAILURE = 1, 2.0**-40


@dataclass(frozen=True)
class Case:
    """A column's `type` and bounds as the schema has them; `form` writes its values; exact ones come in units."""

    name: str
    type: str
    lower: int | None
    upper: int | None
    decimals: int | None = None

    def values(self, rows: int) -> np.ndarray:
        random = np.random.default_rng(rows)
        if self.type == "BIGINT":
            assert self.lower is not None
            assert self.upper is not None
            return random.integers(self.lower, self.upper, (rows, COLUMNS), endpoint=True)
        drawn = np.clip(random.normal(100, 20, (rows, COLUMNS)), 2, 256)
        return drawn.round(2) if self.decimals else drawn

    @property
    def bits(self) -> float | None:
        """Of an exact value: the number of values there may be."""
        if self.type == "DOUBLE":
            return None
        assert self.lower is not None
        assert self.upper is not None
        return math.log2((self.upper - self.lower) * 10 ** (self.decimals or 0) + 1)


CASES = (
    Case("integers of 42 bits", "BIGINT", 0, 2**42 - 1),
    Case("integers of 20 bits", "BIGINT", 0, 2**20 - 1),
    Case("cents up to 256.00", "DECIMAL(18,2)", 2, 256, 2),
    Case("float64 within bounds 2 to 256", "DOUBLE", 2, 256),
    Case("float64 without bounds", "DOUBLE", None, None),
)


def write(folder: Path, case: Case, rows: int) -> tuple[Path, np.ndarray]:
    names = [f"e{number}" for number in range(COLUMNS)]
    path, values = folder / f"case{CASES.index(case)}.csv", case.values(rows)
    form = "%d" if case.type == "BIGINT" else "%.2f" if case.decimals else "%.17g"
    np.savetxt(path, values, form, delimiter=",", header=",".join(names), comments="")
    lines = ["[csv]", 'delimiter = ","', 'quote = "\\""', 'encoding = "utf-8"', "header = true", 'decimal = "."']
    for name in names:
        lines += [f"[columns.{name}]", 'kind = "encrypted"', f'type = "{case.type}"', 'reason = "benchmark"']
        lines += ["nullable = false"]
        lines += [f"decimals = {case.decimals}"] * (case.decimals is not None)
        if case.lower is not None:
            lines += [f"lower = {case.lower}", f"upper = {case.upper}"]
    path.with_suffix(".schema.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path, values


def asked(path: Path) -> dict[str, Any]:
    sums = ", ".join(f"SUM(e{number})" for number in range(COLUMNS))
    program = str(Path(sys.executable).with_name("cleave"))
    command = [program, "--quiet", "query", str(path), f"SELECT {sums} FROM {path.stem}", "--json"]
    return dict(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def of_case(case: Case, folder: Path, rows: int) -> list[str]:
    path, values = write(folder, case, rows)
    answer = asked(path)
    certified = []
    for found, bound, column in zip(answer["rows"][0], answer["bounds"][0], values.T, strict=True):
        exact = math.fsum(column.tolist())
        if not abs(float(found) - exact) <= float(bound or 0) + 1e-9 * exact:
            raise SystemExit(f"{case.name}: a sum is wrong")
        if case.bits is not None and bound:
            raise SystemExit(f"{case.name}: not exact")
        certified.append(case.bits or math.log2(exact / float(bound)))
    sent = 8 * answer["plan"]["bytes_sent"] / (rows * COLUMNS)
    bits = min(certified)
    return [f"{case.name}: SUM over {rows:,} rows", f"{sent:.1f}", f"{bits:.1f}", f"{sent / bits:.2f}"]


def of_profile(profile: Profile) -> list[list[str]]:
    """A coefficient of a ciphertext, and what a masked sum of a million rows or an aligned one of 64 chunks leaves."""
    cipher = Cipher(fresh_key(profile))
    (blob,) = cipher.encrypt(np.ones((1, profile.degree), np.int64))
    sent = 8 * len(blob) / profile.degree
    tail = math.sqrt(2 * math.log(2 * OUTPUTS / FAILURE))
    rows = []
    for what, terms in (("a masked sum of 1,000,000 rows", 1_000_000), ("an aligned sum of 64 chunks", 64)):
        bits = profile.capacity_bits + 1 - math.log2(tail * math.sqrt(FRESH_VARIANCE * terms))
        rows.append([f"{profile.name}: {what}", f"{sent:.1f}", f"{bits:.1f}", f"{sent / bits:.2f}"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=200_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [line for profile in PROFILES.values() for line in of_profile(profile)]
        lines += [of_case(case, folder, rows) for case in CASES]
    lines.append(["HERMES, transciphering, published", "", "", f"{PUBLISHED}"])
    print(markdown(["", "bits up for each value", "bits certified", "expansion"], lines))


if __name__ == "__main__":
    main()

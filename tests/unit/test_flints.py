"""python-flint without the types nobody needs: the very same ones, and the others where somebody asks for them."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "script",
    [
        "from cleave.aggregates.flints import arb, fmpq\nimport sys\nassert 'flint.types.acb_mat' not in sys.modules",
        "from cleave.aggregates.flints import arb\nimport flint\nassert flint.arb is arb and flint.fmpz(3) == 3",
        "from cleave.aggregates.flints import arb\nfrom flint import arb as same, fmpz_mat\n"
        "assert same is arb and fmpz_mat([[1, 2], [3, 4]]).det() == -2",
        "import flint\nfrom cleave.aggregates.flints import arb, ctx, fmpq\n"
        "assert (flint.arb, flint.ctx, flint.fmpq) == (arb, ctx, fmpq)",
        "from cleave.aggregates.flints import arb, ctx, fmpq\nwith ctx.workprec(200):\n"
        "    assert (arb(fmpq(1, 3)) * 3).contains(1)\n    assert arb(2).sqrt().abs_upper() > arb(1)",
        "from cleave.aggregates import flints\nassert not hasattr(flints, 'nothing')",
    ],
)
def test_flint(script: str) -> None:
    """Each in an interpreter that has not imported it."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr

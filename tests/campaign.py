"""Sizes of samples: small in the quick suite, larger where tests may be slow, whole with CLEAVE_CAMPAIGN=10 or so."""

from __future__ import annotations

import os

import pytest
from _pytest.mark import ParameterSet

FACTOR = int(os.environ.get("CLEAVE_CAMPAIGN", "1"))
FULL = FACTOR > 1  # every fault in every place


def sampled(quick: int, slow: int, campaign: int) -> list[ParameterSet]:
    """Parameters of a test: `quick`, and `slow`, marked so; in a campaign `campaign` alone."""
    if FULL:
        return [pytest.param(campaign)]
    return [pytest.param(quick, id=f"{quick}"), pytest.param(slow, id=f"{slow}", marks=pytest.mark.slow)]

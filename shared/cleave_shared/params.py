"""Named CKKS parameter profiles. A profile below 128-bit security cannot be built.

Bounds: log2 of the whole modulus, including the special prime, for a ternary secret and 128 bits against a classical
attacker: Bossuat et al., "Security Guidelines for Implementing Homomorphic Encryption" (2024). They are stricter than
the HE standard of 2018 that SEAL checks (109, 218, 438). The strictest published 2024 column, for a quantum attacker,
allows 80 and 161 bits at N = 4096 and 8192; every profile here meets that too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CLASSICAL_2024 = {4096: 106, 8192: 214, 16384: 430}


@dataclass(frozen=True, slots=True)
class Profile:
    """`degree` is N, the number of coefficients. `prime_bits`: the modulus chain, special prime last.

    `estimated_bits`: lattice-estimator figures (MATZOV, LaaMosPol14, ChaLoy21).
    """

    name: str
    degree: int
    prime_bits: tuple[int, ...]
    estimated_bits: tuple[int, int, int]
    source: str

    def __post_init__(self) -> None:
        allowed = CLASSICAL_2024.get(self.degree)
        if allowed is None:
            raise ValueError(f"profile {self.name}: no security bound is known for N = {self.degree}")
        if sum(self.prime_bits) > allowed:
            raise ValueError(
                f"profile {self.name}: {sum(self.prime_bits)} modulus bits at N = {self.degree}, "
                f"at most {allowed} are 128-bit secure"
            )

    @property
    def capacity_bits(self) -> int:
        """A result's coefficients stay below 2^capacity_bits in magnitude, a quarter of the data modulus."""
        return sum(self.prime_bits[:-1]) - 2


SUM60_PACK = Profile(
    name="sum60-pack",
    degree=8192,
    prime_bits=(60, 60),
    estimated_bits=(243, 230, 191),
    source="docs/ckks.md section 2: sums only, one data prime, no evaluation keys",
)

DEFAULT_PROFILE = SUM60_PACK
PROFILES = {profile.name: profile for profile in (SUM60_PACK,)}


SimpleOperation = Literal["sum", "product", "mean", "count", "var", "stddev"]

AGGREGATE_OF: dict[str, str] = {
    "sum": "sum",
    "product": "product",
    "mean": "avg",
    "count": "count",
    "var": "var_samp",
    "stddev": "stddev_samp",
}

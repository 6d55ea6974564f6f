"""Threshold decryption gives exact totals; and what it loses without commitments, flooding or room for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from benchmarks.threshold import attacks
from benchmarks.threshold.arithmetic import Polynomial
from benchmarks.threshold.main import additive, split, threshold
from benchmarks.threshold.scheme import (
    DEGREE,
    Opening,
    Party,
    Setup,
    ThresholdError,
    added,
    combine,
    encrypt,
    joint_key,
    phase,
    share,
    unchecked_key,
)
from cleave_shared.params import CLASSICAL_2024

PARTIES = 3
BINS = 16
UNLIKELY = 60  # of chi-square with 15 degrees of freedom: one in ten million


@dataclass(frozen=True)
class Case:
    """A total of contributions by all parties, what it is, and the parties."""

    setup: Setup
    parties: list[Party]
    key: Any
    total: Any
    expected: list[int]

    @property
    def secrets(self) -> list[Polynomial]:
        return [each._secret for each in self.parties]

    def shares(self, flooding_bits: int | None) -> list[Polynomial]:
        return [share(self.setup, each, self.total, flooding_bits) for each in self.secrets]


def case_of(setup: Setup, most: int) -> Case:
    values = np.random.default_rng(8).integers(-most, most, (setup.parties, DEGREE))
    parties = [Party(setup, number) for number in range(setup.parties)]
    commitments = [each.commitment for each in parties]
    key = joint_key(setup, commitments, [each.opening(commitments) for each in parties])
    total = added(setup, [encrypt(setup, key, row) for row in values.tolist()])
    return Case(setup, parties, key, total, values.sum(axis=0).tolist())


@pytest.fixture(scope="module")
def case() -> Case:
    return case_of(Setup(PARTIES, PARTIES), 1 << 40)


def looks_uniform(coefficients: list[int], modulus: int) -> bool:
    """By chi-square, over equal parts of -modulus / 2 to modulus / 2."""
    parts = np.array([(each + modulus // 2) * BINS // modulus for each in coefficients])
    counts = np.bincount(parts, minlength=BINS)
    even = len(coefficients) / BINS
    return bool(((counts - even) ** 2 / even).sum() < UNLIKELY)


def test_all_parties_get_the_exact_totals(case: Case) -> None:
    shares = [each.share(case.total) for each in case.parties]
    assert combine(case.setup, case.total, shares) == case.expected


def test_all_but_one_get_nothing_like_the_totals(case: Case) -> None:
    setup, shares = case.setup, case.shares(case.setup.flooding_bits)
    q0, q1 = setup.data.primes
    for missing in range(PARTIES):
        found = phase(setup, case.total, shares[:missing] + shares[missing + 1 :])
        assert looks_uniform(found, q0 * q1)
        correlation = np.corrcoef(np.array(found, float), np.array(case.expected, float))[0, 1]
        assert abs(correlation) < 7 / np.sqrt(DEGREE)
    assert not looks_uniform(phase(setup, case.total, shares), q0 * q1)


def test_a_key_made_after_the_others_opens_everything_unless_all_committed_first(case: Case) -> None:
    setup = case.setup
    honest = [Party(setup, number) for number in range(PARTIES - 1)]
    secret, rogue = attacks.rogue_key(setup, [each._key for each in honest])
    key = unchecked_key(setup, [*(each._key for each in honest), rogue])
    values = list(range(-9, 9))
    one = encrypt(setup, key, values)
    alone = combine(setup, one, [share(setup, secret, one, None)])
    assert alone[: len(values)] == values, "the last party decrypts a contribution alone"

    last = Party(setup, PARTIES - 1)  # it has to commit to something
    commitments = [*(each.commitment for each in honest), last.commitment]
    openings = [each.opening(commitments) for each in honest]
    with pytest.raises(ThresholdError, match="party 2 shows another key"):
        joint_key(setup, commitments, [*openings, Opening(PARTIES - 1, last._nonce, rogue)])


def test_no_key_is_shown_before_all_commitments_are_there(case: Case) -> None:
    first, second = case.parties[:2]
    for commitments in (
        [first.commitment, second.commitment],
        [first.commitment, second.commitment, first.commitment],  # a copy is not a party's own
        [second.commitment, first.commitment, case.parties[2].commitment],
    ):
        with pytest.raises(ThresholdError, match="no key is shown"):
            first.opening(commitments)


def test_without_flooding_the_others_compute_the_missing_secret(case: Case) -> None:
    """IND-CPA^D: all but one party know the published phase, which is the known total and its noise."""
    setup, known, missing = case.setup, case.secrets[:-1], case.secrets[-1][:2]
    raw = phase(setup, case.total, case.shares(None))
    noise = [found - (value << setup.guard) for found, value in zip(raw, case.expected, strict=True)]
    assert setup.noise / 20 < max(map(abs, noise)) < setup.noise
    assert (attacks.missing_secret(setup, case.total, raw, known) == missing).all()

    flooded = phase(setup, case.total, case.shares(setup.flooding_bits))
    rounded = [value << setup.guard for value in case.expected]
    for published in (flooded, rounded):
        assert (attacks.missing_secret(setup, case.total, published, known) != missing).any()
    seen = [found - value for found, value in zip(flooded, rounded, strict=True)]
    assert np.std(np.array(seen, float)) == pytest.approx(2.0**setup.flooding_bits * (PARTIES / 3) ** 0.5, rel=0.1)


def test_shares_of_one_total_average_the_flooding_out(case: Case) -> None:
    setup, secret = case.setup, case.secrets[0]
    bits = setup.flooding_bits
    exact = setup.data.integers(share(setup, secret, case.total, None))
    shares = [share(setup, secret, case.total, bits) for _ in range(8)]
    for count in (1, 2, 8):
        found = attacks.averaged(setup, shares[:count]) if count > 1 else setup.data.integers(shares[0])
        errors = np.array([a - b for a, b in zip(found, exact, strict=True)], float)
        assert np.std(errors) == pytest.approx(2.0**bits / (3 * count) ** 0.5, rel=0.05)


def test_averages_of_too_little_flooding_give_the_share(case: Case) -> None:
    """Flooding of -1, 0 and 1: each share hides the secret, and 100 of one total do not."""
    setup, secret = case.setup, case.secrets[0]
    exact = setup.data.integers(share(setup, secret, case.total, None))
    shares = [share(setup, secret, case.total, 0) for _ in range(100)]
    assert setup.data.integers(shares[0]) != exact
    assert attacks.averaged(setup, shares) == exact


def test_a_party_answers_a_total_once(case: Case) -> None:
    party = Party(case.setup, 0)
    party.share(case.total)
    with pytest.raises(ThresholdError, match="was answered"):
        party.share(case.total)


def test_flooding_takes_two_primes_of_60_bits() -> None:
    """3 x 60 bits are within the bound at N = 8192; in one data prime the flooding alone is larger than the prime."""
    assert sum(Setup(5, 5).prime_bits) <= CLASSICAL_2024[DEGREE]
    assert Setup(5, 5).value_bits == 50
    assert Setup(5, 5, prime_bits=(60, 60)).value_bits < 0
    with pytest.raises(ValueError, match="SEAL refuses"):
        Setup(5, 5, prime_bits=(60, 60, 60, 60)).context  # noqa: B018 - made when it is used
    for flooding, right in ((0, True), (40, False)):
        case = case_of(Setup(2, 2, prime_bits=(60, 60), flooding=flooding), 1 << 10)
        found = combine(case.setup, case.total, [each.share(case.total) for each in case.parties])
        assert (found == case.expected) is right


def test_more_contributions_than_the_flooding_is_for_are_refused(case: Case) -> None:
    with pytest.raises(ThresholdError, match="more contributions"):
        added(case.setup, [encrypt(case.setup, case.key, [1])] * (PARTIES + 1))


def test_what_is_timed_is_right() -> None:
    values = np.random.default_rng(3).integers(-1 << 30, 1 << 30, (2, DEGREE))
    residues = 3 + 2 * 2 + 2  # of each coefficient: of a public key, a ciphertext and a share
    assert threshold(values).sent == pytest.approx(residues * DEGREE * 8, rel=0.002)
    assert additive(values).sent == 2 * DEGREE * 8
    shares = split(values[0].view(np.uint64), 3)
    assert (np.add.reduce(shares).view(np.int64) == values[0]).all()
    assert len({each.tobytes() for each in shares}) == 3

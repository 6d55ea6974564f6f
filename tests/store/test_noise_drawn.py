"""The noise is OpenDP's: its law, its epsilon, and how often the intervals of analysts hold what they are around."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from cleave.ask.ways.noisy import Noised, mean_of, spread_of
from cleave.disclosure.noise import Clamp, Statistic, half_width, statistics, variance
from cleave.releases import drawing
from cleave.releases.drawing import noisy
from cleave_shared.errors import InputError
from cleave_shared.installed import install_command

CHANCE = 1e-9  # that a test of the law fails though the law is right
SCALES = [0.7, 12.0, 4e6]


def of_scale(scale: float) -> Statistic:
    return Statistic("rows", "rows", None, 1 << 20, Fraction(1 << 20) / Fraction(scale))


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    """The chance of a sum of squares at least so large, of that many bins."""
    total = float(((counts - expected) ** 2 / expected).sum())
    return float(arb(total / 2).gamma_upper(arb(len(counts) - 1) / 2, regularized=1))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("draws", [5_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_the_noise_has_the_law_of_discrete_laplace(scale: float, draws: int) -> None:
    """20 bins about as probable as each other; the probability of a bin is a sum of a geometric series."""
    used, drawn = noisy(of_scale(scale), [1000] * draws)
    assert used == pytest.approx(scale)
    noise = np.array(drawn) - 1000
    p = math.exp(-1 / used)

    def below(end: int) -> float:
        """P(noise < end)."""
        return p ** (1 - end) / (1 + p) if end <= 0 else 1 - p**end / (1 + p)

    quantiles = [-math.log(2 * (1 - share)) if share > 0.5 else math.log(2 * share) for share in np.arange(1, 20) / 20]
    ends = sorted({round(used * each) for each in quantiles})
    chances = np.diff([0.0, *map(below, ends), 1.0])
    counts = np.diff([0, *(int((noise < end).sum()) for end in ends), draws])
    assert chances.min() * draws > 20
    assert chi_square(counts, chances * draws) > CHANCE
    assert len(counts) > 2


def test_another_law_is_noticed() -> None:
    random = np.random.default_rng(1)
    noise = np.rint(random.normal(0, math.sqrt(variance(12.0)), 5_000))
    counts = np.array([(abs(noise) <= 6).sum(), (abs(noise) > 6).sum()])
    p = math.exp(-1 / 12)
    inside = 1 - 2 * p**7 / (1 + p)
    assert chi_square(counts, np.array([inside, 1 - inside]) * 5_000) < CHANCE


def test_opendp_states_no_more_epsilon_than_is_spent() -> None:
    for sensitivity in (1, 3, 8, 4_000_000, (1 << 62) - 1):
        for epsilon in (Fraction(1, 3), Fraction(1, 7), Fraction(999_999, 10**6), Fraction(11)):
            statistic = Statistic("rows", "rows", None, sensitivity, epsilon)
            scale, _ = noisy(statistic, [0])
            assert Fraction(drawing._laplace(scale).map(sensitivity)) <= epsilon
            assert scale <= statistic.scale * (1 + 2**-50)


def test_the_scale_is_not_larger_than_needed() -> None:
    assert noisy(Statistic("rows", "rows", None, 3, Fraction(1, 2)), [0])[0] == 6.0


def test_without_opendp_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(InputError, match=r"^noisy releases need the package opendp") as raised:
        drawing.require_sampler()
    assert raised.value.hint == install_command("noise", "opendp")


def test_a_scale_that_spends_more_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whatever OpenDP states."""
    laplace = drawing._laplace

    class Costly:
        def __init__(self, scale: float) -> None:
            self.of = laplace(scale)

        def map(self, distance: int) -> float:
            return float(self.of.map(distance)) * 1.01

        def __call__(self, _: list[int]) -> list[int]:
            raise AssertionError("it draws")

    monkeypatch.setattr(drawing, "_laplace", Costly)
    with pytest.raises(ArithmeticError):
        noisy(of_scale(3.0), [1])


RELEASES = 2_000
# of 2,000 releases with a chance of 95% each, fewer than 1,840 are right in one of 10^8 tries
LEAST = RELEASES * 0.92


def test_intervals_hold_the_totals_of_the_rows_that_count() -> None:
    """In 95 of 100 releases: count, sum, mean, variance and deviation of a group of three cells."""
    values = np.random.default_rng(5).integers(0, 5000, 4000)
    made = statistics([Clamp("bill", 0, 5000, 0, nullable=False)], 2, Fraction(4), squares=True, split={})
    cells = 3
    noise = []
    for each in made:
        scale, drawn = noisy(each, [0] * (RELEASES * cells))
        noise.append((scale, np.array(drawn).reshape(RELEASES, cells).sum(1)))
    exact = [len(values), int(values.sum()), int((values**2).sum())]
    deviations = [math.sqrt(cells * variance(scale)) for scale, _ in noise]
    widths = [half_width(each) for each in deviations]
    held = dict.fromkeys(("COUNT", "SUM", "AVG", "VAR_POP", "VAR_SAMP", "STDDEV_SAMP"), 0)
    truth = {
        "AVG": values.mean(),
        "VAR_POP": values.var(),
        "VAR_SAMP": values.var(ddof=1),
        "STDDEV_SAMP": values.std(ddof=1),
    }
    low, high = Fraction(0), Fraction(5000)
    for number in range(RELEASES):
        count, total, squares = (
            Noised(Fraction(value + int(of[number])), deviation)
            for value, (_, of), deviation in zip(exact, noise, deviations, strict=True)
        )
        held["COUNT"] += abs(count.value - exact[0]) <= widths[0]
        held["SUM"] += abs(total.value - exact[1]) <= widths[1]
        figures = {"AVG": mean_of(total, count, Fraction(0), low, high)}
        for name in ("VAR_POP", "VAR_SAMP", "STDDEV_SAMP"):
            figures[name] = spread_of(name, squares, total, count, Fraction(1), low, high)
        for name, figure in figures.items():
            assert isinstance(figure.value, float)
            held[name] += abs(figure.value - float(truth[name])) <= figure.bound
    assert {name: count for name, count in held.items() if not count >= LEAST} == {}
    assert max(held.values()) < RELEASES, "intervals are no wider than they must be"

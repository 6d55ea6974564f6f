"""`cleave.fit` over stored tables and releases: the same model as over the file, whichever way sums take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import statsmodels.formula.api as smf

import cleave
from cleave.ckks.public_key import public_side
from cleave.store.identity import create_identity
from cleave_shared.errors import InputError, QueryRefused

PATIENTS = Path(__file__).parents[1] / "samples" / "patients.csv"


pytestmark = pytest.mark.usefixtures("own_folder")


def same(one: Any, two: Any) -> bool:
    """Whether two models agree within their bounds."""
    pairs = zip(one.coefficients.values(), two.coefficients.values(), strict=True)
    numbers = [(a, b) for left, right in pairs for a, b in zip(vars_of(left), vars_of(right), strict=True)]
    numbers += [(one.r2, two.r2), (one.residual, two.residual), (one.f_p, two.f_p)]
    close = all(abs(a.value - b.value) <= a.bound + b.bound + 1e-15 * abs(a.value) for a, b in numbers)
    return close and (one.names, one.n, one.left_out) == (two.names, two.n, two.left_out)


def vars_of(coefficient: Any) -> list[Any]:
    return [getattr(coefficient, name) for name in coefficient.__slots__]


def ways(model: Any) -> set[str]:
    return {way.name for seen in model.seen for way in seen.ways if way.taken}


def test_totals_with_products_answer_without_rows() -> None:
    cleave.put(PATIENTS, "trial", store="s", by=["ward"], products=["age", "bill", "weight"])
    for formula, is_exact in (("bill ~ age + C(ward)", True), ("bill ~ age * C(ward) + weight", False)):
        model = cleave.fit("trial", formula, store="s", cloud_only=True)
        assert ways(model) == {"totals"}
        assert same(model, cleave.fit(PATIENTS, formula))
        assert (model.coefficients["age"].estimate.bound == 0) == is_exact


@pytest.mark.slow  # quick: the test above
def test_totals_of_columns_with_wide_bounds_are_used() -> None:
    """By its bounds a sum might overflow, and the one that is kept does not."""
    frame = pd.DataFrame({"y": [1, 5, 2, 8, 4, 7], "x": [1, 2, 3, 4, 5, 7], "g": [*"aabbab"]})
    wide = "".join(
        f'[columns.{name}]\nkind = "encrypted"\ntype = "BIGINT"\nlower = 0\nupper = {2**63 - 1}\n' for name in "yx"
    )
    schema = Path("wide.schema.toml")
    schema.write_text(f'{wide}[columns.g]\nkind = "plain"\ntype = "VARCHAR"\n')
    cleave.put(frame, "t", schema=schema, store="s", by=["g"], products=["x", "y"])
    model = cleave.fit("t", "y ~ x", store="s", cloud_only=True)
    assert ways(model) == {"totals"}
    assert same(model, cleave.fit(frame, "y ~ x", schema=schema))


def test_rows_are_fetched_where_totals_do_not_answer() -> None:
    cleave.put(PATIENTS, "trial", store="s", by=["ward"])
    formula = "bill ~ age + C(insured):weight"
    model = cleave.fit("trial", formula, store="s")
    assert "rows" in ways(model)
    assert same(model, cleave.fit(PATIENTS, formula))
    with pytest.raises(QueryRefused, match="totals"):
        cleave.fit("trial", formula, store="s", cloud_only=True)


def test_a_table_that_is_not_there_is_refused_as_a_query_refuses_it() -> None:
    """A model asks in a snapshot, of which its user knows nothing."""
    cleave.put(PATIENTS, "trial", store="s", by=["ward"])
    with pytest.raises(InputError) as asked:
        cleave.query("trail", "SELECT COUNT(*) FROM trail", store="s")
    for model in (
        lambda: cleave.fit("trail", "bill ~ age", store="s"),
        lambda: cleave.pca("trail", "age,bill", store="s"),
        lambda: cleave.survival("trail", "age", "insured", store="s"),
    ):
        with pytest.raises(InputError) as refused:
            model()
        assert (refused.value.message, refused.value.hint) == (asked.value.message, asked.value.hint)


def test_a_threshold_over_a_stored_table() -> None:
    cleave.put(PATIENTS, "trial", store="s", by=["ward"], entity=["email"])
    model = cleave.fit("trial", "bill ~ age + C(ward)", store="s", min_group=20)
    assert (model.min_group, model.people, model.left_out) == (20, "people", None)
    assert "no cell of the design has fewer than 20 people" in model.summary()
    with pytest.raises(QueryRefused, match=r"a level of C\(ward\) has fewer than 100 people"):
        cleave.fit("trial", "bill ~ age + C(ward)", store="s", min_group=100)


def test_a_release_gives_models_of_factors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cleave.put(PATIENTS, "trial", store="s", by=["ward"], products=["age", "bill"])
    identity = create_identity(tmp_path / "carol.pem", analyst=True)[0]
    analyst = f"{tmp_path}/carol.pem.pub={public_side(identity).fingerprint}"
    facts = cleave.release("trial", to=[analyst], store="s", min_cell=5)
    given: dict[str, Any] = {"store": "s", "analyst": tmp_path / "carol.pem", "fingerprint": facts.fingerprint}
    monkeypatch.delenv("CLEAVE_KEY")
    model = cleave.fit("trial", "bill ~ C(ward)", **given)
    expected = smf.ols("bill ~ C(ward)", pd.read_csv(PATIENTS)).fit()
    for each, estimate, error in zip(model.coefficients.values(), expected.params, expected.bse, strict=True):
        assert each.estimate.value == pytest.approx(estimate)
        assert each.error.value == pytest.approx(error)
    assert model.released
    assert "only released parts" in model.summary()
    with pytest.raises(QueryRefused, match=r"needs totals of age\*bill, and products of columns are in no release"):
        cleave.fit("trial", "bill ~ age + C(ward)", **given)
    with pytest.raises(QueryRefused, match=r"products of columns are in no release, and CORR needs them$"):
        cleave.query("trial", "SELECT CORR(age, bill) FROM trial", **given)
    with pytest.raises(QueryRefused, match=r'no totals are released of "age" \* "bill"$'):
        cleave.query("trial", "SELECT SUM(age * bill) FROM trial", **given)


def test_a_release_of_few_people_has_no_squares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"g": [*"a" * 8, *"b" * 40], "y": [*range(48)]})
    cleave.put(frame, "t", store="s", by=["g"], schema={"g": "plain", "y": "encrypted"})
    identity = create_identity(tmp_path / "carol.pem", analyst=True)[0]
    analyst = f"{tmp_path}/carol.pem.pub={public_side(identity).fingerprint}"
    facts = cleave.release("t", to=[analyst], store="s", min_cell=5)
    given: dict[str, Any] = {"store": "s", "analyst": tmp_path / "carol.pem", "fingerprint": facts.fingerprint}
    with pytest.raises(QueryRefused, match="withholds a total that the model needs"):
        cleave.fit("t", "y ~ g", **given)


@pytest.mark.slow  # quick: the test above
def test_a_release_has_no_squares_of_derived_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many people there are."""
    numbers = {"kind": "encrypted", "nullable": False, "lower": 0, "upper": 100}
    frame = pd.DataFrame({"g": [*"ab" * 40], "y": [*range(80)], "z": [7, 9, 11, 13] * 20})
    cleave.put(frame, "t", store="s", by=["g"], schema={"g": "plain", "y": numbers, "z": numbers})
    cleave.derive("t", "y - z", "net", store="s")
    identity = create_identity(tmp_path / "carol.pem", analyst=True)[0]
    analyst = f"{tmp_path}/carol.pem.pub={public_side(identity).fingerprint}"
    facts = cleave.release("t", to=[analyst], store="s", min_cell=5)
    given: dict[str, Any] = {"store": "s", "analyst": tmp_path / "carol.pem", "fingerprint": facts.fingerprint}
    assert cleave.fit("t", "y ~ g", **given).n == 80
    with pytest.raises(QueryRefused, match="and never of derived columns"):
        cleave.fit("t", "net ~ g", **given)

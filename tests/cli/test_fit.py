"""`cleave fit`: its text, its JSON, its options and its errors."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pytest

import cleave
from cleave.text.quantities import sized
from tests.cli.runner import Cli

PATIENTS = Path(__file__).parents[1] / "samples" / "patients.csv"
FORMULA = "bill ~ age + C(ward)"


@pytest.fixture(autouse=True)
def own_key(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEAVE_KEY", str(key_file))


def test_the_summary_is_that_of_python_and_the_footer_says_what_it_cost(cli: Cli) -> None:
    done = cli.run("fit", PATIENTS, FORMULA)
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{cleave.fit(PATIENTS, FORMULA).summary()}\n"
    assert "checks passed" in done.stderr
    assert "1 statement," in done.stderr


def test_the_footer_says_why_rows_of_a_stored_table_were_read(cli: Cli, tmp_path: Path) -> None:
    cleave.put(PATIENTS, "trial", store=tmp_path / "s", by=["ward"])
    done = cli.run("fit", "trial", FORMULA, "--store", tmp_path / "s")
    why, cost = done.stderr.splitlines()
    assert why.startswith("local, over what was fetched and decrypted: ")
    model = cleave.fit("trial", FORMULA, store=tmp_path / "s")
    (usage,) = model.usage
    assert f" 1 statement, {usage.objects_read} objects read, {sized(usage.bytes_read or 0)}; no service used" in cost


def test_a_plan_of_a_formula_names_the_command_for_formulas(cli: Cli) -> None:
    done = cli.run("plan", PATIENTS, FORMULA)
    assert done.exit_code == 2
    assert "only cleave fit takes formulas" in done.stderr
    assert cli.run("plan", PATIENTS, "SELECT ~ age AS x FROM patients WHERE ward ~ 'x'").exit_code == 0


@pytest.mark.parametrize("words", [("fit", FORMULA), ("pca", "age,bill"), ("survival", "--time", "age")])
def test_a_model_is_of_one_table(cli: Cli, words: tuple[str, ...]) -> None:
    command, *others = words
    assert "there is no option --with" in cli.fails(2, command, PATIENTS, *others, "--with", "stays.csv")
    text = " ".join(cli.run(command, "--help").stdout.split())
    assert "--min-group N Refuse or merge what is of fewer than N people" in text
    with pytest.raises(TypeError, match="no argument 'others'"):
        getattr(cleave, command)(PATIENTS, "bill", "age", others={"stays": "stays.csv"})


def test_a_fit_takes_options_and_prints_json(cli: Cli) -> None:
    weighted = PATIENTS.with_name("patients.schema.toml")
    options = ("--weights", "age", "--ridge", "0.5", "--level", "0.9", "--schema", weighted, "--json")
    done = cli.run("fit", PATIENTS, "bill ~ weight", *options)
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert (facts["weights"], facts["ridge"], facts["level"]) == ("age", 0.5, 0.9)
    model = cleave.fit(PATIENTS, "bill ~ weight", weights="age", ridge="0.5", level=0.9)
    assert facts["n"] == model.n
    assert facts["coefficients"]["weight"]["error"] == [None, None]
    estimate, own = facts["coefficients"]["weight"]["estimate"], model.coefficients["weight"].estimate
    assert abs(estimate[0] - own.value) <= estimate[1] + own.bound


@pytest.mark.parametrize(
    ("code", "words", "said"),
    [
        (4, ("bill ~ log(age)",), "log(age)"),
        (4, (FORMULA, "--family", "binomial"), "docs/models.md"),
        (4, ("bill ~ C(ward)", "--min-group", "101"), "a level of C(ward)"),
        (3, ("bill ~ agee",), "did you mean 'age'"),
        (2, (FORMULA, "--ridge", "none"), "ridge is a number"),
        (2, (FORMULA, "--level", "95"), "between 0 and 1"),
    ],
)
def test_errors_have_their_codes(cli: Cli, code: int, words: tuple[str, ...], said: str) -> None:
    assert said in cli.fails(code, "fit", PATIENTS, *words)


def test_a_formula_is_needed(cli: Cli) -> None:
    done = cli.run("fit", PATIENTS)
    assert done.exit_code == 2
    assert "a table and a formula are needed" in done.stderr.replace("\n", " ")


def test_a_missing_extra_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *given: Any) -> Any:
        if name.startswith("formulaic"):
            raise ModuleNotFoundError(name=name)
        return imported(name, *given)

    monkeypatch.setattr(builtins, "__import__", without)
    error = cli.fails(3, "fit", PATIENTS, FORMULA)
    assert "models need the package formulaic" in error
    assert "models" in error.splitlines()[1]

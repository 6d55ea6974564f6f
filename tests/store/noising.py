"""An owner who makes noisy releases of a table about people, and what the analysts read of it."""

from __future__ import annotations

from typing import Any

from cleave.releases.kind import made as released
from cleave.releases.noisy import NoisyDraft, NoisyReleaseFacts
from cleave.releases.noisy_choices import NoisyChoices
from cleave.releases.noisy_totals import NoisyTotals
from cleave.releases.releases import drafted
from tests.store.releasing import Releases

SCHEMA = """
[privacy]
entity = ["patient"]
budget = 3
[columns.patient]
kind = "sealed"
type = "VARCHAR"
[columns.ward]
kind = "plain"
type = "VARCHAR"
values = ["A", "B"]
[columns.sex]
kind = "sealed"
type = "VARCHAR"
nullable = false
values = ["f", "m"]
[columns.bill]
kind = "encrypted"
type = "DECIMAL(9,2)"
nullable = false
lower = 0
upper = 1000
[columns.age]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 127
[columns.smoker]
kind = "sealed"
type = "BOOLEAN"
[columns.weight]
kind = "encrypted"
type = "DOUBLE"
lower = 0
upper = 400
"""
CLAMPS = {"bill": ("0", "200"), "age": ("18", "90"), "smoker": ("0", "1")}


def made(count: int = 240, people: int = 60, start: int = 0) -> str:
    """CSV of rows of several people, some without one, in wards that are declared and others, with NULLs."""
    lines = []
    for n in range(start, start + count):
        patient = "" if n % 31 == 5 else f"p{n * 7 % people}"
        ward = ("A", "B", "B", "", "Z")[(n + n // people) % 5]
        age = "" if n % 7 == 0 else str(10 + n % 90)
        smoker = ("true", "false", "")[n % 3]
        lines.append(f"{patient},{ward},{'fm'[n % 2]},{n % 300}.{n % 100:02d},{age},{smoker},{n % 90}.5\n")
    return "".join(lines)


class NoisyReleases(Releases):
    schema_text, header = SCHEMA, "patient,ward,sex,bill,age,smoker,weight\n"

    def begin(self) -> None:
        self.put(made())

    def noise(self, epsilon: float = 1.0, most_rows: int = 3, **how: Any) -> NoisyChoices:
        """`how`: further members of NoisyChoices."""
        given = {"clamps": CLAMPS, "values": {}, "split": {}, **how}
        return NoisyChoices(round(epsilon * 1_000_000), most_rows, **given)

    def draft(self, *names: str, yes: bool = False, **how: Any) -> NoisyDraft:
        analysts = {name: self.public_of(name) for name in names}
        draft = drafted(self.tables()[0], self.name, analysts, self.noise(**how), yes=yes)
        assert isinstance(draft, NoisyDraft)
        return draft

    def draw(self, *names: str, yes: bool = False, **how: Any) -> NoisyReleaseFacts:
        facts = released(self.draft(*names, yes=yes, **how))
        assert isinstance(facts, NoisyReleaseFacts)
        return facts

    def drawn(self, name: str) -> NoisyTotals:
        totals = self.totals(name)
        assert isinstance(totals, NoisyTotals)
        return totals

    def spent(self) -> int:
        return self.tables()[0].spent(self.open())

"""The `[privacy]` table of a schema: whom rows are about, and the smallest group that may be shown (docs/rules.md).

[privacy]
entity = ["patient_id"]     columns that identify the person; without it thresholds count rows
min_group = 5               minimum people in a group, for gateway users without rows and for releases
dominance = 0.8             largest share of one person in a released sum
budget = 4                  largest epsilon that all noisy releases of the table may spend together
unsure = true               the entity was proposed; a person must confirm it and delete this line
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from cleave.table.derived import Find, only_keys

if TYPE_CHECKING:
    from tomlkit.items import Table as TomlTable

CONTRIBUTOR: Final = "contributor"  # the column of whose rows they are, of a table that has contributors
_KEYS: Final = ("entity", "min_group", "dominance", "budget", "unsure")
LEAST: Final = 3  # people of a group, and of a release's part: of two people, each could subtract itself
_MOST: Final = 1 << 31  # people in a group
_PLACE: Final = "[privacy]"
MICRO: Final = 1_000_000  # epsilon is counted in millionths
MOST_EPSILON: Final = 1_000  # more promises nothing


@dataclass(frozen=True, slots=True)
class Privacy:
    """`entity`: columns that identify whom a row is about; rows with a NULL in one are about nobody. Empty: thresholds
    count rows.

    `min_group`: 0, or a minimum number of people, at least `LEAST`. `dominance`: None, or a share between 0 and 1.
    `budget`: None, or the epsilon that noisy releases may spend. `unsure`: the entity was proposed and nobody has
    confirmed it.
    """

    entity: tuple[str, ...] = ()
    min_group: int = 0
    dominance: Decimal | None = None
    budget: Decimal | None = None
    unsure: bool = False

    @property
    def counted(self) -> str:
        """What thresholds count: "people" or "rows"."""
        return "people" if self.entity else "rows"

    def renamed(self, names: Mapping[str, str]) -> Privacy:
        """Return a copy with columns renamed. `names`: old name -> new name."""
        return replace(self, entity=tuple(names.get(each, each) for each in self.entity))


NO_PRIVACY: Final = Privacy()


def entity_of(names: Any, find: Find) -> tuple[str, ...]:
    """The columns of an entity, spelled as in the schema. Raises ValueError.

    `find` returns the schema's column of a name, or None. "contributor" is allowed if the schema has no such column.
    """
    if not isinstance(names, list | tuple) or not names or not all(isinstance(each, str) for each in names):
        raise ValueError('must be a list of columns, as in ["patient_id"]')
    entity: list[str] = []
    for name in names:
        column = find(name)
        if column is None and name.lower() != CONTRIBUTOR:
            raise ValueError(f"there is no column {name!r}")
        spelled = CONTRIBUTOR if column is None else column.name
        if spelled in entity:
            raise ValueError(f"names {spelled!r} twice")
        entity.append(spelled)
    return tuple(entity)


def parse_privacy(table: Mapping[str, Any], find: Find) -> Privacy:
    """Raises ValueError naming the key of the first mistake."""
    only_keys(table, _KEYS, _PLACE)
    entity: tuple[str, ...] = ()
    if "entity" in table:
        try:
            entity = entity_of(table["entity"], find)
        except ValueError as error:
            raise ValueError(f"{_PLACE} entity: {error}") from None
    least = table.get("min_group", 0)
    is_absent = "min_group" not in table
    if isinstance(least, bool) or not isinstance(least, int) or not (is_absent or LEAST <= least < _MOST):
        raise ValueError(f"{_PLACE} min_group: must be a number of people, {LEAST} or more (rule P2)")
    share = table.get("dominance")
    if share is not None:
        if isinstance(share, bool) or not isinstance(share, Decimal) or not 0 < share < 1:
            raise ValueError(f"{_PLACE} dominance: must be a share above 0 and below 1")
        if not entity:
            raise ValueError(f"{_PLACE} dominance: is a share of one person, and no entity is named (rule R5)")
    budget = table.get("budget")
    if budget is not None:
        if isinstance(budget, bool) or not isinstance(budget, int | Decimal):
            raise ValueError(f"{_PLACE} budget: must be a number above 0")
        budget = Decimal(budget)
        if not (budget.is_finite() and 0 < budget <= MOST_EPSILON) or budget * MICRO % 1:
            raise ValueError(f"{_PLACE} budget: must be above 0, at most {MOST_EPSILON:,}, with up to six decimals")
        if not entity:
            raise ValueError(
                f"{_PLACE} budget: limits what releases say of one person, and no entity is named (rule N6)"
            )
    unsure = table.get("unsure", False)
    if not isinstance(unsure, bool) or (unsure and not entity):
        raise ValueError(f"{_PLACE} unsure: must be true or false, and true only beside an entity")
    return Privacy(entity, least, share, budget, unsure)


def epsilon_text(millionths: int) -> str:
    """An epsilon as it is written."""
    return f"{Decimal(millionths).scaleb(-6).normalize():f}"


def dump_privacy(privacy: Privacy) -> TomlTable:
    import tomlkit  # noqa: PLC0415 - 25 ms that a query does not need

    table = tomlkit.table()
    if privacy.entity:
        table.add("entity", list(privacy.entity))
    if privacy.min_group:
        table.add("min_group", privacy.min_group)
    if privacy.dominance is not None:
        table.add("dominance", tomlkit.value(f"{privacy.dominance:f}"))
    if privacy.budget is not None:
        table.add("budget", tomlkit.value(f"{privacy.budget:f}"))
    if privacy.unsure:
        unsure = tomlkit.boolean("true")
        unsure.comment("whom a row is about: settle it, then delete this line")
        table.add("unsure", unsure)
    return table

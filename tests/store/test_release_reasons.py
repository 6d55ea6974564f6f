"""Why a release is refused: every reason is found, and what `yes` confirms is said."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cleave.ckks.key_file import create_key, open_key
from cleave.maintain.rotate import move_table as rotate
from cleave.releases.exact import ExactChoices, ExactDraft
from cleave.releases.kind import ReleaseDraft, require
from cleave.releases.kind import made as make
from cleave.releases.noisy import NoisyDraft
from cleave.releases.page import page_of
from cleave.releases.releases import KINDS, drafted
from cleave.store import put as putting
from cleave.store.accepting import accept
from cleave.store.dropping import drop
from cleave.store.manifest import Manifest, NoisyRelease
from cleave.store.schemas import load_stored_schema
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.table.progress import Silent
from cleave_shared.errors import InputError
from tests.store.contributing import kept_as
from tests.store.noising import CLAMPS, NoisyReleases, made

Break = pytest.MonkeyPatch
PAGE = Path(__file__).parents[2] / "docs" / "analysts.md"


@pytest.fixture
def world(tmp_path: Path, key_file: Path) -> NoisyReleases:
    return kept_as(NoisyReleases, tmp_path / "world", key_file, NoisyReleases.begin)


def append(world: NoisyReleases) -> None:
    with world.table(made(20, start=500)) as table:
        putting.append(world.tables()[0], table, world.name, Silent())


def dropped_and_put(world: NoisyReleases) -> None:
    drop(world.tables()[0], world.name)
    world.put(made())


def drawn(world: NoisyReleases, _: Break) -> None:
    world.draw("carol")


def both(world: NoisyReleases, _: Break) -> None:
    world.release("carol")
    world.draw("carol", yes=True)


def released(world: NoisyReleases, _: Break) -> None:
    world.release("carol")


def changed(world: NoisyReleases, _: Break) -> None:
    world.draw("carol")
    append(world)


def ended(world: NoisyReleases, _: Break) -> None:
    world.release("carol")
    world.put(made(), ("ward",), replace=True)


def restored(_: NoisyReleases, broken: Break) -> None:
    broken.setattr("cleave.releases.exact.accepted_copies", lambda *_: 1)


def no_one(_: NoisyReleases, broken: Break) -> None:
    broken.setattr("cleave.releases.noisy.load_stored_schema", lambda manifest: load_stored_schema(manifest).about(()))


def long(_: NoisyReleases, broken: Break) -> None:
    broken.setattr("cleave.releases.noisy.MOST_TABLE_ROWS", 100)


EXACT, NEW = ExactChoices(), ExactChoices(new_lineage=True)
Case = tuple[Callable[[NoisyReleases, Break], None], Any]
CASES: dict[tuple[str, str], Case] = {
    ("exact", "after noisy"): (drawn, EXACT),
    ("exact", "subtractable"): (released, NEW),
    ("exact", "exact, then noisy"): (both, EXACT),
    ("exact", "lineage ended"): (ended, EXACT),
    ("exact", "restored"): (restored, EXACT),
    ("noisy", "no entity"): (no_one, {}),
    ("noisy", "too many rows"): (long, {}),
    ("noisy", "over budget"): (drawn, {"epsilon": 2.5}),
    ("noisy", "after exact"): (released, {}),
    ("noisy", "spends again"): (changed, {}),
    ("noisy", "loses"): (drawn, {"clamps": {}}),
}
DRAFTS: dict[str, type[ReleaseDraft]] = {"exact": ExactDraft, "noisy": NoisyDraft}


def test_all_reasons_are_tried_and_documented() -> None:
    assert DRAFTS.keys() == KINDS.keys()
    reasons = {(kind, each.name): each for kind, draft in DRAFTS.items() for each in draft.REASONS}
    assert reasons.keys() == CASES.keys()
    rows = re.findall(r"^\| ([^|]+) \| (exact|noisy) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    assert {(kind, name): way.startswith("`--yes`") for name, kind, way in rows} == {
        which: each.by_yes for which, each in reasons.items()
    }


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_each_reason_is_found_and_has_a_way_on(world: NoisyReleases, monkeypatch: Break, kind: str, name: str) -> None:
    prepare, choices = CASES[kind, name]
    prepare(world, monkeypatch)
    chosen = world.noise(**choices) if kind == "noisy" else choices
    tables, analysts = world.tables()[0], {"carol": world.public_of("carol")}
    draft = KINDS[kind](tables, tables.open(world.name)).drafted(analysts, chosen)
    (reason,) = [each for each in draft.REASONS if each.name == name]
    assert reason.text(draft)
    with pytest.raises(InputError) as refused:
        require(draft, yes=False)
    assert refused.value.hint
    if reason.by_yes:
        assert reason.text(draft) in require(draft, yes=True)
        assert (reason.text(draft) in str(refused.value)) is (reason.way_on in refused.value.hint)
    else:
        with pytest.raises(InputError) as refused:
            require(draft, yes=True)
        assert (str(refused.value), refused.value.hint) == (reason.text(draft), reason.way_on)


def test_a_noisy_release_with_other_choices_says_what_it_spends_first(world: NoisyReleases) -> None:
    world.draw("carol", epsilon=1)
    before = world.drawn("carol")
    for change in ({"most_rows": 4}, {"epsilon": 0.5}, {"clamps": {**CLAMPS, "bill": ("0", "201")}}):
        with pytest.raises(InputError, match=r"has spent epsilon 1: .* draws anew and spends") as refused:
            world.draw("carol", **change)
        assert "confirm with --yes" in str(refused.value.hint)
    with pytest.raises(InputError, match=r"spends 0\.5 more, 1\.5 in all"):
        world.draw("carol", epsilon=0.5)
    append(world)
    with pytest.raises(InputError, match=r"spends 1 more, 2 in all"):
        world.draw("carol")
    with pytest.raises(InputError, match=r"spends 1 more, 2 in all"):
        world.draw("carol", again=True)  # that is of a table that has not changed
    assert (world.drawn("carol"), world.spent()) == (before, 1_000_000)
    facts = world.draw("carol", yes=True)
    assert (facts.publishes, facts.spent) == (True, "2")
    assert any("spends 1 more, 2 in all" in each for each in facts.confirmed)
    assert any(line.startswith("confirmed: table 'trial' has spent epsilon 1") for line in facts.lines())


def test_no_cell_of_an_earlier_draw_is_taken(world: NoisyReleases) -> None:
    """With more cells, and the same ones: of the cells that both have, no sum is the same."""
    few = {"values": {"ward": ["A"], "sex": ["f"]}, "most_rows": 1000, "clamps": {"bill": CLAMPS["bill"]}}
    world.draw("carol", **few)
    first = world.drawn("carol")
    for more in (few["values"], {"ward": ["A", "B"], "sex": ["f", "m"]}):
        how: dict[str, Any] = {**few, "values": more, "again": True}
        world.draw("carol", yes=True, **how)
        later = world.drawn("carol")
        keys = [*later.keys()]
        both = [(place, keys.index(key)) for place, key in enumerate(first.keys())]
        for place, statistic in enumerate(first.statistics):
            if statistic.part == "sum":
                assert all(first.numbers[place][a] != later.numbers[place][b] for a, b in both), "noise of thousands"


def test_exact_releases_of_a_dropped_table_exclude_noisy_ones(world: NoisyReleases, tmp_path: Path) -> None:
    world.release("carol")
    dropped_and_put(world)
    with pytest.raises(
        InputError, match=r"was dropped or restored, and had exact releases: .* promise of the noisy one is void"
    ):
        world.draw("carol")
    key = tmp_path / "new.json"
    create_key(key, None)
    copy = world.copy(tmp_path / "copy")
    new = Tables(copy.stores(), open_key(key, None), SeenVersions(tmp_path / "of the new key.json"))
    assert rotate(copy.tables()[0], new, copy.name, Silent()).manifest.had_exact, "under another key too"
    (world.root / "owner.json").unlink()  # another machine, which has only the store
    with pytest.raises(InputError, match="was dropped or restored, and had exact releases"):
        world.draw("carol")
    draft = world.draft("carol", yes=True)
    assert "promise of the noisy one is void" in page_of(draft)
    assert any("void" in each for each in world.draw("carol", yes=True).confirmed)
    dropped_and_put(world)
    with pytest.raises(InputError, match="was dropped or restored, and had exact releases"):
        world.draw("carol")


def test_a_drop_by_a_machine_that_only_opened_the_table_is_remembered(world: NoisyReleases) -> None:
    world.release("carol")
    (world.root / "owner.json").unlink()
    dropped_and_put(world)
    assert world.open().manifest.had_exact
    drop(world.tables()[0], world.name)
    (world.root / "owner.json").unlink()
    world.put(made())
    assert not world.open().manifest.had_exact, "no machine that knows it dropped or stored it"


def test_a_table_without_exact_releases_says_nothing_of_them(world: NoisyReleases) -> None:
    world.draw("carol")
    dropped_and_put(world)
    facts = world.draw("carol", yes=True)
    assert len(facts.confirmed) == 1
    assert "has spent epsilon 1" in facts.confirmed[0]


def test_stored_records_have_the_members_of_their_kind_alone(world: NoisyReleases) -> None:
    world.draw("carol")
    manifest = world.open().manifest
    assert isinstance(manifest.release, NoisyRelease)
    stored = manifest.release.model_dump(mode="json")
    assert stored["kind"] == "noisy"
    assert not {"least", "lowest", "lineage", "digests", "ended", "accepted"} & stored.keys()
    world.release("carol", new_lineage=True, yes=True)
    stored = world.open().manifest.model_dump(mode="json")["release"]
    assert stored["kind"] == "exact"
    assert not {"epsilon", "request", "drawn"} & stored.keys()
    for wrong in ({"kind": "other"}, {"epsilon": 1}, {"kind": "noisy"}):
        with pytest.raises(ValueError, match="release"):
            Manifest.model_validate({**manifest.model_dump(), "release": {**stored, **wrong}})


def test_without_choices_new_analysts_get_the_newest_numbers(world: NoisyReleases) -> None:
    world.draw("carol")
    draft = drafted(world.tables()[0], world.name, {"dave": world.public_of("dave")})
    assert "sealed again" in page_of(draft)
    assert not draft.publishes


def test_exact_releases_that_a_restored_copy_lacks_exclude_noisy_ones(world: NoisyReleases) -> None:
    shutil.copytree(world.root / "s", world.root / "old")
    world.release("carol")
    shutil.rmtree(world.root / "s")
    shutil.copytree(world.root / "old", world.root / "s")
    tables = world.tables()[0]
    accept(tables, world.name, tables.shown(world.name).manifest.version)
    assert not world.open().manifest.had_exact
    with pytest.raises(InputError, match=r"was dropped or restored, and had exact releases: .* promise"):
        world.draw("carol")
    assert any("void" in each for each in world.draw("carol", yes=True).confirmed)


def test_a_copy_with_noisy_releases_that_lacks_exact_ones_excludes_more_noisy_ones(world: NoisyReleases) -> None:
    world.draw("carol")
    shutil.copytree(world.root / "s", world.root / "old")
    world.release(yes=True)
    shutil.rmtree(world.root / "s")
    shutil.copytree(world.root / "old", world.root / "s")
    tables = world.tables()[0]
    accept(tables, world.name, tables.shown(world.name).manifest.version)
    for change in (lambda: None, lambda: append(world)):
        change()
        with pytest.raises(InputError, match=r"table 'trial' had exact releases: .* void; .* has spent epsilon 1"):
            world.draw("carol", most_rows=4)


@pytest.mark.parametrize("yes", [False, True])
def test_a_new_analyst_alone_never_begins_exact_releases_after_noisy_ones(world: NoisyReleases, *, yes: bool) -> None:
    world.draw("carol")
    before = world.drawn("carol")
    draft = drafted(world.tables()[0], world.name, {"dave": world.public_of("dave")}, yes=yes)
    assert (make(draft).publishes, draft.confirmed) == (False, ())
    assert world.drawn("dave") == before
    assert (world.spent(), world.open().manifest.had_exact) == (1_000_000, 0)

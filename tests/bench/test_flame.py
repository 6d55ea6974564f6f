"""Flame graphs from stacks as py-spy writes them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cleave.bench import flame

LINES = [
    'process 17:"python /home/anna/b.py; x";main (cleave/a.py);load (seal.so) 60',
    'process 17:"python /home/anna/b.py; x";main (cleave/a.py);read (b.py) 20',
    'process 17:"python /home/anna/b.py; x";process 18:"python /home/anna/b.py; x";work (cleave/c.py) 20',
    "no samples here",
]


def test_stacks_become_a_tree_without_command_lines() -> None:
    root = flame.folded(LINES)
    assert root.samples == 100
    assert {name: call.samples for name, call in root.calls.items()} == {"main (cleave/a.py)": 80, "child process": 20}
    assert root.calls["main (cleave/a.py)"].calls["load (seal.so)"].samples == 60
    assert "anna" not in str(root)


def test_boxes_are_as_wide_as_their_share_and_below_their_callers() -> None:
    boxes = {box.name: box for box in flame.boxes(flame.folded(LINES))}
    assert boxes["all"].width == flame.WIDTH
    main, load, read = (boxes[name] for name in ("main (cleave/a.py)", "load (seal.so)", "read (b.py)"))
    assert main.width == pytest.approx(0.8 * flame.WIDTH)
    assert load.x == main.x
    assert read.x == pytest.approx(load.x + load.width)
    assert load.y == read.y > main.y > boxes["all"].y
    assert [main.kind, load.kind, read.kind] == ["ours", "seal", "python"]
    assert boxes["child process"].x == pytest.approx(main.x + main.width)
    assert load.title == "load (seal.so): 60.0%"


def test_what_is_too_narrow_is_not_drawn() -> None:
    assert [box.name for box in flame.boxes(flame.folded(["a 9999", "b 1"]))] == ["all", "a"]
    assert flame.boxes(flame.folded([])) == []


def test_without_py_spy_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(flame.PROGRAM, raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert flame.record([sys.executable]) is None


def test_py_spy_that_may_not_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refused = tmp_path / "py-spy"
    refused.write_text("#!/bin/sh\necho 'Permission Denied' >&2\nexit 1\n")
    refused.chmod(0o755)
    monkeypatch.setenv(flame.PROGRAM, str(refused))
    assert flame.record([sys.executable, "-c", ""]) is None


def test_py_spy_without_native_frames(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    some = tmp_path / "py-spy"
    some.write_text(
        '#!/bin/sh\ncase "$*" in *--native*) exit 1;; esac\n'
        'while [ "$1" != --output ]; do shift; done\necho "main (a.py) 7" > "$2"\n'
    )
    some.chmod(0o755)
    monkeypatch.setenv(flame.PROGRAM, str(some))
    root = flame.record([sys.executable, "-c", ""])
    assert root is not None
    assert root.samples == 7

"""Hidden figures are known as long as their answer."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

from cleave.finish.concealed import Concealed


def test_what_is_hidden_ends_with_the_answer() -> None:
    plan: Any = SimpleNamespace(reads_null={"e0": (0, 1), "e1": (1,)})
    concealed = Concealed(plan, [{0}, {1}, ()])
    assert [concealed.rows(name) for name in ("e0", "e1", "e1", "p0")] == [{0, 1}, {1}, {1}, set()]
    gone = weakref.ref(concealed)
    del concealed
    assert gone() is None

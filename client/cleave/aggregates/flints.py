"""What is used of python-flint, imported when the first ball is made; and not the thirty other types of its package.

`import flint` would import all of them, 40 ms of which the four here take half. So the package is entered in
sys.modules without being run: whoever asks it for anything else has it run then.
"""

from __future__ import annotations

import sys
import threading
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING

_lock = threading.RLock()

if TYPE_CHECKING:
    from flint import arb, ctx, fmpq

    __all__ = ["arb", "ctx", "fmpq"]
else:

    def __getattr__(name: str) -> object:
        if name not in ("arb", "ctx", "fmpq"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(_flint(), name)
        globals()[name] = found  # asked for once
        return found


class _Partial(ModuleType):
    """The package, of which some is there."""

    def __getattr__(self, name: str) -> object:
        with _lock:
            if type(self) is _Partial:
                object.__setattr__(self, "__class__", ModuleType)
                self.__spec__.loader.exec_module(self)  # type: ignore[union-attr]  # a package of files has a loader
        return getattr(self, name)


def _flint() -> ModuleType:
    if "flint" not in sys.modules:
        with _lock:
            _enter()
    import flint  # noqa: PLC0415 - whole, where it is not entered

    return flint


def _enter() -> None:
    spec = find_spec("flint")
    if spec is None or spec.loader is None or "flint" in sys.modules:
        return
    sys.modules["flint"] = module = module_from_spec(spec)
    object.__setattr__(module, "__class__", _Partial)
    try:
        from flint.pyflint import ctx  # noqa: PLC0415 - now that importing them does not run the package
        from flint.types.arb import arb  # noqa: PLC0415
        from flint.types.fmpq import fmpq  # noqa: PLC0415
    except ImportError:  # a release that has them elsewhere
        del sys.modules["flint"]
        return
    vars(module).update(arb=arb, ctx=ctx, fmpq=fmpq)

"""The command `cleave`: the client, with both services at hand."""

from __future__ import annotations

import gc
import logging
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cleave.cli import process
from cleave_shared.extras import extra

if TYPE_CHECKING:
    from cleave.cli.group import Listening

_BESIDE_ROWS: Final = 3 << 30  # bytes of address space that a worker takes for everything else


def main() -> None:
    _lighten()
    if "--debug" not in sys.argv and not sys.warnoptions:
        # what a library warns of is ours to test, and may quote data; users get errors and hints
        warnings.simplefilter("ignore")
        logging.lastResort = logging.NullHandler()
    process.protect()
    from cleave.cli.app import create_cli  # noqa: PLC0415 - after what lightens it
    from cleave.local.embedded import embedded_services, prepare_embedded  # noqa: PLC0415 - as above

    try:
        create_cli(embedded_services, _serve, prepare_embedded, sys.argv[1:], _gateway)(prog_name="cleave")
    except SystemExit as ended:
        # at once: Python would wait for work that a deadline left behind, and take 30 ms to undo what it has imported
        process.leave(ended.code if isinstance(ended.code, int) else int(ended.code is not None))


def _lighten() -> None:
    """Before anything is imported that a question needs: half of a small one's time goes into imports."""
    # pydantic would read the metadata of every distribution there is; a plugin of its has no business with our bodies
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # numpy's linear algebra, which nothing here uses, would start threads: see cleave_shared.fork_server
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(400_000, 20, 20)  # modules are no garbage, and a small question makes fewer objects


def _serve(listening: Listening, ready: Callable[[str], None]) -> None:
    with extra("serve", "services over HTTP"):
        from cleave.local.serve import serve  # noqa: PLC0415 - uvicorn, too

    serve(listening, ready)


def _gateway(
    asking: dict[str, Any],
    files: tuple[str, ...],
    tables: frozenset[str] | None,
    *,
    users: Path,
    listening: tuple[str, int, int | None, Path | None, Path | None],
    workers: int,
    rows: int,
    seconds: float,
    ready: Callable[[str], None],
) -> None:
    with extra("gateway", "connections of BI tools"):
        from cleave.gateway.serve import Listening, serve  # noqa: PLC0415 - mysql-mimic, sqlglot, uvicorn
        from cleave.gateway.work import Setup  # noqa: PLC0415
        from cleave.gateway.workers import Limits  # noqa: PLC0415
    from cleave.local.embedded import embedded_services, prepare_embedded  # noqa: PLC0415 - both services
    from cleave.table.duck import quarter_of_memory  # noqa: PLC0415
    from cleave.text.quantities import size_of  # noqa: PLC0415

    memory = size_of(asking["memory"]) if asking["memory"] else quarter_of_memory() // workers
    asking = {**asking, "memory": memory, "timeout": seconds}
    setup = Setup(asking, files, tables, embedded_services, prepare_embedded)
    limits = Limits(seconds, memory + _BESIDE_ROWS, rows)
    serve(setup, users, Listening(*listening), limits, workers, ready)

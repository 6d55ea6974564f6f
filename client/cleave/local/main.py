"""The command `cleave`: the client, with both services at hand."""

from __future__ import annotations

import gc
import os
import signal
import sys

SERVERS = ("cleave.local.commands:serve", "cleave.local.commands:gateway")
"""Commands that run servers, as `create_cli` takes them."""


def main() -> None:
    # Until a command is at work Ctrl-C ends it as any other program, without a traceback of what was being imported.
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _lighten()
    import logging  # noqa: PLC0415 - after what ends an import
    import warnings  # noqa: PLC0415 - as above

    from cleave.cli import process  # noqa: PLC0415 - as above

    if "--debug" not in sys.argv and not sys.warnoptions:
        # what a library warns of is ours to test, and may quote data; users get errors and hints
        warnings.simplefilter("ignore")
        logging.lastResort = logging.NullHandler()
    process.protect()
    from cleave.cli.app import create_cli  # noqa: PLC0415 - after what lightens it
    from cleave.local.embedded import embedded_services, prepare_embedded  # noqa: PLC0415 - as above

    try:
        create_cli(embedded_services, prepare_embedded, sys.argv[1:], SERVERS)(prog_name="cleave")
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

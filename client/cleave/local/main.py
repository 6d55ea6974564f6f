"""The command `cleave`: the client together with both services."""

from __future__ import annotations

import gc
import os
import signal
import sys

SERVERS = ("cleave.local.commands:serve", "cleave.local.commands:gateway")
"""Commands that run servers, as `create_cli` takes them."""


def main() -> None:
    # Before a command runs, Ctrl-C ends the process like any other program, without a traceback of imports.
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _lighten()
    import logging  # noqa: PLC0415 - after Ctrl-C can end imports
    import warnings  # noqa: PLC0415 - as above

    from cleave.cli import process  # noqa: PLC0415 - as above

    if "--debug" not in sys.argv and not sys.warnoptions:
        # libraries' warnings may quote data; users get Cleave's errors and hints
        warnings.simplefilter("ignore")
        logging.lastResort = logging.NullHandler()
    process.protect()
    from cleave.cli.app import create_cli  # noqa: PLC0415 - after the settings that make imports lighter
    from cleave.local.embedded import embedded_services, prepare_embedded  # noqa: PLC0415 - as above

    try:
        create_cli(embedded_services, prepare_embedded, sys.argv[1:], SERVERS)(prog_name="cleave")
    except SystemExit as ended:
        # at once: Python would wait for abandoned work, and take 30 ms to unload modules
        process.leave(ended.code if isinstance(ended.code, int) else int(ended.code is not None))


def _lighten() -> None:
    """Settings before the imports of a question; imports take half the time of a small one."""
    # pydantic would read the metadata of every installed distribution, and its plugins must not see bodies
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # numpy's linear algebra, which is not used here, would start threads: see cleave_shared.fork_server
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(400_000, 20, 20)  # modules are no garbage, and a small question makes fewer objects

"""Fixtures of every tier. A CKKS key takes 50 ms to make: one serves the whole session."""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import gc
import logging
import os
import random
import re
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import pytest
from botocore import loaders, session
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from aws.serving import served
from cleave.ckks import key_file as key_files
from cleave.ckks.key_file import create_key, open_key
from cleave.ckks.owner_key import OwnerKey
from cleave.ckks.secret_key import SecretKey, fresh_key
from cleave.store import schemas
from cleave.table import duck
from cleave_shared.params import DEFAULT_PROFILE
from tests.budgets import Budgets
from tests.campaign import FULL

# A runner started in the background of a shell, or by nohup, ignores these, and so would every process the tests end.
for _interrupt in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_interrupt) is signal.SIG_IGN:
        signal.signal(_interrupt, signal.default_int_handler if _interrupt is signal.SIGINT else signal.SIG_DFL)


gc.disable()  # until everything is collected: ten thousand tests are no garbage

# Tests write a hundred thousand small files: one takes 0.2 ms of a processor on a disk, a tenth of that in memory.
_MEMORY = Path("/dev/shm")  # noqa: S108
if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# DuckDB's threads come and go by the hundred: each of malloc's arenas keeps what they had, and every fork copies it.
if sys.platform == "linux":
    ctypes.CDLL(None).mallopt(-8, 2)  # M_ARENA_MAX

_FIGURES = pytest.StashKey[list[str]]()
_STDERR = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run files, and tests in a file, in random order")
    parser.addoption("--budgets", action="store_true", help="print processor seconds by folder")


@pytest.hookimpl(tryfirst=True)  # before what is slow is left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    cases: Counter[str] = Counter()
    of_campaigns: set[pytest.Item] = set()
    for item in items:
        if sampled := item.get_closest_marker("sampled"):
            test = item.nodeid.split("[")[0]
            quick, slow = (*sampled.args, 1)[:2]
            if cases[test] % quick:
                item.add_marker("slow")
                if cases[test] % slow and not FULL:
                    of_campaigns.add(item)
            cases[test] += 1
        if (again := item.get_closest_marker("again")) and not FULL:
            if cases[str(item.path)] % again.args[0]:
                of_campaigns.add(item)
            cases[str(item.path)] += 1
    if of_campaigns:
        config.hook.pytest_deselected(items=[*of_campaigns])
        items[:] = [item for item in items if item not in of_campaigns]
    items.sort(key=lambda item: item.get_closest_marker("first") is None)
    if (seed := config.getoption("shuffle")) is not None:
        order = random.Random(seed)
        files = {item.path: order.random() for item in items}  # a file's tests stay together: they share fixtures
        items.sort(key=lambda item: (files[item.path], order.random()))


def pytest_collection_finish() -> None:
    gc.freeze()  # what tests and their children then collect is their own
    gc.set_threshold(400_000, 20, 20)  # many new objects are seldom garbage: at 50,000 it takes one second in thirty
    gc.enable()
    atexit.register(gc.unfreeze)  # DuckDB's binding counts what is left at the very end


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_FIGURES] = []
    if config.getoption("budgets"):
        config.pluginmanager.register(Budgets())
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(Figures())
    config.stash[_STDERR] = os.dup(2)  # the runner's own: while a test runs, 2 is a file that pytest captures


class Figures:
    """Brings what tests in xdist's worker processes tell to the process that prints the summary."""

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["figures"] = session.config.stash[_FIGURES]

    def pytest_testnodedown(self, node: Any) -> None:
        node.config.stash[_FIGURES] += getattr(node, "workeroutput", {}).get("figures", [])


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End one of xdist's processes, which has told everything, at once: undoing its memory takes 3 s of a processor."""
    if hasattr(config, "workeroutput"):
        os._exit(0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for told in config.stash[_FIGURES]:
        terminalreporter.write_line(told)


@pytest.fixture(scope="session", autouse=True)
def nothing_waits_for_the_disk() -> None:
    """What a test writes need not outlive the machine's power. Who looks at fsync gives `os` one of its own."""
    os.fsync = lambda _: None


# Settings of the tests themselves.
_OURS = {"CLEAVE_CAMPAIGN", "CLEAVE_LAMBDA_IMAGE", "CLEAVE_NO_CONTAINERS"}
# What other programs that tests start keep in the user's home.
_TOOLS = {"DOCKER_CONFIG": ".docker", "GOPATH": "go", "PYENV_ROOT": ".pyenv", "npm_config_cache": ".npm"}


@pytest.fixture(scope="session", autouse=True)
def user_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home directory of the session. Settings, keys, credentials and caches of whoever runs the tests are out of
    their reach."""
    users, home = Path.home(), tmp_path_factory.mktemp("home")
    for name, folder in _TOOLS.items():
        if (users / folder).is_dir():
            os.environ.setdefault(name, str(users / folder))
    for name in set(os.environ) - _OURS:
        if re.fullmatch("AWS_.*|_?CLEAVE_.*|XDG_.*_HOME", name):
            del os.environ[name]
    os.environ["HOME"] = str(home)
    return home


@pytest.fixture(autouse=True)
def no_settings_remain(user_home: Path) -> Iterator[None]:
    """A test that stores settings or a key names a folder of its own: the next test finds none."""
    yield
    if (user_home / ".config").exists():
        shutil.rmtree(user_home / ".config")
        pytest.fail("this test wrote into ~/.config, which later tests read")


@pytest.fixture(scope="session", autouse=True)
def derived_once() -> Iterator[None]:
    """Argon2id at its full cost (0.3 s), in this process once for each passphrase, salt and cost of the session."""

    @cache
    def derived(passphrase: bytes, **settings: Any) -> bytes:
        return Argon2id(**settings).derive(passphrase)

    class Once:
        def __init__(self, **settings: Any) -> None:
            self.derive = partial(derived, **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_files, "Argon2id", Once)
        yield


@pytest.fixture(scope="session", autouse=True)
def schemas_read_once() -> Iterator[None]:
    """A stored table's schema takes 5 ms to read from its TOML; nothing can change one that was read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schemas, "read_stored_schema", cache(schemas.read_stored_schema))
        yield


@pytest.fixture(scope="session", autouse=True)
def descriptions_of_aws_read_once() -> Iterator[None]:
    """What S3 and its endpoints are takes botocore 40 ms to read, for each of its sessions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "create_loader", cache(loaders.create_loader))
        yield


@pytest.fixture(scope="session", autouse=True)
def statements_parsed_once() -> Iterator[None]:
    """DuckDB's tree of a statement takes 0.7 ms; a test of a store needs ten, most of them those of other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duck, "_parsed", lru_cache(20_000)(duck._parsed))
        yield


@pytest.fixture(scope="session")
def service() -> Iterator[str]:
    """URL of a `cleave serve` in processes of its own, for tests that neither stop it nor look at its log."""
    with served("--quiet") as (url, _):
        yield url


@pytest.fixture(scope="session")
def printed_figures(request: pytest.FixtureRequest) -> list[str]:
    """Texts to show at the end of the run."""
    return request.config.stash[_FIGURES]


@pytest.fixture
def expected_crashes(request: pytest.FixtureRequest) -> Iterator[None]:
    """No dump of the stacks of child processes that a test makes crash on purpose; of all others there is one."""
    enabled = faulthandler.is_enabled()
    faulthandler.disable()
    yield
    if enabled:
        faulthandler.enable(request.config.stash[_STDERR])


@pytest.fixture(scope="session")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "key.json"
    create_key(path, None)
    return path


def no_passphrase() -> bytes:
    raise AssertionError("the key is not wrapped")


@pytest.fixture(scope="session")
def key() -> SecretKey:
    """A CKKS key, as each session makes one."""
    return fresh_key(DEFAULT_PROFILE)


@pytest.fixture(scope="session")
def other_key() -> SecretKey:
    return fresh_key(DEFAULT_PROFILE)


@pytest.fixture
def own_key(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key file is the user's."""
    monkeypatch.setenv("CLEAVE_KEY", str(key_file))


@pytest.fixture(scope="session")
def owner(key_file: Path) -> OwnerKey:
    """The opened key file: what stored tables are under."""
    return open_key(key_file, no_passphrase)


@pytest.fixture(scope="session")
def other_owner(tmp_path_factory: pytest.TempPathFactory) -> OwnerKey:
    path = tmp_path_factory.mktemp("other") / "key.json"
    create_key(path, None)
    return open_key(path, no_passphrase)


@pytest.fixture(autouse=True)
def service_log_as_it_was() -> Iterator[None]:
    """A Lambda handler turns the services' log on for its whole process; the next test's services say nothing."""
    log = logging.getLogger("cleave.service")
    before = (log.handlers[:], log.level, log.propagate)
    yield
    log.handlers[:], log.propagate = before[0], before[2]
    log.setLevel(before[1])


@pytest.fixture(autouse=True)
def embedded_services_as_at_first() -> Iterator[None]:
    """Whoever prepares them does so for the whole process: the next test's workers are this process's own again."""
    yield
    workers = sys.modules.get("cleave_services.sensitive.workers")
    if workers is not None and workers._crew is not None:
        workers._crew.end()
        workers._crew = None  # type: ignore[attr-defined]

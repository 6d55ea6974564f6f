"""Statements about the session are looked at where all clients are served: none takes long, whatever it holds."""

from __future__ import annotations

import re
import signal
from types import FrameType

import pytest

from cleave.gateway.session import Settings
from cleave.gateway.workers import Refused

MOST = 1 << 18


class Late(BaseException):
    """The statement takes longer than any linear reading of it."""


def late(*_: int | FrameType | None) -> None:
    raise Late


@pytest.mark.parametrize(
    "sql",
    [
        f"COPY t ({'a' * 60}!",
        f"COPY t ({'a ' * 60}!",
        f"COPY t ({'a, ' * (MOST // 3 - 10)}!",
        f"COPY ({') TO STDOUT ' * (MOST // 12 - 10)};x",
        f"COPY ({')' * (MOST - 10)}",
        f'COPY "{chr(34) * (MOST - 10)}',
        f"DECLARE c {'NO SCROLL ' * (MOST // 10 - 10)}",
        f"SET a = {'1.' * 2000}!",
        f"SET a = {'x, ' * 1300}!",
    ],
    ids=lambda sql: re.sub(r"(.)\1{9,}", r"\1", sql)[:24],
)
def test_no_pattern_goes_back_and_forth(sql: str) -> None:
    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, 5)  # of processor time: a hang is an error here
    try:
        with pytest.raises(Refused):
            Settings("u", 1).answer(sql)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def test_columns_and_options_of_copy() -> None:
    done = Settings("u", 1).answer('COPY t ( a ,"b c", d ) TO STDOUT WITH (FORMAT csv, HEADER)')
    assert done is not None
    assert (done.sql, done.form) == ('SELECT "a", "b c", "d" FROM "t"', "csv header")
    for sql in ("COPY t (a b) TO STDOUT", "COPY t (a,) TO STDOUT", "COPY t () TO STDOUT"):
        with pytest.raises(Refused):
            Settings("u", 1).answer(sql)

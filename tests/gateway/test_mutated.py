"""What clients sent, changed in a few bytes or messages: an answer by the protocol, or the end of the connection.

The messages are those of tests/gateway/recorded. A user who may not see a table reads nothing of it.
"""

from __future__ import annotations

import random
import re
import socket
import struct
from collections.abc import Callable, Iterator

import pytest

from tests.campaign import sampled
from tests.gateway.conftest import PASSWORD
from tests.gateway.replay import RECORDED, recorded
from tests.gateway.stays import TYPES
from tests.gateway.wire import Message, Wire, framed, to_server

Frames = list[bytes]
CANARIES = (b"00000000-0000-4000-8000", b"O'Hara", b"back\\slash", b"stays_pkey", b"22677.00", b"2002-11-26")
NAMES = [each for each in TYPES if each not in ("id", "day", "name", "ward", "level", "seen", "token", "big", "num")]
HIDDEN = re.compile(rf"\b({'|'.join(NAMES)})\b".encode())  # whole words: "defined" is not the column "fine"
LARGE = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0", b"\xff\xff\xff\xf9")


def exchanges() -> list[list[Message]]:
    """All that clients sent before an answer, each once."""
    names = sorted(path.stem for path in RECORDED.glob("*.jsonl"))
    found = {repr(line[">"]): line[">"] for name in names for line in recorded(name)[1] if ">" in line}
    return list(found.values())


def flipped(frames: Frames, source: random.Random) -> Frames:
    place = source.randrange(len(frames))
    body = bytearray(frames[place])
    for _ in range(source.randrange(1, 4)):
        body[source.randrange(5, max(6, len(body))) % len(body)] ^= 1 << source.randrange(8)
    return [*frames[:place], bytes(body[:1]) + struct.pack("!I", len(body) - 1) + bytes(body[5:]), *frames[place + 1 :]]


def resized(frames: Frames, source: random.Random) -> Frames:
    """A number within a message becomes an extreme one."""
    place = source.randrange(len(frames))
    frame = frames[place]
    start = source.randrange(5, max(6, len(frame)))
    changed = frame[:start] + source.choice(LARGE)[: source.choice([2, 4])] + frame[start + 4 :]
    return [*frames[:place], framed(chr(frame[0]), changed[5:]), *frames[place + 1 :]]


def cut(frames: Frames, source: random.Random) -> Frames:
    """A message ends early, by its own length."""
    place = source.randrange(len(frames))
    frame = frames[place]
    return [
        *frames[:place],
        framed(chr(frame[0]), frame[5 : source.randrange(5, len(frame) + 1)]),
        *frames[place + 1 :],
    ]


def lied(frames: Frames, source: random.Random) -> Frames:
    """A message says another length than it has."""
    place = source.randrange(len(frames))
    frame = frames[place]
    size = source.choice([0, 3, 4, len(frame) + source.randrange(-4, 5), 1 << 24, 0x7FFFFFFF, 0xFFFFFFFF])
    return [*frames[:place], frame[:1] + struct.pack("!I", max(0, size)) + frame[5:], *frames[place + 1 :]]


def shuffled(frames: Frames, source: random.Random) -> Frames:
    held = [*frames, source.choice(frames)]
    source.shuffle(held)
    return held[: source.randrange(1, len(held) + 1)]


def renamed(frames: Frames, source: random.Random) -> Frames:
    """A message of another kind."""
    place = source.randrange(len(frames))
    kind = source.choice(b"BCDEFHPQScdfpRZ\0\xff").to_bytes(1, "big")
    return [*frames[:place], kind + frames[place][1:], *frames[place + 1 :]]


CHANGES: tuple[Callable[[Frames, random.Random], Frames], ...] = (flipped, resized, cut, lied, shuffled, renamed)


def opened(port: int, user: str) -> Wire:
    wire = Wire(port)
    wire.login(PASSWORD, user=user, database="cleave")
    return wire


def heard(wire: Wire, frames: Frames, is_last: bool) -> Iterator[bytes]:
    """What the server says to `frames`, up to the answer to a query behind them, or its end.

    `is_last`: nothing follows on this connection; a server may wait for the rest of a message. AssertionError where it
    says what is no message.
    """
    behind = (framed("S", b""), framed("Q", b"ROLLBACK\0"), framed("Q", b"SELECT 'end of it' AS sentinel\0"))
    try:
        wire.socket.sendall(b"".join((*frames, *behind)))
        if is_last:
            wire.socket.shutdown(socket.SHUT_WR)
    except OSError:  # it has ended already
        wire.socket.close()
        return
    while True:
        try:
            tag, body = wire.raw()
        except TimeoutError as error:
            raise AssertionError("no answer, and no end") from error
        except OSError:
            wire.socket.close()
            return
        yield tag.encode() + body
        assert tag in "123tTnDCEIsNSZHdcv", tag
        if tag == "D" and body.endswith(b"end of it"):
            while wire.raw()[0] != "Z":
                pass
            return


@pytest.mark.parametrize("user", ["owner", "wards_only"])
@pytest.mark.parametrize("count", sampled(40, 400, 20_000))
def test_the_gateway_survives_changed_messages(stays_port: int, user: str, count: int) -> None:
    source, seeds, ends = random.Random(count), exchanges(), 0
    wire = opened(stays_port, user)
    for _ in range(count):
        frames = [to_server(each) for each in source.choice(seeds) if each[0] != "X"]
        if not frames:
            continue
        changes = source.choices(CHANGES, k=source.randrange(1, 3))
        for change in changes:
            frames = change(frames, source)
        sent = b"".join(frames)
        for said in heard(wire, frames, lied in changes):
            assert b"Traceback" not in said
            if user == "wards_only":
                told = {*HIDDEN.findall(said), *(each for each in CANARIES if each in said)}
                canaries = [each for each in told if each not in sent]
                assert not canaries, (frames, said)
        if wire.socket.fileno() < 0:
            ends += 1
            wire = opened(stays_port, user)
    wire.socket.close()
    with opened(stays_port, "owner") as last:
        assert ["D", ["3"]] in last.ask(["Q", "SELECT count(*) FROM wards"])
    assert ends  # a length that lies ends a connection


def test_a_half_closed_connection_is_answered_or_ended(stays_port: int) -> None:
    for messages in (
        [["Q", "SELECT count(*) FROM wards"]],
        [["P", "", "SELECT count(*) FROM wards", []], ["B", "", "", [], [], []], ["E", "", 0], ["S"]],
        [["P", "", "SELECT count(*) FROM wards", []], ["H"]],
        [],
    ):
        wire = opened(stays_port, "owner")
        wire.send(*messages)
        wire.socket.shutdown(socket.SHUT_WR)
        while wire.socket.recv(1 << 16):
            pass
        wire.socket.close()

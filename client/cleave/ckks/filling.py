"""Making encryptions of zero for a pool, in several processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np

from cleave.ckks.cipher import Cipher, Form
from cleave.ckks.encryptors import PROCESSES, Deadline, Encryptors
from cleave.ckks.pool import TOGETHER, Pool, count
from cleave.ckks.secret_key import SecretKey
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import InputError
from cleave_shared.moments import SENTINELS
from cleave_shared.params import Profile

MOST = 1 << 17  # encryptions in a pool: 8.6 GB
_TRIED = 6  # encryptions to see how long one takes


@dataclass(frozen=True, slots=True)
class Batch:
    """Encryptions `start`..`stop` of those that are to be made: one pack."""

    start: int
    stop: int


class _Filling:
    def __init__(self, pool: Pool, cipher: Cipher, form: Form) -> None:
        self._pool = pool
        self._cipher = cipher
        self._form: Form = form

    def encrypt(self, batch: Batch) -> list[bytes]:
        self._pool.add(self._form, self._cipher.fresh(self._form, batch.stop - batch.start))
        return []


def chunks_of(values: int, profile: Profile) -> int:
    """Ciphertexts that so many encrypted values take, where each has a lane of its own. Raises InputError."""
    wanted = -(-values // (profile.degree - SENTINELS))
    if not 0 < wanted <= MOST:
        raise InputError(f"a pool holds at most {MOST * (profile.degree - SENTINELS):,} values, not {values:,}")
    return wanted


def fill(
    pool: Pool, key: SecretKey, form: Form, wanted: int, deadline: Deadline, advance: Callable[[int], None]
) -> None:
    """Make what is missing of `wanted` encryptions; `advance` is told how many by and by.

    In whole packs, one more for each further process: what is left of the last pack that each claims is lost.

    Raises InputError where they cannot be written.
    """
    packs = -(-wanted // TOGETHER) + PROCESSES - 1
    missing = packs - count(key.key_id, form) // TOGETHER
    batches = [Batch(number * TOGETHER, (number + 1) * TOGETHER) for number in range(missing)]
    with Encryptors(_Filling(pool, Cipher(key), form), batches) as processes:
        processes.each(lambda batch, _: advance(batch.stop - batch.start), 1, threading.Event(), deadline)


def seconds_saved(key: SecretKey, form: Form) -> float:
    """Seconds of one processor that an encryption made ahead saves, tried out now."""
    cipher = Cipher(key)
    message = np.ones((_TRIED, key.profile.degree), np.int64)
    made = [memoryview(zero) for zero in cipher.fresh(form, _TRIED)]
    warm = Cipher(key, _Given(made))
    seconds = []
    for each in (cipher, warm):
        started = time.process_time()
        _ = each.encrypt(message) if form == "ntt" else each.encrypt_to_add(message)
        seconds.append(time.process_time() - started)
    return max(0.0, seconds[0] - seconds[1]) / _TRIED


class _Given:
    def __init__(self, zeros: list[memoryview]) -> None:
        self._zeros = zeros

    def take(self, _form: Form, count: int) -> list[memoryview]:
        taken, self._zeros = self._zeros[:count], self._zeros[count:]
        return taken

    def told(self) -> bytes:
        return b""

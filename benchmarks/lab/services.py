"""Primitives of a profile's services: files between processes, and a scan's masks, products and sums."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.lab.primitive import Primitive
from cleave.ckks.cipher import Cipher
from cleave.ckks.secret_key import fresh_key
from cleave_services.sensitive.scan import selected_mask
from cleave_shared import seal
from cleave_shared.masking import MaskEvaluator
from cleave_shared.moments import SENTINELS
from cleave_shared.params import Profile

_LARGEST = 1 << 20
_NOISE = 1 << 11  # no masked sum errs by more
_SUMS = 64  # more than the processor's caches hold
_SEED = 13


def services(profile: Profile) -> tuple[Primitive, ...]:
    ring = seal.ring(profile.name)
    cipher, masking = Cipher(fresh_key(profile)), MaskEvaluator(ring)
    values = np.random.default_rng(_SEED).integers(-_LARGEST, _LARGEST, (1, ring.degree))
    rows = np.arange(ring.degree - SENTINELS) < ring.degree // 3
    total = int(values[0, : ring.degree // 3].sum())
    polynomial = selected_mask(ring.degree, rows)
    (file,), (mask,) = cipher.encrypt(values), masking.masks([polynomial])
    stored = masking.load(file)
    product = masking.multiply(stored, mask)
    summed = masking.dump(product, 1)
    sums = [masking.multiply(stored, mask) for _ in range(_SUMS)]

    def is_total(blob: bytes, times: int = 1) -> bool:
        return bool(abs(int(cipher.constants([blob])[0]) - times * total) <= times * _NOISE)

    def mask_and_add(totals: Sequence[Any]) -> list[Any]:
        return [masking.add(each, masking.multiply(stored, mask)) for each in totals]

    return (
        Primitive("carry", lambda: file, carried, lambda made: made == file),
        Primitive(
            "load to be masked",
            lambda: file,
            masking.load,
            lambda loaded: is_total(masking.dump(masking.multiply(loaded, mask), 1)),
        ),
        Primitive(
            "mask rows",
            lambda: rows,
            lambda selected: selected_mask(ring.degree, selected),
            lambda made: (
                is_total(masking.dump(masking.multiply(stored, masking.masks([made])[0]), 1))
                and int(np.abs(made).sum()) == rows.sum()
            ),
        ),
        Primitive(
            "mask and add",
            lambda: sums,
            mask_and_add,
            lambda _: is_total(masking.dump(mask_and_add([masking.multiply(stored, mask)])[0], 1), 2),
            _SUMS,
        ),
        Primitive("save a masked sum", lambda: product, lambda each: masking.dump(each, 1), is_total),
        Primitive("load a masked sum", lambda: summed, masking.load, lambda loaded: is_total(masking.dump(loaded, 1))),
    )


def carried(file: bytes) -> bytes:
    """The file, after a memory file that is mapped and a pipe: so processes hand it on."""
    memory = os.memfd_create("carried")
    reader, writer = os.pipe()
    try:
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 2 * len(file))
        os.pwrite(memory, file, 0)
        with mmap.mmap(memory, len(file), prot=mmap.PROT_READ) as mapped:
            os.write(writer, mapped)
        return os.read(reader, len(file))
    finally:
        for each in (memory, reader, writer):
            os.close(each)

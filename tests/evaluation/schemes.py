"""The two backends the evaluation tests run on: plain integers, and CKKS under a throw-away key."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from cleave.ckks.cipher import Cipher
from cleave_shared.moments import SENTINELS
from cleave_shared.seal import SealEvaluator
from tests.evaluation.plaintext import PlaintextEvaluator


class PlainCipher:
    """`cleave.ckks.cipher.Cipher` without encryption, for `tests.evaluation.plaintext`."""

    def __init__(self, degree: int) -> None:
        self.degree = degree

    def encrypt(self, polynomials: np.ndarray) -> list[bytes]:
        return [row.tobytes() for row in polynomials]

    def decrypt(self, blobs: list[bytes]) -> np.ndarray:
        return np.stack([np.frombuffer(blob, np.int64) for blob in blobs])

    def sentinels(self, job: bytes, index: int) -> np.ndarray:
        digest = hashlib.sha256(job + index.to_bytes(8, "big")).digest()
        return np.frombuffer(digest, np.uint16, SENTINELS).astype(np.int64)


@dataclass
class Scheme:
    name: str
    cipher: Any  # Cipher or PlainCipher
    evaluator: Any
    noise: float  # standard deviation of a fresh coefficient

    @property
    def degree(self) -> int:
        return self.evaluator.degree


def plain_scheme() -> Scheme:
    return Scheme("plain", PlainCipher(8192), PlaintextEvaluator(8192), 0.0)


def ckks_scheme(key: Any) -> Scheme:
    cipher = Cipher(key)
    return Scheme("ckks", cipher, SealEvaluator(cipher.ring), 10.5**0.5)

"""`make bench-encryption`: what it takes to encrypt a vector, after figure 1 of Nemesis (arXiv 2412.14392).

Every method in the same ring (N = 8192, one data prime of 60 bits, the profile of Cleave), by the same SEAL through
TenSEAL, in one process on one core, in turn. Ahead is what can be done before the values are known, reconstruct what
brings them in, randomise what makes the ciphertext a fresh one, in CPU seconds. Value by value is a fraction, scaled
up. Saving is in none but Cleave's own rows. Nemesis and Rache are INSECURE:
benchmarks/tests/test_caches_broken.py.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.insecure.nemesis import InsecureNemesis, encoded
from benchmarks.insecure.rache import InsecureRache
from benchmarks.tables import figure, machine, markdown, spread
from cleave.ckks.cipher import Cipher
from cleave.ckks.encode import carried
from cleave.ckks.secret_key import SecretKey, fresh_key
from cleave_shared import seal
from cleave_shared.moments import SENTINELS
from cleave_shared.params import SUM60_PACK

DEGREE = SUM60_PACK.degree
SLOTS = DEGREE // 2
PLACES = DEGREE - SENTINELS
SCALE = 2.0**40
LEAST, MOST = 2, 256
FIXED_BITS, VALUE_BITS = 8, 16  # Rache takes integers: values in 256ths
COEFFICIENT_BITS = 30
VECTORS = {"vector of 582,026": 582_026, "vector of 878,538": 878_538, "columns, 1,000,000 x 4": 4_000_000}
ONE_BY_ONE = 150
TOGETHER = 8  # ciphertexts of one call

Doubles = NDArray[np.float64]


@dataclass
class Laps:
    """CPU seconds of each share: what else the machine does weighs less on them than on the clock."""

    ahead: float = 0.0
    reconstruct: float = 0.0
    randomise: float = 0.0
    _mark: float = field(default_factory=time.process_time)

    def start(self) -> None:
        self._mark = time.process_time()

    def stop(self, share: str) -> None:
        now = time.process_time()
        setattr(self, share, getattr(self, share) + now - self._mark)
        self._mark = now


@dataclass(frozen=True)
class Keys:
    """SEAL's objects under one throw-away key."""

    ring: seal.Ring
    encryptor: Any
    decryptor: Any
    key: SecretKey

    @classmethod
    def new(cls) -> Keys:
        ring = seal.ring(SUM60_PACK.name)
        generator, public = seal.api.KeyGenerator(ring.context), seal.api.PublicKey()
        generator.create_public_key(public)
        secret = generator.secret_key()
        return cls(
            ring,
            seal.api.Encryptor(ring.context, public, secret),
            seal.api.Decryptor(ring.context, secret),
            fresh_key(SUM60_PACK),
        )

    def values(self, ciphertext: Any) -> Doubles:
        plaintext = seal.api.Plaintext()
        self.decryptor.decrypt(ciphertext, plaintext)
        return np.array(seal.api.CKKSEncoder(self.ring.context).decode_double(plaintext))


def slots(values: Doubles) -> Iterator[Doubles]:
    for start in range(0, len(values), SLOTS):
        yield values[start : start + SLOTS]


def check(found: Doubles, expected: Doubles, error: float) -> None:
    worst = np.abs(found[: len(expected)] - expected).max()
    if not worst < error:
        raise SystemExit(f"an encryption is wrong by {worst:.1e}")


# Each encrypts `values` and checks every ciphertext it made, unmeasured.


def value_by_value(keys: Keys, values: Doubles, laps: Laps) -> None:
    encoder = seal.api.CKKSEncoder(keys.ring.context)
    for value in values.tolist():
        laps.start()
        plaintext, ciphertext = seal.api.Plaintext(), seal.api.Ciphertext()
        encoder.encode(value, SCALE, plaintext)
        laps.stop("reconstruct")
        keys.encryptor.encrypt(plaintext, ciphertext)
        laps.stop("randomise")
        check(keys.values(ciphertext), np.array([value]), 1e-4)


def rache(keys: Keys, values: Doubles, laps: Laps) -> None:
    """Its few cached ciphertexts are the same for a fraction and for the whole: see `scaled`."""
    integers = np.rint(values * 2**FIXED_BITS).astype(int).tolist()
    laps.start()
    scheme = InsecureRache(keys.ring, keys.encryptor, VALUE_BITS, 2.0**-FIXED_BITS, SCALE, np.random.default_rng(1))
    laps.stop("ahead")
    for integer in integers:
        laps.start()
        ciphertext = scheme.reconstruct(integer)
        laps.stop("reconstruct")
        scheme.randomise(ciphertext)
        laps.stop("randomise")
        check(keys.values(ciphertext), np.array([integer / 2**FIXED_BITS]), 1e-2)


def batch_public(keys: Keys, values: Doubles, laps: Laps) -> None:
    _batch(keys, values, laps, keys.encryptor.encrypt, 1e-4)


def batch_symmetric(keys: Keys, values: Doubles, laps: Laps) -> None:
    _batch(keys, values, laps, keys.encryptor.encrypt_symmetric, 1e-5)


def _batch(keys: Keys, values: Doubles, laps: Laps, encrypt: Callable[[Any, Any], None], within: float) -> None:
    encoder = seal.api.CKKSEncoder(keys.ring.context)
    for part in slots(values):
        laps.start()
        plaintext, ciphertext = encoded(encoder, part, SCALE), seal.api.Ciphertext()
        laps.stop("reconstruct")
        encrypt(plaintext, ciphertext)
        laps.stop("randomise")
        check(keys.values(ciphertext), part, within)


def nemesis(keys: Keys, values: Doubles, laps: Laps) -> None:
    random = np.random.default_rng(2)
    cached = random.uniform(0.5, 2, SLOTS)
    laps.start()
    scheme = InsecureNemesis(keys.ring, keys.encryptor, cached, random)
    laps.stop("ahead")
    for part in slots(values):
        laps.start()
        ciphertext = scheme.reconstruct(part)
        laps.stop("reconstruct")
        scheme.randomise(ciphertext)
        laps.stop("randomise")
        check(keys.values(ciphertext), part, 1.0)


def pool_of_zeros(keys: Keys, values: Doubles, laps: Laps) -> None:
    """A fresh encryption of zero for every ciphertext, each taken out as it is used."""
    encoder, pool = seal.api.CKKSEncoder(keys.ring.context), []
    laps.start()
    for _ in slots(values):
        zero = seal.api.Ciphertext()
        keys.encryptor.encrypt_zero_symmetric(zero)
        zero.scale = SCALE
        pool.append(zero)
    laps.stop("ahead")
    for part in slots(values):
        laps.start()
        ciphertext = pool.pop()
        keys.ring.evaluator.add_plain_inplace(ciphertext, encoded(encoder, part, SCALE))
        laps.stop("reconstruct")
        check(keys.values(ciphertext), part, 1e-5)


def coefficients(keys: Keys, values: Doubles, laps: Laps) -> None:
    """Cleave's own: as many values as a ciphertext has coefficients, seeded, saved."""
    _by_cleave(Cipher(keys.key), values, laps)


def _by_cleave(cipher: Cipher, values: Doubles, laps: Laps) -> None:
    for start in range(0, len(values), PLACES * TOGETHER):
        part = values[start : start + PLACES * TOGETHER]
        laps.start()
        polynomials = np.zeros((-(-len(part) // PLACES), DEGREE), np.int64)
        integers = np.zeros(len(polynomials) * PLACES, np.int64)
        integers[: len(part)] = carried(np.ldexp(part, COEFFICIENT_BITS))
        polynomials[:, :PLACES] = integers.reshape(-1, PLACES)
        laps.stop("reconstruct")
        made = list(cipher.each_to_add(polynomials))
        laps.stop("randomise")
        found = np.ldexp(cipher.decrypt(made)[:, :PLACES].astype(float), -COEFFICIENT_BITS).ravel()
        check(found, part, 1e-6)


@dataclass(frozen=True)
class Method:
    name: str
    run: Callable[[Keys, Doubles, Laps], None]
    per_ciphertext: int
    note: str = ""


METHODS = (
    Method("CKKS value by value, public key", value_by_value, 1),
    Method("Rache, radix 2, value by value", rache, 1, "INSECURE"),
    Method("CKKS batch, public key", batch_public, SLOTS),
    Method("CKKS batch, symmetric", batch_symmetric, SLOTS),
    Method("Nemesis as published", nemesis, SLOTS, "INSECURE"),
    Method("pool of Enc(0), each used once", pool_of_zeros, SLOTS),
    Method("Cleave, coefficients, saved", coefficients, PLACES),
)
REFERENCE = "CKKS batch, public key"


def scaled(method: Method, keys: Keys, values: Doubles) -> Laps:
    """Seconds over all `values`, from a fraction where it goes value by value."""
    laps = Laps()
    if method.per_ciphertext > 1:
        method.run(keys, values, laps)
        return laps
    method.run(keys, values[:ONE_BY_ONE], laps)
    factor = len(values) / ONE_BY_ONE
    return Laps(laps.ahead, laps.reconstruct * factor, laps.randomise * factor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="of all methods, in turn")
    parser.add_argument("--share", type=int, default=1, help="of the vectors' values only every so many, scaled up")
    options = parser.parse_args()
    keys, random = Keys.new(), np.random.default_rng(3)
    print(f"{machine()}; medians of {options.rounds} rounds (least-most)")
    for name, count in VECTORS.items():
        values = np.clip(random.normal(100, 20, count // options.share), LEAST, MOST)
        runs: dict[str, list[Laps]] = {method.name: [] for method in METHODS}
        for _ in range(options.rounds):
            for method in METHODS:
                runs[method.name].append(scaled(method, keys, values))
        fraction = "" if options.share == 1 else f", 1/{options.share} of it scaled up"
        print(f"\n**{name}**{fraction}; value by value from {ONE_BY_ONE} values, scaled up\n")
        print(_table(runs, count, options.share))


def times(speed: float) -> str:
    return f"{figure(speed)} x" if speed > 0.1 else f"1/{1 / speed:,.0f} x"


def _table(runs: dict[str, list[Laps]], count: int, share: int) -> str:
    def online(name: str) -> list[float]:
        return [share * (laps.reconstruct + laps.randomise) for laps in runs[name]]

    reference = sorted(online(REFERENCE))[len(runs[REFERENCE]) // 2]
    rows = []
    for method in METHODS:
        taken = online(method.name)
        middle = sorted(taken)[len(taken) // 2]
        laps = runs[method.name][taken.index(middle)]
        ahead = laps.ahead * (share if method.run is pool_of_zeros else 1)
        everything = ahead + middle
        shares = (ahead, share * laps.reconstruct, share * laps.randomise)
        rows.append(
            [
                f"{method.name}{f' **{method.note}**' * bool(method.note)}",
                figure(ahead),
                spread(taken),
                figure(1e9 * middle / count),
                times(reference / middle),
                " / ".join(f"{100 * each / everything:.0f}" for each in shares),
            ]
        )
    head = [
        "method",
        "ahead, s",
        "online, s",
        "online, ns a value",
        "speed of batch, public key",
        "ahead / reconstruct / randomise, %",
    ]
    return markdown(head, rows)


if __name__ == "__main__":
    main()

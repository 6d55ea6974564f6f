"""Sums of columns by OpenFHE's own Python: FILE ROWS COLUMNS SHARE, of every SHARE-th part of the rows, scaled up.

CKKS with real slots at N = 8192 (the least OpenFHE takes for 128 bits), no multiplication, encrypted under the secret
key; what is sent is serialised and read back. Prints JSON.
"""

from __future__ import annotations

import json
import sys
import time
from array import array
from pathlib import Path

import openfhe


def main() -> None:
    rows, columns, share = map(int, sys.argv[2:5])
    values = array("d", Path(sys.argv[1]).read_bytes())
    parameters = openfhe.CCParamsCKKSRNS()
    parameters.SetMultiplicativeDepth(0)
    parameters.SetScalingModSize(40)
    parameters.SetFirstModSize(60)
    parameters.SetSecurityLevel(openfhe.HEStd_128_classic)
    context = openfhe.GenCryptoContext(parameters)
    context.Enable(openfhe.PKE)
    context.Enable(openfhe.LEVELEDSHE)
    keys = context.KeyGen()
    slots = context.GetRingDimension() // 2

    started, before = time.perf_counter(), time.process_time()
    sent, sums = 0, []
    for column in range(columns):
        total = None
        for start in range(0, rows // share, slots):
            stop = min(start + slots, rows // share)
            part = values[column * rows + start : column * rows + stop].tolist()
            plaintext = context.MakeCKKSPackedPlaintext(part)
            upload = openfhe.Serialize(context.Encrypt(keys.secretKey, plaintext), openfhe.BINARY)
            sent += len(upload)
            received = openfhe.DeserializeCiphertextString(upload, openfhe.BINARY)
            if total is None:
                total = received
            else:
                context.EvalAddInPlace(total, received)
        answer = openfhe.DeserializeCiphertextString(openfhe.Serialize(total, openfhe.BINARY), openfhe.BINARY)
        sums.append(sum(context.Decrypt(answer, keys.secretKey).GetRealPackedValue()))
    seconds, cpu = time.perf_counter() - started, time.process_time() - before
    print(json.dumps({"seconds": seconds * share, "cpu": cpu * share, "up": sent * share, "sums": sums}))


if __name__ == "__main__":
    main()

"""Read sealed columns of a stored table from docs/format.md and docs/key-file.md alone: no code of Cleave's is used."""

import base64
import hmac
import json
from functools import reduce
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand


def hkdf(secret: bytes, info: str) -> bytes:
    return HKDFExpand(SHA256(), 32, info.encode()).derive(secret)


def bare_master(key: Path) -> bytes:
    return base64.b64decode(json.loads(key.read_bytes())["wrappings"][0]["secret"])


class Table:
    """The newest version of table `name`, in a store that is a folder, under a key file: a bare one, or `master`."""

    def __init__(self, store: Path, key: Path, name: str, master: bytes = b"") -> None:
        self.store, self.master = store, master or bare_master(key)
        tag = hmac.digest(hkdf(self.master, "cleave/2/tag"), f"stored table {name}".encode(), "sha256").hex()[:32]
        head = json.loads((store / "tables" / tag / "head").read_bytes())
        signature = bytes.fromhex(head.pop("signature"))
        signed = json.dumps(["cleave head", tag, head], sort_keys=True, separators=(",", ":")).encode()
        Ed25519PrivateKey.from_private_bytes(hkdf(self.master, "cleave/2/sign")).public_key().verify(signature, signed)
        self.id = head["table_id"]
        self.manifest = self.unsealed(head["manifest"]["name"])
        pages, last = self.manifest["segments"]["pages"], self.manifest["segments"]["last"]
        self.segments = [item for page in pages for item in self.unsealed(page["object"]["name"])["items"]] + last

    def unsealed(self, file: str) -> Any:
        """Return the JSON of the manifest or of a page."""
        content = (self.store / file).read_bytes()
        packed = self.cipher("manifest", file).decrypt(content[4:16], content[16:], b"CLS3" + file.encode())
        return json.loads(packed[8 : 8 + int.from_bytes(packed[:8], "little")])

    def cipher(self, purpose: str, *infos: str) -> AESGCM:
        return AESGCM(reduce(hkdf, infos, hkdf(self.master, f"cleave/2/store/{purpose}/{self.id}")))

    def column(self, segment: dict[str, Any], number: int) -> list[bytes | None]:
        """Return the values of a column in one segment as bytes, None for NULL."""
        column, stored, found = self.manifest["sealed"][number], segment["columns"][number], list[bytes | None]()
        name, width, rows, nullable = stored["object"]["name"], column["width"], segment["rows"], column["nullable"]
        content, blocks = (self.store / name).read_bytes(), -(-rows // 65536)
        cipher = self.cipher("rows", f"column/{column['id']}", name)
        for block in range(blocks):
            count = min(65536, rows - 65536 * block)
            bitmap = (count + 7) // 8 * nullable
            size = stored["lengths"][block] if not width else 28 + bitmap + count * width
            fields = [bytes.fromhex(each) for each in (self.id, name[-32:], segment["id"], column["id"])]
            fields += [column["type"].encode(), bytes([width]), bytes([nullable])]
            fields += [each.to_bytes(8, "big") for each in (block, blocks, rows)]
            bound = b"".join(len(each).to_bytes(4, "big") + each for each in [b"cleave sealed column 3", *fields])
            plain, content = cipher.decrypt(content[:12], content[12:size], bound), content[size:]
            lengths, at = [width] * count, bitmap
            if not width:
                plain = plain[8 : 8 + int.from_bytes(plain[:8], "little")]
                lengths, at = memoryview(plain[bitmap : bitmap + 4 * count]).cast("I").tolist(), bitmap + 4 * count
            for row, length in enumerate(lengths):
                found.append(plain[at : at + length] if not bitmap or plain[row // 8] >> row % 8 & 1 else None)
                at += length
        return found

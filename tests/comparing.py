"""Fingerprints of public files as docs/analysts.md and docs/contributors.md define them, without code of Cleave's."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path


def fingerprint_of(path: Path) -> str:
    """SHA256: and base64, of an analyst's public file or of a contributor's."""
    text = path.read_text()
    if text.startswith("-----BEGIN PUBLIC KEY-----"):
        content = base64.b64decode("".join(text.splitlines()[1:-1]))
    else:
        members = json.loads(text)
        content = json.dumps(["cleave public key", members["box"], members["signing"]]).encode()
    return "SHA256:" + base64.b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def compared(path: Path) -> str:
    """FILE=SHA256:..., as somebody names a file whose fingerprint he compared."""
    return f"{path}={fingerprint_of(path)}"

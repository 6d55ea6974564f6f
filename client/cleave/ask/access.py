"""The key file, where the services are, and where both are looked for unless a caller says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cleave_shared.dataclass import dataclass

if TYPE_CHECKING:
    from cleave.ckks.key_file import Passphrase
    from cleave.transport.connect import Target

PASSPHRASE_VARIABLE = "CLEAVE_PASSPHRASE"  # noqa: S105 - its name
DEFAULT_KEY = Path("~/.config/cleave/key.json")
DEFAULT_IDENTITY = Path("~/.config/cleave/contributor.pem")
IDENTITY_VARIABLE = "CLEAVE_IDENTITY"
LONGEST_TIMEOUT = 7 * 86_400  # seconds


@dataclass(frozen=True, slots=True)
class Access:
    """The owner's key file, which stored tables need, and where the services are (None: embedded)."""

    key: Path
    passphrase: Passphrase = None
    target: Target | None = None

    @property
    def remote(self) -> bool:
        return self.target is not None and self.target.remote

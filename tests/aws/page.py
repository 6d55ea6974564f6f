"""The console blocks of docs/deploy.md, run in a checkout of their own against LocalStack."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from aws import sam
from tests.aws.local_cloud import HANGS, Cloud
from tests.samples import copy_patients

PAGE = sam.ROOT / "docs" / "deploy.md"
# LocalStack takes an access key of twelve digits for the number of an account.
ACCOUNTS = {"hospital": "111111111111", "partner": "222222222222"}
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# `git` has nothing to pull here; `make` takes the build that is there as new.
_PROGRAMS = {
    "git": '#!/bin/sh\n[ "$*" = pull ]\n',
    "make": '#!/bin/sh\nexec /usr/bin/make --no-print-directory -o build -o sam -o setup "$@"\n',
}


def blocks() -> dict[str, str]:
    """Console blocks by the heading they are under."""
    found = {}
    for section in re.split(r"^##+ ", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        if texts := _BLOCK.findall(section):
            (found[section.partition("\n")[0]],) = texts
    return found


@dataclass
class Checkout:
    """A folder like a checkout after `make build`, with an AWS profile for each account."""

    cloud: Cloud
    folder: Path
    outputs: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        home, programs = self.folder / "home", self.folder / "bin"
        for each in (home / ".aws", home / ".config" / "cleave", programs):
            each.mkdir(parents=True)
        for name, text in _PROGRAMS.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        (programs / "cleave").symlink_to(sam.ROOT / ".venv" / "bin" / "cleave")
        for each in sam.ROOT.iterdir():
            if each.name not in (".git", ".aws-sam", "samconfig.toml", "build"):
                (self.folder / each.name).symlink_to(each)
        built = self.folder / ".aws-sam" / "build"
        built.mkdir(parents=True)
        for each in sam.BUILD.iterdir():
            (built / each.name).symlink_to(each)
        copy_patients(self.folder)
        accounts = "".join(
            f"[{name}]\naws_access_key_id = {account}\naws_secret_access_key = x\n"
            for name, account in ACCOUNTS.items()
        )
        (home / ".aws" / "credentials").write_text(accounts)
        self.run("cleave key new --no-passphrase")

    def run(self, block: str, typed: str = "", **environment: str) -> str:
        """What a block prints. Placeholders are outputs of the stack. Raises AssertionError where a command fails."""
        text = re.sub(r"<(\w+)>", lambda found: self.outputs[found[1]], block)
        known = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        own = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.folder / "home"),
            "SAM_CLI_TELEMETRY": "0",
            "SAM_CLI_POLL_DELAY": "1",
        }
        done = subprocess.run(
            ["bash", "-euc", text],
            input=typed,
            env=known | self.cloud.environment | own | environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=HANGS,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout

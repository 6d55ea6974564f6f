"""Write events as *.json, made with a new key that is left beside them for `decrypt_answer` and never committed.

python -m aws.make_events FOLDER

`make events` writes to build/events. The tracked ones are made anew, after a change of the wire, with FOLDER events.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from aws.events import make_events
from cleave.ckks.key_file import create_key, open_key
from cleave.ckks.secret_key import SecretKey

KEY_NAME = "throwaway.key.json"


def write_events(folder: Path) -> SecretKey:
    folder.mkdir(parents=True, exist_ok=True)
    key_file = folder / KEY_NAME
    key_file.unlink(missing_ok=True)
    create_key(key_file, None)
    key = open_key(key_file, lambda: b"")
    for name, case in make_events(key).items():
        (folder / f"{name}.json").write_text(json.dumps(case.event, indent=1) + "\n", "utf-8")
    return key


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    write_events(parser.parse_args().folder)


if __name__ == "__main__":
    main()

"""Files with their schemas: the sample of patients, copied, and small ones that tests write."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

SAMPLES = Path(__file__).parent


def copy_patients(folder: Path) -> Path:
    """Copy the sample and its schema. Return the copy."""
    for name in ("patients.csv", "patients.schema.toml"):
        shutil.copy(SAMPLES / name, folder)
    return folder / "patients.csv"


def write_schema(path: Path, columns: dict[str, str]) -> None:
    """Write the schema of a file: by name, "plain BIGINT", or "plain BIGINT; lower = 0" with further lines."""
    text = ""
    for name, described in columns.items():
        (kind, type_), *more = described.split("; ")[0].split(" ", 1), *described.split("; ")[1:]
        lines = (f"[columns.{json.dumps(name, ensure_ascii=False)}]", f'kind = "{kind}"', f'type = "{type_}"', *more)
        text += "\n".join(lines) + "\n"
    path.with_suffix(".schema.toml").write_text(text, "utf-8")


def write_table(path: Path, content: str, **columns: str) -> Path:
    """Write a file and its schema, as `write_schema` has it. Return the file."""
    write_schema(path, columns)
    path.write_text(content, "utf-8")
    return path

"""Write the OpenAPI documents of both services to docs/.

python -m aws.write_openapi
"""

from __future__ import annotations

import json
from pathlib import Path

from fastapi import FastAPI

from cleave_services.plain.app import app as plain
from cleave_services.sensitive.app import app as sensitive

DOCS = Path(__file__).parent.parent / "docs"
APPLICATIONS = {"sensitive": sensitive, "plain": plain}


def path_of(name: str) -> Path:
    return DOCS / f"openapi-{name}.json"


def document(application: FastAPI) -> str:
    return json.dumps(application.openapi(), indent=1) + "\n"


def main() -> None:
    for name, application in APPLICATIONS.items():
        path_of(name).write_text(document(application), "utf-8")


if __name__ == "__main__":
    main()

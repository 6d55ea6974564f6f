"""Record what clients send to and get from a PostgreSQL server: `python -m tests.gateway.clients.record [CLIENT...]`.

It writes tests/gateway/recorded, which tests/gateway/test_recorded.py replays. `--keep FOLDER` builds clients there.
`NAME -- COMMAND...` records any command that has libpq's environment: those of tests/gateway/clients/others.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from tests.gateway import postgres
from tests.gateway.clients.made import CLIENTS, Clients
from tests.gateway.clients.recording import recorder
from tests.gateway.stays import STAYS, TYPES, WARDS

RECORDED = Path(__file__).parents[1] / "recorded"


def main(*names: str) -> None:
    words = list(names)
    command = words[words.index("--") + 1 :] if "--" in words else []
    words = words[: words.index("--")] if "--" in words else words
    keep = words.pop(words.index("--keep") + 1) if "--keep" in words else None
    truth = duckdb.connect()
    truth.execute("SET TimeZone = 'UTC'")
    truth.execute(f"CREATE TABLE stays AS {STAYS}; CREATE TABLE wards AS {WARDS}")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with TemporaryDirectory() as temporary, postgres.server(port) as folder, recorder(port) as proxy:
        clients = Clients(Path(keep or temporary).absolute())
        postgres.load(folder, port, truth, "stays", TYPES, "id")
        postgres.load(folder, port, truth, "wards", {"ward": "TEXT", "region": "TEXT"})
        oids = postgres.psql(
            folder, port, "SELECT oid, relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        )
        version = postgres.psql(folder, port, "SHOW server_version").split()[0]
        about = {name: int(oid) for oid, name in (line.split("|") for line in oids.splitlines())}
        for name in [each for each in words if each != "--keep"] or CLIENTS:
            said = (
                clients.ran(*command, given=clients.place(name, proxy.port))
                if command
                else clients.run(name, proxy.port)
            )
            print(name, said, sep="\n", file=sys.stderr)
            lines = proxy.taken({"client": name, "server": f"PostgreSQL {version}", "oids": about})
            (RECORDED / f"{name}.jsonl").write_text(lines)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Options that several commands share: where the services are, how questions are asked of them, what is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cleave.cli import console
from cleave.cli.group import Settings
from cleave.session import LONGEST_TIMEOUT, Access, Bars

if TYPE_CHECKING:
    from pathlib import Path

    from cleave.ckks.key_file import Passphrase


def _checked(seconds: float) -> float:
    if not 0 < seconds <= LONGEST_TIMEOUT:
        raise typer.BadParameter(f"--timeout takes seconds above 0, at most {LONGEST_TIMEOUT:,}")
    return seconds


Endpoint = Annotated[
    str | None, typer.Option("--endpoint", metavar="URL", help="Base URL of both services, or SENSITIVE_URL,PLAIN_URL.")
]
Functions = Annotated[
    str | None, typer.Option("--lambda", metavar="SENSITIVE,PLAIN", help="Invoke two Lambda functions instead.")
]
AwsProfile = Annotated[str | None, typer.Option("--profile", metavar="NAME", help="AWS profile to sign with.")]
Region = Annotated[str | None, typer.Option("--region", metavar="NAME", help="AWS region to sign for.")]
Sign = Annotated[
    bool, typer.Option("--sign", help="Sign with AWS credentials though the host is not API Gateway's own.")
]
InsecureHttp = Annotated[bool, typer.Option("--insecure-http", help="Allow plain http to another machine.")]
MinGroup = Annotated[
    int,
    typer.Option(
        "--min-group",
        min=0,
        metavar="N",
        help="Leave out groups of fewer than N rows; the answer says how many. Default: off; 5 for a stored table with "
        "contributors, which 1 turns off.",
    ),
]
NoScan = Annotated[
    bool,
    typer.Option(
        "--no-scan",
        help="Fetch a stored table's rows rather than tell the sensitive service which to add up together.",
    ),
]
FetchLimit = Annotated[
    str,
    typer.Option(
        "--fetch-limit",
        metavar="SIZE",
        help="Fetch at most so many bytes of a stored table's rows: 500MB, 2GiB. More are scanned where the table was "
        "put with --scan, else the question is refused.",
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Memory that a question over a stored table's rows may take: 500MB, 2GiB. Default: a quarter of the "
        "machine's. What needs more is refused: nothing is put on a disk.",
        show_default=False,
    ),
]
NoCache = Annotated[
    bool,
    typer.Option(
        "--no-cache", help="Keep nothing on this machine of what is read of a bucket (~/.cache/cleave/objects)."
    ),
]
JobMachine = Annotated[
    str | None,
    typer.Option(
        "--job",
        metavar="ARN",
        help="Let this state machine make the calls of a scan: the stack's output Job. The job goes on when this "
        "command ends; asked once more, it is taken up.",
        show_default=False,
    ),
]
StopJob = Annotated[bool, typer.Option("--stop-job", help="End the job that answers this question.")]
Pad = Annotated[
    bool,
    typer.Option(
        "--pad",
        help="Send a power of two of ciphertexts, and read all blocks of a stored table: hides what is selected.",
    ),
]
Digits = Annotated[
    int,
    typer.Option(
        "--digits",
        min=1,
        max=17,
        metavar="D",
        help="Digits that sums of floats must keep where their declared bounds let them share.",
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        callback=_checked,
        help="Give up after so long, connections and repetitions included.",
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Print nothing and fail if the error bounds leave a decision open.")
]


def access_by(
    key: Path,
    passphrase: Passphrase,
    endpoint: str | None,
    functions: str | None,
    profile: str | None,
    region: str | None,
    *,
    sign: bool,
    insecure_http: bool,
) -> Access:
    from cleave.transport.connect import Target  # noqa: PLC0415

    return Access(key, passphrase, Target(endpoint, functions, profile, region, sign, insecure_http))


def bars_of(settings: Settings) -> Bars:
    return lambda: console.progress(quiet=settings.quiet)

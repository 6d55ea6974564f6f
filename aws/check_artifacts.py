"""Print the size of each built artifact; fail if one has files that its half must not have, or is too large for Lambda.

python -m aws.check_artifacts .aws-sam/build
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

LIMIT_MB = 250  # unzipped, layers included (AWS Lambda quotas)
CLIENT_ONLY = {"cleave", "tests", "typer", "rich", "pandas", "cryptography", "boto3", "botocore"}
FORBIDDEN = {
    "SensitiveFunction": CLIENT_ONLY | {"duckdb", "_duckdb"},
    "JobFunction": CLIENT_ONLY | {"duckdb", "_duckdb"},
    "PlainFunction": CLIENT_ONLY | {"tenseal", "libtenseal", "_sealapi_cpp", "_tenseal_cpp", "numpy"},
}
SHOWN = 6


def sizes(artifact: Path) -> Counter[str]:
    """Count bytes by top-level entry."""
    total: Counter[str] = Counter()
    for path in artifact.rglob("*"):
        if path.is_file():
            total[path.relative_to(artifact).parts[0]] += path.stat().st_size
    return total


def problems(function: str, weights: Counter[str]) -> list[str]:
    unwanted = sorted({name.partition(".")[0] for name in weights} & FORBIDDEN[function])
    found = [f"{function} ships {', '.join(unwanted)}"] if unwanted else []
    if weights.total() >= LIMIT_MB * 1e6:
        found.append(f"{function} is {weights.total() / 1e6:.0f} MB unzipped, Lambda takes {LIMIT_MB}")
    if "cleave_services" not in weights:
        found.append(f"{function} has no handler")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    build = parser.parse_args().build
    found = []
    for function in FORBIDDEN:
        weights = sizes(build / function)
        largest = ", ".join(f"{name} {size / 1e6:.1f}" for name, size in weights.most_common(SHOWN))
        print(f"{function}: {weights.total() / 1e6:.1f} MB unzipped of {LIMIT_MB} ({largest}, ...)")
        found += problems(function, weights)
        if not list((build / function).glob("cleave_services/__pycache__/*.cpython-313.pyc")):
            print(
                f"warning: {function} SHIPS NO BYTECODE: no Python 3.13 and no Lambda image was there to compile it\n"
                "hint: it works, but each cold start takes about twice as long; install Python 3.13 and build again"
            )
    if found:
        raise SystemExit("\n".join(f"error: {problem}" for problem in found))


if __name__ == "__main__":
    main()

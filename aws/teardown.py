"""Delete a deployed stack and its buckets, with every version of every object: all tables that are stored there.

make teardown     # CONFIG=NAME: the section of samconfig.toml that `make deploy` wrote
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from boto3.session import Session
from botocore.exceptions import BotoCoreError, ClientError

ROOT = Path(__file__).parent.parent
SAM = ROOT / ".venv-sam" / "bin" / "sam"
BUCKETS = ("SensitiveBucket", "PlainBucket")


def settings(file: Path, section: str) -> dict[str, Any]:
    """Return the settings of `sam deploy` in this section. Raises SystemExit if there is no such section."""
    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        document = {}
    found = document.get(section, {})
    told: dict[str, Any] = {
        **found.get("global", {}).get("parameters", {}),
        **found.get("deploy", {}).get("parameters", {}),
    }
    if "stack_name" not in told:
        names = ", ".join(name for name in document if name != "version") or "none"
        sys.exit(f"{file.name} has no stack {section!r}; it has: {names}")
    return told


def buckets_of(session: Session, stack: str) -> list[str]:
    (described,) = session.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    outputs = {each["OutputKey"]: each["OutputValue"] for each in described.get("Outputs", ())}
    return [outputs[name] for name in BUCKETS if name in outputs]


def empty(s3: Any, bucket: str) -> int:
    """Delete every version and unfinished upload; return how many there were. Raises SystemExit if one stays."""
    deleted = 0
    for page in s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket):
        for upload in page.get("Uploads", ()):
            s3.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
    before: list[dict[str, str]] = []
    while versions := _first_versions(s3, bucket):
        answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": versions, "Quiet": True})
        if answer.get("Errors") or versions == before:
            code = answer["Errors"][0]["Code"] if answer.get("Errors") else "S3 gives no reason"
            sys.exit(f"error: {bucket}: versions of objects could not be deleted ({code})")
        deleted, before = deleted + len(versions), versions
    return deleted


def _first_versions(s3: Any, bucket: str) -> list[dict[str, str]]:
    """Return at most 1000 versions and delete markers, which is as many as one request may delete."""
    page = s3.list_object_versions(Bucket=bucket)
    listed = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
    return [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in listed]


def teardown(session: Session, stack: str, delete_stack: list[str]) -> None:
    """Run `delete_stack` between emptying the buckets and deleting them: its functions may write until it is gone."""
    s3, names = session.client("s3"), buckets_of(session, stack)
    print(f"This deletes the stack {stack} and every version of every object in {' and '.join(names)}.")
    print("Stored tables there are lost. To go on, type the name of the stack: ", end="", flush=True)
    if sys.stdin.readline().strip() != stack:
        sys.exit("nothing was deleted")
    for name in names:
        print(f"{name}: {empty(s3, name)} versions deleted")
    subprocess.run(delete_stack, check=True)
    for name in names:
        try:
            empty(s3, name)
            s3.delete_bucket(Bucket=name)
        except ClientError as error:
            if (code := error.response["Error"]["Code"]) != "NoSuchBucket":
                sys.exit(f"error: the stack is deleted, the bucket {name} is not ({code})")
        print(f"{name}: deleted")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", nargs="?", default="default")
    section = parser.parse_args().section
    told = settings(Path("samconfig.toml"), section)
    place = {name: told[name] for name in ("profile", "region") if name in told}
    words = [f"--{name}={value}" for name, value in place.items()]
    session = Session(profile_name=place.get("profile"), region_name=place.get("region"))
    command = [str(SAM), "delete", "--no-prompts", "--stack-name", told["stack_name"], *words]
    try:
        teardown(session, told["stack_name"], command)
    except (BotoCoreError, ClientError) as error:
        sys.exit(f"error: {error}")
    except subprocess.CalledProcessError:
        sys.exit("error: the stack was not deleted; its buckets are empty and stay. Run this again")


if __name__ == "__main__":
    main()

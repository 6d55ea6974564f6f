"""`make teardown`: what it deletes, and what it asks first. `make deploy-local` runs it on a whole stack."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from boto3.session import Session
from moto import mock_aws

from aws import teardown

TEMPLATE = {
    "Resources": {
        "Sensitive": {
            "Type": "AWS::S3::Bucket",
            "DeletionPolicy": "Retain",
            "Properties": {"BucketName": "stored"},
        }
    },
    "Outputs": {"SensitiveBucket": {"Value": {"Ref": "Sensitive"}}},
}
CONFIG = """
version = 0.1
[default.global.parameters]
stack_name = "clinic"
[default.deploy.parameters]
region = "eu-central-1"
parameter_overrides = 'Half="sensitive"'
"""


def keep_versions(s3: Any, objects: int) -> None:
    """Store and delete `objects` objects, each of which then has two versions."""
    for number in range(objects):
        s3.put_object(Bucket="stored", Key=f"tables/{number}", Body=b"x")
        s3.delete_object(Bucket="stored", Key=f"tables/{number}")


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """S3 with a stack whose bucket has versions and an unfinished upload; `sam` deletes the stack."""
    monkeypatch.chdir(tmp_path)
    Path("samconfig.toml").write_text(CONFIG)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    with mock_aws():
        session = Session(region_name="eu-central-1")
        cloud, s3 = session.client("cloudformation"), session.client("s3")
        cloud.create_stack(StackName="clinic", TemplateBody=json.dumps(TEMPLATE))
        s3.put_bucket_versioning(Bucket="stored", VersioningConfiguration={"Status": "Enabled"})
        keep_versions(s3, 2)
        s3.create_multipart_upload(Bucket="stored", Key="tables/large")

        def sam(words: list[str], *, check: bool) -> None:
            assert check
            assert words[1:] == ["delete", "--no-prompts", "--stack-name", "clinic", "--region=eu-central-1"]
            cloud.delete_stack(StackName="clinic")
            s3.put_object(Bucket="stored", Key="results/late", Body=b"x")  # a function that was still at work

        monkeypatch.setattr("subprocess.run", sam)
        yield s3


def run(monkeypatch: pytest.MonkeyPatch, typed: str, *words: str) -> None:
    monkeypatch.setattr("sys.argv", ["teardown", *words])
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    teardown.main()


@pytest.mark.parametrize("more", [0, pytest.param(600, marks=pytest.mark.slow, id="several pages")])
def test_every_version_and_the_stack_are_deleted(
    stack: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: int
) -> None:
    keep_versions(stack, more)
    run(monkeypatch, "clinic\n")
    assert stack.list_buckets()["Buckets"] == []
    assert f"stored: {4 + 2 * more} versions deleted" in capsys.readouterr().out


@pytest.mark.parametrize("typed", ["", "yes\n", "\n"])
def test_nothing_is_deleted_unless_the_name_is_typed(stack: Any, monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    with pytest.raises(SystemExit, match="nothing was deleted"):
        run(monkeypatch, typed)
    assert len(stack.list_object_versions(Bucket="stored")["DeleteMarkers"]) == 2


def test_a_stack_that_stays_is_named_with_what_to_do(stack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(words: list[str], *, check: bool) -> None:
        raise subprocess.CalledProcessError(1, words)

    monkeypatch.setattr("subprocess.run", failed)
    with pytest.raises(SystemExit, match="Run this again"):
        run(monkeypatch, "clinic\n")
    assert [each["Name"] for each in stack.list_buckets()["Buckets"]] == ["stored"]


def test_a_missing_section_of_the_settings_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="no stack 'default'; it has: none"):
        run(monkeypatch, "")
    Path("samconfig.toml").write_text(CONFIG)
    with pytest.raises(SystemExit, match="no stack 'plain'; it has: default"):
        run(monkeypatch, "", "plain")

"""How long a bucket keeps what was deleted: read from its lifecycle, stated by the user, or not known."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

import cleave
from cleave.objects import s3
from cleave.objects.retention import end_of, of_bucket
from cleave_shared.errors import CleaveWarning, ServiceError, UsageError


def rule(days: int = 30, status: str = "Enabled", **more: Any) -> dict[str, Any]:
    return {"Status": status, "NoncurrentVersionExpiration": {"NoncurrentDays": days}, **more}


FEW = {"NoncurrentVersionExpiration": {"NoncurrentDays": 5, "NewerNoncurrentVersions": 1}}
NAMES = ["tables/a/1", "tables/b/2"]


@pytest.mark.parametrize(
    ("rules", "days"),
    [
        ([], None),
        ([rule()], 30),
        ([rule(Filter={})], 30),
        ([rule(Prefix="")], 30),
        ([rule(Filter={"Prefix": "studies/"})], 30),
        ([rule(Filter={"Prefix": "stud"})], 30),
        ([rule(Filter={"Prefix": "studies/tables/"}), rule(7)], 7),
        ([rule(Filter={"Prefix": "studies/tables/a/"})], None),
        ([rule(40, Filter={"Prefix": "studies/tables/a/"}), rule(9, Filter={"Prefix": "studies/tables/b/"})], 40),
        ([rule(Filter={"Prefix": "other/"})], None),
        ([rule(status="Disabled")], None),
        ([rule(Filter={"Tag": {"Key": "a", "Value": "b"}})], None),
        ([rule(Filter={"And": {"Prefix": "", "Tags": []}})], None),
        ([rule(Filter={"ObjectSizeGreaterThan": 500})], None),
        ([{**rule(), **FEW}], None),
        ([{"Status": "Enabled", "Expiration": {"Days": 5}, "Filter": {}}], None),
    ],
)
def test_only_rules_that_remove_every_old_version_count(rules: list[dict[str, Any]], days: int | None) -> None:
    assert of_bucket("studies/", rules).days(NAMES) == days


def test_rules_end_at_the_next_midnight() -> None:
    """As S3 documents it: an object of 15 January 10:30 that stays a day goes at 17 January 00:00."""
    assert end_of(1, datetime(2026, 1, 15, 10, 30, tzinfo=UTC)) == datetime(2026, 1, 17, tzinfo=UTC)
    assert end_of(1, datetime(2026, 1, 15, tzinfo=UTC)) == datetime(2026, 1, 16, tzinfo=UTC)
    assert end_of(0, datetime(2026, 1, 15, 10, 30, tzinfo=UTC)) == datetime(2026, 1, 15, 10, 30, tzinfo=UTC)


@pytest.fixture
def s3_client(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A client of S3 that makes buckets and changes their rules."""
    for name, value in {
        "AWS_ENDPOINT_URL_S3": s3_endpoint,
        "AWS_ACCESS_KEY_ID": "an-access-key",
        "AWS_SECRET_ACCESS_KEY": "a-secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }.items():
        monkeypatch.setenv(name, value)
    return boto3.client("s3")


def refusing(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """Let S3 answer `status` where a bucket's rules are asked for."""

    def refused(*_: Any, **__: Any) -> None:
        answer = {"Error": {"Code": "Refused"}, "ResponseMetadata": {"HTTPStatusCode": status}}
        raise ClientError(answer, "GetBucketLifecycleConfiguration")

    monkeypatch.setattr(s3.Bucket, "_lifecycle", refused)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_record_states_what_was_read_or_said_and_which(
    s3_client: Any, key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, every: bool
) -> None:
    """Of `every` bucket, or of one with a rule that can be read and one whose rules cannot."""
    name = f"kept-{every:d}"
    s3_client.create_bucket(Bucket=name)
    place = {"store": f"s3://{name}/studies", "key": key_file}
    (rows := tmp_path / "trial.csv").write_text("ward,age\nA,61\nB,47\nC,33\nD,52\nE,8\nF,19\n")
    (schema := tmp_path / "schema.toml").write_text(
        '[columns]\nward = {kind = "plain", type = "VARCHAR"}\nage = {kind = "encrypted", type = "BIGINT"}\n'
    )
    wards = iter("ABCDEF")

    def delete(**options: Any) -> dict[str, Any]:
        path = tmp_path / "erased.json"
        path.unlink(missing_ok=True)
        assert cleave.delete("trial", f"ward = '{next(wards)}'", record=path, **place, **options).rows
        record: dict[str, Any] = json.loads(path.read_text())
        return record

    def end(**options: Any) -> tuple[int | None, str]:
        record = delete(**options)
        if record["restorable_until"] is None:
            return None, record["restorable_source"]
        later = datetime.fromisoformat(record["restorable_until"]) - datetime.fromisoformat(record["at"])
        return later // timedelta(days=1), record["restorable_source"]

    cleave.put(rows, "trial", schema=schema, by=["ward"], **place)
    assert not every or end() == (0, "store"), "without versions"
    s3_client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    if every:
        with pytest.warns(CleaveWarning, match="for ever"):
            assert end() == (None, "store")
    s3_client.put_bucket_lifecycle_configuration(
        Bucket=name, LifecycleConfiguration={"Rules": [rule(30, ID="old-versions", Filter={})]}
    )
    assert end() == (30, "store")
    refusing(monkeypatch, 500)
    with pytest.raises(ServiceError, match="S3 answered Refused"):
        cleave.delete("trial", "age >= 0", yes=True, record=tmp_path / "none.json", **place)
    refusing(monkeypatch, 403)
    with pytest.warns(CleaveWarning, match="cannot be read"):
        assert end() == (None, "unknown")
    assert not every or end(old_version_days=7) == (7, "user")


def test_the_days_are_a_number_of_days(key_file: Path, tmp_path: Path) -> None:
    for days in (-1, 40_000):
        with pytest.raises(UsageError, match="takes 0 to"):
            cleave.delete("t", "a", record=tmp_path / "r", store=tmp_path, key=key_file, old_version_days=days)

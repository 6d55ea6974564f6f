"""The stack as one template for other tools: `sam package` of docs/recipes.md, into a bucket of moto's."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import httpx
import pytest

from aws import sam
from tests import recipes
from tests.store.conftest import BUCKET, s3_endpoint

__all__ = ["s3_endpoint"]
pytestmark = pytest.mark.sam

LARGEST = 51_200  # bytes of a template in a request to CloudFormation; a larger one must be in a bucket


def test_the_packaged_template_fits_a_request(s3_endpoint: str, tmp_path: Path) -> None:
    (command,) = (line for line in recipes.commands("Terraform").splitlines() if "/sam package" in line)
    packaged = tmp_path / "packaged.yaml"
    words = command.replace("BUCKET", BUCKET).replace("cleave/packaged.yaml", str(packaged)).split()
    own = {"AWS_ENDPOINT_URL": s3_endpoint, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    own |= {"AWS_DEFAULT_REGION": "us-east-1", "SAM_CLI_TELEMETRY": "0", "HOME": str(tmp_path)}
    done = subprocess.run(words, cwd=sam.ROOT, env=os.environ | own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text = packaged.read_text()
    assert packaged.stat().st_size <= LARGEST
    uploaded = re.findall(rf"^      CodeUri: s3://{BUCKET}/(\w+)$", text, re.MULTILINE)
    assert len(uploaded) == 3
    for name in uploaded:
        assert httpx.head(f"{s3_endpoint}/{BUCKET}/{name}").status_code == 200

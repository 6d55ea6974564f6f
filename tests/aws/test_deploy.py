"""The stack deployed to LocalStack from the finished build, by the commands of docs/deploy.md: `make deploy-local`.

LocalStack enforces neither IAM nor resource policies, and drops deletion policies, a bucket's lifecycle rules and a
method's authorisation: tests/aws/test_template.py has these.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aws import sam
from tests.aws import local_cloud, page, stack
from tests.aws.local_cloud import ACCOUNT, REGION, Cloud, Stack
from tests.aws.page import ACCOUNTS, Checkout
from tests.aws.test_sam_local import cleave

pytestmark = [pytest.mark.sam, pytest.mark.deploy]

BLOCKS = page.blocks()
PATIENTS = sam.ROOT / "tests" / "samples" / "patients.csv"
PARTNER = {
    "Half": "plain",
    "CallerAccount": "210987654321",
    "StorePrefix": "studies/",
    "OldVersionDays": "30",
    "ApiLogRole": "present",
}


STORED = ["Stored tables in the two buckets"]
DELIVERY = {f"logs:{verb}LogDelivery" for verb in ("Create", "Get", "Update", "Delete")}
DELIVERY |= {"logs:ListLogDeliveries", "logs:PutResourcePolicy", "logs:DescribeResourcePolicies"}
DELIVERY |= {"logs:DescribeLogGroups"}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with local_cloud.running(tmp_path_factory.mktemp("localstack")) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def checkout(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout(cloud, tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="module")
def whole(cloud: Cloud, checkout: Checkout) -> Stack:
    """The stack of the page's first block; every answer but the stack's name is the proposed one."""
    checkout.run(BLOCKS["Deploy"], typed="cleave\n" + "\n" * 60)
    made = Stack(cloud, "cleave")
    checkout.outputs |= made.outputs | {"Endpoint": made.endpoint}
    return made


@pytest.fixture(scope="module")
def partner(cloud: Cloud, whole: Stack) -> Stack:
    return cloud.deploy("partner", whole.template, **PARTNER)


@pytest.fixture(autouse=True)
def _region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)


def require_made(made: Stack, **parameters: str) -> None:
    wanted = {name: each["Type"] for name, each in stack.translate(**parameters)["Resources"].items()}
    found = {each["LogicalResourceId"]: each for each in made.resources()}
    # the deployment's id holds a digest of the API, parameters included
    types = {_stable(name, each["ResourceType"]): each["ResourceType"] for name, each in found.items()}
    assert types == {_stable(name, kind): kind for name, kind in wanted.items()}
    assert {each["ResourceStatus"] for each in found.values()} == {"CREATE_COMPLETE"}


def _stable(name: str, kind: str) -> str:
    return "ApiDeployment" if kind == "AWS::ApiGateway::Deployment" else name


def test_every_resource_is_made(whole: Stack, partner: Stack) -> None:
    require_made(whole)
    require_made(partner, **PARTNER)


def test_outputs_name_what_was_made(whole: Stack, partner: Stack) -> None:
    ids, outputs = whole.physical(), whole.outputs
    for name in ("SensitiveFunction", "PlainFunction", "SensitiveBucket", "PlainBucket", "Job"):
        assert outputs.pop(name) == ids[name]
    assert outputs.pop("Endpoint").startswith(f"https://{ids['Api']}.execute-api.")
    assert outputs.pop("InvokeResource") == f"arn:aws:execute-api:{REGION}:{ACCOUNT}:{ids['Api']}/api/POST/v1/*"
    assert not outputs
    assert partner.outputs.keys() == {"Endpoint", "InvokeResource", "PlainFunction", "PlainBucket"}


def rights(made: Stack, role: str) -> dict[str, Any]:
    """Resource by action, of the role as IAM has it."""
    client, name = made.cloud.client("iam"), made.physical()[role]
    documents = [
        client.get_role_policy(RoleName=name, PolicyName=each)["PolicyDocument"]
        for each in client.list_role_policies(RoleName=name)["PolicyNames"]
    ]
    statements = [each for document in documents for each in document["Statement"]]
    assert {each["Effect"] for each in statements} == {"Allow"}
    actions = [each["Action"] if isinstance(each["Action"], list) else [each["Action"]] for each in statements]
    return {name: each["Resource"] for each, names in zip(statements, actions, strict=True) for name in names}


def test_roles_may_do_what_the_template_says_and_no_more(whole: Stack, partner: Stack) -> None:
    ids = whole.physical()
    for made, half in ((whole, "Sensitive"), (whole, "Plain"), (partner, "Plain")):
        log = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{made.physical()[f'{half}Logs']}:*"
        assert rights(made, f"{half}Role") == {"logs:CreateLogStream": log, "logs:PutLogEvents": log}
    bucket = f"arn:aws:s3:::{ids['SensitiveBucket']}"
    of_executions = f"arn:aws:states:{REGION}:{ACCOUNT}:execution:cleave-job:*"
    granted = rights(whole, "JobRole")
    assert {action for action, resource in granted.items() if resource == "*"} == DELIVERY
    assert {action: resource for action, resource in granted.items() if resource != "*"} == {
        "lambda:InvokeFunction": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{ids['JobFunction']}",
        "s3:GetObject": [f"{bucket}/results/*", f"{bucket}/*/results/*"],
        "states:StartExecution": ids["Job"],
        "states:DescribeExecution": of_executions,
        "states:StopExecution": of_executions,
    }


def test_buckets_are_private_versioned_and_over_tls_alone(whole: Stack, partner: Stack) -> None:
    s3 = whole.cloud.client("s3")
    for made, half in ((whole, "Sensitive"), (whole, "Plain"), (partner, "Plain")):
        bucket = made.physical()[f"{half}Bucket"]
        assert set(s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"].values()) == {True}
        assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
        policy = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])
        denied = [each for each in policy["Statement"] if each["Effect"] == "Deny"]
        assert [each["Resource"] for each in denied] == [[f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]] * 2


def test_api_and_bucket_admit_the_other_account(whole: Stack, partner: Stack) -> None:
    client = whole.cloud.client("apigateway")
    for made, others in ((whole, set[str]()), (partner, {"210987654321"})):
        api = made.physical()["Api"]
        policy = json.loads(client.get_rest_api(restApiId=api)["policy"].replace('\\"', '"'))
        principals = [each["Principal"] for each in policy["Statement"]]
        assert {each["AWS"] for each in principals if each != "*"} == others
        bucket = made.cloud.client("s3").get_bucket_policy(Bucket=made.physical()["PlainBucket"])["Policy"]
        admitted = [each for each in json.loads(bucket)["Statement"] if each["Effect"] == "Allow"]
        assert {each["Principal"]["AWS"] for each in admitted} == others


def ask(made: Stack, *words: str) -> Any:
    done = cleave("query", *words, "--json", "--quiet", **(made.cloud.environment))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["rows"]


BY_WARD = "SELECT ward, COUNT(*), AVG(age), SUM(bill) FROM patients GROUP BY ward ORDER BY ward"


def test_a_question_goes_through_the_deployed_api(whole: Stack) -> None:
    expected = cleave("query", str(PATIENTS), BY_WARD, "--json", "--quiet")
    assert ask(whole, str(PATIENTS), BY_WARD, "--endpoint", whole.endpoint) == json.loads(expected.stdout)["rows"]


def test_stored_tables_and_jobs_go_through_the_deployed_stack(whole: Stack, tmp_path: Path) -> None:
    places = whole.outputs
    key = ["--key", str(tmp_path / "key.json")]
    store = ["--store", f"s3://{places['SensitiveBucket']},s3://{places['PlainBucket']}"]
    assert cleave("key", "new", "--no-passphrase", *key).returncode == 0
    put = ["put", str(PATIENTS), "--table", "trial", "--by", "ward", "--scan"]
    append = ["put", str(PATIENTS), "--table", "trial", "--append", "--again"]
    for command in (put, append):  # two segments: two calls of the job
        done = cleave(*command, *key, *store, **whole.cloud.environment)
        assert done.returncode == 0, done.stderr
    sql = "SELECT admitted < DATE '2025-02-01' AS early, SUM(bill) FROM trial GROUP BY early ORDER BY early"
    asked = ["trial", sql, *key, *store, "--endpoint", whole.endpoint]
    assert ask(whole, *asked, "--fetch-limit", "0", "--job", places["Job"]) == ask(whole, *asked), "as by fetched rows"


def test_no_console_block_of_the_page_is_left_out() -> None:
    assert BLOCKS.keys() == {"Deploy", "Each half in an account of its own", "Use", *STORED, "Upgrade", "Tear down"}


@pytest.mark.parametrize("heading", ["Use", *STORED])
def test_the_page_queries_the_deployed_stack(whole: Stack, checkout: Checkout, heading: str) -> None:
    printed = checkout.run(BLOCKS[heading])
    assert "Cardiology" in printed
    assert ("60.76767676767677" in printed) == (heading == "Use") or "2025-" in printed


def test_the_page_deploys_each_half_in_an_account_of_its_own(cloud: Cloud, checkout: Checkout) -> None:
    commands = BLOCKS["Each half in an account of its own"].splitlines()
    for command, (profile, account) in zip(commands, ACCOUNTS.items(), strict=True):
        checkout.run(command, typed="halves\n" + "\n" * 60)
        made = cloud.in_account(account)
        half = "Sensitive" if profile == "hospital" else "Plain"
        outputs = Stack(made, "halves").outputs
        assert {name for name in outputs if name.endswith("Function")} == {f"{half}Function"}
        assert account in outputs["InvokeResource"]
    for section in ("default", "sensitive", "plain"):
        assert "Architecture=x86_64" in checkout.run(f"/usr/bin/make -n build CONFIG={section}").split()
    for section, account in zip(("sensitive", "plain"), ACCOUNTS.values(), strict=True):
        checkout.run(BLOCKS["Tear down"].replace("teardown", f"teardown CONFIG={section}"), typed="halves\n")
        (left,) = cloud.in_account(account).client("s3").list_buckets()["Buckets"]
        assert left["Name"].startswith("aws-sam-cli-managed-default"), "no table is left, SAM's own bucket stays"


def test_the_page_upgrades_the_deployed_stack(whole: Stack, checkout: Checkout) -> None:
    """It asks nothing, and changes the one parameter that the file says otherwise."""
    file = checkout.folder / "samconfig.toml"
    file.write_text(file.read_text().replace('OldVersionDays=\\"30\\"', 'OldVersionDays=\\"40\\"'))
    before = whole.outputs
    checkout.run(BLOCKS["Upgrade"])
    checkout.run(BLOCKS["Upgrade"])  # nothing is left to change
    (described,) = whole.cloud.client("cloudformation").describe_stacks(StackName="cleave")["Stacks"]
    assert {"ParameterKey": "OldVersionDays", "ParameterValue": "40"}.items() <= next(
        each for each in described["Parameters"] if each["ParameterKey"] == "OldVersionDays"
    ).items()
    assert whole.outputs == before


def test_deletion_leaves_nothing_that_runs(whole: Stack, partner: Stack, checkout: Checkout) -> None:
    """Runs last: it ends both stacks."""
    cloud, buckets = whole.cloud, {whole.outputs[name] for name in ("SensitiveBucket", "PlainBucket")}
    checkout.run(BLOCKS["Tear down"], typed="cleave\n")
    assert not buckets & {each["Name"] for each in cloud.client("s3").list_buckets()["Buckets"]}
    cloud.delete(partner.name)
    assert cloud.client("lambda").list_functions()["Functions"] == []
    assert cloud.client("apigateway").get_rest_apis()["items"] == []
    assert cloud.client("stepfunctions").list_state_machines()["stateMachines"] == []
    groups = {each["logGroupName"] for each in cloud.client("logs").describe_log_groups()["logGroups"]}
    assert not {each for each in groups if not each.startswith("/aws/lambda/")}, "these are LocalStack's own"
    assert cloud.client("cloudwatch").describe_alarms()["MetricAlarms"] == []
    assert not [each for each in cloud.client("iam").list_roles()["Roles"] if "ApiGatewayLog" not in each["RoleName"]]

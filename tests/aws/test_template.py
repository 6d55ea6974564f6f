"""The stack as data: who may call what, what each function may do, what is kept for how long, each half alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aws.translate import TEMPLATE
from cleave_services import links
from cleave_services.plain.app import app as plain
from cleave_services.sensitive.app import app as sensitive
from tests.aws import stack

HALVES = ("both", "sensitive", "plain")
APPLICATIONS = {"SensitiveFunction": sensitive, "PlainFunction": plain}
LOGGED = {"requestId", "requestTime", "identity.userArn", "httpMethod", "resourcePath", "status"}
LOGGED |= {"responseLatency", "responseLength", "error.responseType"}
LOGGED |= {f"integration.{name}" for name in ("requestId", "status", "latency")}
JOB = {"JobFunction", "Job", "JobRole", "JobLogs", "JobErrors", "JobsFailed", "JobsTimedOut"}
NO_FINER_RESOURCE = {"log-delivery"}  # of Step Functions, to log at all
VIA_S3 = "s3.${AWS::Region}.${AWS::URLSuffix}"
OWN = {half: {f"{half}{part}" for part in ("Function", "Role", "Logs", "Bucket")} for half in ("Sensitive", "Plain")}


@pytest.fixture(autouse=True)
def _region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")


def api_body(made: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = stack.of_type(made, "AWS::ApiGateway::RestApi")["Api"]["Body"]
    return body


@pytest.mark.parametrize("half", HALVES)
def test_every_method_asks_for_iam_and_only_preflight_is_open(half: str) -> None:
    body = api_body(stack.translate(Half=half))
    schemes = body["components"]["securitySchemes"]
    assert schemes["AWS_IAM"]["x-amazon-apigateway-authtype"] == "awsSigv4"
    methods = [(path, method, each) for path, item in body["paths"].items() for method, each in item.items()]
    assert methods
    for path, method, each in methods:
        if method == "options":
            assert "security" not in each, path
            assert each["x-amazon-apigateway-integration"]["type"] == "mock", "preflight reaches no function"
        else:
            assert each["security"] == [{"AWS_IAM": []}], (path, method)
            assert "credentials" not in each["x-amazon-apigateway-integration"], "callers invoke no function themselves"
    assert {method for _, method, _ in methods} == {"post", "options"}


def test_the_api_has_exactly_the_routes_of_the_applications() -> None:
    paths = api_body(stack.translate())["paths"]
    routed = {
        (path, function.removesuffix(".Arn}/invocations"))
        for path, item in paths.items()
        for function in [item["post"]["x-amazon-apigateway-integration"]["uri"]["Fn::Sub"].rpartition("${")[2]]
    }
    served = {
        (path, function)
        for function, application in APPLICATIONS.items()
        for path, item in application.openapi()["paths"].items()
        if "post" in item
    }
    assert routed == served


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("account", ["", "210987654321"])
def test_another_account_may_ask_only_where_it_is_named(half: str, account: str) -> None:
    body = api_body(stack.translate(Half=half, CallerAccount=account))
    statements = body["x-amazon-apigateway-policy"]["Statement"]
    routes = {
        f"{method.upper()}{path.replace('{set}', '*')}" for path, item in body["paths"].items() for method in item
    }
    admitted = {
        resource.removeprefix("execute-api:/api/"): statement["Principal"]
        for statement in statements
        for resource in statement["Resource"]
    }
    assert {route for route, who in admitted.items() if who == "*"} == {r for r in routes if r.startswith("OPTIONS/")}
    others = {route: who for route, who in admitted.items() if who != "*"}
    named = {route for route in routes if route.startswith("POST/")} if account else set()
    assert others == {route: {"AWS": account} for route in named}
    assert {(each["Effect"], each["Action"]) for each in statements} == {("Allow", "execute-api:Invoke")}


def test_binary_bodies_pass() -> None:
    assert api_body(stack.translate())["x-amazon-apigateway-binary-media-types"] == ["application/octet-stream"]


@pytest.mark.parametrize("half", HALVES)
def test_one_stage_throttled_and_logged_without_bodies(half: str) -> None:
    (stage,) = stack.of_type(
        stack.translate(Half=half, ThrottleRate="7", ThrottleBurst="9"), "AWS::ApiGateway::Stage"
    ).values()
    (settings,) = stage["MethodSettings"]
    assert (settings["ResourcePath"], settings["HttpMethod"]) == ("/*", "*")
    assert (settings["ThrottlingRateLimit"], settings["ThrottlingBurstLimit"]) == ("7", "9")
    assert settings["LoggingLevel"] == "OFF"
    assert settings["DataTraceEnabled"] is False
    logged = set(json.loads(stage["AccessLogSetting"]["Format"]).values())
    assert logged == {f"$context.{name}" for name in LOGGED}


def test_the_stage_waits_for_the_accounts_log_role_only_where_this_stack_makes_it() -> None:
    def destination(role: str) -> Any:
        (stage,) = stack.of_type(stack.translate(ApiLogRole=role), "AWS::ApiGateway::Stage").values()
        return stage["AccessLogSetting"]["DestinationArn"]

    log = {"Fn::GetAtt": ["ApiLogs", "Arn"]}
    assert destination("present") == log
    assert destination("create") == {"Fn::Select": [0, [log, {"Ref": "ApiGatewayAccount"}]]}


def test_the_account_log_role_is_assumed_as_aws_documents_it() -> None:
    """API Gateway sends no aws:SourceAccount that public examples rely on: with it the first deploy could roll back."""
    trust = stack.of_type(stack.translate(), "AWS::IAM::Role")["ApiGatewayLogRole"]["AssumeRolePolicyDocument"]
    (statement,) = trust["Statement"]
    assert statement["Principal"] == {"Service": "apigateway.amazonaws.com"}
    assert "Condition" not in statement


def test_what_the_gateway_refuses_itself_is_json_a_browser_may_read() -> None:
    responses = api_body(stack.translate())["x-amazon-apigateway-gateway-responses"]
    assert {"DEFAULT_4XX", "DEFAULT_5XX", "THROTTLED"} <= responses.keys()
    for each in responses.values():
        assert each["responseParameters"]["gatewayresponse.header.Access-Control-Allow-Origin"] == "'*'"
        template = each["responseTemplates"]["application/json"]
        filled = template.replace("$context.error.messageString", '"x"').replace("$context.error.responseType", "y")
        assert json.loads(filled).keys() == {"error", "hint", "code"}
    assert responses["THROTTLED"]["responseParameters"]["gatewayresponse.header.Retry-After"] == "'1'"


@pytest.mark.parametrize("half", HALVES)
def test_no_policy_grants_a_wildcard(half: str) -> None:
    made = stack.translate(Half=half)
    roles = stack.of_type(made, "AWS::IAM::Role")
    for name, role in roles.items():
        for policy in role.get("Policies", []):
            for statement in policy["PolicyDocument"]["Statement"]:
                assert statement["Effect"] == "Allow"
                granted = json.dumps([statement["Action"], statement["Resource"]])
                for known in ("/${StorePrefix}results/*", "/${StorePrefix}*/results/*", "-job:*"):
                    granted = granted.replace(known, "")
                assert "*" not in granted or policy["PolicyName"] in NO_FINER_RESOURCE, name
    granted = stack.of_type(made, "AWS::S3::BucketPolicy").values()
    assert all(each["Effect"] == "Deny" for policy in granted for each in policy["PolicyDocument"]["Statement"])
    # the one managed policy, needed by API Gateway itself for the account's log role
    assert [name for name, role in roles.items() if "ManagedPolicyArns" in role] == ["ApiGatewayLogRole"]
    assert not stack.of_type(made, "AWS::IAM::Policy")
    assert not stack.of_type(made, "AWS::IAM::ManagedPolicy")


def test_each_function_may_write_its_own_log_and_nothing_else() -> None:
    made = stack.translate()
    roles = stack.of_type(made, "AWS::IAM::Role")
    for half in OWN:
        (policy,) = roles[f"{half}Role"]["Policies"]
        (statement,) = policy["PolicyDocument"]["Statement"]
        assert statement["Action"] == ["logs:CreateLogStream", "logs:PutLogEvents"]
        assert statement["Resource"] == {"Fn::GetAtt": [f"{half}Logs", "Arn"]}
        function = stack.of_type(made, "AWS::Lambda::Function")[f"{half}Function"]
        assert function["Role"] == {"Fn::GetAtt": [f"{half}Role", "Arn"]}
        assert function["LoggingConfig"]["LogGroup"] == {"Ref": f"{half}Logs"}


def test_a_jobs_machine_invokes_its_function_and_reads_no_table() -> None:
    made = stack.translate()
    machine = stack.of_type(made, "AWS::StepFunctions::StateMachine")["Job"]
    assert machine["RoleArn"] == {"Fn::GetAtt": ["JobRole", "Arn"]}
    role = stack.of_type(made, "AWS::IAM::Role")["JobRole"]
    granted = {
        json.dumps(statement["Action"]): statement["Resource"]
        for policy in role["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
    }
    assert granted['"lambda:InvokeFunction"'] == {"Fn::GetAtt": ["JobFunction", "Arn"]}
    assert granted['"s3:GetObject"'] == [
        {"Fn::Sub": "${SensitiveBucket.Arn}/${StorePrefix}results/*"},
        {"Fn::Sub": "${SensitiveBucket.Arn}/${StorePrefix}*/results/*"},
    ]
    assert {action.split(":")[0] for action in granted} == {'"lambda', '"s3', '"states', '["states', '["logs'}
    (actions,) = [action for action in granted if action.startswith('["logs')]
    assert "PutLogEvents" not in actions, "the machine writes its own log alone, by a delivery"
    function = stack.of_type(made, "AWS::Lambda::Function")["JobFunction"]
    assert function["Role"] == {"Fn::GetAtt": ["SensitiveRole", "Arn"]}, "it has no rights but to its log either"
    assert function["LoggingConfig"]["LogGroup"] == {"Ref": "SensitiveLogs"}
    invoking = stack.of_type(made, "AWS::Lambda::Permission").values()
    assert all(each["FunctionName"] != {"Ref": "JobFunction"} for each in invoking)


def test_a_jobs_machine_logs_no_data() -> None:
    machine = stack.of_type(stack.translate(), "AWS::StepFunctions::StateMachine")["Job"]
    log = machine["LoggingConfiguration"]
    assert log["IncludeExecutionData"] is False
    assert log["Destinations"] == [{"CloudWatchLogsLogGroup": {"LogGroupArn": {"Fn::GetAtt": ["JobLogs", "Arn"]}}}]


def test_a_jobs_children_last_longer_than_their_retries() -> None:
    """An EXPRESS child ends after 300 s; a call takes up to a minute, and 40 of them five rounds."""
    machine = stack.of_type(stack.translate(), "AWS::StepFunctions::StateMachine")["Job"]
    definition = json.loads("\n".join(machine["DefinitionString"]["Fn::Join"][1]))
    assert definition["States"]["Batches"]["ItemProcessor"]["ProcessorConfig"]["ExecutionType"] == "STANDARD"


def test_a_jobs_machine_decrypts_its_list_with_the_buckets_key_and_traces_where_asked() -> None:
    def policies(**parameters: str) -> dict[str, Any]:
        role = stack.of_type(stack.translate(**parameters), "AWS::IAM::Role")["JobRole"]
        return {each["PolicyName"]: each["PolicyDocument"]["Statement"] for each in role["Policies"]}

    key = "arn:aws:kms:eu-central-1:210987654321:key/k"
    assert policies().keys() == {"steps", "log-delivery"}
    (decrypts,) = policies(KmsKey=key)["key"]
    assert (decrypts["Action"], decrypts["Resource"]) == ("kms:Decrypt", key)
    assert decrypts["Condition"] == {"StringEquals": {"kms:ViaService": {"Fn::Sub": VIA_S3}}}
    (traces,) = policies(Tracing="Active")["traces"]
    assert all(action.startswith("xray:") for action in traces["Action"])


def test_no_arn_names_a_partition() -> None:
    """China and GovCloud have their own. SAM's translator writes that of the region it runs for."""
    assert "arn:aws:" not in TEMPLATE.read_text("utf-8")


@pytest.mark.parametrize("half", HALVES)
def test_buckets_admit_the_other_account_to_objects_of_stores_alone(half: str) -> None:
    made = stack.translate(Half=half, CallerAccount="210987654321")
    policies = stack.of_type(made, "AWS::S3::BucketPolicy")
    assert len(policies) == (2 if half == "both" else 1)
    for name, policy in policies.items():
        bucket = name.removesuffix("Policy")
        objects, lists = (each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Allow")
        assert objects["Principal"] == lists["Principal"] == {"AWS": "210987654321"}
        assert objects["Action"] == ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]
        folders = [f"${{{bucket}.Arn}}/${{StorePrefix}}{folder}/*" for folder in ("tables", "results")]
        assert objects["Resource"] == [{"Fn::Sub": each} for each in folders]
        assert lists["Action"] == ["s3:ListBucket", "s3:GetBucketVersioning", "s3:GetLifecycleConfiguration"]
        assert lists["Resource"] == {"Fn::GetAtt": [bucket, "Arn"]}


@pytest.mark.parametrize("half", HALVES)
def test_jobs_belong_to_the_sensitive_half(half: str) -> None:
    assert (stack.translate(Half=half)["Resources"].keys() >= JOB) == (half != "plain")


def test_only_this_api_may_invoke_a_function_and_only_by_its_routes() -> None:
    permissions = stack.of_type(stack.translate(), "AWS::Lambda::Permission").values()
    assert permissions
    for permission in permissions:
        assert permission["Principal"] == "apigateway.amazonaws.com"
        arn, variables = permission["SourceArn"]["Fn::Sub"]
        assert variables["__ApiId__"] == {"Ref": "Api"}
        assert arn.partition("/POST/v1/")[2].startswith(
            permission["FunctionName"]["Ref"].removesuffix("Function").lower()
        )


def test_functions_run_where_and_with_what_the_parameters_say() -> None:
    functions = stack.of_type(stack.translate(), "AWS::Lambda::Function")
    assert {name: each["MemorySize"] for name, each in functions.items()} == {
        "SensitiveFunction": 1769,
        "JobFunction": 1769,
        "PlainFunction": 1769,
    }
    asked = stack.translate(Architecture="arm64", SensitiveMemory="3538", PlainMemory="1024")
    for name, each in stack.of_type(asked, "AWS::Lambda::Function").items():
        assert each["Runtime"] == "python3.13"
        assert each["Architectures"] == ["arm64"]
        assert each["MemorySize"] == ("1024" if name == "PlainFunction" else "3538")
        if name != "JobFunction":
            assert each["Timeout"] < 29, "API Gateway gives up after 29 s: the function must be the first to end"
        assert each.keys().isdisjoint({"VpcConfig", "ReservedConcurrentExecutions"})
        assert each["TracingConfig"] == {"Mode": "PassThrough"}


@pytest.mark.parametrize("half", HALVES)
def test_a_function_reads_links_into_its_own_bucket_and_has_no_rights_there(half: str) -> None:
    made = stack.translate(Half=half)
    for name, each in stack.of_type(made, "AWS::Lambda::Function").items():
        bucket = name.replace("Function", "Bucket").replace("Job", "Sensitive")
        (url,) = [value for key, value in each["Environment"]["Variables"].items() if key == links.VARIABLE]
        assert url == {"Fn::Sub": f"https://${{{bucket}.RegionalDomainName}}/${{StorePrefix}}"}
    roles = {name: each for name, each in stack.of_type(made, "AWS::IAM::Role").items() if name != "JobRole"}
    assert "s3:" not in json.dumps(roles)


def test_what_can_be_asked_for_besides() -> None:
    made = stack.translate(
        SensitiveConcurrency="7",
        Tracing="Active",
        Subnets="subnet-1,subnet-2",
        SecurityGroups="sg-1",
        KmsKey="arn:aws:kms:eu-central-1:210987654321:key/k",
        AlarmTopic="arn:aws:sns:eu-central-1:210987654321:t",
    )
    functions = stack.of_type(made, "AWS::Lambda::Function")
    assert functions["SensitiveFunction"]["ReservedConcurrentExecutions"] == "7"
    assert "ReservedConcurrentExecutions" not in functions["PlainFunction"]
    for each in functions.values():
        assert each["VpcConfig"] == {"SubnetIds": "subnet-1,subnet-2", "SecurityGroupIds": "sg-1"}
        assert each["TracingConfig"] == {"Mode": "Active"}
    (stage,) = stack.of_type(made, "AWS::ApiGateway::Stage").values()
    assert stage["TracingEnabled"] is True
    key = "arn:aws:kms:eu-central-1:210987654321:key/k"
    assert {group["KmsKeyId"] for group in stack.of_type(made, "AWS::Logs::LogGroup").values()} == {key}
    for bucket in stack.of_type(made, "AWS::S3::Bucket").values():
        (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}
        assert rule["BucketKeyEnabled"] is True
    for alarm in stack.of_type(made, "AWS::CloudWatch::Alarm").values():
        assert alarm["AlarmActions"] == ["arn:aws:sns:eu-central-1:210987654321:t"]


@pytest.mark.parametrize("half", HALVES)
def test_each_half_and_the_api_have_alarms(half: str) -> None:
    alarms = stack.of_type(stack.translate(Half=half), "AWS::CloudWatch::Alarm")
    halves = ["Sensitive", "Plain"] if half == "both" else [half.capitalize()]
    wanted = {f"{each}{what}" for each in halves for what in ("Errors", "Throttles", "Duration")} | {"ApiFailures"}
    wanted |= {"JobErrors", "JobsFailed", "JobsTimedOut"} if half != "plain" else set()
    assert alarms.keys() == wanted
    assert all("AlarmActions" not in each for each in alarms.values())


def test_rights_that_know_no_resource_are_there_only_where_they_are_needed() -> None:
    def policies(**parameters: str) -> dict[str, Any]:
        roles = stack.of_type(stack.translate(**parameters), "AWS::IAM::Role")
        return {each["PolicyName"]: each["PolicyDocument"]["Statement"] for each in roles["SensitiveRole"]["Policies"]}

    assert policies().keys() == {"own-logs"}
    (traces,) = policies(Tracing="Active")["traces"]
    assert traces["Action"] == ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]
    allowed, denied = policies(Subnets="subnet-1")["network-interfaces"]
    assert (allowed["Effect"], denied["Effect"]) == ("Allow", "Deny")
    assert allowed["Action"] == denied["Action"]
    assert all(action.startswith("ec2:") for action in allowed["Action"])
    assert "lambda:SourceFunctionArn" in denied["Condition"]["ArnLike"], "the code itself has none of these rights"


@pytest.mark.parametrize("half", HALVES)
def test_every_log_group_forgets(half: str) -> None:
    groups = stack.of_type(stack.translate(Half=half, LogDays="7"), "AWS::Logs::LogGroup")
    assert len(groups) == {"both": 4, "sensitive": 3, "plain": 2}[half]
    assert all(group["RetentionInDays"] == "7" for group in groups.values())


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("days", ["0", "11", "30"])
def test_buckets_are_private_encrypted_and_forget_nothing_by_age(half: str, days: str) -> None:
    made = stack.translate(Half=half, **({"OldVersionDays": days} if days != "30" else {}))  # the default
    buckets = stack.of_type(made, "AWS::S3::Bucket")
    assert len(buckets) == (2 if half == "both" else 1)
    policies = {each["Bucket"]["Ref"]: each for each in stack.of_type(made, "AWS::S3::BucketPolicy").values()}
    for name, bucket in buckets.items():
        assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
        assert len(bucket["PublicAccessBlockConfiguration"]) == 4
        (encryption,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert encryption["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
        assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
        uploads, answers, *versions = bucket["LifecycleConfiguration"]["Rules"]
        assert {each["Status"] for each in (uploads, answers, *versions)} == {"Enabled"}
        assert uploads.keys() == {"Id", "Status", "AbortIncompleteMultipartUpload"}
        assert (answers["Prefix"], answers["ExpirationInDays"]) == ({"Fn::Sub": "${StorePrefix}results/"}, 1)
        assert len(versions) == (days != "0")
        for rule in versions:
            assert "ExpirationInDays" not in rule, "the oldest objects are a table's first segments"
            assert rule["NoncurrentVersionExpiration"]["NoncurrentDays"] in (days, int(days))
        assert [each["Condition"] for each in policies[name]["PolicyDocument"]["Statement"]] == [
            {"Bool": {"aws:SecureTransport": "false"}},
            {"NumericLessThan": {"s3:TlsVersion": "1.2"}},
        ]


def test_what_outlives_the_stack_does_not_outlive_a_first_deploy_that_failed() -> None:
    kept = {
        name: each["DeletionPolicy"]
        for name, each in stack.translate()["Resources"].items()
        if each.get("DeletionPolicy", "Delete") != "Delete"
    }
    assert kept == dict.fromkeys(
        ("ApiGatewayAccount", "ApiGatewayLogRole", "SensitiveBucket", "PlainBucket"), "RetainExceptOnCreate"
    )


@pytest.mark.parametrize(("half", "other"), [("sensitive", "Plain"), ("plain", "Sensitive")])
def test_a_half_stands_alone(half: str, other: str) -> None:
    made = stack.translate(Half=half)
    text = json.dumps({section: made[section] for section in ("Resources", "Outputs")})
    assert other not in text
    assert f"/v1/{other.lower()}" not in text
    assert OWN[half.capitalize()] <= made["Resources"].keys()


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("role", ["create", "present"])
def test_nothing_refers_to_what_is_not_made(half: str, role: str) -> None:
    made = stack.translate(Half=half, ApiLogRole=role)
    named = stack.references(made["Resources"]) | stack.references(made["Outputs"])
    assert named <= made["Resources"].keys() | made["Parameters"].keys()


def test_the_halves_share_nothing_but_the_api() -> None:
    resources = stack.translate()["Resources"]
    for half, other in (("Sensitive", "Plain"), ("Plain", "Sensitive")):
        ours = {name: each for name, each in resources.items() if name.startswith(half)}
        assert ours
        assert not any(name.startswith(other) for name in stack.references(ours))


@pytest.mark.parametrize(("answer", "counts"), [("no", False), ("yes", True)])
def test_routes_are_counted_only_where_the_user_says_so(answer: str, counts: bool) -> None:
    (stage,) = stack.of_type(stack.translate(DetailedMetrics=answer), "AWS::ApiGateway::Stage").values()
    assert [each["MetricsEnabled"] for each in stage["MethodSettings"]] == [counts]


def test_what_a_month_costs_is_what_the_stack_has() -> None:
    page = (TEMPLATE.parent / "docs" / "deploy.md").read_text("utf-8")
    alarms = [len(stack.of_type(stack.translate(Half=half), "AWS::CloudWatch::Alarm")) for half in HALVES]
    routes = len(api_body(stack.translate())["paths"])
    assert "| {} alarms (sensitive half {}, plain half {}), also when idle |".format(*alarms) in page
    assert f"5 metrics for each of {routes} routes" in page
    for count, price, cost in ((alarms[0], 0.10, "1.00"), (8, 0.30, "2.40"), (5 * routes, 0.30, "10.50")):
        assert f"{count * price:.2f}" == cost
        assert f"${price:.2f} per" in page
        assert f"| {cost} |" in page
    assert f"| {1.5 * 0.50:.2f} |" in page
    assert f"| {10 * 0.023:.2f} |" in page
    assert f"| {300 * 0.023:.2f} |" in page

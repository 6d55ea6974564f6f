"""A provider for Terraform with the schema of `aws_cloudformation_stack`, since no package has the AWS provider.

Attributes and types are those of that provider's version 6. It creates nothing.
"""

from __future__ import annotations

from typing import Any

from tf import iface, runner, schema, types

TEXT, TEXTS, NAMED = types.String(), types.Set(types.String()), types.Map(types.String())
OPTIONAL = {
    "capabilities": TEXTS,
    "disable_rollback": types.Bool(),
    "iam_role_arn": TEXT,
    "notification_arns": TEXTS,
    "on_failure": TEXT,
    "parameters": NAMED,
    "policy_body": TEXT,
    "policy_url": TEXT,
    "region": TEXT,
    "tags": NAMED,
    "template_body": TEXT,
    "template_url": TEXT,
    "timeout_in_minutes": types.Number(),
}


class Stack(iface.Resource):
    def __init__(self, _provider: iface.Provider) -> None:
        pass

    @classmethod
    def get_name(cls) -> str:
        return "cloudformation_stack"

    @classmethod
    def get_schema(cls) -> schema.Schema:
        return schema.Schema(
            attributes=[
                schema.Attribute("name", TEXT, required=True),
                *(schema.Attribute(name, kind, optional=True) for name, kind in OPTIONAL.items()),
                schema.Attribute("id", TEXT, computed=True),
                schema.Attribute("outputs", NAMED, computed=True),
            ]
        )

    def create(self, _ctx: object, planned: Any) -> Any:
        raise NotImplementedError

    read = update = delete = create


class Aws(iface.Provider):
    def full_name(self) -> str:
        return "registry.terraform.io/hashicorp/aws"

    def get_model_prefix(self) -> str:
        return "aws_"

    def get_provider_schema(self, _diags: object) -> schema.Schema:
        return schema.Schema(attributes=[schema.Attribute("region", TEXT, optional=True)])

    def validate_config(self, _diags: object, _config: object) -> None:
        pass

    def configure_provider(self, _diags: object, _config: object) -> None:
        pass

    def get_data_sources(self) -> list[Any]:
        return []

    def get_resources(self) -> list[Any]:
        return [Stack]


if __name__ == "__main__":
    runner.run_provider(Aws())

"""Names of commands and of Python's functions and classes, and the modules that have them.

A module is imported when a name of it is first used: a command or a program needs few of them, and each costs start-up
time. `client/cleave/__init__.pyi` is made from this table, for type checkers.
"""

from __future__ import annotations

from typing import Final

# By the words of a command: its function, and the function that does the same in Python, both as module:function.
COMMANDS: Final[dict[str, tuple[str, str | None]]] = {
    "schema": ("cleave.cli.schema:schema", "cleave.api.ask:schema"),
    "plan": ("cleave.cli.questions:plan", "cleave.api.ask:plan"),
    "query": ("cleave.cli.questions:query", "cleave.api.ask:query"),
    "shell": ("cleave.cli.shell.command:shell", None),
    "fit": ("cleave.cli.models:fit", "cleave.api.models:fit"),
    "pca": ("cleave.cli.models:pca", "cleave.api.models:pca"),
    "survival": ("cleave.cli.models:survival", "cleave.api.models:survival"),
    "put": ("cleave.cli.stored:put", "cleave.maintain.put:put"),
    "ls": ("cleave.cli.stored:ls", "cleave.maintain.tables:ls"),
    "show": ("cleave.cli.stored:show", "cleave.maintain.show:show"),
    "log": ("cleave.cli.stored:log", "cleave.maintain.tables:log"),
    "pull": ("cleave.cli.stored:pull", "cleave.maintain.pull:pull"),
    "derive": ("cleave.cli.stored:derive", "cleave.maintain.derive:derive"),
    "delete": ("cleave.cli.stored:delete", "cleave.maintain.changes:delete"),
    "update": ("cleave.cli.stored:update", "cleave.maintain.changes:update"),
    "alter": ("cleave.cli.stored:alter", "cleave.maintain.alter:alter"),
    "compact": ("cleave.cli.stored:compact", "cleave.maintain.put:compact"),
    "verify": ("cleave.cli.stored:verify", "cleave.maintain.pull:verify"),
    "drop": ("cleave.cli.stored:drop", "cleave.maintain.drop:drop"),
    "accept": ("cleave.cli.stored:accept", "cleave.maintain.drop:accept"),
    "config": ("cleave.cli.config:config", None),
    "key new": ("cleave.cli.key:new", "cleave.ckks.key_file:create_key"),
    "key show": ("cleave.cli.key:show", None),
    "key passphrase": ("cleave.cli.key:rewrap", None),
    "key wrap": ("cleave.cli.key:wrap", None),
    "key unwrap": ("cleave.cli.key:unwrap", None),
    "key copy": ("cleave.cli.key:copy", None),
    "key split": ("cleave.cli.recovery:split", None),
    "key join": ("cleave.cli.recovery:join", None),
    "key export": ("cleave.cli.key:export", None),
    "key contributor": ("cleave.cli.key:contributor", None),
    "key rotate": ("cleave.cli.key:rotate", "cleave.maintain.rotate:rotate"),
    "scan add": ("cleave.cli.stored:add_scan", "cleave.maintain.derive:add_scan"),
    "scan drop": ("cleave.cli.stored:drop_scan", "cleave.maintain.derive:drop_scan"),
    "analyst new": ("cleave.cli.analysts:new_analyst", None),
    "analyst accept": ("cleave.cli.analysts:accept", None),
    "release new": ("cleave.cli.analysts:new", "cleave.maintain.releases:release"),
    "release ls": ("cleave.cli.analysts:ls", None),
    "release revoke": ("cleave.cli.analysts:revoke", "cleave.maintain.releases:revoke"),
    "reader new": ("cleave.cli.readers:new", None),
    "reader add": ("cleave.cli.readers:add", "cleave.maintain.readers:add_reader"),
    "reader ls": ("cleave.cli.readers:ls", None),
    "reader accept": ("cleave.cli.readers:accept", None),
    "reader revoke": ("cleave.cli.readers:revoke", "cleave.maintain.readers:revoke_reader"),
    "user add": ("cleave.cli.users:add", None),
    "user ls": ("cleave.cli.users:ls", None),
    "user remove": ("cleave.cli.users:remove", None),
    "contributor add": ("cleave.cli.contributors:add", "cleave.maintain.contributors:add_contributor"),
    "contributor ls": ("cleave.cli.contributors:ls", None),
    "contributor collect": ("cleave.cli.contributors:collect", "cleave.maintain.contributors:collect"),
    "contributor clear": ("cleave.cli.contributors:clear", "cleave.maintain.contributors:clear_contributions"),
    "contributor remove": ("cleave.cli.contributors:remove", "cleave.maintain.contributors:remove_contributor"),
}
GROUPS: Final = {
    "key": "Create, show, copy, split, export and rotate keys.",
    "scan": "Store or delete the rows of a table for scans.",
    "analyst": "Create an identity to query released totals.",
    "release": "Release totals of a stored table to analysts.",
    "reader": "Let others query some columns of a stored table.",
    "user": "Manage users of the gateway.",
    "contributor": "Let others add rows to a stored table, and collect them.",
}
# Names in Python that are of no command, by module. `append` and `contribute` are options of `cleave put`.
_MORE: Final = {
    "cleave.api.ask": "Plan UndecidedWarning protect",
    "cleave.api.connection": "Connection Cursor connect",
    "cleave.api.errors": "BINARY Binary DATETIME DataError DatabaseError Date DateFromTicks Error IntegrityError "
    "InterfaceError InternalError NUMBER NotSupportedError OperationalError ProgrammingError ROWID STRING Time "
    "TimeFromTicks Timestamp TimestampFromTicks Warning",
    "cleave.api.result": "Result",
    "cleave.ckks.key_file": "open_key",
    "cleave.ckks.simple": "Question",
    "cleave.maintain.contributors": "contribute",
    "cleave.maintain.facts": "Changed Contribution Pulled StoredTable TableFacts",
    "cleave.maintain.put": "append",
    "cleave.maintain.readers": "ReaderFacts",
    "cleave.models.linear": "LinearModel",
    "cleave.releases.exact": "ExactReleaseFacts",
    "cleave.releases.kind": "ReleaseFacts",
    "cleave.releases.noisy": "NoisyReleaseFacts",
    "cleave.table.schema": "Column Schema load_schema",
    "cleave_shared.errors": "CheckFailed CleaveError CleaveWarning InputError KeyFileError QueryRefused "
    "ServiceError Undecided",
}
# Every public name, by the module that has it
HOMES: Final[dict[str, str]] = {
    **{name: home for home, _, name in (of.partition(":") for _, of in COMMANDS.values() if of)},
    **{name: home for home, names in _MORE.items() for name in names.split()},
}

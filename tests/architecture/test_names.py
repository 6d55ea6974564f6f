"""Every command has a function in `cleave`, and the reverse; the stub has the public names."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from types import FunctionType
from typing import Any, is_typeddict

import cleave
from cleave.ask.options import flags
from cleave.local.main import SERVERS
from cleave.names import COMMANDS, GROUPS, HOMES
from tests.architecture.stub import STUB, stub

# Commands without a function, and why.
NO_FUNCTION = {
    "shell": "for people: programs use `cleave.connect`",
    "config": "sets defaults of this machine",
    **dict.fromkeys(("key show", "key copy", "key export", "key split", "key join"), "keys are kept by people"),
    **dict.fromkeys(("key passphrase", "key wrap", "key unwrap"), "they may ask for a passphrase twice"),
    **dict.fromkeys(("key contributor", "analyst new", "reader new"), "a person makes an identity once"),
    **dict.fromkeys(("analyst accept", "reader accept"), "a person has to ask the owner first"),
    **dict.fromkeys(("release ls", "reader ls", "contributor ls"), "they print what the owner looks up"),
    **dict.fromkeys(("user add", "user ls", "user remove"), "they edit the gateway's file on its machine"),
    **dict.fromkeys(("serve", "gateway"), "they run until they are stopped"),
}
# Functions without a command, and why.
NO_COMMAND = {
    "append": "`cleave put --append`",
    "contribute": "`cleave put --public-key`",
    "connect": "DB-API, for programs",
    "open_key": "for programs that ask the services themselves",
    "load_schema": "reads what `cleave schema` wrote, for programs",
    "protect": "protects the process that calls it; a command always is",
}


def functions() -> set[str]:
    """Public functions, without those that DB-API prescribes for types."""
    public = {name: getattr(cleave, name) for name, home in HOMES.items() if home != "cleave.api.errors"}
    return {name for name, its in public.items() if isinstance(its, FunctionType)}


def function_of(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def operations() -> dict[str, str]:
    """Commands that open stored tables for a public function: its name, by the command's words."""
    named = {words: of.partition(":") for words, (_, of) in COMMANDS.items() if of}
    return {words: name for words, (home, _, name) in named.items() if home.startswith("cleave.maintain.")}


def called(command: FunctionType) -> set[str]:
    """The public functions that a command calls."""
    tree = ast.parse(inspect.getsource(command))
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {each.attr for each in calls if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "cleave"}


def test_every_command_has_a_function() -> None:
    without = {words for words, (_, function) in COMMANDS.items() if function is None}
    assert without | {target.partition(":")[2] for target in SERVERS} == NO_FUNCTION.keys()
    for words, (command, function) in COMMANDS.items():
        assert callable(function_of(command)), words
        assert function is None or function_of(function) is getattr(cleave, function.partition(":")[2]), words
    assert {words.partition(" ")[0] for words in COMMANDS if " " in words} == GROUPS.keys()


def test_every_function_has_a_command() -> None:
    with_command = {function.partition(":")[2] for _, function in COMMANDS.values() if function}
    assert functions() - with_command == NO_COMMAND.keys()
    assert with_command <= functions()


def test_a_command_calls_its_function() -> None:
    for words, name in operations().items():
        also = {"append", "contribute"} if name == "put" else set()
        assert called(function_of(COMMANDS[words][0])) == {name} | also, words


def test_a_command_has_the_options_of_the_functions_that_it_calls() -> None:
    for words in operations():
        command = function_of(COMMANDS[words][0])
        classes = [each.annotation for each in inspect.signature(command, eval_str=True).parameters.values()]
        stated = {option for each in classes if is_typeddict(each) for option in flags(each)}
        taken = [
            each for name in called(command) for each in inspect.signature(getattr(cleave, name)).parameters.values()
        ]
        assert stated == {each.name for each in taken if each.kind is each.KEYWORD_ONLY}, words


def test_all_is_what_is_public() -> None:
    assert sorted(cleave.__all__) == sorted({*HOMES, "apilevel", "paramstyle", "threadsafety"} - {"Warning"})
    assert {*cleave.__all__} <= {*dir(cleave)}


def test_the_stub_has_the_public_names() -> None:
    assert STUB.read_text("utf-8") == stub(), "run `make stub`"

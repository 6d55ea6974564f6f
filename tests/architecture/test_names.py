"""Every command has a function in `cleave`, and the reverse; the stub and the pages have what there is."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, is_typeddict

import typer

import cleave
from cleave.ask.options import Asking, flags
from cleave.cli.app import create_cli
from cleave.cli.group import ANYWHERE
from cleave.local.embedded import embedded_services
from cleave.local.main import SERVERS
from cleave.names import COMMANDS, GROUPS, HOMES
from tests.architecture.stub import STUB, stub
from tests.architecture.test_pages import PAGES

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


def options() -> dict[str, set[str]]:
    """Options of each command, by its words."""
    found = {}

    def walk(group: Any, before: str) -> None:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                walk(command, f"{name} ")
            else:
                given = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
                found[before + name] = {each.strip() for each in given} | {*ANYWHERE, "--help"}

    walk(typer.main.get_group(create_cli(embedded_services, more=SERVERS)), "")
    return found


def commands_in(page: Path) -> list[str]:
    """Calls of `cleave` in a page's code, one a line, without quoted words and comments."""
    text = page.read_text("utf-8").replace("\\\n", " ")
    code = re.findall(r"^```.*?^```|(?<!`)`[^`\n]+`", text, re.MULTILINE | re.DOTALL)
    lines = [re.sub(r"'[^']*'|\"[^\"]*\"", "_", line) for each in code for line in each.strip("`").splitlines()]
    return [call for line in lines for call in re.findall(r"\bcleave ([a-z][^|;&#)]*)", line)]


def test_pages_name_options_that_the_command_has() -> None:
    known, seen = options(), 0
    for page in PAGES:
        for call in commands_in(page):
            words = call.split()
            name = next((each for each in (" ".join(words[:2]), words[0]) if each in known), None)
            given = {each.partition("=")[0] for each in words if re.match(r"-o$|--[a-z]", each)}
            if name is None:
                assert not given or words[0] in GROUPS, f"{page.name}: cleave {call}"
                continue
            seen += len(given)
            assert given <= known[name], f"{page.name}: cleave {call}: {sorted(given - known[name])}"
    assert seen > 200


def test_the_page_on_python_has_the_arguments_of_a_query() -> None:
    (page,) = (each for each in PAGES if each.name == "python.md")
    table = page.read_text("utf-8").partition("| argument | |\n")[2].partition("\n\n")[0]
    named = [name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(flags(Asking).keys() - {"say"})

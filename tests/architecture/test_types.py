"""The name of a type has one meaning in the client, the services and what they share."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.architecture.test_imports import PACKAGES, SOURCES, module_of


def types(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Classes, private ones too, and public aliases of types. Constants and generic type variables are in capitals."""
    for node in body:
        match node:
            case ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if name[0].isupper() and not name.isupper():
                    yield name
            case ast.If(body=chosen):  # of TYPE_CHECKING or the platform: `else` has the same names
                yield from types(chosen)


def test_a_name_of_a_type_is_defined_once() -> None:
    modules: defaultdict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in SOURCES[package]:
            for name in types(ast.parse(path.read_text("utf-8")).body):
                modules[name].append(module_of(path, package))
    assert len(modules) > 700
    assert {name: where for name, where in modules.items() if len(where) > 1} == {}

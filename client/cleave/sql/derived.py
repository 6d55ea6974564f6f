"""Derived columns in a question: each name stands for its expression, in brackets."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from cleave.sql.catalog import Catalog
from cleave.sql.dialect import column
from cleave.sql.encryptable import stays_here
from cleave.sql.parse import parse
from cleave.table.derived import Derived
from cleave.table.schema import Kind, Schema
from cleave_shared.errors import QueryRefused


class Expressions:
    """Of the derived columns of a schema, made when they are named. `usable`: the columns a question may read."""

    def __init__(self, schema: Schema, catalog: Catalog, *, cloud_only: bool = False) -> None:
        self._schema = schema
        self._catalog = catalog
        self._cloud_only = cloud_only
        self.names: Mapping[str, Derived] = {each.name.lower(): each for each in schema.derived}

    def find(self, name: str) -> exp.Expression | None:
        """What a derived column stands for, None where there is none of that name. Raises QueryRefused."""
        derived = self.names.get(name.lower())
        if derived is None:
            return None
        if self._cloud_only:
            for each in map(self._schema.column, derived.columns):
                if each.kind in (Kind.SEALED, Kind.LOCAL):
                    raise stays_here(each)
        text = f"SELECT {derived.sql} FROM t"
        try:
            question = parse(text, "t", [each.name for each in self._schema.columns])
            self._catalog.require_same(question.text, question.rewritten)
        except QueryRefused as error:
            raise QueryRefused(f"[derived.{derived.name}] sql: {error}", hint=error.hint) from None
        root = exp.Paren(this=question.items[0].expression.copy())
        for found in list(root.find_all(exp.Column)):
            found.replace(column(self._schema.column(found.name).name))
        for call in root.find_all(exp.Anonymous):
            call.set("this", call.name.lower())
        return root

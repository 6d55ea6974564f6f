"""Derived columns in a question: each name stands for its expression."""

from __future__ import annotations

from collections.abc import Mapping

from cleave.sql.encryptable import stays_here
from cleave.sql.nodes import Column, Node
from cleave.sql.parse import parse
from cleave.table.derived import Derived
from cleave.table.schema import Kind, Schema
from cleave_shared.errors import QueryRefused


class Expressions:
    """Of the derived columns of a schema, made when they are named. `usable`: the columns a question may read."""

    def __init__(self, schema: Schema, *, cloud_only: bool = False) -> None:
        self._schema = schema
        self._cloud_only = cloud_only
        self.names: Mapping[str, Derived] = {each.name.lower(): each for each in schema.derived}

    def find(self, name: str) -> Node | None:
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
            question = parse(text, "t")
        except QueryRefused as error:
            raise QueryRefused(f"[derived.{derived.name}] sql: {error}", hint=error.hint) from None
        return question.items[0].expression.replaced(
            lambda node: Column((self._schema.column(node.name).name,)) if isinstance(node, Column) else None
        )

"""Operations of a service, by path: one table for Lambda, `cleave serve` and a client with the service in it."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from pydantic import BaseModel

from cleave_services import bodies
from cleave_services.bodies import Note, Reply
from cleave_shared import wire

if TYPE_CHECKING:
    from cleave_services.links import Links


class Operation:
    """Handling of POSTs to `path`, which may hold {set}, a stored table's.

    `target` is module:function, imported when it is first asked, for a client with this service in it asks few of its
    operations: work(asked, note) or, of a stored table, work(asked, note, table_set, links). Its annotations say
    what it reads and what it answers with.
    """

    def __init__(self, path: str, target: str) -> None:
        self.path = path
        self._target = target
        self.name = target.rpartition(":")[2]
        self.pattern = re.compile(re.escape(path).replace(r"\{set\}", "([^/]+)"))

    @property
    def work(self) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(importlib.import_module(self._target.partition(":")[0]), self.name)
        return found

    @cached_property
    def models(self) -> tuple[type[BaseModel], type[BaseModel]]:
        hints = get_type_hints(self.work)
        asked, answer = hints["asked"], hints["return"]
        return asked, next(iter(get_args(answer)), answer)  # perhaps one that may be `Large`

    def answer(self, asked: BaseModel, note: Note, table_set: str | None, links: Callable[[], Links]) -> Any:
        """Raises what its work raises; `links` are asked for where there is a set."""
        return self.work(asked, note) if table_set is None else self.work(asked, note, table_set, links())


class Service:
    """`operations`: targets by path. `prepare` is called before the first request of a process that serves many."""

    def __init__(
        self, name: str, description: str, operations: Mapping[str, str], prepare: Callable[[], None] = lambda: None
    ) -> None:
        self.name = name
        self.description = description
        self.operations = [Operation(path, target) for path, target in operations.items()]
        self.prepare = prepare

    def call(self, path: str, body: wire.Body, kind: str, links: Callable[[], Links]) -> Reply:
        """One POST answered in its own media type, past HTTP. Raises nothing; nothing is logged."""
        found = ((operation, operation.pattern.fullmatch(path)) for operation in self.operations)
        operation, match = next(((each, match) for each, match in found if match), (None, None))
        if operation is None or match is None:
            return bodies.problem(404, "Not Found")
        try:
            asked, mark = bodies.load(body, kind, operation.models[0])
            return bodies.dump(operation.answer(asked, _forget, next(iter(match.groups()), None), links), mark, kind)
        except Exception as error:  # noqa: BLE001 - its message may quote values
            return bodies.refusal(error)


def _forget(**_numbers: float | Mapping[str, float]) -> None:
    pass

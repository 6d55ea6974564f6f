"""Operations of a service, by path: one table for Lambda, `cleave serve` and embedded services."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from cleave_services import bodies
from cleave_services.bodies import Note, Received, ServiceAnswer
from cleave_shared import wire
from cleave_shared.messages import Message

if TYPE_CHECKING:
    from cleave_services.links import Links


class Operation:
    """Handling of POSTs to `path`, which may contain {set}, a stored table's set.

    `target` is module:function, imported at its first call, since an embedded service needs few operations. It is
    called as work(request, note, links); `links` are None without {set}. Its annotations name the models of request and
    answer.
    """

    def __init__(self, path: str, target: str) -> None:
        self.path = path
        self._target = target
        self.name = target.rpartition(":")[2]
        self.pattern = re.compile(re.escape(path).replace(r"\{set\}", "([^/]+)"))

    @property
    def work(self) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(importlib.import_module(self._target.partition(":")[0]), self.name)
        return function

    @cached_property
    def models(self) -> tuple[type[Message], type[Message]]:
        hints = get_type_hints(self.work)
        request, answer = hints["request"], hints["return"]
        return request, next(iter(get_args(answer)), answer)  # of "Message | Large", the first

    def answer(self, received: Received, note: Note, table_set: str | None, links: Callable[[], Links]) -> Any:
        """Run the work, with links if there is a set. Raises its errors."""
        return self.work(received.request, note, links().below(table_set) if table_set is not None else None)


class ServiceHandler:
    """`operations`: targets by path. `prepare` is called before the first request of a process that serves many."""

    def __init__(
        self, name: str, description: str, operations: Mapping[str, str], prepare: Callable[[], None] = lambda: None
    ) -> None:
        self.name = name
        self.description = description
        self.operations = [Operation(path, target) for path, target in operations.items()]
        self.prepare = prepare

    def call(self, path: str, body: wire.Body, kind: str, links: Callable[[], Links]) -> ServiceAnswer:
        """Answer a POST without HTTP, in its own media type. Raises nothing and logs nothing."""
        for operation in self.operations:
            if match := operation.pattern.fullmatch(path):
                try:
                    received = bodies.load(body, kind, operation.models[0])
                    answer = operation.answer(
                        received, dict[str, Any]().update, next(iter(match.groups()), None), links
                    )
                    return received.answer(answer, kind)
                except Exception as error:  # noqa: BLE001 - its message may quote values
                    return bodies.refusal(error)
        return bodies.problem(404, "Not Found")

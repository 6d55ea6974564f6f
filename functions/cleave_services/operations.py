"""What a service does, by path."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from functools import cached_property
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel

HEALTH, DOCUMENT = "/v1/health", "/openapi.json"


class Health(BaseModel):
    service: str
    version: int


class Operation:
    """What is done with POSTs to `path`, which may hold {set}, a stored table's.

    `target` is module:function, imported when it is first asked, for a client with this service in it asks few of its
    operations: work(asked, note) or, of a stored table, work(asked, note, table_set, links). Its annotations say
    what it reads and what it answers with.
    """

    def __init__(self, path: str, target: str) -> None:
        self.path = path
        self._target = target
        self.pattern = re.compile(re.escape(path).replace(r"\{set\}", "(?P<set>[^/]+)"))

    @property
    def work(self) -> Callable[..., Any]:
        module, _, name = self._target.partition(":")
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return found

    @cached_property
    def models(self) -> tuple[type[BaseModel], type[BaseModel]]:
        hints = get_type_hints(self.work)
        asked, answer = hints["asked"], hints["return"]
        return asked, next(iter(get_args(answer)), answer)  # perhaps one that may be `Large`

"""FastAPI and Mangum, imported at a third of their price: `from cleave_services.web import FastAPI`.

FastAPI declares the forty models of an OpenAPI document while it is imported, and building their validators takes most
of that time. Pydantic's own setting `defer_build` is on meanwhile, and `model_rebuild` waits too, so that each is built
when it is first used: when somebody reads /openapi.json. Garbage is not looked for among modules. A program that has
imported FastAPI before has paid already, and nothing changes for it.
"""

from __future__ import annotations

import gc
from typing import Any

from mangum import Mangum
from pydantic import BaseModel

_REBUILD: Any = vars(BaseModel)["model_rebuild"]


def _rebuild_if_used(cls: type[BaseModel], /, **how: Any) -> bool | None:
    """Rebuild a model that is used, which pydantic asks for by arguments, and none that is only declared."""
    if not how:
        return None
    how["_parent_namespace_depth"] += 1
    rebuilt: bool | None = _REBUILD.__func__(cls, **how)
    return rebuilt


_collects = gc.isenabled()
gc.disable()
BaseModel.model_config["defer_build"] = True
BaseModel.model_rebuild = classmethod(_rebuild_if_used)  # type: ignore[assignment,method-assign]
try:
    from fastapi import FastAPI, Request, Response
    from fastapi.exceptions import RequestValidationError
    from fastapi.openapi.utils import get_openapi
    from fastapi.routing import APIRoute
finally:
    BaseModel.model_rebuild = _REBUILD  # type: ignore[method-assign]
    del BaseModel.model_config["defer_build"]
    if _collects:
        gc.enable()

__all__ = ["APIRoute", "FastAPI", "Mangum", "Request", "RequestValidationError", "Response", "get_openapi"]

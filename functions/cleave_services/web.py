"""FastAPI and Mangum, imported at two thirds of their price: `from cleave_services.web import FastAPI`.

FastAPI declares the forty models of an OpenAPI document while it is imported, and building their validators takes most
of that time. Pydantic's setting `defer_build` is on meanwhile, so that each is built when it is first used.
"""

from __future__ import annotations

from mangum import Mangum
from pydantic import BaseModel

BaseModel.model_config["defer_build"] = True
try:
    from fastapi import FastAPI, Request, Response
    from fastapi.exceptions import RequestValidationError
    from fastapi.openapi.utils import get_openapi
    from fastapi.routing import APIRoute
finally:
    del BaseModel.model_config["defer_build"]

__all__ = ["APIRoute", "FastAPI", "Mangum", "Request", "RequestValidationError", "Response", "get_openapi"]

"""FastAPI and Mangum, imported in two thirds of the time: `from cleave_services.web import FastAPI`.

On import FastAPI declares the forty models of an OpenAPI document; building their validators takes most of the time.
Pydantic's setting `defer_build` is on during the import, so each is built at first use.
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

"""FastAPI and Mangum, imported at half their price: `from cleave_services.web import FastAPI`.

FastAPI declares the forty models of an OpenAPI document while it is imported, and building their validators takes most
of that time. Pydantic's own setting `defer_build` is on meanwhile, so that each is built when it is first used: when
somebody reads /openapi.json. A program that has imported FastAPI before has paid already, and nothing changes for it.
"""

from __future__ import annotations

from mangum import Mangum
from pydantic import BaseModel

BaseModel.model_config["defer_build"] = True
try:
    from fastapi import FastAPI, Request, Response
    from fastapi.exceptions import RequestValidationError
finally:
    del BaseModel.model_config["defer_build"]

__all__ = ["FastAPI", "Mangum", "Request", "RequestValidationError", "Response"]

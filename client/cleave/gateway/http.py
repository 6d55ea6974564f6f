"""The gateway over HTTP: `POST /v1/query` with a bearer token, for clients without PostgreSQL's protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from cleave.front.http import Limits
from cleave.gateway import work
from cleave.gateway.refusal import Refused
from cleave.gateway.workers import ClientGone, Workers, reply_while_connected
from cleave.logins.users import User, Users
from cleave_shared.errors import CleaveError
from cleave_shared.version import VERSION as RELEASE

_MOST_CHARACTERS: Final = 1 << 20  # of a statement; cleave.sql.read allows fewer
_MOST_BODY: Final = 4 * _MOST_CHARACTERS
_ARROW: Final = "application/vnd.apache.arrow.stream"


_PROBLEM: Final = "application/problem+json"
_REFUSALS: Final = {
    400: "The question is refused.",
    401: "No token, or one that is not known.",
    408: "The request did not arrive in time.",
    413: "The body is too large.",
    421: "The Host is no name of this gateway.",
    422: "The body is no query.",
    431: "The headers are too large.",
    503: "Too many requests are under way.",
}


class Query(BaseModel):
    """A query of one SELECT.

    `parameters`: a value for each `?`. `bounds`: add a column NAME_bound after each inexact column.
    """

    model_config = ConfigDict(extra="forbid")

    sql: str = Field(min_length=1, max_length=_MOST_CHARACTERS)
    parameters: list[bool | int | float | str | None] = Field(default=[], max_length=10_000)
    bounds: bool = False
    format: Literal["json", "arrow"] = "json"


class AnswerColumn(BaseModel):
    """A column of an answer. `type`: DuckDB's name."""

    name: str
    type: str


class QueryAnswer(BaseModel):
    """Rows of texts that DuckDB can read as their columns' types, or null."""

    columns: list[AnswerColumn]
    rows: list[list[str | None]]
    warnings: list[str]


class ProblemDetails(BaseModel):
    """An error (RFC 9457)."""

    title: str
    status: int
    detail: str


def application(workers: Workers) -> FastAPI:
    """The whole application, to be served behind `limited`. Its description is at /openapi.json."""
    app = FastAPI(title="Cleave gateway", version=RELEASE, docs_url=None, redoc_url=None)
    app.openapi = lambda: _with_problems(FastAPI.openapi(app))  # type: ignore[method-assign]

    @app.exception_handler(RequestValidationError)
    async def refuse(_: Request, error: RequestValidationError) -> Response:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        return _problem(422, f"{where} is not valid")

    app.add_middleware(_TokenCheck)

    @app.get("/health", responses={503: {"description": "No worker has the key and a way to the store."}})
    async def health(response: Response) -> dict[str, str]:
        status = await workers.health()
        response.status_code = 503 if status == "failed" else 200
        return {"status": status}

    @app.post(
        "/v1/query",
        response_model=QueryAnswer,
        responses={
            200: {"content": {_ARROW: {}}, "description": "The answer, as JSON or as an Arrow stream."},
            **{status: {"model": ProblemDetails, "description": each} for status, each in _REFUSALS.items()},
        },
        dependencies=[Depends(HTTPBearer(auto_error=False, description="A token of `cleave user add --token`."))],
    )
    async def query(body: Query, request: Request) -> Response:
        name, user = request.state.user  # set by `limited`
        settings = {"user": name, "pid": "0"}
        statement = work.Request(body.sql, tuple(body.parameters), settings, body.bounds, form=body.format)
        asking = asyncio.ensure_future(workers.ask(name, user, statement))
        try:
            reply = await reply_while_connected(asking, request.is_disconnected)
        except ClientGone:
            return _problem(499, "the client has gone")
        except Refused as error:
            return _problem(400, str(error))
        if body.format == "arrow":
            return Response(reply.frames[0][1], media_type=_ARROW)
        columns = [{"name": each, "type": type_} for each, type_ in reply.columns]
        head = json.dumps({"columns": columns, "warnings": reply.warnings})
        rows = b",".join(content for _, content in reply.frames)
        return Response(b'%s,"rows":[%s]}' % (head[:-1].encode(), rows), media_type="application/json")

    return app


def _with_problems(document: dict[str, Any]) -> dict[str, Any]:
    """`document` with the media type of refusals instead of FastAPI's."""
    for status, response in document["paths"]["/v1/query"]["post"]["responses"].items():
        if int(status) >= 400 and "application/json" in response["content"]:
            response["content"] = {_PROBLEM: response["content"]["application/json"]}
    return document


class _TokenCheck:
    """Refuses a query without a user's token before its body is read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        application = self._app
        if scope["type"] == "http" and _is_query(scope) and scope["state"]["user"] is None:
            application = _problem(401, "a bearer token is needed", headers={"www-authenticate": "Bearer"})
        await application(scope, receive, send)


def limited(application: ASGIApp, users: Callable[[], Users], is_name: Callable[[str], bool]) -> Limits:
    """`application` with the gateway's limits. A query takes its connection for its user, and finds the user in its
    state.
    """

    def user_of(scope: Scope) -> str | None:
        scope["state"]["user"] = user = _user(Headers(scope=scope), users) if _is_query(scope) else None
        return user and user[0]

    return Limits(
        application,
        problem=_problem,
        most_body=_MOST_BODY,
        user_of=user_of,
        is_name=is_name,
        host_hint="cleave gateway --allow-host NAME lets one in",
    )


def _is_query(scope: Scope) -> bool:
    return bool(scope["path"] == "/v1/query" and scope["method"] == "POST")


def _user(headers: Headers, users: Callable[[], Users]) -> tuple[str, User] | None:
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not 20 < len(token) < 200:
        return None
    try:
        return users().with_token(token.strip())
    except CleaveError:  # of the users file, which changed
        return None


def _problem(status: int, detail: str, hint: str = "", headers: Mapping[str, str] | None = None) -> Response:
    text = f"{detail} ({hint})" if hint else detail
    content = ProblemDetails(title="refused", status=status, detail=text).model_dump_json()
    return Response(content, status, headers, media_type=_PROBLEM)

"""Use stored tables from SQLAlchemy, without a gateway: `create_engine("cleave:///path/of/the/store")`.

    cleave:///tables                                a folder; ////srv/tables for an absolute one
    cleave://bucket/prefix                          s3://bucket/prefix
    cleave:///tables?key=key.json&min_group=5       any argument of `cleave.connect`

Tables can only be read, and there are no transactions: each statement reads the newest version of each table. pandas,
polars and JupySQL use this module. It needs SQLAlchemy 2. Superset has 1.4, and connects to the gateway instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cleave
from cleave.ask.options import Asking, flags
from cleave_shared.errors import InputError, extra

with extra("sqlalchemy", "SQLAlchemy's engines"):
    import sqlalchemy
    from sqlalchemy import pool, types
    from sqlalchemy.engine import URL, Connection, default, reflection
    from sqlalchemy.exc import NoSuchTableError

if not hasattr(types, "Double"):
    raise InputError(
        f"cleave:// needs SQLAlchemy 2, and {sqlalchemy.__version__} is installed",
        hint="with SQLAlchemy 1.4, connect to `cleave gateway` by postgresql://",
    )

_TYPES: Mapping[str, type[types.TypeEngine[Any]]] = {
    "BOOLEAN": types.Boolean,
    "TINYINT": types.SmallInteger,
    "SMALLINT": types.SmallInteger,
    "INTEGER": types.Integer,
    "BIGINT": types.BigInteger,
    "HUGEINT": types.Numeric,
    "UTINYINT": types.SmallInteger,
    "USMALLINT": types.Integer,
    "UINTEGER": types.BigInteger,
    "UBIGINT": types.Numeric,
    "UHUGEINT": types.Numeric,
    "FLOAT": types.Float,
    "DOUBLE": types.Double,
    "DATE": types.Date,
    "TIME": types.Time,
    "BLOB": types.LargeBinary,
}
_TEXTS = ("key", "profile", "region", "endpoint", "functions", "fetch_limit", "memory")
_NUMBERS = {"min_group": int, "timeout": float}


class CleaveDialect(default.DefaultDialect):
    """Compiles SQLAlchemy's queries to DuckDB's SQL, for statements that are one SELECT."""

    name = "cleave"
    driver = "cleave"
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_sane_rowcount = False
    postfetch_lastrowid = False
    default_paramstyle = "qmark"
    # what DB-API gives is what there is: dates are dates, decimals are Decimal
    colspecs: dict[Any, Any] = {}  # noqa: RUF012 - SQLAlchemy's attribute

    @classmethod
    def import_dbapi(cls) -> Any:
        return cleave

    @classmethod
    def get_pool_class(cls, url: URL) -> type[pool.Pool]:  # noqa: ARG003 - SQLAlchemy's signature
        return pool.QueuePool

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of `connect`. Raises InputError for an argument that it does not take."""
        place = url.database or ""
        asking: dict[str, Any] = {"store": f"s3://{url.host}/{place}".rstrip("/") if url.host else place or None}
        for name, value in url.query.items():
            if name not in flags(Asking) or name == "store":
                raise InputError(
                    f"a cleave:// address takes no {name!r}", hint="it takes the options of cleave.connect"
                )
            given = value if isinstance(value, str) else value[-1]
            if name in _TEXTS:
                asking[name] = given
            elif name in _NUMBERS:
                try:
                    asking[name] = _NUMBERS[name](given)
                except ValueError:
                    raise InputError(f"{name} takes a number") from None
            elif given.lower() in ("true", "false", "1", "0"):
                asking[name] = given.lower() in ("true", "1")
            else:
                raise InputError(f"{name} takes true or false")
        if url.password is not None:
            asking["passphrase"] = str(url.password)
        return [], asking

    def initialize(self, connection: Connection) -> None:
        """Do nothing: SQLAlchemy would query a server for facts that are not needed here."""

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Do nothing: statements only read."""

    def do_commit(self, dbapi_connection: Any) -> None:
        """Do nothing: statements only read."""

    def do_ping(self, dbapi_connection: Any) -> bool:
        dbapi_connection.cursor().close()
        return True

    def _nothing(self, *_args: Any, **_kwargs: Any) -> Any:
        return []

    get_schema_names = get_view_names = get_foreign_keys = _nothing
    get_indexes = get_unique_constraints = get_check_constraints = _nothing

    @reflection.cache
    def get_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return [] if schema else list(_schemas(connection))

    def has_table(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        return not schema and table_name.lower() in map(str.lower, _schemas(connection))

    @reflection.cache
    def get_columns(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        for name, described in _schemas(connection).items():
            if not schema and name.lower() == table_name.lower():
                return [
                    {
                        "name": each.name,
                        "type": _type_of(each.type, each.decimals),
                        "nullable": each.nullable,
                        "default": None,
                        "comment": str(each.kind),
                    }
                    for each in described.columns
                ]
        raise NoSuchTableError(table_name)

    def get_pk_constraint(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return {"constrained_columns": [], "name": None}

    def get_table_comment(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return {"text": None}


def _schemas(connection: Connection) -> Mapping[str, Any]:
    held = connection.connection.dbapi_connection
    if not isinstance(held, cleave.Connection):
        raise TypeError("not a connection of Cleave's")
    return held.schemas


def _type_of(duck: str, decimals: int | None) -> types.TypeEngine[Any]:
    if duck.startswith("DECIMAL"):
        return types.Numeric(scale=decimals)
    if duck.startswith("TIMESTAMP"):
        return types.DateTime(timezone="ZONE" in duck)
    return _TYPES.get(duck, types.Text)()

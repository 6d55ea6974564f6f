"""What Superset asks: `python bi.py` in its environment, with libpq's environment.

Before: `SUPERSET_CONFIG_PATH` names a file with SECRET_KEY and SQLALCHEMY_DATABASE_URI; run `superset db upgrade` and
`superset init`, and make a user `admin` with the password `admin`.
"""

import os
from urllib.parse import quote

from superset.app import create_app

env = os.environ
WHERE = f"{env['PGHOST']}:{env['PGPORT']}/{env['PGDATABASE']}"
URI = f"postgresql+psycopg2://{env['PGUSER']}:{quote(env.get('PGPASSWORD', ''))}@{WHERE}"
TOTAL = {"expressionType": "SIMPLE", "column": {"column_name": "bill"}, "aggregate": "SUM", "label": "total"}
COUNT = {"expressionType": "SQL", "sqlExpression": "COUNT(*)", "label": "n"}
MONTH = {"timeGrain": "P1M", "columnType": "BASE_AXIS", "sqlExpression": "day", "label": "day", "expressionType": "SQL"}
QUERIES: tuple[dict[str, object], ...] = (
    {
        "columns": ["ward"],
        "metrics": [TOTAL, COUNT],
        "filters": [{"col": "id", "op": ">", "val": 1}],
        "orderby": [["ward", True]],
    },
    {"columns": ["id", "name", "insured", "zoned", "gap"], "row_limit": 5, "orderby": [["id", True]]},
    {
        "columns": [MONTH],
        "metrics": [COUNT],
        "granularity": "day",
        "time_range": "2000-01-01 : 2003-01-01",
        "orderby": [["day", True]],
    },
    {
        "columns": ["id"],
        "metrics": [COUNT],
        "granularity": "seen",
        "time_range": "1970-01-01 : 1971-01-01",
        "orderby": [["id", True]],
    },
)

with create_app().test_client() as client:
    who = {"username": "admin", "password": "admin", "provider": "db", "refresh": True}
    token = client.post("/api/v1/security/login", json=who).json["access_token"]

    def call(method, path, **given):
        answer = getattr(client, method)(f"/api/v1/{path}", headers={"Authorization": f"Bearer {token}"}, **given)
        print(method, path, answer.status_code)
        assert answer.status_code < 300, answer.json
        return answer.json

    call("post", "database/test_connection/", json={"sqlalchemy_uri": URI, "database_name": "trial"})
    database = call("post", "database/", json={"database_name": f"trial {os.getpid()}", "sqlalchemy_uri": URI})["id"]
    call("get", f"database/{database}/schemas/")
    call("get", f"database/{database}/tables/?q=(schema_name:public)")
    call("get", f"database/{database}/table_metadata/?name=stays&schema=public")
    dataset = call("post", "dataset/", json={"database": database, "schema": "public", "table_name": "stays"})["id"]
    source = {
        "datasource": {"id": dataset, "type": "table"},
        "force": True,
        "result_format": "json",
        "result_type": "full",
    }
    for query in QUERIES:
        call("post", "chart/data", json=source | {"queries": [query]})
    sql = "SELECT ward, max(level) AS highest FROM stays GROUP BY ward ORDER BY ward"
    call("post", "sqllab/execute/", json={"database_id": database, "sql": sql, "schema": "public", "runAsync": False})

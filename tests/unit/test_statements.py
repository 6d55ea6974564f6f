"""Where a statement ends."""

from __future__ import annotations

import pytest

from cleave.sql.read import split_statements


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("", [], ""),
        ("  \n", [], ""),
        (";;;", [], ""),
        ("SELECT 1", [], "SELECT 1"),
        ("SELECT 1;", ["SELECT 1"], ""),
        ("SELECT 1; SELECT 2 ;\n", ["SELECT 1", "SELECT 2"], ""),
        ("SELECT 1; SELECT", ["SELECT 1"], " SELECT"),
        ("SELECT ';'; x", ["SELECT ';'"], " x"),
        ("SELECT ';", [], "SELECT ';"),
        ("SELECT ''';' ;", ["SELECT ''';'"], ""),
        ("SELECT e'\\';';", ["SELECT e'\\';'"], ""),
        ('SELECT "a;b";', ['SELECT "a;b"'], ""),
        ("SELECT $$a;b$$;", ["SELECT $$a;b$$"], ""),
        ("SELECT $x$a;$$b$x$;", ["SELECT $x$a;$$b$x$"], ""),
        ("SELECT 1 -- it's; \n;", ["SELECT 1 -- it's;"], ""),
        ("SELECT 1 -- ;", [], "SELECT 1 -- ;"),
        ("SELECT 1; -- the end", ["SELECT 1"], ""),
        ("-- nothing", [], ""),
        ("/* ; */ SELECT 1;", ["/* ; */ SELECT 1"], ""),
        ("/* /* ; */ ; */ SELECT 1;", ["/* /* ; */ ; */ SELECT 1"], ""),
        ("/* ; SELECT 1;", [], "/* ; SELECT 1;"),
        ("SELECT 'é\N{GRINNING FACE};' ; b;", ["SELECT 'é\N{GRINNING FACE};'", "b"], ""),
    ],
)
def test_statements_end_at_semicolons_that_are_sql(text: str, statements: list[str], rest: str) -> None:
    assert split_statements(text) == (statements, rest)

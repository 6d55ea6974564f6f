"""Where one statement ends and the next begins."""

from __future__ import annotations

from cleave_shared import duckdb


def split_statements(text: str) -> tuple[list[str], str]:
    """The statements that a semicolon ends, without it, and what follows the last one.

    A semicolon within quotes, dollar quotes or a comment ends nothing; where one of these is still open, all of the
    text follows. Empty statements are left out, and comments that nothing follows.
    """
    content = text.encode()
    tokens = duckdb.tokenize(text)
    if tokens and tokens[-1][1] == duckdb.token_type.comment:
        last = content[tokens[-1][0] :]
        if last.count(b"/*") > last.count(b"*/"):
            return [], text
    statements, start, filled = [], 0, False
    for place, kind in tokens:
        if kind == duckdb.token_type.operator and content[place : place + 1] == b";":
            if filled:
                statements.append(content[start:place].decode().strip())
            start, filled = place + 1, False
        else:
            filled = filled or kind != duckdb.token_type.comment
    return statements, content[start:].decode() if filled else ""

"""Where one statement ends and the next begins."""

from __future__ import annotations

from sqlglot import TokenType
from sqlglot.errors import TokenError

from cleave.sql.dialect import FaithfulDuckDB


def split_statements(text: str) -> tuple[list[str], str]:
    """The statements that a semicolon ends, without it, and what follows the last one.

    A semicolon within quotes, dollar quotes or a comment ends nothing; where one of these is still open, all of the
    text follows. Empty statements are left out, and comments that nothing follows.
    """
    try:
        tokens = FaithfulDuckDB().tokenize(text)
    except TokenError:
        return [], text
    statements, start, filled = [], 0, False
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON:
            filled = True
            continue
        if filled:
            statements.append(text[start : token.start].strip())
        start, filled = token.end + 1, False
    return statements, text[start:] if filled else ""

"""The error of a statement that is not answered."""

from __future__ import annotations


class Refused(Exception):  # noqa: N818 - named for what happened
    """A statement that is not answered. The message is for the client. `code`: PostgreSQL's SQLSTATE. `at`: index in
    the statement of the first character that the message is about.
    """

    def __init__(self, message: str, hint: str | None = None, code: str = "57014", at: int | None = None) -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.message = message
        self.hint = hint or ""
        self.code = code
        self.at = at

"""Errors that are meant to be read by a person.

Every message is one sentence that names the field, says what was wrong and what is allowed. The command line
prints it and exits with 2; a page shows it in place of the figure.
"""

from __future__ import annotations


class LabError(ValueError):
    """A mistake in what was asked for; ``field`` names the part of the request that is wrong."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field

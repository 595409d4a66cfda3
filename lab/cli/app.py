"""The command line itself, and how it speaks of mistakes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from lab.errors import LabError

app = typer.Typer(
    help="Where in a Transformer should one put a step of heat smoothing?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@contextmanager
def spoken_errors() -> Iterator[None]:
    """A mistake in what was asked for is one sentence on stderr and exit status 2, never a traceback."""
    try:
        yield
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(2) from None

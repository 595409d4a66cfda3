"""The lab from a terminal, through the same store and the same engine as the pages."""

from lab.cli import evidence, training  # they add their commands
from lab.cli.app import app

__all__ = ["app", "evidence", "training"]

"""Requests to runs to results: a client for pages and commands, and the engine process that trains.

:class:`Engine` is all that pages and the command line need; importing it loads neither torch nor Dask.
"""

from lab.engine.client import Engine, EngineStatus, RunState, WorkerState

__all__ = ["Engine", "EngineStatus", "RunState", "WorkerState"]

"""What the lab keeps on disk: results, weights, requests and failures.

The folder is ``LAB_CACHE``, or ``cache/`` beside the package; mode 0700.

=====================================  ==================================================================
``db/cache.db``                        diskcache; text keys, JSON text values, never pickle
``blobs/<2>/<sha256>.safetensors``     arrays and weights, named by the sha256 of their bytes; the run's
                                       result is repeated in the file's metadata
``aside/``                             what could not be read, kept, and ``notices.txt``, one sentence each
``engine.lock``, ``engine.log``        held and written by the engine process
``live.json``, ``clients/``            what the engine says of itself; who is there to want its work
``checkpoints/``                       where long runs stand, so that they go on; see :mod:`lab.checkpoints`
=====================================  ==================================================================

Under it lies the starter study that ships with the lab (``LAB_STARTER``), read only: see :mod:`lab.store.starter`.

Keys of the database: ``result/<run>`` and ``blob/<run>`` of a finished run, ``failure/<run>``, ``anew/<run>`` of a shipped
run that is wanted with its weights, ``request/<id>`` (state) and ``plan/<id>`` (the runs asked for); ``aside/…`` for rows
that could not be read; ``begun``, when the database was started.
"""

from lab.store.database import UNREADABLE, StoreError
from lab.store.requests import Request
from lab.store.store import Store, default_path

__all__ = ["UNREADABLE", "Request", "Store", "StoreError", "default_path"]

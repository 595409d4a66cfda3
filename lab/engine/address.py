"""Where the work is done: the embedded cluster, or the scheduler that ``LAB_SCHEDULER`` names.

Its workers need the lab installed, and no folder in common with this machine. What they do need on their own is fetched
data (``python -m lab fetch text`` there) and the release's files; a run whose data is missing fails with a sentence that
says so. The reader's own data is sent to them.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from urllib.parse import urlsplit

from lab.errors import LabError


@dataclass(frozen=True)
class Scheduler:
    """An existing Dask scheduler; the three paths are those of the TLS credentials."""

    address: str
    ca: str | None
    cert: str | None
    key: str | None

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted and both sides show a certificate."""
        return self.address.startswith("tls://")


def scheduler_from_environment() -> Scheduler | None:
    """The scheduler of ``LAB_SCHEDULER`` with ``LAB_TLS_CA``, ``LAB_TLS_CERT`` and ``LAB_TLS_KEY``; None without.

    A scheduler takes code from whoever reaches it, so one without TLS beyond this machine raises :class:`LabError`
    unless ``LAB_ALLOW_INSECURE_SCHEDULER=1``.
    """
    address = os.environ.get("LAB_SCHEDULER", "").strip()
    if not address:
        return None
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or not port or parts.scheme not in ("tcp", "tls"):
        raise LabError(
            f"LAB_SCHEDULER is {address!r}; it must look like tls://host:8786 or tcp://host:8786.", "LAB_SCHEDULER"
        )
    if parts.scheme == "tcp" and not _loopback(host) and os.environ.get("LAB_ALLOW_INSECURE_SCHEDULER") != "1":
        raise LabError(
            f"LAB_SCHEDULER is {address}, beyond this machine and without TLS; use tls:// with LAB_TLS_CA, "
            "LAB_TLS_CERT and LAB_TLS_KEY, or set LAB_ALLOW_INSECURE_SCHEDULER=1 where you trust the network.",
            "LAB_SCHEDULER",
        )
    paths = {name: os.environ.get(name) or None for name in ("LAB_TLS_CA", "LAB_TLS_CERT", "LAB_TLS_KEY")}
    missing = [name for name, path in paths.items() if path is None or not os.access(path, os.R_OK)]
    if parts.scheme == "tls" and missing:
        raise LabError(
            f"{missing[0]} is {paths[missing[0]]!r}; a tls:// scheduler needs a readable file there.", missing[0]
        )
    return Scheduler(address, *paths.values())


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

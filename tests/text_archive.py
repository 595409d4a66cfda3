"""Hand-made data in the format of the fetched archive: the sentences are made up, their form is the real one's."""

import gzip
import hashlib
import io
import random
import tarfile

from lab.tasks.fetch import Member, Source

WORDS = {
    "movies": ("film", "plot", "actor", "scene", "comedy", "drama", "director", "story", "screen", "camera"),
    "products": ("battery", "player", "button", "screen", "price", "cable", "manual", "refund", "box", "speed"),
    "editorials": ("senate", "policy", "budget", "court", "reform", "city", "vote", "law", "mayor", "treaty"),
    "tweets": ("lol", "omg", "@anonymous", "http://url_removed", "haha", "gr8", ":)", "luv", "u", "today"),
}


def line(rng, collection, number):
    rating = round(rng.uniform(-3.9, 3.9), 6)
    mood = "good great" if rating > 0 else "bad awful"
    text = f"{mood} {' '.join(rng.choices(WORDS[collection], k=rng.randint(6, 14)))} {number}"
    # five sentences a document where the real files tell documents apart
    name = f"{number // 5 + 1}_{number % 5 + 1}" if collection in ("products", "editorials") else f"{number + 1}"
    return f"{name}\t{rating}\t{text}"


def contents(n=150):
    """The four files: CR LF between lines, none after the last, as in the real ones."""
    rng = random.Random(0)
    return {f"{c}.tsv": "\r\n".join(line(rng, c, i) for i in range(n)).encode() for c in WORDS}


def tar_gz(entries):
    """A .tar.gz of ``(name or TarInfo, bytes)``, the same bytes every time."""
    file = io.BytesIO()
    with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as plain, tarfile.open(fileobj=plain, mode="w") as tar:
        for name, data in entries:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            if info.isreg():
                info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return file.getvalue()


def source_of(files, sdist=b""):
    members = {
        name: Member(f"data/{name}", len(data), hashlib.sha256(data).hexdigest()) for name, data in files.items()
    }
    return Source("handmade", "1.0", hashlib.sha256(sdist).hexdigest(), "extra/data.tar.gz", members)


SETUP = """
import os, pathlib
pathlib.Path(os.environ["MARKER"]).write_text("ran")
from setuptools import setup
setup(name="handmade", version="1.0")
"""


def sdist(inner, setup=SETUP):
    """A source distribution whose setup.py leaves a mark if it runs."""
    return tar_gz(
        [
            ("handmade-1.0/PKG-INFO", b"Metadata-Version: 2.1\nName: handmade\nVersion: 1.0\n"),
            ("handmade-1.0/setup.py", setup.encode()),
            ("handmade-1.0/extra/data.tar.gz", inner),
        ]
    )


def inner_of(files):
    return tar_gz([("data/README", b"read me"), *((f"data/{name}", data) for name, data in files.items())])


def zeros_gz(size):
    """``size`` zero bytes as one member of a .tar.gz, without holding them in memory."""
    file = io.BytesIO()
    with gzip.open(file, "wb", 1) as plain:
        info = tarfile.TarInfo("data/zeros")
        info.size = size
        plain.write(info.tobuf())
        for _ in range(size // 2**20):
            plain.write(bytes(2**20))
    return file.getvalue()


def install(folder, files, monkeypatch):
    """Put hand-made files where the fetched ones would be."""
    from lab.tasks import fetch

    monkeypatch.setenv("LAB_DATA", str(folder))
    monkeypatch.setitem(fetch.SOURCES, "text", source_of(files))
    (folder / "text").mkdir(parents=True)
    for name, data in files.items():
        (folder / "text" / name).write_bytes(data)

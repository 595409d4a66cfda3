"""Token tables: made once, verified, memory-mapped, and never left half-made."""

import numpy as np
import pytest

from lab.tasks import TaskError
from lab.tasks import cache as cache_file
from lab.tasks.cache import cached_arrays, data_folder, source_identity


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(cache_file, "_verified", set())
    return tmp_path / "data"


def counting(calls):
    def build(allocate):
        calls.append(1)
        allocate("numbers", (3, 2), np.uint8)[:] = 7

    return build


def test_a_table_is_made_once_and_mapped_read_only():
    calls = []
    for _ in range(3):
        arrays = cached_arrays("t", {"a": 1}, counting(calls))
    assert calls == [1]
    assert isinstance(arrays["numbers"], np.memmap)
    assert (arrays["numbers"] == 7).all()
    with pytest.raises(ValueError, match="read-only"):
        arrays["numbers"][0] = 1


def test_another_identity_is_another_table():
    calls = []
    cached_arrays("t", {"a": 1}, counting(calls))
    cached_arrays("t", {"a": 2}, counting(calls))
    assert len(calls) == 2


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "manifest"])
@pytest.mark.faults
def test_a_damaged_table_is_made_again(folder, damage):
    calls = []
    cached_arrays("t", {}, counting(calls))
    (path,) = folder.glob("tables/t-*/numbers.npy")
    data = path.read_bytes()
    cache_file._verified.clear()  # as in a new process
    if damage == "flip":
        path.write_bytes(data[:-1] + b"\0")
    elif damage == "cut":
        path.write_bytes(data[:-2])
    elif damage == "gone":
        path.unlink()
    else:
        path.with_name("table.json").write_text("[]")
    assert (cached_arrays("t", {}, counting(calls))["numbers"] == 7).all()
    assert len(calls) == 2


def test_what_fails_leaves_nothing_and_the_next_call_succeeds(folder):
    def build(allocate):
        allocate("numbers", (3,), np.uint8)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached_arrays("t", {}, build)
    assert [path.name for path in folder.glob("tables/*") if path.is_dir()] == []
    calls = []
    cached_arrays("t", {}, counting(calls))
    assert calls == [1]


@pytest.mark.faults
def test_leftovers_of_a_killed_process_are_removed(folder):
    calls = []
    cached_arrays("t", {}, counting(calls))
    (table,) = folder.glob("tables/t-*")
    (table / "numbers.npy").unlink()
    leftover = table.with_name(f".{table.name}.123")
    leftover.mkdir()
    cached_arrays("t", {}, counting(calls))
    assert not leftover.exists()


@pytest.mark.faults
def test_a_pickled_array_is_never_unpickled(folder):
    cached_arrays("t", {}, counting([]))
    (path,) = folder.glob("tables/t-*/numbers.npy")
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    manifest = path.with_name("table.json")
    text = manifest.read_text()
    old = text[text.index("sha256") :].split('"')[4]
    manifest.write_text(text.replace(old, cache_file._sha256(path)))
    cache_file._verified.clear()
    calls = []
    assert (cached_arrays("t", {}, counting(calls))["numbers"] == 7).all()
    assert calls == [1]


@pytest.mark.faults
def test_a_folder_that_cannot_be_written_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAB_DATA", str(tmp_path / "file"))
    with pytest.raises(TaskError, match="LAB_DATA names the folder to use"):
        cached_arrays("t", {}, counting([]))


def test_the_data_folder_follows_the_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("LAB_DATA")
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    assert data_folder() == tmp_path / "data"


def test_a_source_is_told_by_its_ends_and_size(tmp_path):
    path = tmp_path / "x"
    seen = []
    for content in (b"a" * 200_000, b"b" + b"a" * 199_999, b"a" * 199_999 + b"b", b"a" * 200_001):
        path.write_bytes(content)
        seen.append([source_identity([path])["x"][i] for i in (0, 2)])
    assert len({tuple(entry) for entry in seen}) == 4

"""The store when something is broken: damage is set aside and told, nothing else is lost, nothing crashes."""

import contextlib
import os
import sqlite3
import subprocess
from pathlib import Path

import pytest
from test_store import make_arrays, make_result, spawn

from lab.config import RunConfig
from lab.store import Store, StoreError

KEYS = [make_result(seed).config.key for seed in range(4)]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "cache")
    for seed in range(4):
        store.put(make_result(seed), make_arrays(seed))
    return store


def rewrite(store: Store, key: str, value: object) -> None:
    with contextlib.closing(sqlite3.connect(store.path / "db" / "cache.db")) as connection, connection:
        connection.execute("UPDATE Cache SET value = ? WHERE key = ?", (value, key))


@pytest.mark.parametrize(
    "value",
    [
        make_result(0).to_json().replace('"schema":1', '"schema":99'),
        make_result(0).to_json()[:-40],
        make_result(1).to_json(),
        "[1]",
        "[" * 100_000,
        "",
        b"\xff\xfe",
        17,
        None,
    ],
    ids=["newer schema", "cut short", "another run's", "a list", "deep", "empty", "bytes", "a number", "null"],
)
def test_an_unreadable_result_is_set_aside(store, value):
    rewrite(store, f"result/{KEYS[0]}", value)
    assert store.get(KEYS[0]) is None
    [notice] = store.notices()
    assert KEYS[0] in notice
    assert [result.config.seed for result in store.get_many(KEYS).values()] == [1, 2, 3]
    assert store.done(KEYS) == set(KEYS[1:])
    assert store.get(KEYS[0]) is None
    assert store.notices() == [notice], "it is told once"
    with contextlib.closing(sqlite3.connect(store.path / "db" / "cache.db")) as connection:
        kept = connection.execute("SELECT value FROM Cache WHERE key LIKE ?", (f"aside/result/{KEYS[0]}/%",)).fetchall()
    assert kept == [(value,)]
    store.put(make_result(0), {})
    assert store.get(KEYS[0]) == make_result(0)


def test_text_that_is_not_unicode_costs_only_its_own_row(store):
    with contextlib.closing(sqlite3.connect(store.path / "db" / "cache.db")) as connection, connection:
        connection.execute("UPDATE Cache SET value = CAST(X'fffe' AS TEXT) WHERE key = ?", (f"result/{KEYS[2]}",))
        connection.execute(
            "INSERT INTO Cache(key, raw, mode, value) VALUES (CAST(X'726573756c742fff' AS TEXT), 1, 1, 'x')"
        )
    assert len(list(store.results())) == 3
    assert len(store.notices()) >= 1


def test_unreadable_requests_are_set_aside(store):
    good = store.requests.add([make_result(0).config], "good")
    bad = store.requests.add([make_result(1).config], "bad")
    unplanned = store.requests.add([make_result(1).config], "unplanned")
    rewrite(store, f"request/{bad}", '{"id": 3}')
    rewrite(store, f"plan/{unplanned}", '[{"schema": 99}]')
    again = Store(store.path)
    assert [request.id for request in again.requests.all()] == [good, unplanned]
    assert again.requests.plan(unplanned) == ()
    assert len(again.notices()) == 2


@pytest.mark.parametrize("warm", [True, False], ids=["while open", "on opening"])
@pytest.mark.parametrize("damage", ["empty", "cut short", "garbage", "garbled pages", "deleted", "no tables"])
def test_a_damaged_database_is_set_aside_and_results_are_found_beside_their_weights(store, damage, warm):
    store.requests.add([RunConfig(seed=99)], "lost with the database")
    path = store.path / "db" / "cache.db"
    if damage == "no tables":
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DROP TABLE Cache")
    else:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        data = path.read_bytes()
        if damage == "empty":
            os.truncate(path, 0)
        elif damage == "cut short":
            os.truncate(path, len(data) // 2 // 4096 * 4096)
        elif damage == "garbage":
            path.write_bytes(os.urandom(len(data)))
        elif damage == "garbled pages":
            path.write_bytes(data[:4096] + os.urandom(len(data) - 4096))
        else:
            path.unlink()
    used = store if warm else Store(store.path)
    assert used.get_many(KEYS) == {key: make_result(seed) for seed, key in enumerate(KEYS)}
    assert used.arrays(KEYS[0]) is not None
    used.put(make_result(7), make_arrays(7))
    assert Store(store.path).get(make_result(7).config.key) == make_result(7)
    assert store.get(make_result(7).config.key) == make_result(7)
    notices = " ".join(used.notices())
    assert "4 results were found again" in notices
    if damage != "deleted" and (damage, warm) != ("no tables", False):
        assert "database" in notices
        assert len(list((store.path / "aside").glob("db-*"))) == 1


@pytest.mark.parametrize("damage", ["flipped", "cut short", "deleted"])
def test_damaged_weights_are_set_aside_and_the_numbers_stay(store, damage):
    paths = {path: path.read_bytes() for path in store.path.glob("blobs/??/*")}
    for path, data in paths.items():
        if damage == "deleted":
            path.unlink()
        else:
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]) if damage == "flipped" else data[:-9])
    assert store.arrays(KEYS[0]) is None
    assert store.get(KEYS[0]) == make_result(0)
    assert len(store.notices()) == 1
    if damage != "deleted":
        [kept] = (store.path / "aside").glob("*.safetensors")
        assert kept.stem in {path.stem for path in paths}
    store.set_aside(KEYS[0], "its weights are gone.")
    assert store.get(KEYS[0]) is None
    store.put(make_result(0), make_arrays(0))
    assert store.arrays(KEYS[0]) is not None


def test_a_name_in_the_database_leads_nowhere_else(store, tmp_path):
    (tmp_path / "secret.safetensors").write_bytes(b"secret")
    rewrite(store, f"blob/{KEYS[0]}", '"../../../secret"')
    assert store.arrays(KEYS[0]) is None
    assert (tmp_path / "secret.safetensors").exists()


def test_no_half_written_weights_are_left_by_a_failing_disk(store, monkeypatch):
    before = sorted(store.path.rglob("blobs/**/*"))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StoreError, match="full"):
        store.put(make_result(9), make_arrays(9))
    assert [path for path in sorted(store.path.rglob("blobs/**/*")) if path.is_file()] == [
        path for path in before if path.is_file()
    ]
    assert store.get(make_result(9).config.key) is None


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of 2 MB; needs root."""
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(mount)]
    try:
        done = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        done = False
    if not done:
        pytest.skip("cannot mount a small tmpfs here")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


def test_a_full_disk_is_told_and_what_is_stored_can_be_read(small_disk):
    store = Store(small_disk / "cache")
    for seed in range(4):
        store.put(make_result(seed), make_arrays(seed))
    filler = small_disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"0" * 4096)

    def fill() -> None:
        for number in range(4, 2000):
            store.put(make_result(number), make_arrays(number))

    with pytest.raises(StoreError, match="full"):
        fill()
    with pytest.raises(StoreError):
        store.requests.add([RunConfig(seed=s) for s in range(2000)], "")
    for reader in (store, Store(store.path)):
        assert reader.get_many(KEYS) == {key: make_result(s) for s, key in enumerate(KEYS)}
    filler.unlink()
    fresh = Store(store.path)
    for writer in (store, fresh):
        writer.put(make_result(5), make_arrays(5))
        assert writer.get(make_result(5).config.key) == make_result(5)
    assert store.notices() == []


READER = """
import os, sys
from test_store import make_arrays, make_result
from lab.store import Store, StoreError
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
store = Store(sys.argv[1])
assert [r.config.seed for r in store.results()] == [0, 1, 2, 3] or len(list(store.results())) == 4
assert store.arrays(make_result(0).config.key) is not None
assert store.requests.all() == []
for write in (lambda: store.put(make_result(9), make_arrays(9)), lambda: store.fail("x", "y"),
              lambda: store.requests.add([make_result(9).config], "")):
    try:
        write()
    except StoreError as error:
        assert "cannot be written" in str(error), error
    else:
        raise AssertionError("it was written")
"""


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "with a log left by a crash"])
def test_a_folder_without_write_permission_is_read(store, clean, tmp_path):
    if clean:  # the last connection to close takes the log along
        store.close()
    assert (store.path / "db" / "cache.db-wal").exists() != clean
    for path in [tmp_path, *tmp_path.parents]:
        if path != Path("/") and path.stat().st_uid == os.getuid() and str(path).startswith("/tmp/"):
            path.chmod(0o755)
    for path in [store.path, *store.path.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    reader = spawn(READER, store.path)
    _, errors = reader.communicate(timeout=60)
    for path in [store.path, *store.path.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert reader.returncode == 0, errors


KILLED = """
import sys
from test_store import make_arrays, make_result
from lab.store import Store
store = Store(sys.argv[1])
for seed in range(100_000):
    store.put(make_result(seed), make_arrays(seed))
    print(seed, flush=True)
"""


def test_a_writer_that_is_killed_leaves_only_whole_results(tmp_path):
    path = tmp_path / "cache"
    for _ in range(4):
        writer = spawn(KILLED, path)
        assert writer.stdout is not None
        last = [writer.stdout.readline() for _ in range(5)][-1]
        writer.kill()
        writer.communicate()
        store = Store(path)
        found = {result.config.seed for result in store.results()}
        assert found >= set(range(int(last) + 1))
        assert all(store.arrays(make_result(seed).config.key) is not None for seed in found)
        assert store.notices() == []

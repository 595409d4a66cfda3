"""The store when something is broken: damage is set aside and told, nothing else is lost, nothing crashes."""

import contextlib
import json
import os
import sqlite3
import subprocess
from pathlib import Path

import pytest
from test_store import make_arrays, make_result, spawn

from lab.config import RunConfig
from lab.results import RunResult
from lab.store import Store, StoreError
from lab.store.notices import KEPT, MAX_BYTES, Notices

pytestmark = pytest.mark.faults

KEYS = [make_result(seed).config.key for seed in range(4)]


HUGE = "1" + "0" * 400
"""A whole number in JSON that is beyond every float."""


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
        make_result(0).to_json().replace('"heat_steps":1,', f'"heat_steps":{HUGE},'),
        make_result(0).to_json().replace('"alpha":0.25', f'"alpha":{HUGE}'),
        "",
        b"\xff\xfe",
        17,
        None,
    ],
    ids=[
        "newer schema",
        "cut short",
        "another run's",
        "a list",
        "deep",
        "huge steps",
        "huge α",
        "empty",
        "bytes",
        "a number",
        "null",
    ],
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


@pytest.mark.parametrize(
    "record", [f'{{"created": {HUGE}}}', '{"created": "x"}', '{"runs": "x"}', '{"created": 1e300}']
)
def test_a_request_with_impossible_numbers_is_set_aside(store, record):
    good = store.requests.add([make_result(0).config], "good")
    bad = store.requests.add([make_result(1).config], "bad")
    sound = {"id": bad, "state": "open", "label": "bad", "created": 1.0, "runs": 1}
    rewrite(store, f"request/{bad}", json.dumps(sound | json.loads(record)))
    assert [request.id for request in store.requests.all()] == [good]
    assert len(store.notices()) == 1


@pytest.mark.parametrize("kind", [OverflowError, RecursionError, AttributeError])
def test_whatever_reading_a_row_raises_costs_only_that_row(store, monkeypatch, kind):
    request = store.requests.add([make_result(0).config], "")

    def refuse(*_: object, **__: object) -> None:
        raise kind("planted")

    with monkeypatch.context() as patch:
        patch.setattr("lab.store.store._result", refuse)
        patch.setattr(RunConfig, "from_json", refuse)
        assert store.get(KEYS[0]) is None
        assert store.requests.plan(request) == ()
    assert len(store.notices()) == 2
    with monkeypatch.context() as patch:  # a fresh database, filled from the files of weights
        patch.setattr(RunResult, "from_json", refuse)
        (store.path / "db" / "cache.db").write_bytes(b"garbage" * 1000)
        assert Store(store.path).requests.all() == []


@pytest.mark.parametrize("value", ["[" * 100_000, HUGE, "[]", "{}", "null", "", None])
def test_planted_rows_of_weights_and_failures_are_set_aside(store, value):
    rewrite(store, f"blob/{KEYS[0]}", value)
    assert store.arrays(KEYS[0]) is None
    assert store.done(KEYS) == set(KEYS[1:])
    store.fail(KEYS[1], "It broke.")
    rewrite(store, f"failure/{KEYS[1]}", value)
    assert store.failure(KEYS[1]) is None


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
def test_a_result_with_damaged_weights_can_be_trained_again(store, damage):
    paths = {path: path.read_bytes() for path in store.path.glob("blobs/??/*")}
    for path, data in paths.items():
        if damage == "deleted":
            path.unlink()
        else:
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]) if damage == "flipped" else data[:-9])
    assert store.get(KEYS[0]) == make_result(0)
    assert store.arrays(KEYS[0]) is None
    assert store.done(KEYS) == set(KEYS[1:]), "only what was read is known to be damaged"
    assert store.get(KEYS[0]) is None
    told = store.notices()
    assert f"{KEYS[0]} was set aside: its weights are gone or damaged." in told[-1]
    assert len(told) == (1 if damage == "deleted" else 2)
    assert store.arrays(KEYS[0]) is None
    assert store.notices() == told
    if damage != "deleted":
        [kept] = (store.path / "aside").glob("*.safetensors")
        assert kept.stem in {path.stem for path in paths}
    store.put(make_result(0), make_arrays(0))
    assert store.arrays(KEYS[0]) is not None
    assert store.done(KEYS[:1])


def test_a_result_without_weights_on_purpose_stays(store):
    store.put(make_result(9), {})
    assert store.arrays(make_result(9).config.key) == {}
    assert store.get(make_result(9).config.key) == make_result(9)
    assert store.notices() == []


def test_weights_that_cannot_be_read_just_now_cost_no_result(store, monkeypatch):
    def busy(_: Path) -> bytes:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", busy)
        assert store.arrays(KEYS[0]) is None
        assert store.arrays(KEYS[0]) is None
    [notice] = store.notices()
    assert "Too many open files" in notice
    assert store.done(KEYS) == set(KEYS)
    assert store.arrays(KEYS[0]) is not None


def test_storing_again_repairs_damaged_weights(store):
    for path in store.path.glob("blobs/??/*"):
        path.write_bytes(b"damaged, and nobody has looked")
    store.put(make_result(0), make_arrays(0))
    assert store.arrays(KEYS[0]) is not None


def test_a_notice_is_written_once_and_their_file_is_bounded(tmp_path):
    path = tmp_path / "aside" / "notices.txt"
    notices = Notices(path)
    for _ in range(3):
        notices.add("The same  thing\nagain.")
        Notices(path).add("The same thing again.")
    assert path.read_text() == "The same thing again.\n"
    for number in range(3000):
        notices.add(f"Number {number} \ud800 " + "x" * 100)
    notices.add("y" * 10**6)
    assert path.stat().st_size <= MAX_BYTES
    assert notices.all()[-2].startswith("Number 2999 ")
    assert len(notices.all()) == KEPT
    path.write_bytes(b"an old and long line\n" * 10**6)
    notices.add("The last.")
    assert path.stat().st_size <= MAX_BYTES
    assert notices.all()[-1] == "The last."
    path.unlink()
    path.mkdir()
    for number in range(3000):
        notices.add(f"Unwritten {number}")
    assert len(notices.all()) == KEPT


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

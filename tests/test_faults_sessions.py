"""Whole servers and their visitors: one is killed in the middle of a study, two share a cache, forty ask at once."""

import asyncio
import dataclasses
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from browser import running_app
from sessions import Session
from test_engine_process import end_engine, handed_out, until
from test_store import make_result

from lab.engine.live import read_live
from lab.engine.presence import engine_alive
from lab.positions import Position
from lab.store import Store
from lab.study import Study
from lab.tasks.recipes import recipe

pytestmark = [pytest.mark.engine, pytest.mark.faults, pytest.mark.crowd]

SESSIONS = 40
BYTES_PER_SESSION = 3 * 2**20
"""What one more visitor may cost the server and the engine together; 0.7 MiB were seen."""

WAIT = 240


def study(steps: int, seed: int = 0, seeds: int = 1) -> Study:
    """What the accuracy page asks for under the link of :func:`visitor`."""
    base = recipe("digits", "mini", position=Position.AFTER_EMBEDDING, alpha=0.25, heat_steps=1, steps=steps)
    return Study(base, tuple(Position), (0.25,), tuple(range(seed, seed + seeds)))


def visitor(address: str, steps: int, seed: int = 0, seeds: int = 1) -> Session:
    link = {"task": "digits", "alpha": 0.25, "permuted": "false", "steps": steps, "seed": seed, "seeds": seeds}
    return Session(address, "accuracy", **link)


def keys_of(wanted: Study) -> list[str]:
    return [run.key for run in wanted.configs()]


def server_of(address: str) -> psutil.Process:
    """The server process that was started at an address."""
    port = address.rpartition(":")[2]
    return next(child for child in psutil.Process().children() if port in child.cmdline())


def handed_out_in(store: Store) -> Counter[str]:
    """How often each run was handed to a worker, the first first, whoever is there."""
    return handed_out(SimpleNamespace(store=store))


async def wait_for(true, what: str, seconds: float = WAIT) -> None:
    """Poll until something is true, while sessions go on."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"after {seconds} s: not {what}"
        await asyncio.sleep(0.2)


@pytest.fixture
def cache(tmp_path: Path):
    path = tmp_path / "cache"
    path.mkdir()
    yield path
    for log in (path / "engine.log", path / "live.json"):  # shown where a test has failed
        sys.stdout.write(log.read_text()[-4000:] if log.exists() else f"no {log.name}\n")
    sys.stdout.write("".join(f"{request}\n" for request in Store(path).requests.all()))
    end_engine(path)


@pytest.mark.parametrize("engine_survives", [True, False], ids=["the engine goes on", "the engine has ended too"])
def test_a_server_killed_in_the_middle_of_a_study(cache, monkeypatch, engine_survives):
    monkeypatch.setenv("LAB_ENGINE_GRACE", "120" if engine_survives else "1")
    keys = keys_of(study(steps=60))

    async def train(address: str) -> None:
        session = visitor(address, steps=60)
        await session.open()
        await session.press("Train 8 runs")
        await wait_for(lambda: store.done(keys), "one run done")
        session.close()

    async def come_back(address: str) -> None:
        await Session(address, "").open()  # any page: nobody asks for the study again
        await wait_for(lambda: store.done(keys) == set(keys), "all done")
        session = visitor(address, steps=60)
        await session.open()
        assert "All runs trained" in session.buttons
        session.close()

    store = Store(cache)
    with running_app(cache) as address:
        asyncio.run(train(address))
        server_of(address).kill()
    until(lambda: engine_survives or not engine_alive(cache), "the engine has ended", 60)
    finished, before = store.done(keys), handed_out_in(store)
    assert engine_alive(cache) == engine_survives
    assert finished
    with running_app(cache) as address:
        asyncio.run(come_back(address))
    counts = handed_out_in(store)
    assert counts.keys() == set(keys)
    if engine_survives:
        assert set(counts.values()) == {1}
    else:
        assert all(counts[key] == before[key] for key in finished), "what was done is not trained again"
        assert max(counts.values()) <= 2, "what was under way is begun once more"
    assert store.notices() == []


def test_two_servers_on_one_cache_share_an_engine_and_one_outlives_the_other(cache, monkeypatch):
    monkeypatch.setenv("LAB_ENGINE_GRACE", "5")
    mine, theirs = keys_of(study(steps=40)), keys_of(study(steps=40, seeds=2))
    assert len(set(mine) & set(theirs)) == 8
    store = Store(cache)

    async def both(one: str, other: str) -> None:
        first, second = visitor(one, steps=40), visitor(other, steps=40, seeds=2)
        await asyncio.gather(first.open(), second.open())
        await first.press("Train 8")
        await second.press("Train 16")  # which shows nothing yet of what the first has asked for
        assert len(store.requests.all()) == 2, "a press counts though the page has changed since it was drawn"
        await wait_for(lambda: store.done(mine), "one run done")
        engines.add(read_live(cache / "live.json").pid)
        server_of(other).kill()
        await first.until("All runs trained", WAIT)
        await wait_for(lambda: store.done(theirs) == set(theirs), "what the dead server asked for, too")
        engines.add(read_live(cache / "live.json").pid)
        third = visitor(one, steps=40, seeds=2)
        await third.open()
        assert "All runs trained" in third.buttons

    engines: set[int] = set()
    with running_app(cache) as one, running_app(cache) as other:
        asyncio.run(both(one, other))
    assert len(engines) == 1
    assert handed_out_in(store) == dict.fromkeys(theirs, 1)
    assert store.notices() == []


@pytest.fixture
def only_read(tmp_path: Path):
    """A cache that lacks two of a study's eight runs, on a read-only mount; needs root."""
    path = tmp_path / "cache"
    store = Store(path)
    for run in study(steps=2).configs()[2:]:
        store.put(dataclasses.replace(make_result(), config=run), {})
    store.close()
    commands = ["--bind", str(path), str(path)], ["-o", "remount,ro,bind", str(path)]
    if any(subprocess.run(["mount", *command], capture_output=True, check=False).returncode for command in commands):
        subprocess.run(["umount", "-l", str(path)], capture_output=True, check=False)
        pytest.skip("cannot mount a folder read-only here")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def test_a_server_on_a_cache_that_is_only_read_shows_it_and_says_why_it_cannot_train(only_read, tmp_path):
    async def visit(address: str) -> list[str]:
        session = visitor(address, steps=2)
        await session.open()
        await session.press("Train 2 runs")
        return session.words

    home = tmp_path / "home"
    home.mkdir()
    with running_app(home, LAB_CACHE=str(only_read)) as address:
        words = asyncio.run(visit(address))
    assert any("cannot be written" in sentence for sentence in words), words


@pytest.fixture
def app(cache, monkeypatch):
    monkeypatch.setenv("LAB_ENGINE_GRACE", "3")
    with running_app(cache) as address:
        yield address


def test_forty_sessions_ask_for_the_same_study_at_once(app, cache):
    wanted = keys_of(study(steps=3))
    store = Store(cache)

    async def crowd() -> None:
        sessions = [visitor(app, steps=3) for _ in range(SESSIONS)]
        await asyncio.gather(*(session.open() for session in sessions))
        await asyncio.gather(*(session.press("Train 8 runs") for session in sessions))
        await wait_for(lambda: store.done(wanted) == set(wanted), "all done")
        await asyncio.gather(*(session.until("All runs trained", WAIT) for session in sessions))

    asyncio.run(crowd())
    assert handed_out_in(store) == dict.fromkeys(wanted, 1)


def test_forty_sessions_ask_for_different_studies_and_all_are_served(app, cache):
    """Of each study's eight runs six are in the cache already, so that eighty are trained and not 320."""
    store = Store(cache)
    studies = [study(steps=2, seed=seed) for seed in range(SESSIONS)]
    for one in studies:
        for run in one.configs()[2:]:
            store.put(dataclasses.replace(make_result(), config=run), {})
    left = {run.key for one in studies for run in one.configs()[:2]}

    async def serve(seeds: range) -> list[Session]:
        sessions = [visitor(app, steps=2, seed=seed) for seed in seeds]
        wanted = {key for seed in seeds for key in keys_of(studies[seed])}
        await asyncio.gather(*(session.open() for session in sessions))
        await asyncio.gather(*(session.press("Train 2 runs") for session in sessions))
        await wait_for(lambda: store.done(wanted) == wanted, "all done")
        # Every fourth looks at its results: for all of them two cores would draw figures for half a minute more.
        await asyncio.gather(*(session.until("All runs trained", WAIT) for session in sessions[::4]))
        return sessions

    async def crowd() -> int:
        kept = await serve(range(4))  # what the first visitors load, every later one shares
        family = [server_of(app), psutil.Process(read_live(cache / "live.json").pid)]
        before = sum(process.memory_info().rss for process in family)
        kept += await serve(range(4, SESSIONS))
        return sum(process.memory_info().rss for process in family) - before

    grown = asyncio.run(crowd())
    counts = handed_out_in(store)
    assert counts == dict.fromkeys(left, 1)
    sys.stdout.write(f"memory of server and engine: {grown / (SESSIONS - 4) / 2**20:.2f} MiB a session\n")
    assert grown < BYTES_PER_SESSION * (SESSIONS - 4)
    whose = {key: number for number, one in enumerate(studies) for key in keys_of(one)}
    order = [whose[key] for key in counts]
    in_a_row = sum(one == other for one, other in pairwise(order))
    assert in_a_row < SESSIONS / 2, (
        "they take turns: one after the other it would be each one's second run after the first"
    )

"""Training: paired, deterministic, fair to every arm of a pack."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import lab.pack
from lab.batches import DeviceSplit, batch_order
from lab.config import RunConfig
from lab.placement import arm_first
from lab.positions import Position
from lab.results import RunResult
from lab.snapshots import snapshot
from lab.steps import learning_rate
from lab.tasks import TASKS, Split, get_task
from lab.training import TrainingError, accuracy, train_pack

SMALL = {"width": 8, "ffn": 16, "batch": 8, "steps": 6, "eval_every": 3}


def one(**fields):
    trained = train_pack([RunConfig(**{**SMALL, **fields})], device="cpu")[0]
    assert trained is not None
    return trained


def test_a_run_learns_the_digits_far_better_than_chance():
    run = one(width=32, ffn=64, batch=32, steps=300, eval_every=100)
    assert run.result.accuracy > 4 * run.result.chance
    assert run.result.curve[-1].loss < run.result.curve[0].loss
    assert run.result.accuracy == run.result.curve[-1].accuracy
    assert [point.step for point in run.result.curve] == [100, 200, 300]


@pytest.mark.parametrize("position", list(Position))
def test_a_result_holds_what_it_promises(position):
    run = one(position=position, layers=3).result
    assert len(run.energy) == 4
    assert len(run.swap) == 3
    assert len(run.initial.energy) == 4
    assert all(e > 0 for e in run.energy)
    assert all(0 < s.chi <= s.routing + s.operator for s in run.swap)
    assert run.alphas == (0.25,) * position.applications(3)
    assert run.seconds > 0
    assert {"torch", "device", "threads", "python", "lab"} <= set(run.provenance)
    assert run.n_test == 500


def test_the_last_point_averages_the_losses_since_the_point_before():
    every = one(steps=5, eval_every=1).result.curve
    sparse = one(steps=5, eval_every=3).result.curve
    assert [p.step for p in sparse] == [3, 5]
    assert sparse[0].loss == pytest.approx(np.mean([p.loss for p in every[:3]]), rel=1e-6)
    assert sparse[1].loss == pytest.approx(np.mean([p.loss for p in every[3:]]), rel=1e-6)


def test_the_same_config_gives_the_same_bits():
    a, b = one(), one()
    assert a.result.curve == b.result.curve
    assert all(np.array_equal(a.arrays[name], b.arrays[name]) for name in a.arrays)


def test_the_same_config_gives_the_same_bits_in_another_process():
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from lab.training import train_pack; from lab.config import RunConfig\n"
        f"print([repr(p) for p in train_pack([RunConfig(**{SMALL!r})], device='cpu')[0].result.curve])"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == str([repr(p) for p in one().result.curve])


@pytest.mark.parametrize("task", sorted(name for name, task in TASKS.items() if not task.unavailable("mini")))
def test_every_arm_of_a_seed_sees_the_same_batches(task):
    n = len(get_task(task).load("mini").train)

    def first(**fields):
        order = batch_order(n, RunConfig(task=task, **fields))
        return np.stack([next(order) for _ in range(2 * n // 32)])

    base = first(seed=7)
    for position in Position:
        assert np.array_equal(base, first(seed=7, position=position, permuted=True, alpha=0.1))
    assert not np.array_equal(base, first(seed=8))


def test_an_epoch_shows_every_example_once():
    order = batch_order(10, RunConfig(batch=4))
    seen = np.concatenate([next(order) for _ in range(5)])
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10))
    tiny = batch_order(3, RunConfig(batch=8))
    assert np.bincount(next(tiny)).max() <= 3


def test_a_memory_mapped_split_is_read_where_it_lies(tmp_path):
    rows = np.random.default_rng(0).integers(0, 256, (50, 9)).astype(np.uint8)
    np.save(tmp_path / "tokens.npy", rows)
    mapped = np.load(tmp_path / "tokens.npy", mmap_mode="r")
    split = DeviceSplit(Split(mapped, np.full(50, 9), np.zeros(50, np.int64)), torch.device("cpu"))
    assert split.tokens.dtype == torch.uint8
    assert split.tokens.data_ptr() == mapped.ctypes.data
    tokens, lengths, _ = split.batch(torch.tensor([[3, 1]]))
    assert tokens.dtype == torch.int64
    assert lengths is None
    assert np.array_equal(tokens[0].numpy(), rows[[3, 1]])


def test_a_profile_is_the_mean_over_its_examples_however_they_are_cut_up(monkeypatch):
    from lab import measures
    from lab.model import PackTransformer

    arms = [RunConfig(task="listops", width=8, position=p) for p in (Position.BASELINE, Position.AFTER_FFN)]
    data = get_task("listops").load("mini")
    split = DeviceSplit(data.test, torch.device("cpu"))
    model = PackTransformer(arms, data.vocabulary, data.length, data.classes)
    whole = measures.depth_profile(model, split)
    alone = measures.depth_profile(PackTransformer(arms[1:], data.vocabulary, data.length, data.classes), split)[0]
    # three examples at a time for a pack of two; the number of examples stays what it was
    monkeypatch.setattr(measures, "MEASURED_ENTRIES", data.length**2 * 2 * 2 * 3)
    monkeypatch.setattr(measures, "MEASURED_EXAMPLES", 6)
    few = measures.depth_profile(model, split)
    monkeypatch.setattr(measures, "MEASURED_ENTRIES", 2**24)
    at_once = measures.depth_profile(model, split)
    for a, b in ((few[1], at_once[1]), (whole[1], alone)):
        assert a.energy == pytest.approx(b.energy, rel=1e-5)
        assert a.power == pytest.approx(b.power, rel=1e-5)
        assert [s.chi for s in a.swap] == pytest.approx([s.chi for s in b.swap], rel=1e-4)
    assert few[1].energy != pytest.approx(whole[1].energy, rel=1e-5)
    monkeypatch.setattr(measures, "MOST_ENTRIES", 1)
    assert measures.depth_profile(model, split)[0].swap == ()


def pack_of_24():
    arms = [
        RunConfig(**{**SMALL, "steps": 50, "eval_every": 50, "seed": s, "position": p})
        for s in (0, 1)
        for p in Position
    ]
    arms += [arms[1].with_(alpha=a) for a in (0.05, 0.1, 0.4, 0.5)]
    arms += [arms[1].with_(permuted=True, seed=s) for s in range(4)]
    return arms


def test_each_arm_of_a_pack_of_24_agrees_with_its_solo_run():
    arms = pack_of_24()
    assert len(arms) == 24
    together = train_pack(arms, device="cpu")
    for config, packed in zip(arms, together, strict=True):
        alone = train_pack([config], device="cpu")[0]
        assert packed.result.config == config
        assert packed.result.curve[-1].loss == pytest.approx(alone.result.curve[-1].loss, abs=1e-4)
        assert packed.result.accuracy == pytest.approx(alone.result.accuracy, abs=0.01)


def test_a_learnable_pack_agrees_with_its_solo_runs_and_alpha_moves():
    arms = [
        RunConfig(**{**SMALL, "steps": 30, "position": p, "learnable": True, "strides": (1, 2), "alpha": 0.2})
        for p in (Position.AFTER_EMBEDDING, Position.BETWEEN_LAYERS)
    ]
    for config, packed in zip(arms, train_pack(arms, device="cpu"), strict=True):
        alone = train_pack([config], device="cpu")[0]
        assert packed.result.curve[-1].loss == pytest.approx(alone.result.curve[-1].loss, abs=1e-4)
        assert packed.result.alphas == pytest.approx(alone.result.alphas, abs=1e-4)
        assert packed.result.parameters == alone.result.parameters
        assert all(0 < a < 0.5 and a != pytest.approx(0.2, abs=1e-5) for a in packed.result.alphas)


def test_progress_is_told_in_order_and_ends_with_the_last_point():
    said = []
    train_pack([RunConfig(**SMALL)], device="cpu", on_progress=said.append)
    assert [p.step for p in said] == sorted(p.step for p in said)
    assert [p.point.step for p in said if p.point] == [3, 6]
    assert all(p.key == RunConfig(**SMALL).key and p.steps == 6 for p in said)


def test_a_stopped_arm_ends_at_the_next_step_and_the_others_go_on():
    arms = [RunConfig(**{**SMALL, "seed": s}) for s in (0, 1)]
    asked = []

    def stop(key):
        asked.append(key)
        return key == arms[0].key and len(asked) > 4

    stopped, finished = train_pack(arms, device="cpu", should_stop=stop)
    assert stopped is None
    assert finished.result.accuracy == train_pack([arms[1]], device="cpu")[0].result.accuracy
    asked.clear()
    assert train_pack(arms[:1], device="cpu", should_stop=lambda key: asked.append(key) or len(asked) == 3) == [None]
    assert len(asked) == 3


def test_a_run_that_diverges_says_so_and_spares_its_neighbours(monkeypatch):
    arms = [RunConfig(**{**SMALL, "seed": s}) for s in (0, 1)]
    sound = train_pack(arms, device="cpu")[1]
    _poison(monkeypatch, 0)
    with pytest.raises(TrainingError, match="learning rate"):
        train_pack(arms[:1], device="cpu")
    failed, neighbour = train_pack(arms, device="cpu")
    assert isinstance(failed, TrainingError)
    assert neighbour.result.curve == sound.result.curve


def states_of(monkeypatch, arms, **more):
    """The outcomes of a pack, and what its parameters and its optimiser's state were at the end, ``(arms, …)`` each."""
    packs = []
    sound = lab.pack.Pack.train
    monkeypatch.setattr(lab.pack.Pack, "train", lambda pack: packs.append(pack) or sound(pack))
    runs = train_pack(arms, device="cpu", **more)
    monkeypatch.undo()
    kept = snapshot(packs[0].model, packs[0].optimiser)
    return runs, {name: arm_first(value) for name, value in kept.items() if value.ndim and "dropout" not in name}


LEARNABLE = {
    **SMALL,
    "position": Position.AFTER_FFN,
    "learnable": True,
    "strides": (1, 2),
    "alpha": 0.2,
    "dropout": 0.1,
}


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_a_failing_run_leaves_every_number_of_its_neighbours_as_it_was(monkeypatch, what):
    arms = [RunConfig(**LEARNABLE, seed=s) for s in range(3)]
    _, sound = states_of(monkeypatch, arms)
    if what == "loss":
        _poison(monkeypatch, 1)
    else:
        clip = lab.pack.clip_each_arm

        def poisoned(model, most):
            for parameter in model.parameters():
                arm_first(parameter.grad)[1] = torch.nan
            clip(model, most)

        monkeypatch.setattr(lab.pack, "clip_each_arm", poisoned)
    runs, found = states_of(monkeypatch, arms)
    assert [isinstance(run, TrainingError) for run in runs] == [False, True, False]
    assert {name.split(".")[-1] for name in found} >= {"exp_avg", "exp_avg_sq", "decayed", "theta", "phi"}
    for name, value in found.items():
        assert value[1].isnan().all(), name
        assert torch.equal(value[[0, 2]], sound[name][[0, 2]]), name


def test_a_stopped_run_leaves_every_number_of_its_neighbours_as_it_was(monkeypatch):
    arms = [RunConfig(**LEARNABLE, seed=s) for s in range(3)]
    whole, sound = states_of(monkeypatch, arms)
    asked = []
    runs, found = states_of(
        monkeypatch, arms, should_stop=lambda key: asked.append(key) or (key == arms[1].key and len(asked) > 6)
    )
    assert [run is None for run in runs] == [False, True, False]
    for arm in (0, 2):
        assert runs[arm].result.curve == whole[arm].result.curve
        assert runs[arm].result.final == whole[arm].result.final
        assert all(torch.equal(found[name][arm], sound[name][arm]) for name in found)


@pytest.mark.parametrize("what", ["weights", "profile", "curve"])
def test_a_model_that_is_not_finite_after_the_last_step_is_a_failure(monkeypatch, what):
    arms = [RunConfig(**{**SMALL, "seed": s}) for s in (0, 1)]
    if what == "weights":
        monkeypatch.setattr(lab.pack, "learning_rate", lambda config, step: np.inf if step == config.steps else 1e-3)
    elif what == "profile":
        sound = lab.pack.depth_profile

        def beyond(*arguments):
            first, second = sound(*arguments)
            return [replace(first, energy=(np.inf,) * 3), second]

        monkeypatch.setattr(lab.pack, "depth_profile", beyond)
    else:
        monkeypatch.setattr(lab.pack, "accuracy", lambda *_: [np.nan, 0.5])
    failed, neighbour = train_pack(arms, device="cpu")
    assert isinstance(failed, TrainingError)
    assert "learning rate" in str(failed)
    assert what == "weights" or neighbour.result.to_json()


def test_the_digest_of_the_readers_own_files_is_part_of_the_provenance(monkeypatch):
    assert "data" not in one().result.provenance
    data = replace(get_task("digits").load("mini"), digest="0123456789abcdef")
    monkeypatch.setattr(type(get_task("digits")), "load", lambda *_: data)
    result = one().result
    assert result.provenance["data"] == "0123456789abcdef"
    assert result.row()["on_data"] == "0123456789abcdef"


def _poison(monkeypatch, arm):
    """Make one arm's loss NaN, as a diverging run's would be."""
    sound = lab.pack.per_arm_loss

    def broken(logits, labels):
        losses = sound(logits, labels)
        return losses * torch.where(torch.arange(len(losses)) == arm, torch.nan, 1.0)

    monkeypatch.setattr(lab.pack, "per_arm_loss", broken)


def test_the_learning_rate_warms_up_and_decays_to_a_tenth():
    config = RunConfig(steps=100, warmup=10, learning_rate=0.01)
    rates = [learning_rate(config, step) for step in range(1, 101)]
    assert rates[9] == pytest.approx(0.01)
    assert rates[:10] == sorted(rates[:10])
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert rates[-1] == pytest.approx(0.001)


def test_accuracy_is_the_share_of_right_answers_over_the_whole_split():
    from lab.model import PackTransformer

    data = get_task("listops").load("mini")
    model = PackTransformer([RunConfig(task="listops", width=8)], data.vocabulary, data.length, data.classes)
    split = DeviceSplit(data.test, torch.device("cpu"))
    model.eval()
    tokens, lengths, _ = split.batch(torch.arange(len(split))[None])
    logits = model(tokens, lengths)
    expected = (logits.argmax(-1)[0] == split.labels).double().mean().item()
    assert accuracy(model, split) == [pytest.approx(expected, abs=2e-3)]


def test_bfloat16_trains_and_says_so():
    run, exact = (one(precision=p, steps=30, eval_every=15).result for p in ("bfloat16", "float32"))
    assert run.curve[-1].loss < run.curve[0].loss
    assert run.curve[-1].loss == pytest.approx(exact.curve[-1].loss, rel=0.05)
    assert run.curve != exact.curve
    assert RunResult.from_json(run.to_json()).config.precision == run.row()["precision"] == "bfloat16"
    assert run.config.key != exact.config.key

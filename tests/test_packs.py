"""How many runs train at a time, and how a step is taken: decided by what is measured, the same results whatever is decided."""

from collections import defaultdict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import lab.graphs
import lab.memory
import lab.pack
import lab.training
from lab.batches import batch_order
from lab.config import RunConfig
from lab.graphs import obstacle
from lab.memory import MARGIN, in_chunks, most_arms
from lab.pack import Pack
from lab.positions import Position
from lab.snapshots import restore, snapshot
from lab.tasks import get_task
from lab.training import TrainingError, train_pack

SMALL = {"width": 8, "ffn": 16, "batch": 8, "steps": 6, "eval_every": 3}
CPU = torch.device("cpu")


def out_of_memory(*_):
    raise torch.OutOfMemoryError("CUDA out of memory.")


# -- how many fit -------------------------------------------------------------------------------------------------


@given(fixed=st.integers(0, 1000), each=st.integers(1, 500), room=st.integers(1, 20_000), arms=st.integers(2, 64))
def test_the_most_arms_that_fit_are_found_from_two_measurements(fixed, each, room, arms):
    asked = []

    def peak(k):
        asked.append(k)
        return fixed + k * each

    found = most_arms(arms, peak, room)
    assert asked == [1, 2]
    assert 1 <= found <= arms
    assert found == 1 or fixed + found * each <= MARGIN * room
    assert found == arms or fixed + (found + 1) * each > MARGIN * room


def test_one_run_is_not_measured_and_two_that_do_not_fit_train_alone():
    assert most_arms(1, out_of_memory, 10) == 1
    assert most_arms(24, out_of_memory, 10) == 1
    assert most_arms(24, lambda k: 5 if k == 1 else out_of_memory(), 10) == 1
    assert most_arms(24, lambda _: 5, 10) == 4  # memory that does not grow is trusted for a byte each and no more


@given(count=st.integers(0, 40), most=st.integers(1, 50), fits=st.integers(0, 50))
def test_every_item_comes_back_once_and_in_order_whatever_fits(count, most, fits):
    sizes = []

    def work(chunk):
        sizes.append(len(chunk))
        return [f"done {item}" for item in chunk] if len(chunk) <= fits else out_of_memory()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lab.memory, "release", lambda: None)  # nothing is held here, and looking for it takes long
        done = in_chunks(range(count), most, work, lambda item: f"gave up {item}")
    assert done == [f"{'done' if fits else 'gave up'} {item}" for item in range(count)]
    assert max(sizes, default=0) <= most
    too_large = [size for size in sizes if size > fits]
    assert all(later <= max(1, earlier // 2) for earlier, later in zip(too_large, sizes[1:], strict=False))


def test_chunks_are_even():
    sizes = []
    in_chunks(range(24), 20, lambda chunk: sizes.append(len(chunk)) or list(chunk), out_of_memory)
    assert sizes == [12, 12]


def test_another_error_is_not_taken_for_want_of_memory():
    def broken(_):
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        in_chunks(range(4), 2, broken, out_of_memory)


# -- packs in chunks ----------------------------------------------------------------------------------------------


def room_for(monkeypatch, arms, from_step=1):
    """Steps of more arms run out of memory."""
    sound = Pack._step

    def step(pack, number, *batch):
        return out_of_memory() if pack.model.arms > arms and number >= from_step else sound(pack, number, *batch)

    monkeypatch.setattr(Pack, "_step", step)


def test_a_pack_that_runs_out_of_memory_trains_in_smaller_ones_and_tells_everything_once(monkeypatch):
    configs = [RunConfig(**SMALL, position=p, seed=1) for p in list(Position)[:4]]
    together = train_pack(configs, device="cpu")
    monkeypatch.setattr(lab.pack, "REPORT_SECONDS", 0.0)  # every step is told
    room_for(monkeypatch, 2, from_step=5)
    said = defaultdict(list)
    runs = train_pack(configs, device="cpu", on_progress=lambda p: said[p.key].append((p.step, p.point)))
    for config, run, whole in zip(configs, runs, together, strict=True):
        assert run.result.config == config
        assert run.result.curve[-1].loss == pytest.approx(whole.result.curve[-1].loss, abs=1e-4)
        assert int(run.result.provenance["arms"]) <= 2
        assert [step for step, _ in said[config.key]] == [1, 2, 3, 4, 5, 6]
        assert [step for step, point in said[config.key] if point] == [3, 6]


def test_a_run_that_does_not_fit_alone_fails_in_plain_words(monkeypatch):
    room_for(monkeypatch, 0)
    runs = train_pack([RunConfig(**SMALL, seed=s) for s in (0, 1)], device="cpu")
    assert all(isinstance(run, TrainingError) and "does not fit" in str(run) for run in runs)
    assert "CUDA" not in str(runs[0])


def test_a_chunk_whose_runs_all_diverge_spares_the_next(monkeypatch):
    configs = [RunConfig(**SMALL, seed=s) for s in (0, 1)]
    room_for(monkeypatch, 1)
    sound = lab.pack.per_arm_loss
    count = []

    def first_is_broken(logits, labels):
        count.append(1)
        return sound(logits, labels) * (torch.nan if len(count) <= 3 else 1.0)

    monkeypatch.setattr(lab.pack, "per_arm_loss", first_is_broken)
    failed, sound_run = train_pack(configs, device="cpu")
    assert isinstance(failed, TrainingError)
    assert sound_run.result.config == configs[1]
    monkeypatch.setattr(lab.pack, "per_arm_loss", lambda *given: sound(*given) * torch.nan)
    with pytest.raises(TrainingError, match="learning rate"):
        train_pack(configs, device="cpu")


def test_on_a_cpu_nothing_is_measured_and_nothing_captured(monkeypatch):
    for where, name in (
        (lab.training, "_most_that_fit"),
        (lab.training, "peak_bytes"),
        (lab.graphs, "_Captured"),
        (lab.training, "release"),
    ):
        monkeypatch.setattr(where, name, out_of_memory)
    runs = train_pack([RunConfig(**SMALL, seed=s) for s in (0, 1)], device="cpu")
    assert [run.result.provenance["arms"] for run in runs] == ["2", "2"]
    assert "graph" not in runs[0].result.provenance


@pytest.mark.parametrize("task", ["digits", "listops"])
def test_what_is_measured_is_a_step_and_the_measures_of_one_and_of_two_runs(monkeypatch, task):
    ran = []
    for name in ("accuracy", "depth_profile"):
        monkeypatch.setattr(lab.training, name, lambda model, _, name=name: ran.append((name, model.arms)))
    sound = Pack._update

    def update(pack, tokens, lengths, labels):
        longest = pack.train_split.tokens.shape[-1]
        ran.append(("step", tokens.shape[0], tokens.shape[-1] == longest))
        return sound(pack, tokens, lengths, labels)

    monkeypatch.setattr(Pack, "_update", update)

    def peak_bytes(device, *phases):
        for phase in phases:
            phase()
        return 40 * ran[-1][1] + 30

    monkeypatch.setattr(lab.training, "peak_bytes", peak_bytes)
    monkeypatch.setattr(lab.training, "free_bytes", lambda _: 200)
    configs = [RunConfig(**SMALL, task=task, seed=s) for s in range(24)]
    data = get_task(task).load("mini")
    assert lab.training._most_that_fit(configs, data, CPU) == 3
    once = [[("step", k, True), ("step", k, True), ("accuracy", k), ("depth_profile", k)] for k in (1, 2)]
    assert ran == [*once[0], *once[1]]


# -- captured steps -----------------------------------------------------------------------------------------------


def test_a_step_is_captured_on_a_gpu_where_batches_have_one_shape():
    assert obstacle(torch.device("cuda", 1), ragged=False) == ""
    assert "length" in obstacle(torch.device("cuda"), ragged=True)
    assert "CPU" in obstacle(CPU, ragged=False)


def pack_of(configs, data):
    return Pack(configs, data, CPU, lambda _: None, lambda _: False)


def losses(pack, order, steps, first):
    index = (torch.from_numpy(next(order)).expand(pack.model.arms, -1) for _ in steps)
    return [pack._step(first + i, *pack.train_split.batch(rows)).clone() for i, rows in enumerate(index)]


@pytest.mark.parametrize("before", [0, 2])
def test_what_a_warm_up_changes_is_restored_to_the_last_bit(before):
    configs = [
        RunConfig(**SMALL, dropout=0.3, position="after_ffn", learnable=True, strides=(1, 2), alpha=0.2, seed=s)
        for s in (0, 1)
    ]
    data = get_task("digits").load("mini")
    undisturbed, warmed = pack_of(configs, data), pack_of(configs, data)
    orders = [batch_order(len(data.train), configs[0]) for _ in range(2)]
    for pack, order in zip((undisturbed, warmed), orders, strict=True):
        losses(pack, order, range(before), 1)
    kept = snapshot(warmed.model, warmed.optimiser)
    places = [p.data_ptr() for p in warmed.model.parameters()]
    losses(warmed, batch_order(len(data.train), configs[0]), range(3), 1)
    state = warmed.optimiser.state[warmed.model.decayed]["exp_avg"]
    restore(warmed.model, warmed.optimiser, kept)
    assert [p.data_ptr() for p in warmed.model.parameters()] == places
    assert warmed.optimiser.state[warmed.model.decayed]["exp_avg"] is state
    a, b = (
        losses(pack, order, range(3), 1 + before) for pack, order in zip((undisturbed, warmed), orders, strict=True)
    )
    assert all(map(torch.equal, a, b))
    ends = [snapshot(pack.model, pack.optimiser) for pack in (undisturbed, warmed)]
    assert ends[0].keys() == ends[1].keys()
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_a_step_that_cannot_be_captured_is_taken_as_it_is(monkeypatch):
    configs = [RunConfig(**SMALL)]
    plain = train_pack(configs, device="cpu")[0]
    tried = []

    def cannot(*_):
        tried.append(1)
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    monkeypatch.setattr(lab.graphs, "_Captured", cannot)
    step = lab.graphs.Step(None, None, "")
    assert step.note == "yes"
    assert step(lambda *batch: batch, 1, None, 2) == step(lambda *batch: batch, 1, None, 2) == (1, None, 2)
    assert step.note == "no: operation not permitted when stream is capturing"
    assert len(tried) == 1
    monkeypatch.setattr(lab.pack, "obstacle", lambda *_: "")
    monkeypatch.setattr(
        lab.pack, "make_optimiser", lambda *a, capturable, make=lab.pack.make_optimiser: make(*a, capturable=False)
    )
    assert train_pack(configs, device="cpu")[0].result.curve == plain.result.curve
    assert len(tried) == 2


def test_a_capture_that_runs_out_of_memory_is_no_reason_to_go_on_without(monkeypatch):
    monkeypatch.setattr(lab.graphs, "_Captured", out_of_memory)
    with pytest.raises(torch.OutOfMemoryError):
        lab.graphs.Step(None, None, "")(lambda *_: None, None, None, None)


def test_a_captured_step_is_fed_its_batches_and_the_update_is_not_called(monkeypatch):
    monkeypatch.setattr(lab.graphs, "_Captured", lambda *made_of: lambda tokens, labels: (tokens, labels))
    step = lab.graphs.Step(None, None, "")
    assert step(out_of_memory, "tokens", None, "labels") == ("tokens", "labels")
    assert step.note == "yes"


def test_the_learning_rate_of_a_captured_step_is_a_tensor_that_is_written_into():
    from lab.steps import make_optimiser, set_learning_rate

    data = get_task("digits").load("mini")
    model = pack_of([RunConfig(**SMALL)], data).model
    captured = make_optimiser(model, RunConfig(**SMALL), capturable=True)
    rates = [group["lr"] for group in captured.param_groups]
    set_learning_rate(captured, 0.5)
    assert [rate.item() for rate in rates] == [0.5, 0.5]
    assert all(group["capturable"] and group["fused"] for group in captured.param_groups)
    plain = make_optimiser(model, RunConfig(**SMALL), capturable=False)
    set_learning_rate(plain, 0.5)
    assert [group["lr"] for group in plain.param_groups] == [0.5, 0.5]
    assert not any(isinstance(group["lr"], torch.Tensor) for group in plain.param_groups)

"""A run's config: canonical, checked, and equal where the computation is."""

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.config import SCHEMA, ConfigError, RunConfig
from lab.errors import LabError
from lab.positions import Position
from lab.study import MAX_RUNS, Study

configs = st.builds(
    RunConfig,
    position=st.sampled_from(Position),
    alpha=st.floats(0.001, 0.499),
    seed=st.integers(0, 2**31 - 1),
    strides=st.sampled_from([(1,), (1, 2, 4)]),
    learnable=st.booleans(),
    permuted=st.booleans(),
    matched=st.booleans(),
    layers=st.integers(1, 4),
)


@given(configs)
def test_json_reads_back_as_the_same_config_with_the_same_key(config):
    again = RunConfig.from_json(config.json)
    assert again == config
    assert again.key == config.key
    assert json.loads(config.json)["schema"] == SCHEMA
    assert list(json.loads(config.json)) == sorted(json.loads(config.json))


@given(configs, configs)
def test_keys_are_equal_exactly_when_configs_are(a, b):
    assert (a.key == b.key) == (a == b)


def test_every_field_is_in_the_key():
    base = RunConfig(position=Position.BETWEEN_LAYERS, strides=(1, 2), alpha=0.3)
    other = {
        "task": "listops", "size": "small", "position": Position.AFTER_FFN, "alpha": 0.2, "heat_steps": 2, "strides": (1,),
        "learnable": True, "permuted": True, "matched": True, "seed": 1, "width": 64, "heads": 4, "layers": 3, "ffn": 32, "dropout": 0.1,
        "steps": 7, "batch": 8, "learning_rate": 0.01, "warmup": 1, "weight_decay": 0.1, "clip": 2.0, "eval_every": 5,
        "precision": "bfloat16",
    }  # fmt: skip
    assert set(other) == {field.name for field in dataclasses.fields(RunConfig)}
    keys = {base.with_(**{name: value}).key for name, value in other.items()}
    assert len(keys | {base.key}) == len(other) + 1


def test_the_key_is_stable():
    """Links, caches and committed results hold keys: a change here needs a new schema version."""
    assert RunConfig().key == RunConfig.from_json(RunConfig().json).key
    assert RunConfig(alpha=0.1 + 0.2, position="after_ffn").key == RunConfig(alpha=0.3, position="after_ffn").key


def test_a_baseline_has_no_heat_whatever_was_asked():
    plain = RunConfig(position=Position.BASELINE)
    dressed = RunConfig(
        position=Position.BASELINE, alpha=0.4, heat_steps=9, strides=(1, 2), permuted=True, learnable=True, matched=True
    )
    assert plain == dressed
    assert plain.alpha == 0


def test_matched_total_divides_alpha_by_the_applications_and_is_idle_where_there_is_one():
    assert RunConfig(position=Position.AFTER_FFN, alpha=0.4, layers=4, matched=True).site_alpha == 0.1
    assert RunConfig(position=Position.AFTER_EMBEDDING, matched=True) == RunConfig(position=Position.AFTER_EMBEDDING)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("alpha", -0.01), ("alpha", 0.51), ("alpha", math.nan), ("alpha", math.inf), ("alpha", "0.25"), ("alpha", True),
        ("alpha", None), ("position", "nowhere"), ("position", 3), ("heat_steps", 0), ("heat_steps", 1.5), ("heat_steps", math.inf),
        ("strides", ()), ("strides", (0,)), ("strides", "12"), ("strides", (1, 2.0)), ("seed", -1), ("seed", 2**31), ("width", 33),
        ("heads", 3), ("layers", 0), ("dropout", 1.0), ("steps", 0), ("batch", 0), ("learning_rate", 0.0), ("clip", 0.0),
        ("eval_every", 0), ("size", "huge"), ("precision", "float8"), ("task", ""), ("task", 5), ("permuted", 1),
    ],
)  # fmt: skip
def test_an_impossible_config_is_refused_with_the_field_and_what_is_allowed(field, value):
    with pytest.raises(ConfigError) as caught:
        RunConfig(**{"position": Position.AFTER_EMBEDDING, field: value})
    assert field in str(caught.value) or caught.value.field in ("width", field)
    assert str(caught.value).endswith(".")
    assert "must" in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"schema":99}', '{"schema":1,"colour":"red"}', "{"])
def test_other_json_is_refused(text):
    with pytest.raises(ConfigError):
        RunConfig.from_json(text)


def test_learnable_alpha_must_be_able_to_move():
    for alpha in (0.0, 0.5):
        with pytest.raises(ConfigError):
            RunConfig(position=Position.AFTER_EMBEDDING, alpha=alpha, learnable=True)


def test_pack_key_joins_arms_and_seeds_and_nothing_else():
    base = RunConfig(position=Position.AFTER_EMBEDDING)
    for change in (
        {"alpha": 0.1},
        {"seed": 3},
        {"permuted": True},
        {"position": Position.AFTER_FFN},
        {"position": Position.BASELINE},
    ):
        assert base.with_(**change).pack_key() == base.pack_key()
    for change in ({"steps": 5}, {"width": 64}, {"heat_steps": 2}, {"task": "listops"}):
        assert base.with_(**change).pack_key() != base.pack_key()


def test_a_study_lists_the_full_picture_of_the_first_seed_first():
    runs = Study(seeds=(4, 5), alphas=(0.1, 0.25), permuted=True).configs()
    first = [run for run in runs if run.seed == 4]
    assert runs[: len(first)] == tuple(first)
    assert [run.position for run in runs[:8]] == list(Position)
    # one baseline, 7 positions at 2 α, and their permuted controls
    assert len(first) == 1 + 7 * 2 * 2
    assert len(set(runs)) == len(runs)


def test_an_empty_or_huge_study_is_refused():
    with pytest.raises(LabError, match="seeds is empty"):
        Study(seeds=())
    with pytest.raises(LabError, match=str(MAX_RUNS)):
        Study(seeds=tuple(range(MAX_RUNS)))


def test_a_matched_study_is_matched_where_that_means_something():
    runs = {run.position: run for run in Study(seeds=(0,), matched=True).configs()}
    assert runs[Position.AFTER_FFN].matched
    assert not runs[Position.AFTER_EMBEDDING].matched
    with pytest.raises(LabError, match="baseline"):
        Study(RunConfig())

"""Pathfinder: the label against the geometry, balance, no shortcut for a linear model, the pictures."""

import numpy as np
import pytest
from scipy.stats import binom, ks_2samp
from sklearn.linear_model import LogisticRegression

from lab.tasks import TaskError, get_task
from lab.tasks import pathfinder as task_file
from lab.tasks.pathfinder import CHUNK, SIZES, scenes_of
from lab.tasks.pathfinder_generator import LRA_32, LRA_128, MINIATURE, Geometry, Scenes, draw, generate_scenes
from lab.tasks.pixels import contact_sheet, pictures

GEOMETRIES = list(dict.fromkeys(row[0] for sizes in SIZES.values() for row in sizes.values()))


@pytest.fixture(scope="module")
def scenes() -> Scenes:
    return generate_scenes(400, LRA_32, 11)


def walk(paddles: np.ndarray, start: np.ndarray, reach: float) -> np.ndarray:
    """From the paddle with an end at ``start``, paddle by paddle over gaps of at most ``reach``, straightest first; the far end."""
    here = int(np.argmin(np.abs(paddles - start).max(-1).min(-1)))
    at = 1 if np.abs(paddles[here, 0] - start).max() < 1e-9 else 0
    left = set(range(len(paddles))) - {here}
    while True:
        tip, way = paddles[here, at], paddles[here, at] - paddles[here, 1 - at]
        options = []
        for other in left:
            for end in (0, 1):
                gap = paddles[other, end] - tip
                onward = paddles[other, 1 - end] - paddles[other, end]
                if np.linalg.norm(gap) <= reach + 1e-6 and gap @ way >= -1e-6 and onward @ way > -1e-6:
                    options.append((np.linalg.norm(gap), other, 1 - end))
        if not options:
            return tip
        _, here, at = min(options)
        left.discard(here)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda geometry: f"{geometry.side} pixels")
def test_the_discs_are_the_ends_of_one_path_exactly_if_the_label_says_so(geometry):
    made = generate_scenes(200, geometry, 1)
    c = geometry.contour
    for paddles, discs, label in zip(made.paddles, made.discs, made.labels, strict=True):
        ends = {}
        for path in (0, 1):
            own = paddles[made.path == path]
            assert len(own) == c
            ends |= {tuple(own[0, 0]): path, tuple(own[-1, 1]): path}
        first, second = (ends[tuple(disc)] for disc in discs)  # a KeyError if a disc is at no end
        assert tuple(discs[0]) != tuple(discs[1])
        assert (first == second) == bool(label)


def test_a_path_is_unbroken_and_turns_as_its_continuity_lets_it(scenes):
    step = LRA_32.paddle + 2 * 1
    for path, length in enumerate(LRA_32.paths):
        own = scenes.paddles[:, scenes.path == path]
        assert own.shape[1] == length
        way = own[:, :, 1] - own[:, :, 0]
        assert np.linalg.norm(way, axis=-1) == pytest.approx(LRA_32.paddle, abs=1e-3)
        if length > 1:
            gaps = np.linalg.norm(own[:, 1:, 0] - own[:, :-1, 1], axis=-1)
            assert gaps.max() <= 2 + 1e-3
            middles = np.linalg.norm(np.diff(own.mean(2), axis=1), axis=-1)
            assert middles.max() <= step + 1e-3
            turn = (way[:, 1:] * way[:, :-1]).sum(-1) / LRA_32.paddle**2
            assert turn.min() > -1e-3  # continuity 1: at most a right angle


def test_paths_keep_clear_of_each_other(scenes):
    at = np.linspace(0, 1, 9)[:, None]
    dots = scenes.paddles[:, :, :1] * (1 - at) + scenes.paddles[:, :, 1:] * at
    for a in range(dots.shape[1]):
        other = scenes.path != scenes.path[a]
        gap = np.linalg.norm(dots[:, a, :, None, None] - dots[:, None, other], axis=-1)
        assert gap.min() > 2 - 0.6  # the clearance, less what the grid of the collision test rounds away


def test_walking_along_the_dashes_finds_the_answer():
    """Without being told which dash is whose: from one disc, over the gaps, to the other or not."""
    made = generate_scenes(150, LRA_128, 4)
    right = 0
    for paddles, discs, label in zip(made.paddles, made.discs, made.labels, strict=True):
        far = walk(paddles, discs[0], 4)
        right += (np.abs(far - discs[1]).max() < 1e-9) == bool(label)
    assert right / 150 > 0.9


def test_published_parameters():
    assert (LRA_32.side, LRA_32.contour, LRA_32.distractor, LRA_32.distractors) == (32, 14, 14 // 3, 20 // (14 // 3))
    assert (LRA_128.side, LRA_128.contour, LRA_128.distractor, LRA_128.distractors) == (
        128,
        14,
        14 // 3,
        35 // (14 // 3),
    )
    assert SIZES["pathfinder"]["full"] == (LRA_32, 160_000, 20_000)
    assert SIZES["pathx"]["full"] == (LRA_128, 160_000, 20_000)


@pytest.mark.parametrize("n", [7, 400])
def test_the_classes_are_balanced(n):
    assert abs(2 * generate_scenes(n, LRA_32, 0).labels.sum() - n) <= 1


def test_how_far_apart_the_discs_are_says_nothing(scenes):
    more = generate_scenes(400, LRA_32, 12)
    labels = np.concatenate([scenes.labels, more.labels])
    discs = np.concatenate([scenes.discs, more.discs])
    distance = np.linalg.norm(discs[:, 0] - discs[:, 1], axis=-1)
    assert ks_2samp(distance[labels == 0], distance[labels == 1]).pvalue > 0.01
    assert distance.min() >= 2 * LRA_32.radius + 1


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda geometry: f"{geometry.side} pixels")
def test_a_linear_model_on_pixels_stays_near_chance(geometry):
    n_train, n_test = (900, 500) if geometry.side <= 32 else (400, 250)
    made = generate_scenes(n_train + n_test, geometry, 2)
    pixels = draw(made, geometry).reshape(n_train + n_test, -1) / 255
    model = LogisticRegression(C=0.01, max_iter=200).fit(pixels[:n_train], made.labels[:n_train])
    right = int((model.predict(pixels[n_train:]) == made.labels[n_train:]).sum())
    # the central 99.9 % of what a fair coin gets right
    low, high = binom.ppf([0.0005, 0.9995], n_test, 0.5)
    assert low <= right <= high


def test_scenes_are_a_function_of_their_arguments():
    one, same, other = (generate_scenes(20, LRA_32, 3, batch) for batch in (0, 0, 1))
    assert (one.paddles == same.paddles).all()
    assert (one.paddles != other.paddles).any()


def test_paths_that_do_not_fit_are_said_not_to_fit(monkeypatch):
    monkeypatch.setattr("lab.tasks.pathfinder_generator.MAX_ROUNDS", 2)
    crowded = Geometry(16, 14, 5, 4, 2, (1,), 0.5, 1.5, 1.0, 2, 4, 2)
    with pytest.raises(TaskError, match="room for all its paths"):
        generate_scenes(1, crowded, 0)


# -- the pictures -----------------------------------------------------------------------------------------------------


def test_a_paddle_is_drawn_where_it_is_and_as_much_as_it_covers():
    geometry = Geometry(16, 1, 0, 0, 4, (1,), 1, 1.5, 1, 2, 4, 2)
    paddles = np.array([[[[4.5, 4.5], [4.5, 8.5]], [[12.0, 4.5], [12.0, 8.5]]]])
    discs = np.array([[[8.5, 12.5], [8.5, 2.5]]])
    (image,) = draw(Scenes(paddles, np.array([0, 1]), discs, np.array([0])), geometry)
    grey = round(0.75 * 255)
    assert image[4, 4:9].tolist() == [grey] * 5  # on the pixels' middle line: covered whole
    assert image[11, 5] == image[12, 5] == pytest.approx(grey / 2, abs=1)  # between two lines: half of each
    assert image[8, 12] == image[8, 2] == 255
    assert image[:3].max() == 0
    assert (image == image[:, ::1]).all()


def test_a_disc_at_the_edge_is_cut_not_wrapped():
    geometry = Geometry(16, 1, 0, 0, 2, (1,), 0.5, 1.5, 1, 2, 4, 2)
    paddles = np.array([[[[8.0, 8.0], [8.0, 10.0]]]])
    discs = np.array([[[1.0, 1.0], [15.0, 8.0]]])
    (image,) = draw(Scenes(paddles, np.array([0]), discs, np.array([0])), geometry)
    assert image[0, 0] == 255
    assert image[15, 8] == 255
    assert image[0, 12:].max() == image[12:, 0].max() == image[0, 6:].max() == 0


def test_pictures_show_discs_white_and_paths_grey(scenes):
    images = draw(scenes, LRA_32)
    assert images.shape == (400, 32, 32)
    assert images.dtype == np.uint8
    for image, discs in zip(images, scenes.discs, strict=True):
        for row, column in np.minimum(discs.astype(int), 31):
            assert image[row, column] >= 200
    away = images[images < 200]
    assert 0.02 < (away > 0).mean() < 0.6


def test_the_miniature_shows_both_discs_and_contradicts_itself_hardly_ever():
    made = generate_scenes(4000, MINIATURE, 0)
    images = draw(made, MINIATURE)
    assert ((images == 255).sum((1, 2)) == 2).all()
    assert np.unique(images).tolist() == [0, 191, 255]
    labels: dict[bytes, list[int]] = {}
    for image, label in zip(images, made.labels, strict=True):
        labels.setdefault(image.tobytes(), []).append(label)
    wrong = sum(min(sum(seen), len(seen) - sum(seen)) for seen in labels.values())
    assert wrong / len(images) < 0.01


# -- the tasks --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The task's ``small``, with fewer pictures, in a data folder of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_DATA", str(tmp_path_factory.mktemp("data")))
        patch.setitem(SIZES["pathfinder"], "small", (LRA_32, CHUNK, CHUNK))
        patch.setitem(SIZES["pathfinder"], "mini", (MINIATURE, CHUNK, CHUNK))
        task_file._load.cache_clear()
        yield get_task("pathfinder").load("small")
    task_file._load.cache_clear()


def test_a_size_is_a_table_on_disk_of_the_generators_pictures(small):
    assert (small.length, small.vocabulary, small.classes, small.chance) == (1024, 256, 2, 0.5)
    assert isinstance(small.train.tokens, np.memmap)
    scenes, images = next(scenes_of("pathfinder", "small"))
    assert (small.test.tokens == images.reshape(CHUNK, -1)).all()
    assert (small.test.labels == scenes.labels).all()
    assert not (small.train.tokens[:50] == small.test.tokens[:50]).all()


def test_encode_takes_a_held_out_number(small):
    task = get_task("pathfinder")
    assert (task.encode("3") == task.load("mini").test.tokens[3]).all()
    assert task.decode(small.test.tokens[0])[33] == "row 1, column 1"
    for wrong in ("-1", "x", "1000000", ""):
        with pytest.raises(TaskError, match="whole number from 0"):
            task.encode(wrong)


def test_the_contact_sheet_shows_both_classes_in_rows(small):
    sheet = contact_sheet(small.test, n=8, columns=4)
    assert sheet.shape == (2 * 34 + 2, 4 * 34 + 2)
    for y, label in enumerate((0, 1)):
        index = np.flatnonzero(small.test.labels == label)[2]
        tile = sheet[2 + y * 34 : 2 + y * 34 + 32, 2 + 2 * 34 : 2 + 2 * 34 + 32]
        assert (tile.reshape(-1) == small.test.tokens[index]).all()


def test_the_contact_sheet_of_few_pictures():
    split = pictures(np.zeros((3, 16), np.uint8), np.array([1, 1, 1]))
    assert contact_sheet(split, n=8, columns=4).shape == (8, 26)

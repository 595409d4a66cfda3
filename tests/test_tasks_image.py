"""CIFAR-10 from its binary files: split, grey, sizes, and files that are not what they should be."""

import numpy as np
import pytest

from lab.tasks import TaskError, get_task
from lab.tasks import image as image_file
from lab.tasks.image import CLASSES, RECORD, TEST_FILE, TRAIN_FILES, open_records, to_grey

RECORDS = 40


@pytest.fixture
def cifar(monkeypatch, tmp_path):
    """A tiny CIFAR-10: 40 records a file, 180 training pictures and 40 of test."""
    monkeypatch.setenv("LAB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LAB_CIFAR_DIR", str(tmp_path / "cifar"))
    monkeypatch.setattr(image_file, "RECORDS", RECORDS)
    monkeypatch.setattr(image_file, "SIZES", {"mini": (60, 20, 8), "small": (120, 30, 16), "full": (180, 40, 32)})
    folder = tmp_path / "cifar"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in (*TRAIN_FILES, TEST_FILE):
        records = rng.integers(0, 256, (RECORDS, RECORD), dtype=np.uint8)
        records[:, 0] %= 10
        (folder / name).write_bytes(records.tobytes())
    return folder


def records_of(folder, *names):
    return np.concatenate([np.frombuffer((folder / name).read_bytes(), np.uint8).reshape(-1, RECORD) for name in names])


def test_lras_split_is_45_5_and_10_thousand():
    assert image_file.SIZES["full"] == (45_000, 10_000, 32)
    assert image_file.RECORDS * len(TRAIN_FILES) == 50_000
    assert RECORD == 3073


def test_the_first_nine_tenths_train_and_the_test_file_tests(cifar):
    data = get_task("lra_image").load("full")
    train, test = records_of(cifar, *TRAIN_FILES)[:180], records_of(cifar, TEST_FILE)
    assert (data.train.labels == train[:, 0]).all()
    assert (data.test.labels == test[:, 0]).all()
    assert (data.train.tokens == to_grey(train)).all()
    assert (data.length, data.vocabulary, data.classes) == (1024, 256, 10)


def test_grey_is_tensorflows_formula():
    record = np.zeros((4, RECORD), np.uint8)
    for row, rgb in enumerate([(255, 255, 255), (255, 0, 0), (0, 255, 0), (10, 20, 30)]):
        record[row, 1:] = np.repeat(np.array(rgb, np.uint8), 1024)
    # worked by hand: scale to [0, 1], weigh, multiply by 255.5, drop the fraction
    assert to_grey(record)[:, 0].tolist() == [255, 76, 149, 18]


def test_planes_are_red_green_blue_row_by_row(cifar):
    record = np.zeros((1, RECORD), np.uint8)
    record[0, 1 + 1024 + 33] = 255  # green, row 1, column 1
    grey = to_grey(record)[0]
    assert np.flatnonzero(grey).tolist() == [33]
    assert get_task("lra_image").decode(grey)[33] == "row 1, column 1"


@pytest.mark.parametrize(("size", "side"), [("mini", 8), ("small", 16)])
def test_smaller_sizes_are_means_over_squares(cifar, size, side):
    data = get_task("lra_image").load(size)
    grey = to_grey(records_of(cifar, TEST_FILE)[:1]).reshape(32, 32)
    step = 32 // side
    expected = [grey[y : y + step, x : x + step].mean() for y in range(0, 32, step) for x in range(0, 32, step)]
    assert data.test.tokens[0].tolist() == np.floor(expected).astype(int).tolist()


def test_without_files_one_sentence_says_what_to_put_where(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_DATA", str(tmp_path))
    monkeypatch.delenv("LAB_CIFAR_DIR", raising=False)
    task = get_task("lra_image")
    reason = task.unavailable("full")
    assert str(tmp_path / "cifar-10-batches-bin" / "data_batch_1.bin") in reason
    assert "cifar-10-binary.tar.gz" in reason
    assert "LAB_CIFAR_DIR" in reason
    with pytest.raises(TaskError, match="LAB_CIFAR_DIR"):
        task.load("full")


def test_the_unpacked_folder_inside_is_found_too(cifar, monkeypatch, tmp_path):
    (tmp_path / "outer").mkdir()
    cifar.rename(tmp_path / "outer" / "cifar-10-batches-bin")
    monkeypatch.setenv("LAB_CIFAR_DIR", str(tmp_path / "outer"))
    assert get_task("lra_image").unavailable("full") == ""


@pytest.mark.parametrize("change", [-1, -RECORD, 1, -RECORD * RECORDS])
def test_a_file_of_another_size_is_named_with_the_size_expected(cifar, change):
    path = cifar / "data_batch_3.bin"
    data = path.read_bytes()
    path.write_bytes(data[:change] if change < 0 else data + b"\0" * change)
    with pytest.raises(TaskError) as error:
        get_task("lra_image").load("full")
    assert str(path) in str(error.value)
    assert f"{len(data) + change} bytes" in str(error.value)
    assert f"{RECORDS * RECORD} bytes in all" in str(error.value)


def test_an_unknown_label_is_named_with_its_record(cifar):
    path = cifar / TEST_FILE
    data = bytearray(path.read_bytes())
    data[RECORD * 6] = 10
    path.write_bytes(data)
    with pytest.raises(TaskError, match=r"test_batch.bin, record 7: the label is 10; 0 to 9 was expected"):
        get_task("lra_image").load("full")


def test_changed_files_are_read_again(cifar):
    task = get_task("lra_image")
    before, digest = task.load("full").test.labels.copy(), task.load("full").digest
    path = cifar / TEST_FILE
    data = bytearray(path.read_bytes())
    data[0] = (data[0] + 1) % 10
    path.write_bytes(data)
    after = task.load("full").test.labels
    assert task.load("full").digest not in ("", digest)
    assert after[0] == (before[0] + 1) % 10
    assert (after[1:] == before[1:]).all()


def test_records_are_mapped_not_read(cifar):
    assert isinstance(open_records(cifar / TEST_FILE), np.memmap)
    with pytest.raises(TaskError, match="could not be read"):
        open_records(cifar / "none.bin")


def test_the_pickled_version_is_refused_by_its_size(cifar):
    import pickle

    path = cifar / "data_batch_1.bin"
    path.write_bytes(pickle.dumps({b"data": [0], b"labels": [0]}))
    with pytest.raises(TaskError, match="records of 3073 bytes"):
        get_task("lra_image").load("full")


def test_class_names():
    assert get_task("lra_image").info.label_names == CLASSES
    assert CLASSES[6] == "frog"

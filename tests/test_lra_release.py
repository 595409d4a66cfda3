"""The Long Range Arena's release files, written here by hand in their published formats, sound and not."""

import os
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from lab.tasks import TaskError, get_task
from lab.tasks.lra_pathfinder import read_png
from lab.tasks.lra_release import (
    check_inside,
    find_files,
    missing_file,
    name_release_folder,
    read_tsv,
    release_folder,
)


@pytest.fixture
def release(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_DATA", str(tmp_path / "data"))
    folder = tmp_path / "lra_release"
    folder.mkdir()
    monkeypatch.setenv("LAB_LRA_DIR", str(folder))
    return folder


def says(action) -> str:
    with pytest.raises(TaskError) as error:
        action()
    return str(error.value)


# -- lines of fields --------------------------------------------------------------------------------------------------


def test_lines_are_numbered_from_the_header_and_fields_are_bytes(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_bytes(b'a\tb\r\n1\t"two\nthree\t\xc3\xa9')
    assert list(read_tsv(path, 2, header=("a", "b"))) == [(2, (b"1", b'"two')), (3, (b"three", "é".encode()))]
    assert next(read_tsv(path, 2)) == (1, (b"a", b"b"))


@pytest.mark.parametrize(
    ("content", "line", "expected"),
    [
        (b"a\tb\n1\n", 2, "1 field between tabs; 2 were expected"),
        (b"a\tb\n1\t2\t3\n", 2, "3 fields between tabs; 2 were expected"),
        (b"a\tb\n1\t2\n\n3\t4\n", 3, "1 field between tabs"),
        (b"a\tc\n1\t2\n", 1, "expected a, b"),
        (b"a\tb\n\x80\t2\n", 2, "byte 1 is not UTF-8"),
        ("a\tb\n1\t2\n".encode("utf-16"), 1, "NUL byte"),
        (b"a\tb\n" + b"x" * 2000 + b"\t2\n", 2, "longer than 1000 bytes"),
        (b"x" * 5000, 1, "longer than 1000 bytes"),
        (b"", 1, "the file is empty"),
        (bytes(range(256)), 1, "NUL byte"),
        (b"\x1f\x8b\x08", 1, "not UTF-8"),
    ],
)
def test_a_wrong_line_is_named_with_what_was_expected(tmp_path, content, line, expected):
    path = tmp_path / "x.tsv"
    path.write_bytes(content)
    message = says(lambda: list(read_tsv(path, 2, header=("a", "b"), max_line=1000)))
    assert f"{path}, line {line}:" in message
    assert expected in message


def test_a_file_that_is_none(tmp_path):
    assert "could not be opened" in says(lambda: list(read_tsv(tmp_path / "none", 2)))
    assert "could not be opened" in says(lambda: list(read_tsv(tmp_path, 2)))


def test_reading_stops_at_the_first_error_with_what_came_before(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_bytes(b"1\t2\nbad\n")
    lines = read_tsv(path, 2)
    assert next(lines) == (1, (b"1", b"2"))
    with pytest.raises(TaskError):
        next(lines)


# -- finding the files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lra_listops", "lra_pathfinder", "lra_pathx"])
def test_what_is_missing_is_said_in_one_sentence(name, release, monkeypatch):
    task = get_task(name)
    (size,) = task.info.sizes
    reason = task.unavailable(size)
    assert str(release) in reason
    assert "was expected" in reason
    with pytest.raises(TaskError):
        task.load(size)
    monkeypatch.setenv("LAB_LRA_DIR", str(release / "nowhere"))
    assert "there is no such folder" in task.unavailable(size)
    monkeypatch.delenv("LAB_LRA_DIR")
    assert task.unavailable(size).startswith("LAB_LRA_DIR is not set")
    assert "has no size 'mini'" in task.unavailable("mini")


@pytest.mark.parametrize("wrapper", ["", "lra_release", "lra_release/lra_release"])
def test_files_are_found_in_the_archives_wrappers(release, wrapper):
    folder = release / wrapper / "tsv_data"
    folder.mkdir(parents=True)
    (folder / "a.tsv").write_text("")
    assert find_files(("tsv_data",), ["a.tsv"]) == [folder / "a.tsv"]
    assert "tsv_data/b.tsv was expected" in missing_file(("tsv_data",), ["a.tsv", "b.tsv"])


def test_a_link_out_of_the_release_is_not_followed(release, tmp_path):
    (tmp_path / "secret.tsv").write_text("Source\tTarget\n1\t1\n")
    (release / "listops-1000").mkdir()
    for split in ("train", "val", "test"):
        (release / "listops-1000" / f"basic_{split}.tsv").symlink_to(tmp_path / "secret.tsv")
    assert "outside the release's folder" in says(lambda: get_task("lra_listops").load("full"))


LRA = ["lra_listops", "lra_text", "lra_retrieval", "lra_image", "lra_pathfinder", "lra_pathx"]


@pytest.mark.parametrize("name", LRA)
def test_a_folder_that_no_file_system_takes_is_one_sentence(name, release, monkeypatch):
    for folder in ("/" + "x" * 5000, str(release / ("y" * 300))):
        monkeypatch.setenv("LAB_LRA_DIR", folder)
        monkeypatch.setenv("LAB_CIFAR_DIR", folder)
        assert get_task(name).unavailable("full")
        assert says(lambda: get_task(name).load("full"))


@pytest.mark.parametrize("name", LRA)
def test_a_folder_that_may_not_be_entered_is_one_sentence(name, release, monkeypatch):
    inside, look = release / "closed", Path.stat

    def closed(path, **options):
        if inside in path.parents:
            raise PermissionError(13, "Permission denied", str(path))
        return look(path, **options)

    inside.mkdir()
    monkeypatch.setenv("LAB_LRA_DIR", str(inside))
    monkeypatch.setenv("LAB_CIFAR_DIR", str(inside))
    monkeypatch.setattr(Path, "stat", closed)
    assert get_task(name).unavailable("full")
    assert says(lambda: get_task(name).load("full"))


def test_a_named_folder_must_be_one_that_can_be_read_and_entered(release, monkeypatch):
    monkeypatch.delenv("LAB_LRA_DIR")
    name_release_folder(str(release))
    assert release_folder() == release
    for path in (str(release / "none"), "x" * 5000, "a\0b", "\ud800"):
        assert "is not a folder" in says(lambda path=path: name_release_folder(path))
    for allowed in (os.R_OK, os.X_OK):
        with monkeypatch.context() as patch:
            patch.setattr(os, "access", lambda path, mode, allowed=allowed: mode & ~allowed == 0)
            assert "may not be read" in says(lambda: name_release_folder(str(release)))
    name_release_folder(str(release))
    assert release_folder() == release


def test_what_the_disk_refuses_while_loading_is_one_sentence(listops, monkeypatch):
    def refused(_):
        raise PermissionError(13, "Permission denied", "basic_train.tsv")

    monkeypatch.setattr("lab.tasks.listops.source_identity", refused)
    message = says(lambda: get_task("lra_listops").load("full"))
    assert message == "The data of lra_listops could not be read (basic_train.tsv: Permission denied)."


def test_links_in_a_circle_are_one_sentence(release):
    (release / "a").symlink_to("b")
    (release / "b").symlink_to("a")
    assert "could not be followed" in says(lambda: check_inside(release / "a"))


def test_the_digest_follows_the_content_of_the_files_alone(listops, release, tmp_path, monkeypatch):
    task = get_task("lra_listops")
    first = task.load("full").digest
    assert re.fullmatch("[0-9a-f]{16}", first)
    os.utime(listops / "basic_test.tsv", (1, 1))
    assert task.load("full").digest == first
    monkeypatch.setenv("LAB_DATA", str(tmp_path / "elsewhere"))
    assert task.load("full").digest == first
    with (listops / "basic_test.tsv").open("a", newline="") as file:
        file.write("7\t7\r\n")
    assert task.load("full").digest not in ("", first)
    assert get_task("listops").load("mini").digest == get_task("digits").load("mini").digest == ""


# -- ListOps ----------------------------------------------------------------------------------------------------------

LINES = {
    "train": ["( ( ( [MAX 2 ) 9 ) ] )\t9", "( ( ( [SM 7 ) ( ( ( [MIN 4 ) 8 ) ] ) ) ] )\t1", "5\t5"],
    "val": ["( ( ( [MED 2 ) 9 ) ] )\t5"],
    "test": ["( ( ( [MIN 2 ) 9 ) ] )\t2", "( ( ( [SM 2 ) 9 ) ] )\t1"],
}


@pytest.fixture
def listops(release):
    folder = release / "listops-1000"
    folder.mkdir()
    for split, lines in LINES.items():
        (folder / f"basic_{split}.tsv").write_text("\r\n".join(["Source\tTarget", *lines, ""]), newline="")
    return folder


def test_listops_is_read(listops):
    task = get_task("lra_listops")
    assert task.unavailable("full") == ""
    data = task.load("full")
    assert (len(data.train), len(data.test), data.length, data.classes) == (3, 2, 7, 10)
    assert data.train.labels.tolist() == [9, 1, 5]
    assert data.train.lengths.tolist() == [4, 7, 1]
    assert task.decode(data.train.tokens[1]) == ["[SM", "7", "[MIN", "4", "8", "]", "]"]
    assert task.decode(data.train.tokens[0])[4:] == ["<pad>"] * 3
    assert isinstance(data.train.tokens, np.memmap)


def test_listops_tables_follow_the_files(listops):
    task = get_task("lra_listops")
    task.load("full")
    with (listops / "basic_test.tsv").open("a", newline="") as file:
        file.write("7\t7\r\n")
    assert task.load("full").test.labels.tolist() == [2, 1, 7]


@pytest.mark.parametrize(
    ("split", "content", "expected"),
    [
        ("train", "Source\tTarget\n5\t5\n5\tx\n", "line 3: the label is 'x'; a digit was expected"),
        ("train", "Source\tTarget\n5\t10\n", "line 2: the label is '10'"),
        ("val", "Source\tTarget\n[FIRST 5 ]\t5\n", "line 2: '[FIRST' is no token of ListOps"),
        ("test", "Source\tTarget\n\t5\n", "line 2: the expression has 0 tokens"),
        ("test", "Source\tTarget\n" + "5 " * 5000 + "\t5\n", "line 2: the expression has 5000 tokens"),
        ("test", "Source\tTarget\n", "line 2: the file ends here"),
        ("test", "Source,Target\n5,5\n", "line 1: 1 field between tabs; 2 were expected"),
        ("test", "Target\tSource\n5\t5\n", "line 1: the header is not the expected Source, Target"),
        ("test", "", "line 1: the file is empty"),
        ("train", "Source\tTarget\n<pad>\t5\n", "line 2: '<pad>' is no token"),
    ],
)
def test_listops_errors_name_file_line_and_expectation(listops, split, content, expected):
    path = listops / f"basic_{split}.tsv"
    path.write_text(content)
    message = says(lambda: get_task("lra_listops").load("full"))
    assert str(path) in message
    assert expected in message


def test_a_run_on_release_data_has_another_key():
    from lab.tasks.recipes import recipe

    assert recipe("listops", "full").key != recipe("lra_listops", "full").key
    assert recipe("listops", "full").with_(task="lra_listops") == recipe("lra_listops", "full")


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("listops", 5000),
        ("lra_listops", 5000),
        ("pathfinder", 62_400),
        ("lra_pathfinder", 62_400),
        ("lra_image", 35_000),
    ],
)
def test_the_default_budget_at_full_size_is_the_published_recipe(name, steps):
    from lab.tasks.recipes import recipe

    run = recipe(name, "full")
    assert (run.steps, run.layers, run.width, run.heads, run.ffn, run.dropout, run.learning_rate) == (
        *(steps, 2, 64, 2, 128),
        *(0.1, 1e-4),
    )


# -- Pathfinder -------------------------------------------------------------------------------------------------------


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(pixels: np.ndarray, header: tuple[int, ...] | None = None, filler: bytes = b"") -> bytes:
    """A grey 8-bit PNG, or one whose header says something else, written out by the format's own rules."""
    height, width = pixels.shape
    ihdr = struct.pack(">IIBBBBB", *(header or (width, height, 8, 0, 0, 0, 0)))
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    data = chunk(b"IHDR", ihdr) + filler + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + data


def images(n: int, side: int = 32) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 256, (n, side, side), dtype=np.uint8)


@pytest.fixture
def pathfinder(release):
    """Two lists of ten pictures, one of them empty."""
    root = release / "pathfinder32" / "curv_contour_length_14"
    (root / "metadata").mkdir(parents=True)
    made = images(20)
    for batch in (0, 1):
        (root / "imgs" / str(batch)).mkdir(parents=True)
        lines = []
        for i in range(10):
            index = 10 * batch + i
            data = b"" if index == 4 else png(made[index])
            (root / "imgs" / str(batch) / f"sample_{i}.png").write_bytes(data)
            lines.append(f"imgs/{batch} sample_{i}.png {i} {index % 2} 1.0 14 4 2 0.5 1 1\n")
        (root / "metadata" / f"{batch}.npy").write_text("".join(lines))
    return root


def test_pathfinder_is_read_and_empty_pictures_are_left_out(pathfinder):
    task = get_task("lra_pathfinder")
    assert task.unavailable("full") == ""
    data = task.load("full")
    assert len(data.digest) == 16
    assert (len(data.train), len(data.test), data.length, data.vocabulary) == (15, 2, 1024, 256)
    known = {picture.tobytes(): index % 2 for index, picture in enumerate(images(20)) if index != 4}
    for split in (data.train, data.test):
        for tokens, label in zip(split.tokens, split.labels, strict=True):
            assert known.pop(np.asarray(tokens).tobytes()) == label
    assert len(known) == 2  # the validation tenth


def test_path_x_is_its_own_folder(release):
    root = release / "pathfinder128" / "curv_contour_length_14"
    (root / "metadata").mkdir(parents=True)
    (root / "imgs" / "0").mkdir(parents=True)
    for i, picture in enumerate(images(10, 128)):
        (root / "imgs" / "0" / f"sample_{i}.png").write_bytes(png(picture))
    (root / "metadata" / "0.npy").write_text("".join(f"imgs/0 sample_{i}.png {i} {i % 2}\n" for i in range(10)))
    assert get_task("lra_pathx").load("full").length == 16384
    assert get_task("lra_pathfinder").unavailable("full")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"imgs/0 sample_0.png 0\n", "3 fields between spaces; at least 4"),
        (b"imgs/0 sample_0.png 0 2 1.0\n", "the label is '2'; 0 or 1 was expected"),
        (b"imgs/0 sample_99.png 0 1\n", "sample_99.png is not there; a PNG file was expected"),
        (b"imgs/7 sample_0.png 0 1\n", "is not there"),
        (b"../../.. sample_0.png 0 1\n", "outside the release's folder"),
        (b"/etc passwd 0 1\n", "outside the release's folder"),
        (b"imgs/0 ../../../x.png 0 1\n", "a plain name was expected"),
        (b"imgs/0 .. 0 1\n", "a plain name was expected"),
        (b"\x93NUMPY\x01\x00v\x00{'descr'", "1 field between spaces"),
        (b"imgs/\xff\xfe sample_0.png 0 1\n", "no file's name"),
        (b"imgs/0 a\0b 0 1\n", "no file's name"),
        (b"x" * 100_000, "longer than 4096 bytes"),
    ],
)
def test_a_wrong_list_is_named_with_line_and_expectation(pathfinder, line, expected):
    path = pathfinder / "metadata" / "1.npy"
    path.write_bytes(path.read_bytes() + line)
    message = says(lambda: get_task("lra_pathfinder").load("full"))
    assert f"{path}, line 11" in message or "outside the release" in message
    assert expected in message


def damaged(kind: str) -> bytes:
    good = png(images(1)[0])
    return {
        "truncated": good[: len(good) // 2],
        "header alone": good[:33],
        "no PNG": b"GIF89a" + bytes(100),
        "one byte": b"\x89",
        "bomb": png(np.zeros((32, 32), np.uint8), header=(100_000, 100_000, 8, 0, 0, 0, 0)),
        "too small": png(np.zeros((16, 16), np.uint8)),
        "colour": png(np.zeros((32, 96), np.uint8), header=(32, 32, 8, 2, 0, 0, 0)),
        "deep": png(np.zeros((32, 64), np.uint8), header=(32, 32, 16, 0, 0, 0, 0)),
        "stuffed": png(images(1)[0], filler=chunk(b"tEXt", b"k\0" + b"x" * 100_000)),
        "text bomb": png(images(1)[0], filler=chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(6_000_000)))),
    }[kind]


@pytest.mark.parametrize(
    "kind",
    ["truncated", "header alone", "no PNG", "one byte", "bomb", "too small", "colour", "deep", "stuffed", "text bomb"],
)
def test_a_wrong_picture_is_named_with_its_line_and_what_was_expected(pathfinder, kind):
    path = pathfinder / "imgs" / "1" / "sample_2.png"
    path.write_bytes(damaged(kind))
    message = says(lambda: get_task("lra_pathfinder").load("full"))
    assert str(path) in message
    assert "1.npy, line 3" in message
    assert "a grey 8-bit PNG of 32×32 pixels was expected" in message


def test_a_picture_that_is_a_link_is_not_followed(pathfinder, tmp_path):
    target = tmp_path / "elsewhere.png"
    target.write_bytes(png(images(1)[0]))
    path = pathfinder / "imgs" / "1" / "sample_2.png"
    path.unlink()
    path.symlink_to(target)
    assert "could not be opened" in says(lambda: get_task("lra_pathfinder").load("full"))


def test_every_filter_of_the_format_is_undone(tmp_path):
    """Pictures that a common encoder wrote, with all its tricks."""
    from PIL import Image

    picture = np.add.outer(np.arange(32), 3 * np.arange(32)).astype(np.uint8)
    Image.fromarray(picture).save(tmp_path / "x.png", optimize=True)
    assert (read_png(tmp_path / "x.png", 32, "here") == picture).all()


def test_no_list_at_all(pathfinder):
    for path in (pathfinder / "metadata").iterdir():
        path.unlink()
    assert "files named like 0.npy were expected" in says(lambda: get_task("lra_pathfinder").load("full"))

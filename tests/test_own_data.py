"""Your own data: tables and NPY pairs of every awkward kind become a task, or one clear sentence."""

import hashlib
import io
import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from lab.tasks import TaskError, available, get_task
from lab.tasks.base import TaskData
from lab.tasks.own_data import add, inspect, report
from lab.tasks.own_task import own_names
from lab.tasks.tables import SAMPLE


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def rows(n=40, classes=("bad", "good")):
    return [(f"sentence number {i} says {i * 7919 % 997}", classes[i % len(classes)]) for i in range(n)]


def csv_of(pairs, heading="text,label", separator=","):
    return "\n".join([heading, *(separator.join(pair) for pair in pairs)]).encode()


def texts(data: TaskData, part: str) -> list[str]:
    split = getattr(data, part)
    return [bytes((row[:n] - 1).tolist()).decode() for row, n in zip(split.tokens, split.lengths, strict=True)]


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def parquet(columns):
    import pyarrow
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


def refusal(function, *arguments, **options):
    with pytest.raises(TaskError) as caught:
        function(*arguments, **options)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < 400
    return sentence


PAIRS = rows()
TABLES = {
    "a.csv": csv_of(PAIRS),
    "b.csv": csv_of(PAIRS, "label;text", ";").replace(b"x", b"x")
    and csv_of([p[::-1] for p in PAIRS], "label;text", ";"),
    "c.tsv": csv_of(PAIRS, "text\tlabel", "\t"),
    "d.jsonl": "\n".join(json.dumps({"id": i, "label": y, "text": x}) for i, (x, y) in enumerate(PAIRS)).encode(),
    "e.parquet": parquet({"text": [x for x, _ in PAIRS], "label": [y for _, y in PAIRS]}),
    "f.csv": b"\n".join(f"{x},{y}".encode() for x, y in PAIRS),
    "g.csv": csv_of(PAIRS).replace(b"\n", b"\r\n"),
    "h.csv": csv_of([(f'"{x}"', y) for x, y in PAIRS]),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_format_becomes_the_same_task(name):
    table = inspect(TABLES[name], name)
    assert (table.rows, table.problems) == (40, ())
    assert len(table.preview) == 8
    task = get_task(add(TABLES[name], name))
    assert task.info.label_names == ("bad", "good")
    data = task.load("mini")
    assert (len(data.train), len(data.test), data.vocabulary, data.classes, data.towers) == (32, 8, 257, 2, 1)
    assert sorted(texts(data, "train") + texts(data, "test")) == sorted(x for x, _ in PAIRS)
    for part in ("train", "test"):
        labels = dict(PAIRS)
        said = [labels[text] for text in texts(data, part)]
        assert [task.info.label_names[y] for y in getattr(data, part).labels] == said
        assert np.mean(getattr(data, part).labels) == 0.5
    # the content alone names it, whatever the file was
    assert task.info.name == add(TABLES["a.csv"], "a.csv")


def test_the_task_is_found_by_another_process_and_listed(folder):
    name = add(TABLES["a.csv"], "reviews.csv")
    code = f"from lab.tasks import get_task; t = get_task({name!r}); print(t.info.title, t.load('mini').train.tokens.sum())"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ))
    assert out.stdout.split() == ["reviews.csv", str(get_task(name).load("mini").train.tokens.sum())]
    assert own_names() == [name]
    assert [entry for entry in available() if entry[0] == name] == [(name, s, "") for s in ("mini", "small", "full")]
    assert sorted(path.suffix for path in (folder / "own").iterdir()) == [".json", ".safetensors"]


def test_reading_a_path_is_reading_its_bytes(tmp_path):
    for name, data in TABLES.items():
        (tmp_path / name).write_bytes(data)
        assert inspect(tmp_path / name, name) == inspect(data, name)
        assert add(tmp_path / name, name) == add(data, name)


@pytest.mark.parametrize(
    ("columns", "text", "label"),
    [
        (("label", "text"), 1, 0),
        (("id", "review", "stars"), 1, 2),
        (("Sentiment", "Date", "Body"), 2, 0),
        (("a", "b"), 1, 0),
        (("text", "category", "source"), 0, 1),
    ],
)
def test_columns_are_guessed_and_can_be_chosen(columns, text, label):
    def cell(i, row):
        return f"a long sentence about thing {row}" if i == text else str(row % 2) if i == label else f"{row}"

    data = "\n".join(
        [",".join(columns), *(",".join(cell(i, r) for i in range(len(columns))) for r in range(30))]
    ).encode()
    table = inspect(data, "x.csv")
    assert (table.text_column, table.label_column) == (columns[text], columns[label])
    chosen = add(data, "x.csv", text_column=columns[text], label_column=columns[label])
    assert chosen == add(data, "x.csv")


def test_a_chosen_column_must_be_there():
    assert "has no column 'nope'; it has text, label" in refusal(add, TABLES["a.csv"], "a.csv", text_column="nope")
    assert "must be two" in refusal(add, TABLES["a.csv"], "a.csv", text_column="label", label_column="label")


def test_duplicates_are_reported_and_on_one_side():
    pairs = [
        *rows(60),
        *[(f"  SENTENCE   number {i} says {i * 7919 % 997}", ("bad", "good")[i % 2]) for i in range(60)],
    ]
    data = csv_of(pairs)
    name = add(data, "twice.csv")
    assert any(remark.startswith("60 rows repeat another") for remark in report(name).remarks)
    loaded = get_task(name).load("full")
    folded = [{" ".join(t.lower().split()) for t in texts(loaded, part)} for part in ("train", "test")]
    assert not folded[0] & folded[1]
    assert len(loaded.train) + len(loaded.test) == 120


def test_texts_that_the_cut_makes_equal_are_not_in_both_splits():
    pairs = [("x" * 140 + f" {i}", "ab"[i % 2]) for i in range(20)] + [
        (f"own {i}" + "y" * 200, "ab"[i % 2]) for i in range(80)
    ]
    task = get_task(add(csv_of(pairs), "long.csv"))
    mini, full = task.load("mini"), task.load("full")
    assert not set(texts(mini, "train")) & set(texts(mini, "test"))
    assert len(mini.test) < len(full.test) == 20
    alike = csv_of([("x" * 200 + f" {i}", "ab"[i % 2]) for i in range(20)])
    assert "choose a larger size" in refusal(get_task(add(alike, "alike.csv")).load, "mini")


def test_the_same_text_under_two_labels_is_dropped_and_counted():
    pairs = [*rows(20), (rows(20)[0][0], "good")]
    said = report(add(csv_of(pairs), "x.csv"))
    assert said.dropped == {"the same as another row, under another label": 1}
    assert sum(map(sum, said.classes.values())) == 20


def test_empty_rows_missing_labels_and_odd_widths_are_dropped_with_counts():
    data = csv_of(PAIRS) + b"\n,good\nno label,\n\n  \nnan label,NaN\na,b,c\n"
    said = report(add(data, "holes.csv"))
    assert said.rows == 44
    assert said.dropped == {
        "empty text (first in line 42)": 1,
        "label missing (first in line 43)": 2,
        "wrong number of cells (first in line 47)": 1,
    }
    assert said.classes == {"bad": (16, 4), "good": (16, 4)}


def test_the_split_is_stratified_and_fixed_and_every_prefix_has_every_class():
    pairs = [(f"text {i}", "abc"[0 if i < 800 else 1 if i < 990 else 2]) for i in range(1000)]
    name = add(csv_of(pairs), "x.csv")
    assert name == add(csv_of(pairs), "other.csv")
    assert report(name).classes == {"a": (640, 160), "b": (152, 38), "c": (8, 2)}
    data = get_task(name).load("mini")
    assert set(data.train.labels[:3].tolist()) == {0, 1, 2}
    assert abs(np.mean(data.train.labels[:100] == 0) - 0.8) < 0.03


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [("utf-8", b""), ("utf-8-sig", b""), ("utf-16", b""), ("utf-16-be", b"\xfe\xff"), ("utf-32", b"")],
)
@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl"])
def test_encodings(encoding, mark, name):
    pairs = [(f"Grüße Nummer {i} 🎈", "ja" if i % 2 else "nein") for i in range(20)]
    if name == "x.jsonl":
        text = "\n".join(json.dumps({"text": x, "label": y}, ensure_ascii=False) for x, y in pairs)
    else:
        text = csv_of(pairs, *(("text\tlabel", "\t") if name == "x.tsv" else ())).decode()
    data = mark + text.encode(encoding)
    assert inspect(data, name).problems == ()
    assert "Grüße Nummer 3 🎈" in texts(get_task(add(data, name)).load("mini"), "train") + texts(
        get_task(add(data, name)).load("mini"), "test"
    )


def test_latin_1_is_read_with_a_remark():
    data = csv_of([(f"café numéro {i}", "ab"[i % 2]) for i in range(20)]).decode().encode("latin-1")
    name = add(data, "x.csv")
    assert any("read as Latin-1" in remark for remark in report(name).remarks)
    assert "café numéro 3" in texts(get_task(name).load("mini"), "train") + texts(get_task(name).load("mini"), "test")
    assert "read as Latin-1" in inspect(data, "x.csv").problems[0]


def test_a_class_too_small_for_two_splits_is_left_out_with_a_remark():
    said = report(add(csv_of([*PAIRS, ("only one of it", "odd"), ("Only one  of it", "odd")]), "x.csv"))
    assert list(said.classes) == ["bad", "good"]
    assert said.dropped == {"of a class with one distinct example": 2}
    assert any("'odd' has one distinct example" in remark for remark in said.remarks)


def test_numeric_labels_are_in_order_and_one_point_nought_is_one():
    data = csv_of([(f"text {i}", ["1.0", "10", "2", "1"][i % 4]) for i in range(40)])
    assert get_task(add(data, "x.csv")).info.label_names == ("1", "2", "10")


REFUSED = {
    "one class": (csv_of(rows(20, ("same",))), "x.csv", "has one class, 'same'; at least two are needed"),
    "no label anywhere": (csv_of([(x, "") for x, _ in PAIRS]), "x.csv", "no row with a text and a label"),
    "too many classes": (csv_of([(x, f"{i}") for i, (x, _) in enumerate(rows(600))]), "x.csv", "600 different labels"),
    "each class once": (csv_of([("one", "a"), ("two", "b")]), "x.csv", "has 0 classes with two distinct examples"),
    "empty": (b"", "x.csv", "is empty"),
    "blank": (b"\n\n  \n", "x.csv", "only empty lines"),
    "one column": (b"text\na\nb\nc\n", "x.csv", "has one column; two are needed"),
    "heading alone": (b"text,label\n", "x.csv", "has no row"),
    "an empty cell": (b'""', "x.csv", "holds only empty cells"),
    "empty cells": (b'""\n""\n', "x.csv", "holds only empty cells"),
    "binary": (b"PK\x03\x04\0\0\0\0", "x.csv", "NUL bytes"),
    "half of utf-16": (b"\xff\xfea\x00b\x00c\xd8", "x.csv", "begins as utf-16"),
    "open quotation mark": (csv_of([*PAIRS[:3], ('"never closed', "x")]), "x.csv", "line 5"),
    "not json": (b'{"text": "a", "label": "b"}\n{"text": \n', "x.jsonl", "line 2: it is not one JSON object"),
    "an array": (b"[1, 2]\n", "x.json", "line 1: it is not one JSON object"),
    "deep json": (b"[" * 100_000, "x.jsonl", "line 1"),
    "not parquet": (b"PAR1 nonsense PAR1", "x.parquet", "cannot be read as Parquet"),
    "another ending": (b"a,b", "x.xlsx", "none of the endings"),
    "an archive": (b"a,b", "x.csv.gz", "none of the endings"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_a_task_is_one_sentence(case, folder):
    data, name, words = REFUSED[case]
    assert words in refusal(add, data, name)
    assert not (folder / "own").exists() or not list((folder / "own").iterdir())


def test_names_reach_no_other_file(folder, tmp_path):
    name = add(TABLES["a.csv"], "../../../../etc/passwd.csv")
    assert get_task(name).info.title == "passwd.csv"
    assert {path.parent.name for path in tmp_path.rglob("*.*") if path.is_file()} == {"own"}
    for bad in (
        "own:../../x",
        "own:",
        "own:" + "0" * 15,
        "own:" + "G" * 16,
        "own:" + "0" * 16 + "/..",
        "own:" + "0" * 16 + "\n",
    ):
        assert "16 hex digits" in refusal(get_task, bad)
    assert "not on this machine" in refusal(get_task, "own:" + "0" * 16)


def test_a_damaged_file_is_told_and_adding_again_repairs_it(folder):
    name = add(TABLES["a.csv"], "a.csv")
    path = folder / "own" / f"{name[4:]}.safetensors"
    sound = path.read_bytes()
    path.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    assert "is damaged" in refusal(get_task(name).load, "mini")
    path.write_bytes(b"\xff" * 20)
    assert "is damaged" in refusal(get_task, name)
    assert available()
    assert add(TABLES["a.csv"], "a.csv") == name
    assert len(get_task(name).load("mini").train) == 32
    path.with_suffix(".json").write_text("{")
    assert get_task(name).info.title == name
    assert report(name).remarks


def header_of(meta):
    text = json.dumps({"__metadata__": {"task": meta if isinstance(meta, str) else json.dumps(meta)}}).encode()
    return len(text).to_bytes(8, "little") + text


META = {"format": 1, "kind": "text", "labels": ["a", "b"], "train": 4, "vocabulary": 257}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        header_of([]),
        header_of("[" * 50_000),
        header_of(META | {"kind": "more"}),
        header_of(META | {"kind": ["text"]}),
        header_of(META | {"labels": 7}),
        header_of(META | {"labels": [1, 2]}),
        header_of(META | {"train": "x"}),
        header_of(META | {"train": 10**400}),
        header_of(META | {"kind": "signal"}),
        header_of(META | {"kind": "signal", "mean": float("nan"), "deviation": 1}),
        header_of({key: value for key, value in META.items() if key != "kind"}),
        (16).to_bytes(8, "little") + b"[1, [2], 3, 4  ]",
        None,
    ],
)
def test_whatever_an_own_file_holds_is_told_in_one_sentence(folder, data):
    (folder / "own").mkdir(parents=True)
    path = folder / "own" / f"{'0' * 16}.safetensors"
    path.mkdir() if data is None else path.write_bytes(data)
    assert "is damaged" in refusal(get_task, "own:" + "0" * 16)
    assert len([entry for entry in available() if entry[0] == "own:" + "0" * 16]) == 3


def test_a_planted_file_whose_arrays_do_not_fit_is_told(folder):
    from safetensors.numpy import save

    (folder / "own").mkdir(parents=True)
    eight = {"tokens": np.ones((8, 3), np.uint8), "labels": np.arange(8) % 2}
    for arrays in (
        {},
        {"tokens": eight["tokens"]},
        {"labels": eight["labels"]},
        eight | {"labels": eight["labels"] + 7},
        eight | {"tokens": eight["tokens"][0]},
        {name: array[:4] for name, array in eight.items()},
    ):
        data = save(arrays, {"task": json.dumps(META)})
        name = hashlib.sha256(data).hexdigest()[:16]
        (folder / "own" / f"{name}.safetensors").write_bytes(data)
        assert "is damaged" in refusal(get_task("own:" + name).load, "mini")


def test_half_a_surrogate_pair_in_a_columns_name_is_replaced():
    lines = [json.dumps({"text": x, "label\ud800": y}) for x, y in PAIRS]
    data = "\n".join(lines).encode()
    assert inspect(data, "x.jsonl").columns == ("text", "label?")
    name = add(data, "x.jsonl", text_column="text", label_column="label?")
    assert get_task(name).info.label_names == ("bad", "good")
    assert "has no column" in refusal(add, data, "x.jsonl", label_column="none").encode().decode()


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAB_DATA", str(tmp_path / "file"))
    assert "cannot be written" in refusal(add, TABLES["a.csv"], "a.csv")


def test_float_sequences_are_standardised_by_the_training_split():
    rng = np.random.default_rng(0)
    signal, labels = rng.normal(5, 3, (50, 16)), np.arange(50) % 2
    for order in "CF":
        name = add(npy(np.array(signal, order=order)), "x.npy", npy_labels=npy(labels))
    task, table = get_task(name), inspect(npy(signal), "x.npy")
    assert (table.rows, table.kind) == (50, "npy")
    data = task.load("mini")
    assert (data.vocabulary, data.train.tokens.dtype, data.train.tokens.shape) == (0, np.float32, (40, 16))
    assert abs(data.train.tokens.mean()) < 1e-6
    assert abs(data.train.tokens.std() - 1) < 1e-6
    whole = signal.astype(np.float32)
    mean, deviation = task._meta["mean"], task._meta["deviation"]
    for row in data.test.tokens:
        assert np.abs(whole - (row * deviation + mean)).max(1).min() < 1e-5
    assert np.allclose(task.encode("5, 8"), (np.array([5, 8]) - mean) / deviation)
    assert task.decode(task.encode("5 8")) == ["5", "8"]


def test_integer_sequences_are_ids():
    ids = np.random.default_rng(0).integers(0, 300, (40, 9))
    labels = np.array(["left", "right"])[np.arange(40) % 2]
    task = get_task(add(npy(ids), "x.npy", npy_labels=npy(labels)))
    data = task.load("mini")
    assert (data.vocabulary, task.info.label_names) == (ids.max() + 1, ("left", "right"))
    assert {tuple(row) for row in data.train.tokens} | {tuple(row) for row in data.test.tokens} == {
        tuple(r) for r in ids
    }
    assert "whole numbers from 0 to" in refusal(task.encode, "4000")


def test_npy_duplicates_stay_on_one_side_and_missing_labels_are_counted():
    ids = np.repeat(np.arange(200).reshape(20, 10), 3, 0)
    labels = np.repeat(np.arange(20) % 2, 3).astype(float)
    labels[0] = np.nan
    name = add(npy(ids), "x.npy", npy_labels=npy(labels))
    data, said = get_task(name).load("mini"), report(name)
    assert not {tuple(r) for r in data.train.tokens} & {tuple(r) for r in data.test.tokens}
    assert said.dropped == {"label missing": 1}
    assert list(said.classes) == ["0", "1"]


def header_of(shape):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue()


SOUND = npy(np.zeros((4, 3)) + np.arange(4)[:, None])
TWO = npy(np.array([0, 1, 0, 1]))
NPY_REFUSED = {
    "pickled": (npy(np.array([[{}]], dtype=object), allow_pickle=True), TWO, "Python objects"),
    "pickled labels": (SOUND, npy(np.array([{}] * 4, dtype=object), allow_pickle=True), "Python objects"),
    "a huge promise": (header_of((10**6, 10**6)) + b"\0" * 64, TWO, "ends early"),
    "a bomb of a product": (header_of((2**40, 2**40)), TWO, "ends early"),
    "one axis": (npy(np.zeros(4)), TWO, "has 1 axes"),
    "no rows": (npy(np.zeros((0, 4))), TWO, "at least one value"),
    "complex": (npy(np.zeros((4, 3), complex)), TWO, "floats or integers"),
    "words": (npy(np.array([["a"]])), TWO, "floats or integers"),
    "nan": (npy(np.array([[0.0, 1], [2, np.nan], [4, 5], [6, 7]])), TWO, "sequence 2, token 2"),
    "infinity": (npy(np.array([[0.0, 1], [2, np.inf], [4, 5], [6, 7]])), TWO, "sequence 2, token 2"),
    "constant": (npy(np.zeros((4, 3)) + np.array([[0.1]])), TWO, "distinct examples"),
    "negative ids": (npy(np.arange(-6, 6).reshape(4, 3)), TWO, "from -6 to 5"),
    "another number of labels": (SOUND, npy(np.arange(3)), "4 sequences and 3 labels"),
    "fractions as labels": (SOUND, npy(np.array([0.5, 1, 0, 1])), "holds fractions"),
    "one class": (SOUND, npy(np.ones(4, int)), "has one class, '1'"),
    "no header": (b"\x93NUMPYjunk", TWO, "no NPY header"),
    "not npy": (b"hello", TWO, "no NPY header"),
    "labels missing": (SOUND, None, "a second NPY file"),
}


@pytest.mark.parametrize("case", NPY_REFUSED)
def test_npy_files_that_cannot_be_a_task_are_one_sentence(case):
    data, labels, words = NPY_REFUSED[case]
    assert words in refusal(add, data, "x.npy", npy_labels=labels)


def test_a_text_repeated_in_a_small_parquet_file_does_not_fill_the_memory():
    import pyarrow

    long = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array([i % 4 for i in range(20_000)]), [f"{i}" + "x" * 900_000 for i in range(4)]
    )
    labels = [str(i % 2) for i in range(20_000)]
    data = parquet({"text": long, "label": labels})
    assert len(data) < 2**20
    said = report(add(data, "bomb.parquet"))
    assert said.classes == {"0": (5000, 5000), "1": (5000, 5000)}
    assert any("longer than 4096 bytes" in remark for remark in said.remarks)


def test_a_million_rows(tmp_path):
    path = tmp_path / "million.csv"
    with path.open("w") as file:
        file.write("text,label\n")
        file.writelines(f"row {i} of many says the number {i * 2654435761 % 2**32},{i % 3}\n" for i in range(10**6))
    code = (
        "import resource, sys; from pathlib import Path; from lab.tasks import get_task; "
        "from lab.tasks.own_data import add; name = add(Path(sys.argv[1]), 'million.csv'); "
        "d = get_task(name).load('full'); "
        "print(len(d.train), len(d.test), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    )
    started = time.perf_counter()
    out = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    train, test, megabytes = map(int, out.stdout.split())
    print(f"10^6 rows: {time.perf_counter() - started:.1f} s, {megabytes} MiB at most")  # noqa: T201
    assert abs(train - 990_000) < 10
    assert train + test == 10**6
    assert megabytes < 1500


def test_rows_beyond_the_sample_are_checked_too():
    data = csv_of(rows(SAMPLE + 100)) + b'\n"open'
    assert f"line {SAMPLE + 102}" in refusal(inspect, data, "x.csv")

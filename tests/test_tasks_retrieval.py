"""Retrieval: balanced pairs of documents that no split shares, and AAN's pairs streamed from the release."""

import tracemalloc
from itertools import combinations

import numpy as np
import pytest
import text_archive as made
import torch

from lab.config import RunConfig
from lab.model import PackTransformer
from lab.tasks import TaskError, fetch, get_task, lra_retrieval, retrieval, snippets

SIZES = {"mini": (64, 240, 48), "small": (128, 480, 96)}


@pytest.fixture
def archive(tmp_path, monkeypatch):
    made.install(tmp_path / "data", made.contents(300), monkeypatch)
    monkeypatch.setattr(retrieval, "SIZES", SIZES)
    retrieval._load.cache_clear()
    yield
    retrieval._load.cache_clear()


def collection_of(text):
    """The collection whose made-up words a document uses."""
    return max(made.WORDS, key=lambda name: sum(text.count(word.encode()) for word in made.WORDS[name]))


def pairs(split):
    rows = zip(split.tokens, split.lengths, strict=True)
    return [tuple(bytes((t[:n] - 1).tolist()) for t, n in zip(row, lengths, strict=True)) for row, lengths in rows]


@pytest.mark.parametrize("size", SIZES)
def test_pairs_are_balanced_and_their_labels_are_right(archive, size):
    data = get_task("retrieval").load(size)
    length, n_train, n_test = SIZES[size]
    assert data.train.tokens.shape == (n_train, 2, length)
    assert data.train.lengths.shape == (n_train, 2)
    assert (len(data.test), data.towers, data.length, data.classes, data.chance) == (n_test, 2, length, 2, 0.5)
    for split in (data.train, data.test):
        kinds = {}
        for (first, second), label in zip(pairs(split), split.labels.tolist(), strict=True):
            kind = tuple(sorted((collection_of(first), collection_of(second))))
            assert label == (kind[0] == kind[1])
            kinds[kind] = kinds.get(kind, 0) + 1
        expected = {(c, c): len(split) // 8 for c in made.WORDS}
        expected |= {tuple(sorted(kind)): len(split) // 12 for kind in combinations(made.WORDS, 2)}
        assert kinds == expected


@pytest.mark.parametrize("size", SIZES)
def test_no_document_is_in_both_splits_and_no_pair_comes_twice(archive, size):
    data = get_task("retrieval").load(size)
    documents = [{d for pair in pairs(split) for d in pair} for split in (data.train, data.test)]
    assert not documents[0] & documents[1]
    for split in (data.train, data.test):
        unordered = [frozenset(pair) for pair in pairs(split)]
        assert len(set(unordered)) == len(unordered)
        assert all(len(pair) == 2 for pair in unordered)


def test_the_pairs_are_the_same_every_time(archive):
    first = get_task("retrieval").load("mini")
    retrieval._load.cache_clear()
    again = get_task("retrieval").load("mini")
    assert (first.train.tokens == again.train.tokens).all()
    assert (first.train.labels == again.train.labels).all()


def test_the_towers_meet_only_at_the_head(archive):
    """Changing one document changes nothing in the other's hidden states."""
    data = get_task("retrieval").load("mini")
    model = PackTransformer(
        [RunConfig(task="retrieval")], data.vocabulary, data.length, data.classes, data.towers
    ).eval()
    tokens = torch.from_numpy(data.test.tokens[:4].astype(np.int64))[None]
    other = tokens.clone()
    other[:, :, 1] = tokens[:, :, 1].roll(1, 1)

    def hidden(batch):
        seen = []
        model(batch, None, lambda name, _, h: seen.append(h.unflatten(1, (-1, 2))) if name == "hidden" else None)
        return torch.stack(seen)

    with torch.no_grad():
        before, after = hidden(tokens), hidden(other)
    assert torch.equal(before[:, :, :, 0], after[:, :, :, 0])
    assert not torch.allclose(before[:, :, :, 1], after[:, :, :, 1])


def test_too_little_text_is_one_sentence(tmp_path, monkeypatch):
    made.install(tmp_path / "data", made.contents(6), monkeypatch)
    retrieval._load.cache_clear()
    with pytest.raises(TaskError, match="too few documents"):
        get_task("retrieval").load("small")


def test_the_real_data_if_it_is_here():
    if fetch.missing("text"):
        pytest.skip("not checked on the real sentences: they have not been fetched")
    retrieval._load.cache_clear()
    for size, (length, n_train, n_test) in retrieval.SIZES.items():
        data = get_task("retrieval").load(size)
        assert data.train.tokens.shape == (n_train, 2, length)
        assert (len(data.test), data.chance) == (n_test, 0.5)
    kept, held = snippets.split(snippets.read())
    assert not {s.document for s in kept} & {s.document for s in held}


# -- AAN ----------------------------------------------------------------------------------------------------------

LINES = {
    "train": [
        "1.0\tP1\tP2\tfirst paper\tsecond paper",
        "0.0\tP3\tP4\tit's \"quoted\t" + "é" * 3000,
        "1.0\tP1\tP5\ta\tb",
    ],
    "eval": ["0.0\tP6\tP7\tx\ty"],
    "test": ["0.0\tP8\tP9\tthis\tthat", "1.0\tP8\tP10\tthis\tthose"],
}


@pytest.fixture
def release(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LAB_LRA_DIR", str(tmp_path))
    folder = tmp_path / "lra_release" / "lra_release" / "tsv_data"
    folder.mkdir(parents=True)
    for part, lines in LINES.items():
        (folder / f"new_aan_pairs.{part}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def test_aan_pairs_are_read_as_published(release):
    task = get_task("lra_retrieval")
    assert task.unavailable("full") == ""
    data = task.load("full")
    assert data.train.tokens.shape == (3, 2, 4000)
    assert data.train.tokens.dtype == np.uint8
    assert (data.towers, data.vocabulary, data.classes) == (2, 257, 2)
    assert data.train.labels.tolist() == [1, 0, 1]
    assert data.test.labels.tolist() == [0, 1]
    assert data.train.lengths.tolist() == [[11, 12], [12, 4000], [1, 1]]
    assert pairs(data.train)[0] == (b"first paper", b"second paper")
    assert pairs(data.train)[1] == (b"it's \"quoted", ("é" * 2000).encode())
    assert pairs(data.test) == [(b"this", b"that"), (b"this", b"those")]


def test_the_tokens_are_kept_on_disk_and_follow_the_file(release, monkeypatch):
    task = get_task("lra_retrieval")
    assert isinstance(task.load("full").train.tokens, np.memmap)
    lra_retrieval._load.cache_clear()
    monkeypatch.setattr(lra_retrieval, "_pairs", None)  # not read a second time
    assert len(task.load("full").train) == 3
    monkeypatch.undo()
    monkeypatch.setenv("LAB_DATA", str(release.parents[2] / "data"))
    monkeypatch.setenv("LAB_LRA_DIR", str(release.parents[2]))
    with (release / "new_aan_pairs.train.tsv").open("a") as file:
        file.write("0.0\tP1\tP2\tnew\tpair\n")
    assert len(task.load("full").train) == 4


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1.0\tP1\tP2\tone text", "line 4: 4 fields between tabs; 5 were expected"),
        ("1.0\tP1\tP2\ta\tb\tc", "line 4: 6 fields between tabs; 5 were expected"),
        ("2.0\tP1\tP2\ta\tb", "line 4: the label is b'2.0'; 0.0 or 1.0 was expected"),
        ("label\tid1\tid2\ttext1\ttext2", "line 4: the label is b'label'; 0.0 or 1.0 was expected"),
        ("1.0\tP1\tP2\t\tb", "line 4: one of the texts is empty; two texts were expected"),
    ],
)
def test_a_wrong_line_is_named(release, line, words):
    path = release / "new_aan_pairs.train.tsv"
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(TaskError) as caught:
        get_task("lra_retrieval").load("full")
    assert str(caught.value).startswith(str(path))
    assert words in str(caught.value)


def test_a_missing_file_or_release_is_said(release, monkeypatch):
    task = get_task("lra_retrieval")
    assert "retrieval, on pairs" in task.unavailable("mini")
    (release / "new_aan_pairs.test.tsv").unlink()
    assert "new_aan_pairs.test.tsv" in task.unavailable("full")
    with pytest.raises(TaskError, match=r"new_aan_pairs\.test\.tsv"):
        task.load("full")
    monkeypatch.delenv("LAB_LRA_DIR")
    assert "LAB_LRA_DIR is not set" in task.unavailable("full")


def test_reading_takes_no_memory_that_grows_with_the_file(release):
    with (release / "new_aan_pairs.train.tsv").open("w") as file:
        for i in range(3000):
            file.write(f"{i % 2}.0\tP{i}\tQ{i}\t{f'{i} ' * 900}\t{f'{i + 1} ' * 900}\n")
    size = (release / "new_aan_pairs.train.tsv").stat().st_size
    assert size > 20 * 2**20
    tracemalloc.start()
    data = get_task("lra_retrieval").load("full")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(data.train) == 3000
    assert peak < 3 * 2**20

"""Text: bytes with the sign of the sentiment, nothing shared between the splits, and IMDB in LRA's form."""

import numpy as np
import pytest
import text_archive as made

from lab.tasks import TaskError, fetch, get_task, snippets, text
from lab.tasks.recipes import recipe

SIZES = ("mini", "small")


@pytest.fixture
def archive(tmp_path, monkeypatch):
    files = made.contents()
    made.install(tmp_path / "data", files, monkeypatch)
    return files


def texts(split):
    return [bytes((row[:n] - 1).tolist()) for row, n in zip(split.tokens, split.lengths, strict=True)]


def ratings(files):
    rows = [line.split(b"\t") for data in files.values() for line in data.split(b"\r\n")]
    return {row[2]: float(row[1]) for row in rows}


@pytest.mark.parametrize("size", SIZES)
def test_labels_are_the_sign_of_the_mean_rating_and_the_margin_is_left_out(archive, size):
    data = get_task("text").load(size)
    truth = ratings(archive if size == "small" else {"movies.tsv": archive["movies.tsv"]})
    found = {}
    for split in (data.train, data.test):
        found |= dict(zip(texts(split), split.labels.tolist(), strict=True))
    assert found == {words: int(rating > 0) for words, rating in truth.items() if abs(rating) > text.MARGIN}
    assert "within 1 of neutral are left out" in get_task("text").info.description
    assert get_task("text").info.label_names == ("negative", "positive")


@pytest.mark.parametrize("size", SIZES)
def test_tokens_are_bytes_plus_one_padded_with_zero(archive, size):
    data = get_task("text").load(size)
    assert data.vocabulary == 257
    assert data.train.tokens.shape[1] == data.test.tokens.shape[1] <= text.SIZES[size][1]
    for split in (data.train, data.test):
        real = np.arange(split.tokens.shape[1]) < split.lengths[:, None]
        assert (split.tokens[~real] == 0).all()
        assert (split.tokens[real] > 0).all()


def test_the_split_is_fixed_and_documents_are_on_one_side(archive):
    text._load.cache_clear()
    first = get_task("text").load("small")
    text._load.cache_clear()
    again = get_task("text").load("small")
    assert (first.train.tokens == again.train.tokens).all()
    assert (first.test.labels == again.test.labels).all()
    kept, held = snippets.split(snippets.read())
    assert not {s.document for s in kept} & {s.document for s in held}
    assert abs(len(held) / (len(held) + len(kept)) - 0.2) < 0.01


def test_duplicates_never_cross(tmp_path, monkeypatch):
    """The same but for case and white space, and the same after the cut, count as the same."""
    lines = [f"{i + 1}\t{(-1) ** i * 2.5}\t{'A' * 300} {i}" for i in range(50)]
    lines += [f"{i + 51}\t3.0\t{'same   Words' if i % 2 else 'Same words'}" for i in range(50)]
    lines += [f"{i + 101}\t{(-1) ** i * 2.5}\tanother sentence {i}" for i in range(50)]
    empty = b"1\t2.0\ttweet"
    files = {f"{c}.tsv": empty for c in made.WORDS} | {"movies.tsv": "\r\n".join(lines).encode()}
    made.install(tmp_path / "data", files, monkeypatch)
    data = get_task("text").load("mini")
    train, test = ({b" ".join(t.lower().split()) for t in texts(split)} for split in (data.train, data.test))
    assert not train & test
    assert len(data.train) + len(data.test) == 50 + 2


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1\t2.0", "tweets.tsv, line 2: 2 cells; id, mean rating and text were expected"),
        ("1\tmany\tx", "tweets.tsv, line 2: the rating is b'many'; a number from -4 to 4 was expected"),
        ("1\tnan\tx", "the rating is b'nan'"),
        ("1\t4.5\tx", "the rating is b'4.5'"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, monkeypatch, line, words):
    files = made.contents(10)
    files["tweets.tsv"] = b"1\t1.5\tfine\r\n" + line.encode()
    made.install(tmp_path / "data", files, monkeypatch)
    with pytest.raises(TaskError, match="expected") as caught:
        get_task("text").load("small")
    assert words in str(caught.value)


def test_typed_text_is_encoded_as_the_data_is(archive):
    task = get_task("text")
    tokens = task.encode("Good é")
    assert tokens.tolist() == [byte + 1 for byte in "Good é".encode()]
    assert task.decode(tokens) == ["G", "o", "o", "d", " ", "c3", "a9"]
    assert task.encode("a\ud800").tolist() == [98, 64]
    for blank in ("", "  "):
        with pytest.raises(TaskError, match="empty"):
            task.encode(blank)


@pytest.mark.parametrize("name", ["text", "retrieval"])
def test_without_the_data_it_says_what_to_do(tmp_path, monkeypatch, name):
    monkeypatch.setenv("LAB_DATA", str(tmp_path))
    for size in SIZES:
        assert get_task(name).unavailable(size).endswith("`python -m lab fetch text` downloads it.")
        with pytest.raises(TaskError, match="fetch text"):
            get_task(name).load(size)
    assert f"lra_{name}" in get_task(name).unavailable("full")


@pytest.mark.parametrize("name", ["text", "retrieval", "lra_text", "lra_retrieval"])
def test_every_task_says_where_it_is_from_and_has_a_recipe(name):
    info = get_task(name).info
    assert all((info.title, info.description, info.source, info.licence))
    assert len(info.label_names) == 2
    for size in info.sizes:
        assert recipe(name, size).steps != 300
    steps = {"lra_text": 20_000, "lra_retrieval": 30_000}
    if name in steps:
        full = recipe(name, "full")
        assert (full.steps, full.width, full.ffn, full.dropout, full.learning_rate) == (steps[name], 64, 128, 0.1, 1e-4)


def test_the_real_data_if_it_is_here():
    if fetch.missing("text"):
        pytest.skip("not checked on the real sentences: they have not been fetched")
    expected = {"mini": (7251, 1770), "small": (12_276, 3055)}
    for size, counts in expected.items():
        data = get_task("text").load(size)
        assert (len(data.train), len(data.test)) == counts
        assert not set(texts(data.train)) & set(texts(data.test))
        assert data.chance < 0.55


# -- IMDB ---------------------------------------------------------------------------------------------------------

REVIEWS = {
    "train": {"neg": ["0_3 dull", "10_1 worse", "2_2 bad"], "pos": ["0_9 fine", "1_10 great"]},
    "test": {"neg": ["0_1 no"], "pos": ["0_10 yes" + "!" * 1200]},
}


@pytest.fixture
def imdb(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LAB_LRA_DIR", str(tmp_path / "lra"))
    root = tmp_path / "lra" / "aclImdb"
    for part, labels in REVIEWS.items():
        for label, reviews in labels.items():
            (root / part / label).mkdir(parents=True)
            for review in reviews:
                name, _, words = review.partition(" ")
                (root / part / label / f"{name}.txt").write_bytes(words.encode())
        (root / part / "urls_neg.txt").write_text("ignored")
    (root / "train" / "unsup").mkdir()
    return root


@pytest.mark.parametrize("place", ["lra", "data"])
def test_imdb_is_read_as_published(imdb, tmp_path, monkeypatch, place):
    if place == "data":
        (tmp_path / "data").mkdir()
        imdb.rename(tmp_path / "data" / "aclImdb")
        monkeypatch.delenv("LAB_LRA_DIR")
    task = get_task("lra_text")
    assert task.unavailable("full") == ""
    data = task.load("full")
    assert [t.decode() for t in texts(data.train)] == ["dull", "bad", "worse", "fine", "great"]
    assert data.train.labels.tolist() == [0, 0, 0, 1, 1]
    assert data.test.labels.tolist() == [0, 1]
    assert data.test.lengths.tolist() == [2, 1000]
    assert (data.length, data.vocabulary, data.classes) == (1000, 257, 2)
    assert isinstance(data.train.tokens, np.memmap)


def test_imdb_missing_or_wrong_is_said(imdb, monkeypatch):
    task = get_task("lra_text")
    assert "text, on sentences" in task.unavailable("mini")
    (imdb / "train" / "pos" / "3_8.txt").touch()
    with pytest.raises(TaskError, match="is empty or a link"):
        task.load("full")
    (imdb / "train" / "pos" / "3_8.txt").unlink()
    (imdb / "train" / "pos" / "3_8.txt").symlink_to("/etc/passwd")
    with pytest.raises(TaskError, match="is empty or a link"):
        task.load("full")
    (imdb / "train" / "pos" / "3_8.txt").unlink()
    for review in (imdb / "test" / "neg").iterdir():
        review.unlink()
    with pytest.raises(TaskError, match="holds no review"):
        task.load("full")
    (imdb / "test" / "neg").rmdir()
    assert "test/neg is missing" in task.unavailable("full")
    monkeypatch.setenv("LAB_LRA_DIR", str(imdb))
    assert "unpack aclImdb_v1.tar.gz" in task.unavailable("full")

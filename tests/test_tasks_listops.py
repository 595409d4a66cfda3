"""ListOps: labels by an independent parser, the distribution against a slow literal generator, LRA's file format."""

import random

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from lab.tasks import PAD, Split, TaskError, get_task
from lab.tasks import listops as task_file
from lab.tasks.listops import ListOps, read_examples, to_source, write_tsv
from lab.tasks.listops_generator import MAX_ARGUMENTS, MAX_DEPTH, TOKENS, generate_split

# -- independent of the lab: a parser, and LRA's generator as its paper and code describe it --------------------------


def parse(words: list[str]) -> tuple[int, int, int]:
    """Value, depth and largest number of arguments of an expression, by recursive descent; all words must be used."""

    def node(at: int) -> tuple[int, int, int, int]:
        if not words[at].startswith("["):
            return int(words[at]), 1, 0, at + 1
        name, at, arguments, depth, most = words[at], at + 1, [], 0, 0
        while words[at] != "]":
            value, below, widest, at = node(at)
            arguments.append(value)
            depth, most = max(depth, below), max(most, widest)
        assert len(arguments) >= 2
        value = {
            "[MIN": lambda: min(arguments),
            "[MAX": lambda: max(arguments),
            "[MED": lambda: int(np.median(arguments)),
            "[SM": lambda: sum(arguments) % 10,
        }[name]()
        return value, depth + 1, max(most, len(arguments)), at + 1

    value, depth, most, end = node(0)
    assert end == len(words)
    return value, depth, most


def literal_tree(rng: random.Random, depth: int, p_operator: float = 0.25):
    """One tree and its length, a node at a time."""
    if depth >= 10 or rng.random() > p_operator:
        return rng.choice(range(10)), 1
    children = [literal_tree(rng, depth + 1, p_operator) for _ in range(rng.randint(2, 10))]
    tree = (rng.choice(["[MIN", "[MAX", "[MED", "[SM"]), children[0][0])
    for child, _ in children[1:]:
        tree = (tree, child)
    return (tree, "]"), 2 + sum(length for _, length in children)


def literal_text(tree) -> str:
    return f"( {literal_text(tree[0])} {literal_text(tree[1])} )" if isinstance(tree, tuple) else str(tree)


def literal_split(n: int, shortest: int, longest: int, seed: int, p_operator: float = 0.25) -> list[str]:
    rng, found = random.Random(seed), {}
    while len(found) < n:
        tree, length = literal_tree(rng, 1, p_operator)
        if shortest < length < longest:
            found[literal_text(tree)] = None
    return list(found)


def words_of(tokens, length) -> list[str]:
    return [TOKENS[token] for token in tokens[:length]]


def lab_split(n, shortest, longest, seed) -> list[list[str]]:
    made = generate_split(n, shortest, longest, seed)
    return [words_of(*pair) for pair in zip(made.tokens, made.lengths, strict=True)]


# -- the generator ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "shortest", "longest"), [(2000, 4, 48), (300, 100, 400), (60, 500, 2000)])
def test_labels_are_the_values_and_the_limits_hold(n, shortest, longest):
    made = generate_split(n, shortest, longest, 3)
    depths, widths, texts = [], [], set()
    for tokens, length, label in zip(made.tokens, made.lengths, made.labels, strict=True):
        words = words_of(tokens, length)
        value, depth, width = parse(words)
        assert value == label
        assert shortest < length < longest
        assert (tokens[length:] == PAD).all()
        depths.append(depth)
        widths.append(width)
        texts.add(" ".join(words))
    assert len(texts) == n
    assert max(depths) <= MAX_DEPTH
    assert max(widths) == MAX_ARGUMENTS
    assert longest < 2000 or max(depths) == MAX_DEPTH  # the forced digits are reached


def features(expressions: list[list[str]], bins: int) -> dict[str, list]:
    parsed = [parse(words) for words in expressions]
    return {
        "length": [len(words) // bins for words in expressions],
        "operator": [words[0] for words in expressions],
        "second": [words[1] for words in expressions],
        "operators": [sum(word[0] == "[" for word in words) * 4 // bins for words in expressions],
        "depth": [depth for _, depth, _ in parsed],
        "width": [width for _, _, width in parsed],
        "label": [value for value, _, _ in parsed],
    }


def p_values(ours: dict[str, list], theirs: dict[str, list]) -> dict[str, float]:
    """Two-sample chi-square tests, rare values pooled."""
    out = {}
    for name in ours:
        values = sorted({*ours[name], *theirs[name]})
        table = np.array([[side[name].count(value) for value in values] for side in (ours, theirs)])
        rare = table.sum(0) < 20
        pooled = np.column_stack([table[:, ~rare], table[:, rare].sum(1)]) if rare.any() else table
        pooled = pooled[:, pooled.sum(0) > 0]
        out[name] = chi2_contingency(pooled).pvalue
    return out


@pytest.mark.parametrize(("n", "shortest", "longest", "bins"), [(2500, 4, 48, 4), (600, 100, 400, 40)])
def test_the_distribution_is_the_literal_generators(n, shortest, longest, bins):
    words = [text.replace("(", "").replace(")", "").split() for text in literal_split(n, shortest, longest, 5)]
    found = p_values(features(lab_split(n, shortest, longest, 6), bins), features(words, bins))
    assert min(found.values()) > 1e-3, found


def test_the_comparison_sees_another_generator():
    words = [text.replace("(", "").replace(")", "").split() for text in literal_split(2000, 4, 48, 5, p_operator=0.15)]
    found = p_values(features(lab_split(2000, 4, 48, 6), 4), features(words, 4))
    assert min(found.values()) < 1e-6


def test_a_split_is_a_function_of_its_arguments_and_grows_at_its_end():
    few, many = generate_split(50, 4, 48, 1), generate_split(400, 4, 48, 1)
    assert (few.tokens == many.tokens[:50]).all()
    assert (few.labels == many.labels[:50]).all()
    assert (few.tokens != generate_split(50, 4, 48, 2).tokens).any()


def test_lone_digits_are_expressions_if_the_range_lets_them():
    made = generate_split(10, 0, 4, 0)
    assert sorted(made.labels) == list(range(10))
    assert (made.lengths == 1).all()


@pytest.mark.parametrize(("n", "shortest", "longest"), [(11, 0, 4), (1, 4, 5)])
def test_too_few_expressions_are_said_to_be_too_few(n, shortest, longest):
    with pytest.raises(TaskError, match=f"fewer than {longest} tokens turned up; {n} were asked for"):
        generate_split(n, shortest, longest, 0)


# -- the task ---------------------------------------------------------------------------------------------------------


def test_mini_has_its_size_and_no_example_in_both_splits():
    data = get_task("listops").load("mini")
    assert (len(data.train), len(data.test), data.classes, data.vocabulary) == (8000, 1000, 10, len(TOKENS))
    texts = [row.tobytes() for split in (data.train, data.test) for row in split.tokens]
    assert len(set(texts)) == len(texts)


def test_full_is_lras_size():
    assert task_file.SIZES["full"] == (500, 2000, 96000, 2000, 2000)


def test_larger_sizes_are_kept_on_disk_and_validation_is_held_apart(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_DATA", str(tmp_path))
    monkeypatch.setitem(task_file.SIZES, "full", (500, 2000, 40, 5, 7))
    task_file._load.cache_clear()
    try:
        data = ListOps().load("full")
    finally:
        task_file._load.cache_clear()
    everything = generate_split(52, 500, 2000, 2)
    assert isinstance(data.train.tokens, np.memmap)
    assert (data.test.tokens == everything.tokens[:7]).all()
    assert (data.train.tokens == everything.tokens[12:]).all()
    assert len(list(tmp_path.glob("tables/listops-full-*/tokens.npy"))) == 1


def test_encode_and_decode_are_inverse():
    task = ListOps()
    text = "[MAX 2 9 [MIN 4 7 ] 0 ]"
    assert " ".join(task.decode(task.encode(text))) == text
    assert (task.encode("( ( ( [max 2 ) 9 ) ])") == task.encode("[MAX 2 9 ]")).all()
    for wrong in ("", "[MAX 2 x ]", "<pad>", "12"):
        with pytest.raises(TaskError):
            task.encode(wrong)


# -- LRA's files ------------------------------------------------------------------------------------------------------


def test_source_is_written_as_lra_writes_it():
    assert to_source(["[MAX", "2", "9", "]"]) == "( ( ( [MAX 2 ) 9 ) ] )"
    rng = random.Random(8)
    for _ in range(200):
        text = literal_text(literal_tree(rng, 1)[0])
        assert to_source(text.replace("(", "").replace(")", "").split()) == text


def test_what_is_written_is_read_back_and_by_lras_rules(tmp_path):
    made = generate_split(60, 4, 200, 9)
    split = Split(made.tokens, made.lengths, made.labels)
    path = tmp_path / "basic_train.tsv"
    write_tsv(path, split)
    lines = path.read_bytes().split(b"\r\n")
    assert lines[0] == b"Source\tTarget"
    assert lines[-1] == b""
    read = list(read_examples(path))
    assert [label for _, label in read] == made.labels.tolist()
    for (tokens, _), row, length, line in zip(read, made.tokens, made.lengths, lines[1:-1], strict=True):
        assert (tokens == row[:length]).all()
        # LRA's rules, by themselves: parentheses go, ] becomes X, words are what is between the spaces
        words = line.decode().split("\t")[0].replace("(", "").replace(")", "").replace("]", "X").split()
        assert words == [word.replace("]", "X") for word in words_of(row, length)]
    assert [file.name for file in tmp_path.iterdir()] == ["basic_train.tsv"]


def test_a_cleaned_file_is_read_too(tmp_path):
    path = tmp_path / "basic_test.tsv"
    path.write_text("Source\tTarget\n[MAX 2 9 X\t9\n")
    ((tokens, label),) = read_examples(path)
    assert label == 9
    assert (tokens == ListOps().encode("[MAX 2 9 ]")).all()

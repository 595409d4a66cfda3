"""Which columns of a table are likely the text and the label, and whether its first row names them."""

from __future__ import annotations

from collections.abc import Sequence

_TEXT_NAMES = (
    "text", "sentence", "review", "content", "body", "message", "document", "tweet", "comment", "source", "question",
    "title", "description", "sequence", "input",
)  # fmt: skip
_LABEL_NAMES = (
    "label", "labels", "class", "target", "category", "sentiment", "y", "rating", "stars", "score", "topic", "polarity",
    "answer", "output",
)  # fmt: skip
_ID_NAMES = ("id", "index", "idx", "uuid", "")


def guess_columns(columns: Sequence[str], rows: list[list[str]]) -> tuple[str, str]:
    """Which column is the text and which the label: by name, then by length and by how few values there are."""
    cells = list(zip(*rows, strict=True))

    def place(names: Sequence[str], column: str) -> int:
        word = column.strip().lower()
        return len(names) - names.index(word) if word in names else 0

    def length(i: int) -> float:
        return sum(map(len, cells[i])) / len(cells[i])

    every = range(len(columns))

    def likely_text(i: int) -> float:
        named = place(_TEXT_NAMES, columns[i]) - 100 * (columns[i].strip().lower() in _ID_NAMES)
        return length(i) * (10 + named if named > 0 else 1 if named == 0 else 0.01)

    text = max(every, key=likely_text)
    others = [i for i in every if i != text]
    few = {i: len(set(cells[i])) for i in others}
    repeats = {i: few[i] < len(cells[i]) or len(cells[i]) < 4 for i in others}

    def likely_label(i: int) -> tuple[float, ...]:
        return repeats[i] * place(_LABEL_NAMES, columns[i]), few[i] > 1, repeats[i], -few[i], -length(i)

    return columns[text], columns[max(others, key=likely_label)]


def is_heading(rows: list[list[str]]) -> bool:
    """Whether the first row names the columns: short, distinct words, known ones, or unlike what is below them."""
    first, below = rows[0], rows[1:]
    words = [cell.strip().lower() for cell in first]
    if len(set(words)) < len(words) or any(len(word) > 40 or _is_number(word) for word in words):
        return False
    if any(word in _TEXT_NAMES + _LABEL_NAMES for word in words):
        return True
    return not any(word == cell.strip().lower() for row in below for word, cell in zip(words, row, strict=False))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True

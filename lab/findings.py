"""What the starter study found, as a page of Markdown: numbers fill the named places of a template, the words are written by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from string import Template

from lab.arms import Arm, arms
from lab.claims import Case, Claim, Verdict, claims
from lab.claims.runs import Results
from lab.errors import LabError
from lab.figures import accuracy, grid, learning, order
from lab.figures.figure import Figure
from lab.positions import Position
from lab.prediction import correlation
from lab.starter_study import GRID, studies
from lab.store.starter import Manifest
from lab.study import Study
from lab.tasks import get_task

FOLDER = "findings"
"""Of the figures, beside the page."""

WIDTH = 520
NOT_YET = Verdict.NOT_YET.value


def render(template: str, results: Results, manifest: Manifest) -> tuple[str, dict[str, Figure]]:
    """The page, and the figures it shows by the name of their file. Raises :class:`LabError` for a place that nothing fills."""
    found = Template(template)
    try:
        places = set(found.get_identifiers())
        drawn = {place: _drawn(place, results) for place in places if place.startswith("figure_")}
        values = _values(results, manifest) | {place: _image(place, figure) for place, figure in drawn.items()}
        text = found.substitute(values)
    except KeyError as error:
        raise LabError(f"The template names {error.args[0]!r}, which is no finding.", "template") from None
    except ValueError as error:
        raise LabError(f"The template cannot be read: {error}.", "template") from None
    return text, {_file(place): figure for place, figure in drawn.items() if figure is not None}


def write(out: Path, template: str, results: Results, manifest: Manifest) -> int:
    """Write the page to ``out`` and its figures beside it; how many figures. Raises OSError where it cannot be written."""
    text, figures = render(template, results, manifest)
    folder = out.parent / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        (folder / name).write_text(svg(figure), encoding="utf-8")
    out.write_text(text, encoding="utf-8")
    return len(figures)


def svg(figure: Figure) -> str:
    """An Altair figure as SVG on white. Raises :class:`LabError` without the package that draws it."""
    try:
        import vl_convert
    except ModuleNotFoundError:
        raise LabError("Figures are exported by vl-convert-python, which requirements-dev.txt installs.") from None
    spec = figure.chart.to_dict()
    spec["width"] = WIDTH
    spec["background"] = "white"
    return vl_convert.vegalite_to_svg(spec)


def _values(results: Results, manifest: Manifest) -> dict[str, str]:
    """What every place that is no figure is filled with."""
    found = claims(results)
    values = {
        "runs": str(manifest.runs),
        "planned": str(len({config.key for study in studies() for config in study.configs()})),
        "commit": manifest.commit[:10],
        "date": manifest.date,
        "minutes": f"{manifest.seconds / 60:.0f}",
        "machine": ", ".join(f"{name} {value}" for name, value in manifest.on.items()),
        "claims": _claims(found),
        "baselines": _baselines(results),
    }
    for claim in found:
        values[f"{claim.name}_verdict"] = claim.verdict.value
        values[f"{claim.name}_direction"] = claim.direction.value
        values[f"{claim.name}_paper"] = claim.paper
        values[f"{claim.name}_cases"] = _table(
            ("task", "difference", "seeds", "corrected p", "verdict"), [_numbers(case) for case in claim.cases]
        )
        for task, cases in _by_task(claim).items():
            values[f"{claim.name}_{task}"] = _in_words(cases)
    return values


def _by_task(claim: Claim) -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for case in claim.cases:
        found.setdefault(case.task, []).append(case)
    return found


def _in_words(cases: Sequence[Case]) -> str:
    """What a claim came to on a task, e.g. ``+4.1 points [+2.0, +6.2] (n = 5: holds)``, or of several cases ``holds in 2 of 7``."""
    measured = [case for case in cases if case.verdict is not Verdict.NOT_YET]
    if not measured:
        return NOT_YET
    if len(cases) > 1:
        return f"holds in {sum(case.verdict is Verdict.HOLDS for case in measured)} of {len(measured)}"
    (case,) = measured
    return f"{case.number} (n = {case.n}: {case.verdict})"


def _claims(found: Sequence[Claim]) -> str:
    """All claims on all tasks; a dash where the study plans nothing."""
    tasks = list(_plain_studies())
    rows = []
    for claim in found:
        by_task = _by_task(claim)
        cells = (_in_words(by_task[task]) if task in by_task else "–" for task in tasks)
        verdict = f"{claim.verdict}; direction: {claim.direction}" if claim.paper else claim.verdict.value
        rows.append((f"{claim.statement} ({claim.source})", *cells, verdict))
    return _table(("claim", *(get_task(task).info.title for task in tasks), "verdict"), rows)


def _numbers(case: Case) -> tuple[str, ...]:
    if case.verdict is Verdict.NOT_YET:
        return case.what, "–", f"0 of {case.wanted}", "–", NOT_YET
    p = "–" if case.unit == "ρ" else "< 0.001" if case.p < 0.001 else f"{case.p:.3f}"
    return case.what, case.number, f"{case.n} of {case.wanted}", p, case.verdict.value


def _baselines(results: Results) -> str:
    """Each task's size, training steps, and how far its baseline gets."""
    rows = []
    for study in _plain_studies().values():
        info, base = get_task(study.base.task).info, study.base
        found = [arm for arm in _arms(study, results) if arm.config.position is Position.BASELINE]
        if found:
            (arm,) = found
            first = arm.results[0]
            numbers = (f"{arm.mean:.1%}", f"{first.chance:.1%}", str(len(arm.results)), str(first.n_test))
        else:
            numbers = (NOT_YET, "–", "0", "–")
        rows.append((info.title, str(base.steps), *numbers))
    return _table(("task", "training steps", "baseline accuracy", "chance", "seeds", "held-out examples"), rows)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


# -- figures -----------------------------------------------------------------------------------------------------


def _plain_studies() -> dict[str, Study]:
    """For each task the study of all positions with their permuted controls."""
    return {study.base.task: study for study in studies() if study.permuted}


def _arms(study: Study, results: Results) -> list[Arm]:
    return arms([results[config.key] for config in study.configs() if config.key in results])


def _drawn(place: str, results: Results) -> Figure | None:
    """The figure of a place ``figure_<what>_<task>``; None while there are no runs for it. Raises KeyError for another place."""
    _, what, task = place.split("_", 2) if place.count("_") > 1 else (place, "", "")
    if what not in _FIGURES or task not in _plain_studies():
        raise KeyError(place)
    study = _plain_studies()[task]
    found = [arm for arm in _arms(study, results) if arm.difference or arm.config.position is Position.BASELINE]
    return _FIGURES[what](found, task, results) if any(arm.difference for arm in found) else None


def _grid(_: list[Arm], task: str, results: Results) -> Figure:
    plain = [study for study in studies() if study.base == _plain_studies()[task].base and not study.matched]
    runs = {config.key: config for study in plain for config in study.configs() if not config.permuted}
    return grid.heatmap(arms([results[key] for key in runs if key in results]), sorted((*GRID, 0.25)))


_FIGURES: Mapping[str, Callable[[list[Arm], str, Results], Figure]] = {
    "difference": lambda found, _task, _results: accuracy.difference(found),
    "growth": lambda found, _task, _results: learning.difference(
        [arm for arm in found if not arm.config.permuted], Position.AFTER_EMBEDDING
    ),
    "order": lambda found, _task, _results: order.against_accuracy(
        [arm for arm in found if not arm.config.permuted], "initial", correlation(found, "initial")
    ),
    "grid": _grid,
}


def _file(place: str) -> str:
    return f"{place.removeprefix('figure_').replace('_', '-')}.svg"


def _image(place: str, figure: Figure | None) -> str:
    if figure is None:
        return f"*(A figure of these runs: {NOT_YET}.)*"
    words = figure.alt.replace("[", "(").replace("]", ")")
    return f"![{words}]({FOLDER}/{_file(place)})\n\n*{figure.title}, {figure.basis}. {figure.guide}*"

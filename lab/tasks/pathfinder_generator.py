"""Scenes of dashed paths: two long ones, short distractors, two discs at ends of the long ones.

After Linsley et al. (arXiv 1805.08315) with the parameters that the Long Range Arena publishes for its Pathfinder
sets. A path is a chain of steps of length ``paddle + 2 margin``; the paddle is the middle of its step. From step to
step the direction turns by Δ with density proportional to ``cos²(c Δ)``, ``|Δ| ≤ π / 2c``, where c is the
*continuity*. Paddles that do not follow each other on a path keep a clearance. Scenes in which a path finds no room
after a number of attempts are left out.

The label is thrown independently of the scene. Every scene has two ends of one long path and two ends of different
ones that are almost equally far apart; discs go to the first pair if the label is 1, to the second if it is 0. So
neither where a disc lies nor how far apart they are tells the label: the dashes between them must be followed. (The
published generator does not match the distances.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.tasks.base import TaskError

VERSION = 1
"""Version of the pictures: raise it when the same seed would give others."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GRID = 4096  # coordinates are rounded to 1/4096 pixel, so that the last bit of a sine moves no picture
TRIES = 24  # draws of one paddle before the attempt at its path is given up
ATTEMPTS = 24  # at a path before the scene is given up
MAX_ROUNDS = 100  # of drawing as many scenes as are missing, three times over
FEW = 0.03  # of the scenes are not worth a further attempt
SLACK = 0.25  # pixels between a disc and the nearest paddle of another place
DIRECTIONS = 128
PADDING = 1.0
PADDLE_GREY = 0.75
PAIRS = ((0, 1), (2, 3), (0, 2), (0, 3), (1, 2), (1, 3))  # ends: 0, 1 of the first long path, 2, 3 of the second
N_JOINED = 2  # so many of PAIRS are on one path


@dataclass(frozen=True)
class Geometry:
    """What scenes look like; lengths in pixels. A further ``margins`` alternates with the first from batch to batch."""

    side: int
    contour: int  # paddles of each of the two long paths
    distractors: int  # short paths
    distractor: int  # paddles of each
    paddle: float
    margins: tuple[float, ...]
    thickness: float
    radius: float
    continuity: float
    clearance: float  # times the margin, between paddles that do not follow each other; less up to half a cell of the collision grid
    cells: int  # of the collision grid, to a pixel
    tolerance: float  # the two pairs of ends differ in distance by this much at most
    crisp: bool = False  # three greys only: ground, path and disc, without shades between them; a disc is one pixel

    @property
    def paths(self) -> tuple[int, ...]:
        """Paddles of each path, the two long ones first."""
        return (self.contour,) * 2 + (self.distractor,) * self.distractors


# Two short paths whose gaps are too small to see, no distractors: what a small Transformer learns much of in seconds.
MINIATURE = Geometry(7, 2, 0, 0, 1.5, (0.25,), 1, 0.5, 4, 8, 4, 0.75, crisp=True)
# The published parameters: contour_length 14, distractor_length 14 // 3, num_distractor_snakes 20 // 4, margin 1, paddle 2, …
LRA_32 = Geometry(32, 14, 20 // (14 // 3), 14 // 3, 2, (1,), 0.5, 1.5, 1.0, 2, 4, 2)
LRA_128 = Geometry(128, 14, 35 // (14 // 3), 14 // 3, 5, (2, 3), 1.5, 3, 1.8, 2, 2, 4)


@dataclass(frozen=True)
class Scenes:
    """``paddles (n, paddles, 2 ends, 2)`` in pixels (row, column); ``path (paddles,)``, the path each belongs to, in order along it;
    ``discs (n, 2, 2)``, their centres; ``labels (n,)``, 1 if the discs are at the two ends of one path."""

    paddles: Floats
    path: Ints
    discs: Floats
    labels: Ints

    def __len__(self) -> int:
        return len(self.labels)


def generate_scenes(n: int, geometry: Geometry, seed: int, batch: int = 0) -> Scenes:
    """``n`` scenes, as many of each label as can be; a function of its arguments alone.

    Raises :class:`TaskError` if the paths do not fit.
    """
    rng = np.random.default_rng([VERSION, seed, batch])
    margin = geometry.margins[batch % len(geometry.margins)]
    parts: list[tuple[Floats, Floats]] = []
    missing = n
    while missing > 0:
        if len(parts) == MAX_ROUNDS:
            raise TaskError(f"Hardly any picture of {geometry.side}×{geometry.side} pixels has room for all its paths.")
        drawn = _draw_paths(rng, max(64, 3 * missing), geometry, margin)
        parts.append(_with_disc_places(drawn, geometry))
        missing -= len(parts[-1][0])
    paddles = np.concatenate([paddles for paddles, _ in parts])[:n]
    places = np.concatenate([places for _, places in parts])[:n]
    labels = rng.permutation(np.arange(n) % 2)
    path = np.repeat(np.arange(len(geometry.paths)), geometry.paths)
    return Scenes(paddles, path, places[np.arange(n), labels], labels)


# -- paths ----------------------------------------------------------------------------------------------------------------


class _Ground:
    """Which places of each picture a further paddle may not touch: ``blocked (scenes, cells, cells)``, ``cells`` to a pixel.

    A paddle blocks what lies within the clearance, by a stencil for its direction (one of 128) laid on the cell of
    its centre.
    """

    def __init__(self, geometry: Geometry, margin: float) -> None:
        self.cells, self.side = geometry.cells, geometry.side * geometry.cells
        self.reach = math.ceil((geometry.paddle / 2 + geometry.clearance * margin) * self.cells)
        self.inset = PADDING * self.cells
        at = np.arange(-self.reach, self.reach + 1) / self.cells
        points = np.stack(np.meshgrid(at, at, indexing="ij"), -1).reshape(1, -1, 2)
        angle = np.arange(DIRECTIONS) * math.pi / DIRECTIONS
        half = np.stack([np.sin(angle), np.cos(angle)], -1) * geometry.paddle / 2
        near = _distance(points, -half, half) < geometry.clearance * margin
        self.stencils = near.reshape(DIRECTIONS, len(at), len(at))

    def empty(self, n: int) -> NDArray[np.bool_]:
        """``n`` pictures where all is free but a frame, wide enough that no stencil leaves the array."""
        blocked = np.ones((n, self.side + 2 * self.reach, self.side + 2 * self.reach), bool)
        free = slice(self.reach + int(self.inset), self.reach + self.side - int(self.inset))
        blocked[:, free, free] = False
        return blocked

    def block(self, blocked: NDArray[np.bool_], which: Ints, paddles: Floats) -> None:
        """Lay one paddle ``(n, 2 ends, 2)`` into each of the pictures ``which (n,)``."""
        way = paddles[:, 1] - paddles[:, 0]
        direction = np.rint(np.arctan2(way[:, 0], way[:, 1]) * (DIRECTIONS / math.pi)).astype(np.int64) % DIRECTIONS
        corner = np.floor(paddles.mean(1) * self.cells).astype(np.int64)  # less the reach, plus the frame: the same
        window = np.arange(2 * self.reach + 1)
        rows, columns = corner[:, 0, None, None] + window[:, None], corner[:, 1, None, None] + window
        blocked[which[:, None, None], rows, columns] |= self.stencils[direction]

    def is_free(self, blocked: NDArray[np.bool_], which: Ints, dots: Floats) -> NDArray[np.bool_]:
        """Whether none of the points ``dots (n, dots, 2)`` is blocked in the pictures ``which (n,)``."""
        cell = np.floor(dots * self.cells).astype(np.int64) + self.reach
        outside = ((cell < 0) | (cell >= blocked.shape[1])).any((1, 2))
        cell[outside] = 0  # the frame
        hit: NDArray[np.bool_] = blocked[which[:, None], cell[..., 0], cell[..., 1]]
        return ~np.any(hit, axis=1)


def _draw_paths(rng: np.random.Generator, n: int, geometry: Geometry, margin: float) -> Floats:
    """Paddles of up to ``n`` scenes, ``(scenes, paddles, 2, 2)``; scenes without room for all their paths are left out."""
    ground = _Ground(geometry, margin)
    scenes, blocked = np.zeros((n, 0, 2, 2)), ground.empty(n)
    for length in geometry.paths:
        room = np.zeros((len(scenes), length, 2, 2))
        waiting = np.arange(len(scenes))
        for _ in range(ATTEMPTS):
            if len(waiting) <= FEW * len(scenes):
                break
            done, room[waiting[done]], blocked[waiting[done]] = _grow(
                rng, blocked[waiting], length, geometry, margin, ground
            )
            waiting = np.delete(waiting, done)
        placed = np.delete(np.arange(len(scenes)), waiting)
        scenes, blocked = np.concatenate([scenes[placed], room[placed]], axis=1), blocked[placed]
    return scenes


def _grow(
    rng: np.random.Generator,
    blocked: NDArray[np.bool_],
    length: int,
    geometry: Geometry,
    margin: float,
    ground: _Ground,
) -> tuple[Ints, Floats, NDArray[np.bool_]]:
    """One attempt at one more path in each scene: in which it succeeded, the paddles there, and the ground with them in it."""
    alive = np.arange(len(blocked))
    chain = np.zeros((len(blocked), length, 2, 2))
    pivot, angle = np.zeros((len(blocked), 2)), np.zeros(len(blocked))
    for step in range(length):
        waiting, found = alive, np.zeros(len(blocked), bool)
        for _ in range(TRIES):
            if step:
                start, to = pivot[waiting], angle[waiting] + _turns(rng, len(waiting), geometry.continuity)
            else:
                start = rng.uniform(0, geometry.side, (len(waiting), 2))
                to = rng.uniform(-math.pi, math.pi, len(waiting))
            direction = np.stack([np.sin(to), np.cos(to)], -1)
            ends = start[:, None] + direction[:, None] * np.array([margin, margin + geometry.paddle])[None, :, None]
            ends = np.round(ends * GRID) / GRID
            dots = _dots(ends[:, None], geometry)
            if step < length - 1:  # room to go on straight ahead, or the next step is likely to fail
                ahead = start + direction * (geometry.paddle + 3 * margin)
                dots = np.concatenate([dots, ahead[:, None]], axis=1)
            free = ground.is_free(blocked, waiting, dots)
            chosen = waiting[free]
            chain[chosen, step], angle[chosen], found[chosen] = ends[free], to[free], True
            pivot[chosen] = (start + direction * (geometry.paddle + 2 * margin))[free]
            waiting = waiting[~free]
            if not len(waiting):
                break
        alive = alive[found[alive]]
        # A paddle may be near the one it follows, and must keep away from all others: each blocks one step late.
        if step:
            ground.block(blocked, alive, chain[alive, step - 1])
    ground.block(blocked, alive, chain[alive, length - 1])
    return alive, chain[alive], blocked[alive]


_ANGLES = np.linspace(-math.pi / 2, math.pi / 2, 4097)
_BELOW = (_ANGLES + np.sin(2 * _ANGLES) / 2) / math.pi + 0.5  # the integral of 2 cos² / π


def _turns(rng: np.random.Generator, n: int, continuity: float) -> Floats:
    """Angles Δ with density ∝ cos²(cΔ) on ``|Δ| ≤ π / 2c``."""
    return np.interp(rng.random(n), _BELOW, _ANGLES) / continuity


def _dots(paddles: Floats, geometry: Geometry) -> Floats:
    """Points along all paddles of a scene, ends included, at most two pixels apart: ``(n, points, 2)`` from ``(n, paddles, 2, 2)``."""
    at = np.linspace(0, 1, 2 + int(geometry.paddle / 2))[:, None]
    n, count = paddles.shape[:2]
    return (paddles[:, :, :1] * (1 - at) + paddles[:, :, 1:] * at).reshape(n, count * len(at), 2)


# -- discs ----------------------------------------------------------------------------------------------------------------


def _with_disc_places(paddles: Floats, geometry: Geometry) -> tuple[Floats, Floats]:
    """The scenes that have them, and the places of two discs for label 0 and for label 1, ``(scenes, 2 labels, 2 discs, 2)``."""
    c = geometry.contour
    ends = np.stack([paddles[:, 0, 0], paddles[:, c - 1, 1], paddles[:, c, 0], paddles[:, 2 * c - 1, 1]], axis=1)
    tips = (0, c - 1, c, 2 * c - 1)
    clear = np.ones(ends.shape[:2], bool)
    for end, own in enumerate(tips):
        others = _dots(np.delete(paddles, own, axis=1), geometry)
        gap = np.linalg.norm(others - ends[:, end, None], axis=-1).min(1)
        clear[:, end] = gap >= geometry.radius + geometry.thickness / 2 + SLACK
    pairs = np.array(PAIRS)
    distance = np.linalg.norm(ends[:, pairs[:, 0]] - ends[:, pairs[:, 1]], axis=-1)
    usable = clear[:, pairs].all(-1) & (distance >= 2 * geometry.radius + 1)
    mismatch = np.abs(distance[:, :N_JOINED, None] - distance[:, None, N_JOINED:])
    mismatch[~(usable[:, :N_JOINED, None] & usable[:, None, N_JOINED:])] = np.inf
    flat = mismatch.reshape(len(paddles), N_JOINED * (len(PAIRS) - N_JOINED))
    best = flat.argmin(1)
    kept = flat[np.arange(len(flat)), best] <= geometry.tolerance
    joined, apart = np.divmod(best[kept], len(PAIRS) - N_JOINED)
    choice = pairs[np.stack([apart + N_JOINED, joined], axis=1)]
    return paddles[kept], ends[kept][np.arange(len(choice))[:, None, None], choice]


# -- drawing --------------------------------------------------------------------------------------------------------------


def draw(scenes: Scenes, geometry: Geometry) -> NDArray[np.uint8]:
    """Grey pictures ``(n, side, side)``: each pixel is the part of it that a paddle (grey 0.75) or a disc (white) covers."""
    canvas = np.zeros((len(scenes), geometry.side, geometry.side))
    for paddle in range(scenes.paddles.shape[1]):
        ends = scenes.paddles[:, paddle]
        _stamp(canvas, ends[:, 0], ends[:, 1], geometry.thickness / 2, geometry.paddle, PADDLE_GREY)
    if geometry.crisp:
        canvas = np.where(canvas > PADDLE_GREY / 2, PADDLE_GREY, 0)
        row, column = np.moveaxis(np.floor(scenes.discs).astype(np.int64), -1, 0)
        canvas[np.arange(len(scenes))[:, None], row, column] = 1
        return np.rint(canvas * 255).astype(np.uint8)
    for disc in range(2):
        _stamp(canvas, scenes.discs[:, disc], scenes.discs[:, disc], geometry.radius, 0, 1)
    return np.rint(canvas * 255).astype(np.uint8)


def _stamp(canvas: Floats, a: Floats, b: Floats, radius: float, length: float, grey: float) -> None:
    """Lighten each picture to ``grey`` within ``radius`` of its own segment a–b, ``(n, 2)`` each, of that length, in place."""
    n, side = len(canvas), canvas.shape[1]
    reach = math.ceil(length / 2 + radius + 0.5)
    window = np.arange(-reach, reach + 1)
    corner = np.floor((a + b) / 2).astype(np.int64)
    rows = corner[:, 0, None, None] + window[:, None]
    columns = corner[:, 1, None, None] + window
    points = np.stack(np.broadcast_arrays(rows + 0.5, columns + 0.5), -1).reshape(n, -1, 2)
    # On a straight edge, the part of a unit pixel that is covered is the distance its centre is within the edge, and a half.
    covered = np.clip(radius + 0.5 - _distance(points, a, b), 0, min(1.0, 2 * radius))
    value = grey * covered.reshape(n, len(window), len(window))
    value[((rows < 0) | (rows >= side)) | ((columns < 0) | (columns >= side))] = 0
    # maximum.at, because pixels outside the picture are clipped, with value 0, onto ones that are written too.
    picture = np.arange(n)[:, None, None]
    np.maximum.at(canvas, (picture, np.clip(rows, 0, side - 1), np.clip(columns, 0, side - 1)), value)


def _distance(points: Floats, a: Floats, b: Floats) -> Floats:
    """Distances of ``points (n, m, 2)`` from the segments a–b, ``(n, 2)`` each: ``(n, m)``."""
    along = (b - a)[:, None]
    from_a = points - a[:, None]
    squared_length = np.maximum((along * along).sum(-1), 1e-12)
    t = np.clip((from_a * along).sum(-1) / squared_length, 0, 1)
    off = from_a - t[..., None] * along
    return np.sqrt((off * off).sum(-1))

"""The drawing of a pre-LN block with its seven numbered places, as SVG in the page's own ink."""

from __future__ import annotations

from html import escape

from lab.figures.palette import ACCENT
from lab.positions import Position

# (kind, label): boxes, the numbered places, the sums of the residual stream; "frame" begins and ends what is repeated.
_PARTS = (
    ("box", "Embedding"),
    ("place", Position.AFTER_EMBEDDING),
    ("frame", "begin"),
    ("fork", "attention"),
    ("box", "LN₁"),
    ("place", Position.BEFORE_ATTENTION),
    ("box", "Attention"),
    ("place", Position.AFTER_ATTENTION),
    ("sum", "attention"),
    ("place", Position.BEFORE_LN),
    ("fork", "ffn"),
    ("box", "LN₂"),
    ("box", "FFN"),
    ("place", Position.AFTER_FFN),
    ("sum", "ffn"),
    ("place", Position.BETWEEN_LAYERS),
    ("frame", "end"),
    ("place", Position.BEFORE_HEAD),
    ("box", "LN"),
    ("box", "Mean"),
    ("box", "Classes"),
)
_WIDTHS = {"Embedding": 92, "Attention": 88, "Classes": 72, "Mean": 60, "FFN": 60}
_STYLE = """<style>
.lab-block{container-type:inline-size;width:100%}
.lab-block svg{width:100%;height:auto;display:block;font-size:14px;font-weight:500}
.lab-block .tall{display:none;max-width:200px;margin:0 auto}
.lab-places{display:grid;grid-template-columns:repeat(auto-fill,minmax(225px,1fr));gap:.35rem 1rem;margin:.75rem 0 0;
padding:0;list-style:none;font-size:.9rem}
.lab-places li{margin:0;padding:.15rem .5rem;border-radius:.4rem;line-height:1.35}
.lab-places b{color:#D55E00;margin-right:.35rem}
.lab-places .chosen{background:rgba(213,94,0,.14);font-weight:600}
.lab-places small{display:block;opacity:.75;font-size:.85em}
@container (max-width:720px){.lab-block .wide{display:none}.lab-block .tall{display:block}}
</style>"""


def block_drawing(chosen: Position) -> str:
    """HTML of the drawing, wide and tall (the page shows the one that fits), and its legend, with ``chosen`` marked."""
    legend = "".join(
        f'<li class="{"chosen" if place is chosen else ""}"><b>{i}</b>{escape(place.label)}'
        f"<small>{escape(place.formula)}</small></li>"
        for i, place in enumerate(Position)
        if place is not Position.BASELINE
    )
    pictures = _svg(chosen, tall=False) + _svg(chosen, tall=True)
    return f'{_STYLE}<div class="lab-block">{pictures}<ol class="lab-places">{legend}</ol></div>'


def block_alt(chosen: Position) -> str:
    """The drawing in words."""
    places = "; ".join(f"{i}, {p.label}: {p.formula}" for i, p in enumerate(tuple(Position)[1:], 1))
    here = "No heat layer is chosen" if chosen is Position.BASELINE else f"Chosen: {chosen.label}"
    return f"A pre-LN Transformer block and the seven places where the heat layer D can sit. {places}. {here}."


def _svg(chosen: Position, *, tall: bool) -> str:
    pen = _Pen(tall)
    numbers = {p: i for i, p in enumerate(Position)}
    forks: dict[str, float] = {}
    frame_start = 0.0
    for kind, label in _PARTS:
        if kind == "box":
            pen.box(label)
        elif kind == "place":
            position = Position(label)
            pen.place(numbers[position], position.label, filled=position is chosen)
        elif kind == "sum":
            pen.residual(forks[label], pen.plus())
        elif kind == "fork":
            forks[label] = pen.at + 2
            pen.skip(8)
        elif label == "begin":
            pen.skip(10)
            frame_start = pen.at
            pen.skip(6)
        else:
            pen.skip(12)
            pen.frame(frame_start, pen.at)
            pen.skip(4)
    return pen.finish(block_alt(chosen))


class _Pen:
    """Draws along one axis, left to right or top to bottom; ``at`` is how far it has come."""

    def __init__(self, tall: bool) -> None:
        self.tall, self.at = tall, 4.0
        self.first = True
        self.middle = 96.0
        self.shapes: list[str] = []

    def point(self, along: float, across: float) -> tuple[float, float]:
        return (self.middle + across, along) if self.tall else (along, self.middle + across)

    def line(self, start: float, end: float) -> None:
        (x1, y1), (x2, y2) = self.point(start, 0), self.point(end, 0)
        self.shapes.append(f'<path d="M{x1:g} {y1:g}L{x2:g} {y2:g}" stroke="currentColor" opacity=".55"/>')

    def skip(self, length: float) -> None:
        self.line(self.at, self.at + length)
        self.at += length

    def _gap(self) -> None:
        if not self.first:
            self.skip(11)
        self.first = False

    def box(self, text: str) -> None:
        self._gap()
        width = 108 if self.tall else _WIDTHS.get(text, 48)
        length = 32 if self.tall else width
        x, y = self.point(self.at + length / 2, 0)
        height = 32 if self.tall else 46
        self.shapes.append(
            f'<rect x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width}" height="{height}" rx="7" '
            f'fill="currentColor" fill-opacity=".06" stroke="currentColor" stroke-opacity=".5"/>'
            f'<text x="{x:g}" y="{y + 5:g}" text-anchor="middle" fill="currentColor">{escape(text)}</text>'
        )
        self.at += length

    def place(self, number: int, name: str, *, filled: bool) -> None:
        self._gap()
        x, y = self.point(self.at + 13, 0)
        fill, ink = (ACCENT, "#fff") if filled else ("none", "currentColor")
        halo = f'<circle cx="{x:g}" cy="{y:g}" r="18" fill="{ACCENT}" opacity=".25"/>' if filled else ""
        self.shapes.append(
            f'<g><title>{number}: {escape(name)}</title>{halo}<circle cx="{x:g}" cy="{y:g}" r="13" fill="{fill}" '
            f'stroke="{ACCENT}" stroke-width="2"/><text x="{x:g}" y="{y + 5:g}" text-anchor="middle" fill="{ink}" '
            f'font-weight="700">{number}</text></g>'
        )
        if filled:
            tx, ty = self.point(self.at + 13, 0)
            anchor = 'text-anchor="start"' if self.tall else 'text-anchor="middle"'
            tx, ty = (tx + 24, ty + 5) if self.tall else (tx, ty + 36)
            self.shapes.append(f'<text x="{tx:g}" y="{ty:g}" {anchor} fill="{ACCENT}" font-weight="700">D</text>')
        self.at += 26

    def plus(self) -> float:
        self._gap()
        x, y = self.point(self.at + 10, 0)
        self.shapes.append(
            f'<circle cx="{x:g}" cy="{y:g}" r="10" fill="none" stroke="currentColor" stroke-opacity=".7"/>'
            f'<path d="M{x - 5:g} {y:g}h10M{x:g} {y - 5:g}v10" stroke="currentColor"/>'
        )
        self.at += 20
        return self.at - 10

    def residual(self, start: float, end: float) -> None:
        """The residual stream: around the branch, from before it to the sum."""
        side = 74.0 if self.tall else -50.0
        corners = [
            self.point(start, 0),
            self.point(start, side),
            self.point(end, side),
            self.point(end, 11 if self.tall else -11),
        ]
        path = "L".join(f"{x:g} {y:g}" for x, y in corners)
        self.shapes.append(
            f'<path d="M{path}" fill="none" stroke="currentColor" opacity=".55" stroke-linejoin="round"/>'
        )

    def frame(self, start: float, end: float) -> None:
        (x1, y1), (x2, y2) = self.point(start, -88 if self.tall else -70), self.point(end, 88 if self.tall else 72)
        self.shapes.insert(
            0,
            f'<rect x="{x1:g}" y="{y1:g}" width="{x2 - x1:g}" height="{y2 - y1:g}" rx="12" fill="currentColor" '
            f'fill-opacity=".03" stroke="currentColor" stroke-opacity=".45" stroke-dasharray="5 4"/>',
        )
        tx, ty = (x1 + 10, y1 + 20) if self.tall else (x1 + 12, y2 - 10)
        words = "× layers" if self.tall else "one block, repeated for every layer"
        self.shapes.append(
            f'<text x="{tx:g}" y="{ty:g}" fill="currentColor" opacity=".75" font-size="12.5">{words}</text>'
        )

    def finish(self, alt: str) -> str:
        end = self.at + 4
        box = f"0 0 196 {end:g}" if self.tall else f"0 16 {end:g} 160"
        kind = "tall" if self.tall else "wide"
        return (
            f'<svg class="{kind}" viewBox="{box}" role="img" aria-label="{escape(alt)}" stroke-width="1.6">'
            + "".join(self.shapes)
            + "</svg>"
        )

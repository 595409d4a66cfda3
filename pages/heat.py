"""Heat smoothing: representations before and after T steps, and what happens to each of their frequencies."""

from lab.figures import smoothing
from pages.parts import sources, state
from pages.parts.shown import heading, panels, show, told

heading(
    "Heat smoothing",
    "A heat step replaces each token by `x − α L x`: a little more of its two neighbours, a little less of itself.",
)
given = None
with told():
    given = sources.chosen()
if given is not None:
    values = state.values()
    left, right = panels([3, 2])
    with right:  # first, because it is the lighter one: the browser draws it while the other is still on its way
        show(smoothing.transfer(given, values["alpha"], values["heat_steps"]), "transfer")
    with left:
        if (unchanged := smoothing.before(given)) is not None:
            show(unchanged, "before")
        show(smoothing.smoothing(given, values["alpha"], values["heat_steps"]), "smoothing")

"""Run by a test in a process of its own: the home page, and what heavy packages it has loaded."""

import sys
from pathlib import Path

import streamlit.runtime.scriptrunner.script_runner as runner
from streamlit.testing.v1 import AppTest

HEAVY = ("torch", "plotly", "altair", "scipy", "sklearn", "dask", "distributed")


def run_app(path: str) -> None:
    exec(compile(Path(path).read_text(), path, "exec"), {"__name__": "__main__", "__file__": path})


runner._mpa_v1 = run_app
before = set(sys.modules)
app = AppTest.from_file(str(Path("app.py").absolute()), default_timeout=60).run()
assert app.title[0].value == "Where should a Transformer diffuse?", app
assert not app.exception
sys.stdout.write(str([name for name in HEAVY if name in sys.modules and name not in before]))

import os

from hypothesis import settings

# The same examples in every run: a failure is a fact about the code, not about the draw.
settings.register_profile("lab", derandomize=True, deadline=None, max_examples=60, database=None)
settings.load_profile("lab")

# Tests train what they look at: the study that ships with the lab is for the tests that are about it.
os.environ["LAB_STARTER"] = ""

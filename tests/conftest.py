from hypothesis import settings

# The same examples in every run: a failure is a fact about the code, not about the draw.
settings.register_profile("lab", derandomize=True, deadline=None, max_examples=60, database=None)
settings.load_profile("lab")

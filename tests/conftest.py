"""Rules for every test run."""

import os

from hypothesis import settings

pytest_plugins = ("localcluster.testing.clusters", "localcluster.testing.folders")

# On a busy machine an example may take any time; pytest's own time limit ends a test that hangs.
# Each run tries the same examples, so that a failure is one of the change. "random" draws others.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None)
# For `make check`: a quarter of the examples (see tests/unit/properties.py).
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=25)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

"""Rules for every test run."""

import os

from hypothesis import settings

pytest_plugins = ("localcluster.testing.clusters", "localcluster.testing.folders")

# On a busy machine an example may take any time; pytest's own time limit ends a test that hangs.
settings.register_profile("no-deadline", deadline=None)
# For `make check`, which sets it.
settings.register_profile("quick", deadline=None, max_examples=25)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "no-deadline"))

"""Rules for every test run."""

import os

from hypothesis import HealthCheck, Phase, settings

pytest_plugins = ("localcluster.testing.clusters", "localcluster.testing.folders")

# On a busy machine an example may take any time; pytest's own time limit ends a test that hangs.
settings.register_profile("no-deadline", deadline=None)
# For `make check`: a quarter of the examples (see tests/unit/properties.py).
settings.register_profile("quick", deadline=None, max_examples=25)
# A mutant is dead at its first failure, which nobody reads; each of its runs is the same.
settings.register_profile(
    "mutants",
    deadline=None,
    database=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[*HealthCheck],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "no-deadline"))

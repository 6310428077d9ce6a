"""Rules for every test run."""

from hypothesis import settings

pytest_plugins = ("localcluster.testing.clusters", "localcluster.testing.folders")

# On a busy machine an example may take any time; pytest's own time limit ends a test that hangs.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")

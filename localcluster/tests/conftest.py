"""Rules for every test run."""

pytest_plugins = ("localcluster.testing.clusters", "localcluster.testing.folders")

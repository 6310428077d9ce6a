"""The real control plane that the tests of this folder share."""

from localcluster.testing.real_cluster import *  # noqa: F403  # pytest finds hooks and fixtures here

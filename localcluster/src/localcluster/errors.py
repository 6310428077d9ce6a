"""What can go wrong with the local cluster; every message is one a user can act on."""


class LocalClusterError(Exception):
    """Base of the errors that a caller may want to show instead of a traceback."""


class BuildError(LocalClusterError):
    """A program or an environment could not be had."""


class ClusterError(LocalClusterError):
    """A cluster could not be started, found or stopped."""


class KubectlError(LocalClusterError):
    """A kubectl command failed; the message holds the command and what it wrote to stderr."""

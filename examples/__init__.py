"""Training programs that run under Optimus: each takes its role from the environment that the
operator sets."""

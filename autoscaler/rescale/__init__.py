"""Rescale: suspend, wait until no pod is left, set the counts and resume."""

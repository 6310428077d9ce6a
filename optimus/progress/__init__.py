"""A job's progress, parsed from its training logs."""

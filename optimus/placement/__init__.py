"""Placement: which node each replica of one job goes to."""

"""Allocation policies, one module each, named as in the literature; the name is the value of ``--policy``."""

"""Mutation tests: what a fault in each function would be noticed by (``make mutants``)."""

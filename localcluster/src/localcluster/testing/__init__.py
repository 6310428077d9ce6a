"""Helpers for tests that run on a local cluster."""

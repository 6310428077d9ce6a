"""Optimus on a real control plane, one behaviour per file; written with `tests.e2e.harness`."""

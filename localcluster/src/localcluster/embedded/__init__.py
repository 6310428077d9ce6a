"""A control plane from Python packages alone, up in about a second: what the product meets of the
real one, no more.

For a first look and for tests of faults; held to the real control plane by `tests/conformance/`.
"""

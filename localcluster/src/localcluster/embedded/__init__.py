"""A control plane from Python packages alone, up in about a second.

It serves what the product, its tests and the demo use of a real one. `tests/conformance/` compares
the two."""

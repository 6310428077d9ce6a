"""A control plane from Python packages alone, up in about a second: what the product meets of the real one, no more.

For a first look and for tests of faults; held to the real control plane by `tests/conformance/`.
"""

from pathlib import Path

SCHEDULER_FOLDER = Path(__file__).parent / "bin"
"""Holds a program `kube-scheduler`: what the image of that name stands for on the embedded back end."""

"""The environment of Debian's package python3-torch, where it is installed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

PYTORCH_IMAGE: Final = "optimus-examples-pytorch"
_DEBIAN: Final = Path("/usr/lib/python3/dist-packages/torch")
_ENVIRONMENT: Final = Path(__file__).with_name("debian")
"""Debian has no program ``python``: here is a link of that name."""


def pytorch_environment() -> Mapping[str, Path]:
    """Its folder by the name of an image; nothing where there is none."""
    return {PYTORCH_IMAGE: _ENVIRONMENT} if _DEBIAN.exists() else {}

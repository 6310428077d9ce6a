"""An environment with PyTorch. It takes gigabytes: tests use one where it is named."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

PYTORCH_IMAGE: Final = "optimus-examples-pytorch"


def pytorch_environment() -> Mapping[str, Path]:
    """The folder that ``OPTIMUS_TEST_PYTORCH`` names, by the name of an image; else nothing."""
    named = os.environ.get("OPTIMUS_TEST_PYTORCH")
    return {PYTORCH_IMAGE: Path(named)} if named else {}

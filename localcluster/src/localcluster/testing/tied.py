"""Programs that a test starts end with its process, however that ends."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from localcluster.node import launcher


def tied(command: Sequence[str | Path], folder: Path) -> list[str]:
    """The command line that runs a command in a folder, and that the kernel kills when the thread
    that started it ends. The program is named by its absolute path."""
    program, *arguments = map(str, command)
    own = (sys.executable, "-I", "-S", launcher.__file__, str(os.getpid()))
    return [*own, str(folder), program, program, *arguments]

"""Programs that tests of the installation run: pinned Go modules, built once per machine and cached
beside those of the control plane."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from localcluster.binaries.build import build_module
from localcluster.binaries.modules import GoModule
from localcluster.progress import PlainProgress
from localcluster.storage import cache_root

_FOLDER: Final = Path(__file__).parent / "go"
_RUN_SECONDS: Final = 300


@dataclass(frozen=True)
class GoTool(GoModule):
    """One program; `tags` are build tags."""

    tags: str = ""

    @property
    def folder(self) -> Path:
        """Where go.mod and go.sum lie."""
        return _FOLDER / self.name

    def build_flags(self) -> tuple[str, ...]:
        """Return the arguments of `go build` before `-o`."""
        return (*super().build_flags(), *(("-tags", self.tags) if self.tags else ()))

    def built(self) -> Path:
        """Return the program, built if it is not cached. Raises BuildError."""
        folder = build_module(self, cache_root() / "binaries", PlainProgress())
        return folder / self.name


HELM: Final = GoTool("helm", "helm.sh/helm/v4", {"helm": "helm.sh/helm/v4/cmd/helm"})

# Without its clients of clouds, which only `promtool check service-discovery` uses.
PROMTOOL: Final = GoTool(
    "promtool",
    "github.com/prometheus/prometheus",
    {"promtool": "github.com/prometheus/prometheus/cmd/promtool"},
    tags="remove_all_sd",
)

ACTIONLINT: Final = GoTool(
    "actionlint",
    "github.com/rhysd/actionlint",
    {"actionlint": "github.com/rhysd/actionlint/cmd/actionlint"},
)


def run_tool(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program; its exit status is for the caller to look at."""
    command = [str(program), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False
    )

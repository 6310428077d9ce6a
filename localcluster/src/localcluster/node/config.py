"""The agent's configuration file."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from localcluster.backoff import BackOff
from localcluster.images import ImageCatalog
from localcluster.specs import NodeSpec

Seconds = Annotated[float, msgspec.Meta(gt=0)]


class BadConfig(Exception):
    """The configuration cannot be used; the message names the field."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Figures of the agent; tests shorten them."""

    back_off: BackOff = BackOff()
    """Before restarts of containers; the first restart is immediate."""
    refresh_seconds: Seconds = 60.0
    """How often config maps and tokens in volumes are looked at (a kubelet's figure)."""
    lease_seconds: Seconds = 10.0
    """How often each node's Lease is renewed; the node controller waits 40 s."""
    shutdown_seconds: Seconds = 3.0
    """How long containers get between SIGTERM and SIGKILL when the agent itself is to end."""


@dataclass(frozen=True)
class AgentConfig:
    """What an agent runs with."""

    kubeconfig: Path
    state_dir: Path
    images: ImageCatalog
    nodes: Annotated[tuple[NodeSpec, ...], msgspec.Meta(min_length=1)]
    settings: Settings = field(default_factory=Settings)


def load_config(path: Path) -> AgentConfig:
    """Read a configuration file. Raises BadConfig."""
    try:
        return msgspec.json.decode(
            path.read_bytes(), type=AgentConfig, dec_hook=lambda kind, value: kind(value)
        )
    except (OSError, msgspec.DecodeError, ValueError, TypeError) as error:
        raise BadConfig(f"{path} cannot be used: {error}") from None

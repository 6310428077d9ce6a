"""The agent's configuration file: where the API server is, which nodes to be, what image names
mean."""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from localcluster.images import ImageCatalog
from localcluster.node.lifecycle import BackOff
from localcluster.specs import NodeSpec


class BadConfig(Exception):
    """The configuration cannot be used; the message lists every problem."""


@dataclass(frozen=True)
class Settings:
    """Figures of the agent; tests shorten them."""

    restart_base_seconds: float = 10.0
    """The second restart of a container waits this long, every later one twice as long (a kubelet's
    figure)."""
    restart_cap_seconds: float = 300.0
    """No restart waits longer (a kubelet's figure)."""
    restart_reset_seconds: float = 600.0
    """A run of this length starts the back-off anew (a kubelet's figure)."""
    refresh_seconds: float = 10.0
    """How often config maps, secrets and tokens in volumes are looked at; a kubelet needs up to a
    minute."""
    lease_seconds: float = 10.0
    """How often each node's Lease is renewed; the node controller waits 40 s."""
    shutdown_seconds: float = 3.0
    """How long containers get between SIGTERM and SIGKILL when the agent itself is told to end."""

    @property
    def back_off(self) -> BackOff:
        """The back-off of container restarts."""
        return BackOff(
            self.restart_base_seconds, self.restart_cap_seconds, self.restart_reset_seconds
        )


@dataclass(frozen=True)
class AgentConfig:
    """Everything that an agent is told."""

    kubeconfig: Path
    state_dir: Path
    images: ImageCatalog
    nodes: tuple[NodeSpec, ...]
    settings: Settings = Settings()


def load_config(path: Path) -> AgentConfig:
    """Read a configuration file. Raises BadConfig with one message that names all problems."""
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BadConfig(f"{path} cannot be read as JSON: {error}") from None
    return parse_config(values)


def parse_config(values: Any) -> AgentConfig:
    """Read a configuration from JSON values. Raises BadConfig with one message that names all
    problems."""
    if not isinstance(values, dict):
        raise BadConfig("the configuration must be a JSON object")
    problems = [
        f'"{key}" is missing'
        for key in ("kubeconfig", "state_dir", "images", "nodes")
        if key not in values
    ]
    if problems:
        raise BadConfig("; ".join(problems))
    nodes = tuple(node for entry in values["nodes"] for node in _node(entry, problems))
    if not nodes and not problems:
        problems.append('"nodes" is empty')
    images = _images(values["images"], problems)
    settings = _settings(values.get("settings") or {}, problems)
    if problems:
        raise BadConfig("; ".join(problems))
    return AgentConfig(
        Path(values["kubeconfig"]), Path(values["state_dir"]), images, nodes, settings
    )


def _images(values: Any, problems: list[str]) -> ImageCatalog:
    try:
        return ImageCatalog.from_json(values)
    except (ValueError, AttributeError) as error:
        problems.append(f'"images": {error}')
        return ImageCatalog({})


def _node(entry: Any, problems: list[str]) -> list[NodeSpec]:
    """Read one node; what is wrong with it is added to the problems and the node is left out."""
    try:
        return [NodeSpec.from_json(entry)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problems.append(f"a node cannot be read from {entry!r}: {error}")
        return []


def _settings(values: Any, problems: list[str]) -> Settings:
    known = {each.name for each in fields(Settings)}
    for key, value in values.items():
        if key not in known:
            problems.append(f'"settings": "{key}" is not one of {", ".join(sorted(known))}')
        elif not isinstance(value, int | float) or value <= 0:
            problems.append(f'"settings": "{key}" must be a number above 0')
    return (
        Settings() if problems else Settings(**{key: float(value) for key, value in values.items()})
    )

"""``--policy-config FILE``: the options of each policy, as YAML or JSON."""

import json
from collections.abc import Mapping
from pathlib import Path

from optimus.allocation.options import Options
from optimus.cli.command import BadInput
from optimus.policies import policy_options


def read_policy_config(file: Path) -> Mapping[str, Options]:
    """The options in a file by policy; raises ``BadInput``."""
    try:
        return policy_options(_parsed(file))
    except ValueError as problem:
        if isinstance(problem, BadInput):
            raise
        raise BadInput(file, str(problem)) from None


def _parsed(file: Path) -> object:
    text = file.read_text(encoding="utf-8")
    try:
        value: object = json.loads(text)
    except ValueError:
        return _parsed_yaml(file, text)
    return value


def _parsed_yaml(file: Path, text: str) -> object:
    import yaml

    try:
        value: object = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        said = " ".join(str(problem).split())
        raise BadInput(file, f"YAML or JSON is expected: {said}") from None
    return value

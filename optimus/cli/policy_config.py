"""``--policy-config FILE``: the options of each policy, as YAML (or JSON, which is YAML)."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from optimus.allocation.options import Options
from optimus.cli.command import BadInput
from optimus.policies import policy_options


def read_policy_config(file: Path) -> Mapping[str, Options]:
    """The options in a file by policy; raises ``BadInput``."""
    try:
        return policy_options(yaml.safe_load(file.read_text(encoding="utf-8")))
    except yaml.YAMLError as problem:
        said = " ".join(str(problem).split())
        raise BadInput(file, f"YAML or JSON is expected: {said}") from None
    except ValueError as problem:
        raise BadInput(file, str(problem)) from None

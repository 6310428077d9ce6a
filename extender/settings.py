"""What the extender can be told, read once, every problem in one message.

Each field of ``Settings`` is a flag of the same name with dashes and an environment variable with the prefix
``OPTIMUS_EXTENDER_``; a flag wins. The sentence under a field is its help text.
"""

import argparse
import ast
import inspect
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import get_args

from kube.contract import SCHEDULER_NAME

ENVIRONMENT_PREFIX = "OPTIMUS_EXTENDER_"


class SettingsError(ValueError):
    """What is wrong with the settings, one line per problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The extender's settings."""

    kubeconfig: Path | None = None
    """Path of a kubeconfig. Default: the pod's own service account."""

    listen: str = "127.0.0.1:8888"
    """Address and port of /filter and /prioritize. Loopback: whoever reaches it can hold the cluster's room."""

    health_listen: str = ""
    """A second address and port that serves /healthz, /readyz and /metrics alone; in a pod, its own address."""

    scheduler_name: str = SCHEDULER_NAME
    """Pods that name this scheduler are planned and told where they go."""

    node_selector: str = ""
    """Label selector (key=value,...) of the nodes that jobs may be planned on. Default: every node."""

    nominate: bool = True
    """Write status.nominatedNodeName of planned pods; false: wake them by an annotation instead."""

    leader_lease: str = "kube-system/optimus-scheduler"
    """Namespace/name of kube-scheduler's Lease: plans are made only while the kube-scheduler beside this process
    leads. Empty: it is the only one."""

    leader_identity: str = ""
    """What the Lease's holder begins with when it is the kube-scheduler beside this process. Default: the host name."""

    reservation_seconds: float = 60.0
    """How long room is held for planned pods that do not bind; every pod of the gang that binds starts it anew."""

    barred_seconds: float = 60.0
    """How long at most a replica is kept off a node that kube-scheduler did not let it go to: a second the first time,
    then twice as long each time, until the node changes."""

    rescale_hold_seconds: float = 600.0
    """How long room is held at most for a job that is being rescaled."""

    age_limit_seconds: float = 600.0
    """A gang that has waited longer goes first, and nodes that it may use are kept for it."""

    threads: int = 8
    """Requests served at the same time; kube-scheduler sends one, the others are for health and metrics."""

    max_body_bytes: int = 33_554_432
    """Largest request body. 5,000 node names are 160 kB; whole nodes are about 14 kB each."""

    access_log: str = "off"
    """One line per request: off, plain or json."""

    check_invariants: bool = False
    """Check after every change that no node is promised more than it has, and log where one is."""

    log_level: str = "info"
    """debug, info, warning or error."""


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Settings from the command line and the environment.

    Raises:
        SettingsError: naming every value that is wrong, and what would be right.
    """
    flags = vars(_parser().parse_args(arguments))
    given = {
        field.name: environment[ENVIRONMENT_PREFIX + field.name.upper()]
        for field in fields(Settings)
        if ENVIRONMENT_PREFIX + field.name.upper() in environment
    }
    given |= {name: text for name, text in flags.items() if text is not None}
    values: dict[str, object] = {}
    problems: list[str] = []
    for field in fields(Settings):
        if field.name in given:
            try:
                values[field.name] = _value(field, given[field.name])
            except ValueError as error:
                problems.append(f"{_flag(field)} {given[field.name]!r}: {error}")
    settings = Settings(**values)  # type: ignore[arg-type]  # each value was read by its own field's rule above
    problems += _contradictions(settings)
    if problems:
        raise SettingsError("\n".join(problems))
    return settings


def address(text: str) -> tuple[str, int]:
    """Host and port of ADDRESS:PORT; an IPv6 address stands in brackets.

    Raises:
        ValueError: it is no such thing.
    """
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError("ADDRESS:PORT is expected")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _flag(field: Field[object]) -> str:
    return "--" + field.name.replace("_", "-")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m extender", description="The kube-scheduler extender of Optimus.")
    sentences = _sentences()
    for field in fields(Settings):
        default = "" if field.default in (None, "") else f" Default: {field.default}."
        text = (sentences[field.name] + default).replace("%", "%%")
        if field.type is bool:
            parser.add_argument(_flag(field), nargs="?", const="true", default=None, help=text, metavar="true|false")
        else:
            parser.add_argument(_flag(field), default=None, help=text, metavar=field.name.rsplit("_", 1)[-1].upper())
    return parser


def _sentences() -> dict[str, str]:
    """The docstring under each field."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(Settings))).body[0]
    assert isinstance(tree, ast.ClassDef)
    return {
        statement.target.id: " ".join(str(following.value.value).split())
        for statement, following in zip(tree.body, tree.body[1:], strict=False)
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
    }


def _value(field: Field[object], text: str) -> object:
    if field.type is bool:
        if text.lower() not in ("true", "1", "yes", "false", "0", "no"):
            raise ValueError("true or false is expected")
        return text.lower() in ("true", "1", "yes")
    if field.type is float:
        return _amount(float, text, "a number of seconds above 0")
    if field.type is int:
        return _amount(int, text, "a whole number above 0")
    return Path(text) if Path in get_args(field.type) else text


def _amount(kind: type[int] | type[float], text: str, expected: str) -> int | float:
    try:
        value = kind(text)
    except ValueError:
        raise ValueError(f"{expected} is expected") from None
    if not 0 < value < float("inf"):
        raise ValueError(f"{expected} is expected")
    return value


def _contradictions(settings: Settings) -> list[str]:
    problems = [
        f"--{name} {text!r}: ADDRESS:PORT is expected"
        for name, text in (("listen", settings.listen), ("health-listen", settings.health_listen))
        if text and not _is_address(text)
    ]
    if not settings.listen:
        problems.append("--listen '': ADDRESS:PORT is expected")
    if settings.listen == settings.health_listen:
        problems.append(
            f"--health-listen {settings.health_listen!r}: an address other than that of --listen is expected"
        )
    lease = settings.leader_lease
    if lease and (lease.count("/") != 1 or not all(lease.split("/"))):
        problems.append(f"--leader-lease {lease!r}: NAMESPACE/NAME is expected, or nothing")
    if settings.node_selector and not all("=" in part for part in settings.node_selector.split(",")):
        problems.append(f"--node-selector {settings.node_selector!r}: key=value,... is expected")
    for name, text, choices in (
        ("access-log", settings.access_log, ("off", "plain", "json")),
        ("log-level", settings.log_level, ("debug", "info", "warning", "error")),
    ):
        if text not in choices:
            problems.append(f"--{name} {text!r}: {', '.join(choices[:-1])} or {choices[-1]} is expected")
    return problems


def _is_address(text: str) -> bool:
    try:
        address(text)
    except ValueError:
        return False
    return True

"""What the autoscaler can be told, read once, every problem in one message.

Each field of ``Settings`` is a flag of the same name with dashes (``interval_seconds`` is ``--interval-seconds``)
and an environment variable with the prefix ``OPTIMUS_`` (``OPTIMUS_INTERVAL_SECONDS``); a flag wins. The sentence
under a field is its help text, so that the code and ``--help`` cannot disagree.
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
from scheduling.policies import POLICIES

ENVIRONMENT_PREFIX = "OPTIMUS_"


class SettingsError(ValueError):
    """What is wrong with the settings, one line per problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The autoscaler's settings."""

    kubeconfig: Path | None = None
    """Path of a kubeconfig. Default: the pod's own service account."""

    listen: str = "127.0.0.1:8080"
    """Address and port of /metrics, /healthz and /readyz; in a pod, its own address."""

    scheduler_name: str = SCHEDULER_NAME
    """Only jobs whose pods name this scheduler are managed."""

    node_selector: str = ""
    """Label selector (key=value,...) of the nodes whose capacity is given out. Default: every node."""

    operator_version: str = "1.7.0"
    """The training-operator's version, which decides what it can do: before 1.8.1 it never finishes suspending a job
    with ttlSecondsAfterFinished, and such a job is left alone."""

    policy: str = "optimus"
    """The allocation policy."""

    dry_run: bool = False
    """Decide and print, but change no job and write no profile."""

    once: bool = False
    """Decide once, print the decisions, carry them to their end and exit."""

    interval_seconds: float = 600.0
    """Seconds between two decisions about all counts (Optimus, section 5: 10 minutes)."""

    early_interval_seconds: float = 60.0
    """Least seconds between two decisions when a job arrives or ends or nodes change."""

    tick_seconds: float = 2.0
    """Seconds between two looks at rescales in progress, profiling runs and logs."""

    log_poll_seconds: float = 10.0
    """Seconds between two reads of one pod's log."""

    log_readers: int = 8
    """Logs that are read at the same time, over all jobs."""

    profiling_seconds: float = 60.0
    """Seconds of steady training that one profiling run measures."""

    profiling_samples: int = 5
    """Configurations measured before a job's speed model is used (Optimus, section 6.1: 5)."""

    profiling_lifetime_seconds: float = 600.0
    """A job that has trained longer is not profiled any more: this bounds what profiling can lose."""

    rescale_cost_seconds: float = 60.0
    """What a rescale is taken to cost a job, until its own rescales have shown it."""

    least_gain_percent: float = 5.0
    """A rescale must shorten a job's remaining time by more than this, its cost counted."""

    rescale_spacing_seconds: float = 300.0
    """Least seconds between two rescales of one job for gain; making room for another job does not wait."""

    start_timeout_seconds: float = 600.0
    """A rescaled job whose pods do not all run after this goes back to its earlier counts."""

    report_seconds: float = 30.0
    """Least seconds between two writes of a profile that says nothing new but figures."""

    log_level: str = "info"
    """debug, info, warning or error."""


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Settings from the command line and the environment.

    Raises:
        SettingsError: naming every value that is wrong, and what would be right.
    """
    from_flags = vars(_parser().parse_args(arguments))
    from_environment = {
        field.name: environment[ENVIRONMENT_PREFIX + field.name.upper()]
        for field in fields(Settings)
        if ENVIRONMENT_PREFIX + field.name.upper() in environment
    }
    given = from_environment | {name: text for name, text in from_flags.items() if text is not None}
    values: dict[str, object] = {}
    problems: list[str] = []
    for field in fields(Settings):
        if field.name in given:
            try:
                values[field.name] = _value(field, given[field.name])
            except ValueError as error:
                problems.append(f"--{field.name.replace('_', '-')} {given[field.name]!r}: {error}")
    if problems:
        raise SettingsError("\n".join(problems))
    settings = Settings(**values)  # type: ignore[arg-type]  # each value was read by its own field's rule above
    problems = list(_contradictions(settings))
    if problems:
        raise SettingsError("\n".join(problems))
    return settings


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m autoscaler", description=(inspect.getdoc(Settings) or ""))
    sentences = _sentences()
    for field in fields(Settings):
        flag = "--" + field.name.replace("_", "-")
        default = "" if field.default in (None, "", False) else f" Default: {field.default}."
        text = (sentences[field.name] + default).replace("%", "%%")
        if field.type is bool:
            parser.add_argument(flag, nargs="?", const="true", default=None, help=text, metavar="true|false")
        else:
            parser.add_argument(flag, default=None, help=text, metavar=field.name.rsplit("_", 1)[-1].upper())
    return parser


def _sentences() -> dict[str, str]:
    """The docstring under each field."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(Settings))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for statement, following in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            assert isinstance(following, ast.Expr)
            assert isinstance(following.value, ast.Constant)
            found[statement.target.id] = str(following.value.value)
    return found


def _value(field: Field[object], text: str) -> object:
    kind = field.type
    if kind is bool:
        return _boolean(text)
    if kind is float:
        return _positive(float, text, "a number of seconds or percent, 0 or more")
    if kind is int:
        return _positive(int, text, "a whole number, 0 or more")
    if Path in get_args(kind):
        return Path(text)
    return text


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "1", "yes"):
        return True
    if text.lower() in ("false", "0", "no"):
        return False
    raise ValueError("true or false is expected")


def _positive(kind: type[int] | type[float], text: str, expected: str) -> int | float:
    try:
        value = kind(text)
    except ValueError:
        raise ValueError(f"{expected} is expected") from None
    if not 0 <= value < float("inf"):
        raise ValueError(f"{expected} is expected")
    return value


def _contradictions(settings: Settings) -> list[str]:
    checks = (
        (
            settings.policy in POLICIES,
            f"--policy {settings.policy!r}: one of {', '.join(sorted(POLICIES))} is expected",
        ),
        (settings.tick_seconds > 0, "--tick-seconds: more than 0 is expected"),
        (settings.log_readers > 0, "--log-readers: at least 1 is expected"),
        (settings.interval_seconds > 0, "--interval-seconds: more than 0 is expected"),
        (_is_address(settings.listen), f"--listen {settings.listen!r}: ADDRESS:PORT is expected"),
        (_is_version(settings.operator_version), f"--operator-version {settings.operator_version!r}: such as 1.8.1"),
        (
            _is_selector(settings.node_selector),
            f"--node-selector {settings.node_selector!r}: key=value,... is expected",
        ),
        (
            settings.log_level in ("debug", "info", "warning", "error"),
            f"--log-level {settings.log_level!r}: debug, info, warning or error is expected",
        ),
    )
    return [sentence for holds, sentence in checks if not holds]


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdigit() and int(port) < 65536


def _is_version(text: str) -> bool:
    parts = text.split(".")
    return len(parts) == 3 and all(part.isdigit() for part in parts)


def _is_selector(text: str) -> bool:
    return all("=" in part for part in text.split(",")) if text else True

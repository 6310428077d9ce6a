"""All commands. A command's module is loaded only where the command is used: those that fit models
take a second."""

from collections.abc import Callable
from importlib import import_module
from typing import Final

from optimus.cli.command import Command, Implementation


def _module(name: str) -> Callable[[], Implementation]:
    def load() -> Implementation:
        found: Implementation = import_module(f"optimus.cli.{name}").IMPLEMENTATION
        return found

    return load


COMMANDS: Final[tuple[Command, ...]] = (
    Command(
        ("status",),
        "all jobs: phase, counts, loss, end, CPU held; or one in full: why it was decided so",
        _module("status"),
        watchable=True,
    ),
    Command(
        ("why",),
        "why a job waits or does not run, and what can be done about it",
        _module("why"),
        watchable=True,
    ),
    Command(
        ("what-if",),
        "when a job would be done at other counts",
        _module("what_if"),
        watchable=True,
    ),
    Command(
        ("advise",),
        "what the jobs of a cluster would gain from other counts, with nothing installed there",
        _module("advise"),
    ),
    Command(
        ("forecast",),
        "when a run will meet its goal, with an interval: by its log, or a job of the cluster",
        _module("job_forecast"),
        watchable=True,
    ),
    Command(
        ("doctor",),
        "what is wrong with Optimus on the cluster, and how to fix it; or with a training log",
        _module("cluster_doctor"),
        watchable=True,
    ),
    Command(
        ("simulate",),
        "compare policies on simulated jobs, before installing anything",
        _module("simulate"),
    ),
    Command(
        ("evaluate", "speed"),
        "how well the speed model predicts measured speeds that it was not fitted to",
        _module("evaluate_speed"),
    ),
    Command(
        ("evaluate", "convergence"),
        "how well the convergence model predicts when past training met a loss",
        _module("evaluate_convergence"),
    ),
    Command(
        ("plan",),
        "one allocation and placement of a table of jobs on equal nodes",
        _module("plan"),
    ),
    Command(
        ("completion",),
        "the script that completes this command in a shell, with the names of jobs",
        _module("completion"),
    ),
)
"""In the order in which ``optimus --help`` lists them."""
GROUPS: Final = {"evaluate": "how well a model predicts what you have measured"}

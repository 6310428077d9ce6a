"""All commands. A command's module is loaded only where the command is used: those that fit models
take a second."""

from collections.abc import Callable
from importlib import import_module
from typing import Final

from optimus.cli.command import Command, Implementation


def _module(name: str, attribute: str = "IMPLEMENTATION") -> Callable[[], Implementation]:
    def load() -> Implementation:
        found: Implementation = getattr(import_module(f"optimus.cli.{name}"), attribute)
        return found

    return load


COMMANDS: Final[tuple[Command, ...]] = (
    Command(
        ("top",),
        "the jobs of a namespace, or of all: phase, counts, loss, forecast end, CPU held",
        _module("top"),
        watchable=True,
    ),
    Command(
        ("status",),
        "one job in full: its last decision and why, rescales, samples; or all jobs in short",
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
        "when a job would be done at other counts, or a new one start and end",
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
        _module("forecast"),
        plots=True,
        watchable=True,
    ),
    Command(
        ("pause",),
        "stop all changes of a job until it is resumed; it trains on",
        _module("pause", "PAUSE"),
    ),
    Command(("resume",), "let a paused job be changed again", _module("pause", "RESUME")),
    Command(
        ("doctor",),
        "what is wrong with Optimus on the cluster, and how to fix it; or with a training log",
        _module("doctor"),
        watchable=True,
    ),
    Command(
        ("simulate",),
        "compare policies on simulated jobs, before installing anything",
        _module("simulate"),
        plots=True,
    ),
    Command(
        ("evaluate", "speed"),
        "how well the speed model predicts measured speeds that it was not fitted to",
        _module("evaluate_speed"),
        plots=True,
    ),
    Command(
        ("evaluate", "convergence"),
        "how well the convergence model predicts when past training met a loss",
        _module("evaluate_convergence"),
        plots=True,
    ),
    Command(
        ("evaluate", "history"),
        "what moves have brought the jobs of a cluster, against their users' counts",
        _module("evaluate_history"),
    ),
    Command(
        ("train",),
        "learn weights of the policy dl2 in simulated jobs, for --policy-config",
        _module("train"),
    ),
    Command(
        ("balance",),
        "how evenly parameter servers share the model of a checkpoint, by default and balanced",
        _module("balance"),
    ),
    Command(
        ("plan",),
        "one allocation and placement of a table of jobs on equal nodes",
        _module("plan"),
        plots=True,
    ),
    Command(
        ("completion",),
        "the script that completes this command in a shell, with the names of jobs",
        _module("completion"),
    ),
)
"""In the order in which ``optimus --help`` lists them."""
GROUPS: Final = {
    "evaluate": "how well a model predicts what you have measured, and what moves have brought"
}

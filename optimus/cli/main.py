"""The command ``optimus``: parses arguments, prints a command's answer, or one line of error."""

import argparse
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from optimus.cli.command import Answer, BadInput, Command, Item
from optimus.cli.doctor import COMMAND as DOCTOR
from optimus.cli.evaluate_convergence import COMMAND as EVALUATE_CONVERGENCE
from optimus.cli.evaluate_speed import COMMAND as EVALUATE_SPEED
from optimus.cli.forecast import COMMAND as FORECAST
from optimus.cli.plan import COMMAND as PLAN
from optimus.cli.simulate import COMMAND as SIMULATE
from optimus.cli.why import COMMAND as WHY

COMMANDS: tuple[Command, ...] = (
    SIMULATE,
    EVALUATE_SPEED,
    EVALUATE_CONVERGENCE,
    FORECAST,
    DOCTOR,
    PLAN,
    WHY,
)
"""In the order in which ``optimus --help`` lists them."""
DESCRIPTION = (
    "Optimus on Kubernetes: why a job waits, and models, policies and plans on your own history."
)
GROUPS = {"evaluate": "how well a model predicts what you have measured"}


def main(arguments: Sequence[str] | None = None, commands: Sequence[Command] = COMMANDS) -> int:
    """Run one command; the exit status is 0, 1 for wrong input or a bad answer, or 2 for wrong
    arguments."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal without ± in its encoding must not end in a traceback.
        sys.stdout.reconfigure(errors="backslashreplace")
    options = _parser(commands).parse_args(arguments)
    command: Command = options.command
    try:
        with _plot_to(options.plot) as figure_wanted:
            answer = command.run(options, _progress)
            _print(answer, as_json=options.json)
            if figure_wanted:
                _draw(answer, options.plot)
    except BadInput as problem:
        return _fail(str(problem))
    except OSError as problem:
        return _fail(f"{problem.filename or 'output'}: {problem.strerror or problem}")
    except KeyboardInterrupt:
        return _fail("interrupted")
    return answer.status


def _fail(sentence: str) -> int:
    with suppress(BrokenPipeError):
        print(f"optimus: {_visible(' '.join(sentence.split()))}", file=sys.stderr)
    return 1


def _visible(text: str) -> str:
    """Control characters escaped: names come from files that anybody may have written."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def _parser(commands: Sequence[Command]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="optimus", description=DESCRIPTION)
    top = parser.add_subparsers(metavar="COMMAND", required=True)
    groups = {}
    for command in commands:
        *group, name = command.path
        level = top
        for word in group:
            if word not in groups:
                branch = top.add_parser(word, help=GROUPS[word], description=GROUPS[word])
                groups[word] = branch.add_subparsers(metavar="WHAT", required=True)
            level = groups[word]
        leaf = level.add_parser(name, help=command.summary, description=command.summary)
        command.add_arguments(leaf)
        leaf.add_argument("--json", action="store_true", help="print the answer as JSON")
        plot = "draw the answer into this file (.png, .svg, .pdf)"
        leaf.add_argument("--plot", type=Path, metavar="FILE", help=plot)
        leaf.set_defaults(command=command)
    return parser


def _print(answer: Answer, *, as_json: bool) -> None:
    text = json.dumps(answer.value, indent=2, allow_nan=False) if as_json else _visible(answer.text)
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`); Python's flush at exit must not fail either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _plot_to(file: Path | None) -> Iterator[bool]:
    """Checks before the work, and not after it, whether there can be a plot."""
    if file is None:
        yield False
        return
    if file.suffix.lower() not in {".png", ".svg", ".pdf"}:
        raise BadInput(file, "a file that ends in .png, .svg or .pdf is expected")
    if not file.parent.is_dir():
        raise BadInput(file, "a file in a folder that exists is expected")
    try:
        import matplotlib  # noqa: F401 - asked for by --plot alone
    except ImportError:
        raise BadInput(file, "a plot needs matplotlib: pip install matplotlib") from None
    yield True


def _draw(answer: Answer, file: Path) -> None:
    from matplotlib.figure import Figure

    if answer.plot is None:
        raise BadInput(file, "this command has nothing to plot")
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    answer.plot(figure)
    figure.savefig(file, dpi=150)


def _progress(items: Sequence[Item], what: str) -> Iterable[Item]:
    """A progress bar on standard error, where that is a terminal."""
    if not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, what, console=Console(stderr=True), transient=True)

"""What all commands share: parsed arguments, a printed answer, or an error of one line."""

import argparse
import ast
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pytest

from optimus.cli.command import Answer, BadInput, Command, Implementation, Progress
from optimus.cli.commands import COMMANDS
from optimus.cli.main import main, program_name
from tests.cases import cases


def command(run: Callable[[], Answer]) -> tuple[Command, ...]:
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file")

    def answer(options: argparse.Namespace, progress: Progress) -> Answer:
        assert list(progress([1, 2], "counting")) == [1, 2]
        return run()

    implementation = Implementation(add_arguments, answer)
    path, summary = ("evaluate", "thing"), "what a thing is worth"
    return (Command(path, summary, lambda: implementation),)


def succeed() -> Answer:
    return Answer({"worth": [1.5, None]}, "it is worth a lot")


def test_text_is_printed_by_default_and_the_value_with_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["evaluate", "thing", "a.csv"], command(succeed)) == 0
    assert capsys.readouterr().out == "it is worth a lot\n"
    assert main(["evaluate", "thing", "a.csv", "--json"], command(succeed)) == 0
    assert json.loads(capsys.readouterr().out) == {"worth": [1.5, None]}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_colours_unless_it_is_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answer({}, "a  Training\nTraining-b  Failed, paused", colours={"Training": "green"})

    def shown_on(output: io.StringIO) -> str:
        monkeypatch.setattr(sys, "stdout", output)
        assert main(["evaluate", "thing", "a.csv"], command(lambda: answer)) == 0
        return output.getvalue()

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert shown_on(Terminal()) == ("a  \x1b[32mTraining\x1b[0m\nTraining-b  Failed, paused\n")
    assert shown_on(io.StringIO()) == f"{answer.text}\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown_on(Terminal()) == f"{answer.text}\n"


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"], command(succeed))
    assert capsys.readouterr().out == f"optimus {version('optimus-on-kubernetes')}\n"


@cases(
    ("error", "line"),
    {
        "input": (
            BadInput("a.csv", "a number is expected", 7),
            "optimus: a.csv:7: a number is expected\n",
        ),
        "an error of two lines": (BadInput("a.csv", "two\nlines"), "optimus: a.csv: two lines\n"),
        "a file that is not there": (
            FileNotFoundError(2, "No such file or directory", "b.csv"),
            "optimus: b.csv: No such file or directory\n",
        ),
        "ctrl-c": (KeyboardInterrupt(), "optimus: interrupted\n"),
    },
)
def test_an_error_is_printed_in_one_line(
    error: BaseException, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> Answer:
        raise error

    assert main(["evaluate", "thing", "x"], command(fail)) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", line)


def test_a_package_of_an_extra_is_named_with_what_brings_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(name: str) -> Answer:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    assert main(["evaluate", "thing", "x"], command(partial(fail, "highspy"))) == 1
    said = "optimus: highspy is not installed: pip install '.[simulator]' in the checkout\n"
    assert capsys.readouterr().err == said
    with pytest.raises(ModuleNotFoundError):
        main(["evaluate", "thing", "x"], command(partial(fail, "json")))


def test_control_characters_are_escaped_in_text_and_errors(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def colour() -> Answer:
        return Answer({"job": "\x1b[31m"}, "job \x1b[31m of \udcff.log\nis ±1")

    assert main(["evaluate", "thing", "x"], command(colour)) == 0
    assert capsys.readouterr().out == "job \\x1b[31m of \\udcff.log\nis ±1\n"
    assert main(["evaluate", "thing", "x", "--json"], command(colour)) == 0
    assert json.loads(capsys.readouterr().out) == {"job": "\x1b[31m"}

    def fail() -> Answer:
        raise BadInput("a.csv", "job \x1b[31m is there already")

    assert main(["evaluate", "thing", "x"], command(fail)) == 1
    assert capsys.readouterr().err == "optimus: a.csv: job \\x1b[31m is there already\n"


# A process of its own, with no more imports than the command line has itself. What it runs prints
# to standard output as a library does: from Python, to the file descriptor, and from C at the end.
PROGRAM = """
import ctypes, os, sys
from optimus.cli.__main__ import main
from optimus.cli import main as command_line
from optimus.cli.command import Answer, Command, Implementation

def run(*_):
    print("from Python")
    os.write(1, b"to the descriptor\\n")
    ctypes.CDLL(None).printf(b"from C\\n")
    return Answer({"is": "±1"}, "\u00b1 1")

implementation = Implementation(lambda parser: None, run)
command = Command(("thing",), "help", lambda: implementation)
command_line.main.__defaults__ = (None, (command,), None)
sys.argv[1:] = ["thing", *sys.argv[1:]]
sys.exit(main())
"""


def run_program(*arguments: str, stdout: int = subprocess.PIPE) -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    return done.returncode, done.stdout or b"", done.stderr


def test_what_a_library_prints_is_no_part_of_the_answer() -> None:
    status, printed, told = run_program("--json")
    assert (status, json.loads(printed)) == (0, {"is": "±1"})
    assert sorted(told.split(b"\n")) == [b"", b"from C", b"from Python", b"to the descriptor"]


def test_a_character_that_the_output_cannot_encode_is_escaped() -> None:
    assert run_program()[:2] == (0, b"\\xb1 1\n")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_output_that_is_closed_is_no_error(closed: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} {program} {closed}"], capture_output=True, check=False
    )
    assert done.returncode == 0
    assert b"Error" not in done.stderr
    assert done.stdout == (b"" if closed.startswith(">") else "± 1\n".encode())


def test_an_interrupt_while_the_commands_are_loaded_is_one_line() -> None:
    script = """
import sys
class Interrupts:
    def find_spec(self, name, *_):
        if name == "optimus.cli.main":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
from optimus.cli.__main__ import main
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (1, b"optimus: interrupted\n")


@cases(
    ("arguments", "sentence"),
    {
        "nothing": ([], "optimus: the following arguments are required: COMMAND"),
        "a group alone": (["evaluate"], "optimus evaluate: the following arguments are required"),
        "no file": (["evaluate", "thing"], "optimus evaluate thing: the following arguments"),
        "a slip of the pen": (["evalute"], "there is no 'evalute'; did you mean evaluate?"),
        "in a group": (["evaluate", "thign"], "there is no 'thign'; did you mean thing?"),
        "in an option": (["evaluate", "thing", "f", "--js"], "'--js'; did you mean --json?"),
        "something else": (["pause"], "there is no 'pause'; expected: evaluate"),
    },
)
def test_the_sentence_comes_before_the_usage(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments, command(succeed))
    first, *rest = capsys.readouterr().err.splitlines()
    assert sentence in first
    assert rest[0].startswith("usage: optimus")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: " ".join(each.path))
def test_every_command_explains_its_options(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.path, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: optimus {' '.join(command.path)} [-h]")
    assert " ".join(command.summary.split()) in " ".join(shown.split())
    assert ("--watch" in shown) is command.watchable


LOG = Path(__file__).parents[2] / "data" / "logs" / "tensorflow-before-chief-0.log"


def loaded_by(program: str, *libraries: str) -> list[str]:
    """Which of these libraries a process has loaded once it has run the program."""
    at_end = f"atexit.register(lambda: print(sorted({{*{libraries!r}}} & set(sys.modules))))"
    done = subprocess.run(
        [sys.executable, "-c", f"import atexit, sys\n{at_end}\n{program}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found: list[str] = ast.literal_eval(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("command", ["", "status", "why", "doctor", "forecast"])
def test_help_loads_no_numerical_library(command: str) -> None:
    words = [*command.split(), "--help"]
    program = f"from optimus.cli.main import main\nmain({words!r})"
    assert loaded_by(program, "numpy", "scipy", "kubernetes") == []


def test_jobs_are_shown_without_numerical_libraries_or_the_clients_where_nothing_is_fitted() -> (
    None
):
    """They take longer to load than everything else together."""
    program = """
from optimus.cli import status, why
from optimus.kube import client
from optimus.cli.job_facts import JobReader
from optimus.cli.job_list import list_jobs
from tests.unit.cli.fake_api import FakeApi, profile, stored_state
api = FakeApi(profiles=[profile(state=stored_state(), remainingSeconds=9)])
for name in [each for each in sys.modules if each.startswith(("numpy", "scipy", "optimus.l"))]:
    del sys.modules[name]
status.overview(list_jobs(api, "ns"), "ns")
api.profiles = [profile()]
status.in_full(JobReader(api).read("ns", "j"))
"""
    assert loaded_by(program, "numpy", "scipy", "kubernetes", "optimus.lifecycle") == []


def test_a_job_with_a_forecast_is_shown_by_its_profile_without_a_fit() -> None:
    program = """
from optimus.cli import status
from optimus.cli.job_facts import JobReader
from tests.unit.cli.fake_api import FakeApi, profile, stored_state
api = FakeApi(profiles=[profile(state=stored_state(), remainingSeconds=9)])
for name in [each for each in sys.modules if each.startswith(("scipy", "optimus.models.fo"))]:
    del sys.modules[name]
status.in_full(JobReader(api).read("ns", "j"))
"""
    assert loaded_by(program, "scipy", "optimus.models.forecast") == []


@cases(
    "words",
    {
        "a forecast of a log": ["forecast", str(LOG), "--target-loss", "0.1"],
        "a simulation": ["simulate", "--policies", "fifo", "--jobs", "1", "--seeds", "1"],
    },
)
def test_what_asks_no_cluster_loads_nothing_of_kubernetes(words: list[str]) -> None:
    program = f"from optimus.cli.main import main\nmain({words!r})"
    assert loaded_by(program, "kubernetes", "optimus.kube", "flask") == []


def test_a_closed_output_pipe_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    status, _, told = run_program(stdout=writing)
    os.close(writing)
    assert status == 0
    assert b"Error" not in told


def watched(answers: list[Answer | BadInput]) -> tuple[Command, ...]:
    left = iter(answers)

    def run(options: argparse.Namespace, progress: Progress) -> Answer:
        found = next(left)
        if isinstance(found, BadInput):
            raise found
        return found

    implementation = Implementation(lambda _: None, run)
    return (Command(("thing",), "what it is", lambda: implementation, watchable=True),)


def interrupt_after(times: int) -> Callable[[float], None]:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        assert seconds == 2
        if len(slept) == times:
            raise KeyboardInterrupt

    return sleep


def test_watch_prints_what_has_changed_until_interrupted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, two = Answer(1, "one"), Answer(2, "two")
    answers: list[Answer | BadInput] = [one, one, BadInput("thing", "is away"), two]
    asked = ["thing", "--watch", "--every", "2"]
    assert main(asked, watched(answers), interrupt_after(4)) == 0
    found = capsys.readouterr()
    assert found.out == "one\noptimus: thing: is away\ntwo\n"
    assert found.err == ""


def test_watch_ends_where_the_first_answer_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["thing", "--watch"], watched([BadInput("thing", "is away")])) == 1
    assert "thing: is away" in capsys.readouterr().err


def test_it_names_itself_as_it_was_called() -> None:
    assert program_name("/usr/bin/kubectl-optimus") == "kubectl optimus"
    assert program_name("/usr/bin/optimus") == "optimus"

"""``make mutants``: runs mutmut over one module after the other, and says what survived.

mutmut writes all mutants of a module into one file, runs each in a process of its own with the
tests that call its function, the fastest first, and keeps the results. Here each module gets a
folder below ``.mutants`` with the tests from ``tests.mutants.modules``; a run that is
interrupted, or whose time is over, is continued by the next, and a changed function is run again.
"""

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final, NoReturn

from tests.mutants.modules import ROOT, mutated_modules, tests_of
from tests.mutants.results import (
    WORK,
    Fate,
    counts_of,
    mutants_of,
    share_dead,
    undecided,
    unknown_equivalents,
    workspace,
)

_MUTMUT: Final = Path(sys.executable).with_name("mutmut")
_SOURCES: Final = ("autoscaler", "extender", "optimus")
_NEEDED: Final = ("benchmarks", "docs", "examples", "manifests", "scheduler-config", "tests")
"""What the tests read beside the sources."""

_GENERATE: Final = """
from mutmut import __main__ as mutmut
mutmut.makedirs("mutants", exist_ok=True)
mutmut.copy_src_dir()
mutmut.copy_also_copy_files()
mutmut.setup_source_paths()
mutmut.store_lines_covered_by_tests()
mutmut.create_mutants(1)
"""
"""The beginning of ``mutmut run``: then all mutants are known by name, and a sample is drawn."""

_PLUGINS: Final = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "tests.mutants.cold_caches")

_MOST_MEMORY: Final = 6 << 30
"""Maximum number of bytes of each process: a search without its bound dies, not the machine."""

_LOGGING: Final = r"_LOG\.|^\s*message = |^\s*reason = "
"""Lines that only word what people read: no test holds the text of a log line."""


def main() -> int:
    """Run the modules that are named, or all, and report."""
    parser = argparse.ArgumentParser(
        prog="make mutants", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="paths; default: all")
    parser.add_argument("--report", action="store_true", help="run nothing, only report")
    parser.add_argument(
        "--again", action="store_true", help="run survivors and time-outs again, too"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="run no more than N of each module")
    parser.add_argument("--seed", type=int, default=0, help="which N; default: 0")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    modules = options.modules or [*mutated_modules()]
    ends_at = time.monotonic() + options.seconds
    for module in [] if options.report else modules:
        seconds = ends_at - time.monotonic()
        if seconds <= 0:
            break
        _prepare(module)
        names = _to_run(module, options)
        if names:
            print(f"{module}: {len(names)} to run", flush=True)
            command = [str(_MUTMUT), "run", "--max-children", str(options.processes), *names]
            if _in_workspace(module, command, seconds) and not _ran(module, names):
                _fail(module)
    return _report(modules)


def _to_run(module: str, options: argparse.Namespace) -> list[str]:
    """Those of all mutants, or of the sample, that are not decided yet."""
    names = sorted(undecided(module, survivors=options.again))
    if options.sample is None:
        return names
    every = sorted(mutant.name for mutant in mutants_of(module))
    # Drawn from all, so that a run that continues another one has the same sample.
    drawn = set(random.Random(options.seed).sample(every, min(options.sample, len(every))))
    return [name for name in names if name in drawn]


def _ran(module: str, names: list[str]) -> bool:
    return not {*names} <= {*undecided(module, survivors=False)}


def _in_workspace(module: str, command: list[str], seconds: float) -> bool:
    """Run there; whether it ended before its time was over."""
    with (workspace(module) / "log.txt").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=workspace(module),
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HYPOTHESIS_PROFILE": "mutants"},
        )
        try:
            process.wait(None if seconds == float("inf") else seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.wait()
            return False
    return True


def _fail(module: str) -> NoReturn:
    last = (workspace(module) / "log.txt").read_text().replace("\r", "\n").splitlines()[-30:]
    sys.exit("\n".join([f"{module}: mutmut failed:", *last]))


def _prepare(module: str) -> None:
    """The folder in which mutmut copies, mutates and tests: links to the checkout, its settings."""
    folder = workspace(module)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*_SOURCES, *_NEEDED):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(ROOT / name)
    types = [sys.executable, "-m", "mypy", "--output=json", "--no-warn-unused-ignores"]
    # All mutants of a method are in one class: each declares the attributes of ``__init__`` again.
    types += [f"--cache-dir={WORK / 'types'}", "--disable-error-code=no-redef", module]
    settings = {
        "source_paths": [*_SOURCES],
        "only_mutate": [module],
        "do_not_mutate_patterns": [_LOGGING],
        "also_copy": [*_NEEDED],
        "pytest_add_cli_args_test_selection": [*tests_of(module)],
        "pytest_add_cli_args": [*_PLUGINS],
        "type_check_command": types,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    # mutmut measures wall time: on a busy machine a test may take many times as long as once. A
    # loop without end takes a minute, and five times what the tests take.
    lines += ["track_dependencies = false", "timeout_multiplier = 5.0", "timeout_constant = 12.0"]
    project = (ROOT / "pyproject.toml").read_text()
    text = "\n".join([project, "[tool.mutmut]", *lines, ""])
    settings_file = folder / "pyproject.toml"
    if not settings_file.exists() or settings_file.read_text() != text:
        settings_file.write_text(text)
    _forget_callers(module)
    if not _in_workspace(module, [sys.executable, "-c", _GENERATE], float("inf")) or not (
        mutants_of(module)
    ):
        _fail(module)


def _forget_callers(module: str) -> None:
    """Have mutmut find again which functions a test calls, where the test has changed: it looks
    at new tests only."""
    known = workspace(module) / "mutants" / "mutmut-stats.json"
    folders = {
        ROOT / (each.parent if each.suffix else each) for each in map(Path, tests_of(module))
    }
    changed = max(path.stat().st_mtime for folder in folders for path in folder.rglob("*.py"))
    if known.exists() and known.stat().st_mtime <= changed:
        known.unlink()


def _report(modules: list[str]) -> int:
    """A table of all modules that have been run, then the survivors; 1 where there are any."""
    every: Counter[Fate] = Counter()
    print(f"{'':42}{''.join(f'{fate:>11}' for fate in Fate)}{'dead':>8}")
    for module in modules:
        counts = counts_of(module)
        every.update(counts)
        if counts:
            print(_row(module, counts))
    print(_row("all", every))
    for entry in unknown_equivalents():
        print(f"no such mutant any more: {entry}")
    for module in modules:
        for mutant in mutants_of(module):
            if mutant.fate in (Fate.SURVIVED, Fate.NO_TESTS):
                print(f"\n{module}: {mutant.function} ({mutant.fate}, {mutant.name})")
                print(f"  - {mutant.removed}\n  + {mutant.added}")
    return int(every[Fate.SURVIVED] + every[Fate.NO_TESTS] > 0 and not every[Fate.NOT_RUN])


def _row(name: str, counts: Counter[Fate]) -> str:
    share = share_dead(counts)
    text = "" if share is None else f"{100 * share:.1f}%"
    return f"{name:42}{''.join(f'{counts[fate]:11}' for fate in Fate)}{text:>8}"


if __name__ == "__main__":
    sys.exit(main())

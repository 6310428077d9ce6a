"""The console scripts ``optimus`` and ``kubectl-optimus``, and ``python -m optimus.cli``.

An interrupt while modules are loaded ends as one later does.
"""

import io
import os
import sys


def main() -> int:
    """Run the command line; the exit status."""
    try:
        _reserve_output()
        from optimus.cli.main import main as run
    except KeyboardInterrupt:
        print("optimus: interrupted", file=sys.stderr)
        return 1
    return run()


def _reserve_output() -> None:
    """Keep standard output for the answer: what libraries print to the file descriptor, from C too,
    goes to standard error. Python's own ``sys.stdout`` is redirected by ``main`` alone."""
    if not isinstance(sys.stdout, io.TextIOWrapper):  # closed by the caller, as by `>&-`
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - until the end
        return
    own, encoding = os.dup(sys.stdout.fileno()), sys.stdout.encoding
    nowhere = None if sys.stderr is not None else os.open(os.devnull, os.O_WRONLY)
    os.dup2(sys.stderr.fileno() if nowhere is None else nowhere, sys.stdout.fileno())
    # A terminal without ± in its encoding must not end in a traceback.
    sys.stdout = open(own, "w", encoding=encoding, errors="backslashreplace")  # noqa: PTH123, SIM115


if __name__ == "__main__":
    sys.exit(main())

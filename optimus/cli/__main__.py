"""The console scripts ``optimus`` and ``kubectl-optimus``, and ``python -m optimus.cli``.

An interrupt while modules are loaded ends as one later does.
"""

import sys


def main() -> int:
    """Run the command line; the exit status."""
    try:
        from optimus.cli.main import main as run
    except KeyboardInterrupt:
        print("optimus: interrupted", file=sys.stderr)
        return 1
    return run()


if __name__ == "__main__":
    sys.exit(main())

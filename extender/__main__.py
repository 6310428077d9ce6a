"""``python -m extender``: serve filter and prioritize to kube-scheduler."""

import logging
import os
import sys

from extender.settings import parse
from extender.wsgi import serve
from kube.errors import KubeError
from settings import SettingsError


def main() -> int:
    """Read the settings, then serve until told to stop."""
    try:
        settings = parse(sys.argv[1:], os.environ)
    except SettingsError as error:
        print(f"extender: {error}", file=sys.stderr)
        return 2
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    try:
        serve(settings)
    except KubeError as error:
        print(f"extender: {error.sentence}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

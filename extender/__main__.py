"""``python -m extender``: serve filter and prioritize to kube-scheduler."""

import os
import sys

from extender.http.tls import BadCertificate
from extender.http.wsgi import WebhookServer
from extender.settings import parse
from optimus.kube.client import connect
from optimus.kube.errors import KubeError
from optimus.runtime.logs import log_to_stderr
from optimus.runtime.settings import SettingsError


def main() -> int:
    """Read the settings, then serve until a signal."""
    try:
        settings = parse(sys.argv[1:], os.environ)
    except SettingsError as error:
        print(f"extender: {error}", file=sys.stderr)
        return 2
    log_to_stderr(settings.log_level)
    try:
        # The worker connects for itself; what is wrong there would show as a traceback.
        connect(settings.kubeconfig, user_agent="optimus-extender").close()
        WebhookServer(settings).run()
    except KubeError as error:
        print(f"extender: {error.sentence}", file=sys.stderr)
        return 1
    except BadCertificate as error:
        print(f"extender: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The metrics that both processes serve."""

import re
from pathlib import Path

from prometheus_client import generate_latest

import autoscaler.metrics
import extender.settings
from extender.application import Application
from localcluster.kubeconfig import write_kubeconfig


def exposition(folder: Path) -> str:
    """Return what both processes answer under ``/metrics``; ``folder`` is for a kubeconfig."""
    kubeconfig = folder / "kubeconfig"
    write_kubeconfig(kubeconfig, "http://127.0.0.1:9", "", {})
    application = Application(extender.settings.Settings(kubeconfig=kubeconfig))
    deciding = generate_latest(autoscaler.metrics.Metrics().registry).decode()
    text = deciding + application.metrics.text().decode()
    application.stop()
    return text


def exposed_metrics(folder: Path) -> dict[str, str]:
    """The types of both processes' metrics by the names that they are scraped under, a histogram's
    without suffixes."""
    found = dict(re.findall(r"^# TYPE (\S+) (\S+)$", exposition(folder), re.MULTILINE))
    return {name: kind for name, kind in found.items() if not name.endswith("_created")}

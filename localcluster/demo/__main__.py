"""``python -m localcluster.demo``, which ``make demo`` runs."""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from rich.console import Console

from kube.contract import Phase
from localcluster.cluster import LocalCluster
from localcluster.demo import scenario
from localcluster.demo.serving import ProfilePage, metrics_addresses, profiles_table, system_pods
from localcluster.demo.summary import print_summary
from localcluster.demo.view import View
from localcluster.demo.watching import Row, Watching, reached
from localcluster.errors import LocalClusterError
from localcluster.specs import Backend

_LOOK_SECONDS = 0.5
_SECOND_JOB_SECONDS = 30.0
_PLAIN_COLUMNS = 140


def main() -> int:
    """Play the demo; returns 0 when both jobs reached their goals."""
    parser = argparse.ArgumentParser(prog="python -m localcluster.demo", description=scenario.__doc__)
    parser.add_argument(
        "--cluster",
        type=Backend,
        choices=list(Backend),
        default=Backend.EMBEDDED,
        help="the control plane: embedded (default; Python alone), or real (built once, which takes minutes)",
    )
    parser.add_argument("--limit-seconds", type=float, default=900.0, help="give up after this (default: 900)")
    arguments = parser.parse_args()
    # A pipe or a file has no width of its own.
    console = Console(width=None if sys.stdout.isatty() else _PLAIN_COLUMNS)
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended as by Ctrl-C: everything is cleaned up
        with tempfile.TemporaryDirectory(prefix="optimus-demo-") as folder:
            return _play(console, arguments.cluster, Path(folder), arguments.limit_seconds)
    except KeyboardInterrupt:
        console.print("stopped; everything is cleaned up")
        return 130
    except LocalClusterError as error:
        console.print(f"[red]{error}[/red]", soft_wrap=True)
        return 1


def _play(console: Console, backend: Backend, folder: Path, limit_seconds: float) -> int:
    with LocalCluster("demo", scenario.nodes(), backend=backend) as cluster:
        with cluster.progress.step("installing Optimus from manifests/"):
            scenario.install(cluster, folder)
        with (
            cluster.api_client() as client,
            ProfilePage(partial(profiles_table, client)) as page,
            Watching(cluster.kubeconfig) as watching,
        ):
            _say_where(console, cluster, page.address, metrics_addresses(system_pods(client)))
            with View(console) as view:
                rows = _watch(cluster, folder, watching, view, limit_seconds)
            print_summary(console, rows, watching.stories)
    done = len(rows) == 2 and all(story.reached_at is not None for story in watching.stories.values())
    console.print("\neverything is cleaned up" if done else "\n[red]not every job reached its goal[/red]")
    return 0 if done else 1


def _say_where(console: Console, cluster: LocalCluster, page: str, metrics: Mapping[str, str]) -> None:
    console.print("to look for yourself, while it runs:")
    lines = {
        "profiles": f"{page}  (as kubectl get trainingprofiles)",
        **{f"{name} metrics": address for name, address in metrics.items()},
        "kubectl": f"export KUBECONFIG={cluster.kubeconfig}",
    }
    for name, where in lines.items():
        console.print(f"  {name:19} {where}", soft_wrap=True, highlight=False)


def _watch(cluster: LocalCluster, folder: Path, watching: Watching, view: View, limit_seconds: float) -> list[Row]:
    """Submit the first job, the second once the first has grown, and follow both to their goals."""
    scenario.submit(cluster, scenario.FIRST, folder)
    watching.submitted(scenario.FIRST.name)
    while True:
        rows = watching.look()
        view.show(rows, watching.journal)
        has_second = scenario.SECOND.name in watching.stories
        if not has_second and (watching.elapsed_seconds > _SECOND_JOB_SECONDS or any(map(_has_grown, rows))):
            scenario.submit(cluster, scenario.SECOND, folder)
            watching.submitted(scenario.SECOND.name)
        if any(row.status.phase is Phase.FAILED for row in rows):
            return rows
        if watching.elapsed_seconds > limit_seconds or (has_second and len(rows) == 2 and all(map(reached, rows))):
            return rows
        time.sleep(_LOOK_SECONDS)


def _has_grown(row: Row) -> bool:
    """Whether a job was measured and has the counts that were chosen for it, or is past that."""
    trains = row.status.phase is Phase.TRAINING and row.status.remaining_seconds is not None
    return trains or reached(row)


if __name__ == "__main__":
    sys.exit(main())

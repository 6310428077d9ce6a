"""Logs of pods that are gone: kept for a while for whoever looks into a failure, under `ended/` of
the state folder.

A kubelet throws them away with the pod. On one machine, where a test or a demo has just ended, the
log of the pod that was deleted a second ago is what is wanted.
"""

import contextlib
import shutil
from pathlib import Path

_KEPT_PODS = 40


def archive_logs(pod_dir: Path, name: str, ended_dir: Path) -> None:
    """Move a pod's logs to `ended/<name>` and drop the oldest beyond forty. Losing some is no
    harm."""
    with contextlib.suppress(OSError):
        ended_dir.mkdir(parents=True, exist_ok=True)
        target = ended_dir / name
        shutil.rmtree(target, ignore_errors=True)
        (pod_dir / "logs").rename(target)
        target.touch()
        oldest_first = sorted(ended_dir.iterdir(), key=lambda each: each.stat().st_mtime)
        for each in oldest_first[:-_KEPT_PODS]:
            shutil.rmtree(each, ignore_errors=True)

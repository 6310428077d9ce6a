"""The framework jobs as they are shipped under `examples/`, with their bounds pinned and fewer
steps.

Equal lower and upper bounds leave nothing to choose: the job is not measured at other counts, and
its counts change when its user moves the bounds, at no other time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from tests.harness.api import Json
from tests.harness.light_jobs import Kind

EXAMPLES: Final = Path(__file__).resolve().parents[3] / "examples"


class Counts(NamedTuple):
    """PSs (MXNet's servers) and workers."""

    ps: int
    workers: int

    def __str__(self) -> str:
        """The counts in Optimus' words for users."""
        return f"{self.ps} PS + {self.workers} worker{'s' if self.workers != 1 else ''}"


@dataclass(frozen=True)
class FrameworkJob:
    """One shipped manifest, and what a run does with it.

    `steps` replaces the manifest's number of steps, so that the job ends. `role` is the one whose
    pods print losses. The job starts with the counts `before`; its bounds are moved until only
    `after` is within them."""

    kind: Kind
    manifest: str
    name: str
    role: str
    steps: int
    before: Counts
    after: Counts

    def body(self) -> Json:
        """Return the object to create: the shipped one but for its bounds and its number of
        steps."""
        body: Json = yaml.safe_load((EXAMPLES / self.manifest).read_text())
        assert body["metadata"]["name"] == self.name
        body["metadata"]["annotations"].update(bounds(self.before))
        specs: Json = body["spec"]["mxReplicaSpecs" if self.kind == "MXJob" else "tfReplicaSpecs"]
        counts = Counts(
            specs["Server" if self.kind == "MXJob" else "PS"]["replicas"],
            specs["Worker"]["replicas"],
        )
        assert counts == self.before, f"{self.manifest} requests_of for {counts}"
        for spec in specs.values():
            (container,) = spec["template"]["spec"]["containers"]
            container["args"] = [_shortened(each, self.steps) for each in container["args"]]
        return body

    @property
    def steps_per_epoch(self) -> int:
        """Return the manifest's annotation."""
        body: Json = yaml.safe_load((EXAMPLES / self.manifest).read_text())
        return int(body["metadata"]["annotations"]["optimus.dl/steps-per-epoch"])

    def claim(self) -> Json:
        """Return the claim of the job's checkpoint volume, as shipped."""
        claim: Json = yaml.safe_load(
            (EXAMPLES / self.manifest).with_name("checkpoints-pvc.yaml").read_text()
        )
        return claim


def bounds(counts: Counts) -> Mapping[str, str]:
    """Return the annotations that leave a job these counts only."""
    each = {
        "min-ps": counts.ps,
        "max-ps": counts.ps,
        "min-workers": counts.workers,
        "max-workers": counts.workers,
    }
    return {f"optimus.dl/{name}": str(count) for name, count in each.items()}


def _shortened(argument: str, steps: int) -> str:
    return f"--steps={steps}" if argument.startswith("--steps=") else argument


MXNET_SYNC: Final = FrameworkJob(
    "MXJob", "mxnet/mxjob-sync.yaml", "mxnet-sync", "worker", 400, Counts(1, 2), Counts(2, 3)
)
MXNET_ASYNC: Final = FrameworkJob(
    "MXJob", "mxnet/mxjob-async.yaml", "mxnet-async", "worker", 320, Counts(1, 2), Counts(1, 1)
)
TENSORFLOW: Final = FrameworkJob(
    "TFJob", "tensorflow/tfjob.yaml", "tensorflow-ps", "chief", 320, Counts(1, 1), Counts(1, 2)
)

"""Profiles of workloads behind the controller's seam, as the API server would store them."""

import json
from dataclasses import dataclass, field
from typing import Any

import msgspec

from optimus.kube.errors import ErrorKind
from optimus.kube.results import Refused, Written
from optimus.kube.workload_profiles import WorkloadProfile, WorkloadStatus, decode_workload_profile

Key = tuple[str, str]


@dataclass
class FakeWorkloads:
    """Stores what is written as JSON; ``refuse``: how each call is answered."""

    objects: dict[Key, dict[str, Any]] = field(default_factory=dict)
    refuse: ErrorKind | None = None
    conflicts: int = 0
    """So many writes meet another's, made since the profile was read."""
    calls: int = 0

    def all(self) -> dict[Key, WorkloadProfile]:
        """What the watch shows."""
        return {key: self._decoded(key) for key in self.objects}

    def stored(self, namespace: str, name: str) -> WorkloadProfile | Refused:
        self.calls += 1
        if self.refuse is not None:
            return Refused(self.refuse, "refused, as the test wants it")
        metadata = {"name": name, "namespace": namespace, "uid": "w-1", "resourceVersion": "1"}
        self.objects.setdefault((namespace, name), {"metadata": metadata})
        return self._decoded((namespace, name))

    def write(self, profile: WorkloadProfile, status: WorkloadStatus) -> Written | Refused:
        self.calls += 1
        stored = self.objects[profile.namespace, profile.name]
        version = int(stored["metadata"]["resourceVersion"])
        if self.conflicts:
            self.conflicts -= 1
            stored["metadata"]["resourceVersion"] = str(version + 1)
        if profile.resource_version != stored["metadata"]["resourceVersion"]:
            return Refused(ErrorKind.CONFLICT, "it has changed since it was read")
        stored["metadata"]["resourceVersion"] = str(version + 1)
        stored["status"] = msgspec.json.decode(msgspec.json.encode(status))
        return Written(str(version + 1))

    def delete(self, profile: WorkloadProfile) -> Written | Refused:
        self.calls += 1
        if self.refuse is not None:
            return Refused(self.refuse, "refused, as the test wants it")
        del self.objects[profile.namespace, profile.name]
        return Written()

    def _decoded(self, key: Key) -> WorkloadProfile:
        return decode_workload_profile(json.dumps(self.objects[key]).encode())

"""Binds each claim to the volume that was made for it, or to the smallest one that fits."""

from typing import Final

from localcluster.embedded.apiserver.controllers import KindController
from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.store import Change, Stored
from optimus.kube.quantity import parse_quantity

CLAIMS: Final = "persistentvolumeclaims"
VOLUMES: Final = "persistentvolumes"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
"""The annotation by which kube-scheduler recognises a bound claim."""


class VolumeBinder(KindController):
    """Binds claims. Nothing is provisioned and nothing is reclaimed."""

    key = CLAIMS

    def observe(self, kind: str, change: Change) -> None:
        """Look at a changed claim, and at all claims for a new volume."""
        if kind == CLAIMS:
            self.enqueue(change.name)
        elif kind == VOLUMES and change.before is None:
            for each in self._objects.store.items(CLAIMS):
                self.enqueue(each.name)

    def reconcile_object(self, found: Stored) -> None:
        """Bind a claim that waits, if a volume fits."""
        claim, store = found.body, self._objects.store
        volumes = [each.body for each in store.items(VOLUMES) if fits(claim, each.body)]
        if claim["status"]["phase"] != "Pending" or not volumes:
            return
        volume = min(
            volumes, key=lambda each: (not _made_for(claim, each), _size(each["spec"]["capacity"]))
        )
        about = {key: claim["metadata"][key] for key in ("namespace", "name", "uid")}
        reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **about}
        spec = {**volume["spec"], "claimRef": reference}
        store.put(VOLUMES, {**volume, "spec": spec, "status": {"phase": "Bound"}})
        status = {key: volume["spec"][key] for key in ("accessModes", "capacity")}
        bound = {**claim["spec"], "volumeName": volume["metadata"]["name"]}
        annotations = {**(claim["metadata"].get("annotations") or {}), BIND_COMPLETED: "yes"}
        metadata = {**claim["metadata"], "annotations": annotations}
        status = {"phase": "Bound", **status}
        store.put(CLAIMS, {**claim, "metadata": metadata, "spec": bound, "status": status})


def fits(claim: Json, volume: Json) -> bool:
    """Tell whether an unbound volume is what a claim asks for."""
    asked, offered = claim["spec"], volume["spec"]
    holder = offered.get("claimRef")
    if holder and ("uid" in holder or not _made_for(claim, volume)):
        return False
    if asked.get("volumeName") not in {None, "", volume["metadata"]["name"]}:
        return False
    modes = set(asked.get("accessModes") or ()) <= set(offered.get("accessModes") or ())
    same_class = (asked.get("storageClassName") or "") == (offered.get("storageClassName") or "")
    needed = _size((asked.get("resources") or {}).get("requests"))
    return modes and same_class and needed <= _size(offered["capacity"])


def _made_for(claim: Json, volume: Json) -> bool:
    holder, metadata = volume["spec"].get("claimRef") or {}, claim["metadata"]
    return all(holder.get(key) == metadata[key] for key in ("namespace", "name"))


def _size(amounts: Json | None) -> float:
    return float(parse_quantity((amounts or {}).get("storage") or "0"))

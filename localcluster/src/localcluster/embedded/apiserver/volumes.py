"""Claims and volumes: binds a claim to a volume that was made for it, or to the smallest one that
fits."""

from typing import Final

from localcluster.embedded.apiserver.controllers import Pending
from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.objects import Objects
from localcluster.embedded.apiserver.store import Change
from localcluster.node.quantity import parse_quantity

CLAIMS: Final = "persistentvolumeclaims"
VOLUMES: Final = "persistentvolumes"


class Volumes:
    """The controller of claims and volumes. Nothing is provisioned and nothing is reclaimed."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._pending = Pending()

    def saw(self, kind: str, change: Change) -> None:
        """Look at a claim that is new; at all of them, when a volume is; at a volume whose claim
        went."""
        store = self._objects.store
        if kind == CLAIMS:
            self._pending.add(change.name)
        elif kind == VOLUMES and change.before is None:
            for each in store.items(CLAIMS):
                self._pending.add(each.name)
            self._pending.add(("", ""))

    def act(self) -> bool:
        """Bind what can be bound."""
        store = self._objects.store
        names = self._pending.take()
        for name in names:
            claim = store.find(CLAIMS, name)
            if claim is not None and claim.body["status"]["phase"] == "Pending":
                self._bind(claim.body)
        if names:
            self._tell_phases()
        return bool(names)

    def _bind(self, claim: Json) -> None:
        candidates = [
            each.body for each in self._objects.store.items(VOLUMES) if fits(claim, each.body)
        ]
        if not candidates:
            return
        volume = min(
            candidates,
            key=lambda each: (not _meant_for(claim, each), _size(each["spec"]["capacity"])),
        )
        metadata = claim["metadata"]
        reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
        reference.update(
            {key: metadata[key] for key in ("namespace", "name", "uid", "resourceVersion")}
        )
        spec = {**volume["spec"], "claimRef": reference}
        self._objects.store.put(VOLUMES, {**volume, "spec": spec, "status": {"phase": "Bound"}})
        status = {
            "phase": "Bound",
            "accessModes": volume["spec"]["accessModes"],
            "capacity": volume["spec"]["capacity"],
        }
        bound = {**claim["spec"], "volumeName": volume["metadata"]["name"]}
        self._objects.store.put(CLAIMS, {**claim, "spec": bound, "status": status})

    def _tell_phases(self) -> None:
        """Say of each volume whether it waits for a claim, or lost the one that it had."""
        claims = {each.uid for each in self._objects.store.items(CLAIMS)}
        for each in self._objects.store.items(VOLUMES):
            holder = each.body["spec"].get("claimRef") or {}
            lost = "uid" in holder and holder["uid"] not in claims
            phase = "Released" if lost else "Bound" if "uid" in holder else "Available"
            if each.body["status"].get("phase") != phase:
                self._objects.store.put(VOLUMES, {**each.body, "status": {"phase": phase}})


def fits(claim: Json, volume: Json) -> bool:
    """Tell whether a volume that nobody holds is what a claim asks for."""
    asked, offered = claim["spec"], volume["spec"]
    holder = offered.get("claimRef")
    if holder and ("uid" in holder or not _meant_for(claim, volume)):
        return False
    if asked.get("volumeName") not in {None, "", volume["metadata"]["name"]}:
        return False
    modes = set(asked.get("accessModes") or ()) <= set(offered.get("accessModes") or ())
    same_class = (asked.get("storageClassName") or "") == (offered.get("storageClassName") or "")
    return (
        modes
        and same_class
        and _size((asked.get("resources") or {}).get("requests")) <= _size(offered["capacity"])
    )


def _meant_for(claim: Json, volume: Json) -> bool:
    holder = volume["spec"].get("claimRef") or {}
    metadata = claim["metadata"]
    return bool(
        (holder.get("namespace"), holder.get("name")) == (metadata["namespace"], metadata["name"])
    )


def _size(amounts: Json | None) -> float:
    return float(parse_quantity((amounts or {}).get("storage") or "0"))

"""Which nodes the persistent volume claims of a pod leave to it, as kube-scheduler's filters
VolumeBinding and VolumeRestrictions decide it."""

from itertools import product
from typing import Final, TypeAlias

from optimus.jobs import Requirement
from optimus.kube.volumes import READ_WRITE_ONCE_POD, StorageClass, Volume, VolumeClaim
from optimus.placement.rules import ClaimedVolume, NodeTerms, all_hold

ClaimName: TypeAlias = tuple[str, str]
"""Namespace and name of a claim."""

_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


class Volumes:
    """Claims, volumes and storage classes. Not thread-safe."""

    def __init__(self) -> None:
        self._claims: dict[ClaimName, VolumeClaim] = {}
        self._claims_by_volume: dict[str, set[ClaimName]] = {}
        self._unbound_by_class: dict[str, set[ClaimName]] = {}
        self._volumes: dict[str, Volume] = {}
        self._volumes_by_class: dict[str, dict[str, Volume]] = {}
        self._classes: dict[str, StorageClass] = {}

    def set_claim(self, before: VolumeClaim | None, after: VolumeClaim | None) -> set[ClaimName]:
        """Record a claim; ``None`` on either side: absent. Returns the claims that this changes."""
        if before is not None:
            self._claims.pop((before.namespace, before.name), None)
            self._index(before, present=False)
        if after is not None:
            self._claims[after.namespace, after.name] = after
            self._index(after, present=True)
        return {(each.namespace, each.name) for each in (before, after) if each is not None}

    def _index(self, claim: VolumeClaim, *, present: bool) -> None:
        name = claim.namespace, claim.name
        for index, key in (
            (self._claims_by_volume, claim.volume),
            (self._unbound_by_class, "" if claim.is_bound else claim.storage_class),
        ):
            if key and present:
                index.setdefault(key, set()).add(name)
            elif key:
                index.get(key, set()).discard(name)
                if not index.get(key):
                    index.pop(key, None)

    def set_volume(self, before: Volume | None, after: Volume | None) -> set[ClaimName]:
        """Record a volume, likewise."""
        if before is not None:
            self._volumes.pop(before.name, None)
            self._volumes_by_class.get(before.storage_class, {}).pop(before.name, None)
        if after is not None:
            self._volumes[after.name] = after
            self._volumes_by_class.setdefault(after.storage_class, {})[after.name] = after
        changed: set[ClaimName] = set()
        for each in (before, after):
            if each is not None:
                changed |= self._claims_by_volume.get(each.name, set())
                changed |= (
                    {each.claim}  # it suits no other
                    if each.claim is not None
                    else self._unbound_by_class.get(each.storage_class, set())
                )
        return changed

    def set_class(self, before: StorageClass | None, after: StorageClass | None) -> set[ClaimName]:
        """Record a storage class, likewise."""
        if before is not None:
            self._classes.pop(before.name, None)
        if after is not None:
            self._classes[after.name] = after
        names = {each.name for each in (before, after) if each is not None}
        return {claim for name in names for claim in self._unbound_by_class.get(name, ())}

    def claimed(self, namespace: str, name: str, users: int) -> ClaimedVolume:
        """Return what a claim means for a pod that mounts it, beside so many pods that do so
        already."""
        claim = self._claims.get((namespace, name))
        what = f"persistent volume claim {name}"
        if claim is None:
            return ClaimedVolume(problem=f"{what} does not exist")
        if claim.leaving:
            return ClaimedVolume(problem=f"{what} is being deleted")
        if claim.is_lost:
            return ClaimedVolume(problem=f"{what} has lost its volume {claim.volume}")
        exclusive = READ_WRITE_ONCE_POD in claim.access_modes
        if exclusive and users:
            return ClaimedVolume(problem=f"{what} is used by another pod ({READ_WRITE_ONCE_POD})")
        if claim.is_bound:
            return self._bound(claim, exclusive=exclusive)
        return self._unbound(claim, exclusive=exclusive)

    def _bound(self, claim: VolumeClaim, *, exclusive: bool) -> ClaimedVolume:
        volume = self._volumes.get(claim.volume)
        if volume is None:
            problem = f"volume {claim.volume} of persistent volume claim {claim.name} is missing"
            return ClaimedVolume(problem=problem)
        # How many CSI volumes a node holds, only its CSINode says.
        return ClaimedVolume(volume.terms, exclusive=exclusive, beyond_plan=volume.is_csi)

    def _unbound(self, claim: VolumeClaim, *, exclusive: bool) -> ClaimedVolume:
        what, found = (
            f"persistent volume claim {claim.name}",
            self._classes.get(claim.storage_class),
        )
        if found is None and claim.storage_class:
            return ClaimedVolume(problem=f"storage class {claim.storage_class} does not exist")
        if found is None or not found.waits_for_pod or claim.volume:
            return ClaimedVolume(problem=f"{what} is not bound to a volume yet")
        suited = [
            volume.terms
            for _, volume in sorted(self._volumes_by_class.get(found.name, {}).items())
            if _suits(volume, claim)
        ]
        provisions = found.provisioner != _NO_PROVISIONER
        if not suited and not provisions:
            problem = f"no volume of storage class {found.name} is free for {what}"
            return ClaimedVolume(problem=problem)
        options = [*suited, *(_topologies(found) if provisions else ())]
        limited = [each for each in options if each is not None]
        return ClaimedVolume(
            tuple(term for each in limited for term in each) if limited == options else None,
            tuple(limited) if limited == options else (),
            # Several claims may want the same volume, and a provisioner may choose a zone.
            beyond_plan=True,
            exclusive=exclusive,
        )


def _suits(volume: Volume, claim: VolumeClaim) -> bool:
    """Return whether an existing volume may be bound to the claim."""
    if volume.claim is not None:
        return volume.claim == (claim.namespace, claim.name)
    return (
        volume.available
        and volume.mode == claim.mode
        and volume.bytes >= claim.bytes
        and {*claim.access_modes} <= {*volume.access_modes}
        and all_hold(claim.requirements, volume.labels)
    )


def _topologies(storage_class: StorageClass) -> tuple[NodeTerms | None, ...]:
    """Return where the class provisions, one entry for each zone or the like; ``None``:
    anywhere."""
    if not storage_class.topologies:
        return (None,)
    return tuple(
        (
            tuple(
                Requirement(label.key, "In", (value,))
                for label, value in zip(term, values, strict=True)
            ),
        )
        for term in storage_class.topologies
        for values in product(*(label.values for label in term))
    )

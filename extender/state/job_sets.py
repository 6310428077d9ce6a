"""The pods of JobSets, each with its place in its gang.

Their labels do not tell how large the gang is. So they are held as the watch shows them, and given
their place once the JobSet is seen; anew when it changes."""

from optimus.kube.jobsets import SetShape
from optimus.kube.pods import Pod, in_set


class JobSets:
    """Known JobSets and their pods. ``placed`` may be called at any time, all else by one thread at
    a time."""

    def __init__(self) -> None:
        self._shapes: dict[str, SetShape] = {}
        self._pods: dict[str, dict[str, tuple[Pod, Pod]]] = {}
        """By UID of the JobSet, then of the pod: as it was shown, and as it was placed."""

    def placed(self, pod: Pod) -> Pod:
        """A pod with its place in its gang, as far as that is known."""
        return pod if pod.member is None else in_set(pod, self._shapes.get(pod.member.jobset_uid))

    def record(self, before: Pod | None, after: Pod | None) -> tuple[Pod | None, Pod | None]:
        """A pod as it was placed, and as it is placed now."""
        if before is not None and before.member is not None:
            of_set = self._pods.get(before.member.jobset_uid, {})
            _, before = of_set.pop(before.uid, (before, before))
            if before.member is not None and not of_set:
                self._pods.pop(before.member.jobset_uid, None)
        if after is None or after.member is None:
            return before, after
        placed = self.placed(after)
        self._pods.setdefault(after.member.jobset_uid, {})[after.uid] = after, placed
        return before, placed

    def set_shape(self, uid: str, shape: SetShape | None) -> list[tuple[Pod, Pod]]:
        """A JobSet was added or changed, or is gone (``None``); returns its pods whose place is
        another one now, as it was and as it is. The pods of one that is gone keep theirs."""
        if self._shapes.get(uid) == shape:
            return []
        if shape is None:
            del self._shapes[uid]
            return []
        self._shapes[uid] = shape
        of_set = self._pods.get(uid, {})
        moved = []
        for pod_uid, (shown, was) in of_set.items():
            now = self.placed(shown)
            if now != was:
                of_set[pod_uid] = shown, now
                moved.append((was, now))
        return moved

"""Who waits, who is next, and what wakes whom in kube-scheduler's stand-in."""

import pytest

from localcluster.embedded.scheduler.queue import (
    FLUSH_SECONDS,
    RETRY_SECONDS,
    SETTLING_SECONDS,
    Change,
    Queue,
)


class TestQueue:
    def settled(self, *pods: tuple[str, int]) -> tuple[Queue, float]:
        queue = Queue()
        for number, (uid, priority) in enumerate(pods):
            queue.add(uid, priority, float(number))
        return queue, len(pods) + SETTLING_SECONDS

    def refused(self, by_extender: bool) -> tuple[Queue, float]:
        queue, now = self.settled(("p", 0))
        assert queue.next(now) == "p"
        queue.done("p", now, by_extender=by_extender)
        assert queue.next(now) is None
        return queue, now

    def test_the_highest_priority_and_then_the_longest_wait_comes_first(self) -> None:
        queue, now = self.settled(("late", 0), ("later", 0), ("urgent", 5))
        order = []
        while (uid := queue.next(now)) is not None:
            order.append(uid)
            queue.remove(uid)
        assert order == ["urgent", "late", "later"]

    def test_a_new_pod_settles_first(self) -> None:
        queue = Queue()
        queue.add("p", 0, 1.0)
        assert queue.next(1.0) is None
        assert queue.wait_seconds(1.0, 60.0) == pytest.approx(SETTLING_SECONDS)
        assert queue.next(1.0 + SETTLING_SECONDS) == "p"

    @pytest.mark.parametrize("by_extender", [True, False])
    @pytest.mark.parametrize("change", list(Change))
    def test_any_change_requeues_a_pod_refused_by_an_extender_and_freed_capacity_others(
        self, by_extender: bool, change: Change
    ) -> None:
        queue, now = self.refused(by_extender)
        queue.changed(change)
        assert (queue.next(now) == "p") == (by_extender or change is Change.ROOM)

    @pytest.mark.parametrize("by_extender", [True, False])
    @pytest.mark.parametrize("change", list(Change))
    def test_a_change_during_an_attempt_counts_for_it(
        self, by_extender: bool, change: Change
    ) -> None:
        queue, now = self.settled(("p", 0))
        queue.next(now)
        queue.changed(change)
        queue.done("p", now, by_extender=by_extender)
        assert (queue.next(now) == "p") == (by_extender or change is Change.ROOM)

    def test_a_change_of_the_pod_during_its_attempt_counts_too(self) -> None:
        queue, now = self.settled(("p", 0))
        queue.next(now)
        queue.touched("p", may_fit_now=False)
        queue.done("p", now, by_extender=True)
        assert queue.next(now) == "p"

    def test_a_failed_attempt_is_repeated_after_a_while_whatever_happens(self) -> None:
        queue, now = self.settled(("p", 0))
        queue.next(now)
        queue.done("p", now, failed=True)
        assert queue.next(now) is None
        queue.changed(Change.ROOM)
        queue.touched("p", may_fit_now=True)
        assert queue.next(now) is None
        assert queue.wait_seconds(now, 60.0) == pytest.approx(RETRY_SECONDS)
        assert queue.next(now + RETRY_SECONDS) == "p"

    def test_a_refused_pod_is_tried_again_in_the_end(self) -> None:
        queue, now = self.refused(by_extender=False)
        assert queue.next(now + FLUSH_SECONDS - 1) is None
        assert queue.next(now + FLUSH_SECONDS) == "p"

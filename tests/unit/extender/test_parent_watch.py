"""A process ends with the one that started it."""

from queue import SimpleQueue

from extender.http.parent_watch import end_with_parent


def test_a_process_ends_once_its_parent_is_another() -> None:
    ended: SimpleQueue[int] = SimpleQueue()
    parents = iter((7, 7, 1))
    end_with_parent(7, parent_now=lambda: next(parents), end=ended.put, poll_seconds=0.0).join(60)
    assert ended.get_nowait() == 1
    assert next(parents, None) is None


def test_a_process_whose_parent_is_gone_before_it_looks_ends_too() -> None:
    ended: SimpleQueue[int] = SimpleQueue()
    end_with_parent(7, parent_now=lambda: 1, end=ended.put).join(60)
    assert ended.get_nowait() == 1


def test_a_process_with_a_parent_goes_on() -> None:
    ended: SimpleQueue[int] = SimpleQueue()
    parents = [7]
    thread = end_with_parent(7, parent_now=lambda: parents[0], end=ended.put, poll_seconds=0.001)
    thread.join(0.05)
    assert ended.empty()
    parents[0] = 1
    thread.join(60)
    assert ended.get_nowait() == 1


def test_a_process_whose_work_is_done_does_not_wait_for_its_parent_to_end() -> None:
    parents = [7]
    thread = end_with_parent(7, parent_now=lambda: parents[0], end=lambda _: None)
    keeps_the_process = not thread.daemon
    parents[0] = 1
    thread.join(60)
    assert not keeps_the_process

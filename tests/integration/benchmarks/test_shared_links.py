"""Six simulations of the paper's whole testbed on links that all tasks of a server share."""

from benchmarks.paper_setups import REFERENCE, setup, with_shared_links


def test_shared_links_are_slower_with_more_tasks() -> None:
    crowded, spare = with_shared_links(
        [setup("drf"), setup(REFERENCE)], (1,), lambda tasks: (task.run() for task in tasks)
    )
    assert crowded.hardware is not None
    assert spare.hardware is not None
    assert crowded.hardware.sync.ps_mb_per_second < spare.hardware.sync.ps_mb_per_second

"""What is left of an embedded cluster that has ended."""

from localcluster.cluster import LocalCluster
from localcluster.processes import alive
from localcluster.specs import Backend


def test_no_process_and_no_folder_of_a_cluster_survives_its_stop() -> None:
    with LocalCluster("embedded-short", backend=Backend.EMBEDDED) as cluster:
        processes = list(cluster.status.processes())
        assert len(processes) == 3
        assert all(alive(each) for each in processes)
    assert not any(alive(each) for each in processes)
    assert not cluster.paths.root.exists()

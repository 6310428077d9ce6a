"""Simulations in other processes: the same results as in this one."""

from collections.abc import Iterator
from typing import Any

import pytest
from distributed import LocalCluster

from optimus.cli.main import main

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def dask() -> Iterator[str]:
    """The address of a dask scheduler on loopback with two workers, each a process."""
    cluster: Any = LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    )
    with cluster:
        yield str(cluster.scheduler_address)


def test_simulations_are_the_same_on_dask(dask: str, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = ["simulate", "--policies", "drf,fifo", "--jobs", "4", "--seeds", "2", "--json"]
    found = []
    for where in (["--processes", "1"], ["--processes", "2"], ["--dask", dask]):
        assert main([*wanted, *where]) == 0
        found.append(capsys.readouterr().out)
    assert found[1:] == found[:1] * 2


def test_an_address_without_a_scheduler_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("optimus.cli.executors._CONNECT_SECONDS", 1)
    wanted = ["simulate", "--policies", "drf", "--jobs", "2", "--dask", "tcp://127.0.0.1:9"]
    assert main(wanted) == 1
    assert "a dask scheduler at tcp://127.0.0.1:9 is expected" in capsys.readouterr().err

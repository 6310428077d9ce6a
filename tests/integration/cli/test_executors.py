"""Training and simulations in other processes: the same results as in this one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import LocalCluster

from optimus.cli import train
from optimus.cli.main import main
from tests.unit.simulator.test_learning import three_jobs

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def dask() -> Iterator[str]:
    """The address of a dask scheduler on loopback with two workers, each a process."""
    cluster: Any = LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    )
    with cluster:
        yield str(cluster.scheduler_address)


def test_weights_are_the_same_wherever_they_are_learned(
    dask: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "_EPISODES", 2)
    monkeypatch.setattr(train, "_COMPARED", range(3, 5))
    monkeypatch.setattr(train, "lesson_trace", three_jobs)
    monkeypatch.setattr(train, "trace_of_testbed", three_jobs)
    where = {"here": [], "processes": ["--processes", "2"], "dask": ["--dask", dask]}
    for name, options in where.items():
        file = tmp_path / f"{name}.npz"
        assert main(["train", "--steps", "2", "--output", str(file), *options]) == 0
    here, *others = ((tmp_path / f"{name}.npz").read_bytes() for name in where)
    assert others == [here, here]


def test_simulations_are_the_same_on_dask(dask: str, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = ["simulate", "--policies", "drf,fifo", "--jobs", "4", "--seeds", "2", "--json"]
    assert main(wanted) == 0
    here = capsys.readouterr().out
    assert main([*wanted, "--dask", dask]) == 0
    assert capsys.readouterr().out == here


def test_an_address_without_a_scheduler_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("optimus.cli.executors._CONNECT_SECONDS", 1)
    wanted = ["simulate", "--policies", "drf", "--jobs", "2", "--dask", "tcp://127.0.0.1:9"]
    assert main(wanted) == 1
    assert "a dask scheduler at tcp://127.0.0.1:9 is expected" in capsys.readouterr().err

"""The supervisor with real processes: order, restarts, the end on request, the end of its owner,
its own death."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from localcluster.paths import ClusterPaths
from localcluster.processes import ProcessId, alive, identify
from localcluster.storage import write_json
from localcluster.supervisor.status import ClusterStatus, end_recorded, read_status
from localcluster.testing.waiting import wait_until

LOCALCLUSTER = Path(__file__).resolve().parents[3]
FOREVER = "echo ready; exec sleep 1000"
Stages = list[list[tuple[str, str, str | None]]]


def eventually(true: Callable[[], bool]) -> None:
    wait_until(true, "it comes about", 180, poll_seconds=0.02)


class Run:
    """One supervisor over tiny scripts, and what its files say."""

    def __init__(self, state: Path) -> None:
        self.paths = ClusterPaths(state)
        self.paths.logs.mkdir(parents=True)
        self.process: subprocess.Popen[bytes] | None = None

    def start(
        self,
        stages: Stages,
        owner_fd: int | None = None,
        *,
        ready_seconds: float = 180.0,
        grace_seconds: float = 60.0,
    ) -> "Run":
        """Start the components. The limits are those of the start and of the end of each."""
        command = [sys.executable, "-m", "tests.integration.cluster.driver", str(self.paths.root)]
        command += [json.dumps(stages), str(ready_seconds), str(grace_seconds)]
        command += [str(owner_fd)] if owner_fd is not None else []
        with (self.paths.root / "driver.log").open("wb") as log:
            fds = () if owner_fd is None else (owner_fd,)
            self.process = subprocess.Popen(
                command, cwd=LOCALCLUSTER, stdout=log, stderr=log, pass_fds=fds
            )
        return self

    @property
    def status(self) -> ClusterStatus:
        return read_status(self.paths) or ClusterStatus("not written yet", None)

    def pid(self, name: str) -> ProcessId:
        process = self.status.components[name].process
        assert process is not None
        return process

    def events(self) -> list[tuple[str, str]]:
        """Return the component and what happened to it, line by line of the log."""
        lines = (self.paths.root / "driver.log").read_text().splitlines()
        parts = [line.partition(" ")[2].split(": ") for line in lines if ": " in line]
        return [(subject, what) for subject, what, *_ in parts]

    def wait(self, phase: str) -> "Run":
        eventually(lambda: self.status.phase == phase)
        return self

    def wait_ended(self) -> None:
        assert self.process is not None
        assert self.process.wait(180) == 0

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(180)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path / "state")
    yield run
    run.end()


class TestStart:
    def test_a_stage_waits_until_the_one_before_is_ready(self, run: Run) -> None:
        slow = "sleep 0.3; " + FOREVER
        run.start([[("store", slow, "ready")], [("server", FOREVER, "ready")]]).wait("running")
        events = run.events()
        assert events.index(("store", "ready")) < events.index(("server", "started"))

    def test_a_component_that_ends_during_the_start_is_given_another_try(self, run: Run) -> None:
        marker = run.paths.root / "tried"
        second = f"if [ -e {marker} ]; then {FOREVER}; else touch {marker}; exit 3; fi"
        run.start([[("shaky", second, "ready")]]).wait("running")
        assert run.status.components["shaky"].restarts == 1
        assert run.status.components["shaky"].last_exit == "ended with status 3"

    def test_a_component_that_keeps_failing_fails_the_start_with_its_last_log_lines(
        self, run: Run
    ) -> None:
        run.start(
            [[("good", FOREVER, "ready")], [("bad", "echo no such flag; exit 1", "ready")]]
        ).wait("failed")
        assert run.status.reason == "bad ended with status 1, again and again:\nno such flag"
        run.wait_ended()
        assert list(run.status.processes()) == []

    def test_a_component_that_never_becomes_ready_fails_the_start(self, run: Run) -> None:
        silent = ("silent", "echo thinking; exec sleep 1000", "ready")
        run.start([[silent]], ready_seconds=3.0).wait("failed")
        assert run.status.reason == "silent was not ready within 3 s:\nthinking"
        run.wait_ended()

    def test_a_lost_port_is_distinguished_from_other_exits(self, run: Run) -> None:
        script = "echo 'listen tcp 127.0.0.1:1: bind: address already in use'; exit 1"
        run.start([[("unlucky", script, "ready")]]).wait("port taken")
        assert run.status.reason == "unlucky lost its port to another program"


class TestDeadComponents:
    def test_a_killed_component_is_restarted_and_the_others_are_not(self, run: Run) -> None:
        run.start([[("a", FOREVER, "ready"), ("b", FOREVER, "ready")]]).wait("running")
        first, other = run.pid("a"), run.pid("b")
        os.kill(first.pid, signal.SIGKILL)
        eventually(
            lambda: run.status.components["a"].restarts == 1 and run.status.components["a"].ready
        )
        assert run.pid("a") != first
        assert run.pid("b") == other
        assert run.status.components["a"].last_exit == "was killed by signal 9"
        assert ("a", "died") in run.events()

    def test_readiness_is_not_read_from_log_lines_of_an_earlier_run(self, run: Run) -> None:
        marker = run.paths.root / "again"
        script = f"[ -e {marker} ] || {{ touch {marker}; {FOREVER}; }}; exec sleep 1000"
        run.start([[("a", script, "ready")]]).wait("running")
        os.kill(run.pid("a").pid, signal.SIGKILL)
        eventually(lambda: run.status.components["a"].restarts == 1)
        time.sleep(0.3)  # an absence cannot be waited for: give a wrong probe the time to say yes
        assert run.status.components["a"].phase == "starting"


class TestStop:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    def test_a_signal_ends_all_in_the_opposite_order(
        self, run: Run, number: signal.Signals
    ) -> None:
        run.start([[("first", FOREVER, "ready")], [("second", FOREVER, "ready")]]).wait("running")
        children = list(run.status.processes())
        assert run.process is not None
        run.process.send_signal(number)
        run.wait_ended()
        assert run.status.phase == "stopped"
        assert not any(alive(child) for child in children)
        events = run.events()
        assert events.index(("second", "stopped")) < events.index(("first", "stopped"))

    def test_a_component_that_ignores_sigterm_is_killed_after_its_grace_period(
        self, run: Run
    ) -> None:
        stubborn = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
        run.start([[("stubborn", stubborn, "ready")]], grace_seconds=1.0).wait("running")
        child = run.pid("stubborn")
        run.end()
        assert not alive(child)
        assert ("stubborn", "killed") in run.events()

    def test_the_end_of_the_owner_ends_all(self, run: Run) -> None:
        read_end, write_end = os.pipe()
        run.start([[("a", FOREVER, "ready")]], owner_fd=read_end)
        os.close(read_end)
        run.wait("running")
        child = run.pid("a")
        os.close(write_end)
        run.wait_ended()
        assert run.status.reason == "the process that owns the cluster ended"
        assert not alive(child)

    def test_components_end_with_a_killed_supervisor(self, run: Run) -> None:
        deaf = "trap '' TERM INT HUP; echo ready; exec sleep 1000"
        run.start([[("a", deaf, "ready"), ("b", FOREVER, "ready")]]).wait("running")
        children = list(run.status.processes())
        assert len(children) == 2
        assert run.process is not None
        run.process.kill()
        run.process.wait()
        eventually(lambda: not any(alive(child) for child in children))


class TestLeftovers:
    def test_a_process_with_a_reused_pid_is_not_ended(self, tmp_path: Path) -> None:
        stranger = subprocess.Popen(["sleep", "1000"])
        try:
            now = identify(stranger.pid)
            assert now is not None
            before = ProcessId(now.pid, now.start_ticks - 1, now.boot)
            paths = ClusterPaths(tmp_path)
            write_json(paths.status, {"components": {"a": self._entry(before)}})
            end_recorded(paths)
            assert stranger.poll() is None
        finally:
            stranger.kill()
            stranger.wait()

    @staticmethod
    def _entry(process: ProcessId | None) -> dict[str, object]:
        return {"phase": "ready", "process": msgspec.to_builtins(process), "restarts": 0}

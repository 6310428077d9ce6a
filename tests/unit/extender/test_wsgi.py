"""gunicorn around the application: its settings and its one worker."""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from extender.http.wsgi import (
    GRACE_SECONDS,
    KEEP_ALIVE_SECONDS,
    THREADS,
    WebhookServer,
)
from extender.settings import Settings

# --- settings


def test_gunicorn_runs_with_the_settings_of_the_extender_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "4")
    monkeypatch.setenv("GUNICORN_CMD_ARGS", "--workers=3 --bind=0.0.0.0:1")
    cfg = WebhookServer(Settings(listen="127.0.0.1:8889", log_level="warning")).cfg
    assert (cfg.workers, cfg.threads, cfg.worker_class_str) == (1, THREADS, "gthread")
    assert (cfg.bind, cfg.loglevel, cfg.proc_name) == (
        ["127.0.0.1:8889"],
        "warning",
        "optimus-extender",
    )
    assert (cfg.keepalive, cfg.graceful_timeout) == (KEEP_ALIVE_SECONDS, GRACE_SECONDS)
    assert cfg.timeout == 30, "a worker that hangs for half a minute is started anew"
    assert cfg.control_socket_disable is True


@pytest.mark.parametrize("workers", [0, 2])
def test_a_start_with_any_other_number_of_workers_ends(workers: int) -> None:
    cfg = WebhookServer(Settings()).cfg
    cfg.when_ready(SimpleNamespace(num_workers=1))
    with pytest.raises(SystemExit, match=f"one worker with threads is needed, not {workers}"):
        cfg.when_ready(SimpleNamespace(num_workers=workers))


# --- the application in the worker


class FakeApplication:
    """Notes what is done with it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.done: list[str] = []

    def start(self) -> None:
        self.done.append("start")

    def stop(self) -> None:
        self.done.append("stop")

    def wsgi(self) -> "FakeApplication":
        return self


def test_the_application_lives_as_long_as_the_worker_and_ends_with_its_master(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    masters: list[int] = []
    monkeypatch.setattr("extender.http.wsgi.end_with_parent", masters.append)
    monkeypatch.setattr("extender.http.wsgi.Application", FakeApplication)
    settings = Settings()
    server = WebhookServer(settings)
    server.cfg.worker_exit(None, None)  # a worker that ends before it has loaded anything
    loaded: Any = server.load()
    assert (loaded.settings, loaded.done, masters) == (settings, ["start"], [os.getpid()])
    server.cfg.worker_exit(None, None)
    assert loaded.done == ["start", "stop"]

"""Run the task that the environment names: trainer, parameter server or scheduler."""

import asyncio
import sys
from collections.abc import Callable, Mapping

from examples.light.cluster import Address, BadEnvironment, Task, bind_host, read_task, resolve_ipv4
from examples.light.journal import print_line
from examples.light.peers import Patience, PeerAway, PeerLost
from examples.light.rendezvous import Scheduler, find_servers, report_end, stay_registered
from examples.light.server import ParameterServer
from examples.light.settings import Settings, parse_settings
from examples.light.shard import Shard
from examples.light.trainer import Trainer

OnStop = Callable[[Callable[[], str | None]], None]
"""Takes what saves a checkpoint when the process is told to stop, and returns a line to print."""


def run_task(arguments: list[str], environment: Mapping[str, str], on_stop: OnStop) -> int:
    """Run one task to its end and return its exit code, with a sentence on stderr where it is not
    0."""
    settings = parse_settings(arguments)
    try:
        task = read_task(environment)
        if task.role == "trainer":
            return _run_trainer(task, settings, on_stop)
        return asyncio.run(
            _run_server(task, settings) if task.role == "ps" else _run_scheduler(task, settings)
        )
    except BadEnvironment as error:
        return _refuse(2, str(error))
    except PeerAway as error:
        return _refuse(1, str(error))


def _refuse(code: int, sentence: str) -> int:
    print(f"examples.light: {sentence}", file=sys.stderr, flush=True)
    return code


def _run_trainer(task: Task, settings: Settings, on_stop: OnStop) -> int:
    assert task.index is not None
    scheduler, silence_seconds = task.scheduler, settings.peer_timeout_seconds

    def find_ps() -> list[Address]:
        return find_servers(scheduler, silence_seconds) if scheduler else list(task.ps_addresses)

    print_line(
        f"trainer {task.index} of {task.trainer_count}, {task.ps_count} PSs, {settings.mode}"
    )
    if settings.epochs:
        print_line(f"epochs={settings.epochs}")
    trainer = Trainer(task.index, task.trainer_count, settings, find_ps)
    on_stop(trainer.save_held)
    trainer.run()
    if scheduler is not None:
        _report_end(scheduler, task.index, silence_seconds)
    return 0


def _report_end(scheduler: Address, index: int, silence_seconds: float) -> None:
    patience = Patience(silence_seconds)
    while True:
        try:
            report_end(scheduler, index, silence_seconds)
            return
        except PeerLost as loss:
            patience.wait(loss)


async def _run_server(task: Task, settings: Settings) -> int:
    shard = Shard(settings.mode == "sync", task.trainer_count, settings.learning_rate)
    idle_seconds = settings.peer_timeout_seconds
    server = ParameterServer(shard, settings.costs, task.ps_count, idle_seconds, print_line)
    own = task.ps_addresses[task.index or 0] if task.ps_addresses else None
    host = bind_host(task, settings.bind, own.host if own else None, resolve_ipv4)
    try:
        listening = await asyncio.start_server(
            server.serve_connection, host, own.port if own else 0
        )
    except OSError as error:
        return _refuse(1, f"cannot listen on {host or 'all addresses'}: {error}")
    port = listening.sockets[0].getsockname()[1]
    print_line(
        f"PS of {task.trainer_count} trainers listens on {host or 'all addresses'}, port {port}"
    )
    if task.scheduler is None:
        await listening.serve_forever()  # a TFJob's PSs serve until their pods are deleted
        return 0
    if await stay_registered(task.scheduler, port, task.index, host, idle_seconds):
        return 0
    return _refuse(1, f"the scheduler at {task.scheduler} was away for {idle_seconds:g} s")


async def _run_scheduler(task: Task, settings: Settings) -> int:
    assert task.scheduler is not None
    scheduler = Scheduler(task.ps_count, task.trainer_count, print_line)
    host = bind_host(task, settings.bind, task.scheduler.host, resolve_ipv4)
    try:
        await asyncio.start_server(scheduler.serve_connection, host, task.scheduler.port)
    except OSError as error:
        return _refuse(
            1, f"cannot listen on {host or 'all addresses'}, port {task.scheduler.port}: {error}"
        )
    print_line(
        f"scheduler of {task.ps_count} servers and {task.trainer_count} workers, port "
        f"{task.scheduler.port}"
    )
    await scheduler.ended.wait()
    await scheduler.release_servers()
    return 0

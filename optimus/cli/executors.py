"""Where simulations run: in this process, in several, or on a cluster of dask."""

import argparse
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

from optimus.cli.arguments import whole_number
from optimus.cli.command import BadInput

Given = TypeVar("Given")
Found = TypeVar("Found")
Map = Callable[[Callable[[Given], Found], Iterable[Given]], Iterable[Found]]
"""``map`` of Python, or of an executor of ``concurrent.futures``: answers in the items' order."""

_CONNECT_SECONDS: Final = 30


def add_executor_arguments(parser: argparse.ArgumentParser) -> None:
    """``--processes`` and ``--dask``."""
    where = parser.add_mutually_exclusive_group()
    processes = "simulations that run at the same time (default: one for each core)"
    where.add_argument("--processes", type=whole_number(1), metavar="N", help=processes)
    cluster = "run them on the workers of a dask cluster, such as tcp://scheduler:8786"
    where.add_argument("--dask", metavar="ADDRESS", help=cluster)


@contextmanager
def executor(options: argparse.Namespace, most: int) -> "Iterator[Map[Any, Any]]":
    """The ``map`` that the options ask for; no more than ``most`` items are run at a time."""
    processes = min(options.processes or len(os.sched_getaffinity(0)), most)
    if options.dask is not None:
        with _dask(options.dask) as pool:
            yield partial(_in_order, pool)
    elif processes > 1:
        # An interrupt of the terminal ends them, too, and they have nothing to say about it.
        pool = ProcessPoolExecutor(
            processes, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_DFL)
        )
        try:
            yield partial(_in_order, pool)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    else:
        yield map


def _in_order(
    pool: Executor, function: Callable[[Given], Found], items: Iterable[Given]
) -> Iterator[Found]:
    """``Executor.map``, of which dask's asks its cluster once more when it is given up."""
    futures = [pool.submit(function, each) for each in items]
    return (each.result() for each in futures)


@contextmanager
def _dask(address: str) -> Iterator[Executor]:
    from distributed import Client

    try:
        client: Any = Client(address, timeout=_CONNECT_SECONDS)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as problem:
        raise BadInput("--dask", f"a dask scheduler at {address} is expected: {problem}") from None
    with client, client.get_executor(pure=False) as pool:
        yield pool

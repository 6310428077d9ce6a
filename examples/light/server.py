"""A parameter server: answers frames about its shard and spends the stated time of its link.

All connections are served by one asyncio loop. In sync mode the last push of a step makes the
update, and the new values leave for all workers together: they share the link, so all of them have
them at the same instant, as in eq 2 of the paper (bandwidth B/w' for each of w' workers).
"""

import asyncio
import socket
from collections.abc import Callable

from examples.light.costs import Costs, Link
from examples.light.frames import BadFrame, Frame, Kind, pack_values, read_frame
from examples.light.problem import Gradient
from examples.light.shard import Shard

Note = Callable[[str], None]
_Answer = tuple[Frame, float]


class ParameterServer:
    """One shard behind a socket; instants are those of the loop's (monotonic) clock, in seconds."""

    def __init__(
        self, shard: Shard, costs: Costs, ps_count: int, idle_seconds: float, note: Note
    ) -> None:
        self._shard = shard
        self._shard_bytes = costs.model_bytes / ps_count
        self._link = Link(costs)
        self._idle_seconds = idle_seconds
        self._note = note
        self._initialised = asyncio.Event()
        self._turn: asyncio.Future[_Answer] | None = None

    async def serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer one peer's frames until it goes; what is no frame costs it the connection and one
        log line."""
        peer = writer.get_extra_info("peername")
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            while frame := await self._next(reader):
                answer, ready_at_seconds = await self._answer(frame)
                await asyncio.sleep(ready_at_seconds - _now_seconds())
                writer.write(answer.encode())
                await writer.drain()
        except BadFrame as error:
            self._note(f"dropped the connection of {peer}: {error}")
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # the peer went away; it connects again if it still wants something
        except asyncio.CancelledError:
            pass  # the program ends; raised further, asyncio would print it
        finally:
            writer.close()

    async def _next(self, reader: asyncio.StreamReader) -> Frame | None:
        async with asyncio.timeout(self._idle_seconds):
            return await read_frame(reader)

    async def _answer(self, frame: Frame) -> _Answer:
        match frame.kind:
            case Kind.STATUS:
                return self._state()
            case Kind.INITIALISE:
                return self._initialise(frame)
            case Kind.PULL:
                return await self._pull()
            case Kind.PUSH:
                return await self._push(frame)
            case Kind.FORGET:
                return self._forget(frame)
            case Kind.OVER:
                return self._end(frame)
        raise BadFrame(f"a parameter server is not asked {frame.kind.name}")

    def _state(self) -> _Answer:
        return Frame(Kind.STATE, run=self._shard.run, step=self._shard.step), 0.0

    def _initialise(self, frame: Frame) -> _Answer:
        if frame.run == 0:
            raise BadFrame("run 0 means that there is none: it cannot be started")
        self._shard.initialise(frame.run, frame.step, frame.values())
        self._release_waiting((Frame(Kind.STALE), 0.0))
        self._initialised.set()
        self._note(
            f"run {frame.run:x} starts at step {frame.step} with {self._shard.values.size} "
            "parameters"
        )
        return self._state()

    def _forget(self, frame: Frame) -> _Answer:
        if frame.run == self._shard.run:
            self._shard.forget()
            self._initialised.clear()
            self._release_waiting((Frame(Kind.STALE), 0.0))
        return self._state()

    def _end(self, frame: Frame) -> _Answer:
        if frame.run == self._shard.run:
            self._shard.over = True
            self._release_waiting((Frame(Kind.OVER), 0.0))
        return self._state()

    async def _pull(self) -> _Answer:
        await self._initialised.wait()
        if self._shard.over:
            return Frame(Kind.OVER), 0.0
        return self._parameters(), self._link.carry(_now_seconds(), self._shard_bytes)

    async def _push(self, frame: Frame) -> _Answer:
        values = frame.values()
        if self._shard.over:
            return Frame(Kind.OVER), 0.0
        if frame.sender >= self._shard.trainer_count:
            raise BadFrame(
                f"trainer {frame.sender} is not one of the {self._shard.trainer_count} of this job"
            )
        if not self._shard.accepts(frame.run, frame.step, values.size):
            return Frame(Kind.STALE), 0.0
        arrived_at_seconds = self._link.carry(_now_seconds(), self._shard_bytes)
        gradient = Gradient(values, frame.loss, frame.examples)
        if not self._shard.synchronous:
            return await self._push_alone(frame, gradient, arrived_at_seconds)
        return await self._push_in_step(frame.sender, gradient)

    async def _push_alone(
        self, frame: Frame, gradient: Gradient, arrived_at_seconds: float
    ) -> _Answer:
        await asyncio.sleep(arrived_at_seconds - _now_seconds())
        if not self._shard.accepts(frame.run, frame.step, gradient.values.size):
            return Frame(Kind.STALE), 0.0
        self._shard.push(frame.sender, gradient)
        return self._parameters(), self._link.carry(_now_seconds(), self._shard_bytes)

    async def _push_in_step(self, sender: int, gradient: Gradient) -> _Answer:
        turn = self._turn = self._turn or asyncio.get_running_loop().create_future()
        if self._shard.push(sender, gradient):
            count = self._shard.trainer_count
            ready = self._link.carry(_now_seconds(), self._shard_bytes * count, messages=count)
            self._release_waiting((self._parameters(), ready))
        # Shielded: a worker that goes while it waits must not cancel the turn of the others.
        return await asyncio.shield(turn)

    def _release_waiting(self, answer: _Answer) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.set_result(answer)

    def _parameters(self) -> Frame:
        shard = self._shard
        return Frame(
            Kind.PARAMETERS,
            run=shard.run,
            step=shard.step,
            loss=shard.loss,
            payload=pack_values(shard.values),
        )


def _now_seconds() -> float:
    return asyncio.get_running_loop().time()

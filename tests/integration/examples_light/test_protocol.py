"""What a parameter server and a scheduler answer, frame by frame, over real sockets."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from examples.light.costs import Costs
from examples.light.frames import Frame, Kind, pack_document, pack_values, read_frame
from examples.light.rendezvous import Scheduler
from examples.light.server import ParameterServer
from examples.light.shard import Shard

pytestmark = pytest.mark.integration

_LIMIT_SECONDS = 180.0
_FREE = Costs(0.0, 0.0, 0.0, 0.0, 8)
_VALUES = pack_values(np.array([1.0, 2.0]))
_GRADIENT = pack_values(np.array([2.0, 4.0]))


@dataclass
class Peer:
    """A connection on which frames are written and read one by one."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, frame: Frame) -> None:
        self.writer.write(frame.encode())

    async def receive(self) -> Frame | None:
        return await read_frame(self.reader)

    async def ask(self, frame: Frame) -> Frame | None:
        self.send(frame)
        return await self.receive()

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


@dataclass
class Stage:
    """A server under test, its notes, and peers to talk to it."""

    port: int = 0
    notes: list[str] = field(default_factory=list)
    peers: list[Peer] = field(default_factory=list)

    async def peer(self) -> Peer:
        self.peers.append(Peer(*await asyncio.open_connection("127.0.0.1", self.port)))
        return self.peers[-1]


_Play = Callable[[Stage], Awaitable[None]]
_Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _perform(serve: _Serve, stage: Stage, play: _Play) -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    stage.port = server.sockets[0].getsockname()[1]
    async with asyncio.timeout(_LIMIT_SECONDS), server:
        await play(stage)
        for peer in stage.peers:
            await peer.close()


def _with_ps(play: _Play, synchronous: bool = True) -> Stage:
    async def perform() -> None:
        server = ParameterServer(
            Shard(synchronous, 2, 0.5), _FREE, 1, _LIMIT_SECONDS, stage.notes.append
        )
        await _perform(server.serve_connection, stage, play)

    stage = Stage()
    asyncio.run(perform())
    return stage


def _with_scheduler(play: _Play) -> tuple[Stage, Scheduler]:
    async def perform() -> Scheduler:
        scheduler = Scheduler(servers=2, workers=2, note=stage.notes.append)
        await _perform(scheduler.serve_connection, stage, play)
        return scheduler

    stage = Stage()
    return stage, asyncio.run(perform())


def _initialise(step: int = 10, run: int = 7) -> Frame:
    return Frame(Kind.INITIALISE, run=run, step=step, payload=_VALUES)


def _push(sender: int, step: int = 10, run: int = 7) -> Frame:
    return Frame(Kind.PUSH, sender, run, step, examples=2, loss=3.0, payload=_GRADIENT)


def _kind(frame: Frame | None) -> Kind | None:
    return frame.kind if frame else None


def test_a_pull_waits_until_there_are_parameters() -> None:
    async def play(stage: Stage) -> None:
        early, chief = await stage.peer(), await stage.peer()
        early.send(Frame(Kind.PULL))
        state = await chief.ask(Frame(Kind.STATUS))
        assert state is not None
        assert state.run == 0
        await chief.ask(_initialise())
        answer = await early.receive()
        assert answer is not None
        assert (answer.kind, answer.run, answer.step, answer.payload) == (
            Kind.PARAMETERS,
            7,
            10,
            _VALUES,
        )

    _with_ps(play)


def test_a_synchronous_push_is_answered_when_all_have_come_with_the_mean_loss() -> None:
    async def play(stage: Stage) -> None:
        first, second = await stage.peer(), await stage.peer()
        await first.ask(_initialise())
        first.send(_push(0))
        answers = [await second.ask(_push(1)), await first.receive()]
        assert answers[0] == answers[1]
        assert answers[0] is not None
        assert (answers[0].step, answers[0].loss, answers[0].values().tolist()) == (
            11,
            1.5,
            [0.5, 1.0],
        )

    _with_ps(play)


def test_an_asynchronous_push_is_answered_at_once() -> None:
    async def play(stage: Stage) -> None:
        peer = await stage.peer()
        await peer.ask(_initialise())
        answer = await peer.ask(_push(1, step=3))
        assert answer is not None
        assert (answer.kind, answer.step, answer.values().tolist()) == (
            Kind.PARAMETERS,
            11,
            [0.5, 1.0],
        )

    _with_ps(play, synchronous=False)


@pytest.mark.parametrize(
    ("interruption", "answered"),
    [
        pytest.param(Frame(Kind.OVER, run=7), Kind.OVER, id="the training ends"),
        pytest.param(Frame(Kind.FORGET, run=7), Kind.STALE, id="the run is dropped"),
        pytest.param(_initialise(step=5, run=8), Kind.STALE, id="another run begins"),
    ],
)
def test_a_push_that_waits_for_the_others_is_released_when(
    interruption: Frame, answered: Kind
) -> None:
    async def play(stage: Stage) -> None:
        waiting, chief = await stage.peer(), await stage.peer()
        await chief.ask(_initialise())
        waiting.send(_push(0))
        assert _kind(await chief.ask(_push(1, step=9))) is Kind.STALE
        await chief.ask(interruption)
        assert _kind(await waiting.receive()) is answered

    _with_ps(play)


def test_a_run_is_forgotten_only_by_its_name() -> None:
    async def play(stage: Stage) -> None:
        peer = await stage.peer()
        await peer.ask(_initialise())
        kept = await peer.ask(Frame(Kind.FORGET, run=6))
        dropped = await peer.ask(Frame(Kind.FORGET, run=7))
        assert kept is not None
        assert dropped is not None
        assert (kept.run, dropped.run) == (7, 0)

    _with_ps(play)


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        pytest.param(
            _push(2), "trainer 2 is not one of the 2", id="a trainer that the job does not have"
        ),
        pytest.param(_initialise(run=0), "run 0", id="a run without a name"),
        pytest.param(
            Frame(Kind.REGISTER), "is not asked REGISTER", id="a question for another role"
        ),
        pytest.param(Frame(Kind.PUSH, payload=b"123"), "3 bytes", id="half a number"),
    ],
)
def test_a_frame_that_makes_no_sense_costs_its_sender_the_connection_alone(
    frame: Frame, sentence: str
) -> None:
    async def play(stage: Stage) -> None:
        good, bad = await stage.peer(), await stage.peer()
        await good.ask(_initialise())
        assert await bad.ask(frame) is None
        assert _kind(await good.ask(Frame(Kind.PULL))) is Kind.PARAMETERS

    stage = _with_ps(play)
    assert [note for note in stage.notes if sentence in note]


def _register(port: int, index: int | None = None) -> Frame:
    return Frame(
        Kind.REGISTER, payload=pack_document({"host": "127.0.0.1", "port": port, "index": index})
    )


_WORKER = Frame(Kind.REGISTER, payload=pack_document({"role": "worker"}))


def test_addresses_are_sent_once_all_servers_are_known_in_the_order_of_their_indices() -> None:
    async def play(stage: Stage) -> None:
        worker, first, second = await stage.peer(), await stage.peer(), await stage.peer()
        worker.send(_WORKER)
        first.send(_register(1001, index=1))
        second.send(_register(1000, index=0))
        answer = await worker.receive()
        assert answer is not None
        assert answer.document() == {"servers": [["127.0.0.1", 1000], ["127.0.0.1", 1001]]}

    _with_scheduler(play)


def test_a_server_that_went_leaves_its_place_to_the_next() -> None:
    async def play(stage: Stage) -> None:
        gone, second, worker = await stage.peer(), await stage.peer(), await stage.peer()
        gone.send(_register(1000))
        second.send(_register(1001))
        assert _kind(await gone.receive()) is Kind.ADDRESSES
        await gone.close()
        late = await stage.peer()
        while _kind(await late.ask(_register(1002))) is not Kind.ADDRESSES:
            late = await stage.peer()  # the scheduler has not seen yet that the place is free
        answer = await worker.ask(_WORKER)
        assert answer is not None
        assert answer.document() == {"servers": [["127.0.0.1", 1002], ["127.0.0.1", 1001]]}

    _with_scheduler(play)


@pytest.mark.parametrize(
    ("finished", "ended"),
    [
        pytest.param([0, 1], True, id="each worker has said so"),
        pytest.param([0, 0], False, id="one worker has said so twice"),
    ],
)
def test_the_scheduler_ends_when(finished: list[int], ended: bool) -> None:
    async def play(stage: Stage) -> None:
        for sender in finished:
            peer = await stage.peer()
            assert _kind(await peer.ask(Frame(Kind.FINISHED, sender=sender))) is Kind.SHUTDOWN

    _, scheduler = _with_scheduler(play)
    assert scheduler.ended.is_set() is ended


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        pytest.param(_register(1, index=2), "no place", id="a server too many"),
        pytest.param(
            Frame(Kind.REGISTER, payload=b'{"port": "x"}'),
            "host and a port",
            id="a server without an address",
        ),
        pytest.param(Frame(Kind.REGISTER, payload=b"{"), "no JSON", id="a document that is none"),
        pytest.param(
            Frame(Kind.FINISHED, sender=2), "worker 2 is not one of the 2", id="a worker too many"
        ),
        pytest.param(Frame(Kind.PULL), "is not asked PULL", id="a question for another role"),
    ],
)
def test_what_makes_no_sense_to_a_scheduler_is_noted_and_dropped(
    frame: Frame, sentence: str
) -> None:
    async def play(stage: Stage) -> None:
        assert await (await stage.peer()).ask(frame) is None

    stage, _ = _with_scheduler(play)
    assert [note for note in stage.notes if sentence in note]

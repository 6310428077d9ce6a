"""How the tasks of an MXJob find each other and end, as in ps-lite: all know only the scheduler's
address.

Servers register with the address that they listen on and keep the connection; workers ask for the
servers' addresses; both are answered once all servers are known. A worker that ends says so; when
all have, the scheduler releases the servers and everyone exits with 0.
"""

import asyncio
import socket

from examples.light.cluster import Address
from examples.light.frames import BadFrame, Frame, Kind, pack_document, read_frame
from examples.light.peers import Connection, PeerLost
from examples.light.server import Note

_CONNECT_SECONDS = 5.0
_RETRY_SECONDS = 0.3


class Scheduler:
    """The book of the servers' addresses and of the workers that have ended."""

    def __init__(self, servers: int, workers: int, note: Note) -> None:
        self._slots: list[Address | None] = [None] * servers
        self._workers = workers
        self._note = note
        self._finished: set[int] = set()
        self._complete = asyncio.Event()
        self.ended = asyncio.Event()
        """Set when every worker has ended."""
        self._servers: set[asyncio.StreamWriter] = set()

    async def serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer one task until it goes."""
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            while frame := await read_frame(reader):
                await self._answer(frame, reader, writer)
        except BadFrame as error:
            self._note(f"dropped the connection of {writer.get_extra_info('peername')}: {error}")
        except (OSError, asyncio.IncompleteReadError):
            pass  # the task went away; it comes again if it still wants something
        except asyncio.CancelledError:
            pass  # the program ends; raised further, asyncio would print it
        finally:
            writer.close()

    async def release_servers(self) -> None:
        """Notify the servers that all workers have ended."""
        for writer in tuple(self._servers):
            writer.write(Frame(Kind.SHUTDOWN).encode())
            await writer.drain()

    async def _answer(
        self, frame: Frame, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if frame.kind is Kind.FINISHED:
            self._finish(frame.sender)
            await _send(writer, Frame(Kind.SHUTDOWN))
        elif frame.kind is Kind.REGISTER and "port" in frame.document():
            await self._keep_server(frame.document(), reader, writer)
        elif frame.kind is Kind.REGISTER:
            await self._complete.wait()
            await _send(writer, self._addresses())
        else:
            raise BadFrame(f"a scheduler is not asked {frame.kind.name}")

    def _finish(self, worker: int) -> None:
        if worker >= self._workers:
            raise BadFrame(f"worker {worker} is not one of the {self._workers} of this job")
        self._finished.add(worker)
        if len(self._finished) == self._workers:
            self.ended.set()

    async def _keep_server(
        self,
        document: dict[str, object],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        slot, address = self._take_slot(document)
        self._servers.add(writer)
        try:
            await self._complete.wait()
            await _send(writer, self._addresses())
            while await read_frame(reader):
                # a registered server says nothing more; the end of its connection is what is waited
                # for
                pass
        finally:
            self._servers.discard(writer)
            if self._slots[slot] == address:
                self._slots[slot] = None
                self._complete.clear()

    def _take_slot(self, document: dict[str, object]) -> tuple[int, Address]:
        host, port, wanted = document.get("host"), document.get("port"), document.get("index")
        if not isinstance(host, str) or not isinstance(port, int):
            raise BadFrame("a server registers with a host and a port")
        slot = (
            wanted
            if isinstance(wanted, int)
            else next((i for i, a in enumerate(self._slots) if a is None), -1)
        )
        if not 0 <= slot < len(self._slots):
            raise BadFrame(f"there is no place for another server among {len(self._slots)}")
        address = self._slots[slot] = Address(host, port)
        if None not in self._slots:
            self._complete.set()
        return slot, address

    def _addresses(self) -> Frame:
        servers = [[address.host, address.port] for address in self._slots if address]
        return Frame(Kind.ADDRESSES, payload=pack_document({"servers": servers}))


async def stay_registered(
    scheduler: Address, port: int, index: int | None, host: str | None, away_seconds: float
) -> bool:
    """Register a server and wait for its release; False where the scheduler was away for too long.

    Without a `host` of its own the server is known by the address from which it reaches the
    scheduler."""
    loop = asyncio.get_running_loop()
    last_seen_seconds = loop.time()
    while loop.time() - last_seen_seconds < away_seconds:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(scheduler.host, scheduler.port)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            own_host = host or writer.get_extra_info("sockname")[0]
            document: dict[str, object] = {"host": own_host, "port": port, "index": index}
            await _send(writer, Frame(Kind.REGISTER, payload=pack_document(document)))
            while frame := await read_frame(reader):
                if frame.kind is Kind.SHUTDOWN:
                    return True
            last_seen_seconds = loop.time()
        except (OSError, TimeoutError, BadFrame, asyncio.IncompleteReadError):
            pass  # not there yet, or restarting: tried again until away_seconds have passed
        await asyncio.sleep(_RETRY_SECONDS)
    return False


def find_servers(scheduler: Address, silence_seconds: float) -> list[Address]:
    """Ask the scheduler for the servers' addresses; PeerLost where it does not answer as it
    should."""
    connection = Connection(scheduler, silence_seconds)
    try:
        answer = connection.ask(Frame(Kind.REGISTER, payload=pack_document({"role": "worker"})))
        return _read_addresses(answer.document())
    except BadFrame as error:
        raise PeerLost(
            f"the scheduler at {scheduler} did not answer with addresses: {error}"
        ) from error
    finally:
        connection.close()


def report_end(scheduler: Address, worker: int, silence_seconds: float) -> None:
    """Report the end of this worker to the scheduler; PeerLost without an answer."""
    connection = Connection(scheduler, silence_seconds)
    try:
        connection.ask(Frame(Kind.FINISHED, sender=worker))
    finally:
        connection.close()


def _read_addresses(document: dict[str, object]) -> list[Address]:
    entries = document.get("servers")
    if not isinstance(entries, list):
        raise BadFrame("no list of servers")
    try:
        return [Address(str(host), int(port)) for host, port in entries]
    except (TypeError, ValueError) as error:
        raise BadFrame(f"an address is not a host and a port: {error}") from error


async def _send(writer: asyncio.StreamWriter, frame: Frame) -> None:
    writer.write(frame.encode())
    await writer.drain()

"""Shapes of the parameters in a checkpoint of TensorFlow or MXNet, read without either.

TensorFlow: the ``.index`` file is a table of LevelDB's form (SSTable): a footer names the index
block, which names blocks of entries, whose keys share prefixes; a value is a ``BundleEntryProto``.
MXNet: a ``.params`` file is a list of arrays, each a header and its data, then their names. Data
are skipped; a file's own numbers are held against its size before anything is read by them.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, Final

from optimus.cli.command import BadInput

EXPECTED: Final = (
    "a checkpoint of TensorFlow (PREFIX or PREFIX.index) or MXNet (.params) is expected"
)
_TABLE_MAGIC: Final = 0xDB4775248B80FB57
_FOOTER: Final = 48
_MXNET_MAGIC: Final = 0x112
_MOST_INDEX: Final = 64 << 20
_MOST_ARRAYS: Final = 100_000
_LONGEST_NAME: Final = 4_096
_MOST_AXES: Final = 32
_TENSORFLOW_FLOATS: Final = {1: 4, 2: 8, 14: 2, 19: 2}
"""DataType of tensorflow/core/framework/types.proto: bytes of a value that training changes."""
_MXNET_TYPES: Final = {0: 4, 1: 8, 2: 2, 3: 1, 4: 4, 5: 1, 6: 8, 7: 1, 12: 2}
_MXNET_FLOATS: Final = frozenset({0, 1, 2, 12})
_NOT_PUSHED: Final = ("running_mean", "running_var", "moving_mean", "moving_var")
"""Statistics of batch normalisation, which no gradient changes."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One array that training changes."""

    name: str
    shape: tuple[int, ...]
    value_bytes: int

    @property
    def size(self) -> int:
        """Its number of values."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The parameters of a model, without an optimizer's."""

    framework: str
    """``TensorFlow`` or ``MXNet``."""
    parameters: tuple[Parameter, ...]
    """TensorFlow: in the order of their names; MXNet: in that of the file."""


class _Broken(ValueError):
    """What is wrong within the file."""


def read_checkpoint(path: Path) -> Checkpoint:
    """Raises ``BadInput`` where it is no checkpoint, or none that holds parameters."""
    try:
        file = path if path.exists() else path.with_name(f"{path.name}.index")
        if not S_ISREG(file.stat().st_mode):
            raise BadInput(path, f"{EXPECTED}, not a folder or device")
        with file.open("rb") as opened:
            found = _read(opened, file.stat().st_size)
    except OSError as problem:
        raise BadInput(path, f"{EXPECTED}: {problem.strerror}") from None
    except (_Broken, struct.error, UnicodeDecodeError) as problem:
        raise BadInput(path, f"{EXPECTED}; this one is damaged: {problem}") from None
    if found is None:
        raise BadInput(path, f"{EXPECTED}; this is neither")
    if not sum(parameter.size for parameter in found.parameters):
        raise BadInput(path, "the checkpoint holds no parameters")
    return found


def _read(file: BinaryIO, size: int) -> Checkpoint | None:
    if size >= _FOOTER:
        file.seek(size - 8)
        if struct.unpack("<Q", file.read(8))[0] == _TABLE_MAGIC:
            if size > _MOST_INDEX:
                raise _Broken(f"an index of more than {_MOST_INDEX >> 20} MiB")
            file.seek(0)
            return Checkpoint("TensorFlow", tuple(_of_tensorflow(memoryview(file.read(size)))))
        file.seek(0)
        if struct.unpack("<Q", file.read(8))[0] == _MXNET_MAGIC:
            return Checkpoint("MXNet", tuple(_of_mxnet(_Arrays(file, size))))
    return None


# TensorFlow


def _of_tensorflow(data: memoryview) -> Iterator[Parameter]:
    shapes = dict(_variables(data))
    for name, (shape, value_bytes) in shapes.items():
        if not _is_of_an_optimizer(name, shape, shapes):
            yield Parameter(name.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE"), shape, value_bytes)


def _is_of_an_optimizer(
    name: str, shape: tuple[int, ...], shapes: dict[str, tuple[tuple[int, ...], int]]
) -> bool:
    """By name: ``.OPTIMIZER_SLOT``, Keras' ``optimizer/``; a slot of TensorFlow 1 is named after
    its variable and has its shape."""
    parts = name.split("/")
    owner = shapes.get(name.rpartition("/")[0])
    is_slot = owner is not None and owner[0] == shape
    return not shape or is_slot or ".OPTIMIZER_SLOT" in parts or "optimizer" in parts[:2]


def _variables(data: memoryview) -> Iterator[tuple[str, tuple[tuple[int, ...], int]]]:
    footer = data[-_FOOTER:]
    position = _varint(footer, _varint(footer, 0)[1])[1]  # after the handle of the meta index
    position = _varint(footer, position)[1] if False else position
    blocks = (_block(data, handle, 0) for _, handle in _entries(_block(data, footer, position)))
    entries = (entry for block in blocks for entry in _entries(block))
    for number, (key, value) in enumerate(entries):
        if number >= _MOST_ARRAYS:
            raise _Broken(f"more than {_MOST_ARRAYS} entries")
        if key and key[0]:  # the first is a header; slices' keys begin with a zero byte
            kind, shape = _entry(value)
            if kind in _TENSORFLOW_FLOATS:
                yield key.decode(), (shape, _TENSORFLOW_FLOATS[kind])


def _block(data: memoryview, handle: memoryview, position: int) -> memoryview:
    offset, position = _varint(handle, position)
    size, _ = _varint(handle, position)
    if offset + size + 5 > len(data):
        raise _Broken("a block is outside of the file")
    if data[offset + size]:
        raise _Broken("its index is compressed")
    return data[offset : offset + size]


def _entries(block: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    if len(block) < 4:
        raise _Broken("a block is too short")
    end = len(block) - 4 - 4 * int(struct.unpack("<I", block[-4:])[0])
    position, key = 0, b""
    while position < end:
        shared, position = _varint(block, position)
        own, position = _varint(block, position)
        length, position = _varint(block, position)
        value = position + own
        if shared > len(key) or value + length > end or shared + own > _LONGEST_NAME:
            raise _Broken("an entry is outside of its block, or its name too long")
        key = key[:shared] + bytes(block[position:value])
        yield key, block[value : value + length]
        position = value + length


def _entry(value: memoryview) -> tuple[int, tuple[int, ...]]:
    """The DataType and the shape of a BundleEntryProto."""
    kind, shape = 0, list[int]()
    for field, number, message in _fields(value):
        if field == 1:
            kind = number
        elif field == 2:
            for _, _, dimension in _fields(message):
                shape.append(next((n for field, n, _ in _fields(dimension) if field == 1), 0))
    return kind, _checked(shape)


def _fields(message: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Fields of a protocol buffer: number, value of a varint, bytes of what has a length."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        number, size = 0, {1: 8, 5: 4}.get(tag & 7, 0)
        if tag & 7 == 0:
            number, position = _varint(message, position)
        elif tag & 7 == 2:
            size, position = _varint(message, position)
        elif not size:
            raise _Broken("an entry is no protocol buffer")
        if position + size > len(message):
            raise _Broken("an entry ends too early")
        yield tag >> 3, number, message[position : position + size]
        position += size


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the position after it."""
    value = 0
    for shift in range(0, 64, 7):
        if position >= len(data):
            break
        byte, position = data[position], position + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise _Broken("a number does not end")


# MXNet


class _Arrays:
    """Reads numbers, and skips what is data."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size

    def numbers(self, form: str) -> tuple[int, ...]:
        read: tuple[int, ...] = struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))
        return read

    def take(self, length: int) -> bytes:
        taken = self._file.read(min(length, _LONGEST_NAME))
        if len(taken) < length:
            raise _Broken("it ends too early, or a name is too long")
        return taken

    def skip(self, length: int) -> None:
        if self._file.tell() + length > self._size:
            raise _Broken("it ends too early")
        self._file.seek(length, 1)


def _of_mxnet(file: _Arrays) -> Iterator[Parameter]:
    _, count = file.numbers("QQ")  # reserved; how many
    if count > _MOST_ARRAYS:
        raise _Broken(f"more than {_MOST_ARRAYS} arrays")
    arrays = [_array(file) for _ in range(count)]
    (names,) = file.numbers("Q")
    if names not in (0, count):
        raise _Broken("some arrays have no name")
    for number, (kind, shape) in enumerate(arrays):
        name = file.take(*file.numbers("Q")).decode() if names else str(number)
        is_pushed = not name.startswith("aux:") and not name.endswith(_NOT_PUSHED)
        if kind in _MXNET_FLOATS and is_pushed:
            yield Parameter(name.removeprefix("arg:"), shape, _MXNET_TYPES[kind])


def _array(file: _Arrays) -> tuple[int, tuple[int, ...]]:
    """The type and the shape of the next array."""
    (magic,) = file.numbers("I")
    if magic in (0xF993FAC9, 0xF993FACA):  # versions 2, and 3 with arrays of no axis
        (form,) = file.numbers("i")
        if form:
            raise _Broken("it holds sparse arrays, which are not read")
        (axes,) = file.numbers("i")
        is_none = axes == (-1 if magic == 0xF993FACA else 0)
        shape = () if is_none else file.numbers(f"{_axes(axes)}q")
    elif magic == 0xF993FAC8:
        (axes,) = file.numbers("I")
        is_none, shape = axes == 0, file.numbers(f"{_axes(axes)}q")
    else:  # the oldest form begins with the number of axes
        is_none, shape = magic == 0, file.numbers(f"{_axes(magic)}I")
    if is_none:
        return 0, (0,)
    _, _, kind = file.numbers("iii")  # the device's type and number
    if kind not in _MXNET_TYPES:
        raise _Broken("an array of an unknown type")
    file.skip(prod(_checked(list(shape))) * _MXNET_TYPES[kind])
    return kind, shape


def _axes(number: int) -> int:
    if not 0 <= number <= _MOST_AXES:
        raise _Broken("an array of too many axes")
    return number


def _checked(shape: list[int]) -> tuple[int, ...]:
    if len(shape) > _MOST_AXES or any(length < 0 for length in shape) or prod(shape) >= 2**62:
        raise _Broken("an array of an impossible shape")
    return tuple(shape)

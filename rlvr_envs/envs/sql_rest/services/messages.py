"""Messages of protocol buffers, of whole numbers and texts, without a compiler for them.

Source:
    Protocol Buffers, "Encoding": varints, and length-delimited fields; proto3 leaves
    out what is zero or empty, and of a field that comes twice the last one counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

Field = int | str
_VARINT, _FIXED64, _TEXT, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
_BITS64 = (1 << 64) - 1


def encode(fields: Mapping[int, Field]) -> bytes:
    """Return a message.

    Args:
        fields: By number, from 1; whole numbers as ``int64`` has them, and texts.
    """
    return b"".join(
        _field(number, value) for number, value in sorted(fields.items()) if value
    )


def decode(message: bytes) -> dict[int, Field]:
    """Return the fields of a message, by number; those of other types are left out.

    Raises:
        ValueError: If it is none.
    """
    return {number: value for number, value in _fields(message) if value is not None}


def _field(number: int, value: Field) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value & _BITS64)
    data = value.encode()
    return _varint(number << 3 | _TEXT) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def _fields(message: bytes) -> Iterator[tuple[int, Field | None]]:
    place = 0
    while place < len(message):
        tag, place = _read_varint(message, place)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, place = _read_varint(message, place)
            yield number, value - (1 << 64) if value >> 63 else value
            continue
        size = _FIXED.get(kind)
        if kind == _TEXT:
            size, place = _read_varint(message, place)
        if size is None or place + size > len(message):
            raise ValueError("The message is cut, or of a kind of field unknown here.")
        data, place = message[place : place + size], place + size
        yield number, data.decode() if kind == _TEXT else None


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            break
        byte = message[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & _BITS64, place
    raise ValueError("A number of the message has no end.")

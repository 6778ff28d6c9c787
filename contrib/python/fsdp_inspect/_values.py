# SPDX-License-Identifier: Apache-2.0
"""The elements of a tensor, as an array of numpy or a memoryview.

Their bytes come through `export --to=raw`, which puts the pieces of all ranks together in
bounded memory, always little endian. Not through the JSON of `show`: its numbers are the
shortest that round to the same element, not the element.
"""

from __future__ import annotations

import array
import math
import struct
import sys
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Union

from ._command import Error, launch
from ._record import Record

if TYPE_CHECKING:
    import numpy

Values = Union["numpy.ndarray[Any, Any]", "memoryview[Any]"]


class Kind(NamedTuple):
    """How an element is stored: for the struct module, and for numpy."""

    code: str
    size: int
    numpy: str
    parts: int = 1


KINDS: Dict[str, Kind] = {
    "float64": Kind("d", 8, "<f8"),
    "float32": Kind("f", 4, "<f4"),
    "float16": Kind("e", 2, "<f2"),
    "int64": Kind("q", 8, "<i8"),
    "int32": Kind("i", 4, "<i4"),
    "int16": Kind("h", 2, "<i2"),
    "int8": Kind("b", 1, "<i1"),
    "uint64": Kind("Q", 8, "<u8"),
    "uint32": Kind("I", 4, "<u4"),
    "uint16": Kind("H", 2, "<u2"),
    "uint8": Kind("B", 1, "<u1"),
    "bool": Kind("?", 1, "?"),
    "complex64": Kind("f", 8, "<c8", 2),
    "complex128": Kind("d", 16, "<c16", 2),
}
BYTE = KINDS["uint8"]


class Float8(NamedTuple):
    """An element of one byte: sign, exponent, mantissa."""

    mantissa_bits: int
    bias: int
    infinite: bool  # the largest exponent is of infinities and NaN, as in IEEE 754
    only_nan: Optional[int]  # else NaN is this byte alone, or all ones with any sign if None
    signed: bool = True

    def decode(self, byte: int) -> float:
        bits = byte & 0x7F if self.signed else byte
        sign = -1.0 if self.signed and byte & 0x80 else 1.0
        exponent, mantissa = bits >> self.mantissa_bits, bits & ((1 << self.mantissa_bits) - 1)
        largest = ((0x7F if self.signed else 0xFF) >> self.mantissa_bits)
        if self.infinite and exponent == largest:
            return sign * math.inf if mantissa == 0 else math.nan
        if byte == self.only_nan or not self.infinite and self.only_nan is None and bits == 0x7F:
            return math.nan
        if exponent == 0 and self.mantissa_bits:
            return sign * math.ldexp(mantissa, 1 - self.bias - self.mantissa_bits)
        return sign * math.ldexp((1 << self.mantissa_bits) + mantissa, exponent - self.bias - self.mantissa_bits)


FLOATS8: Dict[str, Float8] = {
    "float8_e4m3fn": Float8(3, 7, False, None),
    "float8_e4m3fnuz": Float8(3, 8, False, 0x80),
    "float8_e5m2": Float8(2, 15, True, None),
    "float8_e5m2fnuz": Float8(2, 16, False, 0x80),
    "float8_e8m0fnu": Float8(0, 127, False, 0xFF, signed=False),
}


def read_values(words: List[str], path: str, tensor: Record, start: int, stop: Optional[int]) -> Values:
    first, last, _ = slice(start, stop).indices(tensor.numel)
    size = tensor.bytes // tensor.numel if tensor.numel else 1
    data = _bytes(words, path, tensor.name, first * size, max(first, last) * size)
    if tensor.dtype == "bfloat16":
        data, kind = _widened(data), KINDS["float32"]
    elif tensor.dtype in FLOATS8:
        data, kind = _decoded(data, FLOATS8[tensor.dtype]), KINDS["float32"]
    else:
        kind = KINDS.get(tensor.dtype, BYTE)
    return _view(data, kind)


def _bytes(words: List[str], path: str, name: str, first: int, last: int) -> bytes:
    """Bytes of a tensor; the command is ended once they are there."""
    with launch(["export", "--to=raw", "-o-", "-qq", *words], [path, name]) as process:
        assert process.stdout is not None and process.stderr is not None
        skip = first
        while skip > 0:
            skipped = len(process.stdout.read(min(skip, 1 << 20)))
            skip = skip - skipped if skipped else 0
        data = process.stdout.read(last - first)
        process.stdout.close()
        messages = process.stderr.read().decode("utf-8", "replace")
    if len(data) != last - first:
        raise Error.of_messages(messages, path)
    return data


def _widened(data: bytes) -> bytes:
    """bfloat16 is the upper half of a float32."""
    wide = bytearray(2 * len(data))
    wide[2::4], wide[3::4] = data[0::2], data[1::2]
    return bytes(wide)


def _decoded(data: bytes, kind: Float8) -> bytes:
    all_of_them = array.array("f", [kind.decode(byte) for byte in range(256)])
    values = array.array("f", [all_of_them[byte] for byte in data])
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def _view(data: bytes, kind: Kind) -> Values:
    try:
        import numpy
    except ImportError:
        return _memory(data, kind)
    values: Values = numpy.frombuffer(data, dtype=kind.numpy)
    return values


def _memory(data: bytes, kind: Kind) -> memoryview[Any]:
    """The parts of complex numbers are a second dimension."""
    code: Any = kind.code
    native = _native(data, kind.size // kind.parts)
    if code == "e":  # which memoryview cannot show
        return memoryview(array.array("f", struct.unpack(f"{len(data) // 2}e", native)))
    if kind.parts == 1 or not data:
        return memoryview(native).cast(code)
    return memoryview(native).cast(code, [len(data) // kind.size, kind.parts])


def _native(data: bytes, size: int) -> bytes:
    if sys.byteorder == "little" or size == 1:
        return data
    swapped = array.array({2: "H", 4: "I", 8: "Q"}[size], data)
    swapped.byteswap()
    return swapped.tobytes()

# SPDX-License-Identifier: Apache-2.0
"""A tensor of a checkpoint: what is known of it, and its elements as arrays.

Without numpy elements come as a memoryview of the same shape. bfloat16 and float8 come as
float32, which has all their numbers; complex32 as complex64.
"""

from __future__ import annotations

import array
import math
import operator
import os
import struct
import sys
import threading
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from ._command import Error
from ._fields import OBJECTS
from ._record import Record, Records, brief, cut

if TYPE_CHECKING:
    import numpy

    from ._checkpoint import Checkpoint

    NumpyArray = numpy.ndarray[Any, Any]

Array = Union["NumpyArray", "memoryview[Any]"]

_importing = threading.RLock()
if hasattr(os, "register_at_fork"):
    # A child would wait for ever for a module that another thread imports at that moment.
    os.register_at_fork(before=_importing.acquire, after_in_parent=_importing.release, after_in_child=_importing.release)


def _import_numpy() -> Any:
    """numpy. Raises ImportError where it is not installed."""
    with _importing:
        import numpy
    return numpy


class Piece(Record):
    """A part of a tensor that one file holds: `length` bytes from `offset` on."""

    rank: Optional[int]
    file: Optional[str]
    offset: Optional[int]
    length: Optional[int]
    offsets: List[int]
    sizes: List[int]
    _known = OBJECTS["piece"]


class Tensor(Record):
    """A tensor: name, dtype, shape, nbytes, pieces; t[0:4], t.numpy() and numpy.asarray(t) read
    elements, whichever ranks hold them."""

    name: str
    dtype: str
    numel: int
    role: Optional[str]
    module: Optional[str]
    unit: Optional[str]
    alias: Optional[str]
    _known = OBJECTS["tensor_item"]

    def __init__(self, fields: Any, checkpoint: Checkpoint) -> None:
        super().__init__(fields)
        self._checkpoint = checkpoint

    def __reduce__(self) -> Any:
        return Tensor, (self._fields, self._checkpoint)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(self.name)

    @property
    def shape(self) -> Tuple[int, ...]:
        """The global shape."""
        return tuple(self._fields.get("shape") or ())

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return int(self._fields["bytes"])

    @property
    def pieces(self) -> Records[Piece]:
        """What each file holds of it, in order of ranks."""
        return Records(self._fields.get("pieces") or [], Piece)

    def numpy(self, dtype: Any = None) -> NumpyArray:
        """All elements as an array of numpy; `dtype` casts them."""
        numpy = _import_numpy()
        values: Any = self._read(0, self._fields["numel"], self.shape)
        return values if dtype is None else values.astype(numpy.dtype(dtype), copy=False)  # type: ignore[no-any-return]

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> NumpyArray:
        return self.numpy(dtype)

    def __getitem__(self, index: Any) -> Any:
        """Elements: t[0:4], t[..., 0]; only the rows that the first index selects are read.
        Without numpy an index of the first dimension. A word is a field: t["dtype"]."""
        if isinstance(index, str):
            return super().__getitem__(index)
        first, rest = (index[0], index[1:]) if isinstance(index, tuple) and index else (index, ())
        whole = first is Ellipsis and not rest
        if not isinstance(first, slice) and not whole:
            try:
                first = None if isinstance(first, bool) else operator.index(first)
            except TypeError:  # an array, an ellipsis before others, None
                first = None
        if whole or first is None or not self.shape:
            values: Any = self._read(0, self.numel, self.shape)
            return values if whole else values[index]
        size, row = self.shape[0], math.prod(self.shape[1:])
        if isinstance(first, slice):
            span = range(size)[first]
            low, high = (min(span[0], span[-1]), max(span[0], span[-1]) + 1) if span else (0, 0)
            values = self._read(low * row, high * row, (high - low, *self.shape[1:]))
            return values if span.step == 1 and not rest else values[(slice(None, None, span.step), *rest)
                                                                     if rest else slice(None, None, span.step)]
        if not -size <= first < size:
            raise IndexError(f"index {first} is out of bounds for dimension 0 with size {size}")
        at = first % size
        values = self._read(at * row, (at + 1) * row, self.shape[1:])
        return values[rest] if rest else values if self.shape[1:] else values[()]

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __len__(self) -> int:
        """The size of the first dimension."""
        if not self.shape:
            raise TypeError("len() of a tensor without dimensions")
        return self.shape[0]

    def __bool__(self) -> bool:
        return True

    def __contains__(self, value: object) -> bool:
        return value in self._fields

    def _read(self, start: int, stop: int, shape: Sequence[int]) -> Array:
        name, dtype = self._fields["name"], self._fields["dtype"]
        data = self._checkpoint._read(name, start, stop)
        if dtype == "bfloat16":
            data, kind = _widened(data), KINDS["float32"]
        elif dtype in FLOATS8:
            data, kind = _decoded(data, FLOATS8[dtype]), KINDS["float32"]
        else:
            kind = KINDS.get(dtype, BYTE)
        if len(data) != kind.size * math.prod(shape):  # several elements in a byte, or several bytes unknown
            if kind is not BYTE:
                raise Error("other elements were stored than its shape needs", {"path": self._checkpoint.path})
            shape = [len(data)]
        try:
            numpy = _import_numpy()
        except ImportError:
            return _memory(data, kind, shape)
        values: Any = numpy.frombuffer(data, dtype=kind.numpy)
        if dtype == "complex32":
            values = values.astype("<f4").view("<c8")
        return values.reshape(shape)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return cut(f"Tensor({brief(self.name, 'name')}, {self.dtype}, {list(self.shape)}, {self.nbytes} bytes)")


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
    "complex32": Kind("e", 4, "<f2", 2),
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


def _widened(data: Union[bytes, bytearray]) -> bytearray:
    """bfloat16 is the upper half of a float32."""
    wide = bytearray(2 * len(data))
    wide[2::4], wide[3::4] = data[0::2], data[1::2]
    return wide


def _decoded(data: Union[bytes, bytearray], kind: Float8) -> bytearray:
    all_of_them = array.array("f", [kind.decode(byte) for byte in range(256)])
    values = array.array("f", [all_of_them[byte] for byte in data])
    if sys.byteorder == "big":
        values.byteswap()
    return bytearray(values.tobytes())


def _memory(data: Union[bytes, bytearray], kind: Kind, shape: Sequence[int]) -> memoryview[Any]:
    """The parts of complex numbers are one more dimension."""
    code: Any = kind.code
    native = _native(data, kind.size // kind.parts)
    if code == "e":  # which memoryview cannot show
        native, code = array.array("f", struct.unpack(f"{len(data) // 2}e", native)).tobytes(), "f"
    shape = [*shape, kind.parts] if kind.parts > 1 else list(shape)
    flat = memoryview(native)
    if not data or not shape:  # a memoryview has no dimension of size 0
        return flat.cast(code, [] if not shape else [0]) if data else flat.cast(code)
    return flat.cast(code, shape)


def _native(data: Union[bytes, bytearray], size: int) -> Union[bytes, bytearray]:
    if sys.byteorder == "little" or size == 1:
        return data
    swapped = array.array({2: "H", 4: "I", 8: "Q"}[size], data)
    swapped.byteswap()
    return swapped.tobytes()

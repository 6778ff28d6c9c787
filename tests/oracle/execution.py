#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a loader of the file would be made to do is told, whatever way it is spelled.

Every pickle is put together here, opcode by opcode; nothing is pickled and nothing is loaded. Each spelling of
a call that no ordinary writer makes ends in an error that names it, and beside it stands what writers do and
what therefore raises no alarm.
"""
import io
import os
import struct
import tarfile
import tempfile
import zipfile

from oraclelib import Tap, arguments, in_parallel, run, strict_json


# ---- opcodes

def g(module, name):
    return f"c{module}\n{name}\n".encode()


def s(text):
    data = text if isinstance(text, bytes) else text.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def i(number):
    if -2**31 <= number < 2**31:
        return b"J" + struct.pack("<i", number)
    data = number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def tup(*items):
    return b"(" + b"".join(items) + b"t"


def lst(*items):
    return b"](" + b"".join(items) + b"e"


def dct(*pairs):
    return b"}(" + b"".join(pairs) + b"u"


def call(function, *items):
    return function + tup(*items) + b"R"


def new(kind, *items):
    return kind + tup(*items) + b"\x81"


def build(value, state):
    return value + state + b"b"


NONE, TRUE, FALSE, FLOAT = b"N", b"\x88", b"\x89", b"G" + struct.pack(">d", 0.5)
GETATTR, ENCODE = g("builtins", "getattr"), g("_codecs", "encode")
ORDERED, FROM_TYPE = g("collections", "OrderedDict"), g("torch._tensor", "_rebuild_from_type_v2")
REBUILD, PARAMETER = g("torch._utils", "_rebuild_tensor_v2"), g("torch.nn.parameter", "Parameter")
SHARDED = g("torch.distributed._shard.sharded_tensor.api", "ShardedTensor")
ENUM = g("torch.distributed._shard.sharded_tensor.metadata", "MEM_FORMAT_ENCODING")
DTENSOR, TENSOR = g("torch.distributed.tensor", "DTensor"), g("torch", "Tensor")
SYSTEM, DTYPE = g("os", "system"), g("numpy", "dtype")
BIT_GENERATOR = g("numpy.random._pickle", "__bit_generator_ctor")
STORAGE = tup(s("storage"), g("torch", "FloatStorage"), s("0"), s("cpu"), i(4)) + b"Q"
HOOKS = call(ORDERED)
PARTS = (STORAGE, i(0), tup(i(2), i(2)), tup(i(2), i(1)), FALSE)
WEIGHT = call(REBUILD, *PARTS, HOOKS)
RUN = call(SYSTEM, s("id"))
BYTES = call(ENCODE, s("b"), s("latin1"))


def pid(*items):
    return tup(*items) + b"Q"


def dtype(text, flags=0):
    return build(call(DTYPE, s(text), FALSE, TRUE), tup(i(3), s("<"), NONE, NONE, NONE, i(-1), i(-1), i(flags)))


def group(kind):
    return build(new(kind), dct(s("local_rank"), i(0), s("global_rank"), i(0)))


SPACE = new(g("torch.distributed.remote_device", "_remote_device"))
# Objects with states that are alike: all keys but the first come from the memo.
ALIKE = build(SPACE, dct(s("a") + b"q\x05", i(1))) + 2 * build(SPACE, dct(b"h\x05", i(1)))
SLOTS = build(SPACE, tup(NONE, dct(s("a") + b"q\x05", i(1)))) + 2 * build(SPACE, tup(NONE, dct(b"h\x05", i(1))))


# ---- (a name, a value, the rule and the words of an error; None: no alarm)

VALUES = [
    # attributes
    ("the class inside ShardedTensor", group(call(GETATTR, SHARDED, s("ProcessGroupState"))), None),
    ("a member of an enum", call(GETATTR, ENUM, s("TORCH_CONTIGUOUS_FORMAT")), None),
    ("getattr that is only named", GETATTR, "FI3001", "builtins.getattr"),
    ("getattr from a class", call(GETATTR, SHARDED, s("__init__")), "FI3009", "builtins.getattr", "__init__"),
    ("another class inside", call(GETATTR, SHARDED, s("Other")), "FI3009", "Other"),
    ("an enum's dunder", call(GETATTR, ENUM, s("__init_subclass__")), "FI3009", "__init_subclass__"),
    ("an enum's private name", call(GETATTR, ENUM, s("_value2member_map_")), "FI3009", "_value2member_map_"),
    ("an enum's dotted name", call(GETATTR, ENUM, s("A.__class__")), "FI3009", "A.__class__"),
    ("getattr with a default", call(GETATTR, ENUM, s("A"), NONE), "FI3009", "builtins.getattr"),
    ("getattr from a member", call(GETATTR, call(GETATTR, ENUM, s("A")), s("B")), "FI3009", "builtins.getattr"),
    ("getattr beside its class", SHARDED + b"0" + call(GETATTR, ORDERED, s("x")), "FI3009", "OrderedDict"),
    ("getattr with a name from elsewhere", call(GETATTR, SHARDED, call(ENCODE, s("x"), s("latin1"))), "FI3009", "getattr"),
    ("getattr by NEWOBJ", new(GETATTR, ENUM, s("A")), "FI3009", "builtins.getattr"),
    ("getattr by INST", b"(" + ENUM + s("A") + b"ibuiltins\ngetattr\n", "FI3009", "builtins.getattr"),
    ("getattr as a factory", call(g("collections", "defaultdict"), GETATTR), "FI3001", "builtins.getattr"),
    ("getattr as a rebuild function", call(FROM_TYPE, GETATTR, TENSOR, tup(ENUM, s("A")), NONE), "FI3007", "getattr"),
    ("the class inside, called", call(call(GETATTR, SHARDED, s("ProcessGroupState")), i(1)), "FI3007", "builtins.getattr"),
    ("a member of an enum, called", call(call(GETATTR, ENUM, s("A"))), "FI3007", "result of builtins.getattr"),
    ("a dotted name", g("torch.storage", "io.open"), "FI3011", "torch.storage.io.open"),
    ("a dotted name that runs", call(g("collections", "_sys.modules")), "FI3011", "_sys.modules"),
    # calls of what is not a global
    ("a result is called", call(call(ORDERED), s("id")), "FI3007", "result of collections.OrderedDict"),
    ("a dict is called", call(b"}", s("id")), "FI3007", "a dict"),
    ("a text is called", call(s("os.system"), s("id")), "FI3007", "os.system"),
    ("a text is made an object of", new(s("os.system")), "FI3007", "os.system"),
    ("a storage is called", call(STORAGE, s("id")), "FI3007", "a storage"),
    ("a tensor is called", call(WEIGHT, s("id")), "FI3007", "a tensor"),
    ("a size is called", call(call(g("torch", "Size"), tup(i(1)))), "FI3007", "torch.Size"),
    ("what the memo holds is called", b"]q\x07h\x07(s.".replace(b"(s.", tup(s("id"))) + b"R", "FI3007", "a list"),
    ("a slot that was filled again", ORDERED + b"q\x070" + s("x") + b"q\x070h\x07)R", "FI3007", "the text 'x'"),
    ("OBJ of a text", b"(" + s("x") + b"o", "FI3007", "the text 'x'"),
    ("NEWOBJ_EX of a text", s("x") + b")}\x92", "FI3007", "the text 'x'"),
    ("a registry of the process", b"\x82\x05", "FI3006", "EXT1"),
    ("a result in a dict that is called", dct(s("k"), call(call(ORDERED))), "FI3007", "OrderedDict"),
    ("a result as a key", b"}" + call(call(ORDERED)) + i(1) + b"s", "FI3007", "OrderedDict"),
    ("a result inside of a persistent id", pid(s("storage"), g("torch", "FloatStorage"), call(s("x")), s("cpu"), i(4)),
     "FI3007", "the text 'x'"),
    ("a result as a state", build(call(ORDERED), call(s("x"))), "FI3007", "the text 'x'"),
    ("a call that is dropped", call(s("x")) + b"0" + NONE, "FI3007", "the text 'x'"),
    ("a call under a mark that is dropped", b"(" + call(s("x")) + b"1" + NONE, "FI3007", "the text 'x'"),
    # known calls with what their writers do not give them
    ("bytes below protocol 3", call(ENCODE, s("abc"), s("latin1")), None),
    *((f"the codec {name}", call(ENCODE, s("a"), s(name)), "FI3007", "_codecs.encode", name)
      for name in ("zip", "zlib", "bz2", "hex", "base64", "rot13", "idna", "punycode", "uu", "raw_unicode_escape", "mbcs")),
    ("bytearray of bytes", call(g("builtins", "bytearray"), call(ENCODE, s("abc"), s("latin1"))), None),
    ("bytearray of a number", call(g("builtins", "bytearray"), i(1 << 40)), "FI3007", "1099511627776"),
    ("bytes of a number", call(g("builtins", "bytes"), i(1 << 40)), "FI3007", "builtins.bytes"),
    ("a range", call(g("builtins", "range"), i(0), i(1 << 40), i(1)), None),
    ("a list of a range", call(g("builtins", "list"), call(g("builtins", "range"), i(1 << 40))), "FI3007", "builtins.range"),
    ("a set", call(g("builtins", "set"), lst(i(1))), None),
    ("a set of a range", call(g("builtins", "set"), call(g("builtins", "range"), i(9))), "FI3007", "builtins.range"),
    ("a complex number", call(g("builtins", "complex"), FLOAT, FLOAT), None),
    ("a slice", call(g("builtins", "slice"), NONE, i(3), NONE), None),
    ("a slice of a global", call(g("builtins", "slice"), NONE, ORDERED, NONE), "FI3007", "builtins.slice"),
    ("an ordered dict of pairs", call(ORDERED, lst(lst(s("k"), i(1)))), None),
    ("an ordered dict of a text", call(ORDERED, s("x")), "FI3007", "collections.OrderedDict"),
    ("a counter", call(g("collections", "Counter"), dct(s("k"), i(1))), None),
    ("a dict of lists", call(g("collections", "defaultdict"), g("builtins", "list")), None),
    ("a dict of tensors", call(g("collections", "defaultdict"), REBUILD), "FI3007", "collections.defaultdict"),
    ("a dict with a state", build(call(g("collections", "defaultdict"), NONE), dct(s("k"), i(1))), "FI3008", "defaultdict"),
    ("a device", call(g("torch", "device"), s("cuda"), i(1)), None),
    ("a device of a number", call(g("torch", "device"), i(1)), "FI3007", "torch.device"),
    ("a size of texts", call(g("torch", "Size"), tup(s("x"))), "FI3007", "torch.Size"),
    ("a layout", call(g("torch.serialization", "_get_layout"), s("torch.strided")), None),
    ("an enum of a dict", call(ENUM, b"}"), "FI3007", "MEM_FORMAT_ENCODING"),
    ("a path", call(g("pathlib", "PosixPath"), s("/"), s("tmp")), None),
    ("a path of a number", call(g("pathlib", "PosixPath"), s("/"), i(1)), "FI3007", "pathlib.PosixPath"),
    ("a mesh that is made anew", call(g("torch.distributed.device_mesh", "DeviceMesh"), s("cpu"), lst(i(0))), "FI3007",
     "DeviceMesh"),
    ("a storage class that is called", call(g("torch", "FloatStorage"), i(1 << 40)), "FI3007", "torch.FloatStorage"),
    ("a dtype that is called", call(g("torch", "float32")), "FI3007", "torch.float32"),
    ("an array's type", dtype("f4"), None),
    ("an array's type, of objects", dtype("O8", flags=63), None),
    ("an array's type, of objects without its flags", dtype("O8"), "FI3004", "flags"),
    ("an array's type, of numbers with the flags of objects", dtype("i8", flags=63), "FI3004", "flags"),
    ("an array's type, of strings", dtype("U2", flags=8), None),
    ("an array's type, of objects among numbers", call(DTYPE, s("i4,O8"), FALSE, TRUE), "FI3004", "numpy.dtype"),
    ("a structure with objects", build(call(DTYPE, s("V8"), FALSE, TRUE), tup(i(3), s("|"), NONE, tup(s("a")), dct(
        s("a"), tup(dtype("O8", flags=63), i(0))), i(8), i(1), i(16))), "FI3004", "Python values"),
    ("a type of objects inside another", build(call(DTYPE, s("V8"), FALSE, TRUE), tup(i(3), s("|"), tup(
        dtype("O8", flags=63), tup(i(1))), NONE, NONE, i(8), i(1), i(0))), "FI3004", "Python values"),
    ("an array's type, of objects by another name", call(DTYPE, s("object_"), FALSE, TRUE), "FI3004", "numpy.dtype"),
    ("an array's class of objects", call(g("numpy.dtypes", "ObjectDType")), "FI3002", "ObjectDType"),
    ("an array's class", call(g("numpy.dtypes", "Float64DType")), None),
    ("an array's type with keywords", DTYPE + tup(s("f4"), FALSE, TRUE) + dct(s("x"), i(1)) + b"\x92", "FI3007", "keywords"),
    ("an array", build(call(g("numpy.core.multiarray", "_reconstruct"), g("numpy", "ndarray"), tup(i(0)), BYTES),
                       tup(i(1), tup(i(1)), dtype("u1"), FALSE, BYTES)), None),
    ("an array of another class", call(g("numpy.core.multiarray", "_reconstruct"), ORDERED, tup(i(0)), BYTES),
     "FI3007", "_reconstruct"),
    ("a random generator", call(g("numpy.random._pickle", "__randomstate_ctor"), s("MT19937"), BIT_GENERATOR), None),
    ("a random generator of something", call(g("numpy.random._pickle", "__randomstate_ctor"), s("x"), ORDERED), "FI3007",
     "__randomstate_ctor"),
    ("a random generator of a function", call(g("numpy.random._pickle", "__randomstate_ctor"), s("x"), g("mine", "run")), "FI3007", "mine.run"),
    ("a random generator of a function of torch", call(g("numpy.random._pickle", "__randomstate_ctor"), s("x"), g("torch", "relu")), "FI3007",
     "torch.relu"),
    ("a list that is not a tuple of arguments", ORDERED + b"]R", "FI3007", "a list"),
    ("a tensor with an attribute", call(FROM_TYPE, REBUILD, TENSOR, tup(*PARTS, HOOKS), dct(s("tag"), i(1))), None),
    ("a tensor with another class", call(FROM_TYPE, REBUILD, TENSOR, tup(*PARTS, HOOKS), dct(s("__class__"), DTENSOR)), "FI3008",
     "__class__"),
    ("a tensor of a function's class", call(FROM_TYPE, REBUILD, ENCODE, tup(*PARTS, HOOKS), NONE), "FI3007", "_codecs.encode"),
    ("a tensor that something else makes", call(FROM_TYPE, g("builtins", "bytearray"), PARAMETER, tup(i(1 << 40)), NONE), "FI3007",
     "builtins.bytearray"),
    ("a tensor with hooks", call(REBUILD, *PARTS, call(ORDERED) + i(0) + ENCODE + b"s"), "FI3007", "hooks"),
    ("hooks of a tensor with a class", call(FROM_TYPE, REBUILD, TENSOR, tup(*PARTS, dct(i(0), ENCODE)), NONE), "FI3007", "hooks"),
    ("a tensor of too few arguments", call(REBUILD, STORAGE, i(0)), "FI3007", "_rebuild_tensor_v2"),
    ("a wrapper of no class", call(g("torch._utils", "_rebuild_wrapper_subclass"), ENCODE, g("torch", "float32"), tup(i(1)), tup(i(1)),
                                   i(0), NONE, NONE, FALSE), "FI3007", "_codecs.encode"),
    # what is built upon
    ("a state dict's versions", build(call(ORDERED), dct(s("_metadata"), call(ORDERED))), None),
    ("a state dict's class", build(call(ORDERED), dct(s("__class__"), ENCODE)), "FI3008", "__class__"),
    ("a state that is called next", build(call(ORDERED), dct(s("__setstate__"), ENCODE)), "FI3008", "__setstate__"),
    ("the same among slots", build(new(g("argparse", "Namespace")), tup(NONE, dct(s("__setstate__"), ENCODE))), "FI3008", "Namespace"),
    ("slots with a class", build(new(g("torch.distributed.remote_device", "_remote_device")), tup(NONE, dct(s("__class__"), ENCODE))),
     "FI3008", "__class__"),
    ("states that are alike", lst(ALIKE, SLOTS, ALIKE), None),
    ("one that is not like those before", lst(ALIKE, build(SPACE, dct(s("__class__"), ENCODE))), "FI3008", "__class__"),
    ("one with a key more", lst(ALIKE, build(SPACE, dct(b"h\x05", i(1), s("__class__"), ENCODE))), "FI3008", "__class__"),
    ("one with a key that the memo has anew", lst(ALIKE, s("__class__") + b"q\x05", build(SPACE, dct(b"h\x05", i(1)))), "FI3008",
     "__class__"),
    ("a key of the memo that was none before", lst(s("__class__") + b"q\x06", ALIKE, 3 * build(SPACE, dct(b"h\x06", i(1)))), "FI3008",
     "__class__"),
    ("slots behind states", lst(ALIKE, build(SPACE, tup(NONE, dct(s("__setstate__"), ENCODE)))), "FI3008", "__setstate__"),
    ("a state behind slots", lst(SLOTS, build(SPACE, dct(s("__setstate__"), ENCODE))), "FI3008", "__setstate__"),
    ("a key that is computed", build(new(g("argparse", "Namespace")), dct(call(g("builtins", "str"), s("__setstate__")), ENCODE)), "FI3008",
     "Namespace", "computed"),
    ("a tensor with attributes that are computed", call(FROM_TYPE, REBUILD, TENSOR, tup(*PARTS, HOOKS),
                                                        call(ORDERED, lst(tup(s("__class__"), DTENSOR)))), "FI3008", "OrderedDict"),
    ("slots that are computed", build(new(g("torch.distributed.remote_device", "_remote_device")), tup(NONE, call(ORDERED))), "FI3008",
     "_remote_device"),
    ("a class gets a state", build(PARAMETER, dct(s("__setstate__"), ENCODE)), "FI3008", "torch.nn.parameter.Parameter"),
    ("a function gets a state", build(REBUILD, tup(NONE, dct(s("__defaults__"), tup(ENCODE)))), "FI3008", "_rebuild_tensor_v2"),
    ("a class gets an item", PARAMETER + s("a") + i(1) + b"s", "FI3010", "torch.nn.parameter.Parameter"),
    ("a class gets a value", PARAMETER + i(1) + b"a", "FI3010", "torch.nn.parameter.Parameter"),
    ("an object gets a value", call(g("builtins", "set"), lst()) + i(1) + b"a", "FI3010", "APPEND"),
    ("an object gets an item", call(g("pathlib", "PosixPath")) + s("a") + i(1) + b"s", "FI3010", "SETITEM on the result of pathlib.PosixPath"),
    ("a number gets an item", i(1) + s("a") + i(1) + b"s", "FI3010", "SETITEM on a value of type int"),
    ("a tensor gets an item", WEIGHT + s("a") + i(1) + b"s", "FI3010", "SETITEM on a tensor, which is not a dict (CVE-2026-24747"),
    ("a tensor that cannot be gets an item", call(REBUILD, STORAGE, i(0)) + s("a") + i(1) + b"s", "FI3010", "_rebuild_tensor_v2"),
    ("a dict gets a value", call(ORDERED) + i(1) + b"a", "FI3010", "APPEND on the result of collections.OrderedDict"),
    ("a deque gets values", call(g("collections", "deque"), lst(), i(5)) + b"(" + i(1) + i(2) + b"e", None),
    ("a deque gets an item", call(g("collections", "deque")) + s("a") + i(1) + b"s", "FI3010", "collections.deque"),
    # classes that are not on the list: nobody knows what they do
    ("an object of a script", build(new(g("__main__", "Net")), dct(s("a"), i(1))), "FI3018", "__main__.Net is built", "the script that defines it"),
    ("an object of a package", build(new(g("mine.net", "Net")), dct(s("a"), i(1))), "FI3018", "loading needs mine, whose code was not checked"),
    ("an object of a package that is a dict", new(g("mine", "Settings")) + s("a") + i(1) + b"s", "FI3018", "mine.Settings"),
    ("an object of a package that is a list", new(g("mine", "Layers")) + i(1) + b"a", "FI3018", "mine.Layers"),
    ("an object of a package that is a function", build(new(g("mine", "make")), dct(s("a"), i(1))), "FI3018", "mine.make"),
    ("an object that reaches", build(new(g("mine", "Net")), dct(s("__setstate__"), ENCODE)), "FI3008", "__setstate__"),
    ("a class of a package", g("mine", "Net"), "FI3018", "mine.Net is named"),
    ("a member of an enum of a package", call(g("mine", "Mode"), s("train")), "FI3018", "mine.Mode"),
    ("a member of an enum of a package, by its name", call(GETATTR, g("mine", "Mode"), s("TRAIN")), "FI3018", "mine.Mode"),
    ("a class inside a class", new(call(GETATTR, g("mine", "Net"), s("Block"))), "FI3018", "mine.Net"),
    ("a method of an object", call(GETATTR, build(new(g("mine", "Net")), b"}"), s("forward")), "FI3018", "mine.Net"),
    ("a method that is called", call(call(GETATTR, build(new(g("mine", "Net")), b"}"), s("forward"))), "FI3007", "result of builtins.getattr"),
    ("a dunder of a class of a package", call(GETATTR, g("mine", "Net"), s("__subclasses__")), "FI3009", "__subclasses__"),
    ("an attribute of a function of a package", call(GETATTR, g("mine", "run"), s("tool")), "FI3009", "mine.run"),
    ("an ordered dict of a package", call(g("mine", "State")) + s("a") + i(1) + b"s", "FI3018", "mine.State"),
    ("a function of a package", call(g("mine", "run"), s("x")), "FI3002", "mine.run is called"),
    ("a function of a package, without arguments", call(g("mine", "run")), "FI3002", "mine.run is called"),
    ("a function that was a class before", lst(new(g("mine", "run")), call(g("mine", "run"))), "FI3002", "mine.run is called"),
    ("a function of a package by OBJ", b"(" + g("mine", "run") + s("x") + b"o", "FI3002", "mine.run"),
    ("a class with arguments that are no tuple", g("mine", "Net") + b"]R", "FI3002", "mine.Net"),
    ("a tool that a package imports", g("mine", "os"), "FI3001", "mine.os"),
    ("a class of Python's library", new(g("zipfile", "ZipFile")), "FI3002", "zipfile.ZipFile"),
    ("a class of Python's own modules", new(g("_posixshmem", "Shm")), "FI3002", "_posixshmem.Shm"),
    ("a class inside a class of a package", g("mine", "Net.Block"), "FI3018", "mine.Net.Block is named"),
    ("a function inside a class of a package", g("mine", "Net.load"), "FI3011", "mine.Net.load"),
    ("an object of Python 2's protocol", build(call(g("copy_reg", "_reconstructor"), g("mine", "Net"), g("__builtin__", "object"), NONE), b"}"),
     "FI3018", "mine.Net is built"),
    ("an object of any base", call(g("copyreg", "_reconstructor"), g("mine", "Net"), g("mine", "Base"), NONE), "FI3007", "_reconstructor"),
    ("an object of a command", call(g("copyreg", "_reconstructor"), SYSTEM, g("builtins", "object"), NONE), "FI3001", "os.system"),
    ("an object of nothing", call(g("copyreg", "_reconstructor"), s("x"), g("builtins", "object"), NONE), "FI3007", "_reconstructor"),
    ("a tensor of torch 2.15", call(g("torch._utils", "_rebuild_tensor_v3"), *PARTS, HOOKS, g("torch", "bcomplex32")), None),
    ("a jagged tensor", call(FROM_TYPE, g("torch.nested._internal.nested_tensor", "_rebuild_njt"),
                             g("torch.nested._internal.nested_tensor", "NestedTensor"),
                             tup(dct(s("values"), WEIGHT, s("offsets"), WEIGHT, s("lengths"), NONE, s("_ragged_idx"), i(1))), b"}"), None),
    ("a jagged tensor of nothing", call(g("torch.nested._internal.nested_tensor", "_rebuild_njt"), SYSTEM), "FI3001", "os.system"),
    # classes of torch and of libraries that are data
    ("a module of torch", build(new(g("torch.nn.modules.linear", "Linear")), dct(s("training"), TRUE)), None),
    ("a class of torch", g("torch.optim.adam", "Adam"), None),
    ("a function of torch", g("torch.nn.functional", "relu"), None),
    ("a function of torch that is called", call(g("torch.nn.functional", "relu"), s("x")), "FI3007", "torch.nn.functional.relu"),
    ("an initialiser of torch that is called", call(g("torch.nn.init", "zeros_")), "FI3007", "torch.nn.init.zeros_"),
    ("a function of torch that is not on the list", call(g("torch.utils.model", "run")), "FI3002", "torch.utils.model.run"),
    ("a class of torch that is not on the list", new(g("torch.futures", "Future")), "FI3018", "torch.futures.Future"),
    ("a compiler of torch", g("torch.utils.cpp_extension", "load_inline"), "FI3001", "load_inline"),
    ("code of torch.fx", call(g("torch.fx.graph_module", "reduce_graph_module"), b"}", s("x")), "FI3001", "reduce_graph_module"),
    ("a data pipe", build(new(g("torch.utils.data.datapipes.datapipe", "_IterDataPipeSerializationWrapper")), tup(BYTES, FALSE)), "FI3004",
     "_IterDataPipeSerializationWrapper"),
    ("a version of torch", new(g("torch.torch_version", "TorchVersion"), s("2.15.0")), None),
    ("a configuration of omegaconf", build(new(g("omegaconf.dictconfig", "DictConfig")), dct(s("_content"), b"}")), None),
    ("a configuration of yacs", new(g("yacs.config", "CfgNode")) + s("a") + i(1) + b"s", None),
    ("a function of omegaconf", call(g("omegaconf.omegaconf", "register")), "FI3007", "omegaconf.omegaconf.register"),
    ("another package of that name", new(g("omegaconfig", "DictConfig")), "FI3018", "omegaconfig"),
    ("a table of pandas", build(new(g("pandas", "DataFrame")), b"}"), None),
    ("a reader of pandas", call(g("pandas", "read_csv"), s("x")), "FI3007", "pandas.read_csv"),
    ("an index of something else", call(g("pandas.core.indexes.base", "_new_Index"), g("mine", "Net"), b"}"), "FI3007", "mine.Net"),
    ("a pattern", call(g("re", "_compile"), s("a+"), i(32)), None),
    ("a partial call of torch", build(call(g("functools", "partial"), g("torch.nn.modules.linear", "Linear")),
                                      tup(g("torch.nn.modules.linear", "Linear"), b")", b"}", NONE)), None),
    ("a partial call of a command", build(call(g("functools", "partial"), SYSTEM), tup(SYSTEM, tup(s("id")), b"}", NONE)), "FI3001", "os.system"),
    ("a partial call that is called", call(call(g("functools", "partial"), g("torch", "relu"))), "FI3007", "functools.partial"),
    ("a partial call that reaches", build(call(g("functools", "partial"), g("torch", "relu")),
                                          tup(g("torch", "relu"), b")", b"}", dct(s("__setstate__"), g("torch", "relu")))), "FI3008", "__setstate__"),
    ("a type of typing", call(g("_operator", "getitem"), g("typing", "List"), g("builtins", "int")), None),
    ("an item of something", call(g("_operator", "getitem"), g("mine", "Net"), s("x")), "FI3007", "_operator.getitem"),
    ("a function of typing", call(g("typing", "get_type_hints"), NONE), "FI3007", "typing.get_type_hints"),
    # names
    ("a command", RUN, "FI3001", "os.system"),
    ("a command by INST", b"(" + s("id") + b"ios\nsystem\n", "FI3001", "os.system"),
    ("a command by OBJ", b"(" + SYSTEM + s("id") + b"o", "FI3001", "os.system"),
    ("a command by Python 2's name", call(g("__builtin__", "eval"), s("1")), "FI3001", "builtins.eval", "__builtin__.eval"),
    ("an operator", g("operator", "call"), "FI3001", "operator.call"),
    ("an operator by its other name", g("_operator", "methodcaller"), "FI3001", "_operator.methodcaller"),
    ("a partial call", g("functools", "partial"), "FI3001", "functools.partial"),
    ("a loader of torch", call(g("torch", "load"), s("x")), "FI3004", "torch.load"),
    ("a loader of bytes that are no stream", call(g("torch.storage", "_load_from_bytes"), BYTES), "FI3007", "_load_from_bytes"),
    ("a loader of numpy", g("numpy", "load"), "FI3004", "numpy.load"),
    ("a loader of pickles", g("_pickle", "loads"), "FI3004", "_pickle.loads"),
    ("a hub", g("torch.hub", "load"), "FI3004", "torch.hub.load"),
    ("a script", g("torch.jit", "load"), "FI3004", "torch.jit.load"),
    # persistent ids
    ("an id that is a text", b"P0\n", "FI3012", "the text '0'"),
    ("an id that is a number", i(5) + b"Q", "FI3012", "5"),
    ("an id of another kind", pid(s("tensor"), g("torch", "FloatStorage"), s("1"), s("cpu"), i(4)), "FI3012", "another kind"),
    ("an id of another class", pid(s("storage"), g("numpy", "ndarray"), s("1"), s("cpu"), i(4)), "FI3012", "numpy.ndarray"),
    ("an id with a number as key", pid(s("storage"), g("torch", "FloatStorage"), i(1), s("cpu"), i(4)), "FI3012", "key"),
    ("an id without a location", pid(s("storage"), g("torch", "FloatStorage"), s("1"), NONE, i(4)), "FI3012", "location"),
    ("an id with one item more", pid(s("storage"), g("torch", "FloatStorage"), s("1"), s("cpu"), i(4), NONE), "FI3012", "number of items"),
    ("an id that is a module", pid(s("module"), ORDERED, s("m.py"), s("pass")), "FI3012", "number of items"),
]


def torch_zip(value, *more, root="m/", pickle="data.pkl", version=b"3\n", last=b".", first=()):
    """A torch.save file with one tensor and a value; `first` and `more` are members before and behind."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, content in first:
            z.writestr(name, content)
        z.writestr(root + pickle, b"\x80\x02}(" + s("w") + WEIGHT + s("x") + value + b"u" + last)
        z.writestr(root + "version", version)
        for name, content in more:
            z.writestr(name, content)
        z.writestr(root + "data/0", bytes(16))
    return out.getvalue()


def pickle(value, protocol=2):
    return bytes([0x80, protocol]) + value + b"."


def renamed(data, name, other):
    """The same with another name of equal length, in both headers."""
    return data.replace(name.encode(), other)


def unicode_path(name):
    """A zip whose data/1 calls itself `name` in an extra field that torch does not look at."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("m/data.pkl", pickle(b"}"))
        z.writestr("m/version", b"3\n")
        info = zipfile.ZipInfo("m/data/1")
        info.extra = struct.pack("<HHBI", 0x7075, 5 + len(name), 1, 0) + name.encode()
        z.writestr(info, pickle(RUN))
    return out.getvalue()


MAGIC = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
SYS_INFO = dct(s("protocol_version"), b"M" + struct.pack("<H", 1001), s("little_endian"), TRUE, s("type_sizes"), b"}")
LEGACY_STORAGE = pid(s("storage"), g("torch", "FloatStorage"), s("0"), s("cpu"), i(4), NONE)
LEGACY_WEIGHT = call(REBUILD, LEGACY_STORAGE, *PARTS[1:], HOOKS)
CLASS = pid(s("module"), g("mine", "Net"), s("net.py"), s("class Net: pass"))


def legacy(version=b"M" + struct.pack("<H", 1001), facts=SYS_INFO, value=NONE, keys=lst(s("0"))):
    """The stream from before torch 1.6."""
    return (MAGIC + pickle(version) + pickle(facts) + pickle(dct(s("w"), LEGACY_WEIGHT, s("x"), value)) + pickle(keys)
            + struct.pack("<q", 4) + bytes(16))


def tar(*members, cut=None):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            t.addfile(info, io.BytesIO(content))
    return out.getvalue()[:cut]


def old_tar(value=NONE, storages=pickle(i(0)) + pickle(b"]"), tensors=pickle(i(0))):
    """The tar of torch 0.1."""
    return tar(("sys_info", pickle(SYS_INFO)), ("storages", storages), ("tensors", tensors), ("pickle", pickle(value)))


DCP = "torch.distributed.checkpoint.metadata"
SIZE = call(g("torch", "Size"), tup(i(4)))


def item(value):
    return torch_zip(value)


def metadata(planner=NONE, size=SIZE, path="__0_0.distcp", length=16, chunk_state=(), thing=None):
    """A distributed checkpoint of a tensor of four floats, and of an object if there is one."""
    zero = call(g("torch", "Size"), tup(i(0)))
    chunk = build(new(g(DCP, "ChunkStorageMetadata")), dct(s("offsets"), zero, s("sizes"), SIZE, *chunk_state))
    properties = build(new(g(DCP, "TensorProperties")),
                       tup(g("torch", "float32"), call(g("torch.serialization", "_get_layout"), s("torch.strided")), FALSE,
                           call(GETATTR, g(DCP, "_MEM_FORMAT_ENCODING"), s("TORCH_CONTIGUOUS_FORMAT")), FALSE))
    entries = [s("w"), build(new(g(DCP, "TensorStorageMetadata")),
                             dct(s("properties"), properties, s("size"), size, s("chunks"), lst(chunk)))]
    info = g("torch.distributed.checkpoint.filesystem", "_StorageInfo")
    stored = [build(new(g(DCP, "MetadataIndex")), dct(s("fqn"), s("w"), s("offset"), zero, s("index"), i(0))),
              build(new(info), dct(s("relative_path"), s(path), s("offset"), i(0), s("length"), i(length)))]
    if thing is not None:
        entries += [s("o"), new(g(DCP, "BytesStorageMetadata"))]
        stored += [build(new(g(DCP, "MetadataIndex")), dct(s("fqn"), s("o"), s("offset"), NONE, s("index"), NONE)),
                   build(new(info), dct(s("relative_path"), s(path), s("offset"), i(16), s("length"), i(len(thing))))]
    return pickle(build(new(g(DCP, "Metadata")),
                        dct(s("state_dict_metadata"), dct(*entries), s("planner_data"), planner, s("storage_data"), dct(*stored))), 3)


def dcp(thing=None, **what):
    return {"save/.metadata": metadata(thing=thing, **what), "save/__0_0.distcp": bytes(16) + (thing or b"")}


def damaged(size):
    """Of deflated data, the stream broken."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("m/data.pkl", pickle(RUN))
        z.writestr("m/version", b"3" * size)
    data = bytearray(out.getvalue())
    at = data.find(b"m/version") + len("m/version")
    data[at:at + 2] = b"\xff\xff"
    return bytes(data)


MANY = [(f"m/other{k:02}.pkl", pickle(i(k))) for k in range(66)]

# (a name, {path: bytes} or the bytes of a file, the rule and the words of an error; None: no alarm)
FILES = [
    # which pickles of a zip are looked at
    ("a pickle beside data.pkl", torch_zip(NONE, ("m/extra.pkl", pickle(RUN))), "FI3001", "os.system"),
    ("a pickle in another folder", torch_zip(NONE, ("other/data.pkl", pickle(RUN))), "FI3001", "os.system"),
    ("a pickle among the storages", torch_zip(NONE, ("m/data/data.pkl", pickle(RUN))), "FI3001", "os.system"),
    ("a pickle by another name", torch_zip(NONE, ("m/extra", pickle(RUN))), "FI3001", "os.system"),
    ("a pickle by another name outside", torch_zip(NONE, ("extra.bin", pickle(RUN))), "FI3001", "os.system"),
    ("data that is not a pickle beside it", torch_zip(NONE, ("m/extra", b"\x80\x09os\nsystem\n"), ("m/note.txt", b"cos\nsystem\n.")), None),
    ("data.pkl in capitals", torch_zip(RUN, pickle="DATA.PKL"), "FI3001", "os.system"),
    ("data.pkl twice, once in capitals", torch_zip(NONE, ("m/DATA.PKL", pickle(RUN))), "FI3001", "os.system"),
    ("data.pkl twice, in capitals first", torch_zip(NONE, first=[("m/Data.pkl", pickle(RUN))]), "FI3001", "os.system"),
    ("a NUL behind a pickle's name", renamed(torch_zip(NONE, ("m/data.pklXtxt", pickle(RUN))), "m/data.pklXtxt", b"m/data.pkl\0txt"), "FI3001",
     "os.system"),
    ("another name in an extra field", unicode_path("m/data.pkl"), "FI3040", "m/data.pkl"),
    ("the same name in an extra field", unicode_path("m/data/1"), None),
    ("a zip without a root folder", torch_zip(RUN, root=""), "FI3001", "os.system"),
    ("a zip with a root that is none", torch_zip(RUN, first=[("x", b"")]), "FI3001", "os.system"),
    ("sixty-four others", torch_zip(NONE, *MANY[:64]), None),
    ("the sixty-fifth other", torch_zip(NONE, *MANY[:64], ("m/z.pkl", pickle(RUN))), "FI9006", "m/z.pkl"),
    ("an archive of code", torch_zip(NONE, ("m/constants.pkl", pickle(RUN))), "FI3001", "os.system"),
    ("a pickle behind the pickle", torch_zip(NONE, last=b"." + RUN + b"."), "FI3015", "name globals"),
    ("zeros behind the pickle", torch_zip(NONE, last=b"." + bytes(64)), None),
    # what cannot be opened
    ("a pickle that stops", pickle(RUN)[:-1], "FI3001", "os.system"),
    ("a pickle that is cut", pickle(RUN + b"X\xff\0\0\0abc")[:-1], "FI3001", "os.system"),
    ("a zip with a record that is broken", damaged(40), "FI3001", "os.system"),
    ("a zip whose pickle stops", torch_zip(RUN, last=b""), "FI3001", "os.system"),
    ("a zip whose pickle stops, and another", torch_zip(NONE, ("m/other.pkl", pickle(RUN)), last=b""), "FI3001", "os.system"),
    ("a tar whose storages are broken", old_tar(RUN, storages=pickle(s("no count"))), "FI3001", "os.system"),
    ("a tar whose storages run", old_tar(storages=pickle(RUN)), "FI3001", "os.system"),
    ("a tar that is cut", tar(("sys_info", pickle(SYS_INFO)), ("pickle", pickle(RUN)), ("storages", bytes(9000)), cut=4000), "FI3001",
     "os.system"),
    ("a folder in a tar that is cut", tar(("save/.metadata", pickle(RUN)), ("save/__0_0.distcp", bytes(9000)), cut=4000), "FI3001", "os.system"),
    ("a folder whose index is broken", {"save/pytorch_model.bin.index.json": b'{"weight_map": ', "save/pytorch_model-00001-of-00001.bin":
                                        torch_zip(RUN)}, "FI3001", "os.system"),
    ("metadata that is none", {"save/.metadata": pickle(RUN)}, "FI3001", "os.system"),
    # the legacy stream and the tar
    ("a stream", legacy(), None),
    ("a stream's first pickle", MAGIC[:-1] + RUN + b"." + legacy()[len(MAGIC):], "FI3001", "os.system"),
    ("a stream's version", legacy(version=RUN), "FI3001", "os.system"),
    ("a stream's facts", legacy(facts=RUN), "FI3001", "os.system"),
    ("a stream's object", legacy(value=RUN), "FI3001", "os.system"),
    ("a stream's keys", legacy(keys=RUN), "FI3001", "os.system"),
    ("a stream's facts, cut", MAGIC + pickle(i(1001)) + pickle(RUN)[:-1], "FI3001", "os.system"),
    ("a stream's facts with an id", legacy(facts=LEGACY_STORAGE), "FI3012", "in place of storages"),
    ("a stream with an id of a zip", legacy(value=STORAGE), "FI3012", "number of items"),
    ("a stream with a class of its own", legacy(value=build(new(CLASS), b"}")), "FI3018", "mine.Net is built"),
    ("a tar", old_tar(), "FI3061"),
    ("a tar's object", old_tar(RUN), "FI3001", "os.system"),
    ("a tar's tensors", old_tar(tensors=pickle(RUN)), "FI3001", "os.system"),
    ("a tar with an id of nothing", old_tar(s("7") + b"Q"), "FI3012", "7"),
    # distributed checkpoints
    ("metadata", dcp(), None),
    ("metadata in an archive", tar(*dcp().items()), None),
    ("metadata that runs", dcp(planner=RUN), "FI3001", "os.system"),
    ("metadata in an archive that runs", tar(*dcp(planner=RUN).items()), "FI3001", "os.system"),
    ("metadata with an id", dcp(planner=STORAGE), "FI3012", "in place of storages"),
    ("metadata that computes", dcp(planner=call(GETATTR, g(DCP, "ChunkStorageMetadata"), s("__init__"))), "FI3009", "__init__"),
    ("metadata that calls a result", dcp(planner=call(call(ORDERED), s("x"))), "FI3007", "collections.OrderedDict"),
    ("metadata with a size that is called", dcp(planner=call(SIZE)), "FI3007", "an object"),
    ("metadata with a state that reaches", dcp(chunk_state=(s("__setstate__"), ENCODE)), "FI3008", "__setstate__"),
    ("metadata with a zero byte in a path", dcp(path="a\0b"), "FI3064", "a\\x00b"),
    ("metadata that was not committed, and runs", {"save/.metadata.tmp": metadata(planner=RUN), "save/__0_0.distcp": bytes(16)}, "FI3001",
     "os.system"),
    ("an object", dcp(thing=item(i(1))), None),
    ("an object that runs", dcp(thing=item(RUN)), "FI3001", "os.system"),
    ("an object that computes", dcp(thing=item(call(GETATTR, ORDERED, s("x")))), "FI3009", "OrderedDict"),
]


def files():
    """(name, {path: bytes}, the rule and the words of an error or None)"""
    for name, value, *told in VALUES:
        yield name, {"model.pt": torch_zip(value)}, *told
    for name, content, *told in FILES:
        yield name, content if isinstance(content, dict) else {"model.tar" if name.find("tar") >= 0 else "model.pt": content}, *told


# ---- running

LESSER = ("FI3018", "FI3061", "FI9006")  # of which a warning will do


def write(folder, tree):
    for path, content in tree.items():
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(content)


def judge(args, job):
    name, tree, told, *words = job
    with tempfile.TemporaryDirectory() as folder:
        write(folder, tree)
        top = next(iter(tree)).split("/")[0]
        r = run(args, "info", "--json", os.path.join(folder, top), cwd=folder)
    if r.crash:
        return name, [r.crash]
    try:
        doc = strict_json(r.out)
    except ValueError as e:
        return name, [f"{e}: {r.out[:80]!r} {r.tail}"]
    alarms = [(f["rule"], f["severity"], f["message"]) for f in doc["findings"] if f["severity"] != "note"]
    if told is None:
        return name, [str(a) for a in alarms] + [str(e) for e in doc["errors"]]
    text = " ".join(f["message"] for f in doc["findings"] if f["rule"] == told and (f["severity"] == "error" or told in LESSER))
    if not text:
        return name, [f"no error {told}", *map(str, alarms), *map(str, doc["errors"])]
    return name, [f"{word!r} is not named: {text}" for word in words if word not in text]


def main():
    args = arguments(__doc__)
    tap = Tap()
    jobs = [job for job in files() if args.only is None or args.only in job[0]]
    for name, problems in in_parallel(lambda job: judge(args, job), jobs):
        tap.none(name, problems)
    tap.done()


main()

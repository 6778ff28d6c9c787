# SPDX-License-Identifier: Apache-2.0
"""Pickles of classes and calls, and torch files of which records are missing or wrong."""

from .files import (binary_unicode, boolean, built, call, dict_of, integer, integers, list_of, name_of, pickled,
                    plain_zip, sample, storage, tensor, text, tuple_of, unicode)


@sample
def pickles_of_an_object_a_call_and_os_system(folder):
    folder.write("x.pkl", built("mine.net.Net", b"}"), b".")
    for name, path in {"y": "mine.net.make", "z": "os.system"}.items():
        folder.write(name + ".pkl", call(path, b"U\1x"), b".")


@sample
def a_pointer_a_text_and_a_pickle_of_protocol_5(folder):
    folder.write("pointer.pt", "version https://git-lfs.github.com/spec/v1\n")
    folder.write("text.pt", "some text\n")
    folder.write("new.pt", pickled(b"}", 5))


ONE = text("a")
SEVEN, TRUE, HALF_OF_3, NONE, BIG = integer(7), boolean(True), b"F1.5\n", b"N", b"L99999999999999999999L\n"
LIST, TUPLE, DICT = b"(I1\nI2\nl", integers(1, 2), b"}"
ORDERED = name_of("collections.OrderedDict") + b")R"
OF_EACH_TYPE = ONE, SEVEN, TRUE, HALF_OF_3, NONE, LIST, TUPLE, DICT, BIG, ORDERED


@sample
def a_pickle_of_calls_with_many_arguments(folder):
    each = [(argument,) for argument in OF_EACH_TYPE]
    latin, other = text("latin1"), text("zip")
    dtype, device = name_of("torch.float32"), name_of("torch.device")
    calls = (
        ("builtins.set", [(), *each, (LIST, LIST)]),
        ("builtins.complex", [(HALF_OF_3, HALF_OF_3), (SEVEN, HALF_OF_3), (ONE, HALF_OF_3), (HALF_OF_3, ONE),
                             (HALF_OF_3,), (HALF_OF_3,) * 3]),
        ("builtins.bytearray", [*each, (ONE, latin), (ONE, other), (SEVEN, latin)]),
        ("collections.OrderedDict", [(LIST,)]),
        ("collections.Counter", [*each, (), (DICT, DICT)]),
        ("collections.OrderedDict", each),
        ("torch.Size", [(tuple_of(integer(1), ONE),), (HALF_OF_3,), *each]),
        ("torch.device", [*each, (ONE, SEVEN), (ONE, BIG), (ONE, ONE), (ONE, SEVEN, SEVEN), ()]),
        ("torch.serialization._get_layout", each),
        ("_codecs.encode", [(ONE, latin), (ONE, other), (SEVEN, latin), (ONE,)]),
        ("torch._utils._rebuild_device_tensor_from_numpy", [
            (LIST, dtype, ONE, TRUE), (LIST, dtype, ONE, SEVEN), (LIST, dtype, ONE, HALF_OF_3),
            (LIST, device, ONE, TRUE), (LIST, ONE, ONE, TRUE), (LIST, name_of("math.pi"), ONE, TRUE)]),
    )
    items = (call(path, *arguments) + b"a" for path, several in calls for arguments in several)
    folder.write("x.pkl", pickled(b"]" + b"".join(items)))


def dict_of_names(*paths):
    """Of one-letter names -> classes."""
    return b"}" + b"".join(binary_unicode(chr(ord("a") + i)) + name_of(path) + b"s" for i, path in enumerate(paths))


@sample
def pickles_of_classes(folder):
    for path in ("argparse.Namespace", "pathlib.PosixPath", "numpy.ndarray", "__builtin__.xrange",
                 "collections.defaultdict", "torch.nn.modules.linear.Linear;import os"):
        folder.write(path.rsplit(".")[-1].split(";")[0] + "/x.pkl", pickled(dict_of_names(path)))
    folder.write("x.pkl", pickled(dict_of_names("argparse.Namespace", "pathlib.PosixPath")))


@sample
def adam_optimizers_without_states(folder):
    for name, betas, step, number in (("a", "betas", "step", 7), ("b", "betas", "step", 0), ("c", "betas", "seed", 7),
                                      ("d", "momentum", "step", 7)):
        group = dict_of({"lr": b"F0.1\n", betas: tuple_of(b"F0.9\n", b"F0.999\n"),
                         "params": list_of(integer(0), integer(1))}, unicode)
        optimizer = dict_of({"state": dict_of({}), "param_groups": list_of(group)}, unicode)
        folder.write(name + ".pt", dict_of({"optimizer": optimizer, step: integer(number)}, unicode), b".")


@sample
def torch_zips_of_many_lists_of_records(folder):
    """Each in a folder with its list, in which NAME=WORD is a record of this word or length."""
    pickle = pickled(b"}" + text("w") + tensor(storage("0", 4), [4]) + b"s")
    words = {"shorter": b"0" * 15, "little": b"little", "big": b"big", "middle": b"middle", "64": b"64"}
    lists = (
        "x/data.pkl x/data/0 x/version",
        "x/data.pkl x/data/0",
        "x/data.pkl x/version",
        "x/data.pkl x/data/0=shorter x/version",
        "x/data.pkl x/data/0 x/data/1 x/version",
        "x/data.pkl x/data/0 x/.data/version",
        "x/data.pkl x/data/0 x/version x/byteorder=little",
        "x/data.pkl x/data/0 x/version x/byteorder=big",
        "x/data.pkl x/data/0 x/version x/byteorder=middle",
        "x/data.pkl x/data/0 x/version x/other",
        "x/data.pkl x/data/0 x/version y/other",
        "x/data.pkl x/data/0 x/version y/other other",
        "x/DATA.PKL x/data/0 x/version",
        "x/DATA.PKL x/data.pkl x/data/0 x/version",
        "x/data.pkl x/DATA.PKL x/data/0 x/version",
        "x/data.pkl x/data/0 x/VERSION",
        "x/data.pkl x/data/0 x/version x/constants.pkl",
        "data.pkl data/0 version",
        "x/version",
        "x/data.pkl x/data/0 x/version x/.format_version x/.storage_alignment=64 x/.data/serialization_id",
        "x/data.pkl x/data/0 x/data/0 x/version",
    )
    for number, line in enumerate(lists):
        records = []
        for word in line.split():
            name, _, content = word.partition("=")
            records.append((name, words[content] if content else pickle if name.lower().endswith(".pkl") else
                            b"0" * 16 if "/data/" in name else b"3\n"))
        folder.write(f"zips/{number:02}/records", "== ", line, "\n")
        folder.write(f"zips/{number:02}/x.pt", plain_zip(records))

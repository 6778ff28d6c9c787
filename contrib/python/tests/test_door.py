# SPDX-License-Identifier: Apache-2.0
"""The door to the command: what it answers, from Python.

    PATH=build/cli:$PATH PYTHONPATH=contrib/python python contrib/python/tests/test_door.py testdata
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

import fsdp_inspect
from fsdp_inspect import _command, _record, _values

TESTDATA = os.environ.get("TESTDATA", os.path.join(os.path.dirname(__file__), "..", "..", "..", "testdata"))
DEMO = os.path.join(TESTDATA, "demo", "step-1234")
DTYPES = os.path.join(TESTDATA, "torch-zip", "all-dtypes")
CUT = os.path.join(TESTDATA, "broken", "dcp-lfs-pointer", "checkpoint")


def truth(folder):
    with open(os.path.join(folder, "expected", "truth.json"), encoding="utf-8") as stream:
        return json.load(stream)


class OpenTest(unittest.TestCase):
    def setUp(self):
        self.ck = fsdp_inspect.open(DEMO)

    def test_it_tells_what_it_is(self):
        ck = self.ck
        self.assertEqual((ck.kind, ck.fsdp, ck.step, ck.world_size, len(ck)),
                         ("PyTorch distributed checkpoint (DCP)", "fsdp2", 1234, 2, 57))
        self.assertIn("57 tensors", repr(ck))
        self.assertEqual(str(ck.info), ck.info.text.rstrip("\n"))
        self.assertEqual(ck.info.counts.parameters, 238)
        self.assertEqual({value.name: value.value for value in ck.values}["notes.pi"], 3.25)

    def test_tensors_are_a_list_of_records(self):
        tensors = self.ck.tensors
        self.assertEqual(len(tensors), 57)
        first = tensors[0]
        self.assertEqual((first.name, first.dtype, first.shape, first.bytes, first["pieces"]),
                         ("model.blocks.0.down.bias", "float32", [4], 16, 2))
        self.assertEqual([row.name for row in tensors[:2]], [first.name, "model.blocks.0.down.weight"])
        self.assertIn("model.embed.weight", self.ck)
        self.assertNotIn("embed", self.ck)
        self.assertIsNone(first.alias)
        with self.assertRaises(KeyError):
            first["alias"]
        self.assertEqual(tensors.to_dicts()[0], first.to_dict())

    def test_pandas_takes_them(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("no pandas")
        frame = self.ck.tensors.to_pandas()
        self.assertIsInstance(frame, pandas.DataFrame)
        self.assertEqual((len(frame), frame["bytes"].sum()), (57, sum(row.bytes for row in self.ck.tensors)))

    def test_modules_and_units(self):
        self.assertEqual([unit.unit for unit in self.ck.units], ["", "blocks.0"])
        self.assertEqual(self.ck.modules[3].class_, "Block")
        self.assertIn("0[Block] FULLY SHARDED", str(self.ck.tree()))
        self.assertNotIn("[Linear]", str(self.ck.tree(depth=2, full=True)).replace("head[Linear]", ""))

    def test_a_name(self):
        tensor = self.ck["model.embed.weight"]
        self.assertEqual([piece.rank for piece in tensor.pieces], [0, 1])
        self.assertEqual(self.ck["step"].value, 1234)
        with self.assertRaisesRegex(KeyError, "did you mean model.embed.weight") as raised:
            self.ck["model.embed.weigh"]
        self.assertIsInstance(raised.exception, fsdp_inspect.UnknownName)
        self.assertEqual(raised.exception.hint, "did you mean model.embed.weight")
        self.assertEqual(str(raised.exception).count("model.embed.weigh "), 1)

    def test_names_and_paths_are_no_options(self):
        with self.assertRaisesRegex(KeyError, "no tensor, value or module --help"):
            self.ck["--help"]
        with self.assertRaisesRegex(fsdp_inspect.Error, "no such file"):
            fsdp_inspect.open("--version")


class ValuesTest(unittest.TestCase):
    def assertSame(self, read, due):
        self.assertEqual(len(read), len(due))
        for a, b in zip(read, due):
            self.assertTrue(a == b or math.isnan(a) and math.isnan(b), (a, b))

    def test_pieces_of_all_ranks(self):
        tensor = fsdp_inspect.open(DEMO)["model.embed.weight"]
        all_of_it = list(tensor.values())
        self.assertEqual(len(all_of_it), 52)
        self.assertAlmostEqual(all_of_it[0], -0.3904294, 6)
        # Across the border of two ranks, from the end, nothing, and more than there is.
        self.assertSame(tensor.values(26, 30), all_of_it[26:30])
        self.assertSame(tensor.values(-2), all_of_it[-2:])
        self.assertSame(tensor.values(5, 5), [])
        self.assertSame(tensor.values(50, 1000), all_of_it[50:])

    def test_each_dtype_as_torch_reads_it(self):
        ck = fsdp_inspect.open(os.path.join(DTYPES, "model.pt"))
        for tensor in ck.tensors:
            values = tensor.values()
            if tensor.dtype not in _values.KINDS and not tensor.dtype.startswith(("bfloat16", "float8")):
                self.assertEqual(len(values), tensor.bytes, tensor.dtype)
                continue
            self.assertEqual(len(values), tensor.numel, tensor.dtype)
            shown = ck.run("show", tensor.name, values="0:15").items[0].elements
            for value, text in zip(_flat(values), shown):
                due = complex(text) if isinstance(text, str) and "j" in text else float(text)
                if math.isnan(abs(due)):
                    self.assertTrue(math.isnan(abs(value)))
                elif math.isfinite(abs(due)):
                    self.assertLessEqual(abs(value - due), abs(due) / 8, tensor.dtype)
                else:
                    self.assertEqual(value, due)

    def test_float8(self):
        for name, byte, value in [
                ("float8_e4m3fn", 0x7E, 448.0), ("float8_e4m3fn", 0x01, 2.0 ** -9), ("float8_e4m3fn", 0xFF, math.nan),
                ("float8_e4m3fnuz", 0x7F, 240.0), ("float8_e4m3fnuz", 0x80, math.nan),
                ("float8_e4m3fnuz", 0x01, 2.0 ** -10),
                ("float8_e5m2", 0x7B, 57344.0), ("float8_e5m2", 0xFC, -math.inf), ("float8_e5m2", 0x7D, math.nan),
                ("float8_e5m2", 0x01, 2.0 ** -16), ("float8_e5m2fnuz", 0x7F, 57344.0),
                ("float8_e8m0fnu", 0x7F, 1.0), ("float8_e8m0fnu", 0x00, 2.0 ** -127), ("float8_e8m0fnu", 0xFF, math.nan)]:
            self.assertSame([_values.FLOATS8[name].decode(byte)], [value])

    def test_without_numpy(self):
        self.assertEqual(_values._memory(b"\x00\x3c\x00\xc0", _values.KINDS["float16"]).tolist(), [1.0, -2.0])
        self.assertEqual(_values._memory(b"\x00\x00\x80\x3f\x00\x00\x00\x40", _values.KINDS["complex64"]).tolist(),
                         [[1.0, 2.0]])
        self.assertEqual(_values._memory(b"", _values.KINDS["complex64"]).tolist(), [])

    def test_what_is_not_there_is_an_error(self):
        ck = fsdp_inspect.open(CUT)
        with self.assertRaises(fsdp_inspect.Error) as raised:
            ck["model.a.weight"].values()
        self.assertEqual((raised.exception.rule, raised.exception.hint), ("FI4001", "download this file again"))
        self.assertTrue(raised.exception.message.startswith("__1_0.distcp: this is a Git LFS pointer"))


def _flat(values):
    """Complex numbers from the pairs that a memoryview has."""
    return [complex(*value) for value in values.tolist()] if getattr(values, "ndim", 1) == 2 else list(values)


class JudgeTest(unittest.TestCase):
    def test_verdicts(self):
        good, bad = fsdp_inspect.open(DEMO).audit(), fsdp_inspect.open(CUT).audit()
        self.assertEqual((good.verdict, bool(good), good.status), ("good", True, 0))
        self.assertEqual((bad.verdict, bool(bad), bad.status), ("bad", False, 1))
        finding = bad.findings[0]
        self.assertEqual((finding.rule, finding.slug, finding.file), ("FI4001", "not-a-checkpoint", "__1_0.distcp"))
        self.assertIn("Git LFS pointer", repr(finding))
        self.assertIn("bad. 1 error", " ".join(bad.text.split()))
        self.assertIn("good. 1 note", " ".join(good.text.split()))

    def test_options_are_keywords(self):
        quiet = fsdp_inspect.open(DEMO).audit(rule=["FI4007=off"], data=True)
        self.assertNotIn("FI4007", [finding.rule for finding in quiet.findings])
        with self.assertRaises(fsdp_inspect.Error) as raised:
            fsdp_inspect.open(DEMO).audit(nonsense=True)
        self.assertEqual((raised.exception.code, raised.exception.status), ("usage", 2))

    def test_errors_have_a_place(self):
        with self.assertRaises(fsdp_inspect.Error) as raised:
            fsdp_inspect.open("nosuch")
        error = raised.exception
        self.assertEqual((error.code, error.path, error.rule), ("system", "nosuch", "FI9003"))

    def test_an_empty_run_is_an_answer(self):
        with tempfile.TemporaryDirectory() as run:
            answer = fsdp_inspect.run("latest", run)
            self.assertEqual((answer.status, bool(answer), answer.data["newest"]), (4, False, None))
            with open(os.path.join(run, "model.pt"), "wb"):
                pass
            self.assertEqual(fsdp_inspect.run("latest", run).status, 1)

    def test_any_command(self):
        answer = fsdp_inspect.run("ls", DEMO, by="rank")
        self.assertEqual(answer.status, 0)
        self.assertIn("groups", answer.data)
        with self.assertRaisesRegex(AttributeError, "has no field 'nosuch'"):
            answer.nosuch


class RecordingTest(unittest.TestCase):
    def test_replay(self):
        traces = os.path.join(TESTDATA, "traces", "gpu_generated", "new_args_rank*.pt.trace.json.gz")
        answer = fsdp_inspect.replay(traces)
        self.assertEqual(len(answer.document["inputs"]), 4)
        self.assertIn("rank", answer.text)
        self.assertEqual(fsdp_inspect.replay([traces.replace("*", "0")]).status, answer.status)

    def test_diff(self):
        names = [command.name for command in fsdp_inspect.run("commands").commands]
        if "diff" not in names:
            self.skipTest("this command has no diff")
        same = fsdp_inspect.diff(DEMO, DEMO)
        self.assertTrue(same)
        self.assertIn("57 tensors are the same", str(same))
        self.assertFalse(fsdp_inspect.diff(DEMO, os.path.join(DTYPES, "model.pt")))


class LooksTest(unittest.TestCase):
    def test_html_is_escaped(self):
        rows = _record.Records([{"name": "<script>alert(1)</script>\x1b[31m"}], _record.Record)
        self.assertIn("&lt;script&gt;", rows._repr_html_())
        self.assertNotIn("\x1b", rows._repr_html_() + repr(rows))
        self.assertEqual(_record.preformatted("<b>"), "<pre>&lt;b&gt;</pre>")

    def test_long_lists_are_cut(self):
        tensors = fsdp_inspect.open(DEMO).tensors
        self.assertIn("and 37 more", repr(tensors))
        self.assertEqual(tensors._repr_html_().count("<tr>"), 21)

    def test_only_a_shape_is_a_scalar(self):
        self.assertEqual(repr(fsdp_inspect.Record({"shape": [], "aliases": []})), "Record(shape=scalar, aliases=[])")
        self.assertEqual(repr(fsdp_inspect.Record({"shape": [2, 3]})), "Record(shape=2x3)")

    def test_what_a_notebook_shows(self):
        ck = fsdp_inspect.open(DEMO)
        for shown in (ck, ck.tree(), ck.tensors, ck.audit(), ck["step"]):
            self.assertIn("<", shown._repr_html_())


class InstallTest(unittest.TestCase):
    def test_import_needs_nothing(self):
        code = ("import sys, fsdp_inspect as f; "
                "assert not {'torch', 'numpy', 'pandas'} & set(sys.modules); "
                "assert callable(f.export_plan) and 'torch' not in sys.modules; "
                "assert all(hasattr(f, name) for name in f.__all__)")
        subprocess.run([sys.executable, "-c", code], check=True,
                       env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})

    def test_the_command_itself(self):
        done = subprocess.run([sys.executable, "-m", "fsdp_inspect", "version"], stdout=subprocess.PIPE, check=True,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertIn(f"fsdp-inspect {fsdp_inspect.__version__}", done.stdout.decode())

    def test_settings_of_a_shell_change_nothing(self):
        os.environ["FSDP_INSPECT_COLOR"] = "always"
        self.addCleanup(os.environ.pop, "FSDP_INSPECT_COLOR")
        self.assertNotIn("FSDP_INSPECT_COLOR", _command._environment())


if __name__ == "__main__":
    unittest.main()

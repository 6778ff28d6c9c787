# SPDX-License-Identifier: Apache-2.0
"""The door to the command: what it answers, from Python.

    PATH=build/cli:$PATH PYTHONPATH=contrib/python python contrib/python/tests/test_package.py testdata
"""

import ast
import concurrent.futures
import errno
import glob
import html
import json
import math
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import unittest
import weakref
from collections.abc import Mapping
from unittest import mock

import fsdp_inspect
from fsdp_inspect import _command, _record, _server, _tensor

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
        self.addCleanup(self.ck.close)

    def test_facts(self):
        ck = self.ck
        self.assertEqual((ck.format, ck.kind, ck.fsdp, ck.step, ck.world_size, len(ck)),
                         ("dcp", "PyTorch distributed checkpoint (DCP)", "fsdp2", 1234, 2, 57))
        self.assertIn("57 tensors", repr(ck))
        self.assertEqual(str(ck.info), ck.info.text.rstrip("\n"))
        self.assertEqual(ck.info.counts.parameters, 238)
        self.assertEqual(ck.values["notes.pi"], 3.25)
        self.assertEqual((len(ck.values), ck.values["optim.param_groups.0.betas"]), (20, [0.9, 0.999]))

    def test_it_is_a_mapping(self):
        ck = self.ck
        self.assertIsInstance(ck, Mapping)
        self.assertEqual(list(ck)[:2], ["model.blocks.0.down.bias", "model.blocks.0.down.weight"])
        self.assertIn("model.embed.weight", ck)
        self.assertNotIn("embed", ck)
        self.assertEqual([tensor.name for tensor in ck.values()], list(ck.keys()))
        self.assertEqual(dict(ck.items())[list(ck)[0]].name, list(ck)[0])
        self.assertIsNone(ck.get("nosuch"))
        self.assertEqual(ck._ipython_key_completions_(), list(ck))

    def test_one_process_for_all_names(self):
        with mock.patch.object(_command, "launch", side_effect=_command.launch) as launched:
            ck = fsdp_inspect.open(DEMO)
            self.assertEqual((ck.step, ck.format, len(ck.values), launched.call_count), (1234, "dcp", 20, 1))
        with mock.patch.object(_command, "launch", side_effect=AssertionError("a process")):
            for name in self.ck:
                tensor = self.ck[name]
                self.assertIn(tensor.name, self.ck)
                self.assertTrue(tensor.pieces[0].file)

    def test_tensors_are_a_list_of_records(self):
        tensors = self.ck.tensors
        self.assertEqual(len(tensors), 57)
        first = tensors[0]
        self.assertEqual((first.name, first.dtype, first.shape, first.nbytes, len(first.pieces)),
                         ("model.blocks.0.down.bias", "float32", (4,), 16, 2))
        self.assertEqual([row.name for row in tensors[:2]], [first.name, "model.blocks.0.down.weight"])
        self.assertIsNone(first.alias)
        with self.assertRaises(KeyError):
            first["alias"]
        for name in ("shap", "mean", "max", "verdict"):  # some are fields of other answers, and methods of arrays
            with self.assertRaisesRegex(AttributeError, f"has no field '{name}'"):
                getattr(first, name)
        self.assertIsNone(self.ck.audit().partial)
        with self.assertRaises(AttributeError):
            self.ck.audit().step
        self.assertEqual(tensors.to_dicts()[0], first.to_dict())

    def test_pandas_takes_them(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("no pandas")
        frame = self.ck.tensors.to_pandas()
        self.assertIsInstance(frame, pandas.DataFrame)
        self.assertEqual((len(frame), frame["bytes"].sum()), (57, sum(row.nbytes for row in self.ck.tensors)))

    def test_modules_and_units(self):
        self.assertEqual([unit.unit for unit in self.ck.units], ["", "blocks.0"])
        self.assertEqual(self.ck.modules[3].class_, "Block")
        self.assertIn("0[Block] FULLY SHARDED", str(self.ck.tree()))
        self.assertNotIn("[Linear]", str(self.ck.tree(depth=2, full=True)).replace("head[Linear]", ""))

    def test_a_name(self):
        tensor = self.ck["model.embed.weight"]
        self.assertEqual([piece.rank for piece in tensor.pieces], [0, 1])
        with self.assertRaisesRegex(KeyError, "ck.values"):
            self.ck["step"]
        with self.assertRaisesRegex(KeyError, r"\(did you mean model.embed.weight\?\)") as raised:
            self.ck["model.embed.weigh"]
        self.assertIsInstance(raised.exception, fsdp_inspect.UnknownName)
        self.assertEqual(raised.exception.hint, "did you mean model.embed.weight")
        self.assertEqual(str(raised.exception).count("'model.embed.weigh'"), 1)
        for name in (3, None, "", "a\0b", "\ud800", "-g"):
            with self.assertRaises(fsdp_inspect.UnknownName):
                self.ck[name]

    def test_names_and_paths_are_no_options(self):
        with self.assertRaisesRegex(KeyError, "no tensor, value or module '--help'"):
            self.ck["--help"]
        with self.assertRaisesRegex(FileNotFoundError, "no such file"):
            fsdp_inspect.open("--version")

    def test_tied_names(self):
        ck = fsdp_inspect.open(os.path.join(TESTDATA, "safetensors", "aliases", "model.safetensors"))
        self.assertIn("head.weight", ck)
        self.assertEqual(ck["head.weight"].name, "embed.weight")
        ck = fsdp_inspect.open(os.path.join(TESTDATA, "complete", "llama-tied", "checkpoint"))
        self.assertEqual(ck["lm_head.weight"].name, "model.embed_tokens.weight")
        with self.assertRaisesRegex(KeyError, "is a module"):
            ck["model.layers.0"]

    def test_values(self):
        values = self.ck.values
        self.assertIn("notes.pi", values)
        self.assertEqual(values.records[0].type, "list")
        with self.assertRaisesRegex(KeyError, "did you mean notes.pi"):
            values["notes.pie"]
        with self.assertRaisesRegex(KeyError, "is a tensor"):
            values["model.embed.weight"]

    def test_from_another_directory(self):
        """Relative paths lead where they led when it was opened."""
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(DEMO, os.path.join(folder, "step-\u00fc\n"))
            os.mkdir(os.path.join(folder, "other"))
            os.chdir(folder)
            ck, found = fsdp_inspect.open(b"step-\xc3\xbc\n"), fsdp_inspect.runs(".")
            self.assertEqual(ck.path, "step-\u00fc\n")
            self.assertIn("step-\u00fc\\n", repr(ck))
            sent = pickle.dumps((ck, ck["model.embed.weight"], found[0]))
            os.chdir("other")
            for one, tensor, row in ((ck, ck["model.embed.weight"], found[0]), pickle.loads(sent)):
                self.assertEqual((len(tensor[0:2]), one.audit().verdict, len(row.open())), (2, "good", 57))
                self.assertIn("15 tensors", str(one.info))
                one.close()
            tensor._checkpoint.close()
            os.chdir(before)

    def test_pickles(self):
        ck = pickle.loads(pickle.dumps(self.ck))
        self.assertEqual((ck.path, list(ck)), (os.path.join(os.getcwd(), self.ck.path), list(self.ck)))
        tensor = pickle.loads(pickle.dumps(self.ck["model.embed.weight"]))
        self.assertEqual((tensor.shape, len(tensor[0:2])), ((13, 4), 2))
        self.assertEqual(pickle.loads(pickle.dumps(self.ck.audit())).verdict, "good")
        with self.assertRaises(fsdp_inspect.Error) as raised:
            fsdp_inspect.open("nosuch")
        again = pickle.loads(pickle.dumps(raised.exception))
        self.assertEqual((type(again), str(again)), (fsdp_inspect.NotFound, str(raised.exception)))

    def test_directory_of_several(self):
        with tempfile.TemporaryDirectory() as run:
            for name in ("step-1", "step-2"):
                shutil.copytree(DEMO, os.path.join(run, name))
            with self.assertRaisesRegex(fsdp_inspect.NotACheckpoint, "lists its 2 checkpoints"):
                fsdp_inspect.open(run)
            found = fsdp_inspect.runs(run)
            self.assertEqual([os.path.basename(each.path) for each in found], ["step-1", "step-2"])
            self.assertEqual(found[0].open().step, 1234)
            self.assertIn("step-", str(fsdp_inspect.latest(run)))
        self.assertEqual([each.path for each in fsdp_inspect.runs(DEMO)], [DEMO])


def read_name(name):
    """In a process of its own, from the checkpoint that it inherited or was sent."""
    return bytes(memoryview(shared[name][0:2]).cast("B"))


shared = {}


class ValuesTest(unittest.TestCase):
    def assertSame(self, read, due):
        self.assertEqual(len(read), len(due))
        for a, b in zip(read, due):
            self.assertTrue(a == b or math.isnan(a) and math.isnan(b), (a, b))

    def test_pieces_of_all_ranks(self):
        ck = fsdp_inspect.open(DEMO)
        self.addCleanup(ck.close)
        tensor = ck["model.embed.weight"]
        rows = [list(row) for row in tensor[:].tolist()]
        self.assertEqual((len(rows), {len(row) for row in rows}), (13, {4}))
        self.assertAlmostEqual(rows[0][0], -0.3904294, 6)
        # Across the border of two ranks, from the end, nothing, and more than there is.
        self.assertEqual(tensor[6:9].tolist(), rows[6:9])
        self.assertEqual(tensor[-2:].tolist(), rows[-2:])
        self.assertEqual(tensor[12:100].tolist(), rows[12:])
        self.assertEqual(tensor[-1].tolist(), rows[-1])
        self.assertEqual(len(tensor[5:5]), 0)
        with self.assertRaises(IndexError):
            tensor[13]

    def test_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no numpy")
        ck = fsdp_inspect.open(DEMO)
        self.addCleanup(ck.close)
        tensor = ck["model.embed.weight"]
        whole = numpy.asarray(tensor)
        self.assertEqual((whole.shape, whole.dtype), ((13, 4), numpy.float32))
        for index in (slice(2, 11, 3), slice(None, None, -1), (slice(1, 4), 2), (Ellipsis, 0), 3, (3, 1), whole > 0):
            numpy.testing.assert_array_equal(tensor[index], whole[index])
        self.assertEqual(tensor.numpy(dtype="float64").dtype, numpy.float64)
        self.assertEqual(numpy.mean(tensor), numpy.mean(whole))
        scalar = ck["optim.state.blocks.0.down.bias.step"]
        self.assertEqual((scalar.numpy().shape, scalar[()]), ((), 2.0))
        half = fsdp_inspect.open(os.path.join(DTYPES, "model.pt"))["bfloat16"]
        self.assertEqual((half.numpy().shape, half.numpy().dtype, half.numpy("float16").dtype),
                         ((3, 5), numpy.float32, numpy.float16))

    def test_each_dtype_as_torch_reads_it(self):
        ck = fsdp_inspect.open(os.path.join(DTYPES, "model.pt"))
        self.addCleanup(ck.close)
        for tensor in ck.tensors:
            values = tensor[:]
            if tensor.dtype not in _tensor.KINDS and not tensor.dtype.startswith(("bfloat16", "float8")):
                self.assertEqual(len(list(_flat(values))), tensor.nbytes, tensor.dtype)
                continue
            self.assertEqual(len(_flat(values, tensor.dtype)), tensor.numel, tensor.dtype)
            shown = ck.run("show", tensor.name, values="0:15").items[0].elements
            for value, text in zip(_flat(values, tensor.dtype), shown):
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
            self.assertSame([_tensor.FLOATS8[name].decode(byte)], [value])

    def test_without_numpy(self):
        memory, kinds = _tensor._memory, _tensor.KINDS
        self.assertEqual(memory(b"\x00\x3c\x00\xc0", kinds["float16"], [2]).tolist(), [1.0, -2.0])
        self.assertEqual(memory(b"\x00\x3c\x00\xc0", kinds["float16"], [2, 1]).tolist(), [[1.0], [-2.0]])
        self.assertEqual(memory(b"\x00\x00\x80\x3f\x00\x00\x00\x40", kinds["complex64"], [1]).tolist(), [[1.0, 2.0]])
        self.assertEqual(memory(b"", kinds["complex64"], [0, 3]).tolist(), [])
        self.assertEqual(memory(b"\x00\x00\x80\x3f", kinds["float32"], []).tolist(), 1.0)

    def test_what_is_not_there_is_an_error(self):
        ck = fsdp_inspect.open(CUT)
        self.addCleanup(ck.close)
        for _ in range(2):  # the process goes on after an error
            with self.assertRaises(fsdp_inspect.Damaged) as raised:
                ck["model.a.weight"][:]
        self.assertEqual((raised.exception.rule, raised.exception.hint), ("FI4001", "git lfs pull"))
        self.assertTrue(raised.exception.message.startswith("this is a Git LFS pointer"))

    def test_threads_and_processes(self):
        with fsdp_inspect.open(DEMO) as ck:
            shared.update(ck)
            due = [read_name(name) for name in ck if ck[name].ndim]
            names = [name for name in ck if ck[name].ndim]
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                self.assertEqual(list(pool.map(read_name, names * 4)), due * 4)
            with multiprocessing.get_context("fork").Pool(8) as processes:
                self.assertEqual(processes.map(read_name, names * 4), due * 4)
            self.assertEqual(read_name(names[0]), due[0])

    def test_small_tensors_are_read_ahead(self):
        def read(ck, name):
            try:
                return bytes(memoryview(ck[name][...]))
            except fsdp_inspect.Error as error:
                return str(error)

        for path in (DEMO, CUT, os.path.join(DTYPES, "model.pt")):
            with fsdp_inspect.open(path) as ck:
                due = {name: read(ck, name) for name in reversed(list(ck))}
                with mock.patch.object(ck._server, "read", side_effect=ck._server.read) as asked:
                    self.assertEqual({name: read(ck, name) for name in ck}, due)
                    self.assertFalse(ck._ready)
                    self.assertLess(asked.call_count, len(ck) - 1 if path != CUT else len(ck) + 1)

    def test_threads_at_a_fork(self):
        """Other threads have locks at that moment, and requests on their way."""
        with fsdp_inspect.open(DEMO) as ck:
            shared.update(ck)
            names = [name for name in ck if ck[name].ndim] * 20
            due = [read_name(name) for name in names]
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                threads = pool.map(read_name, names)
                with multiprocessing.get_context("fork").Pool(4) as processes:
                    self.assertEqual(processes.map_async(read_name, names).get(500), due)
                self.assertEqual(list(threads), due)

    def test_processes_do_not_pile_up(self):
        with mock.patch.object(_server, "MOST", 2):
            opened = [fsdp_inspect.open(DEMO) for _ in range(4)]
            first = [ck["model.embed.weight"][0:2].tolist() for ck in opened]
            self.assertEqual([ck._server._process is None for ck in opened], [True, True, False, False])
            self.assertEqual([ck["model.embed.weight"][0:2].tolist() for ck in opened], first)
        left = [ck._server._process for ck in opened]
        gone = weakref.ref(opened[0])
        del opened[:]
        self.assertIsNone(gone())
        self.assertTrue(all(process is None or process.poll() is not None for process in left))

    def test_files_that_change(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "step")
            shutil.copytree(DEMO, path)
            with fsdp_inspect.open(path) as ck:
                os.utime(os.path.join(path, "__1_0.distcp"), (1, 1))
                with self.assertRaisesRegex(fsdp_inspect.Damaged, "changed since it was opened") as raised:
                    ck["model.embed.weight"][0]
                self.assertEqual((raised.exception.rule, raised.exception.path), ("FI2004", path))
            with fsdp_inspect.open(path) as ck:
                ck["model.embed.weight"][0]
                os.truncate(os.path.join(path, "__1_0.distcp"), 100)
                with self.assertRaisesRegex(fsdp_inspect.Damaged, "changed"):
                    ck["model.embed.weight"][:]

    def test_rows_without_numpy(self):
        with mock.patch.dict(sys.modules, {"numpy": None}), fsdp_inspect.open(DEMO) as ck:
            tensor = ck["model.embed.weight"]
            rows = tensor[...].tolist()
            for index in (slice(None, None, -1), slice(10, 2, -3), slice(1, 9, 2), slice(-2, None), 3, -1):
                self.assertEqual(tensor[index].tolist(), rows[index], index)
            self.assertEqual((tensor[3, 2], len(tensor[5:5])), (rows[3][2], 0))
            self.assertEqual(ck["optim.state.blocks.0.down.bias.step"][()], 2.0)
            with self.assertRaises(ImportError):
                tensor.numpy()

    def test_odd_shapes(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no numpy")
        with fsdp_inspect.open(os.path.join(TESTDATA, "torch-zip", "odd-shapes", "model.pt")) as ck:
            for tensor in ck.tensors:
                if not tensor.pieces or tensor.pieces[0].storage is None:
                    continue
                whole = tensor.numpy()
                self.assertEqual(whole.shape, tensor.shape)
                for index in (Ellipsis, slice(None, None, -2), slice(1, None), (), None, *([0, -1] if tensor.numel else [])):
                    if tensor.ndim or not isinstance(index, (int, slice)):
                        numpy.testing.assert_array_equal(tensor[index], whole[index])

    def test_the_process_may_end(self):
        ck = fsdp_inspect.open(DEMO)
        self.addCleanup(ck.close)
        tensor = ck["model.embed.weight"]
        first = tensor[0:2].tolist()
        process = ck._server._process
        self.addCleanup(process.stdout.close)
        with mock.patch.object(process, "stdout", mock.Mock(**{"read.side_effect": KeyboardInterrupt})):
            with self.assertRaises(KeyboardInterrupt):
                tensor[0:2]
        self.assertIsNotNone(process.poll())
        self.assertEqual(tensor[0:2].tolist(), first)
        ck._server._process.kill()
        self.assertEqual(tensor[0:2].tolist(), first)


def _flat(values, dtype=""):
    """Elements of rows; complex numbers from the pairs that a memoryview has."""
    rows = values.tolist()
    while rows and isinstance(rows[0], list) and (isinstance(rows[0][0], list) or not (
            dtype.startswith("complex") and isinstance(values, memoryview))):
        rows = [each for row in rows for each in row]
    return [complex(*each) if isinstance(each, list) else each for each in rows]


class JudgeTest(unittest.TestCase):
    def test_verdicts(self):
        good, bad = fsdp_inspect.open(DEMO).audit(), fsdp_inspect.open(CUT).audit()
        self.assertEqual((good.verdict, bool(good), good.status), ("good", True, 0))
        self.assertEqual((bad.verdict, bool(bad), bad.status), ("bad", False, 1))
        finding = bad.findings[0]
        self.assertEqual((finding.rule, finding.slug, finding.file), ("FI4001", "not-a-checkpoint", "__1_0.distcp"))
        self.assertIn("Git LFS pointer", repr(finding))
        self.assertIn("bad: 1 error", " ".join(bad.text.split()))
        self.assertIn("good: no problems in 3 files", " ".join(good.text.split()))

    def test_options_are_keywords(self):
        quiet = fsdp_inspect.open(DEMO).audit(rule=["FI4007=off"], data=True)
        self.assertNotIn("FI4007", [finding.rule for finding in quiet.findings])
        with self.assertRaises(TypeError):
            fsdp_inspect.open(DEMO).audit(nonsense=True)
        with self.assertRaises(fsdp_inspect.Error) as raised:
            fsdp_inspect.run("audit", DEMO, nonsense=True)
        self.assertEqual((raised.exception.code, raised.exception.status), ("usage", 2))

    def test_each_answer_is_of_one_run(self):
        """Its text too: what was written is not written again to print it."""
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(_command, "launch", side_effect=_command.launch) as launched:
            ck = fsdp_inspect.open(DEMO)
            answer = ck.export(os.path.join(folder, "out"), dtype="bfloat16")
            self.assertIn("output read back", str(answer))
            self.assertIn("14 tensors", answer._repr_html_())
            self.assertEqual(launched.call_count, 2)
            self.assertTrue(fsdp_inspect.diff(ck, ck))

    def test_errors_have_a_place(self):
        with self.assertRaises(fsdp_inspect.Error) as raised:
            fsdp_inspect.open("nosuch")
        error = raised.exception
        self.assertEqual((error.code, error.path, error.rule), ("system", "nosuch", "FI9003"))
        self.assertIsInstance(error, FileNotFoundError)
        self.assertEqual((error.errno, error.filename), (errno.ENOENT, "nosuch"))
        with self.assertRaises(fsdp_inspect.NotACheckpoint):
            fsdp_inspect.open(__file__)
        with self.assertRaises(fsdp_inspect.Damaged):
            fsdp_inspect.open(os.path.join(TESTDATA, "broken", "dcp-missing-metadata", "checkpoint"))
        with tempfile.NamedTemporaryFile() as denied:
            os.chmod(denied.name, 0)
            if not os.access(denied.name, os.R_OK):
                with self.assertRaises(PermissionError):
                    fsdp_inspect.open(denied.name)

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
        self.assertIn("agree (57 tensors)", str(same))
        self.assertFalse(fsdp_inspect.diff(DEMO, os.path.join(DTYPES, "model.pt")))


class LooksTest(unittest.TestCase):
    def test_html_is_escaped(self):
        rows = _record.Records([{"name": "<script>alert(1)</script>\x1b[31m"}], _record.Record)
        self.assertIn("&lt;script&gt;", rows._repr_html_())
        self.assertNotIn("\x1b", rows._repr_html_() + repr(rows))
        self.assertEqual(_record.preformatted("<b>"), "<pre>&lt;b&gt;</pre>")
        self.assertEqual(_record.folded("a\n\n" + 161 * "b"), "a\n\n" + 80 * "b" + "\n" + 80 * "b" + "\nb")

    def test_names_of_files_on_a_terminal(self):
        hostile = "\x1b[31m\u202e\n<b>"
        error = _server._error(["damaged", "FI4001", hostile, hostile, hostile])
        finding = fsdp_inspect.Finding({"severity": "error", "rule": "FI4001", "slug": "x", "message": hostile})
        values = fsdp_inspect.Values(mock.Mock(), {hostile: {"name": hostile, "value": hostile}})
        for text in (str(error), repr(finding), repr(values)):
            self.assertTrue(text.isprintable(), ascii(text))
        self.assertNotIn("<b>", values._repr_html_())
        denied = _server._error(["system", "FI9003", "__0_0.distcp", "", "cannot open: Permission denied"])
        self.assertIsInstance(denied, PermissionError)

    def test_long_lists_are_cut(self):
        tensors = fsdp_inspect.open(DEMO).tensors
        self.assertIn("and 37 more", repr(tensors))
        self.assertEqual(tensors._repr_html_().count("<tr>"), 21)

    def test_only_a_shape_is_a_scalar(self):
        self.assertEqual(repr(fsdp_inspect.Record({"shape": [], "aliases": []})), "Record(shape=scalar, aliases=[])")
        self.assertEqual(repr(fsdp_inspect.Record({"shape": [2, 3]})), "Record(shape=2x3)")

    def test_what_a_notebook_shows(self):
        ck = fsdp_inspect.open(DEMO)
        for shown in (ck, ck.tree(), ck.tensors, ck.audit(), ck["model.embed.weight"]):
            self.assertIn("<", shown._repr_html_())

    def test_answers_print_what_the_command_prints(self):
        traces = sorted(glob.glob(os.path.join(TESTDATA, "traces", "gpu_generated", "new_args_rank*.json.gz")))
        other = os.path.join(TESTDATA, "dcp", "fsdp2-w4-small", "checkpoint")
        run = os.path.join(TESTDATA, "runs", "trainer", "run")
        ck, bad = fsdp_inspect.open(DEMO), fsdp_inspect.open(CUT)
        for answer, words in ((ck.audit(), ["audit", DEMO]), (bad.audit(data=True), ["audit", "--data", CUT]),
                              (ck.diff(other), ["diff", DEMO, other]), (fsdp_inspect.latest(run), ["latest", run]),
                              (fsdp_inspect.replay(traces), ["replay", *traces]), (ck.info, ["info", DEMO]),
                              (ck.tree(), ["tree", DEMO]), (ck.stats("model.**"), ["stats", "-g", "model.**", DEMO]),
                              (ck.hash(), ["hash", DEMO])):
            due = subprocess.run([fsdp_inspect.binary(), *words, "--width=80", "--color=never"], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, check=False)
            self.assertEqual((answer.text, answer.status), ((due.stdout + due.stderr).decode(), due.returncode), words)
            self.assertEqual(str(answer), answer.text.rstrip("\n"))
            self.assertEqual(html.unescape(answer._repr_html_()), f"<pre>{_record.folded(answer.text)}</pre>")

    def test_lines_fit(self):
        ck = fsdp_inspect.open(DEMO)
        for shown in (ck, ck["model.embed.weight"], ck.tensors, ck.tree(), ck.audit(), ck.values, ck.units):
            self.assertLessEqual(max(map(len, repr(shown).split("\n"))), 80, repr(shown))


class PageTest(unittest.TestCase):
    def test_the_example_of_the_page(self):
        """Each line by itself; those that need numpy or pandas fail with ImportError without it."""
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "README.md"), encoding="utf-8") as stream:
            example = stream.read().split("```python\n")[1].split("```")[0].replace("lm_head", "model.head")
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        traces = os.path.abspath(os.path.join(TESTDATA, "traces", "gpu_generated"))
        model = os.path.abspath(os.path.join(DTYPES, "model.pt"))
        demo = os.path.abspath(DEMO)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("step-1000", "step-2000", "runs/exp7/step-1", "runs/exp7/step-2", "ckpts/a", "ckpts/b"):
                shutil.copytree(demo, os.path.join(folder, name))
            shutil.copy(model, folder)
            os.mkdir(os.path.join(folder, "traces"))
            for rank in range(4):
                shutil.copy(os.path.join(traces, f"new_args_rank{rank}.pt.trace.json.gz"),
                            os.path.join(folder, "traces", f"rank{rank}.json.gz"))
            os.chdir(folder)
            names, shown = {}, []
            for statement in ast.parse(example).body:
                try:
                    if isinstance(statement, ast.Expr):
                        shown.append(eval(compile(ast.Expression(statement.value), "README.md", "eval"), names))
                    else:
                        exec(compile(ast.Module([statement], []), "README.md", "exec"), names)
                except ImportError as error:
                    self.assertRegex(str(error), "numpy|pandas")
            names["ck"].close()
            os.chdir(before)
        self.assertEqual(shown[0], ("dcp", 1234, 2))
        self.assertEqual((shown[1][0], shown[1][2]), (57, True))
        self.assertTrue(all(repr(each) for each in shown))
        self.assertGreaterEqual(len(shown), 7)


class InstallTest(unittest.TestCase):
    def test_import_needs_nothing(self):
        code = ("import sys, fsdp_inspect as f; "
                "assert not {'torch', 'numpy', 'pandas'} & set(sys.modules); "
                "assert callable(f.recorders.export_plan) and 'torch' not in sys.modules; "
                "import fsdp_inspect_export as e; assert e.export_plan is f.recorders.export_plan; "
                "assert all(hasattr(f, name) for name in f.__all__) and dir(f) == sorted([*f.__all__, '__version__'])")
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
        # URLs are read by the packages of this process.
        self.assertIn(sys.executable, _command._environment()["FSDP_INSPECT_PYTHON"])


if __name__ == "__main__":
    unittest.main()

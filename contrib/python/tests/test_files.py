# SPDX-License-Identifier: Apache-2.0
"""The parts that need no torch: files, patches, names, pieces of flat parameters.

    PYTHONPATH=contrib/python python contrib/python/tests/test_files.py
"""

import contextlib
import errno
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import types
import unittest
import warnings
from unittest import mock

from fsdp_inspect.recorders import __main__, _files, _flat, _install, _names, _plan
from fsdp_inspect.recorders._patch import Patches


class Folder(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as stream:
            return stream.read()

    def listing(self):
        return sorted(os.listdir(self.folder))


class ImportTest(unittest.TestCase):
    def test_import_needs_and_touches_nothing(self):
        code = ("import sys; before = set(sys.modules); import fsdp_inspect.recorders as e; "
                "assert not any(m.split('.')[0] == 'torch' for m in set(sys.modules) - before); "
                "assert sorted(e.__all__) == e.__all__ and all(hasattr(e, n) for n in e.__all__)")
        subprocess.run([sys.executable, "-c", code], check=True,
                       env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


class RefusalTest(unittest.TestCase):
    def test_a_state_dict_is_no_model(self):
        with self.assertRaisesRegex(TypeError, r"not a state dict: export_plan\(model, path\)"):
            _plan.checked_plan({"weight": 1})
        with self.assertRaisesRegex(TypeError, "not list"):
            _plan.checked_plan([])

    def test_a_model_that_nothing_wraps_is_told_the_cure(self):
        model = mock.Mock(named_children=list)
        with mock.patch.object(_plan, "sharding_plan", return_value={"units": []}), \
                mock.patch.object(_plan, "_is_wrapped", return_value=False):
            with self.assertRaisesRegex(ValueError, r"after fully_shard\(model\)"):
                _plan.checked_plan(model)
            self.assertEqual(_plan.checked_plan(model, unsharded=True), {"units": []})


class InstallTest(Folder):
    """With a module in the place of torch.distributed.checkpoint."""

    def setUp(self):
        super().setUp()
        self.saved = []
        self.dcp = types.ModuleType("torch.distributed.checkpoint")
        self.dcp.save = lambda state, **named: self.saved.append((dict(state), named)) or "done"
        distributed = types.ModuleType("torch.distributed")
        distributed.checkpoint = self.dcp
        modules = {"torch": types.ModuleType("torch"), "torch.distributed": distributed,
                   "torch.distributed.checkpoint": self.dcp}
        for patch in (mock.patch.dict(sys.modules, modules),
                      mock.patch.object(_install, "checked_plan", lambda model: {"units": [], "rank": 0}),
                      mock.patch.object(_install, "rank_and_world", lambda: (0, 2))):
            patch.start()
            self.addCleanup(patch.stop)

    def test_each_save_has_the_plan_beside_it_and_in_it(self):
        before = self.dcp.save
        undo = _install.install(object())
        state = {"weight": 1}
        self.assertEqual(self.dcp.save(state, checkpoint_id=self.path("step-1")), "done")
        self.assertEqual(state, {"weight": 1})
        self.assertEqual(json.loads(self.saved[0][0]["fsdp_plan"]), {"units": [], "rank": 0})
        self.assertEqual(json.loads(self.read("step-1/model.fsdp-plan.json")), {"units": [], "rank": 0})
        self.dcp.save(state, storage_writer=mock.Mock(path=self.path("step-2")))
        self.assertTrue(os.path.exists(self.path("step-2/model.fsdp-plan.json")))
        self.dcp.save(state, checkpoint_id="s3://bucket/step-3")
        self.assertEqual(self.listing(), ["step-1", "step-2"])
        undo()
        self.assertIs(self.dcp.save, before)

    def test_a_save_never_fails_because_of_a_plan(self):
        _install.install(object())
        with mock.patch.object(_install, "checked_plan", side_effect=RuntimeError("odd")), \
                self.assertWarnsRegex(UserWarning, "no sharding plan is written: odd"):
            self.dcp.save({"weight": 1}, checkpoint_id=self.path("step-1"))
        self.assertEqual(self.saved, [({"weight": 1}, {"checkpoint_id": self.path("step-1")})])


class PlacesTest(unittest.TestCase):
    """Where torch keeps what, from 2.3 on."""

    def test_the_class_of_fsdp2(self):
        class Sharded:
            pass

        for place, name in (("fsdp", "FSDPModule"), ("_composable.fsdp", "FSDPModule"), ("_composable.fsdp", "FSDP"), ("fsdp", "Other")):
            modules = {f"torch.distributed.{each}": types.ModuleType(each) for each in ("fsdp", "_composable", "_composable.fsdp")}
            setattr(modules[f"torch.distributed.{place}"], name, Sharded)
            with self.subTest(place=place, name=name), mock.patch.dict(sys.modules, {
                    "torch": types.ModuleType("torch"), "torch.distributed": types.ModuleType("torch.distributed"), **modules}):
                self.assertEqual((_plan._is_fsdp2(Sharded()), _plan._is_fsdp2(object())), (name != "Other", False))

    def test_modules_of_a_group(self):
        self.assertEqual(_plan._modules(types.SimpleNamespace(module=1)), [1])
        self.assertEqual(_plan._modules(types.SimpleNamespace(modules=(1, 2))), (1, 2))


class MainTest(Folder):
    def described(self, *words):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = __main__.main(list(words))
        return status, out.getvalue(), err.getvalue()

    def test_without_words_it_prints_lines_that_are_python(self):
        status, out, _ = self.described()
        self.assertEqual(status, 0)
        compile(out, "lines", "exec")

    def test_a_plan_without_units_is_told_the_cure(self):
        plan = {"format": "fsdp-plan", "units": [{"strategy": "FULL_SHARD"}], "parameters": [1, 2],
                "world_size": 8, "torch": "2.13.0"}
        for name, units in (("good", plan["units"]), ("early", [])):
            _files.write_text(self.path(name), json.dumps({**plan, "units": units}))
        status, out, err = self.described(self.path("good"))
        self.assertEqual((status, err), (0, ""))
        self.assertIn("1 units, FULL_SHARD, 2 parameters, world size 8, torch 2.13.0", out)
        status, _, err = self.described(self.path("good"), self.path("early"))
        self.assertEqual(status, 1)
        self.assertIn("after fully_shard(model)", err)
        self.assertEqual(self.described(self.path("nowhere"))[0], 1)


class PathTest(unittest.TestCase):
    def test_placeholder_gives_every_rank_its_file(self):
        self.assertEqual(_files.path_of_rank("a/{rank}/b{rank}", 3), "a/3/b3")

    def test_without_it_rank_0_writes_alone(self):
        self.assertEqual(_files.path_of_rank("plan.json", 0), "plan.json")
        self.assertIsNone(_files.path_of_rank("plan.json", 1))


class WriteTest(Folder):
    def test_replaces_what_was_there(self):
        for text in ("first, and long", "second"):
            _files.write_text(self.path("plan"), text)
        self.assertEqual((self.read("plan"), self.listing()), ("second", ["plan"]))

    def test_mode_is_what_the_umask_allows(self):
        before = os.umask(0o027)
        self.addCleanup(os.umask, before)
        _files.write_text(self.path("plan"), "x")
        self.assertEqual(os.stat(self.path("plan")).st_mode & 0o777, 0o640)

    def test_a_failed_write_leaves_the_old_file_and_no_other(self):
        _files.write_text(self.path("plan"), "old")
        for name in ("write", "fsync", "replace"):
            with self.subTest(name), mock.patch.object(os, name, side_effect=OSError(errno.ENOSPC, "full")):
                with self.assertRaises(OSError):
                    _files.write_text(self.path("plan"), "new")
            self.assertEqual((self.read("plan"), self.listing()), ("old", ["plan"]))

    def test_short_writes_are_continued(self):
        write = os.write
        with mock.patch.object(os, "write", side_effect=lambda fd, data: write(fd, data[:3])):
            _files.write_text(self.path("plan"), "longer than three")
        self.assertEqual(self.read("plan"), "longer than three")

    def test_plan_text_is_the_plan(self):
        plan = {"format": "fsdp-plan", "mesh": {"shape": [2]}, "modules": [{"name": ""}, {"name": "ü\ud800\n"}],
                "names": ["a"], "units": [], "rank": 0, "flag": True, "none": None}
        self.assertEqual(json.loads(_files.plan_text(plan)), plan)
        self.assertTrue(_files.plan_text(plan).isascii())
        self.assertEqual(_files.plan_text(plan).count("\n"), len(plan) + 5)


class RecordingTest(Folder):
    def lines(self, name="log"):
        return [json.loads(line) for line in self.read(name).splitlines()]

    def test_appears_when_it_ends(self):
        with _files.Recording(self.path("log")) as out:
            out.put(ev="begin", type="é\n")
            self.assertNotIn("log", self.listing())
            # What there is, is whole lines: a killed process leaves them behind.
            with open(self.path(self.listing()[0]), "rb") as stream:
                self.assertTrue(stream.read().endswith(b"\n"))
        self.assertEqual((self.lines(), self.listing()), ([{"ev": "begin", "type": "é\n"}], ["log"]))

    def test_is_kept_when_the_block_raises(self):
        with self.assertRaises(KeyError), _files.Recording(self.path("log")) as out:
            out.put(ev="begin")
            raise KeyError
        self.assertEqual(self.lines(), [{"ev": "begin"}])

    def test_nothing_recorded_is_no_file_and_is_said(self):
        with self.assertWarns(UserWarning), _files.Recording(self.path("log")):
            pass
        self.assertEqual(self.listing(), [])

    def test_put_after_the_end_does_nothing(self):
        with _files.Recording(self.path("log")) as out:
            out.put(n=1)
        out.put(n=2)
        self.assertEqual(self.lines(), [{"n": 1}])

    def test_a_full_disk_is_told_at_the_end_only(self):
        with self.assertRaises(OSError), _files.Recording(self.path("log")) as out:
            out.put(n=1)
            with mock.patch.object(os, "write", side_effect=OSError(errno.ENOSPC, "full")):
                out.put(n=2)
            out.put(n=3)
        self.assertEqual(self.listing(), [])

    def test_a_full_disk_does_not_hide_an_exception(self):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            with self.assertRaises(KeyError), _files.Recording(self.path("log")) as out:
                with mock.patch.object(os, "write", side_effect=OSError(errno.ENOSPC, "full")):
                    out.put(n=2)
                raise KeyError
        self.assertIn("full", str(seen[0].message))
        self.assertEqual(self.listing(), [])

    def test_a_missing_folder_is_made(self):
        with _files.Recording(self.path("a/b/log")) as out:
            out.put(n=1)
        self.assertEqual(self.lines("a/b/log"), [{"n": 1}])

    def test_an_impossible_path_is_told_at_once(self):
        _files.write_text(self.path("file"), "")
        with self.assertRaises(OSError):
            _files.Recording(self.path("file/log"))

    def test_lines_of_threads_do_not_mix(self):
        def many(number):
            for n in range(200):
                out.put(thread=number, n=n, text="x" * 500)
        with _files.Recording(self.path("log")) as out:
            threads = [threading.Thread(target=many, args=(i,)) for i in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for i in range(4):
            self.assertEqual([line["n"] for line in self.lines() if line["thread"] == i], list(range(200)))

    def test_a_forked_process_neither_writes_nor_ends_it(self):
        with _files.Recording(self.path("log")) as out:
            out.put(n=1)
            child = os.fork()
            if child == 0:
                out.put(n=2)
                out.__exit__(None, None, None)
                os._exit(os.path.exists(self.path("log")))
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            out.put(n=3)
        self.assertEqual(self.lines(), [{"n": 1}, {"n": 3}])


class PatchTest(unittest.TestCase):
    def setUp(self):
        class Base:
            @classmethod
            def inherited(cls):
                return "base"

        class Thing(Base):
            @classmethod
            def owned(cls):
                return "thing"

        self.thing = Thing

    def test_restores_in_spite_of_exceptions(self):
        before = dict(vars(self.thing))
        with self.assertRaises(KeyError), Patches() as patches:
            for name in ("owned", "inherited", "new"):
                patches.set(self.thing, name, classmethod(lambda cls: "ours"))
                self.assertEqual(getattr(self.thing, name)(), "ours")
            raise KeyError
        self.assertEqual(dict(vars(self.thing)), before)

    def test_an_object_gets_its_class_back(self):
        thing = self.thing()
        with Patches() as patches:
            patches.set(thing, "owned", lambda: "ours")
            self.assertEqual(thing.owned(), "ours")
        self.assertEqual((thing.owned(), vars(thing)), ("thing", {}))

    def test_one_name_twice(self):
        thing = self.thing()
        with Patches() as patches:
            patches.set(thing, "owned", 1)
            patches.set(thing, "owned", 2)
        self.assertEqual(vars(thing), {})

    def test_who_patched_over_us_stays(self):
        thing = self.thing()
        with Patches() as patches:
            patches.set(thing, "owned", 1)
            thing.owned = 2
        self.assertEqual(thing.owned, 2)


class NamesTest(unittest.TestCase):
    def test_clean(self):
        for raw, clean in (("_fsdp_wrapped_module.a.weight", "a.weight"), ("a._checkpoint_wrapped_module.b", "a.b"),
                           ("_orig_mod.a", "_orig_mod.a"), ("module.a", "module.a"), ("", ""),
                           ("_checkpoint_wrapped__fsdp_wrapped_module.module.a", "a")):
            self.assertEqual(_names.clean(raw), clean)

    def test_of_modules(self):
        self.assertEqual(_names.clean_module("_fsdp_wrapped_module"), "")
        self.assertEqual(_names.clean_module("a._fsdp_wrapped_module"), "a")
        self.assertEqual(_names.full("_fsdp_wrapped_module.a._fsdp_wrapped_module", "w"), "a.w")
        self.assertEqual(_names.full("", "w"), "w")


class FlatTest(unittest.TestCase):
    def check(self, numels, shards, padding=None):
        """Every element lies in one place, and places are in order."""
        padding = padding or [False] * len(numels)
        fqns = [str(i) for i, p in enumerate(padding) if not p]
        found = _flat.pieces(fqns, numels, padding, shards)
        piece = found["sharded_numel"]
        whole = [(name, n) for i, (numel, p) in enumerate(zip(numels, padding)) for n in range(numel)
                 for name in [None if p else str(i)]]
        whole += [(None, 0)] * (piece * shards - len(whole))
        for rank in found["ranks"]:
            mine = whole[rank["rank"] * piece:(rank["rank"] + 1) * piece]
            for span in rank["spans"]:
                told = [(span["fqn"], n) for n in range(span["param_start"], span["param_end"] + 1)]
                self.assertEqual(mine[span["flat_start"]:span["flat_end"] + 1], told)
            named = sum(name is not None for name, _ in mine)
            self.assertEqual(sum(s["flat_end"] + 1 - s["flat_start"] for s in rank["spans"]), named)
        return found

    def test_every_element_has_one_place(self):
        for shards in range(1, 9):
            for numels in ([], [1], [5, 7], [0, 3, 0], [160, 6, 6], [1, 1, 1]):
                self.check(numels, shards)
            self.check([5, 3, 7, 1], shards, [False, True, False, True])

    def test_a_rank_beyond_the_end_is_padding_only(self):
        found = self.check([3], 4)
        self.assertEqual((found["sharded_numel"], found["unsharded_numel"], found["shard_numel_padded"]),
                         (1, 4, [0, 0, 0, 1]))

    def test_spans_are_left_out_above_8_ranks(self):
        self.assertIn("ranks", _flat.pieces(["a"], [64], [False], 8))
        self.assertNotIn("ranks", _flat.pieces(["a"], [64], [False], 9))


if __name__ == "__main__":
    unittest.main()

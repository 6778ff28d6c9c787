# SPDX-License-Identifier: Apache-2.0
"""States of training and their runs: accelerate, Trainer, DCP, DeepSpeed, Megatron, Lightning, files of ranks."""

import struct

from .files import binary_unicode, dict_of, integer, list_of, safetensors, sample

STEP = "demo/step-1234"
SMALL, TP, HSDP = (f"dcp/fsdp2-w4-{name}/checkpoint" for name in ("small", "tp", "hsdp"))
TRAINER = "runs/trainer/run/checkpoint-500"
ZERO, ZERO_STEP = "deepspeed/zero2-w2", "global_step2"
WHOLE, WEIGHTS = "complete/llama-tied/checkpoint", "safetensors/aliases/model.safetensors"
OPTIMIZER = "torch-zip/optimizer/model.pt"


# ---- accelerate ----


def pair_of_linears(width):
    """The model of OPTIMIZER, if the width is 3."""
    shapes = {"a": [width, 4], "b": [width], "c": [2, width], "d": [2]}
    sizes = {name: 4 * shape[0] * (shape[1] if len(shape) > 1 else 1) for name, shape in shapes.items()}
    return safetensors({name: ("F32", shape, bytes(sizes[name])) for name, shape in shapes.items()})


def state(folder, name, model=None, optimizer=OPTIMIZER):
    """A state of accelerate."""
    folder.write(name + "/random_states_0.pkl", "N.")
    if model is not None:
        folder.write(name + "/model.safetensors", model)
    if optimizer is not None:
        folder.copy(optimizer, name + "/optimizer.bin")


@sample
def a_folder_of_fsdp_with_and_without_its_metadata(folder):
    for place in ("complete", "without"):
        for name in ("s", "w"):
            folder.copy("dcp/views/checkpoint", f"{place}/{name}/pytorch_model_fsdp_0")
            if place == "without":
                folder.remove(f"{place}/{name}/pytorch_model_fsdp_0/.metadata")
        folder.copy(OPTIMIZER, place + "/s/optimizer.bin")


@sample
def states_of_accelerate_with_more_and_more_files(folder):
    for place in ("random", "optimizer", "scheduler"):
        state(folder, place + "/s", pair_of_linears(3), None if place == "random" else OPTIMIZER)
    folder.copy(OPTIMIZER, "scheduler/s/scheduler.bin")


@sample
def states_of_accelerate_with_an_optimizer_of_another_model(folder):
    """One model, two of the same shapes, another one, and two optimizers."""
    for place, further in {"one": None, "two": 5, "other": 3, "optimizers": None}.items():
        state(folder, place + "/s", pair_of_linears(5))
        if further:
            folder.write(place + "/s/model_1.safetensors", pair_of_linears(further))
    folder.copy(OPTIMIZER, "optimizers/s/optimizer_1.bin")


@sample
def states_of_accelerate_without_and_with_a_schedule(folder):
    groups = list_of(dict_of({"initial_lr": b"F0.1\n"}))
    for place in ("without", "with"):
        folder.copy(WEIGHTS, place + "/s/model.safetensors")
        state(folder, place + "/s", optimizer=None)
        folder.write(place + "/s/optimizer.bin", dict_of({"state": dict_of({}), "param_groups": groups}), b".")
    folder.write("with/s/scheduler.bin", dict_of({"last_epoch": integer(5)}), b".")


@sample
def states_of_accelerate_without_and_with_the_model(folder):
    """And without it, but with another file."""
    for place in ("without", "with", "notes"):
        state(folder, place + "/s")
        folder.copy(OPTIMIZER, place + "/s/scheduler.bin")
    folder.copy(WHOLE + "/model.safetensors", "with/s/model.safetensors")
    folder.write("notes/s/notes.txt", "\n")


@sample
def a_state_of_accelerate_with_an_empty_random_state(folder):
    folder.copy(WEIGHTS, "s/model.safetensors")
    state(folder, "s")
    folder.write("s/random_states_0.pkl")


# ---- Trainer ----


@sample
def long_states_of_trainer(folder):
    """17 MB of spaces after the state, without and with a bracket at the end."""
    for place, end in {"open": "", "closed": "}\n"}.items():
        folder.copy(TRAINER, place + "/c")
        name = place + "/c/trainer_state.json"
        folder.write(name, folder.read(name), b" " * 17000000, end)


@sample
def checkpoints_of_trainer_with_another_step_and_empty_files(folder):
    for name in ("checkpoint-500", "best", "empty/best"):
        folder.copy(TRAINER, name)
        folder.edit(name + "/trainer_state.json", '"global_step": 500', '"global_step": 400')
    for name in ("trainer_state.json", "scheduler.pt"):
        folder.write("empty/best/" + name)


@sample
def schedulers_of_trainer(folder):
    """After as many steps as the state counts, one more, two more, and fewer: in that version of transformers and in
    an older one, in another class of schedulers, and beside a scaler."""
    for place, version, steps, key in (
            ("equal", "5.24.0", 500, "lr_lambdas"), ("one-more", "5.24.0", 501, "lr_lambdas"),
            ("two-more", "5.24.0", 502, "lr_lambdas"), ("fewer", "5.24.0", 266, "lr_lambdas"),
            ("older", "4.40.0", 266, "lr_lambdas"), ("class", "5.24.0", 266, "lr_other_s"),
            ("scaler", "5.24.0", 266, "lr_lambdas")):
        name = place + "/checkpoint-500/"
        folder.copy(TRAINER, name)
        folder.edit(name + "config.json", '{\n "architectures"',
                    '{"transformers_version": "%s",\n "architectures"' % version)
        folder.write(name + "scheduler.pt", b"\x80\2}(", binary_unicode("last_epoch"), b"M", struct.pack("<H", steps),
                     binary_unicode(key), b"]}au.")
    folder.write("scaler/checkpoint-500/scaler.pt", b"\x80\2}", binary_unicode("scale"), b"K\1s.")


@sample
def checkpoints_of_trainer_with_states_of_another_model(folder):
    """Of a type whose weights are stored in another form, of a known type, of lower rank, and with its weights."""
    other = "optimizer-ids/trainer/checkpoint"
    for place in ("toy", "llama", "rank", "right"):
        folder.copy(TRAINER, place + "/c")
        folder.copy(other + "/optimizer.pt", place + "/c/optimizer.pt")
        if place != "toy":
            folder.edit(place + "/c/config.json", '"toy"', '"llama"')
    folder.edit("rank/c/optimizer.pt", "maximize", "rank_all")
    folder.copy(other + "/model.safetensors", "right/c/model.safetensors")


# ---- DCP ----


@sample
def zstd_items_with_changed_bytes(folder):
    folder.copy("dcp/zstd/checkpoint", "broken")
    for at in (1500, 9800):
        folder.change("broken/__0_0.distcp", at, b"A")


@sample
def files_of_dcp_with_names_of_downloads(folder):
    """Both a data file and .metadata, one data file, one that is unfinished, and none."""
    for place, names in {
        "both": {"__0_0.distcp": "__0_0 (1).distcp", ".metadata": "metadata"},
        "data": {"__0_0.distcp": "__0_0 (1).distcp"},
        "part": {"__0_0.distcp": "__0_0.distcp.part"},
        "none": {},
    }.items():
        folder.copy(SMALL, place + "/d")
        for old, new in names.items():
            folder.move(f"{place}/d/{old}", f"{place}/d/{new}")


@sample
def files_of_dcp_that_are_missing_and_empty(folder):
    for place, missing in {"two": (1, 3), "three": (0, 1, 3)}.items():
        folder.copy(SMALL, place + "/d")
        for rank in missing:
            folder.remove(f"{place}/d/__{rank}_0.distcp")
    folder.write("three/d/__2_0.distcp")


@sample
def files_of_dcp_of_two_saves(folder):
    """d: .metadata of another one, and a file less; e: a data file of another one."""
    folder.copy(TP, "d")
    folder.copy(HSDP + "/.metadata", "d/.metadata")
    folder.remove("d/__3_0.distcp")
    folder.copy(TP, "e")
    folder.copy(HSDP + "/__2_0.distcp", "e/__2_0.distcp")


@sample
def a_checkpoint_with_two_changed_bytes(folder):
    folder.copy(STEP, "s")
    folder.change("s/__0_0.distcp", 3000, b"x")
    folder.change("s/__1_0.distcp", 2000, b"x")


@sample
def plans_with_other_units(folder):
    for place, old, new in (("root", "", "norm"), ("block", "blocks.0", "blocks.0.up")):
        one = folder.apart(place)
        one.copy(STEP, "other")
        one.edit("other/model.fsdp-plan.json", f'"module": "{old}", "visit"', f'"module": "{new}", "visit"')


@sample
def scalars_with_other_values(folder):
    folder.copy("dcp/scalars/checkpoint", "other")
    folder.edit("other/__0_0.distcp", "text", "tent")
    folder.edit("other/__0_0.distcp", b"K\1K\2\x86", b"K\1K\3\x86")


# ---- DeepSpeed, and files of ranks ----


def zero(name):
    return f"{ZERO_STEP}/{name}_states.pt"


@sample
def universal_checkpoints_of_deepspeed(folder):
    """With its tracker, and with that under another name."""
    for place, tracker in {"named": "latest_universal", "other": "other"}.items():
        folder.copy(ZERO, place + "/u")
        folder.directory(f"{place}/u/{ZERO_STEP}/zero")
        folder.move(place + "/u/latest", f"{place}/u/{tracker}")


@sample
def optimizer_files_of_deepspeed_that_do_not_fit(folder):
    """a: of another world size; b: of two saves; c: with a model file of ZeRO 3; d: without a model file."""
    for name in "abcd":
        folder.copy(ZERO, name)
    for rank in (2, 3):
        folder.copy(f"{ZERO}/{zero('zero_pp_rank_1_mp_rank_00_optim')}",
                    f"a/{zero(f'zero_pp_rank_{rank}_mp_rank_00_optim')}")
    for rank in (0, 1):
        name = f"zero_pp_rank_{rank}_mp_rank_00_optim"
        folder.copy(f"{ZERO}/{zero(name)}", f"b/{zero('bf16_' + name)}")
    folder.copy(f"{ZERO}/{zero('mp_rank_00_model')}", f"c/{zero('zero_pp_rank_0_mp_rank_00_model')}")
    folder.remove(f"d/{zero('mp_rank_00_model')}")


@sample
def a_member_of_deepspeed_with_a_damaged_header(folder):
    folder.copy(ZERO, "h")
    name = f"h/{zero('mp_rank_00_model')}"
    content, at = folder.read(name), -1
    for _ in range(3):
        at = content.index(b"PK\3\4", at + 1)
    folder.change(name, at, b"XX")


@sample
def optimizer_states_of_another_step(folder):
    """Of rank 1, and of both ranks."""
    for place, ranks in {"one": [1], "both": [1, 0]}.items():
        folder.copy(ZERO, place + "/z")
        for rank in ranks:
            name = zero(f"zero_pp_rank_{rank}_mp_rank_00_optim")
            folder.edit(f"{place}/z/{name}", b"\x8c\x9e\x98\x57", b"jj\xa1\xac")


@sample
def files_of_ranks_with_the_data_of_another(folder):
    for rank in (0, 1):
        folder.copy("releases/torch-2.15.0/ranks/rank0.pt", f"v/model_world_size_2_rank_{rank}.pt")
        folder.copy(f"releases/torch-2.15.0/ranks/rank{rank}.pt", f"v/optim_world_size_2_rank_{rank}.pt")


@sample
def files_of_ranks_of_which_one_is_missing_or_truncated(folder):
    for place in ("all", "missing", "cut"):
        for rank in range(4):
            folder.copy(f"fsdp2/w4-tp/checkpoint/rank{rank}.pt", f"{place}/r/model_world_size_4_rank_{rank}.pt")
            folder.copy(f"fsdp2/w4-empty-shard/checkpoint/rank{rank}.pt",
                        f"{place}/r/optim_world_size_4_rank_{rank}.pt")
    name = "r/model_world_size_4_rank_2.pt"
    folder.remove("missing/" + name)
    folder.write("cut/" + name, folder.read("all/" + name)[:3000])


@sample
def files_of_ranks_without_the_model_of_one(folder):
    for rank in (0, 1, 3):
        folder.copy(f"fsdp2/w4-tp/checkpoint/rank{rank}.pt", f"a/model_world_size_4_rank_{rank}.pt")
    for rank, source in enumerate((0, 1, 1, 3)):
        folder.copy(f"fsdp2/w4-tp/checkpoint/rank{source}.pt", f"a/optim_world_size_4_rank_{rank}.pt")
    folder.json("a/fsdp_config.json", {})


@sample
def one_rank_of_a_model_of_meta(folder):
    for name in ("consolidated.00.pth", "params.json"):
        folder.copy("meta/consolidated-mp2/" + name, "one/" + name)


@sample
def tars_with_bytes_after_their_end(folder):
    """a: zeros; b: other bytes before them."""
    for name, added in {"a": b"", "b": b"0" * 600}.items():
        folder.copy("torch-tar/tar-views/model.pth", name + ".pth")
        folder.write(name + ".pth", folder.read(name + ".pth"), added, bytes(2000000))


# ---- runs ----


@sample
def a_run_without_and_with_a_pickle_in_no_checkpoint(folder):
    for place in ("without", "with"):
        for name in ("a", "b"):
            folder.copy(STEP, f"{place}/r/{name}/step-1234")
        folder.write(place + "/r/b/latest", "step-1234\n")
        folder.directory(place + "/r/other/deep")
    folder.write("with/r/other/deep/x.pkl", b"\x80\2}.")


@sample
def a_run_with_reports_and_with_an_index(folder):
    for place in ("reports", "index"):
        for step in (1, 2):
            folder.copy(STEP, f"{place}/r/step-{step}")
        for name in ("README.md", "train.log", "zero_to_fp32.py", "run.json"):
            folder.write(f"{place}/r/{name}", "\n")
    folder.json("index/r/model.safetensors.index.json", {})


@sample
def megatron_trackers_of_a_missing_and_a_present_iteration(folder):
    for place, iteration in {"missing": 30, "present": 20}.items():
        folder.copy(STEP, place + "/r/iter_0000020")
        folder.write(place + "/r/latest_checkpointed_iteration.txt", str(iteration))


@sample
def trackers_of_another_step_than_in_the_files(folder):
    folder.copy(ZERO, "r")
    folder.move("r/global_step2", "r/global_step9")
    folder.write("r/latest", "global_step9")
    folder.copy("megatron/legacy-tp2-pp2", "m")
    folder.move("m/iter_0000500", "m/iter_0000600")
    folder.write("m/latest_checkpointed_iteration.txt", "600")


@sample
def runs_with_many_trackers(folder):
    """lengths/: numbers of so many digits; names/: what a tracker may contain."""
    newest = "step-" + "20".zfill(240)
    trackers = {f"lengths/{length}": "7".zfill(length) for length in (100, 200, 211, 212, 256, 257)}
    trackers |= {f"names/{number}": name for number, name in enumerate((
        "step-10", "10", "0000000000000010", "step-30", "30", "", "release", "step-10/", "./step-10", newest))}
    for place, tracker in trackers.items():
        for step, name in {10: "step-10", 20: newest, 30: "step-30"}.items():
            folder.copy(f"runs/dcp-half-written/run/step-{step}", f"{place}/run/{name}")
        folder.write(place + "/run/latest", tracker)


@sample
def a_run_of_lightning_whose_last_step_has_weights_only(folder):
    folder.copy("lightning/trainer-ckpt/last.ckpt", "r/epoch=0-step=2.ckpt")
    folder.copy("lightning/weights-only/weights.ckpt", "r/epoch=1-step=4.ckpt")


@sample
def stale_trackers_in_paths_with_and_without_a_space(folder):
    for name in ("a b", "c"):
        folder.copy(ZERO, name)
        folder.copy(f"{ZERO}/{ZERO_STEP}", name + "/global_step9")
        folder.remove(name + "/global_step9/mp_rank_00_model_states.pt")
        folder.write(name + "/latest", "global_step9\n")


@sample
def universal_checkpoint_without_the_file_of_its_model(folder):
    for name in ("a/fp32.pt", "optimizer_state.pt"):
        folder.copy(OPTIMIZER, "u/global_step5_universal/zero/" + name)
    folder.write("u/latest_universal", "global_step5_universal\n")


@sample
def some_of_four_ranks(folder):
    """A folder for each set of ranks."""
    for ranks in ("0-3", "0-1", "2-3", "1-2", "0-2", "1"):
        for rank in ranks.split("-"):
            name = f"rank{rank}.pt"
            folder.copy("fsdp2/w4-empty-shard/checkpoint/" + name, f"{ranks}/r/{name}")


@sample
def ranks_of_8_digits(folder):
    for rank in (16777214, 16777215, 16777216):
        folder.copy("torch-zip/state-dict/model.pt", f"r/model_rank_{rank}.pt")


# ---- DCP ----


@sample
def dcp_with_a_data_file_in_a_subdirectory(folder):
    folder.copy("dcp/fsdp2-w4-small/checkpoint", "c")
    folder.move("c/__0_0.distcp", "c/d/0_0.distcp")
    folder.edit("c/.metadata", "__0_0.distcp", "d/0_0.distcp")


@sample
def dcp_without_collectives_of_ranks_of_8_digits(folder):
    """Four copies of two ranks."""
    source = "dcp/no-collectives-own/checkpoint"
    for copy in (10000000, 10000002, 10000004, 10000006):
        for rank in (0, 1):
            metadata = f"many/__{copy + rank}.metadata"
            folder.copy(f"{source}/__{rank}_0.distcp", f"many/__{copy + rank}_0.distcp")
            folder.copy(f"{source}/__{rank}.metadata", metadata)
            folder.edit(metadata, b"\x8c\x0c__%d_0.distcp" % rank, b"\x8c\x13__%d_0.distcp" % (copy + rank))
            folder.edit(metadata, b"\x95\x28\x05", b"\x95\x2f\x05")


@sample
def saves_of_dcp_with_a_file_metadata_json(folder):
    """Of another program, of Megatron-core, and one that is damaged."""
    for place, text in {"other": '{"step": 100}', "own": '{"sharded_backend": "torch_dist"}', "cut": '{"sharded_'}.items():
        folder.copy("dcp/fsdp2-w4-small/checkpoint", place)
        folder.write(place + "/metadata.json", text)

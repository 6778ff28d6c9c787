# SPDX-License-Identifier: Apache-2.0
"""Directories of files that belong together: of accelerate, DeepSpeed and Megatron."""

import math

from .files import (boolean, built, call, dict_of, integer, integers, list_of, pickled, safetensors, sample, storage,
                    tensor, text)


def setting(value):
    """A pickle that has no tensor."""
    return pickled(dict_of({"x": integer(value)}))


# ---- accelerate ----

WEIGHT = tensor(storage("0", 6), [2, 3])
MODEL = pickled(dict_of({"w": WEIGHT}))
OPTIMIZER = pickled(dict_of({
    "state": dict_of({"w": dict_of({"exp_avg": WEIGHT})}),
    "param_groups": list_of(dict_of({"lr": b"F0.5\n", "params": list_of(text("w"))})),
}))


@sample
def accelerate_saves(folder):
    """One model and two, by each option of accelerate, and what is like them."""
    def write(variant, content, *names):
        for name in names:
            folder.write(f"{variant}/{name}", content)

    other, weights = setting(7), safetensors({"w": ("F32", [2, 3], b"0" * 24)})
    write("fsdp", MODEL, "pytorch_model_fsdp.bin", "pytorch_model_fsdp_1.bin")
    write("fsdp", OPTIMIZER, "optimizer.bin", "optimizer_1.bin")
    write("fsdp", other, "random_states_0.pkl", "random_states_2.pkl", "random_states_x.pkl", "scheduler.bin",
          "scheduler_1.bin", "sampler.bin", "sampler_1.bin", "dl_state_dict.bin", "dl_state_dict_1.bin", "scaler.pt",
          "custom_checkpoint_0.pkl", "custom_checkpoint_1.pkl", "other.bin")
    write("safetensors", weights, "model.safetensors", "model_1.safetensors", "model_x.safetensors")
    write("safetensors", other, "random_states_0.pkl")
    write("bin", MODEL, "pytorch_model.bin", "pytorch_model_2.bin")
    write("bin", other, "random_states_0.pkl")
    for rank in range(2):
        write("ranks", MODEL, f"pytorch_model_fsdp_rank{rank}.bin", f"pytorch_model_fsdp_1_rank{rank}.bin")
        write("ranks", OPTIMIZER, f"optimizer_0_rank{rank}.bin")
        write("rank-bins", MODEL, f"pytorch_model_rank{rank}.bin", f"pytorch_model_1_rank{rank}.bin")
        write("rank-bins", other, f"random_states_{rank}.pkl")
    write("latest", MODEL, "pytorch_model_fsdp.bin")
    write("latest", "global_step1", "latest")
    write("zero", MODEL, "pytorch_model_fsdp.bin")
    write("zero", "", "zero_to_fp32.py")
    write("modelless", other, "random_states_0.pkl", "scheduler.bin")


# ---- DeepSpeed ----


def vector(key, length):
    return tensor(storage(key, length, views=True), [length], [1])


def zero_save(folder, variant, parameters, partitions, world_size=2):
    """Of ZeRO 1. parameters: name -> length; partitions: of each rank (length, name -> (start, length) or None)."""
    folder.write(f"{variant}/mp_rank_00_model_states.pt", pickled(dict_of({
        "module": dict_of({name: vector(name, length) for name, length in parameters.items()}),
        "param_shapes": list_of(dict_of({
            name: call("torch.Size", integers(length)) for name, length in parameters.items()})),
        "dp_world_size": integer(world_size), "mp_world_size": integer(1), "ds_version": text("0.19.8"),
    })))
    for rank, (length, slices) in enumerate(partitions):
        mapped = {} if slices is None else {"param_slice_mappings": list_of(dict_of({
            name: built("deepspeed.utils.tensor_fragment.fragment_address",
                        dict_of({"start": integer(start), "numel": integer(count)}))
            for name, (start, count) in slices.items()}))}
        folder.write(f"{variant}/zero_pp_rank_{rank}_mp_rank_00_optim_states.pt", pickled(dict_of({
            "optimizer_state_dict": dict_of({
                "zero_stage": integer(1), "partition_count": list_of(integer(world_size)),
                "single_partition_of_fp32_groups": list_of(vector("g", length)),
                "base_optimizer_state": dict_of({
                    "state": b"}" + integer(0) + dict_of({"exp_avg": vector("e", length)}) + b"s"}),
                **mapped,
            }),
            "ds_version": text("0.19.8"),
        })))


@sample
def zero_flat_buffers(folder):
    both = {"a": 5, "b": 3}
    zero_save(folder, "packed", both, [(4, {"a": (0, 4)}), (4, {"a": (0, 1), "b": (1, 3)})])
    zero_save(folder, "unmapped", both, [(4, None), (4, None)])
    zero_save(folder, "aligned", both, [(6, {"a": (0, 5)}), (6, {"b": (2, 3)})])
    zero_save(folder, "lost", {**both, "c": 2}, [(6, {"a": (0, 5)}), (6, {"b": (2, 3)})])
    zero_save(folder, "unordered", both, [(6, {"b": (0, 3)}), (6, {"a": (1, 5)})])
    zero_save(folder, "longer", both, [(6, None), (2, None)])
    zero_save(folder, "more", both, [(8, None), (8, None)])
    zero_save(folder, "padded", {"a": 5, "b": 2}, [(4, None), (4, None)])
    zero_save(folder, "padded-more", {"a": 5, "b": 4}, [(6, None), (6, None)])
    zero_save(folder, "surplus", both, [(4, {"a": (0, 4)}), (4, {"a": (0, 1), "b": (1, 3), "d": (0, 0)})])
    zero_save(folder, "cut", both, [(4, {"a": (0, 4)})])
    zero_save(folder, "even", {"a": 4, "b": 4}, [(4, {"a": (0, 4)}), (4, {"b": (0, 4)})])
    zero_save(folder, "one", both, [(8, {"a": (0, 5), "b": (5, 3)})], world_size=1)


# ---- Megatron ----


@sample
def megatron_experts(folder):
    """Of 2 tensor-parallel, 2 pipeline and 3 expert-parallel ranks."""
    layers = "decoder.layers"
    sizes = {"tensor": 2, "pipeline": 2, "expert": 3}
    arguments = dict_of({f"{name}_model_parallel_size": integer(size) for name, size in sizes.items()} | {
        "swiglu": boolean(True)})
    shapes = {
        "embedding.word_embeddings.weight": [4, 2], "my_word_embeddings.weight": [4, 2], "output_layer.bias": [3],
        f"{layers}.1.norm.weight": [2],
        **{f"{layers}.1.mlp.experts.local_experts.{expert}.linear_{name}.weight": [rows, 2]
           for expert in range(2) for name, rows in (("fc1", 4), ("fc2", 2))},
        f"{layers}.2.mlp.linear_fc1.bias": [4], f"{layers}.2.mlp.linear_fc1.weight": [3, 2],
        f"{layers}.3.mlp.linear_fc1.weight": [4, 2], f"{layers}.3.mlp.linear_fc2.bias": [2],
        f"{layers}.3.mlp.experts.linear_fc1.weight": [2, 2, 2], "layers_norm.weight": [2],
    }
    transposed = f"{layers}.3.mlp.linear_fc1.weight"
    tensors = {name: tensor(storage(name, 64), shape, [1, 4] if name == transposed else None)
               for name, shape in shapes.items()}
    content = pickled(dict_of({
        "args": built("argparse.Namespace", arguments), "checkpoint_version": b"F3.0\n",
        "rng_tensor": tensor(storage("rng_tensor", 64), [3]), "model": dict_of(tensors),
    }))
    for stage in range(2):
        for expert in range(3):
            for rank in range(2):
                folder.write(f"iter_0000007/mp_rank_0{rank}_00{stage}_00{expert}/model_optim_rng.pt", content)


# ---- transformers ----


def optimizer_state(key, shape):
    """Of Adam; for a pair (rows, columns) the sums that Adafactor has."""
    def state(name, length):
        return {name: vector(f"{name}{key}", length)}

    if isinstance(shape, list):
        return dict_of({"exp_avg": tensor(storage(f"exp_avg{key}", 999, views=True), shape)})
    return dict_of(state("exp_avg_sq_row", shape[0]) | state("exp_avg_sq_col", shape[1]))


@sample
def optimizers_of_a_llama(folder):
    """Beside the same weights: states by number, and groups of numbers with their weight decay."""
    layer = "model.layers.0"
    shapes = {
        "model.norm.weight": [4], "lm_head.weight": [9, 4], f"{layer}.self_attn.k_proj.weight": [2, 4],
        f"{layer}.input_layernorm.weight": [4], "model.embed_tokens.weight": [9, 4],
        f"{layer}.self_attn.q_proj.weight": [4, 4],
    }
    weights = safetensors({name: ("U8", shape, bytes(math.prod(shape))) for name, shape in shapes.items()})

    def write(title, states, *groups):
        folder.json(f"{title}/m/trainer_state.json", {"global_step": 5})
        folder.json(f"{title}/m/config.json", {"architectures": ["LlamaForCausalLM"], "model_type": "llama"})
        folder.write(f"{title}/m/model.safetensors", weights)
        folder.write(f"{title}/m/optimizer.pt", pickled(dict_of({
            "state": b"}" + b"".join(
                integer(key) + optimizer_state(key, shape) + b"s" for key, shape in states.items()),
            "param_groups": list_of(*(dict_of({
                "weight_decay": b"F%s\n" % decay.encode(), "params": list_of(*map(integer, numbers))})
                for decay, numbers in groups)),
        })))
        titles.append(title)

    titles = []
    head, k, q, norm = [9, 4], [2, 4], [4, 4], [4]
    two, one = [("0.1", range(4)), ("0.0", range(4, 6))], [("0.1", range(6))]
    write("two", dict(enumerate([head, q, k, head, norm, norm])), *two)
    write("decay-first", dict(enumerate([head, q, k, head, norm, norm])), ("0.0", range(4)), ("0.1", range(4, 6)))
    write("one", dict(enumerate([head, q, k, norm, norm, head])), *one)
    write("less", dict(enumerate([head, q, k, norm, head])), ("0.1", range(5)))
    write("more", dict(enumerate([head, q, k, norm, norm, head, norm])), ("0.1", range(7)))
    write("order", dict(enumerate([head, k, q, norm, norm, head])), *one)
    write("sums", dict(enumerate([(9, 4), (4, 4), (2, 4), norm, norm, (9, 4)])), *one)
    write("other-sums", dict(enumerate([(9, 4), (4, 4), (2, 5), norm, norm, (9, 4)])), *one)
    write("some", {1: q, 4: norm}, *one)
    write("gap", {2: k}, ("0.1", [0, 1, 2, 3, 4, 6]))
    write("three", {0: head}, ("0.1", [0, 1]), ("0.0", [2]), ("0.0", [3, 4, 5]))
    write("none", {}, *one)
    write("twice", {0: head}, ("0.1", [0, 0, 1, 2, 3, 4, 5]))
    folder.write("list", *(f"{title}\n" for title in titles))


@sample
def megatron_pipeline_chunks(folder):
    """Two stages of the same chunks; the first alone; and the second of two tensor-parallel ranks, the other empty."""
    vector_of_4 = tensor(storage("0", 4), [4], [1])
    chunks = {
        "model0": ["e.layers.0.w", "e.layers.2.w", "xlayers.0.w", "layers.x", "layers.1"],
        "model1": ["layers.0.w", "layers.1.layers.1.w", "experts.local_experts.0.w"],
        "model255": ["layers.262143.w"], "model256": ["layers.5"], "models": ["layers.6"],
    }
    saves = {"stages": ("pipeline", ["00_000", "00_001"]), "one": ("pipeline", ["00_000"]),
             "tensor": ("tensor", ["00_001"])}
    folder.at("tensor/iter_0000007/mp_rank_00_000/")
    for save, (kind, ranks) in saves.items():
        content = pickled(dict_of({
            "args": built("argparse.Namespace", dict_of({
                f"{kind}_model_parallel_size": integer(2), "expert_model_parallel_size": integer(1)})),
            **{chunk: dict_of(dict.fromkeys(names, vector_of_4)) for chunk, names in chunks.items()},
            "model2": vector_of_4,
        }))
        for rank in ranks:
            folder.write(f"{save}/iter_0000007/mp_rank_{rank}/model_optim_rng.pt", content)


# ---- names of files ----


@sample
def files_with_names_of_ranks(folder):
    """In each folder s one file for each name of a line, which has nothing of a rank but its name."""
    sets = [
        "temp_1.pt temp_2.pt", "mp_1.pt", "tp_1.pth", "-tp_1.pt", "9mp_1.ckpt", "@mp_1.pt", "[mp_1.pt", "_mp_1.pt",
        "{mp_1.pt", "amp_1.pt", "zmp_1.pt", "Amp_1.pt", "Zmp_1.pt", "ranked1.bin", "shard1.pt", "consolidated.1.pt",
        "consolidated1.pt", "1rank.pt", "rank.pt", "rank65535.pt", "rank65536.pt", "rank16777215.pt",
        "rank16777216.pt", "rank_1-of-2.pt", "rank_1_of_2.pt", "rank_1off2.pt", "rank-of-2.pt", "rank5.pt rank6.pt",
        "world_size_3_rank_1.pt", "world_size_0_rank_1.pt", "world_size_16777215_rank_1.pt",
        "world_size_16777216_rank_1.pt", "mp_0.pt mp_1.pt", "mp_0.pt mp_2.pt", "mp_0.pt mp_1.pth", "mp_0.pt np_1.pt",
        "mp_0.pt other.pkl", "mp_0.pt mp_00.pt", "mp_0.pt other.pt", "rank_0-of-2.pt rank_1-of-2.pt",
    ]
    content = pickled(dict_of({"w": integer(1)}))
    for number, names in enumerate(sets):
        for name in names.split():
            folder.write(f"{number}/s/{name}", content)
    folder.write("list", *(f"{number} {names}\n" for number, names in enumerate(sets)))


@sample
def directories_of_trainers(folder):
    """NeMo's weights with and without context, an unfinished save; saves of verl by step."""
    for name in ("a/context", "b/context", "c/nocontext", "b-unfinished"):
        folder.at(name + "/")
    for name in ("a/weights", "b/weights", "c/weights", "e/weights-unfinished", "e/weights"):
        folder.copy("dcp/old-generation/checkpoint", name)
    for step in ("7/actor", "7/critic", "8/actor", "x/actor"):
        for rank in range(2):
            folder.write(f"global_step_{step}/model_world_size_2_rank_{rank}.pt", pickled(dict_of({"w": WEIGHT})))

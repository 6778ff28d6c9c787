#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules whose samples are made here: a file or folder that trips the rule, and one that is a near miss of it."""
import collections
import hashlib
import io
import json
import math
import os
import pickle
import re
import shutil
import struct
import sys
import tempfile
import types
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))
import serving  # noqa: E402

BINARY, TESTDATA = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
Storage = collections.namedtuple("Storage", "key numel")


def stand_in(module, name, kind=lambda *_: None):
    """A global of that name: pickles name it and nothing calls it."""
    made = types.FunctionType(kind.__code__, globals(), name) if isinstance(kind, types.FunctionType) else kind
    made.__module__, made.__qualname__ = module, name
    sys.modules.setdefault(module, types.ModuleType(module))
    setattr(sys.modules[module], name, made)
    return made


REBUILD = stand_in("torch._utils", "_rebuild_tensor_v2")
FLOAT = stand_in("torch", "FloatStorage", type("FloatStorage", (), {}))
SIZE = stand_in("torch", "Size", type("Size", (tuple,), {"__reduce__": lambda self: (SIZE, (tuple(self),))}))


class Tensor:
    def __init__(self, storage, shape, stride, offset=0):
        self.parts = (storage, offset, shape, stride, False, collections.OrderedDict())

    def __reduce__(self):
        return REBUILD, self.parts


class Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        return ("storage", FLOAT, obj.key, "cpu", obj.numel) if isinstance(obj, Storage) else None


def torch_zip(path, tensors, storages, method=zipfile.ZIP_STORED, order="little"):
    stream = io.BytesIO()
    Pickler(stream, 2).dump(tensors)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", stream.getvalue())
        archive.writestr("model/byteorder", order)
        for key, numel in storages.items():
            archive.writestr(f"model/data/{key}", struct.pack("<f" if order == "little" else ">f", 1.5) * numel, method)
        archive.writestr("model/version", "3\n")
    return path


def safetensors(path, shape=(2, 3), value=1.0, **metadata):
    numel = shape[0] * shape[1]
    header = {"__metadata__": metadata} if metadata else {}
    header = json.dumps(header | {"weight": {"dtype": "F32", "shape": shape, "data_offsets": [0, 4 * numel]}}).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header + struct.pack("<f", value) * numel)
    return path


def copy(name, folder):
    target = os.path.join(folder, "copy")
    shutil.copytree(os.path.join(TESTDATA, name), target)
    for d, _, files in os.walk(target):
        os.chmod(d, 0o755)
        for n in files:
            os.chmod(os.path.join(d, n), 0o644)
    return target


def edit(path, change):
    with open(path, "rb") as f:
        data = f.read()
    changed = change(data)
    assert changed != data, path
    with open(path, "wb") as f:
        f.write(changed)


def edit_pickle(path, change):
    """Of a torch zip."""
    with zipfile.ZipFile(path) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members:
            if name.endswith("/data.pkl"):
                changed = change(data)
                assert changed != data, path
                data = changed
            archive.writestr(name, data)


def shorter(data, after=b"", pattern=rb"QK\x00(?:K(.)|M(..))"):
    """The first size of the first tensor behind these bytes, less one."""
    found = re.compile(pattern, re.S).search(data, data.index(after))
    group = 1 if found[1] else 2
    at, size = found.span(group)[0], len(found[group])
    number = int.from_bytes(found[group], "little") - 1
    return data[:at] + number.to_bytes(size, "little") + data[at + size:]


def views(folder, wrong):
    storage = Storage("0", 6)
    return [torch_zip(os.path.join(folder, "model.pt"), {"a": Tensor(storage, (2, 3 + wrong), (3, 1))}, {"0": 6})]


def impossible(shape, stride, offset=0):
    """What no tensor can be; beside it one that repeats its first row."""
    def impossible_view(folder, wrong):
        view = (shape, stride, offset) if wrong else ((2, 3), (0, 1))
        return [torch_zip(os.path.join(folder, "model.pt"), {"a": Tensor(Storage("0", 6), *view)}, {"0": 6})]
    return impossible_view


IMPOSSIBLE = [((2, 3), (1,)), ((-2, 3), (3, 1)), ((1 << 40, 1 << 40), (1 << 40, 1)), ((2, 3), (-3, 1)), ((2, "3"), (3, 1)),
              ((2, 3), (3, 1), -1), ((2, 3), (3, 1), 1 << 62)]


def storages(folder, wrong):
    tensors = {"a": Tensor(Storage("0", 6), (6,), (1,)), "b": Tensor(Storage("0", 6 - wrong), (2,), (1,))}
    return [torch_zip(os.path.join(folder, "model.pt"), tensors, {"0": 6})]


def compressed(folder, wrong):
    return [torch_zip(os.path.join(folder, "model.pt"), {"a": Tensor(Storage("0", 600), (600,), (1,))}, {"0": 600},
                      zipfile.ZIP_DEFLATED if wrong else zipfile.ZIP_STORED)]


def beside(name):
    """A pickle that no reader would take for one by how it begins, but by the end of its name, which some see up to a NUL ("!")."""
    def pickle_beside(folder, wrong):
        path = torch_zip(os.path.join(folder, "model.pt"), {"a": Tensor(Storage("0", 6), (6,), (1,))}, {"0": 6})
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(f"model/{name if wrong else name.replace('.', '_')}", b"cos\nsystem\n(S'true'\ntR.")
        if "!" in name:
            edit(path, lambda data: data.replace(b"!", b"\0"))
        return [path]
    return pickle_beside


def names(folder, wrong):
    return [safetensors(os.path.join(folder, "model.bin" if wrong else "model.safetensors"))]


def zip_names(folder, wrong):
    name = "model.safetensors" if wrong else "model.bin"
    return [torch_zip(os.path.join(folder, name), {"a": Tensor(Storage("0", 6), (6,), (1,))}, {"0": 6})]


def merged_shapes(folder, wrong):
    other = safetensors(os.path.join(folder, "other.safetensors"), (3, 2) if wrong else (2, 3))
    return [f"--merged={other}", safetensors(os.path.join(folder, "model.safetensors"))]


def merged_values(folder, wrong):
    other = safetensors(os.path.join(folder, "other.safetensors"), value=2.0 if wrong else 1.0)
    return ["--data", f"--merged={other}", safetensors(os.path.join(folder, "model.safetensors"))]


def legacy(folder, wrong):
    path = os.path.join(copy("torch-zip/legacy", folder), "model.pt")
    if wrong:
        edit(path, lambda data: data[:-3])
    return [path]


def moments(folder, wrong):
    path = copy("deepspeed/zero2-roundrobin-w2", folder)
    if wrong:
        name = next(os.path.join(d, n) for d, _, files in sorted(os.walk(path)) for n in sorted(files) if "optim_states" in n)
        edit_pickle(name, lambda data: shorter(data, b"exp_avg"))
    return [path]


def flat_parts(folder, wrong):
    """DeepSpeed cuts a flat buffer of 10 elements, and 2 of padding, into equal parts; in the wrong one it is cut elsewhere."""
    path = os.path.join(folder, "global_step1")
    os.mkdir(path)
    model = {"module": {}, "param_shapes": [{"weight": SIZE((2, 5))}], "dp_world_size": 2, "mp_world_size": 1}
    torch_zip(os.path.join(path, "mp_rank_00_model_states.pt"), model, {})
    for rank, numel in enumerate((7, 5) if wrong else (6, 6)):
        flat = Tensor(Storage("0", numel), (numel,), (1,))
        state = {"zero_stage": 2, "partition_count": 2, "single_partition_of_fp32_groups": [flat]}
        torch_zip(os.path.join(path, f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"), {"optimizer_state_dict": state}, {"0": numel})
    return [path]


def local_parts(folder, wrong):
    path = os.path.join(copy("fsdp2/w4-tp", folder), "checkpoint")
    if wrong:
        edit_pickle(os.path.join(path, "rank1.pt"), shorter)
    return [path]


def shards(folder, wrong):
    path = os.path.join(copy("fsdp1/sharded-w2-orig", folder), "checkpoint")
    if wrong:
        edit_pickle(os.path.join(path, "rank1.pt"),
                    lambda data: re.sub(rb"(shard_offsets.{0,8}\].{0,5}\(?K).", rb"\g<1>c", data, count=1, flags=re.S))
    return [path]


def relatives(folder, wrong):
    path = copy("other-fsdp/xla-w2", folder)
    if wrong:  # 444 elements of the first parameter
        edit_pickle(os.path.join(path, "final_rank-00000000-of-00000002.pth"), lambda data: data.replace(b"M\xbc\x01", b"M\xbb\x01", 1))
    return [path]


def relatives_alone(folder, wrong):
    path = copy("other-fsdp/fairscale-w2", folder)
    if wrong:
        os.remove(os.path.join(path, "checkpoint_last-shard1.pt"))
    return [path]


def gone(sample, *names):
    """The first of these is gone, or another one that no file counts."""
    def file_gone(folder, wrong):
        path = copy(sample, folder)
        if wrong or names[1:]:
            os.remove(os.path.join(path, names[0 if wrong else 1]))
        return [path]
    return file_gone


def files(*trip, near):
    """Only these are there, each with one tensor; in the near miss the others."""
    def files_there(folder, wrong):
        for name in trip if wrong else near:
            path = os.path.join(folder, name)
            if name.endswith(".json"):
                with open(path, "w", encoding="utf-8") as f:
                    json.dump({"global_step": 4}, f)
            else:
                torch_zip(path, {"weight": Tensor(Storage("0", 6), (2, 3), (3, 1))}, {"0": 6})
        return [folder]
    return files_there


def last_rank(folder, wrong):
    """vLLM's matrices of one rank of two; in the near miss one of them is whole."""
    entries = {f"model.layers.0.{name}.weight": {"dtype": "I8", "shape": [16, columns], "data_offsets": [16 * at, 16 * (at + columns)]}
               for name, columns, at in (("self_attn.o_proj", 8, 0), ("mlp.down_proj", 20, 8))}
    header = json.dumps(entries).encode()
    with open(os.path.join(folder, "model-rank-0-part-0.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header + bytes(16 * 28))
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump({"hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 40 if wrong else 20}, f)
    return [folder]


def optimizer(folder, groups):
    tensors = {i: {"exp_avg": Tensor(Storage(str(i), 6), (2, 3), (3, 1))} for i in range(3)}
    state = {"state": tensors, "param_groups": [{"lr": 0.1, "params": group} for group in groups]}
    return [torch_zip(os.path.join(folder, "optimizer.pt"), {"optimizer": state}, {"0": 6, "1": 6, "2": 6})]


def cast_buffer(folder, wrong):
    """FSDP1 with MixedPrecision(buffer_dtype=...): the plan is from before the first step."""
    entries = {"freqs": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}, "weight": {"dtype": "F32", "shape": [4], "data_offsets": [8, 24]}}
    header = json.dumps(entries).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header + bytes(24))
    mixed = {"param_dtype": None, "reduce_dtype": None, "buffer_dtype": "float16" if wrong else "bfloat16"}
    unit = {"module": "_fsdp_wrapped_module", "visit": 1, "api": "fsdp1", "strategy": "FULL_SHARD", "use_orig_params": True, "shard_world_size": 1,
            "replicate_world_size": 1, "cpu_offload": False, "mixed_precision": mixed}
    plan = {"format": "fsdp-plan", "version": 1, "torch": "2.13.0", "world_size": 1, "rank": 0,
            "modules": [{"name": "", "class": "FullyShardedDataParallel", "wrapper": "fsdp1"}, {"name": "_fsdp_wrapped_module", "class": "M"}],
            "parameter_names": ["_fsdp_wrapped_module.weight"],
            "parameters": [{"fqn": "weight", "shape": [4], "dtype": "float32", "requires_grad": True}],
            "buffers": [{"fqn": "freqs", "shape": [4], "dtype": "float32", "persistent": True}], "units": [unit]}
    with open(os.path.join(folder, "plan.fsdp-plan.json"), "w", encoding="utf-8") as f:
        json.dump(plan, f)
    return [folder]


def adam(folder, keys=("exp_avg", "exp_avg_sq", "step"), of=range(4), shape=(6,), name=None, flat=False, model=False, **group):
    """A state of Adam for each of these parameters of four, by number or name, in lists or flattened."""
    tensor = Tensor(Storage("0", 24), shape, (1,) * len(shape))
    names = [name.format(i) if name else i for i in range(4)]
    state = {names[i]: {key: tensor for key in keys} for i in of}
    optim = {"state": state, "param_groups": [{"lr": 0.1, "params": names} | group]}
    if flat:
        optim = {f"state.{n}.{k}": v for n, own in state.items() for k, v in own.items()} | {f"param_groups.{n}.lr": 0.1 for n in names}
    shapes = {"w": model if isinstance(model, tuple) else (6,), "v": (6,)}
    tensors = {f"layers.{i}.{m}": Tensor(Storage("0", 24), sizes, (sizes[-1], 1)[-len(sizes):]) for i in range(4) for m, sizes in shapes.items()}
    weights = {"model": tensors} if model else {}
    return [torch_zip(os.path.join(folder, "train.pt"), {"optim": optim} | weights, {"0": 24})]


def adams(near, **wrong):
    def some_adams(folder, trips):
        return adam(folder, **(wrong if trips else near))
    return some_adams


NAMED, MOMENTS = {"name": "layers.{}.w"}, ("exp_avg", "exp_avg_sq")


def groups_twice(folder, wrong):
    return optimizer(folder, [[0, 1, 2], [1, 2]] if wrong else [[0, 1], [2]])


def groups_gap(folder, wrong):
    return optimizer(folder, [[0, 1, 3, 5], [2]] if wrong else [[1, 0], [2]])


def groups_of_addresses(folder, wrong):
    """PyTorch before 1.6 numbers parameters by id()."""
    tensors = {n: {"exp_avg": Tensor(Storage("0", 6), (2, 3), (3, 1))} for n in ([140178894849152, 140178894849296] if wrong else [0, 1])}
    state = {"state": tensors, "param_groups": [{"lr": 0.1, "params": list(tensors)}]}
    return [torch_zip(os.path.join(folder, "optimizer.pt"), {"optimizer": state}, {"0": 6})]


def groups_lack(folder, wrong):
    return optimizer(folder, [[0]] if wrong else [[0, 1, 2]])


def no_meta(folder, wrong):
    path = os.path.join(copy("lightning/model-parallel-w2", folder), "checkpoint")
    os.remove(os.path.join(path, "meta.pt" if wrong else "__1_0.distcp"))
    return [path]


def called(folder, name, **counts):
    os.mkdir(os.path.join(folder, name))
    model = {"weight": Tensor(Storage("0", 6), (2, 3), (3, 1))}
    torch_zip(os.path.join(folder, name, "model.pt"), {"model": model, "step": 500, "epoch": 3} | counts, {"0": 6})
    return [os.path.join(folder, name)]


def other_step(folder, wrong):
    return called(folder, "step-600" if wrong else "checkpoint-500")


def next_step(folder, wrong):
    return called(folder, "iter_0000501" if wrong else "epoch_7")


def no_step(folder, wrong):
    return called(folder, "step-600" if wrong else "checkpoint-3")  # which is the epoch


def counted(word):
    """A folder may be called after anything that is counted."""
    def other_count(folder, wrong):
        return called(folder, "step-600", **{f"best_{word}_seen" if not wrong else "best_loss_seen": 600})
    return other_count


def byte_order(folder, wrong):
    model = {"weight": Tensor(Storage("0", 6), (2, 3), (3, 1))}
    return [torch_zip(os.path.join(folder, "model.pt"), model, {"0": 6}, order="big" if wrong else "little")]


def tagged(tag):
    def other_tag(folder, wrong):
        return [safetensors(os.path.join(folder, "model.safetensors"), format=f"{tag}{'2' * wrong}")]
    return other_tag


def sums(folder, wrong):
    path = safetensors(os.path.join(folder, "model.safetensors"))
    with open(path, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    with open(os.path.join(folder, "SHA256SUMS"), "w", encoding="utf-8") as f:
        f.write(f"{'0' * 64}  other.safetensors\n{'0' * 64 if wrong else digest}  model.safetensors\n")
    return ["--data", path]


def downloaded(folder, wrong):
    """What hf download --local-dir keeps beside the files: the commit, the SHA-256 of a large file, the time."""
    path = safetensors(os.path.join(folder, "model.safetensors"))
    with open(path, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    os.makedirs(os.path.join(folder, ".cache/huggingface/download"))
    for name, tag in (("model.safetensors", "0" * 64 if wrong else digest), ("config.json", "1" * 40)):
        with open(os.path.join(folder, ".cache/huggingface/download", f"{name}.metadata"), "w", encoding="utf-8") as f:
            f.write(f"{'a' * 40}\n{tag}\n1732000000.0\n")
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        f.write("{}")
    return ["--data", folder]


def tied(head, embedding):
    """Two matrices that are said to be one."""
    def other_values(folder, wrong):
        count, names_of_both = 64, (head, f"model.{embedding}")
        entries = {n: {"dtype": "F32", "shape": [8, 8], "data_offsets": [256 * i, 256 * (i + 1)]} for i, n in enumerate(names_of_both)}
        header = json.dumps(entries).encode()
        header += b" " * (-len(header) % 8)
        one, other = (struct.pack(f"<{count}f", *(math.sin(i + k) for i in range(count))) for k in (0, wrong))
        with open(os.path.join(folder, "model.safetensors"), "wb") as f:
            f.write(struct.pack("<Q", len(header)) + header + one + other)
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump({"tie_word_embeddings": True}, f)
        return ["--data", "--values", folder]
    return other_values


ITEM_BYTES = {"F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "U8": 1, "I8": 1, "I32": 4, "I64": 8}


def write(folder, tensors, **documents):
    """A model of these tensors, (dtype, shape) or a shape of F32, with JSON files beside it; its bytes are all different."""
    header, end = {}, 0
    for name, facts in tensors.items():
        dtype, shape = facts if isinstance(facts[0] if facts else 0, str) else ("F32", facts)
        begin, end = end, end + ITEM_BYTES[dtype] * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    header = json.dumps(header).encode()
    header += b" " * (-len(header) % 8)
    name = "adapter_model.safetensors" if "adapter_config" in documents else "model.safetensors"
    with open(os.path.join(folder, name), "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header + b"".join(struct.pack("<f", math.sin(i)) for i in range(end // 4 + 1))[:end])
    for stem, document in documents.items():
        with open(os.path.join(folder, f"{stem}.json"), "w", encoding="utf-8") as f:
            json.dump(document, f)
    return folder


PAIRS = [f"model.layers.{i}.self_attn.{m}" for i in range(2) for m in ("q_proj", "v_proj")]


def adapter(prefix="base_model.model.", first=(4, 16), second=(24, 4), near=(), count=None, strip="", **config):
    """LoRA of rank 4; `near` are the arguments of its near miss."""
    def lora(folder, wrong):
        if not wrong:
            return adapter(**dict(near))(folder, True)
        pairs = [name.removeprefix(strip) for name in PAIRS[:count]]
        tensors = {f"{prefix}{module}.lora_A.weight": first for module in pairs} | {f"{prefix}{module}.lora_B.weight": second for module in pairs}
        return [write(folder, tensors, adapter_config={"peft_type": "LORA", "r": 4, "target_modules": ["q_proj", "v_proj"]} | config)]
    return lora


def scaled(down, k, prefix="base_model.model."):
    """IA3: one vector for the inputs of a module, one for the outputs of another."""
    def ia3(folder, _):
        return [write(folder, {f"{prefix}model.layers.0.mlp.down_proj.ia3_l": down, f"{prefix}model.layers.0.self_attn.k_proj.ia3_l": k},
                      adapter_config={"peft_type": "IA3", "target_modules": ["down_proj", "k_proj"], "feedforward_modules": ["down_proj"]})]
    return ia3


def vectors(folder, wrong):
    return scaled((1, 24), (8, 1), "base_model.model." * (1 + wrong))(folder, wrong)


def prompts(**config):
    def prompt_tuning(folder, _):
        return [write(folder, {"prompt_embeddings": (3, 16)}, adapter_config={"peft_type": "PROMPT_TUNING", "base_model_name_or_path": "org/base"} | config)]
    return prompt_tuning


def magnitudes(folder, wrong):
    """DoRA, which the configuration does not ask for."""
    names = [f"base_model.model.{module}.{member}" for module in PAIRS for member in ("lora_A.weight", "lora_B.weight", "lora_magnitude_vector")]
    shapes = {"A": (4, 16), "B": (24, 4), "m": (24,)}
    return [write(folder, {name: shapes[name.split(".lora_")[1][0]] for name in names},
                  adapter_config={"peft_type": "LORA", "r": 4, "target_modules": ["q_proj", "v_proj"], "use_dora": not wrong})]


LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "vocab_size": 64, "hidden_size": 16,
         "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4}
ENDS = {"model.embed_tokens.weight": (64, 16), "lm_head.weight": (64, 16)}


def layers(*members, prefix="model.layers", shape=(16, 16)):
    return {f"{prefix}.{i}.{member}": shape for i in range(2) for member in members}


def model(wrong, near, options=(), **config):
    """A model, or two: the tensors of the second are those of the near miss, and `near_` words are its configuration."""
    changed = {key.removeprefix("near_"): config.pop(key) for key in list(config) if key.startswith("near_")}

    def model_folder(folder, trips):
        return [*options, write(folder, wrong if trips else near, config=LLAMA | config | ({} if trips else changed))]
    return model_folder


LLAMA_ALL = (ENDS | {"model.norm.weight": (16,)} | layers("input_layernorm.weight", "post_attention_layernorm.weight", shape=(16,))
             | layers("self_attn.k_proj.weight", "self_attn.v_proj.weight", shape=(8, 16)) | layers("self_attn.q_proj.weight", "self_attn.o_proj.weight")
             | layers("mlp.gate_proj.weight", "mlp.up_proj.weight", shape=(24, 16)) | layers("mlp.down_proj.weight", shape=(16, 24)))


LORA_ALL = {f"base_model.model.model.layers.{i}.self_attn.{module}.lora_{half}.weight": shape for i in range(2)
            for module, rows in (("q_proj", 16), ("v_proj", 8)) for half, shape in (("A", (4, 16)), ("B", (rows, 4)))}


def on_base(change, near_by=None, **config):
    """An adapter beside the model that it names; its near miss fits there, or names a model that is not there."""
    def lora_on_base(folder, trips):
        base, own = os.path.join(folder, "base"), os.path.join(folder, "adapter")
        os.mkdir(base)
        os.mkdir(own)
        write(base, LLAMA_ALL, config=LLAMA)
        by = "../base" if trips else near_by or base
        whole = LORA_ALL | {"base_model.model.lm_head.weight": (64, 16)} if "modules_to_save" in config else LORA_ALL
        tensors = change(whole) if trips or near_by else whole
        return [write(own, tensors, adapter_config={"peft_type": "LORA", "r": 4, "target_modules": ["q_proj", "v_proj"],
                                                    "base_model_name_or_path": by, "task_type": "CAUSAL_LM"} | config)]
    return lora_on_base


def renamed(old, new, shape=None):
    return lambda tensors: {name.replace(old, new): shape if shape and old in name else own for name, own in tensors.items()}


def metadata(text, near):
    """The bytes of a value of the metadata of a safetensors file."""
    def of_metadata(folder, trips):
        path = safetensors(os.path.join(folder, "model.safetensors"), format="pt")
        edit(path, lambda data: data.replace(b'"pt"', text if trips else near))
        return [path]
    return of_metadata


def misplaced(folder, trips):
    """The index lists another file for a tensor; without a configuration nobody is known to read both."""
    path = copy("hf/llama-sharded", folder)
    index = os.path.join(path, "model.safetensors.index.json")
    with open(index, encoding="utf-8") as f:
        document = json.load(f)
    if trips:
        names = sorted(set(document["weight_map"].values()))
        tensor = next(n for n, file in document["weight_map"].items() if file == names[0])
        document["weight_map"][tensor] = names[1]
    with open(index, "w", encoding="utf-8") as f:
        json.dump(document, f)
    return [path]


def listed(folder, trips):
    """The index lists a tensor that no file has, and that the model does not have either."""
    path = copy("hf/llama-sharded", folder)
    index = os.path.join(path, "model.safetensors.index.json")
    with open(index, encoding="utf-8") as f:
        document = json.load(f)
    document["weight_map"] |= {"nothing.weight": next(iter(document["weight_map"].values()))} if trips else {}
    with open(index, "w", encoding="utf-8") as f:
        json.dump(document, f)
    return [path]


def header_alone(near):
    """A model that a library saved without any tensor."""
    def no_tensor(folder, trips):
        path = os.path.join(folder, "model.safetensors")
        text = b'{"__metadata__":{"format":"pt"}}' if trips else near
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + bytes(0 if trips else 4))
        return [path]
    return no_tensor


def objects(folder, trips):
    """Of an object that two ranks have, one part is stored."""
    path = copy("megatron/common-inside", folder)
    if trips:
        edit(os.path.join(path, ".metadata"), lambda data: data.replace(b"common_state/shard_0_1", b"common_state/shard_0_2"))
    return [path]


def cut_beside(sample, name, *others):
    """A part of the training state whose end is gone, beside others."""
    def cut_part(folder, trips):
        path = os.path.join(copy(sample, folder), name)
        for part in (path, *(os.path.join(os.path.dirname(path), other) for other in others)):
            torch_zip(part, {"state": {0: {"exp_avg": Tensor(Storage("0", 6), (6,), (1,))}}, "param_groups": [{"params": [0]}]}, {"0": 6})
        if trips:
            edit(path, lambda data: data[:-30])
        return [path.removesuffix("/" + name)]
    return cut_part


def empty(name):
    def without_tensors(folder, trips):
        return [torch_zip(os.path.join(folder, name), {} if trips else {"a": Tensor(Storage("0", 6), (6,), (1,))}, {} if trips else {"0": 6})]
    return without_tensors


def without(sample, file, *options):
    """A copy of a sample without a file, which its own loader needs."""
    def without_file(folder, trips):
        path = copy(sample, folder)
        if trips:
            os.remove(os.path.join(path, file))
        return [*options, path]
    return without_file


FP8 = ENDS | layers("mlp.up_proj.weight", shape=("F8_E4M3", (16, 16)))
SCALED = FP8 | layers("mlp.up_proj.weight_scale", shape=(1,))
BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128]}
MODULE = "self_attn.q_proj"
MEMBERS = ("mlp.gate.weight", "self_attn.q_proj.weight")


def routed(experts, rows=4):
    return ENDS | layers("mlp.gate.weight", shape=(rows, 16)) | layers(*(f"mlp.experts.{i}.up_proj.weight" for i in range(experts)))


VIT = {"architectures": ["ViTForImageClassification"], "model_type": "vit", "hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1,
       "num_attention_heads": 1, "image_size": 4, "patch_size": 2}
SAVED_NAMES = {"attention.o_proj": "attention.output.dense", "attention.q_proj": "attention.attention.query", "attention.k_proj": "attention.attention.key",
                "attention.v_proj": "attention.attention.value", "mlp.fc1": "intermediate.dense", "mlp.fc2": "output.dense"}


def vit(layer, names):
    """A ViT of one layer: with the names that transformers 5 has in memory, or by `names` with those that it saves."""
    tensors = {"vit.embeddings.cls_token": (1, 1, 4), "vit.embeddings.position_embeddings": (1, 5, 4),
               "vit.embeddings.patch_embeddings.projection.weight": (4, 3, 2, 2), "vit.embeddings.patch_embeddings.projection.bias": (4,)}
    modules = {layer + names.get(name, name): shape for name, shape in {**{f"attention.{which}_proj": (4, 4) for which in "qkvo"}, "mlp.fc1": (8, 4),
               "mlp.fc2": (4, 8), "layernorm_before": (4,), "layernorm_after": (4,)}.items()} | {"vit.layernorm": (4,), "classifier": (2, 4)}
    return tensors | {f"{name}.weight": shape for name, shape in modules.items()} | {f"{name}.bias": shape[:1] for name, shape in modules.items()}


def unmerged(first, second, weight):
    """LoRA inside of a model; in the near miss it is only called so."""
    tensors = {f"{MODULE}.{first}": (16, 4), f"{MODULE}.{second}": (4, 16), f"{MODULE}.{weight}": (16, 16)}
    wrong = ENDS | {name: shape for member, shape in tensors.items() for name in layers(member)}
    return model(wrong, {name.replace("lora_", "low_rank_"): shape for name, shape in wrong.items()})


def rounded(folder, wrong):
    """Steps of an optimizer in bfloat16 or float32."""
    step = Tensor(Storage("0", 1), (), ())
    path = torch_zip(os.path.join(folder, "optimizer.pt"), {"state": {i: {"step": step} for i in range(2)}, "param_groups": [{"params": [0, 1]}]}, {"0": 1})
    if wrong:
        edit_pickle(path, lambda data: data.replace(b"FloatStorage", b"BFloat16Storage"))
    return [path]


def rounded_beside(folder, wrong):
    rounded(folder, wrong)
    os.rename(os.path.join(folder, "optimizer.pt"), os.path.join(folder, "optimizer_state_dict.pt"))
    return [write(folder, ENDS, config=LLAMA)]


def scheduled(name, count, near):
    """A scheduler in a file of its own, beside shards of step 100."""
    def other_scheduler(folder, wrong):
        path = os.path.join(folder, "global_step_100")
        os.rename(copy("dcp/views/checkpoint", folder), path)
        torch_zip(os.path.join(path, name), {"last_epoch": count if wrong else near}, {})
        return [path]
    return other_scheduler


def stages(folder, wrong):
    """The layers of the first stage of a pipeline in the place of those of the second."""
    path = copy("megatron/legacy-tp2-pp2", folder)
    for rank in range(2) if wrong else ():
        files = [os.path.join(path, f"iter_0000500/mp_rank_{rank:02}_{stage:03}/model_optim_rng.pt") for stage in range(2)]
        first, second = ({info.filename: archive.read(info) for info in archive.infolist()} for archive in map(zipfile.ZipFile, files))
        with zipfile.ZipFile(files[1], "w", zipfile.ZIP_STORED) as archive:
            for name, data in second.items():
                key = re.search("/data/([0-6])$", name)
                archive.writestr(name, first[f"model_optim_rng/data/{int(key[1]) + 1}"] if key else data)
    return ["--data", "--values", path]


def other_save(name):
    """A data file of that save; in the near miss its own, without the end."""
    def swapped(folder, wrong):
        path = copy("runs/dcp-half-written/run/step-20", folder)
        file = os.path.join(path, "__1_0.distcp")
        if wrong:
            shutil.copy(os.path.join(TESTDATA, name, "__1_0.distcp"), file)
        else:
            os.truncate(file, os.path.getsize(file) - 900)
        return [path]
    return swapped


def other_shard(folder, wrong):
    """One shard under the name of another, or all under their own."""
    path = copy("hf/llama-sharded", folder)
    second, fourth = (os.path.join(path, f"model-0000{number}-of-00005.safetensors") for number in (2, 4))
    if wrong:
        shutil.copy(second, fourth)
    return [path]


def stale_shard(folder, wrong):
    """A shard of a save with six files beside one of five, or a file with another stem."""
    path = copy("hf/llama-sharded", folder)
    shutil.copy(os.path.join(path, "model-00001-of-00005.safetensors"), os.path.join(path, f"{'model' if wrong else 'other'}-00001-of-00006.safetensors"))
    return [path]


def moved(folder, wrong):
    path = os.path.join(folder, "run", "checkpoint-4")
    os.makedirs(path)
    write(path, ENDS, config=LLAMA, trainer_state={"global_step": 4, "best_model_checkpoint": "/scratch/old/checkpoint-2" if wrong else "/scratch/run/checkpoint-2"})
    for name in ("optimizer.pt", "scheduler.pt"):
        torch_zip(os.path.join(path, name), {"state": {}, "param_groups": [{"params": [0]}]} if "opt" in name else {"last_epoch": 4}, {})
    torch_zip(os.path.join(path, "rng_state.pth"), {"python": [3]}, {})
    return [path]


def without_optimizer(folder, wrong):
    path = os.path.join(folder, "global_step1")
    os.mkdir(path)
    tensor = Tensor(Storage("0", 6), (2, 3), (3, 1))
    states = {"state": {0: {"exp_avg": tensor}}, "param_groups": [{"params": [0]}]}
    torch_zip(os.path.join(path, "mp_rank_00_model_states.pt"), {"module": {"a.weight": tensor}, "optimizer": None if wrong else states,
              "dp_world_size": 1, "mp_world_size": 1}, {"0": 6})
    return [path]


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


def state_without(part, *others):
    """A state of accelerate without a part; files show that the run had it, or in the near miss do not."""
    def saved_state(folder, trips):
        path = write(folder, ENDS)
        group = {"params": [0], "lr": 0.1} | ({"initial_lr": 0.1} if trips else {})
        contents = {"optimizer.bin": {"state": {}, "param_groups": [group]}, "scheduler.bin": {"last_epoch": 4}, "random_states_0.pkl": {"step": 4}}
        for name in {"optimizer.bin", "scheduler.bin", "random_states_0.pkl"} - {part} - (set() if trips else set(others)):
            torch_zip(os.path.join(path, name), contents[name], {})
        return [path]
    return saved_state


def resumed(name=None, data=LFS):
    """A checkpoint of Trainer, or of accelerate if the file is one of its; one file is something else."""
    def run(folder):
        path = write(folder, LLAMA_ALL, config=LLAMA, trainer_state={"global_step": 4})
        names = ("optimizer.bin", "scheduler.bin", "random_states_0.pkl") if name and name.endswith((".bin", ".pkl")) else ("optimizer.pt", "scheduler.pt", "rng_state.pth")
        for part in names:
            torch_zip(os.path.join(path, part), {"state": {}, "param_groups": []}, {})
        if name:
            with open(os.path.join(path, name), "wb") as f:
                f.write(data)
        return path
    return run


def stepped(*more):
    """A state of accelerate after a step; a moment has the shape of no weight."""
    def run(folder, trips):
        path, size = write(folder, LLAMA_ALL), 17 if trips else 16
        moment = Tensor(Storage("0", size), (size,), (1,))
        torch_zip(os.path.join(path, "optimizer.bin"), {"state": {0: {"exp_avg": moment}}, "param_groups": [{"lr": 0.5, "params": [0]}]}, {"0": size})
        for name in ("scheduler.bin", *more):
            torch_zip(os.path.join(path, name), {"last_epoch": 1}, {})
        return [path]
    return run


def downloaded_twice(folder):
    path = write(folder, LLAMA_ALL, config=LLAMA)
    os.rename(os.path.join(path, "model.safetensors"), os.path.join(path, "model (1).safetensors"))
    return path


def downloaded_thrice(folder):
    """Which of the two is meant is not known."""
    path = downloaded_twice(folder)
    shutil.copy(os.path.join(path, "model (1).safetensors"), os.path.join(path, "model (2).safetensors"))
    return path


def stood_in(data):
    """A DCP directory whose metadata is something else; the near miss is the metadata."""
    def run(folder, trips):
        path = copy("dcp/fsdp2-w4-small/checkpoint", folder)
        if trips:
            edit(os.path.join(path, ".metadata"), lambda _: data)
        return [path]
    return run


def sharded(folder):
    """The second shard is a pointer of Git LFS."""
    path = copy("hf/llama-sharded", folder)
    name = sorted(n for n in os.listdir(path) if n.endswith(".safetensors"))[1]
    edit(os.path.join(path, name), lambda _: LFS)
    return path


def zeros(name, dtype):
    """A packed weight without any bit set; in the near miss one bit is."""
    def dead(folder, wrong):
        path = write(folder, {name: (dtype, (4, 16))}, config={"quantization_config": {"quant_method": "bitnet"}})
        file = os.path.join(path, "model.safetensors")
        with open(file, "rb") as f:
            data = f.read()
        size = 64 * ITEM_BYTES[dtype]
        with open(file, "wb") as f:
            f.write(data[:-size] + bytes(size - 1) + (b"\0" if wrong else b"\1"))
        return ["--data", "--values", path]
    return dead


HEADS = ("lm_head", "embed_out", "output", "output_layer", "proj_out", "ff_out")
EMBEDDINGS = ("embed_tokens", "wte", "word_embeddings", "embed_in", "shared", "tok_embeddings", "embedding")

# rule, severity, and what makes a sample and its near miss
def bare(wrong, near):
    """A pickle by itself."""
    def bare_pickle(folder, trips):
        path = os.path.join(folder, "model.pkl")
        with open(path, "wb") as f:
            f.write(b"\x80\x02" + (wrong if trips else near) + b".")
        return [path]
    return bare_pickle


def tokens(name, last, near):
    """A tokenizer whose last token has that number, beside an embedding of 64 rows."""
    def with_tokens(folder, trips):
        def token(text, number):
            return {"tokenizer": {"added_tokens": [{"id": number, "content": text}], "model": {"vocab": {"a": 0, "b": 63}}},
                    "tokenizer_config": {"added_tokens_decoder": {"1": {"content": "a"}, str(number): {"content": text}}},
                    "added_tokens": {text: number}}[name]
        return [write(folder, LLAMA_ALL, config=LLAMA, **{name: token(*(last if trips else near))})]
    return with_tokens


VERL = [f"{kind}_world_size_2_rank_{rank}.pt" for kind in ("model", "optim") for rank in range(2)]
ACCELERATE = ["scheduler.bin", "random_states_0.pkl", "random_states_1.pkl", "pytorch_model_fsdp.bin"]
TRAINER = ["trainer_state.json", "scheduler.pt", "rng_state_0.pth", "rng_state_1.pth"]

ROWS = [
    ("FI1029", "error", other_save("demo/step-1234")), ("FI1060", "error", other_shard), ("FI1007", "warning", stale_shard),
    ("FI1008", "error", gone("meta/consolidated-mp2", "consolidated.01.pth", "params.json")), ("FI1008", "error", last_rank),
    ("FI5007", "error", files(*VERL, "extra_state_world_size_2_rank_0.pt", near=VERL)),
    ("FI5007", "error", files(*ACCELERATE, near=ACCELERATE[1:])),
    ("FI5007", "error", files(*TRAINER, "pytorch_model_fsdp.bin", near=[*TRAINER, "pytorch_model_fsdp.bin", "optimizer.bin"])),
    ("FI5007", "error", files(*TRAINER[:2], "pytorch_model_fsdp.bin", near=[*TRAINER, "pytorch_model_fsdp.bin", "optimizer.pt"])),
    ("FI5007", "error", files(*TRAINER, "pytorch_model.bin", "optimizer.bin", near=[*TRAINER, "pytorch_model.bin", "optimizer.pt"])),
    ("FI1070", "error", gone("deepspeed/zero0-tp2-w2", "global_step1/mp_rank_01_model_states.pt", "latest")),
    ("FI1070", "error", gone("deepspeed/zero1-tp2-w4", "global_step1/mp_rank_01_model_states.pt", "latest")),
    *(("FI1001", "error", gone("deepspeed/moe-w2", f"global_step3/layer_0_expert_{i}_mp_rank_00_model_states.pt", "latest")) for i in (0, 2, 3)),
    *(("FI1001", "error", gone("deepspeed/moe-w2", f"global_step3/expp_rank_{i}_mp_rank_00_optim_states.pt", "latest")) for i in (0, 1)),
    *(("FI1001", "error", gone("deepspeed/pipeline-w2", f"global_step0/layer_0{i}-model_states.pt", "latest")) for i in (0, 1)),
    ("FI1003", "error", no_meta), ("FI1008", "error", relatives_alone), ("FI1010", "warning", other_step), ("FI1010", "note", next_step), ("FI1010", "warning", no_step),
    *(("FI1010", "warning", counted(word)) for word in ("step", "iter", "epoch", "update", "batch")),
    ("FI1023", "error", shards), ("FI1032", "error", local_parts),
    ("FI1033", "error", relatives), ("FI1071", "error", flat_parts), ("FI1081", "warning", cast_buffer), ("FI1043", "error", storages), ("FI1044", "error", views),
    ("FI1047", "error", legacy), ("FI2005", "error", sums), ("FI2005", "error", downloaded), *(("FI3001", "error", beside(name)) for name in ("a.pkl", "a.PKL", ".pkl", "a.pkl!b")), ("FI3018", "warning", bare(b"cmine.net\nNet\n)\x81}b", b"ctorch.nn.modules.linear\nLinear\n)\x81}b")),
    ("FI3018", "warning", bare(b"comegaconfig\nDictConfig\n)\x81}b", b"comegaconf.dictconfig\nDictConfig\n)\x81}b")),
    ("FI3002", "error", bare(b"cmine.net\nmake\n(U\x01xtR", b"cmine.net\nMode\n(U\x01xtR")), ("FI3010", "error", bare(b"K\x01K\x01K\x02s", b"cmine\nNet\n)\x81K\x01K\x02s")),
    ("FI3046", "warning", compressed), ("FI3067", "warning", names), ("FI3067", "error", zip_names),
    ("FI4010", "note", byte_order), *(("FI4010", "warning", tagged(tag)) for tag in ("pt", "tf", "flax", "np", "mlx", "paddle", "jax")), ("FI5005", "error", groups_gap), ("FI5005", "error", groups_lack), ("FI5005", "note", groups_of_addresses), ("FI5005", "error", groups_twice),
    ("FI5001", "warning", adams({}, of=(0, 1, 3))), ("FI5001", "warning", adams({"of": (0, 1)}, of=(0, 1, 3))), ("FI5001", "warning", adams({"of": ()}, of=(0, 1, 3))),
    ("FI5001", "warning", adams(NAMED, of=(0, 1, 3), **NAMED)), ("FI5001", "warning", adams(NAMED | {"flat": True}, of=(0, 1, 3), flat=True, **NAMED)),
    ("FI5004", "warning", adams({}, keys=MOMENTS)), ("FI5004", "warning", adams({"keys": MOMENTS[:1]}, keys=MOMENTS)),
    ("FI5004", "warning", adams({"keys": MOMENTS, "step": 5}, keys=MOMENTS)), ("FI5004", "warning", adams(NAMED | {"flat": True}, keys=MOMENTS, flat=True, **NAMED)),
    ("FI5003", "error", adams({"model": True}, model=True, shape=(4,))), ("FI5003", "error", adams({"model": True, "shape": (4, 2)}, model=True, shape=(4,))),
    ("FI5003", "error", adams({"model": True, "shape": (24,), "of": (0,)}, model=True, shape=(4,))),
    ("FI5003", "error", adams({"model": (2, 3), "shape": (12,)}, model=True, shape=(4,))),  # FSDP1 flattens
    ("FI5008", "error", moments), ("FI6003", "error", merged_shapes), ("FI6004", "error", merged_values),
    *(("FI1044", "error", impossible(*view)) for view in IMPOSSIBLE),
    ("FI1013", "error", stepped("random_states_0.pkl")), ("FI1013", "error", stepped()), ("FI4001", "error", stood_in(LFS)),
    ("FI4001", "error", stood_in(b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>")),
    ("FI5007", "warning", state_without("scheduler.bin")), ("FI5007", "error", state_without("optimizer.bin", "scheduler.bin")),
    ("FI1013", "error", model({n: shape for n, shape in vit("vit.encoder.layer.0.", SAVED_NAMES).items() if n != "vit.layernorm.bias"}, vit("vit.layers.0.", {}), **VIT)),
    ("FI1013", "error", model({n: LLAMA_ALL[n] for n in LLAMA_ALL if n != "model.norm.weight"}, LLAMA_ALL)),
    ("FI1013", "error", model({n: LLAMA_ALL[n] for n in LLAMA_ALL if n != "model.norm.weight"}, LLAMA_ALL | {"extra": (2,)})),
    ("FI1013", "error", without("deepspeed/zero2-w2", "latest")), ("FI1001", "warning", without("hf/llama-sharded", "config.json")),
    ("FI1013", "warning", adapter(target_modules=["q_proj"])), ("FI1013", "warning", magnitudes), ("FI4002", "error", vectors),
    ("FI1013", "error", on_base(renamed("layers.1.", "layers.7."))), ("FI1013", "error", on_base(renamed("lora_A", "lora_A", (4, 32)))),
    ("FI1013", "error", on_base(renamed("lora_A", "lora_A", (4, 32)), near_by="../other")),
    ("FI1013", "error", on_base(renamed("lm_head.weight", "lm_head.0.weight"), modules_to_save=["lm_head"])),
    ("FI1013", "error", on_base(renamed("lm_head", "lm_head", (68, 16)), modules_to_save=["lm_head"])),
    *(("FI1013", "error", on_base(lambda t, by=by: renamed("lm_head.weight", f"lm_head.{by}.weight")(t), modules_to_save=["lm_head"])) for by in ("default", "modules_to_save")),
    ("FI1091", "note", model(LLAMA_ALL, {n: ("BF16", s) for n, s in LLAMA_ALL.items()}, dtype="bfloat16")),
    ("FI1091", "note", model(LLAMA_ALL, LLAMA_ALL, torch_dtype="float16", near_torch_dtype="float32")),
    *(("FI1091", "error", empty(name)) for name in ("model.pt", "pytorch_model.bin")),
    ("FI1051", "error", metadata(b'"p\xff"', b'"\xc2\xb5"')), ("FI1061", "warning", misplaced),
    ("FI1091", "error", header_alone(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}')), ("FI1073", "error", objects),
    ("FI1040", "error", cut_beside("megatron/legacy-tp2-pp2", "iter_0000500/mp_rank_00_000/distrib_optim.pt")),
    *(("FI1040", "error", cut_beside("hf/llama-sharded", name)) for name in ("optimizer_state_dict.pt", "lr_scheduler.pt", "distrib_optim.pt")),
    ("FI1091", "error", adapter(count=0)), ("FI4002", "error", adapter(prefix="base_model.model." * 2)), ("FI4002", "error", adapter(prefix="")),
    ("FI4002", "error", adapter(strip="model.", near={"task_type": "CAUSAL_LM"}, task_type="CAUSAL_LM")),
    ("FI4002", "error", adapter(strip="model.", near={"strip": "model.", "task_type": "FEATURE_EXTRACTION"}, task_type="CAUSAL_LM")),
    ("FI4005", "error", adapter(first=(32,), second=(48,))), ("FI4005", "error", adapter(first=(32,))),
    ("FI1091", "error", adapter(first=(16, 4), second=(4, 24))), ("FI1091", "error", adapter(first=(8, 16), second=(24, 8), near={"first": (8, 16), "second": (24, 8), "r": 8})),
    ("FI1094", "error", adapter(first=(2, 16))), ("FI1094", "error", adapter(second=(24, 1), near={"first": (4, 4), "second": (4, 4)})),
    ("FI1091", "error", model(SCALED, FP8)), ("FI1091", "error", model(SCALED, SCALED, near_quantization_config={"quant_method": "fp8"})),
    ("FI1091", "error", model(SCALED, SCALED, quantization_config=BLOCKS, near_quantization_config={"quant_method": "fp8"})),
    ("FI1095", "warning", model({n: ENDS[n] for n in ENDS if "head" in n} | layers(MODULE + ".weight"), ENDS | layers(MODULE + ".weight"))),
    ("FI1095", "warning", model({n: ENDS[n] for n in ENDS if "head" in n} | layers(MODULE + ".weight"), {n: ENDS[n] for n in ENDS if "head" in n} | layers(MODULE + ".weight"), near_tie_word_embeddings=True)),
    ("FI1095", "warning", model({n: ENDS[n] for n in ENDS if "head" in n} | layers(MODULE + ".weight"), {"lm_head.weight": (64, 16), "tokens": (64, 16)} | layers(MODULE + ".weight"))),
    ("FI1091", "error", model(routed(2), routed(4), num_experts=2, near_num_experts=4)), ("FI1091", "error", model(routed(2), routed(2, 2), num_experts=2)),
    ("FI1091", "error", model(routed(2), routed(4), num_experts=4)), ("FI1091", "error", model(routed(2), routed(2), num_experts=2, near_zero_expert_num=2)),
    ("FI1091", "error", model(LLAMA_ALL, LLAMA_ALL, vocab_size=60, near_vocab_size=64)),
    *(("FI1091", "error", tokens(name, ("<pad>", 64), ("<pad>", 63))) for name in ("tokenizer", "tokenizer_config", "added_tokens")),
    # As the models for text of a family have the tokens for its images.
    ("FI1091", "note", tokens("tokenizer", ("<image_soft_token>", 64), ("<image_soft_token>", 63))),
    ("FI3007", "error", bare(b"ctorch._dynamo.decorators\n_DimRange\n(K\x01tR", b"ctorch._dynamo.decorators\n_DimRange\n)\x81](K\x01K\x02K\x03eb")),
    ("FI4002", "warning", model(ENDS | layers(*MEMBERS, prefix="model.text.layers") | layers("mlp.experts.down_proj"),
                                ENDS | layers(*MEMBERS, prefix="model.text.layers") | layers("mlp.experts.down_proj", prefix="other.layers"))),
    ("FI4002", "warning", model(ENDS | layers(*MEMBERS, prefix="model.text.layers") | layers("mlp.gate.bias"),
                                ENDS | layers(*MEMBERS, prefix="model.text.layers") | layers(*MEMBERS))),
    ("FI4002", "warning", model(ENDS | layers(*MEMBERS, prefix="model.language_model.model.layers"), ENDS | layers(*MEMBERS, prefix="model.language_model.layers"))),
    ("FI4002", "warning", unmerged("lora_a", "lora_b", "linear.weight")), ("FI4002", "warning", unmerged("lora_A.default.weight", "lora_B.default.weight", "base_layer.weight")),
    ("FI5004", "warning", rounded), ("FI5004", "warning", rounded_beside),
    *(("FI1010", "warning", scheduled(name, 200, near)) for name in ("lr_scheduler.pt", "scheduler.pt") for near in (3, 100, 101)), ("FI5007", "note", without_optimizer), ("FI5007", "note", moved), ("FI2012", "warning", stages), *(("FI2011", "error", zeros(f"a.{name}", dtype)) for name, dtype in (("weight", "U8"), ("weight", "I8"), ("qweight", "I32"), ("weight_packed", "U8"))),
    *(("FI1095", "warning", tied(f"{name}.weight", "wte.weight")) for name in HEADS),
    *(("FI1095", "warning", tied("lm_head.weight", f"{name}.weight")) for name in EMBEDDINGS),
]


def emptied(name, bias=True, shape=(0,), **config):
    """A parameter of which nothing is there, beside others."""
    def emptied_weight(folder):
        tensors = {"b.weight": Tensor(Storage("0", 6), (2, 3), (3, 1)), "a.weight": Tensor(Storage("1", 0), shape, shape[1:] + (1,))}
        if bias:
            tensors["a.bias"] = Tensor(Storage("0", 6), (2,), (1,))
        if config:
            with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
                json.dump(config, f)
        torch_zip(os.path.join(folder, name), tensors, {"0": 6, "1": 0})
        return folder if config else os.path.join(folder, name)
    return emptied_weight


def always(make):
    def sample(folder):
        return make(folder, True)[0]
    return sample


# rule, what makes a sample, the next step that is printed; {} is the sample
CURES = [
    # torch looks for the names that protocol 2 has, and puts only classes on its list.
    *(("FI3003", always(bare(b"}U\x01a" + value + b"s", b"")), fix) for value, fix in (
        (b"cexceptions\nValueError\n)R", "torch.load(..., weights_only=False), if you trust its source"), (b"c__builtin__\nEllipsis\n", "torch.load(..., weights_only=False), if you trust its source"),
        (b"c__builtin__\nslice\nK\x01K\x02N\x87R", "import torch, builtins; torch.serialization.add_safe_globals([builtins.slice])"))),
    ("FI1013", downloaded_twice, "rename model (1).safetensors to model.safetensors"),
    ("FI1013", downloaded_thrice, None), ("FI4001", always(stood_in(LFS)), "git lfs pull"),
    ("FI1091", always(adapter(first=(16, 4), second=(4, 24))), "save each of them transposed"),
    ("FI1091", always(adapter(first=(8, 16), second=(24, 4), enable_lora=[True, False])),
     "load it with a PEFT release before 0.3, and merge it into its base there"),
    ("FI1091", always(adapter(first=(8, 16), second=(24, 8))), "set r to 8 in adapter_config.json and check lora_alpha, or copy the weights of the run that has r = 4"),
    # The other side of lora_B has as many rows as the configuration has ranks, by chance.
    ("FI1091", always(adapter(second=(8, 4), r=8)), "set r to 4 in adapter_config.json and check lora_alpha, or copy the weights of the run that has r = 8"),
    ("FI1091", always(model(SCALED, FP8)), "copy quantization_config into config.json from the quantized model that it was made from"),
    ("FI1091", always(model(LLAMA_ALL, {}, vocab_size=60)), "set vocab_size to 64 in config.json"),
    ("FI4002", always(adapter(prefix="base_model.model." * 2)), 'remove one "base_model.model." from the names'),
    ("FI1091", always(tokens("tokenizer", ("<pad>", 66), ())), "model.resize_token_embeddings(67), train the new rows, save again"),
    *(("FI1040", always(cut_beside("hf/llama-sharded", *names)), f"copy this file again{end}") for names, end in (
        (["rng_state.pth"], ", or delete it: the trainer then draws other random numbers"), (["training_args.bin"], ""), (["scheduler.pt"], ""),
        (["scheduler.pt", "optimizer.pt"], ", or delete it: the trainer then begins with a new schedule and new states of the optimizer"))),
    ("FI4004", emptied("model.pt"), "gather the parameters before saving"),
    ("FI4004", emptied("pytorch_model.bin", model_type="x"),
     "gather the parameters before saving; with ZeRO-3, set stage3_gather_16bit_weights_on_model_save"),
    ("FI4004", emptied("model.pt", bias=False), None),
    # As LW-DETR builds modules of size 0.
    ("FI4004", emptied("pytorch_model.bin", bias=False, shape=(0, 3), model_type="x"), None),
]


QWEN = {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "moe_intermediate_size": 8, "num_experts": 4}
FUSED = (ENDS | {"model.norm.weight": (16,)} | layers("input_layernorm.weight", "post_attention_layernorm.weight", shape=(16,))
         | layers("self_attn.k_norm.weight", "self_attn.q_norm.weight", shape=(4,)) | layers("self_attn.k_proj.weight", "self_attn.v_proj.weight", shape=(8, 16))
         | layers("self_attn.q_proj.weight", "self_attn.o_proj.weight") | layers("mlp.gate.weight", shape=(4, 16))
         | layers("mlp.experts.down_proj", shape=(4, 16, 8)) | layers("mlp.experts.gate_up_proj", shape=(4, 16, 16)))

WHOLE = ({name: shape for name, shape in FUSED.items() if ".experts." not in name and "_norm" not in name and "mlp.gate." not in name}
         | layers("mlp.gate_proj.weight", "mlp.up_proj.weight", shape=("F8_E4M3", (24, 16))) | layers("mlp.down_proj.weight", shape=("F8_E4M3", (16, 24))))
SCALES = layers("mlp.gate_proj.weight_scale", shape=(1,))

def with_gap(folder):
    path = copy("broken/dcp-chunk-gap/checkpoint", folder)
    shutil.copy(os.path.join(TESTDATA, "megatron/common-inside/metadata.json"), path)
    return path


def cut_pickle(folder):
    """Of a class whose names are not known, as transformers saved it, without its second half."""
    write(folder, {}, config=LLAMA | {"model_type": "mine"})
    os.remove(os.path.join(folder, "model.safetensors"))
    with open(os.path.join(TESTDATA, "torch-zip/state-dict/model.pt"), "rb") as f:
        data = f.read()
    with open(os.path.join(folder, "pytorch_model.bin"), "wb") as f:
        f.write(data[:len(data) // 2])
    return folder


def stream(dtype, storage="UntypedStorage"):
    """A tensor as torch.save writes it without a zip; the class of its storage has a type only if the name says one."""
    def old_form(folder):
        path = os.path.join(folder, "model.pt")
        data = b"ctorch._utils\n_rebuild_tensor_v3\n((U\x07storagectorch%s\n%s\nU\x010U\x03cpuK\x04NtQK\x00K\x04\x85K\x01\x85\x89ccollections\nOrderedDict\n)Rctorch\n%s\ntR." % (
            b".storage" if storage == "UntypedStorage" else b"", storage.encode(), dtype.encode())
        with open(path, "wb") as f:
            for part in 0x1950a86a20f9469cfc6c, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}:
                f.write(pickle.dumps(part, 2))
            f.write(b"\x80\x02}U\x01w" + data[:-1] + b"s." + pickle.dumps(["0"], 2) + struct.pack("<q", 4) + bytes(4))
        return path
    return old_form


# what vLLM does with a model of these tensors and settings, or an adapter of these
VLLM_MODELS = [
    ("loads", LLAMA_ALL, {}), ("loads", LLAMA_ALL | layers("mlp.up_proj.bias", shape=(24,)), {}),
    ("refuses", LLAMA_ALL | {"model.more.weight": (1,)}, {}), ("refuses", {f"_orig_mod.{n}": s for n, s in LLAMA_ALL.items()}, {}),
    ("refuses", LLAMA_ALL | {n: (72, 16) for n in ENDS}, {}), ("refuses", LLAMA_ALL | {"model.layers.1.self_attn.q_proj.weight": (15, 16)}, {}),
    ("not_judged", LLAMA_ALL | {"model.layers.1.self_attn.q_proj.weight": (32, 16)}, {}), ("not_judged", LLAMA_ALL, {"architectures": ["MineForCausalLM"]}),
    ("differs", {n: s for n, s in LLAMA_ALL.items() if n != "model.layers.1.self_attn.q_proj.weight"}, {}), ("differs", LLAMA_ALL, {"dtype": "float32"}),
    ("refuses", {n: s for n, s in LLAMA_ALL.items() if n != "model.norm.weight"}, {}), ("differs", LLAMA_ALL, {"tie_word_embeddings": True}),
    ("loads", {n: s for n, s in LLAMA_ALL.items() if n != "lm_head.weight"}, {"tie_word_embeddings": True}),
    ("refuses", {n: s for n, s in LLAMA_ALL.items() if n != "model.embed_tokens.weight"}, {"tie_word_embeddings": True}),
]
PACKED = {n.replace("_proj.weight", "_proj.qweight") if ".mlp." in n else n: s for n, s in LLAMA_ALL.items()}
VLLM_MODELS += [
    ("refuses", LLAMA_ALL, {"quantization_config": {"quant_method": "gptq", "bits": 4}}), ("not_judged", PACKED, {"quantization_config": {"quant_method": "gptq", "bits": 4}}),
    ("not_judged", LLAMA_ALL, {"quantization_config": {"quant_method": "fp8"}}),
]
VLLM_ADAPTERS = [
    ("not_judged", {"lora_alpha": 8}), ("refuses", {}), ("refuses", {"lora_alpha": 8, "use_dora": True}), ("refuses", {"lora_alpha": 8, "bias": "all"}),
    ("refuses", {"lora_alpha": 8, "init_lora_weights": "pissa"}), ("not_judged", {"lora_alpha": 8, "init_lora_weights": "gaussian"}),
    ("refuses", {"lora_alpha": 8, "modules_to_save": ["lm_head"]}), ("not_judged", {"lora_alpha": 8, "modules_to_save": ["score"]}),
    ("refuses", {"lora_alpha": 8, "rank_pattern": {"q_proj": 17}}), ("not_judged", {"lora_alpha": 8, "rank_pattern": {"q_proj": 16}}),
]
# the same of SGLang
MORE, DEEPER = LLAMA_ALL | layers("self_attn.x.q_proj.weight", shape=(1,)), LLAMA_ALL | {"model.layers.9.self_attn.q_proj.weight": (16, 16)}
BARE = {n.removeprefix("model."): s for n, s in LLAMA_ALL.items()}
SGLANG_MODELS = [
    ("loads", LLAMA_ALL, {"dtype": "bfloat16"}), ("differs", LLAMA_ALL, {"dtype": None, "torch_dtype": None}), ("differs", LLAMA_ALL, {"dtype": "float32"}), ("loads", MORE, {"dtype": "bfloat16"}),
    *(("refuses", MORE, {"architectures": [name], "dtype": "bfloat16"}) for name in ("Qwen3ForCausalLM", "GraniteForCausalLM")),
    ("loads", LLAMA_ALL | {"model.more.weight": (1,)}, {"architectures": ["Qwen3ForCausalLM"], "dtype": "bfloat16"}),
    ("loads", DEEPER, {"architectures": ["Qwen3ForCausalLM"], "dtype": "bfloat16"}), ("refuses", DEEPER, {"architectures": ["GraniteForCausalLM"], "dtype": "bfloat16"}),
    ("differs", {f"_orig_mod.{n}": s for n, s in LLAMA_ALL.items()}, {}), ("differs", BARE, {}), ("not_judged", BARE, {"architectures": ["Qwen3ForCausalLM"]}),
    ("differs", {n: s for n, s in LLAMA_ALL.items() if n != "model.norm.weight"}, {}), ("refuses", LLAMA_ALL | {n: (72, 16) for n in ENDS}, {}),
    ("differs", {n: s for n, s in LLAMA_ALL.items() if n != "model.embed_tokens.weight"}, {"tie_word_embeddings": True}),
    ("not_judged", LLAMA_ALL, {"quantization_config": {"quant_method": "gptq", "bits": 4}}), ("not_judged", LLAMA_ALL, {"architectures": ["MineForCausalLM"]}),
]
# what makes a sample, the loader, what it does with it
LOADS = [
    *((always(model(tensors, {}, **config)), ["--for=sglang", "--data"], wanted) for wanted, tensors, config in SGLANG_MODELS),
    *((always(adapter(**config)), ["--for=sglang"], wanted) for wanted, config in (("not_judged", {"lora_alpha": 8}), ("refuses", {}), ("refuses", {"lora_alpha": 8, "use_dora": True}))),
    *((always(model(tensors, {}, **config)), ["--for=vllm", "--data"], wanted) for wanted, tensors, config in VLLM_MODELS),
    *((always(adapter(**config)), ["--for=vllm"], wanted) for wanted, config in VLLM_ADAPTERS),
    (always(adapter(lora_alpha=8, rank_pattern={"q_proj": 17})), ["--for=vllm", "--loader-option=max_lora_rank=32"], "not_judged"),
    (always(on_base(renamed("lora_A", "lora_A.default"), lora_alpha=8)), ["--for=vllm"], "refuses"),
    (always(model(FUSED, {}, **QWEN)), ["--for=hf"], "loads"), (always(model(FUSED, {}, **QWEN)), ["--for=hf", "--loader-version=4.57"], "differs"),
    (always(model({n: s for n, s in FUSED.items() if n != "model.layers.1.mlp.experts.down_proj"}, {}, **QWEN)), ["--for=hf"], "differs"),
    (always(model(WHOLE | SCALES, {})), ["--for=hf"], "differs"), (always(model(WHOLE, {})), ["--for=hf"], "loads"),
    *((always(model({f"{segment}.{n}": s for n, s in LLAMA_ALL.items()}, {}, model_type="mine", **config)), ["--for=hf"], wanted)
      for segment in ("module", "_orig_mod") for wanted, config in (("differs", {}), ("not_judged", {"auto_map": {"AutoModel": "mine.Mine"}}))),
    (always(model({f"model.{n}": s for n, s in LLAMA_ALL.items()}, {})), ["--for=hf"], "loads"),
    (always(model({f"model.{n}": s for n, s in LLAMA_ALL.items()}, {})), ["--for=hf", "--loader-version=4.57"], "differs"),
    (cut_pickle, ["--for=hf"], "refuses"), (lambda folder: listed(folder, True)[0], ["--for=hf"], "loads"),
    (lambda folder: objects(folder, True)[0], ["--for=megatron"], "refuses"), (with_gap, ["--for=megatron"], "differs"), (lambda _: os.path.join(TESTDATA, "megatron/common-inside"), ["--for=megatron"], "loads"),
    (always(other_save("demo/step-1234")), ["--for=dcp"], "refuses"), (always(other_save("runs/dcp-half-written/run/step-10")), ["--for=dcp"], "loads"),
    (stream("float8_e5m2"), ["--for=weights_only"], "refuses"), (stream("int8", "CharStorage"), ["--for=weights_only"], "loads"),
    (resumed(), ["--for=trainer"], "loads"), *((resumed(name), ["--for=trainer"], "refuses") for name in ("config.json", "trainer_state.json", "optimizer.pt", "scheduler.pt", "rng_state.pth")),
    *((resumed(name, b""), ["--for=accelerate"], "refuses") for name in ("optimizer.bin", "scheduler.bin")), (sharded, ["--for=hf"], "refuses"),
    (always(adapter(peft_type="LORAX")), ["--for=peft"], "refuses"), (always(adapter(peft_type="VERA")), ["--for=peft"], "not_judged"),
    (always(on_base(renamed("model.layers.", "model.model.layers."))), ["--for=peft"], "differs"), (always(on_base(renamed("q_proj", "wq"), target_modules=["wq"])), ["--for=peft"], "refuses"),
    (always(on_base(renamed("lora_A", "lora_A.default"))), ["--for=peft"], "loads"), (always(on_base(dict)), ["--for=peft"], "loads"),
    *((always(scaled(*shapes)), ["--for=peft"], wanted) for wanted, shapes in (("loads", ((1, 24), (8, 1))), ("refuses", ((24, 1), (8, 1))), ("refuses", ((1, 24), (8,))))),
    *((always(prompts(**config)), ["--for=peft"], wanted) for wanted, config in (("loads", {"num_virtual_tokens": 3}), ("refuses", {}))),
    (always(adapter(target_modules=None)), ["--for=peft"], "not_judged"), (always(adapter(target_modules=[])), ["--for=peft"], "refuses"),
    (always(adapter()), ["--for=peft"], "loads"), (always(adapter(base_model_name_or_path="org/base")), ["--for=peft"], "not_judged"), (always(adapter(prefix="base_model.model." * 2)), ["--for=peft"], "not_judged"),
]


def ways_out(path):
    run = serving.completed([BINARY, "audit", "--json", "--for=peft", path])
    return [reason.get("way_out") for loader in json.loads(run.stdout)["data"]["loaders"] for reason in loader["reasons"]]


TRAINED_ON = "load it into the base that it was trained on"
DEEPER = f"{TRAINED_ON}, if that has fewer layers; else copy the adapter again"
# an adapter, what helps: the base is another one only if all of the adapter is of another size, or of fewer layers
WAYS_OUT = [
    (on_base(lambda tensors: renamed("lora_B", "lora_B", (48, 4))(renamed("lora_A", "lora_A", (4, 32))(tensors))), [TRAINED_ON]), (on_base(renamed("layers.1.self_attn.v_proj.lora_A", "layers.1.self_attn.v_proj.lora_A", (4, 32))), [None]),
    (on_base(lambda tensors: {n: s for n, s in tensors.items() if "layers.1." not in n}), [DEEPER]),
    (on_base(dict, target_modules=["q_proj", "v_proj", "o_proj"]), [None]), (on_base(dict, target_modules=["q_proj"]), ["add v_proj to target_modules in adapter_config.json"]),
    (on_base(dict, target_modules=["o_proj"]), [None, None]),
]


def many(count):
    return model({f"m.{i % 7:03b}x{i:b}".translate({48: "a", 49: "b"}): (1, 1) for i in range(count)}, {}, model_type="mine", architectures=["Mine"])


# what makes a sample, the verdict of the checks of info and its errors; None: they did not run
EXPERTS = ({n: s for n, s in FUSED.items() if ".experts." not in n}
           | {f"model.layers.{i}.mlp.experts.{e}.{m}_proj.weight": (16, 8) if m == "down" else (8, 16) for i in range(2) for e in range(4) for m in ("down", "gate", "up")})
# The router has a row per expert that is stored: only the number in the configuration is another.
INFOS = [(always(model({n: (3,) + s[1:] if ".experts." in n or ".gate." in n else s for n, s in FUSED.items()}, {}, **QWEN)), "bad", 1),
         (always(model(EXPERTS, {}, **QWEN | {"num_experts": 8})), "bad", 1), (always(model(EXPERTS, {}, **QWEN)), "good", 0),
         (always(model(EXPERTS | layers("mlp.gate.weight", shape=(8, 16)), {}, **QWEN | {"num_experts": 8})), "bad", 1),
         (always(other_shard), "bad", 1), (always(other_save("demo/step-1234")), "bad", 1), (always(other_save("runs/dcp-half-written/run/step-10")), "good", 0),
         (always(many(19999)), "good", 0), (always(many(20000)), None, 0), (always(model(FUSED, {}, **QWEN)), "good", 0), (always(listed), "good", 0),
         (always(model({n: LLAMA_ALL[n] for n in LLAMA_ALL if n != "model.norm.weight"}, {})), "bad", 1),
         (lambda _: os.path.join(TESTDATA, "broken/dcp-chunk-gap/checkpoint"), "bad", 1),
         (lambda _: os.path.join(TESTDATA, "cross/model-a-dcp-safetensors-w2"), "partial", 0)]


def checked(path):
    run = serving.completed([BINARY, "info", "--json", path])
    check = json.loads(run.stdout)["data"].get("check", {})
    return [run.returncode, check.get("verdict"), check.get("counts", {}).get("error"), check.get("ran")]


def verdict(options, path):
    run = serving.completed([BINARY, "audit", "--json", *options, path])
    return [loader["verdict"] for loader in json.loads(run.stdout)["data"]["loaders"]]


def cure(path, rule):
    run = serving.completed([BINARY, "audit", "--json", path])
    return [f.get("fix") for f in json.loads(run.stdout)["findings"] if f["rule"] == rule]


def found(rule, words):
    own = [] if rule == "FI1013" else ["--for=none"]  # samples are parts of models
    run = serving.completed([BINARY, "audit", "--json", *own, *words])
    return collections.Counter((f["rule"], f["severity"]) for f in json.loads(run.stdout)["findings"])


def main():
    print(f"1..{len(ROWS) + len(CURES) + len(LOADS) + len(INFOS) + len(WAYS_OUT)}")
    failed = 0
    for number, (rule, severity, make) in enumerate(ROWS, 1):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            tripped, near = found(rule, make(one, 1)), found(rule, make(other, 0))
        good = tripped[rule, severity] == 1 and rule not in {r for r, _ in near}
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {rule} {make.__name__}")
        if not good:
            print(f"#   {sorted(tripped)}; near miss: {sorted(near)}")
    for number, (rule, make, wanted) in enumerate(CURES, len(ROWS) + 1):
        with tempfile.TemporaryDirectory() as folder:
            path = make(folder)
            printed, wanted = cure(path, rule), wanted and wanted.replace("{}", path)
        failed += printed != [wanted]
        print(f"{'ok' if printed == [wanted] else 'not ok'} {number} - {rule} {make.__name__}: {printed}")
    for number, (make, options, wanted) in enumerate(LOADS, len(ROWS) + len(CURES) + 1):
        with tempfile.TemporaryDirectory() as folder:
            given = verdict(options, make(folder))
        failed += given != [wanted]
        print(f"{'ok' if given == [wanted] else 'not ok'} {number} - {' '.join(options)}: {given}, expected {wanted}")
    for number, (make, wanted, errors) in enumerate(INFOS, len(ROWS) + len(CURES) + len(LOADS) + 1):
        with tempfile.TemporaryDirectory() as folder:
            given = checked(make(folder))
        good = given == [0, wanted, errors, wanted is not None]
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - info: {given}, expected {wanted}, {errors} errors")
    for number, (make, wanted) in enumerate(WAYS_OUT, len(ROWS) + len(CURES) + len(LOADS) + len(INFOS) + 1):
        with tempfile.TemporaryDirectory() as folder:
            given = ways_out(make(folder, True)[0])
        failed += given != wanted
        print(f"{'ok' if given == wanted else 'not ok'} {number} - adapter: {given}, expected {wanted}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

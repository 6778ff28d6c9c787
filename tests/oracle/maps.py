# SPDX-License-Identifier: Apache-2.0
"""Maps of names agree with what the frameworks' converters do: one model is written here in the names
and orders of transformers, of Meta's or Mistral's files and of Megatron-core, from the documented
arithmetic of each (queries, keys and values by groups, rotary halves and pairs, joined matrices, stacked
layers and experts, transposed matrices); then `diff --map` must find them equal, and `export --map` must
make the one of the other, byte by byte.
"""
import json
import os
import struct
import tempfile

import oraclelib

try:
    import numpy
except ImportError:
    numpy = None

LAYERS, HEADS, GROUPS, HEAD, HIDDEN, FFN, VOCABULARY, EXPERTS = 3, 4, 2, 6, 24, 10, 11, 3
SIZES = [f"--size=num_attention_heads={HEADS}", f"--size=num_key_value_heads={GROUPS}",
         f"--size=num_local_experts={EXPERTS}"]


class Numbers:
    """Every tensor has numbers of its own."""

    def __init__(self):
        self.next = 0

    def __call__(self, *shape):
        count = int(numpy.prod(shape))
        self.next += count
        return numpy.arange(self.next - count, self.next, dtype="f4").reshape(shape)


def write(path, tensors):
    header, body = {}, []
    at = 0
    for name, array in tensors.items():
        data = numpy.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
        body.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(body))
    return path


def read(folder):
    with open(os.path.join(folder, "model.safetensors"), "rb") as stream:
        data = stream.read()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {name: (entry["shape"], data[8 + length:][slice(*entry["data_offsets"])]) for name, entry in header.items()}


# ---- the models, in the names of transformers

def attention(hf, prefix, new, qwen=False):
    hf[prefix + "input_layernorm.weight"] = new(HIDDEN)
    for x, heads in (("q", HEADS), ("k", GROUPS), ("v", GROUPS)):
        hf[f"{prefix}self_attn.{x}_proj.weight"] = new(heads * HEAD, HIDDEN)
        if qwen:
            hf[f"{prefix}self_attn.{x}_proj.bias"] = new(heads * HEAD)
    hf[prefix + "self_attn.o_proj.weight"] = new(HIDDEN, HEADS * HEAD)
    hf[prefix + "post_attention_layernorm.weight"] = new(HIDDEN)


def base(new):
    return {"model.embed_tokens.weight": new(VOCABULARY, HIDDEN), "model.norm.weight": new(HIDDEN),
            "lm_head.weight": new(VOCABULARY, HIDDEN)}


def llama(qwen=False):
    new = Numbers()
    hf = base(new)
    for i in range(LAYERS):
        prefix = f"model.layers.{i}."
        attention(hf, prefix, new, qwen)
        hf[prefix + "mlp.gate_proj.weight"], hf[prefix + "mlp.up_proj.weight"] = new(FFN, HIDDEN), new(FFN, HIDDEN)
        hf[prefix + "mlp.down_proj.weight"] = new(HIDDEN, FFN)
    return hf


MIXTRAL = ("block_sparse_moe.gate.weight", "block_sparse_moe.experts.{j}.w1.weight",
           "block_sparse_moe.experts.{j}.w3.weight", "block_sparse_moe.experts.{j}.w2.weight")
QWEN_MOE = ("mlp.gate.weight", "mlp.experts.{j}.gate_proj.weight", "mlp.experts.{j}.up_proj.weight",
            "mlp.experts.{j}.down_proj.weight")


def mixture(names):
    new = Numbers()
    hf = base(new)
    router, gate, up, down = names
    for i in range(LAYERS):
        prefix = f"model.layers.{i}."
        attention(hf, prefix, new)
        hf[prefix + router] = new(EXPERTS, HIDDEN)
        for j in range(EXPERTS):
            hf[prefix + gate.format(j=j)], hf[prefix + up.format(j=j)] = new(FFN, HIDDEN), new(FFN, HIDDEN)
            hf[prefix + down.format(j=j)] = new(HIDDEN, FFN)
    return hf


def gpt2():
    new = Numbers()
    hf = {"transformer.wte.weight": new(VOCABULARY, HIDDEN), "transformer.wpe.weight": new(7, HIDDEN),
          "transformer.ln_f.weight": new(HIDDEN), "transformer.ln_f.bias": new(HIDDEN)}
    for i in range(LAYERS):
        prefix = f"transformer.h.{i}."
        for name, shape in (("ln_1", [HIDDEN]), ("ln_2", [HIDDEN]), ("attn.c_attn", [HIDDEN, 3 * HEADS * HEAD]),
                            ("attn.c_proj", [HEADS * HEAD, HIDDEN]), ("mlp.c_fc", [HIDDEN, 4 * HIDDEN]),
                            ("mlp.c_proj", [4 * HIDDEN, HIDDEN])):
            hf[f"{prefix}{name}.weight"], hf[f"{prefix}{name}.bias"] = new(*shape), new(shape[-1])
    return hf


# ---- what other programs have instead

def pairs(weight, heads):
    """Rows of each head as Meta has them: those that transformers keeps in two halves lie in pairs."""
    half = weight.shape[0] // heads // 2
    return weight.reshape(heads, 2, half, -1).swapaxes(1, 2).reshape(weight.shape)


def meta(hf):
    names = {"input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attention.wq",
             "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv", "self_attn.o_proj": "attention.wo",
             "mlp.gate_proj": "feed_forward.w1", "mlp.down_proj": "feed_forward.w2", "mlp.up_proj": "feed_forward.w3"}
    out = {"tok_embeddings.weight": hf["model.embed_tokens.weight"], "norm.weight": hf["model.norm.weight"],
           "output.weight": hf["lm_head.weight"]}
    for name, array in hf.items():
        parts = name.split(".")
        inner = ".".join(parts[3:-1])
        if parts[1] != "layers" or inner not in names:
            continue
        if inner in ("self_attn.q_proj", "self_attn.k_proj"):
            array = pairs(array, HEADS if "q_proj" in inner else GROUPS)
        out[f"layers.{parts[2]}.{names[inner]}.weight"] = array
    return out


def meta_mixture(hf, stacked):
    out = meta(hf)
    for i in range(LAYERS):
        prefix, to = f"model.layers.{i}.block_sparse_moe.", f"layers.{i}."
        experts = {w: [hf[f"{prefix}experts.{j}.{w}.weight"] for j in range(EXPERTS)] for w in ("w1", "w2", "w3")}
        out[to + ("block_sparse_moe" if stacked else "feed_forward") + ".gate.weight"] = hf[prefix + "gate.weight"]
        for w, arrays in experts.items():
            if stacked:
                out[f"{to}block_sparse_moe.{w}"] = numpy.concatenate([a.T if w == "w2" else a for a in arrays])
            else:
                out.update({f"{to}feed_forward.experts.{j}.{w}.weight": a for j, a in enumerate(arrays)})
    return out


def fused(parts):
    """Of each group its queries, its key, its value."""
    q, k, v = (p.reshape(GROUPS, -1, *p.shape[1:]) for p in parts)
    return numpy.concatenate([q, k, v], axis=1).reshape(-1, *parts[0].shape[1:])


def megatron(hf, names=None, stacked=False, norms_fused=True):
    layers = []
    for i in range(LAYERS):
        p, layer = f"model.layers.{i}.", {}
        for kind in ("weight", "bias"):
            if p + "self_attn.q_proj." + kind in hf:
                layer["self_attention.linear_qkv." + kind] = fused([hf[f"{p}self_attn.{x}_proj.{kind}"] for x in "qkv"])
        layer["self_attention.linear_proj.weight"] = hf[p + "self_attn.o_proj.weight"]
        layer["self_attention.linear_qkv.layer_norm_weight" if norms_fused else "input_layernorm.weight"] = \
            hf[p + "input_layernorm.weight"]
        if names is None:
            layer["mlp.linear_fc1.layer_norm_weight" if norms_fused else "pre_mlp_layernorm.weight"] = \
                hf[p + "post_attention_layernorm.weight"]
            layer["mlp.linear_fc1.weight"] = numpy.concatenate([hf[p + "mlp.gate_proj.weight"], hf[p + "mlp.up_proj.weight"]])
            layer["mlp.linear_fc2.weight"] = hf[p + "mlp.down_proj.weight"]
        else:
            router, gate, up, down = names
            layer["pre_mlp_layernorm.weight"] = hf[p + "post_attention_layernorm.weight"]
            layer["mlp.router.weight"] = hf[p + router]
            first = [numpy.concatenate([hf[p + gate.format(j=j)], hf[p + up.format(j=j)]]) for j in range(EXPERTS)]
            second = [hf[p + down.format(j=j)] for j in range(EXPERTS)]
            if stacked:
                layer["mlp.experts.experts.linear_fc1.weight"] = numpy.stack(first)
                layer["mlp.experts.experts.linear_fc2.weight"] = numpy.stack(second)
            else:
                for j in range(EXPERTS):
                    layer[f"mlp.experts.local_experts.{j}.linear_fc1.weight"] = first[j]
                    layer[f"mlp.experts.local_experts.{j}.linear_fc2.weight"] = second[j]
        layers.append(layer)
    out = {"embedding.word_embeddings.weight": hf["model.embed_tokens.weight"],
           "decoder.final_layernorm.weight": hf["model.norm.weight"], "output_layer.weight": hf["lm_head.weight"]}
    return put_layers(out, layers, stacked)


def put_layers(out, layers, stacked):
    for name in layers[0]:
        if stacked:
            out[f"decoder.layers.{name}"] = numpy.stack([layer[name] for layer in layers])
        else:
            out.update({f"decoder.layers.{i}.{name}": layer[name] for i, layer in enumerate(layers)})
    return out


def megatron_gpt(hf, stacked=False):
    names = {"attn.c_proj": "self_attention.linear_proj", "mlp.c_fc": "mlp.linear_fc1", "mlp.c_proj": "mlp.linear_fc2"}
    layers = []
    for i in range(LAYERS):
        p, layer = f"transformer.h.{i}.", {}
        for kind in ("weight", "bias"):
            layer["self_attention.linear_qkv.layer_norm_" + kind] = hf[f"{p}ln_1.{kind}"]
            layer["mlp.linear_fc1.layer_norm_" + kind] = hf[f"{p}ln_2.{kind}"]
            three = numpy.split(hf[f"{p}attn.c_attn.{kind}"].T, 3)
            heads = numpy.stack([t.reshape(HEADS, HEAD, -1) for t in three], axis=1)
            layer["self_attention.linear_qkv." + kind] = heads.reshape(3 * HEADS * HEAD, *three[0].shape[1:])
            for a, b in names.items():
                layer[f"{b}.{kind}"] = hf[f"{p}{a}.{kind}"].T
        layers.append(layer)
    out = {"embedding.word_embeddings.weight": hf["transformer.wte.weight"],
           "embedding.position_embeddings.weight": hf["transformer.wpe.weight"],
           "decoder.final_layernorm.weight": hf["transformer.ln_f.weight"],
           "decoder.final_layernorm.bias": hf["transformer.ln_f.bias"]}
    return put_layers(out, layers, stacked)


# ---- judging

def dcp(torch, path, tensors):
    """The same as a distributed checkpoint."""
    import torch.distributed.checkpoint as checkpoint
    checkpoint.save({k: torch.from_numpy(numpy.ascontiguousarray(v)) for k, v in tensors.items()},
                    checkpoint_id=path, no_dist=True)
    return path


RANKS = 2
CUT = {"tok_embeddings": 1, "output": 0, "wq": 0, "wk": 0, "wv": 0, "wo": 1, "w1": 0, "w2": 1, "w3": 0}


def ranks_of(torch, folder, whole, **cut):
    """The files of model-parallel ranks, cut as the layers of Meta's code do."""
    os.makedirs(folder)
    cut = {**CUT, **cut}
    for rank in range(RANKS):
        slices = {"rope.freqs": torch.arange(HEAD // 2, dtype=torch.float32)}
        for name, array in whole.items():
            dim = cut.get(name.split(".")[-2])
            part = array if dim is None else numpy.split(array, RANKS, axis=dim)[rank]
            slices[name] = torch.from_numpy(numpy.ascontiguousarray(part))
        torch.save(slices, os.path.join(folder, f"consolidated.{rank:02}.pth"))
    with open(os.path.join(folder, "params.json"), "w", encoding="utf-8") as out:
        json.dump({"dim": HIDDEN, "n_heads": HEADS, "n_kv_heads": GROUPS, "n_layers": LAYERS, "vocab_size": VOCABULARY}, out)
    return folder


def in_ranks(tap, args, hf):
    """Meta's own way to store a model that is larger than one GPU."""
    torch, missing = oraclelib.find_torch()
    if torch is None:
        return tap.skip("Llama of model-parallel ranks", missing)
    hf = {n: a[:VOCABULARY // RANKS * RANKS] if len(a) == VOCABULARY else a for n, a in hf.items()}
    for version, dim in (("2", 1), ("3", 0)):
        problems = []
        with tempfile.TemporaryDirectory() as work:
            folder = ranks_of(torch, os.path.join(work, "meta"), meta(hf), tok_embeddings=dim)
            becomes(args, problems, folder, "hf-llama", hf, work, sizes=[])
            one = write(os.path.join(work, "hf.safetensors"), hf)
            run = oraclelib.run(args, "diff", "-q", "--values", "--map=hf-llama", one, folder)
            oraclelib.same(problems, "diff", (run.status, run.out), (0, b""))
            os.remove(os.path.join(folder, "consolidated.01.pth"))
            for some, words in ("**", b"cannot be cut as the map says"), ("layers.*.attention.wo.weight", b"files of ranks are missing"):
                run = oraclelib.run(args, "export", "-q", "--map=hf-llama", "-g", some, "-o", os.path.join(work, "half"), folder)
                if run.status != 2 or run.crash or words not in run.err:
                    problems.append(f"one of two ranks: status {run.status}: {run.tail}")
        tap.none(f"Llama {version} of {RANKS} model-parallel ranks", problems)


def is_equal(args, problems, a, b, target, *options):
    run = oraclelib.run(args, "diff", "-q", "--values", f"--map={target}", *SIZES, *options, a, b)
    if run.crash or run.status != 0 or run.out:
        problems.append(f"{run.words}: status {run.status}: {run.out[:300]} {run.tail}")


def becomes(args, problems, path, target, expected, work, sizes=SIZES):
    folder = os.path.join(work, "out")
    run = oraclelib.run(args, "export", "-q", "--force", f"--map={target}", *sizes, "-o", folder, path)
    if run.crash or run.status != 0:
        problems.append(f"{run.words}: status {run.status}: {run.tail}")
        return
    found = read(folder)
    oraclelib.same(problems, f"{target}: names", sorted(found), sorted(expected))
    for name in set(found) & set(expected):
        array = expected[name]
        if found[name] != (list(array.shape), numpy.ascontiguousarray(array).tobytes()):
            problems.append(f"{target}: {name}: {found[name][0]}, expected {list(array.shape)}, or other bytes")


def judge(tap, args, family, hf, others):
    """`others`: form -> (scheme, tensors, whether this is what a map makes of the names of transformers)."""
    for form, (scheme, tensors, is_made) in others.items():
        problems = []
        with tempfile.TemporaryDirectory() as work:
            a = write(os.path.join(work, "hf.safetensors"), hf)
            b = write(os.path.join(work, "other.safetensors"), tensors)
            for one, other in ((a, b), (b, a)):
                is_equal(args, problems, one, other, f"hf-{family}", "-j1")
                is_equal(args, problems, one, other, f"hf-{family}", "-j3")
            becomes(args, problems, b, f"hf-{family}", hf, work)
            run = oraclelib.run(args, "audit", "-q", "--data", f"--merged={a}", f"--map=hf-{family}", *SIZES,
                                "--rule=*=off", *(f"--rule=FI600{n}=error" for n in (1, 3, 4)), b)
            if run.crash or run.status not in (0, 3):
                problems.append(f"{run.words}: status {run.status}: {run.out[-300:]} {run.tail}")
            if is_made:
                becomes(args, problems, a, f"{scheme}-{family}", tensors, work)
                is_equal(args, problems, a, b, f"{scheme}-{family}")
            broken = dict(tensors)
            name = next(n for n in tensors if "qkv" in n or "wq" in n)
            broken[name] = broken[name] + 1
            write(b, broken)
            run = oraclelib.run(args, "diff", "-q", "--values", f"--map=hf-{family}", *SIZES, a, b)
            oraclelib.same(problems, "another value", run.status, 1)
            run = oraclelib.run(args, "audit", "-q", "--data", f"--merged={a}", f"--map=hf-{family}", *SIZES, b)
            if run.status != 1 or b"FI6004" not in run.out:
                problems.append(f"another value: {run.words}: status {run.status}")
        tap.none(f"{family} of {form}", problems)


def between(tap, args, family, hf, a, b):
    """Two that are both no names of transformers, and a distributed checkpoint."""
    case, problems = f"{family}: Meta, Megatron and a distributed checkpoint", []
    torch, missing = oraclelib.find_torch()
    if torch is None:
        tap.skip(case, missing)
        return
    with tempfile.TemporaryDirectory() as work:
        one, other = write(os.path.join(work, "a.safetensors"), a), write(os.path.join(work, "b.safetensors"), b)
        is_equal(args, problems, one, other, f"hf-{family}")
        saved = dcp(torch, os.path.join(work, "dcp"), b)
        is_equal(args, problems, saved, one, f"hf-{family}")
        is_equal(args, problems, write(os.path.join(work, "hf.safetensors"), hf), saved, f"hf-{family}")
    tap.none(case, problems)


def main():
    args = oraclelib.arguments(__doc__)
    if numpy is None:
        oraclelib.skip_all("no numpy")
    tap = oraclelib.Tap()
    hf = llama()
    judge(tap, args, "llama", hf, {
        "Meta": ("meta", meta(hf), True),
        "Megatron": ("megatron", megatron(hf), True),
        "Megatron with stacked layers": ("megatron", megatron(hf, stacked=True), False),
        "Megatron with norms of their own": ("megatron", megatron(hf, norms_fused=False), False)})
    qwen = llama(qwen=True)
    judge(tap, args, "qwen2", qwen, {"Megatron": ("megatron", megatron(qwen), True)})
    mixed = mixture(MIXTRAL)
    judge(tap, args, "mixtral", mixed, {
        "Mistral": ("meta", meta_mixture(mixed, False), True),
        "Mistral with stacked experts": ("meta", meta_mixture(mixed, True), False),
        "Megatron": ("megatron", megatron(mixed, MIXTRAL), True),
        "Megatron with stacked layers and experts": ("megatron", megatron(mixed, MIXTRAL, stacked=True), False)})
    moe = mixture(QWEN_MOE)
    judge(tap, args, "qwen3-moe", moe, {"Megatron": ("megatron", megatron(moe, QWEN_MOE), True)})
    gpt = gpt2()
    judge(tap, args, "gpt2", gpt, {
        "Megatron": ("megatron", megatron_gpt(gpt), True),
        "Megatron with stacked layers": ("megatron", megatron_gpt(gpt, stacked=True), False)})
    in_ranks(tap, args, hf)
    between(tap, args, "llama", hf, meta(hf), megatron(hf, stacked=True))
    between(tap, args, "mixtral", mixed, meta_mixture(mixed, True), megatron(mixed, MIXTRAL))
    tap.done()


if __name__ == "__main__":
    main()

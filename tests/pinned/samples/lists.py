# SPDX-License-Identifier: Apache-2.0
"""Lists of what a checkpoint should have: names of tensors, files with their sizes, digests."""

import json
import os
import re

from .files import TESTDATA, safetensors, sample

SMALL = "dcp/fsdp2-w4-small/checkpoint"


@sample
def expected_names(folder, *names):
    folder.json("names.json", names)


@sample
def lists_of_names_in_many_forms(folder):
    """Each in a folder, with its text as one line."""
    names = '["norm.bias", "norm.weight"]'
    forms = (
        names, "\t\r\n " + names, "        [", "       " + names,
        *('{"%s": %s}' % (key, names) for key in ("weight_map", "tensors", "names")),
        '{"data": {"names": %s}}' % names, '{"data": %s}' % names,
        '[{"name": "norm.bias"}, {"name": "norm.weight", "shape": [12]}]', '[{"name": "norm.bias"}, {"shape": [12]}]',
        '[{"name": 5}]', '[["norm.bias"]]',
        *('{"norm.bias": %s, "norm.weight": %s}' % shapes for shapes in (
            ("[24]", "[24]"), ('[24, "x"]', "[24]"), ("[23]", "[]"), ("[12, 1]", "[4, 3]"), ("[6]", "[36]"),
            ("[1]", "[12]"), ("[8]", "[0]"), ("[7]", "[9223372036854775807, 12]"))),
        '{"norm.bias": 1}', '{"norm.bias": "f", "norm.weight": "g", "norm.more": "h"}',
        '{"norm.bias": {"dtype": "float16"}, "norm.weight": {"shape": "x"}}',
        '{"format": "fsdp-plan"}', "5", "null", '\0["a"]', "[", "",
    )
    for number, form in enumerate(forms):
        place = folder.apart(f"forms/{number:02}")
        place.write("names.json", form)
        place.write("text", form.translate({0: "\\000", 9: "\\t", 10: "\\n", 13: "\\r"}), "\n")


@sample
def expected_names_with_a_short_and_a_long_prefix(folder):
    for name, prefix in {"short": "x", "long": "0" * 500}.items():
        folder.json(f"{name}/names.json", [prefix + ".w"])
        folder.write(f"{name}/x.safetensors", safetensors({"w": ("U8", [1], b"1")}))


@sample
def a_manifest_of_a_file_that_is_gone(folder):
    folder.copy("hf/llama-sharded", "m")
    folder.remove("m/expected")
    folder.copy("safetensors/aliases/model.safetensors", "model.safetensors")
    folder.write("list", "0" * 64, "  gone.bin\n")


@sample
def tensors_of_which_1_and_2_elements_differ(folder):
    content = bytes(48)
    for name, ends in {"same": (), "one": (47,), "two": (39, 47)}.items():
        changed = bytes(1 if at in ends else byte for at, byte in enumerate(content))
        folder.write(name + ".safetensors", safetensors({"w": ("F32", [12], changed)}))


# ---- files with their sizes ----


def sizes_of(source, names=None):
    """(size, name) of each file below a folder of testdata/, or of these."""
    root = os.path.join(TESTDATA, source)
    if names is None:
        names = sorted(os.path.relpath(os.path.join(path, name), root)
                       for path, _, files in os.walk(root) for name in files)
    return [(os.path.getsize(os.path.join(root, name)), name) for name in names]


def lines(sizes, form="%d %s"):
    """As find -printf '%s %P\\n' lists."""
    return "".join(form % pair + "\n" for pair in sizes)


@sample
def lists_of_nine_programs_without_a_file(folder):
    folder.copy(SMALL + "/.metadata", "c/.metadata")
    sizes = [pair for pair in sizes_of(SMALL) if not pair[1].startswith("__2_")]
    total = sum(size for size, _ in sizes)
    folder.write("sizes", lines(sizes))
    folder.write("aws", lines(sizes, "2026-11-29 13:40:23 %10d run/step 1/%s"),
                 f"\nTotal Objects: {len(sizes)}\n   Total Size: {total}\n")
    folder.write("gs", "gs://b/step 1/:\n", lines(sizes, "%10d  2026-11-29T13:40:23Z  gs://b/step 1/%s"),
                 f"TOTAL: {len(sizes)} objects, {total} bytes (22.92kiB)\n")
    folder.write("lsl", lines(sizes, "%9d 2026-11-29 13:40:23.116156199 step 1/%s"))
    folder.write("ls", "./step 1:\ntotal 32\ndrwxr-xr-x 2 me me 4096 Nov 29 13:40 .\n",
                 lines(sizes, "-rw-r--r-- 1 me me %d Nov 29 13:40 %s"))
    folder.write("lsfull", ".:\ntotal 32\n",
                 lines(sizes, "-rw-r--r-- 1 me me %d 2026-11-29 13:40:23.116156199 +0000 %s"))
    folder.json("lsjson", [{"Path": "step 1", "Size": -1, "IsDir": True}] + [
        {"Path": "step 1/" + name, "Size": size, "IsDir": False} for size, name in sizes])
    folder.json("s3api", {"Contents": [{"Key": "step 1/" + name, "Size": size} for size, name in sizes]})
    folder.json("az", [{"name": "step 1/" + name, "properties": {"contentLength": size}} for size, name in sizes])


@sample
def lists_with_a_truncated_and_an_extra_file(folder):
    folder.copy(SMALL + "/.metadata", "c/.metadata")
    sizes = sizes_of(SMALL)
    folder.write("list", lines(sizes))
    folder.write("cut", lines((8000 if name.startswith("__2_") else size, name) for size, name in sizes),
                 "100 __9_0.distcp\n")


@sample
def lists_of_shards_with_their_index(folder):
    """The list is complete, without a shard, and with other sizes; b/ has no index."""
    model = "hf/llama-sharded"
    for name in ("config.json", "generation_config.json", "model.safetensors.index.json"):
        folder.copy(f"{model}/{name}", f"m/{name}")
        if "index" not in name:
            folder.copy(f"{model}/{name}", f"without/m/{name}")
    sizes = sizes_of(model, sorted(name for name in os.listdir(os.path.join(TESTDATA, model)) if name != "expected"))
    for name, some in {
        "list": sizes,
        "without/list": sizes,
        "gone": [pair for pair in sizes if "00004" not in pair[1]],
        "cut": [(136 if size == 8336 else size, name) for size, name in sizes],
        "other": [(217 if size == 216 else size, name) for size, name in sizes],
    }.items():
        folder.write(name, lines(some))


@sample
def lists_of_files_of_ranks(folder):
    """Of each checkpoint the trackers in c/, its list, and where it has files of rank 1 one without these."""
    of_rank_1 = re.compile("rank1|rank_01|rank_1|rank-1|/mp_rank_00_001")
    for name in ("deepspeed/zero2-w2", "megatron/legacy-tp2-pp2", "fsdp2/w4-empty-shard", "fsdp2/w4-tp"):
        folder.directory(name + "/c")
        sizes = sizes_of(name)
        for _, tracker in sizes:
            if tracker.startswith("latest"):
                folder.copy(f"{name}/{tracker}", f"{name}/c/{tracker}")
        rest = [pair for pair in sizes if not of_rank_1.search("%d %s" % pair)]
        folder.write(name + "/list", lines(sizes))
        if rest != sizes:
            folder.write(name + "/gone", lines(rest))


@sample
def a_list_of_two_steps_of_which_the_first_lacks_a_file(folder):
    for name in ("step-2", "other"):
        folder.copy(SMALL + "/.metadata", name + "/.metadata")
    sizes = sizes_of(SMALL)
    folder.write("list", lines((pair for pair in sizes if not pair[1].startswith("__1")), "%d run/step-1/%s"),
                 lines(sizes, "%d run/step-2/%s"))


@sample
def lists_without_sizes_or_usable_names(folder):
    for number, line in enumerate((
            "3.1 KiB x.bin", "3 ../x.bin", "3 /", "x", json.dumps([{"Path": "x"}]),
            json.dumps({"Contents": [], "NextToken": "t"}), "{", "lrwxrwxrwx 1 me me 3 Nov 29 13:40 x -> y")):
        folder.write(f"lines/{number}/list", line, "\n")
        folder.directory(f"lines/{number}/c")
    folder.write("twice/list", "1 x\n1 x\n")
    folder.directory("twice/c")
    folder.write("list", "-rw-r--r-- 1 me me 3 Nov 29 13:40 x\n")
    folder.write("c/.metadata")

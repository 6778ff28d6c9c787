#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What is exported is whole or absent, and always the same.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	export LC_ALL=C.UTF-8
	SOURCE="$TESTDATA/demo/step-1234"
}

export_to() {
	"$FSDP_INSPECT" export -q -o "$@"
}

# FILE [N]: safetensors of N tensors of 1 MiB.
large() {
	python3 - "$1" "${2:-24}" <<'END'
import struct, sys
count = int(sys.argv[2])
header = b'{' + b",".join(b'"layers.%d.weight":{"dtype":"F32","shape":[512,512],"data_offsets":[%d,%d]}'
                          % (i, i << 20, (i + 1) << 20) for i in range(count)) + b'}'
header += b" " * (-len(header) % 8)
with open(sys.argv[1], "wb") as out:
    out.write(struct.pack("<Q", len(header)) + header)
    for i in range(count):
        out.write(bytes([i + 1]) * (1 << 20))
END
}

# FILE N: N tensors of one byte.
many() {
	python3 - "$1" "$2" <<'END'
import struct, sys
count = int(sys.argv[2])
header = b'{' + b",".join(b'"t%d":{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}' % (i, i, i + 1) for i in range(count)) + b'}'
header += b" " * (-len(header) % 8)
open(sys.argv[1], "wb").write(struct.pack("<Q", len(header)) + header + bytes(count))
END
}

# Nothing but what is named here is in the folder.
holds() {
	local folder=$1
	shift
	[ "$(ls -A "$folder")" = "$(printf '%s\n' "$@")" ]
}

@test "two runs and any number of threads write the same bytes" {
	large model.safetensors
	for jobs in 1 1 2 7; do
		rm -rf out
		export_to out -j "$jobs" --max-shard-size=5MiB model.safetensors
		(cd out && sha256sum ./*) > "sums-$jobs"
		[ ! -e first ] || cmp first "sums-$jobs"
		mv "sums-$jobs" first
	done
}

@test "a folder that was there stays, one that was made goes" {
	printf 'no checkpoint' > broken.pt
	mkdir kept
	run -2 export_to kept broken.pt
	run -2 export_to made broken.pt
	holds kept
	[ ! -e made ]
}

@test "a disk without room leaves nothing" {
	large model.safetensors
	trap '' XFSZ
	mkdir out
	(ulimit -f 4096 && run -2 export_to out model.safetensors && [[ "$output" == *"cannot write"* ]])
	holds out
	rm -r out
	(ulimit -f 4096 && run -2 export_to out model.safetensors)
	[ ! -e out ]
}

@test "a flipped bit stops the work, also in a stream and in a tensor of several ranges" {
	python3 - model.pt <<'END'
import struct, sys, zipfile
numel = 18 << 20
text = lambda word: b"X" + struct.pack("<I", len(word)) + word
# {"w": _rebuild_tensor_v2(storage, 0, (numel,), (1,), False, OrderedDict())}
pickle = (b"\x80\x02}" + text(b"w") + b"ctorch._utils\n_rebuild_tensor_v2\n((" + text(b"storage") +
          b"ctorch\nFloatStorage\n" + text(b"0") + text(b"cpu") + b"J" + struct.pack("<i", numel) + b"tQK\0J" +
          struct.pack("<i", numel) + b"\x85K\1\x85\x89ccollections\nOrderedDict\n)RtRs.")
with zipfile.ZipFile(sys.argv[1], "w") as out:
    for name, data in (("data.pkl", pickle), ("version", b"3\n"), ("data/0", bytes(numel * 4))):
        out.writestr("model/" + name, data)
END
	export_to out model.pt
	rm -r out
	"$FSDP_INSPECT" export -q --to=safetensors -o - model.pt > /dev/null
	# In the second range of 64 MiB.
	printf x | dd of=model.pt bs=1 seek=70000000 conv=notrunc status=none
	run -1 export_to out model.pt
	[[ "$output" == *"checksum mismatch"*FI2001* ]]
	[[ "$output" == *"nothing was written"*"audit --data model.pt"* ]]
	[ ! -e out ]
	"$FSDP_INSPECT" export --to=safetensors -o - model.pt > /dev/null 2> told || [ $? -eq 1 ]
	grep -q "model.pt.*FI2001" told
	grep -q "it is incomplete" told
}

@test "a file that names a checkpoint which is not there stops the work" {
	cp -r "$TESTDATA/deepspeed/zero2-roundrobin-w2" run
	chmod -R u+w run
	echo global_step9 > run/latest
	run -1 export_to out run
	[[ "$output" == *global_step9*FI1011* ]]
	[ ! -e out ]
	# What was read is whole, and so is what is named.
	run -3 export_to out --partial run
	run -0 export_to other run/global_step2
	cmp out/model.safetensors other/model.safetensors
}

@test "what cannot be read is not judged" {
	cp -r "$SOURCE" source
	chmod 0 source/__1_0.distcp
	[ ! -r source/__1_0.distcp ] || skip "this user may read everything"
	run -2 export_to out source
	[[ "$output" == *__1_0.distcp*"Permission denied"* ]]
	[ ! -e out ]
}

# A file system of so many bytes at ./small, or a skip: a container may lack the right to make one.
small() {
	mkdir -p small
	mount -t tmpfs -o "size=$1" none small 2> /dev/null || skip "no file system can be mounted here"
}

@test "a full file system leaves nothing, and what is needed is told" {
	large model.safetensors 8
	small 4m
	run export_to small/out model.safetensors
	left=$(ls -A small)
	umount small
	[ "$status" -eq 2 ]
	[[ "$output" == *"8389"*" bytes are needed here, and 4194304 are free"* ]]
	[ -z "$left" ]
	# What lies beside the weights is counted too.
	mkdir beside
	truncate -s 3M beside/tokenizer.json
	small 10m
	run export_to small/out --with-config=beside model.safetensors
	left=$(ls -A small)
	umount small
	[ "$status" -eq 2 ]
	[[ "$output" == *"11535"*" bytes are needed here"* ]]
	[ -z "$left" ]
}

@test "a file system that fills up on the way leaves nothing" {
	large model.safetensors 8
	# A folder, a shard and no more.
	small 16m,nr_inodes=4
	run export_to small/out --max-shard-size=1MiB model.safetensors
	left=$(ls -A small)
	umount small
	[ "$status" -eq 2 ]
	[[ "$output" == *"No space left on device"* ]]
	[ -z "$left" ]
}

@test "a source that shrinks on the way leaves nothing" {
	large model.safetensors
	truncate -s -1 model.safetensors
	run export_to out model.safetensors
	[ "$status" -ne 0 ]
	[ ! -e out ]
}

@test "what readers of a ZIP disagree about is written with --partial alone" {
	python3 - "$TESTDATA/torch-zip/state-dict/model.pt" twice.pt <<'END'
import sys, warnings, zipfile
warnings.simplefilter("ignore")
with zipfile.ZipFile(sys.argv[1]) as old, zipfile.ZipFile(sys.argv[2], "w") as new:
    for name in old.namelist():
        new.writestr(name, old.read(name))
        if name.endswith("/data/0"):
            new.writestr(name, bytes(len(old.read(name))))
END
	run -1 export_to out twice.pt
	[[ "$output" == *FI3041* ]]
	[ ! -e out ]
	run -3 export_to out --partial twice.pt
	[ -e out/model.safetensors ]
}

@test "of a checkpoint that lacks a file or a name only --partial writes the rest" {
	cp -r "$TESTDATA/hf/llama-sharded" lost
	rm lost/model-00002-of-*.safetensors
	cp -r "$TESTDATA/broken/hf-missing-tensor/checkpoint" gone
	cp -r "$TESTDATA/broken/hf-lfs-pointer/checkpoint" pointer
	for source in lost gone pointer; do
		run -1 export_to out "$source"
		[ ! -e out ]
		run -3 export_to out --partial "$source"
		[ -e out/model.safetensors ]
		rm -r out
	done
	# What is asked for is whole.
	run -0 export_to out -g norm.weight gone
	holds out SHA256SUMS model.safetensors
}

@test "of a file that is lost each tensor is, and not only those that are named" {
	mkdir source
	many source/model-00001-of-00002.safetensors 1
	python3 - <<'END'
import json
where = {"t0": "model-00001-of-00002.safetensors"} | {"lost%03d" % i: "model-00002-of-00002.safetensors" for i in range(200)}
json.dump({"metadata": {}, "weight_map": where}, open("source/model.safetensors.index.json", "w"))
END
	run -0 export_to out -g t0 source
	rm -r out
	for name in lost000 lost127 lost128 lost199; do
		run -1 export_to out -g $name -g t0 source
		[ ! -e out ]
	done
}

@test "a checkpoint that contradicts its configuration is refused" {
	cp -r "$TESTDATA/complete/llama-tied/checkpoint" source
	chmod -R u+w source
	run -0 export_to out source
	rm -r out
	sed -i 's/"num_hidden_layers": 4/"num_hidden_layers": 5/' source/config.json
	run -1 --separate-stderr export_to out source
	[[ "$stderr" == *FI1091* ]]
	[[ "$output" == *"--partial exports the tensors that have all pieces"* ]]
	[ ! -e out ]
	run -3 export_to out --partial source
	[ -s out/model.safetensors ]
}

@test "of a file that was cut --partial writes what lies in front" {
	large model.safetensors 8
	truncate -s 5MiB model.safetensors
	run -1 export_to out model.safetensors
	[[ "$output" == *FI1004* ]]
	run -3 export_to out --partial model.safetensors
	[[ "$output" == *"4 incomplete"* ]]
	[ "$("$FSDP_INSPECT" ls -q -o name out | wc -l)" -eq 4 ]
}

@test "with --partial and nothing whole nothing is written" {
	cp -r "$TESTDATA/hf/llama-sharded" empty
	chmod -R u+w empty
	for file in empty/*.safetensors; do
		python3 - "$file" <<'END'
import struct, sys
size = struct.unpack("<Q", open(sys.argv[1], "rb").read(8))[0]
open(sys.argv[1], "r+b").truncate(8 + size)
END
	done
	run -1 export_to out --partial empty
	[[ "$output" == *"nothing was written: no tensor is complete"* ]]
	[ ! -e out ]
}

@test "what cannot be opened because it is damaged has a finding and status 1" {
	for case in dcp-missing-metadata:FI1003 dcp-truncated-metadata:FI1020 pt-empty:FI1002 pt-html:FI4001 \
		pt-truncated:FI1040; do
		run -1 export_to out "$TESTDATA/broken/${case%:*}/checkpoint"
		[[ "$output" == *"${case#*:}"* ]]
		[ ! -e out ]
	done
	run -1 "$FSDP_INSPECT" export --json -o out "$TESTDATA/broken/pt-html/checkpoint"
	run -2 export_to out nowhere
	[[ "$output" != *"nothing was written"* ]]
}

@test "what an unknown container holds is not known" {
	python3 - "$TESTDATA/torch-zip/state-dict/model.pt" queue.pt <<'END'
import sys, zipfile
# {"w": <the state dict>, "q": UserList(); q.append(1)}, of which only the list is read otherwise.
with zipfile.ZipFile(sys.argv[1]) as old, zipfile.ZipFile(sys.argv[2], "w") as new:
    for info in old.infolist():
        data = old.read(info)
        if info.filename.endswith("/data.pkl"):
            assert data[-1:] == b"."
            data = data[:-1] + b"X\x01\0\0\0qccollections\nUserList\n)RK\x01as."
        new.writestr(info, data)
END
	run -1 export_to out queue.pt
	[[ "$output" == *FI3010* ]]
	run -3 export_to out --partial queue.pt
	[ -s out/model.safetensors ]
}

# FILE PART: of torch.save, a dict with a tensor `w`, and what the opcodes of the part put into it;
# in them T stands for a tensor, and NAME: for a text.
holding() {
	python3 - "$1" "$2" <<'END'
import re, struct, sys, zipfile
text = lambda word: b"X" + struct.pack("<I", len(word)) + word
tensor = (b"ctorch._utils\n_rebuild_tensor_v2\n((" + text(b"storage") + b"ctorch\nFloatStorage\n" + text(b"0") + text(b"cpu") +
          b"K\4tQK\0K\4\x85K\1\x85\x89ccollections\nOrderedDict\n)RtR")
part = sys.argv[2].encode().decode("unicode_escape").encode("latin-1")
part = re.sub(rb"(\w+):", lambda found: text(found[1]), part).replace(b"T", tensor)
with zipfile.ZipFile(sys.argv[1], "w") as out:
    out.writestr("model/data.pkl", b"\x80\x04}" + text(b"w") + tensor + b"s" + part + b".")
    out.writestr("model/data/0", bytes(16))
    out.writestr("model/version", "3\n")
END
}

@test "tensors without a name are not lost without a word" {
	# An object, what a call gets, a set, a key, a key that is a tuple.
	parts=('box:cmylib\nBox\n)\x81}b:Tsbs' 'box:cmylib\nmake\nT\x85Rs' 'box:\x8f(T\x90s' 'box:}TK\1ss' 'box:}T\x85K\1ss')
	for part in "${parts[@]}"; do
		rm -rf box.pt out
		holding box.pt "$part"
		run -2 export_to out box.pt
		[[ "$output" == *box*"contains tensors without a name"* ]]
		[ ! -e out ]
		run -3 export_to out --skip-unsupported box.pt
		holds out SHA256SUMS model.safetensors
		run "$FSDP_INSPECT" audit box.pt
		[[ "$output" == *box*"has tensors without a name"*FI9004* ]]
		rm -r out
		# What was not asked for does not matter.
		run -0 export_to out box.pt w
		rm -r out
		run -0 export_to out -g w box.pt
	done
	# Nor does what belongs to an optimizer, or holds no tensor.
	for part in 'optimizer:cmylib\nBox\n)\x81}b:Tsbs' 'box:cmylib\nBox\n)\x81}b:K\1sbs' 'box:}b:Tss'; do
		rm -rf box.pt out
		holding box.pt "$part"
		run -0 export_to out box.pt
	done
	holding box.pt 'box:cmylib\nBox\n)\x81}b:Tsbs'
	run -3 "$FSDP_INSPECT" export -q --json --force --skip-unsupported -o out box.pt
	[ "$(jq -c .data.left_out <<< "$output")" = '[{"name":"box","why":"unsupported"}]' ]
}

@test "copies of several ranks that are not compared are told" {
	run -0 export_to out "$TESTDATA/demo/step-1234"
	[[ "$output" != *copies* ]]
	rm -r out
	run -0 export_to out "$TESTDATA/fsdp2/w4-tp"
	[[ "$output" == *"tensors are replicated"*"audit --data"* ]]
}

@test "shards that do not say how many there are come with a note" {
	mkdir half
	cp "$TESTDATA/cross/model-a-dcp-safetensors-w2/"shard-00001-* half
	run -0 --separate-stderr "$FSDP_INSPECT" export -o out half
	[[ "$stderr" == *"if some are missing"* ]]
}

@test "what a pickle would run stops nothing" {
	run -0 export_to out "$TESTDATA/torch-zip/custom-class/model.pt"
	[[ "$output" == *FI3018* ]]
	holds out SHA256SUMS model.safetensors
}

@test "a run that is killed leaves no weights" {
	large model.safetensors 64
	mkfifo alive
	for delay in 0.005 0.01 0.02 0.03 0.05 0.08 0.12; do
		rm -rf out
		"$FSDP_INSPECT" export -q -o out --max-shard-size=9MiB model.safetensors > /dev/null 9> alive &
		exec 8< alive
		sleep "$delay"
		kill -9 $! || true
		wait $! || true
		# What removes its files is another process, which has the pipe too.
		cat <&8
		exec 8<&-
		[ ! -e out ] || ! ls -A out | grep -q tmp
		# The last shard comes last, in place of an empty file: with it all is there.
		if [ -s "$(ls out/model-*.safetensors 2>/dev/null | tail -n 1)" ]; then
			(cd out && sha256sum --quiet -c SHA256SUMS)
		fi
	done
}

@test "an interrupt leaves nothing and ends by its signal" {
	large model.safetensors 64
	"$FSDP_INSPECT" export -q -o out model.safetensors > /dev/null &
	child=$!
	sleep 0.03
	kill -TERM $child || true
	status=0
	wait $child || status=$?
	[ "$status" -eq 143 ] || [ "$status" -eq 0 ]
	if [ "$status" -eq 143 ]; then
		[ ! -e out ]
	fi
}

@test "what is replaced is replaced as a whole" {
	export_to out --max-shard-size=500 "$SOURCE"
	run -2 export_to out "$SOURCE"
	export_to out --force "$SOURCE"
	holds out SHA256SUMS model.safetensors
	(cd out && sha256sum --quiet -c SHA256SUMS)
}

@test "an exported folder is exported to itself" {
	export_to one "$SOURCE"
	export_to two one
	# A tie that the first notes is not a tensor of the second, so headers differ.
	"$FSDP_INSPECT" ls -o tsv --columns=name,dtype,shape one > a
	"$FSDP_INSPECT" ls -o tsv --columns=name,dtype,shape two > b
	cmp a b
}

@test "a file is named in its own folder" {
	mkdir deep
	"$FSDP_INSPECT" export -q --to=safetensors -o deep/one.safetensors "$SOURCE"
	holds deep one.safetensors
	run -2 "$FSDP_INSPECT" export -q --to=safetensors -o deep/one.safetensors "$SOURCE"
	"$FSDP_INSPECT" export -q --force --to=safetensors -o deep/one.safetensors "$SOURCE"
	run -2 "$FSDP_INSPECT" export -q --to=safetensors -o nowhere/one.safetensors "$SOURCE"
}

@test "what cannot be a target is named, with the reason" {
	: > file
	mkdir folder
	run -2 export_to file "$SOURCE"
	[[ "$output" == *"file is a file, but export writes a directory"*"--to=safetensors"* ]]
	run -2 export_to no/where "$SOURCE"
	[[ "$output" == *"cannot make the directory: No such file or directory"* ]]
	run -2 export_to folder --to=safetensors "$SOURCE"
	[[ "$output" == *"folder is a directory, but export writes one file"* ]]
	holds folder
	small 1m
	mount -o remount,ro small
	run export_to small/out "$SOURCE"
	umount small
	[ "$status" -eq 2 ]
	[[ "$output" == *"Read-only file system"* ]]
}

@test "no tensor is called as safetensors calls its metadata" {
	run -2 export_to out --rename=model.norm.bias=__metadata__ --strip=none "$SOURCE"
	[[ "$output" == *"can be called __metadata__"* ]]
	[ ! -e out ]
	"$FSDP_INSPECT" export -q --to=npy -o one.npy --rename=model.norm.bias=__metadata__ "$SOURCE" model.norm.bias
}

@test "a prefix and a rename that no name has are told" {
	run -0 "$FSDP_INSPECT" export -o out --strip=modle --rename=modle.norm=n --rename=model.norm=n "$SOURCE"
	[[ "$output" == *"--strip=modle: no name has this prefix"* ]]
	[[ "$output" == *"--rename=modle.norm=n: no name is equal to it"* ]]
	[[ "$output" != *"--rename=model.norm"* ]]
}

@test "a line tells what a wrapper puts in front of names, and what removes it" {
	run -0 "$FSDP_INSPECT" export -o out --strip=none --rename=model=_orig_mod "$SOURCE"
	[[ "$output" == *"_orig_mod. is the prefix of"*"not compiled"*"--strip=_orig_mod removes it"* ]]
	run -0 "$FSDP_INSPECT" export -o stripped --strip=_orig_mod out
	[[ "$output" != *"in front of"* ]]
	run -0 "$FSDP_INSPECT" export -o ddp --strip=none --rename=model=module "$SOURCE"
	[[ "$output" == *"module. is the prefix of"*"--strip=module removes it"* ]]
	# One module of a model.
	run -0 "$FSDP_INSPECT" export -o some --strip=none --rename=model.norm=module.norm "$SOURCE"
	[[ "$output" != *"in front of"* ]]
}

@test "a shard of no bytes is refused" {
	run -2 export_to out --max-shard-size=0 "$SOURCE"
	[[ "$output" == *"must be above 0"* ]]
	[ ! -e out ]
}

@test "NumPy gets unsigned integers for what it does not know, and a line says so" {
	export_to out --cast=bfloat16 "$SOURCE" model.norm.bias
	run -0 "$FSDP_INSPECT" export --to=npy -o one.npy out norm.bias
	[[ "$output" == *"NumPy has no bfloat16"* ]]
	grep -aq "'descr': '<u2'" one.npy
}

@test "the answer goes to a file while tensors go to standard output" {
	"$FSDP_INSPECT" export --to=safetensors -o - --output=json=answer.json "$SOURCE" > a.safetensors
	[ "$(jq .data.verified answer.json)" = false ]
	[ "$(jq '.data.tensors | length' answer.json)" -gt 10 ]
	"$FSDP_INSPECT" ls -q a.safetensors > /dev/null
}

# Rows hold their own number, so that each can be told where it goes.
megatron() {
	python3 - "$1" "$2" <<'END'
import json, struct, sys
stacked = sys.argv[2] == "stacked"
heads, groups, width, hidden, ffn, layers, experts = 4, 2, 2, 3, 5, 2, 3
qkv, tensors = (heads + 2 * groups) * width, {}

def rows(layer, count, base):
    return b"".join(bytes([100 * layer + base + r] * hidden) for r in range(count))

def put(name, lead, data, shape):
    if stacked:
        tensors["decoder.layers." + name.replace(".local_experts.{j}.", ".experts.")] = (b"".join(data), lead + shape)
    else:
        for i, part in enumerate(data):
            layer, expert = (i // experts, i % experts) if len(lead) == 2 else (i, 0)
            tensors[f"decoder.layers.{layer}." + name.replace("{j}", str(expert))] = (part, shape)

put("self_attention.linear_qkv.weight", [layers], [rows(l, qkv, 0) for l in range(layers)], [qkv, hidden])
if "moe" in sys.argv[1]:
    put("mlp.experts.local_experts.{j}.linear_fc1.weight", [layers, experts],
        [rows(l, 2 * ffn, 20 * e) for l in range(layers) for e in range(experts)], [2 * ffn, hidden])
else:
    put("mlp.linear_fc1.weight", [layers], [rows(l, 2 * ffn, 50) for l in range(layers)], [2 * ffn, hidden])
header, data = {}, b""
for name, (content, shape) in tensors.items():
    header[name] = {"dtype": "U8", "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
    data += content
head = json.dumps(header).encode()
head += b" " * (-len(head) % 8)
open(sys.argv[1], "wb").write(struct.pack("<Q", len(head)) + head + data)
END
}

# FILE NAME: the first byte of each row.
rows_of() {
	"$FSDP_INSPECT" export -q --to=raw -o - "$1" "$2" | od -A n -v -t u1 -w3 | awk '{printf "%s ", $1}'
}

@test "a map cuts what Megatron holds together" {
	maps="${BATS_TEST_DIRNAME}/../../data/maps"
	for how in apart stacked; do
		rm -rf out
		megatron dense.safetensors "$how"
		export_to out --map="$maps/megatron-hf-llama.json" --size=num_attention_heads=4 \
			--size=num_key_value_heads=2 dense.safetensors
		[ "$(rows_of out model.layers.1.self_attn.q_proj.weight)" = "100 101 102 103 108 109 110 111 " ]
		[ "$(rows_of out model.layers.1.self_attn.k_proj.weight)" = "104 105 112 113 " ]
		[ "$(rows_of out model.layers.0.self_attn.v_proj.weight)" = "6 7 14 15 " ]
		[ "$(rows_of out model.layers.0.mlp.gate_proj.weight)" = "50 51 52 53 54 " ]
		[ "$(rows_of out model.layers.1.mlp.up_proj.weight)" = "155 156 157 158 159 " ]
		rm -rf out
		megatron moe.safetensors "$how"
		export_to out --map="$maps/megatron-hf-mixtral.json" --size=num_attention_heads=4 \
			--size=num_key_value_heads=2 moe.safetensors
		[ "$(rows_of out model.layers.1.block_sparse_moe.experts.2.w1.weight)" = "140 141 142 143 144 " ]
		[ "$(rows_of out model.layers.0.block_sparse_moe.experts.1.w3.weight)" = "25 26 27 28 29 " ]
	done
}

@test "a map is found by name, and joins what others hold apart" {
	sizes=(--size=num_attention_heads=4 --size=num_key_value_heads=2)
	megatron dense.safetensors apart
	family=llama
	"$FSDP_INSPECT" ls -q -o name dense.safetensors | grep -q experts && family=mixtral
	export_to hf --map=hf-$family "${sizes[@]}" dense.safetensors
	export_to back --map=megatron-$family "${sizes[@]}" hf
	"$FSDP_INSPECT" diff -q --values dense.safetensors back
	run -2 export_to out --map=hf-lama dense.safetensors
	[[ "$output" == *"unknown map hf-lama"*"help maps"* ]]
}

@test "a map that does not fit is refused" {
	maps="${BATS_TEST_DIRNAME}/../../data/maps"
	megatron dense.safetensors apart
	run -2 export_to out --map="$maps/megatron-hf-llama.json" dense.safetensors
	[[ "$output" == *"the map needs num_attention_heads"* ]]
	run -2 export_to out --map="$maps/megatron-hf-llama.json" --size=num_attention_heads=4 \
		--size=num_key_value_heads=3 dense.safetensors
	[[ "$output" == *"a part is not a whole number"* ]]
	run -2 export_to out --map="$maps/megatron-hf-llama.json" --size=num_attention_heads=9 \
		--size=num_key_value_heads=3 dense.safetensors
	[[ "$output" == *"its rows cannot be divided"* ]]
	run -2 export_to out --map="$maps/megatron-hf-llama.json" "$SOURCE"
	[[ "$output" == *"the map has no row for"* ]]
	echo '{"tensors": []}' > no.json
	run -2 export_to out --map=no.json "$SOURCE"
	[[ "$output" == *"this is not a map of names"* ]]
	echo '[' > no.json
	run -2 export_to out --map=no.json "$SOURCE"
	[[ "$output" == *"fix: fsdp-inspect help maps"* ]]
	for row in '{}' '{"from": "a"}' '{"from": "a", "to": []}' '{"from": "a", "to": [1]}' \
		'{"from": "a", "to": ["b", "c"], "parts": [1]}' '{"from": "a", "to": "b", "parts": [0]}' \
		'{"from": "a", "to": "b", "groups": -1}' '{"from": "a", "to": "b", "stack": 0}' \
		'{"from": "a", "to": ["b", "c"], "rotary": 2}' '{"from": "a", "to": "b", "transpose": 1}' '7' \
		'{"from": "a", "drop": false}' '{"from": "a", "drop": 1}' '{"from": "a", "to": "b", "drop": true}'; do
		echo "{\"fsdp_inspect_map\": 1, \"tensors\": [$row]}" > bad.json
		run -2 export_to out --map=bad.json "$SOURCE"
		[[ "$output" == *"row 0 of the map"* ]]
	done
	[ ! -e out ]
}

@test "more files than a process may open by default" {
	many model.safetensors 300
	(ulimit -Sn 128 && export_to out --no-verify --max-shard-size=1 model.safetensors > /dev/null)
	[ "$(find out -name '*.safetensors' | wc -l)" -eq 300 ]
}

@test "no link of a folder brings a file of elsewhere into the target" {
	mkdir -p hub/blobs hub/snapshots/main
	cp "$TESTDATA"/hf/llama-sharded/*.safetensors* hub/snapshots/main
	local blob=0123456789abcdef0123456789abcdef01234567
	echo '{"vocab_size":1}' >hub/blobs/$blob
	echo secret >secret
	ln -s ../../blobs/$blob hub/snapshots/main/config.json
	ln -s "$PWD/secret" hub/snapshots/main/vocab.json
	ln -s ../../../secret hub/snapshots/main/merges.txt
	"$FSDP_INSPECT" export -q --no-sandbox -o out hub/snapshots/main >/dev/null
	[ "$(cat out/config.json)" = '{"vocab_size":1}' ]
	[ ! -e out/vocab.json ]
	[ ! -e out/merges.txt ]
}

# FILE NAME...: safetensors of a 2x2 tensor of each name.
named() {
	python3 - "$@" <<'END'
import json, struct, sys
names = sys.argv[2:]
header = json.dumps({n: {"dtype": "F32", "shape": [2, 2], "data_offsets": [16 * i, 16 * i + 16]} for i, n in enumerate(names)}).encode()
header += b" " * (-len(header) % 8)
with open(sys.argv[1], "wb") as out:
    out.write(struct.pack("<Q", len(header)) + header + bytes(range(1, 1 + 16)) * len(names))
END
}

names_in() {
	"$FSDP_INSPECT" ls -q --json "$1" | jq -r '[.data.tensors[].name] | join(" ")'
}

@test "of a model and its average one is chosen" {
	named two.safetensors state_dict.a.weight state_dict.b.weight ema_state_dict.a.weight ema_state_dict.b.weight
	run --separate-stderr "$FSDP_INSPECT" export -o out two.safetensors
	[ "$status" -eq 2 ]
	[[ $stderr == *"--prefix=state_dict or --prefix=ema_state_dict"* ]]
	[ ! -e out ]
	"$FSDP_INSPECT" info --json two.safetensors >info
	[ "$(jq -c '.data.average.name, .data.average.tensors, .data.counts.parameters' info | tr -d '\n')" = '"ema_state_dict"28' ]
	[[ $("$FSDP_INSPECT" info two.safetensors) == *"average      ema_state_dict.* (same names and shapes as the model): 2 tensors, float32, 32 B"* ]]
	export_to out --prefix=ema_state_dict two.safetensors
	[ "$(names_in out)" = "a.weight b.weight" ]
	# An average that lacks a tensor, and two parts of one model, are none.
	named part.safetensors state_dict.a.weight state_dict.b.weight ema_state_dict.c.weight
	[ "$("$FSDP_INSPECT" info --json part.safetensors | jq -c '.data.average, .data.counts.parameters' | tr '\n' ' ')" = "null 12 " ]
	export_to part part.safetensors
	named twins.safetensors q1.a.weight q2.a.weight
	export_to twins twins.safetensors
}

@test "of LoRA that is not merged the model or the adapter is written" {
	named lora.safetensors base_model.model.a.q.base_layer.weight base_model.model.a.q.lora_A.default.weight \
		base_model.model.a.q.lora_B.default.weight base_model.model.b.weight
	run --separate-stderr "$FSDP_INSPECT" export -o out lora.safetensors
	[ "$status" -eq 2 ]
	[[ $stderr == *"--base writes the model"* ]]
	export_to base --base lora.safetensors
	[ "$(names_in base)" = "a.q.weight b.weight" ]
	run "$FSDP_INSPECT" export -o lora --adapter lora.safetensors
	[[ $output == *"adapter_config.json (add one"* ]]
	# Another configuration does not stand for it.
	mkdir model && cp lora.safetensors model/model.safetensors && echo {} >model/config.json
	run "$FSDP_INSPECT" export -o of-model --adapter model
	[[ $output == *"copied       config.json"*"missing      adapter_config.json (add one"* ]]
	echo '{"peft_type": "LORA"}' >model/adapter_config.json
	run "$FSDP_INSPECT" export -o configured --adapter --with-config=model lora.safetensors
	[[ $output != *missing* ]]
	[ "$(names_in lora/adapter_model.safetensors)" = "base_model.model.a.q.lora_A.weight base_model.model.a.q.lora_B.weight" ]
	run --separate-stderr "$FSDP_INSPECT" export -o both --adapter --base lora.safetensors
	[ "$status" -eq 2 ]
	named plain.safetensors a.q.weight b.weight
	export_to plain plain.safetensors
}

@test "an adapter is written as one" {
	export_to out "$TESTDATA/complete/lora-some-layers/checkpoint"
	[ -e out/adapter_model.safetensors ] && [ -e out/adapter_config.json ] && [ ! -e out/model.safetensors ]
	"$FSDP_INSPECT" audit -q out
}

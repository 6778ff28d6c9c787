#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Outputs that other programs draw, opened by these programs where they are installed.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR"
	bin=$FSDP_INSPECT
	data=$TESTDATA
}

# A model whose names would hurt whatever does not escape them.
hostile() {
	cat > hostile.fsdp-plan.json <<'PLAN'
{"format": "fsdp-plan", "version": 1, "world_size": 2, "modules": [
 {"name": "", "class": "N\"et;\\G"},
 {"name": "a;b 7", "class": "</svg><script>alert(1)</script>"},
 {"name": "a;b 7.\u001b[31mred", "class": "\u202egnp"},
 {"name": "a;b 7.line\nfeed", "class": "Lin\\near"},
 {"name": "\"quoted\\\"", "class": "&lt;&amp;"}],
 "parameters": [{"fqn": "a;b 7.\u001b[31mred.w;eight", "shape": [3], "dtype": "float32"},
  {"fqn": "a;b 7.line\nfeed.bias\"", "shape": [5], "dtype": "float32"},
  {"fqn": "\"quoted\\\".x\\", "shape": [7], "dtype": "float32"}], "units": []}
PLAN
}

# A page that needs nothing else: the policy allows its own styles, by their digests.
self_contained() {
	python3 - "$1" <<'PYTHON'
import base64, hashlib, html.parser, re, sys
text = open(sys.argv[1], encoding="utf-8").read()
class Page(html.parser.HTMLParser):
    void = {"meta", "br", "rect"}
    def __init__(self):
        super().__init__()
        self.open, self.styles, self.ids, self.leads = [], [], [], []
    def handle_starttag(self, tag, attributes):
        names = dict(attributes)
        assert tag not in ("script", "link", "img", "iframe", "object", "base"), tag
        assert not any(n.startswith("on") or n in ("src", "style") for n in names), names
        # Links lead to another place of the page.
        if "href" in names:
            assert tag == "a" and names["href"].startswith("#"), names
            self.leads.append(names["href"][1:])
        self.ids += [names["id"]] if "id" in names else []
        if tag not in self.void:
            self.open.append(tag)
    def handle_startendtag(self, tag, attributes):
        pass
    def handle_endtag(self, tag):
        if tag not in self.void:
            assert self.open.pop() == tag, tag
    def handle_data(self, data):
        if self.open[-1:] == ["style"]:
            self.styles.append(data)
page = Page()
page.feed(text)
page.close()
assert not page.open and len(page.ids) == len(set(page.ids))
assert set(page.leads) <= set(page.ids), set(page.leads) - set(page.ids)
policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
assert policy.startswith("default-src 'none';")
for style in page.styles:
    assert base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in policy, style[:40]
assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f‪-‮⁦-⁩]", text)
assert text.startswith("<!DOCTYPE html>") and '<html lang="en">' in text and "<main>" in text
PYTHON
}

@test "ncdu reads its listing and finds all bytes" {
	hostile
	"$bin" tree -q -o ncdu=listing hostile.fsdp-plan.json
	jq -e '.[0] == 1' listing
	! LC_ALL=C grep -P '[^\x0a\x20-\x7e]' listing
	[ "$(jq '[.. | objects | .asize // 0] | add' listing)" = 60 ]
	command -v ncdu || skip "ncdu is not installed"
	ncdu -f listing -o again
	[ "$(jq '[.. | objects | .asize // 0] | add' again)" = 60 ]
	"$bin" tree -q -o ncdu "$data/demo/step-1234" | ncdu -f - -o again
}

@test "a plan of a log is read as one" {
	log=$data/traces/printed_models/fsdp1_checkpoint_logging.log
	"$bin" tree -q --units-from="$log" -o json=a -o plan=x.fsdp-plan.json
	"$bin" tree -q --json --plan x.fsdp-plan.json x.fsdp-plan.json > b
	diff <(jq -c '.data' a) <(jq -c '.data' b)
	run -2 "$bin" tree -q -o plan "$data/demo/step-1234"
}

@test "with a checkpoint the plan has its parameters" {
	log=$data/traces/printed_models/fsdp2_some_noise.log
	"$bin" tree -q --units-from="$log" -o json=a -o plan=x.fsdp-plan.json "$data/hf/llama-sharded" || true
	jq -e '.from == "log" and (.parameters | type == "array")' x.fsdp-plan.json
	"$bin" tree -q --json --plan x.fsdp-plan.json "$data/hf/llama-sharded" > b || true
	diff <(jq -c '.data.units' a) <(jq -c '.data.units' b)
}

@test "a plan of a trace has the names of the model, not of where a checkpoint keeps it" {
	annotation='{"ph":"X","cat":"user_annotation","pid":1,"tid":1,"ts":%d,"dur":5,"name":"FSDP::%s"}'
	printf "[$annotation,$annotation,$annotation]" 1 pre_forward 2 'all_gather (u1)' 3 'all_gather (u2)' > trace.json
	"$bin" tree -q --units-from=trace.json -o json=a -o plan=x.fsdp-plan.json "$data/dcp/fsdp2-w4-hsdp"
	jq -e '.from == "trace" and [.units[].module] == ["", "u1", "u2"] and .modules[0].name == "" and
		(.modules | any(.name == "u1.seq")) and (.parameters | any(.fqn == "u1.l1.weight")) and
		(.modules + .parameters | all((.name // .fqn) | startswith("model") | not))' x.fsdp-plan.json
	"$bin" tree -q --json --plan x.fsdp-plan.json "$data/dcp/fsdp2-w4-hsdp" > b
	[ "$(jq -c '[.data.units[].api]' a)" = "$(jq -c '[.data.units[].api]' b)" ]
}

traces() {
	ls "$data"/traces/gpu_generated/new_args_rank*.gz
}

# What Perfetto and chrome://tracing ask of a trace.
valid_chrome() {
	jq -e '.displayTimeUnit == "ms" and (.traceEvents | type == "array") and
		all(.traceEvents[]; (.ph == "X" or .ph == "M") and (.pid | type == "number") and
			(.tid | type == "number") and (.name | type == "string")) and
		all(.traceEvents[] | select(.ph == "X"); .ts >= 0 and .dur >= 0 and (.cat | type == "string")) and
		([.traceEvents[] | select(.ph == "X") | [.pid, .tid]] | unique) ==
			([.traceEvents[] | select(.name == "thread_name") | [.pid, .tid]] | unique) and
		all([.traceEvents[] | select(.ph == "X")] | group_by([.pid, .tid])[]; sort_by(.ts) | . as $spans |
			all(range(1; length); ($spans[.].ts * 1000 | round) >=
				(($spans[. - 1].ts + $spans[. - 1].dur) * 1000 | round))) and
		([.traceEvents[] | select(.name == "process_name") | .pid] | length == (unique | length))' "$1" > /dev/null
}

@test "chrome: a trace of all ranks, whose lanes add up" {
	"$bin" replay -q -o json=replay.json -o chrome=trace.json $(traces)
	valid_chrome trace.json
	for rank in $(jq '.data.ranks[].rank' replay.json); do
		exposed=$(jq "[.traceEvents[] | select(.ph == \"X\" and .pid == $rank and .cat == \"exposed\").dur * 1000 | round] | add // 0" trace.json)
		[ "$exposed" = "$(jq ".data.ranks[] | select(.rank == $rank) | .device.exposed_ns" replay.json)" ]
		computing=$(jq "[.traceEvents[] | select(.ph == \"X\" and .pid == $rank and .cat == \"computing\").dur * 1000 | round] | add // 0" trace.json)
		[ "$computing" = "$(jq ".data.ranks[] | select(.rank == $rank) | .device.compute_busy_ns" replay.json)" ]
	done
}

@test "chrome: what overlaps has a thread of its own" {
	jq -n '{distributedInfo: {rank: 0, world_size: 1}, traceEvents: [range(9) | {ph: "X", cat: "kernel", pid: 0,
		name: "ncclDevKernel_AllGather_RING_LL", tid: (20 + . % 3), ts: (100 + 10 * .), dur: 25,
		args: {"Process Group Name": "ends with \\"}}]}' > over_rank0.json
	"$bin" replay -q -o chrome=over.json over_rank0.json
	valid_chrome over.json
	[ "$(jq -c '[.traceEvents[] | select(.name == "thread_name").args.name]' over.json)" = \
		'["collectives","collectives 2","collectives 3","exposed"]' ]
	jq -e '[.traceEvents[] | select(.cat == "collectives")] | length == 9 and
		all(.[]; .args["process group"] == "ends with \\")' over.json
	# Perfetto does not find the end of such a string behind two backslashes.
	! grep -F '\\' over.json
}

@test "chrome: clocks that differ make no difference" {
	set -- $(traces)
	gzip -dc "$1" > new_args_rank0.pt.trace.json
	gzip -dc "$2" > new_args_rank1.pt.trace.json
	"$bin" replay -q -o chrome=same.json new_args_rank?.pt.trace.json
	jq '.traceEvents |= map(if .ts then .ts += 7000000 else . end)' new_args_rank1.pt.trace.json > moved
	mv moved new_args_rank1.pt.trace.json
	"$bin" replay -q -o chrome=moved.json new_args_rank?.pt.trace.json
	[ "$(jq -c .traceEvents same.json)" = "$(jq -c .traceEvents moved.json)" ]
	[ "$(jq '.otherData.clocks | length' moved.json)" = 2 ]
	jq -e --slurpfile before same.json '.otherData.clocks | all(.aligned) and
		(.[0].offset_ns == $before[0].otherData.clocks[0].offset_ns) and
		(.[1].offset_ns - $before[0].otherData.clocks[1].offset_ns) as $moved |
		$moved == -7000000000' moved.json
	"$bin" replay -q -o chrome=again.json new_args_rank?.pt.trace.json
	cmp again.json moved.json
}

@test "chrome: a rank that shares no collective begins with the others, and two runs follow each other" {
	set -- $(traces)
	gzip -dc "$1" > alone_rank0.json
	gzip -dc "$2" | sed 's/"Process Group Name": *"[^"]*"/"Process Group Name": "other"/g; s/nccl/rccl/g' > alone_rank1.json
	"$bin" replay -o chrome=apart.json alone_rank0.json alone_rank1.json 2> notes
	grep "rank 1 shares no collective with rank 0, nor by way of others: it is drawn as if both began at once" notes
	jq -e '[.otherData.clocks[].aligned] == [true, false]' apart.json
	valid_chrome apart.json
	"$bin" replay -q -o chrome=twice.json "$1" "$2" alone_rank0.json
	valid_chrome twice.json
	jq -e '[.otherData.clocks[].rank] == [0, 1, 0]' twice.json
	jq -e '[.traceEvents[] | select(.pid == 0 and .cat == "steps")] |
		(length % 2 == 0) and (.[length / 2 - 1] as $last | .[length / 2].ts >= $last.ts + $last.dur)' twice.json
}

@test "names from a trace hurt no picture" {
	gzip -dc "$(traces | head -1)" | sed 's/nccl:all_gather/<\/svg><script>;\\u202e"/g; s/"Process Group Name": *"[^"]*"/"Process Group Name": "\\"}<\/title>\\u001b[31m"/g' > odd_rank0.json
	"$bin" replay -q -o chrome=trace.json odd_rank0.json
	"$bin" report -q --trace=odd_rank0.json -o html=report.html "$data/demo/step-1234"
	valid_chrome trace.json
	! LC_ALL=C grep -P '[^\x0a\x20-\x7e]' trace.json
	self_contained report.html
}

@test "html: a page needs nothing else" {
	hostile
	"$bin" report -q --trace="$data/traces/gpu_generated" -o html=report.html "$data/demo/step-1234"
	"$bin" report -q -o html=broken.html "$data/broken/dcp-chunk-gap/checkpoint" || true
	"$bin" report -q -o html=odd.html "$data/dcp/odd-names/checkpoint" || true
	"$bin" report -q -o html=hostile.html hostile.fsdp-plan.json || true
	run -2 "$bin" report -q -o html=none.html nowhere
	run -2 "$bin" info -o html "$data/demo/step-1234"
	for page in *.html; do
		self_contained "$page" || { echo "$page"; false; }
	done
	grep -q 'chunk-gap' broken.html
	grep -q 'class="n h8"' report.html
	grep -q '<svg' report.html
	"$bin" report -q --trace="$data/traces/gpu_generated" -o html=again.html "$data/demo/step-1234"
	cmp again.html report.html
}

# The text of a page, a block to a line.
words_of() {
	python3 -c '
import re, sys, html
text = re.sub(r"<style>.*?</style>", "", open(sys.argv[1], encoding="utf-8").read(), flags=re.S)
print(html.unescape(re.sub(r"<[^>]*>", " ", text)))' "$1" | tr -s ' '
}

@test "html: a report judges as audit does, and asks the loaders" {
	for model in "$data/demo/step-1234" "$data/broken/dcp-chunk-gap/checkpoint" "$data/hf/llama-sharded"; do
		verdict=$("$bin" audit -q --json "$model" | jq -r '.data.verdict') || true
		"$bin" report -qq -o html=report.html "$model"
		words_of report.html > words
		grep -q "verdict $verdict: " words || { echo "$model is $verdict"; grep verdict words; false; }
		"$bin" audit -q --json --for=all "$model" | jq -r '.data.loaders[] | "\(.loader) .*\(.verdict)"' > loaders || true
		while read -r line; do
			grep -qE "^ *$line" words || { echo "$model: no $line"; false; }
		done < loaders
		# Each finding once.
		"$bin" audit -q --json "$model" | jq '[.findings[] | select(.rule != "FI9006")] | length' > count || true
		[ "$(grep '<td><strong class="' report.html | grep -vc FI9006)" = "$(cat count)" ]
	done
}

@test "html: a report shows the times of a run" {
	"$bin" report -q --trace="$data/traces/gpu_generated" -o html=folder.html "$data/demo/step-1234"
	self_contained folder.html
	files=()
	for file in "$data"/traces/gpu_generated/*.json.gz; do files+=(--trace="$file"); done
	"$bin" report -q "${files[@]}" -o html=files.html "$data/demo/step-1234"
	diff <(words_of folder.html | sed "1,/, status 0/d") <(words_of files.html | sed "1,/, status 0/d")
	words_of folder.html > words
	for rank in 0 1 2 3; do
		grep -q "^ rank $rank" words
	done
	set -- $(traces)
	"$bin" report -q --trace="$1" -o html=one.html "$data/demo/step-1234"
	"$bin" replay -q --by=unit --json "$1" | jq -r '.data.units[].unit // empty' | sort -u > units
	[ -s units ]
	while read -r unit; do
		words_of one.html | grep -q "^ *$unit " || { echo "no $unit"; false; }
	done < units
	run -2 "$bin" report -q --trace=nowhere -o html=none.html "$data/demo/step-1234"
	echo '{"a": ' > broken.json
	run -3 "$bin" report -q --trace="$1" --trace=broken.json -o html=part.html "$data/demo/step-1234"
	[[ $output == *broken.json* ]]
	words_of part.html | grep -q broken.json
}

@test "html: bars of modules zoom without a script" {
	"$bin" report -q -o html=report.html "$data/demo/step-1234"
	python3 - report.html <<'PYTHON'
import re, sys
text = open(sys.argv[1], encoding="utf-8").read()
pictures = re.findall(r'<figure class="zoom" id="(z\d+)">(.*?)</figure>', text, re.S)
assert [name for name, _ in pictures][-1] == "z0"
links = {name: set(re.findall(r'href="#(z\d+)"', body)) for name, body in pictures}
seen, todo = {"z0"}, ["z0"]
while todo:
    for name in links[todo.pop()] - seen:
        seen.add(name)
        todo.append(name)
assert seen == set(links), links
assert all("z0" in links[name] for name in links if name != "z0")
for name, body in pictures:
    bars = [[int(n) for n in bar] for bar in re.findall(r'x="(\d+)" y="(\d+)" width="(\d+)"', body)]
    assert bars[0][0] == 0 and bars[0][2] >= 999, bars[0]
    for row in {y for _, y, _ in bars}:
        of_row = sorted(bar for bar in bars if bar[1] == row)
        assert all(a[0] + a[2] <= b[0] for a, b in zip(of_row, of_row[1:])), of_row
        assert of_row[-1][0] + of_row[-1][2] <= 1000
PYTHON
}

# What a browser logs of a page; prints it to a file as well.
browsed() {
	timeout 100 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/profile" \
		--enable-logging=stderr --print-to-pdf="$1.pdf" "file://$PWD/$1" 2>&1 | grep CONSOLE || true
}

@test "html: a browser shows pages without a message" {
	for browser in chromium chromium-browser google-chrome ""; do
		command -v "$browser" > /dev/null && break
	done
	[ -n "$browser" ] || skip "no Chromium"
	# That a style without its digest would be seen.
	"$bin" report -q --trace="$data/traces/gpu_generated" -o html=report.html "$data/demo/step-1234"
	sed 's/max-width: 76rem/max-width: 75rem/' report.html > changed.html
	[[ $(browsed changed.html) == *"Content Security Policy"* ]] || skip "Chromium does not run here"
	[ -z "$(browsed report.html)" ]
	[ -s report.html.pdf ]
}

@test "html: a model of many tensors stays a page" {
	python3 -c '
import json
names = [f"model.layers.{i}.mlp.experts.{k}.w{j}.weight" for i in range(100) for k in range(100) for j in range(10)]
head = {n: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in names}
head["big.weight"] = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
head = json.dumps(head).encode()
open("many.safetensors", "wb").write(len(head).to_bytes(8, "little") + head + bytes(8))
head = {n: {"dtype": "U8", "shape": [2], "data_offsets": [2 * i, 2 * i + 2]} for i, n in enumerate(names)}
head = json.dumps(head).encode()
open("even.safetensors", "wb").write(len(head).to_bytes(8, "little") + head + bytes(200000))'
	"$bin" report -q even.safetensors > even.html
	[ "$(stat -c %s even.html)" -lt 2000000 ]
	self_contained even.html
	[ "$(grep -c 'class="zoom"' even.html)" -gt 10 ]
	"$bin" report -q many.safetensors > many-report.html
	[ "$(stat -c %s many-report.html)" -lt 2000000 ]
	self_contained many-report.html
}

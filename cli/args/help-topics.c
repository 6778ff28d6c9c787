/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Help topics other than commands: plans, recordings, JSON, findings.
 */
#include <string.h>

#include "args/parse.h"

static const char PLAN[] =
	"A checkpoint stores names, shapes and bytes. It does not store the classes of\n"
	"modules, nor which modules were FSDP units: FULLY SHARDED is then inferred. A\n"
	"sharding plan has both. It is a JSON file, written once by the process that has\n"
	"the model, after fully_shard() or FullyShardedDataParallel():\n"
	"\n"
	"  from fsdp_inspect.recorders import export_plan   # contrib/python\n"
	"  export_plan(model, \"step-1000/model.fsdp-plan.json\")\n"
	"\n"
	"A *.fsdp-plan.json next to a checkpoint is used if it is the only one. A note\n"
	"names it.\n"
	"\n"
	"  fsdp-inspect tree step-1000                       marks as they were\n"
	"  fsdp-inspect tree --plan=net.fsdp-plan.json step-1000\n"
	"  fsdp-inspect tree --no-plan step-1000             without the plan\n"
	"  fsdp-inspect tree net.fsdp-plan.json              the plan itself\n"
	"\n"
	"Every key of it: the manual page fsdp-inspect-plan(5)\n";

static const char TRACE[] =
	"What to record for replay and order.\n"
	"\n"
	"Where does the time of a step go? A trace of torch.profiler on every rank:\n"
	"\n"
	"  from torch.profiler import (profile, schedule, tensorboard_trace_handler,\n"
	"                              ProfilerActivity)\n"
	"  with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],\n"
	"               schedule=schedule(wait=5, warmup=2, active=3),\n"
	"               on_trace_ready=tensorboard_trace_handler(\"traces\")) as p:\n"
	"      for batch in loader:\n"
	"          train_step(batch)\n"
	"          p.step()                       # with schedule=, it marks the steps\n"
	"\n"
	"  fsdp-inspect replay traces             all files of a directory\n"
	"  fsdp-inspect replay --timeline traces  what filled each rank's time\n"
	"\n"
	"What does saving the optimizer cost? SimpleProfiler of FSDP1 times that, and not\n"
	"the steps: record_profiler of contrib/python, or the lines it leaves in a log.\n"
	"\n"
	"In which order are units used, and where do ranks diverge? record_handles and\n"
	"record_fx of contrib/python:\n"
	"\n"
	"  fsdp-inspect order order_rank*.jsonl\n"
	"\n"
	"Which rank does a job wait for that timed out in a collective? Dumps of the\n"
	"Flight Recorder: TORCH_FR_BUFFER_SIZE=2000, TORCH_NCCL_DUMP_ON_TIMEOUT=1\n"
	"\n"
	"  fsdp-inspect order nccl_trace_rank_*\n"
	"\n"
	"Which code uses the memory of the GPU? Snapshots: _record_memory_history() and\n"
	"_dump_snapshot(FILE) of torch.cuda.memory\n"
	"\n"
	"  fsdp-inspect replay --memory oom_rank*.pickle\n"
	"\n"
	"The formats: the manual page fsdp-inspect-trace(5)\n";

static const char JSON[] =
	"--json writes one document, also on failure:\n"
	"\n"
	"  schema, schema_version  \"fsdp-inspect.ls\", \"1.0\": fields are only ever added\n"
	"  tool                    name and version\n"
	"  ok                      true when the status is 0\n"
	"  inputs                  what was read, each with id, path and status\n"
	"  data                    the answer: fsdp-inspect schema COMMAND describes it\n"
	"  findings                what was noticed: rule, severity, file, message, fix\n"
	"  errors                  failures: code, path, message, hint\n"
	"\n"
	"--jsonl writes one object per line: header, items, findings, errors, end. A file\n"
	"whose last line is not of type end is truncated. Bytes, offsets and times are\n"
	"integers; unknown fields are omitted; the same input gives the same bytes.\n"
	"\n"
	"  fsdp-inspect ls --json m.pt | jq -r '.data.tensors[].name'\n"
	"  fsdp-inspect info --json m.pt |\n"
	"    jq '[.findings[] | select(.severity == \"error\")]'\n"
	"  fsdp-inspect ls --jsonl m.pt | jq -r 'select(.type==\"item\").name'\n"
	"\n"
	"All fields: the manual page fsdp-inspect-json(5)\n";

static const char FINDINGS[] =
	"A finding is a problem or a fact that was noticed; its rule has a fixed id:\n"
	"\n"
	"  error    something is lost or wrong; errors are always printed\n"
	"  warning  something is unusual, and may be intended; -qq hides it\n"
	"  note     worth knowing; -v shows it\n"
	"\n"
	"A finding does not change the status of a command that answers a question. Only\n"
	"audit does: status 1 from --fail-on=error (the default) on.\n"
	"\n"
	"  fsdp-inspect audit step-1000                    problems and fixes\n"
	"  fsdp-inspect audit --data step-1000             every byte is read\n"
	"  fsdp-inspect audit --fail-on=warning step-1000  stricter\n"
	"  fsdp-inspect audit --rule=FI4002=off step-1000  without one rule\n"
	"  fsdp-inspect help FI1004                        one rule: cause and fix\n"
	"  fsdp-inspect rules                              all of them\n";

static const char EXAMPLES[] =
	"A colleague's directory\n"
	"  fsdp-inspect info step-1000                     what is it?\n"
	"  fsdp-inspect tree -d 3 step-1000                which modules?\n"
	"  fsdp-inspect ls -g '**.q_proj.weight' step-1000 which tensors?\n"
	"  fsdp-inspect show step-1000 lm_head.weight      where are its bytes?\n"
	"  fsdp-inspect audit step-1000                    is it good?\n"
	"\n"
	"A pipeline\n"
	"  fsdp-inspect audit -q model/ && deploy model/\n"
	"  fsdp-inspect audit -o text -o sarif=audit.sarif model/\n"
	"  fsdp-inspect fqns --flat -o text model/ | diff - expected-names.txt\n"
	"  fsdp-inspect pickle --globals model.bin         which code would it run?\n"
	"\n"
	"A slow run\n"
	"  fsdp-inspect replay traces/                     where does a step go?\n"
	"  fsdp-inspect replay --by=collective --top=10 traces/\n"
	"  fsdp-inspect replay --fail-if 'exposed>20%' traces/\n"
	"  fsdp-inspect order --first-diff order_rank*.jsonl\n"
	"  fsdp-inspect order nccl_trace_rank_*            who hangs, and where?\n"
	"\n"
	"Habits: ls -s -bytes --head=10 (du), ls --json | jq, ls -o tsv | awk\n";

static const char RULES[] =
	"Each finding has a rule: an id that never changes (FI1004) and a name\n"
	"(truncated-file). Commands accept both, in upper or lower case.\n"
	"\n"
	"  FI1xxx  structure: missing or inconsistent files, pieces and names\n"
	"  FI2xxx  integrity: checksums and digests of bytes\n"
	"  FI3xxx  safety: code that pickles would run\n"
	"  FI4xxx  naming: names and dtypes that loaders reject\n"
	"  FI5xxx  optimizer: states and their parameters\n"
	"  FI6xxx  between two checkpoints\n"
	"  FI7xxx  recordings\n"
	"  FI9xxx  limits: content that could not be checked\n"
	"\n"
	"  fsdp-inspect rules                   list all rules\n"
	"  fsdp-inspect rules FI1004            cause, risk and fix of one\n"
	"  fsdp-inspect audit --checks MODEL    result of each rule\n"
	"\n"
	"The manual page fsdp-inspect-rules(7) has cause and fix of each.\n";

static const char ENVIRONMENT[] =
	"  FSDP_INSPECT_COLOR     default of --color\n"
	"  FSDP_INSPECT_JOBS      default of --jobs\n"
	"  FSDP_INSPECT_PROGRESS  default of --progress\n"
	"  NO_COLOR               not empty: no color\n"
	"  FORCE_COLOR, CLICOLOR_FORCE\n"
	"                         not empty and not 0: color, also in a pipe\n"
	"  CLICOLOR               0: no color\n"
	"  TERM                   dumb or unset: no color\n"
	"  COLUMNS                width of the terminal\n"
	"  LC_ALL, LC_CTYPE, LANG no UTF-8: text is ASCII only\n\n"
	"Options have priority over the environment. --part=auto and URLs read more\n"
	"variables. No configuration file is read.\n";

/* The terms of messages and manual, one line per term. */
static const char WORDS[] =
	"  rank            a process of the training run; ranks count from 0\n"
	"  world size      number of ranks of the run\n"
	"  mesh            device mesh with named dimensions: dp_shard=8, tp=2\n"
	"  FSDP1           FullyShardedDataParallel: shards flat parameters\n"
	"  FSDP2           fully_shard: shards each parameter by itself, as a DTensor\n"
	"  HSDP            sharded in a group of ranks, replicated across groups\n"
	"  unit            modules whose parameters FSDP gathers and shards together\n"
	"  flat parameter  FSDP1: parameters of a unit, flattened and concatenated\n"
	"  shard           part of a tensor that one rank owns\n"
	"  piece           part of a tensor stored in one file\n"
	"  placement       Shard(0), Replicate() or Partial() on one mesh dimension\n"
	"  replicated      equal on several ranks\n"
	"  state dict      mapping of FQNs to tensors and values\n"
	"  FULL, SHARDED   state dict of full tensors, or of shards with global shapes\n"
	"  LOCAL           state dict of shards of flat parameters\n"
	"  DCP             torch.distributed.checkpoint: .metadata and .distcp files\n"
	"  FQN             fully qualified name of a parameter: layers.0.attn.wq.weight\n"
	"  role            parameter, buffer, optimizer state, or other\n"
	"  value           entry that is not a tensor: a step, a learning rate, a list\n"
	"  header          description inside a data file\n"
	"  metadata        description in a file of its own\n"
	"  index           model.safetensors.index.json: the file of each tensor\n"
	"  plan            JSON file with classes and units, next to a checkpoint\n"
	"  tied weights    two FQNs, one tensor\n"
	"  checksum        CRC-32 stored in a zip; a digest is a SHA-256\n"
	"  missing         listed, but absent; unexpected: present, but not listed\n"
	"  truncated       shorter than its header or metadata requires\n"
	"  corrupted       data does not match its checksum\n"
	"  unreferenced    bytes or files that nothing points to\n"
	"  unused          stored bytes that no tensor views\n"
	"  unsupported     known, but not implemented\n"
	"  not checked     the rule did not run\n"
	"  not judged      it is not known whether the loader loads it\n"
	"  inferred        derived from data, not recorded\n"
	"  recording       a trace, an order log, a dump or a memory snapshot\n"
	"  exposed         communication that compute does not overlap\n"
	"  diverge         ranks call different collectives\n";

static const struct topic topics[] = {
	{ "environment", ENVIRONMENT },
	{ "words", WORDS },
	{ "plan", PLAN },
	{ "trace", TRACE },
	{ "json", JSON },
	{ "findings", FINDINGS },
	{ "examples", EXAMPLES },
	{ "rules", RULES },
};

/* Words of earlier versions. `command` is the one that had the option or output; NULL:
 * any. */
static const struct {
	const char *word, *command, *instead;
} removed[] = {
	{ "browse", NULL, "fsdp-inspect tree -o ncdu CHECKPOINT | ncdu -f -" },
	{ "junit", NULL, "-o json, and the jq recipe in doc/ci.md" },
	{ "github", NULL, "-o json, and the jq recipe in doc/ci.md" },
	{ "dot", NULL, "-o ncdu or --json" },
	{ "html", NULL, "report, which writes a page" },
	{ "--policy", "audit",
		"--rule=RULE=LEVEL, --fail-on and --allow-global=MODULE.NAME" },
	{ "--baseline", "audit", "--rule=RULE=LEVEL, or jq over two results of --json" },
	{ "--heat", "ls", "report, whose page has bytes by layer and rank" },
	{ "--ops", "pickle", "python -m pickletools FILE, or fickling" },
	{ "folded", NULL, "-o chrome, which Perfetto and speedscope draw, or --json" },
	{ "svg", NULL, "-o chrome, which Perfetto and speedscope draw" },
};

const char *removed_word(const char *word, const char *command)
{
	for (size_t i = 0; i < sizeof removed / sizeof *removed; i++) {
		const char *name = removed[i].word;

		if (command == NULL && word[0] != '-')
			name += strspn(name, "-");
		if (strcmp(name, word) == 0 &&
			(command == NULL || removed[i].command == NULL ||
				strcmp(removed[i].command, command) == 0))
			return removed[i].instead;
	}
	return NULL;
}

const struct topic *topic_at(size_t index)
{
	return index < sizeof topics / sizeof *topics ? &topics[index] : NULL;
}

const struct topic *topic_find(const char *name)
{
	for (size_t i = 0; topic_at(i) != NULL; i++)
		if (strcmp(topic_at(i)->name, name) == 0)
			return topic_at(i);
	return NULL;
}

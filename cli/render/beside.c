/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands beside every answer: inputs, findings, failures, and how much was left out.
 * An output that shows them walks these records.
 */
#include "render/record.h"

static const char *const SEVERITIES[] = { "note", "warning", "error", NULL };
static const char *const KINDS[] = { "checkpoint", "plan", "trace", "log", "pickle",
	"manifest", "expect", "merged", NULL };
static const char *const CODES[] = { "usage", "system", "not_a_checkpoint", "damaged",
	"unsupported", "limit", "memory", "internal", NULL };

const char *severity_name(unsigned severity)
{
	return SEVERITIES[severity];
}

#define PROVENANCE struct provenance
static struct value get_arguments(struct subject of)
{
	const PROVENANCE *provenance = of.object;

	return value_texts(provenance->arguments, provenance->argument_count);
}

const struct record provenance_record = OBJECT_RECORD(PROVENANCE, "provenance",
	"Who ran the program: with `--provenance` only, since it makes two runs differ.",
	{ "arguments", GET(FIELD_TEXTS, get_arguments), .always = true,
		.about = "The words behind the program's name." },
	{ "host", TEXT_AT(PROVENANCE, host), .always = true,
		.about = "Name of the machine." },
	{ "started", TEXT_AT(PROVENANCE, started), .always = true,
		.about = "When it began, in UTC: `2026-01-31T08:00:00Z`." });

static struct value get_status(struct subject of)
{
	int status = ((const struct input_record *)of.object)->status;

	return status >= 0 ? value_integer(status) : value_absent();
}

static bool was_found(struct subject of)
{
	return ((const struct input_record *)of.object)->found;
}

#define INPUT struct input_record
const struct record input_object = OBJECT_RECORD(INPUT, "input",
	"Something that was read: what the user named, or a file found beside it.",
	{ "id", ID_AT(INPUT, id), .always = true,
		.about =
			"Number by which findings and errors refer to it; counts from 0." },
	{ "path", TEXT_AT(INPUT, path), .always = true,
		.about =
			"Path as it was typed, or as it was found; `-` is standard input." },
	{ "base", TEXT_AT(INPUT, base),
		.about =
			"Folder in which the names of its files begin: one below the path that was opened in its place, or the one that a named file stands for; in an archive, a folder of it. Absent when they begin at the path." },
	{ "kind", WORD_AT(INPUT, kind), .always = true, .words = KINDS,
		.about = "What it served as." },
	{ "format", WORD_AT(INPUT, format),
		.about =
			"Family of formats it was recognised as, such as `torch-zip` or `dcp`. Absent when nothing was recognised." },
	{ "status", GET(FIELD_COUNT, get_status),
		.about = "Exit status this input alone would have given." },
	{ "found", BOOL_AT(INPUT, found), .has = was_found,
		.about =
			"True for a file that the program looked up itself because it lies beside the checkpoint." });

static struct value get_fingerprint(struct subject of)
{
	return value_word(((const struct finding *)of.object)->fingerprint);
}

static struct value get_affected(struct subject of)
{
	const struct finding *finding = of.object;

	return value_texts(finding->affected, finding->affected_kept);
}

static bool has_affected(struct subject of)
{
	return ((const struct finding *)of.object)->affected_kept > 0;
}

#define RULE_ABOUT "Identifier of the rule. It keeps its meaning for ever."
#define INPUT_ABOUT "`id` of the input it belongs to."
#define FILE_ABOUT "File inside the checkpoint, as a path below its root."
#define MEMBER_ABOUT "Member of the archive."

#define FINDING struct finding
const struct record finding_record = OBJECT_RECORD(FINDING, "finding",
	"A fault or an oddity that was noticed without stopping the work.",
	{ "rule", WORD_AT(FINDING, rule), .always = true, .about = RULE_ABOUT },
	{ "slug", WORD_AT(FINDING, slug), .always = true,
		.about = "The rule's short name, for people." },
	{ "severity", ENUM_AT(FINDING, severity, severity_name), .always = true,
		.words = SEVERITIES, .about = "How bad it is." },
	{ "input", ID_AT(FINDING, input), .always = true, .about = INPUT_ABOUT },
	{ "file", TEXT_AT(FINDING, file), .about = FILE_ABOUT },
	{ "member", TEXT_AT(FINDING, member), .about = MEMBER_ABOUT },
	{ "offset", COUNT_AT(FINDING, offset),
		.about =
			"First byte of a range that holds the fault; in the member where one is named, else in the file." },
	{ "length", COUNT_AT(FINDING, length), .about = "Bytes in that range." },
	{ "tensor", TEXT_AT(FINDING, tensor),
		.about =
			"Name of the tensor that suffers; for rules about pickles the `module.name` of a global." },
	{ "module", TEXT_AT(FINDING, module),
		.about = "Name of the module that suffers." },
	{ "rank", ID_AT(FINDING, rank), .about = "Rank whose data it is." },
	{ "affected", GET(FIELD_TEXTS, get_affected), .has = has_affected,
		.about =
			"Names of the tensors and values that suffer, at most the first 1,000 of them." },
	{ "affected_count", COUNT_AT(FINDING, affected_count), .has = has_affected,
		.about = "Number of tensors and values that suffer." },
	{ "lost_bytes", BYTES_AT(FINDING, lost_bytes), .has = has_affected,
		.about = "Logical bytes of these tensors that are lost." },
	{ "message", TEXT_AT(FINDING, message), .always = true,
		.about = "What is wrong, with the numbers: one sentence for people." },
	{ "next", TEXT_AT(FINDING, next), .about = "What to do about it." },
	{ "fingerprint", GET(FIELD_WORD, get_fingerprint), .always = true,
		.about =
			"Identity of the finding across runs and versions: it depends on the rule and the place, never on numbers or wording." });

#define FAILURE struct failure
const struct record failure_record = OBJECT_RECORD(FAILURE, "error",
	"Something that could not be done or could not be judged.",
	{ "code", WORD_AT(FAILURE, code), .always = true, .words = CODES,
		.about = "What kind of failure it is." },
	{ "rule", WORD_AT(FAILURE, rule),
		.about = "Rule it falls under, where there is one." },
	{ "input", ID_AT(FAILURE, input), .about = INPUT_ABOUT },
	{ "path", TEXT_AT(FAILURE, path), .about = "File it is about." },
	{ "member", TEXT_AT(FAILURE, member), .about = MEMBER_ABOUT },
	{ "offset", COUNT_AT(FAILURE, offset),
		.about =
			"Byte where reading stopped; in the member where one is named, else in the file." },
	{ "limit", WORD_AT(FAILURE, limit),
		.about = "Name of the ceiling that was reached, as `--limit` takes it." },
	{ "kind", WORD_AT(FAILURE, kind),
		.about =
			"Of a recording that cannot be read: `empty`, `not_json`, `no_trace_events`, `execution_trace`, `nsight`, `sqlite`, `protobuf` or `unknown_kind`. Of a log with a printed model: `no_model`, `interleaved` or `cut`; of a trace without units `no_units`." },
	{ "message", TEXT_AT(FAILURE, message), .always = true,
		.about = "What went wrong: one sentence for people." },
	{ "hint", TEXT_AT(FAILURE, hint), .about = "What to try next." });

#define OMISSION struct omission
const struct record omission_record = OBJECT_RECORD(OMISSION, "omitted",
	"Findings past the ceiling `findings`: they were counted and not kept.",
	{ "rule", WORD_AT(OMISSION, rule), .always = true, .about = RULE_ABOUT },
	{ "file", TEXT_AT(OMISSION, file), .about = FILE_ABOUT },
	{ "count", COUNT_AT(OMISSION, count), .always = true,
		.about = "How many were left out." });

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks records: the rows that describe the fields of an object, and the records of what
 * every answer has next to it (inputs, findings, failures, omissions).
 */
#include <inttypes.h>
#include <string.h>

#include "render/output-functions.h"
#include "render/record.h"

const struct record record_integers =
	RECORD_OF(RECORD_PLAIN, int64_t, { .type = FIELD_INTEGER });
const struct record record_integers_or_null =
	RECORD_OF(RECORD_PLAIN, int64_t, { .type = FIELD_INTEGER, .null = true });
const struct record record_counts =
	RECORD_OF(RECORD_PLAIN, uint64_t, { .type = FIELD_COUNT });
const struct record record_ids = RECORD_OF(RECORD_PLAIN, uint32_t, { .type = FIELD_ID });
const struct record record_texts =
	RECORD_OF(RECORD_PLAIN, struct text, { .type = FIELD_TEXT });
const struct record record_texts_or_null =
	RECORD_OF(RECORD_PLAIN, struct text, { .type = FIELD_TEXT, .null = true });

const struct record record_words =
	RECORD_OF(RECORD_PLAIN, const char *, { .type = FIELD_WORD });

/* ---- values ---- */

#define COPY(type, object, at) \
	(*(type *)memcpy(&(type){ 0 }, (const char *)(object) + (at), sizeof(type)))

static size_t list_size(const struct column *field, const void *object)
{
	if (!field->counted)
		return field->type == FIELD_ARRAY ? field->count : SIZE_MAX;
	return field->narrow ? COPY(uint32_t, object, field->count_at)
			     : COPY(size_t, object, field->count_at);
}

static struct value member_value(const struct column *field, const void *object)
{
	switch (field->type) {
	case FIELD_BOOL:
		return value_bool(COPY(bool, object, field->at));
	case FIELD_MAYBE: {
		int maybe = COPY(int, object, field->at);
		return maybe < 0 ? value_absent() : value_bool(maybe != 0);
	}
	case FIELD_FLAG:
		return (COPY(uint32_t, object, field->at) & field->count) != 0
			       ? value_bool(true)
			       : value_absent();
	case FIELD_COUNT:
		return value_count(COPY(uint64_t, object, field->at));
	case FIELD_SIZE:
		return value_count(COPY(size_t, object, field->at));
	case FIELD_BYTES:
		return value_bytes(COPY(uint64_t, object, field->at));
	case FIELD_ID:
		return value_id(COPY(uint32_t, object, field->at));
	case FIELD_INTEGER: {
		int64_t integer = COPY(int64_t, object, field->at);
		return integer == INT64_MIN ? value_absent() : value_integer(integer);
	}
	case FIELD_NS:
		return value_ns(COPY(int64_t, object, field->at));
	case FIELD_NUMBER:
		return value_number(COPY(double, object, field->at));
	case FIELD_WORD:
		return value_word(field->by == BY_WORD
					  ? field->word(COPY(unsigned, object, field->at))
					  : COPY(const char *, object, field->at));
	case FIELD_TEXT:
		return value_text(COPY(struct text, object, field->at));
	case FIELD_NAME:
		return value_name(field->by == BY_POINTER
					  ? text_of(COPY(const char *, object, field->at))
					  : COPY(struct text, object, field->at));
	case FIELD_SHAPE:
		return value_shape(COPY(const int64_t *, object, field->at),
			COPY(uint32_t, object, field->count_at));
	case FIELD_KEY:
	case FIELD_ANY:
		return COPY(struct value, object, field->at);
	case FIELD_TEXTS:
		return value_texts(COPY(const struct text *, object, field->at),
			list_size(field, object));
	case FIELD_PATH:
	case FIELD_OBJECT:
	case FIELD_FIELDS:
	case FIELD_POINTED:
	case FIELD_LIST:
	case FIELD_ARRAY:
	case FIELD_MAP:
	case FIELD_ROWS:
	case FIELD_ITEMS:
		break;
	}
	return value_absent();
}

static bool is_there(const struct column *field, struct subject of)
{
	static const char zeros[8];

	return (field->has == NULL || field->has(of)) &&
	       (field->needs == 0 || memcmp((const char *)of.object + field->needs_at,
					     zeros, field->needs) != 0);
}

/* Made where it is returned: a copy would be read in wider parts than it was just written
 * in, and processors wait for that. */
static struct value given_value(const struct column *field, struct subject of)
{
	if (!is_there(field, of))
		return value_absent();
	if (field->by == BY_GET)
		return field->get(of);
	if (field->by == BY_FIND) {
		uint32_t id = COPY(uint32_t, of.object, field->at);

		if (id == UINT32_MAX)
			return value_absent();
		return field->find(of, id);
	}
	if (field->by == BY_VALUE)
		return COPY(struct value, of.object, field->at);
	if (field->by == BY_SIGNED && field->type == FIELD_NUMBER) {
		double number = COPY(double, of.object, field->at);

		return number >= 0 ? value_number(number) : value_absent();
	}
	if (field->by == BY_SIGNED) {
		int64_t bytes = COPY(int64_t, of.object, field->at);

		return bytes >= 0 ? value_bytes((uint64_t)bytes) : value_absent();
	}
	if (field->by == BY_CHARS)
		return value_word((const char *)of.object + field->at);
	return member_value(field, of.object);
}

struct value field_value(const struct column *field, struct subject of)
{
	if (!field->null)
		return given_value(field, of);
	struct value value = given_value(field, of);
	return value.type == VALUE_ABSENT ? value_null() : value;
}

/* ---- objects ---- */

static struct subject about(struct subject of, const void *object)
{
	return (struct subject){ of.context, object };
}

/* Which member of an object something is: a word of ours, or one from a file. */
struct key {
	const char *word;
	const struct text *name; /* instead, if not NULL */
};

struct value get_true(struct subject of)
{
	(void)of;
	return value_bool(true);
}

static void write_value(struct out *out, struct key key, struct value value)
{
	if (key.name != NULL)
		out_field_named(out, *key.name, value);
	else
		out_field(out, key.word, value);
}

static void begin_array(struct out *out, struct key key)
{
	if (key.name != NULL)
		out_array_begin_named(out, *key.name);
	else
		out_array_begin(out, key.word);
}

static void begin_object(struct out *out, struct key key)
{
	if (key.name != NULL)
		out_object_begin_named(out, *key.name);
	else
		out_object_begin(out, key.word);
}

static void write_field(
	struct out *out, struct key key, const struct column *field, struct subject of);

static void write_object(struct out *out, struct key key, const struct record *record,
	size_t first, struct subject of)
{
	bool plain = record->form == RECORD_PLAIN || record->form == RECORD_ONE_OF;

	if (record->form == RECORD_OBJECT)
		begin_object(out, key);
	else if (!plain)
		begin_array(out, key);
	for (size_t i = first; i < record->count; i++) {
		struct key own = { NULL, NULL };
		if (record->form == RECORD_OBJECT)
			own.word = record->fields[i].name;
		write_field(out, plain ? key : own, &record->fields[i], of);
	}
	if (record->form == RECORD_OBJECT)
		out_object_end(out);
	else if (!plain)
		out_array_end(out);
}

static const void *element_at(
	const struct column *field, struct subject of, size_t i, void *room)
{
	const char *elements = (const char *)of.object + field->at;

	if (i >= list_size(field, of.object))
		return NULL;
	if (field->by == BY_EACH)
		return field->each(about(of, elements), i, room);
	if (field->type != FIELD_ARRAY)
		elements = COPY(const void *, of.object, field->at);
	return elements + i * field->of->size;
}

static void write_field(
	struct out *out, struct key key, const struct column *field, struct subject of)
{
	bool nested = field->type >= FIELD_OBJECT;

	if ((field->text_only >> OBJECT_VIEW & 1) != 0 || field->type == FIELD_ROWS ||
		(field->type == FIELD_ITEMS && field->by == BY_MEMBER))
		return;
	if (nested && !is_there(field, of)) {
		if (field->null)
			write_value(out, key, value_null());
		return;
	}
	if (field->type == FIELD_OBJECT && field->by == BY_EACH) {
		max_align_t room[RECORD_ROOM / sizeof(max_align_t)];
		uint32_t id = COPY(uint32_t, of.object, field->at);
		if (id != UINT32_MAX)
			write_object(out, key, field->of, 0,
				about(of, field->each(of, id, room)));
		else if (field->null)
			write_value(out, key, value_null());
		return;
	}
	if (field->type == FIELD_POINTED)
		of.object = COPY(const void *, of.object, field->at);
	else if (field->type == FIELD_OBJECT || field->type == FIELD_FIELDS)
		of.object = (const char *)of.object + field->at;
	if (field->type == FIELD_OBJECT)
		write_object(out, key, field->of, 0, of);
	else if (field->type == FIELD_MAP) {
		/* Elements of two fields are a key and a value, those of more a key and
		 * an object. A map without a name is inlined into the open object. */
		const struct column *fields = field->of->fields;
		max_align_t room[RECORD_ROOM / sizeof(max_align_t)];
		const void *element;
		bool own_object = key.word != NULL || key.name != NULL;
		if (own_object)
			begin_object(out, key);
		for (size_t i = 0; (element = element_at(field, of, i, room)) != NULL;
			i++) {
			struct value name = field_value(&fields[0], about(of, element));
			char digits[24];
			struct key own = { NULL, &name.text };
			if (name.type == VALUE_INTEGER) {
				snprintf(digits, sizeof digits, "%" PRId64, name.integer);
				name.text = text_of(digits);
			}
			if (field->of->count == 2)
				write_field(out, own, &fields[1], about(of, element));
			else
				write_object(out, own, field->of, 1, about(of, element));
		}
		if (own_object)
			out_object_end(out);
	} else if (field->type == FIELD_LIST || field->type == FIELD_ARRAY ||
		   field->type == FIELD_ITEMS) {
		max_align_t room[RECORD_ROOM / sizeof(max_align_t)];
		const void *element;

		if (field->type == FIELD_ITEMS)
			out_items_begin(out, key.word);
		else
			begin_array(out, key);
		for (size_t i = 0; (element = element_at(field, of, i, room)) != NULL;
			i++)
			out_record(out, NULL, field->of, about(of, element));
		out_array_end(out);
	} else if (!nested)
		write_value(out, key, field_value(field, of));
	else if (of.object != NULL)
		out_fields(out, field->of, of);
}

void out_fields(struct out *out, const struct record *record, struct subject of)
{
	for (size_t i = 0; i < record->count; i++)
		write_field(out, (struct key){ record->fields[i].name, NULL },
			&record->fields[i], of);
}

void out_record(
	struct out *out, const char *key, const struct record *record, struct subject of)
{
	write_object(out, (struct key){ key, NULL }, record, 0, of);
}

/* ---- tables ---- */

static void add_columns(
	struct record_table *table, const struct record *record, uint32_t base)
{
	FOR_EACH(i, record->count, field, &record->fields[i]) {
		struct column *column = &table->columns[table->table.column_count];

		if (field->type == FIELD_FIELDS) {
			add_columns(table, field->of, base + field->at);
		} else if (table->table.column_count < COLUMNS_MAX) {
			*column = *field;
			column->base = (uint16_t)base;
			table->table.column_count++;
		}
	}
}

void record_table_init(struct record_table *table, const struct table *like,
	const struct record *record, void *context)
{
	table->table = *like;
	table->table.columns = table->columns;
	table->table.column_count = 0;
	table->context = context;
	add_columns(table, record, 0);
}

size_t record_table_find(const struct record_table *table, const char *name)
{
	size_t i = 0;
	while (i < table->table.column_count && strcmp(table->columns[i].name, name) != 0)
		i++;
	return i;
}

bool out_table_reads(struct out *out, const struct record_table *table)
{
	bool shown[COLUMNS_MAX], reads = false;

	out_shows(out, &table->table, shown);
	for (size_t i = 0; i < table->table.column_count; i++)
		reads |= shown[i] && table->columns[i].reads;
	return reads;
}

static struct value column_value(
	const struct record_table *table, size_t column, const void *object)
{
	const struct column *field = &table->columns[column];

	return field_value(field,
		(struct subject){ table->context, (const char *)object + field->base });
}

/* Numbers in the order of their bits, those below zero turned about. */
static uint64_t number_key(double number)
{
	uint64_t bits;

	memcpy(&bits, &number, sizeof bits);
	return bits >> 63 != 0 ? ~bits : bits | UINT64_C(1) << 63;
}

uint64_t record_table_key(const struct record_table *table, size_t column,
	const void *object, uint32_t order)
{
	const struct column *field = &table->columns[column];

	object = (const char *)object + field->base;
	if (field->sort == SORT_MEMBER) {
		uint32_t id = COPY(uint32_t, object, field->sort_at);
		return id == UINT32_MAX ? UINT64_MAX : id;
	}
	if (field->sort == SORT_SHOWN) {
		struct value value =
			field_value(field, (struct subject){ table->context, object });
		if (value.type == VALUE_ABSENT || value.type == VALUE_NULL)
			return UINT64_MAX;
		return value.type == VALUE_NUMBER ? number_key(value.number)
						  : value.count;
	}
	return order;
}

void out_records_begin(struct out *out, struct record_table *table)
{
	out_shows(out, &table->table, table->shown);
	out_table_begin(out, &table->table);
}

static void row_values(const struct record_table *table, const void *object,
	struct value values[COLUMNS_MAX])
{
	for (size_t i = 0; i < table->table.column_count; i++)
		values[i] =
			table->shown[i] ? column_value(table, i, object) : value_absent();
}

void out_records_row(
	struct out *out, const struct record_table *table, const void *object)
{
	struct value values[COLUMNS_MAX];

	row_values(table, object, values);
	out_row(out, values);
}

void out_records(struct out *out, const struct table *like, const struct record *record,
	void *context, const void *objects, size_t count)
{
	struct record_table table;

	record_table_init(&table, like, record, context);
	out_records_begin(out, &table);
	for (size_t i = 0; i < count; i++)
		out_records_row(out, &table, (const char *)objects + i * record->size);
	out_table_end(out);
}

void out_each_record(struct out *out, const struct table *like,
	const struct record *record, struct subject of, size_t count,
	const void *(*each)(struct subject of, size_t i, void *room))
{
	_Alignas(max_align_t) char room[RECORD_ROOM];
	struct record_table table;
	const void *object;

	record_table_init(&table, like, record, of.context);
	out_records_begin(out, &table);
	for (size_t i = 0; i < count && (object = each(of, i, room)) != NULL; i++)
		out_records_row(out, &table, object);
	out_table_end(out);
}

void out_records_node(struct out *out, const struct record_table *table,
	const struct tree_node *node, const void *object)
{
	struct value values[COLUMNS_MAX];

	row_values(table, object, values);
	out_node(out, node, values);
}

/*
 * Parts of every document besides its answer: inputs, findings, failures, and counts of
 * omitted findings.
 * An output that shows them walks these records.
 */

static const char *const SEVERITIES[] = { "note", "warning", "error", NULL };
static const char *const KINDS[] = { "checkpoint", "plan", "trace", "log", "pickle",
	"manifest", "expect", "merged", "listing", NULL };
static const char *const CODES[] = { "usage", "system", "permission", "not_a_checkpoint",
	"damaged", "unsupported", "limit", "memory", "internal", NULL };

const char *severity_name(unsigned severity)
{
	return SEVERITIES[severity];
}

int compare_findings(const void *left, const void *right)
{
	const struct finding *const *a = left, *const *b = right;

	if ((*a)->severity != (*b)->severity)
		return (*a)->severity > (*b)->severity ? -1 : 1;
	int order = strcmp((*a)->rule, (*b)->rule);
	return order != 0 ? order : (*a > *b) - (*a < *b);
}

#define PROVENANCE struct provenance

static bool has_remote(struct subject of)
{
	return ((const PROVENANCE *)of.object)->remote.backend != NULL;
}

#define REMOTE struct requests
static const struct record remote_record = OBJECT_RECORD(REMOTE, "remote",
	"Requests to the servers of URLs until the answer began.",
	{ "backend", WORD_AT(REMOTE, backend),
		ALWAYS("Package and version that made them: `obstore 0.12.1`, `hf` or `https`.") },
	{ "lists", COUNT_AT(REMOTE, lists), ALWAYS("Lists of directories.") },
	{ "gets", COUNT_AT(REMOTE, gets), ALWAYS("Ranges of files.") },
	{ "heads", COUNT_AT(REMOTE, heads),
		ALWAYS("Requests for the size of single files.") },
	{ "retries", COUNT_AT(REMOTE, retries), ALWAYS("Requests that were repeated.") },
	{ "bytes", BYTES_AT(REMOTE, bytes),
		ALWAYS("Bytes of files that were received.") });

const struct record provenance_record = OBJECT_RECORD(PROVENANCE, "provenance",
	"Invocation of the program: only with `--provenance`, because it makes two runs differ.",
	{ "arguments", TEXTS_AT(PROVENANCE, arguments, argument_count),
		ALWAYS("The words after the program's name.") },
	{ "host", TEXT_AT(PROVENANCE, host), ALWAYS("Name of the machine.") },
	{ "started", TEXT_AT(PROVENANCE, started),
		ALWAYS("Start time in UTC: `2026-01-31T08:00:00Z`.") },
	{ "remote", OBJECT_AT(PROVENANCE, remote, remote_record), .has = has_remote,
		ABOUT("Only with a URL among the inputs.") });

static struct value get_status(struct subject of)
{
	int status = ((const struct input_record *)of.object)->status;

	return status >= 0 ? value_integer(status) : value_absent();
}

#define INPUT struct input_record
const struct record input_object = OBJECT_RECORD(INPUT, "input",
	"An input: a path that the user named, or a file found next to it.",
	{ "id", ID_AT(INPUT, id),
		ALWAYS("Number by which findings and errors refer to it; counts from 0.") },
	{ "path", TEXT_AT(INPUT, path),
		ALWAYS("Path as it was typed, or as it was found; `-` is standard input.") },
	{ "base", TEXT_AT(INPUT, base),
		ABOUT("Directory that its file names are relative to: one below the path that was opened in its place, or the one that a named file belongs to; in an archive, a directory of it. Absent if they are relative to the path.") },
	{ "opened", TEXT_AT(INPUT, opened),
		ABOUT("Path of the only checkpoint in this directory. Absent if the path itself was opened.") },
	{ "kind", WORD_AT(INPUT, kind), .always = true, .words = KINDS,
		ABOUT("Role of the input.") },
	{ "format", WORD_AT(INPUT, format),
		ABOUT("Family of its format, such as `torch-zip` or `dcp`. Absent if it was not recognized.") },
	{ "status", GET(FIELD_COUNT, get_status),
		ABOUT("Exit status of this input alone.") },
	{ "found", BOOL_AT(INPUT, found), IF_SET(struct input_record, found),
		ABOUT("True for a file that the program found itself because it is next to the checkpoint.") });

#define RULE_ABOUT "Identifier of the rule. It never changes its meaning."
#define INPUT_ABOUT "`id` of the input it belongs to."
#define FILE_ABOUT "File inside the checkpoint, as a path below its root."
#define MEMBER_ABOUT "Member of the archive."

#define FINDING struct finding
const struct record finding_record = OBJECT_RECORD(FINDING, "finding",
	"A defect that was noticed without stopping the work.",
	{ "rule", WORD_AT(FINDING, rule), .always = true, .about = RULE_ABOUT },
	{ "slug", WORD_AT(FINDING, slug), ALWAYS("The rule's short name, for people.") },
	{ "severity", ENUM_AT(FINDING, severity, severity_name), .always = true,
		.words = SEVERITIES, ABOUT("Severity.") },
	{ "input", ID_AT(FINDING, input), .always = true, .about = INPUT_ABOUT },
	{ "file", TEXT_AT(FINDING, file), .about = FILE_ABOUT },
	{ "member", TEXT_AT(FINDING, member), .about = MEMBER_ABOUT },
	{ "offset", COUNT_AT(FINDING, offset),
		ABOUT("First byte of the range with the fault; in the member where one is named, else in the file.") },
	{ "length", COUNT_AT(FINDING, length), ABOUT("Bytes in that range.") },
	{ "tensor", TEXT_AT(FINDING, tensor),
		ABOUT("Name of the affected tensor; for rules about pickles the `module.name` of a global.") },
	{ "module", TEXT_AT(FINDING, module), ABOUT("Name of the affected module.") },
	{ "rank", ID_AT(FINDING, rank), ABOUT("Rank whose data it is.") },
	{ "affected", TEXTS_AT(FINDING, affected, affected_kept),
		IF_SET(FINDING, affected_kept),
		ABOUT("Names of the affected tensors and values, at most the first 1,000.") },
	{ "affected_count", COUNT_AT(FINDING, affected_count),
		IF_SET(struct finding, affected_kept),
		ABOUT("Number of affected tensors and values.") },
	{ "affected_bytes", BYTES_AT(FINDING, affected_bytes),
		IF_SET(struct finding, affected_kept),
		ABOUT("Logical bytes of these tensors that are lost.") },
	{ "message", TEXT_AT(FINDING, message),
		ALWAYS("The problem, with its numbers: one sentence for people.") },
	{ "fix", TEXT_AT(FINDING, fix), ABOUT("Next step.") },
	{ "fingerprint", CHARS_AT(FINDING, fingerprint),
		ALWAYS("Identity of the finding across runs and versions: it depends on rule and location, never on numbers or wording.") });

#define FAILURE struct failure
const struct record failure_record = OBJECT_RECORD(FAILURE, "error",
	"Something that could not be done or checked.",
	{ "code", WORD_AT(FAILURE, code), .always = true, .words = CODES,
		ABOUT("Kind of the failure.") },
	{ "rule", WORD_AT(FAILURE, rule),
		ABOUT("Rule it falls under, where there is one.") },
	{ "input", ID_AT(FAILURE, input), .about = INPUT_ABOUT },
	{ "path", TEXT_AT(FAILURE, path), ABOUT("File it is about.") },
	{ "member", TEXT_AT(FAILURE, member), .about = MEMBER_ABOUT },
	{ "offset", COUNT_AT(FAILURE, offset),
		ABOUT("Byte where reading stopped; in the member where one is named, else in the file.") },
	{ "limit", WORD_AT(FAILURE, limit),
		ABOUT("Name of the limit that was reached, as for `--limit`.") },
	{ "kind", WORD_AT(FAILURE, kind),
		ABOUT("Of a recording that cannot be read: `empty`, `not_json`, `no_trace_events`, `execution_trace`, `memory_timeline`, `nsight`, `sqlite`, `protobuf`, `archive`, `rocprof` or `unknown_kind`. Of a log with a printed model: `no_model`, `interleaved` or `cut`; of a trace without units `no_units`.") },
	{ "message", TEXT_AT(FAILURE, message),
		ALWAYS("The failure: one sentence for people.") },
	{ "hint", TEXT_AT(FAILURE, hint), ABOUT("Next step.") });

#define OMISSION struct omission
const struct record omission_record = OBJECT_RECORD(OMISSION, "omitted",
	"Findings beyond the limit `findings`, which were only counted.",
	{ "rule", WORD_AT(OMISSION, rule), .always = true, .about = RULE_ABOUT },
	{ "file", TEXT_AT(OMISSION, file), .about = FILE_ABOUT },
	{ "count", COUNT_AT(OMISSION, count), ALWAYS("Number of omitted findings.") });

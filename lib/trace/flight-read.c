/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what recorders of PyTorch dump in one piece. A Flight Recorder dump is a pickle
 * or JSON: a dict with `version`, `pg_config`, `pg_status` and `entries`, the newest
 * collectives of one rank, which become rows. A pickle may also be a memory snapshot,
 * for its own reader. Such pickles have plain values only: one that names a class or a
 * function is refused, and nothing of it is looked at.
 *
 * Origin: torch/csrc/distributed/c10d/FlightRecorder.hpp, FlightRecorderDetail.hpp.
 */
#include <stdlib.h>

#include "base/characters.h"
#include "base/num.h"
#include "base/sort.h"
#include "base/tasks.h"
#include "io/source.h"
#include "syntax/json-tree.h"
#include "syntax/pickle.h"
#include "trace/flight.h"

/* ---- values of pickles and of JSON alike ---- */

/* Owns nothing; texts are those of the document. All zero is absent, and the answer to
 * everything that is asked of an absent value is "no". */
struct dump_value {
	const struct fsdp_pickle *pickle; /* and `ref` in it */
	const struct fsdp_json *json;
	fsdp_ref ref;
	bool packed; /* an integer of a packed JSON array */
	int64_t integer;
};

static enum fsdp_pickle_kind kind_of(struct dump_value value)
{
	return value.pickle != NULL ? fsdp_pickle_kind(value.pickle, value.ref)
				    : FSDP_PICKLE_NOTHING;
}

static bool is_dict(struct dump_value value)
{
	return fsdp_json_is(value.json, FSDP_JSON_OBJECT) ||
	       kind_of(value) == FSDP_PICKLE_DICT;
}

/* A list or a tuple. */
static bool is_list(struct dump_value value)
{
	enum fsdp_pickle_kind kind = kind_of(value);
	return fsdp_json_is_list(value.json) || kind == FSDP_PICKLE_LIST ||
	       kind == FSDP_PICKLE_TUPLE;
}

/* Items of a list, pairs of a dict. */
static uint64_t count_of(struct dump_value value)
{
	if (!is_list(value) && !is_dict(value))
		return 0;
	return value.json != NULL ? value.json->count
				  : fsdp_pickle_count(value.pickle, value.ref);
}

/* data NULL: it is not a string. */
static struct fsdp_span text_of(struct dump_value value)
{
	if (fsdp_json_is(value.json, FSDP_JSON_TEXT))
		return value.json->text;
	return kind_of(value) == FSDP_PICKLE_TEXT
		       ? fsdp_pickle_text(value.pickle, value.ref)
		       : (struct fsdp_span){ 0 };
}

/* False: it is not an integer of 64 bits, and *ret stays. */
static bool get_integer(struct dump_value value, int64_t *ret)
{
	if (value.packed)
		*ret = value.integer;
	else if (fsdp_json_is(value.json, FSDP_JSON_INTEGER))
		*ret = value.json->integer;
	else
		return kind_of(value) == FSDP_PICKLE_INTEGER &&
		       fsdp_pickle_integer(value.pickle, value.ref, ret);
	return true;
}

/* Also a text of digits: JSON dumps have these. */
static bool get_number(struct dump_value value, int64_t *ret)
{
	struct fsdp_span text = text_of(value);
	return text.data != NULL ? fsdp_decimal_integer(text, ret)
				 : get_integer(value, ret);
}

static bool is_true(struct dump_value value)
{
	bool truth = false;
	if (fsdp_json_is(value.json, FSDP_JSON_BOOL))
		return value.json->integer != 0;
	return kind_of(value) == FSDP_PICKLE_BOOL &&
	       fsdp_pickle_boolean(value.pickle, value.ref, &truth) && truth;
}

/* Items of a list, or values of a dict with their keys, in order and in constant memory.
 * A key that is not a string, and that of an item, is data NULL. */
struct walk {
	struct dump_value of, value;
	struct fsdp_span key;
	struct fsdp_pickle_iterator iterator;
	uint32_t at;
};

static struct walk walk_of(struct dump_value value)
{
	return (struct walk){ .of = value, .iterator = { .ref = value.ref } };
}

/* False at the end, and at once if it is neither. */
static bool next_value(struct walk *walk)
{
	const struct fsdp_json *json = walk->of.json;
	fsdp_ref key, value;
	if (!is_list(walk->of) && !is_dict(walk->of))
		return false;
	if (json == NULL) {
		if (!fsdp_pickle_next(walk->of.pickle, &walk->iterator, &key, &value))
			return false;
		walk->key = fsdp_pickle_text(walk->of.pickle, key);
		walk->value =
			(struct dump_value){ .pickle = walk->of.pickle, .ref = value };
		return true;
	}
	if (walk->at >= json->count)
		return false;
	if (json->kind == FSDP_JSON_INTEGERS)
		walk->value = (struct dump_value){ .packed = true,
			.integer = json->integers[walk->at] };
	else
		walk->value = (struct dump_value){ .json = &json->items[walk->at] };
	if (json->kind == FSDP_JSON_OBJECT)
		walk->key = json->items[walk->at].key;
	walk->at++;
	return true;
}

/* The last value of a dict under a text key, or an absent one. Linear. */
static struct dump_value get(struct dump_value dict, const char *key)
{
	if (dict.json != NULL)
		return (struct dump_value){ .json = fsdp_json_get(dict.json, key) };
	if (!is_dict(dict))
		return (struct dump_value){ 0 };
	return (struct dump_value){ .pickle = dict.pickle,
		.ref = fsdp_pickle_get(dict.pickle, dict.ref, key) };
}

/* ---- rows that entries share ---- */

struct flight_reader {
	struct fsdp_trace_reading *reading;
	struct fsdp_flight_shared *shared;
	struct fsdp_flight_rows *rows;
	struct fsdp_names groups; /* of this dump: the id, less one, is the index */
	struct fsdp_names lists;  /* of ranks, by what the dump shares */
	struct fsdp_vec rosters;  /* uint32_t, by list */
	unsigned char *packed;    /* the list that is looked up */
	size_t size, room;
	struct fsdp_budget budget; /* of work: values of a pickle may be shared */
};

/* Fails where the work is more than the input is worth. */
static void count_work(struct flight_reader *reader, uint64_t steps)
{
	fsdp_trace_require(reader->reading,
		fsdp_budget_work(&reader->budget, steps, &reader->reading->error));
}

/* The number of a text or a packed list among all. A step for each byte: entries of a
 * pickle may share it. */
static uint32_t intern(struct flight_reader *reader, struct fsdp_span bytes)
{
	count_work(reader, bytes.size);
	return fsdp_names_child(
		&reader->shared->texts, 0, bytes.size != 0 ? bytes : FSDP_SPAN(""));
}

static struct fsdp_span interned(const struct flight_reader *reader, uint32_t id)
{
	return fsdp_names_segment(&reader->shared->texts, id);
}

static struct fsdp_span keep_text(struct flight_reader *reader, struct fsdp_span text)
{
	return interned(reader, intern(reader, text));
}

/* The index of the row with a key. Returns the row if it is new, else NULL. Where memory
 * ran out before, a name has no row yet. */
static void *find_row(struct fsdp_names *known, struct fsdp_vec *rows,
	struct fsdp_span key, uint32_t *ret_index)
{
	*ret_index = fsdp_names_child(known, 0, key) - 1;
	return *ret_index >= rows->count ? fsdp_vec_reach(rows, *ret_index) : NULL;
}

static void append(struct flight_reader *reader, const void *data, size_t size)
{
	count_work(reader, size);
	if (size > reader->room - reader->size) {
		unsigned char *before = reader->packed;
		reader->room = (reader->room + size) * 2;
		reader->packed =
			fsdp_arena_take(reader->reading->scratch, reader->room, 8);
		if (reader->size != 0)
			memcpy(reader->packed, before, reader->size);
	}
	if (size != 0)
		memcpy(reader->packed + reader->size, data, size);
	reader->size += size;
}

/* Interns a list of lists of integers, or of texts, as struct fsdp_flight_called has
 * it. Any other value is absent. */
static uint32_t intern_list(
	struct flight_reader *reader, struct dump_value list, bool of_texts)
{
	struct walk walk = walk_of(list);
	int64_t count = 0;
	reader->size = 0;
	if (!is_list(list))
		return intern(reader, FSDP_SPAN(""));
	append(reader, &count, sizeof count);
	for (; next_value(&walk); count++) {
		struct fsdp_span text = text_of(walk.value);
		int64_t size = (int64_t)text.size;
		if (!of_texts) {
			struct walk inner = walk_of(walk.value);
			size_t at = reader->size;
			int64_t dims = 0, dim;
			append(reader, &dims, sizeof dims);
			count_work(reader, count_of(walk.value));
			while (next_value(&inner))
				if (get_integer(inner.value, &dim)) {
					append(reader, &dim, sizeof dim);
					dims++;
				}
			memcpy(reader->packed + at, &dims, sizeof dims);
			continue;
		}
		append(reader, &size, sizeof size);
		append(reader, text.data, text.size);
	}
	memcpy(reader->packed, &count, sizeof count);
	return intern(reader, fsdp_span(reader->packed, reader->size));
}

/* ---- entries ---- */

#define FIELDS(X)                                 \
	X(RECORD_ID, "record_id")                 \
	X(PROCESS_GROUP, "process_group")         \
	X(PG_ID, "pg_id")                         \
	X(COLLECTIVE_SEQ_ID, "collective_seq_id") \
	X(P2P_SEQ_ID, "p2p_seq_id")               \
	X(PROFILING_NAME, "profiling_name")       \
	X(TIME_CREATED_NS, "time_created_ns")     \
	X(INPUT_SIZES, "input_sizes")             \
	X(OUTPUT_SIZES, "output_sizes")           \
	X(INPUT_DTYPES, "input_dtypes")           \
	X(OUTPUT_DTYPES, "output_dtypes")         \
	X(STATE, "state")                         \
	X(RETIRED, "retired")                     \
	X(IS_P2P, "is_p2p")                       \
	X(FRAMES, "frames")
#define FIELD(field, name) field,
#define FIELD_NAME(field, name) FSDP_SPAN_INIT(name),
enum { FIELDS(FIELD) FIELD_COUNT };
static const struct fsdp_span field_names[FIELD_COUNT] = { FIELDS(FIELD_NAME) };

static uint32_t find_call(struct flight_reader *reader, const struct dump_value *fields)
{
	uint32_t key[1 + FSDP_FLIGHT_LISTS], call;
	key[0] = intern(reader, text_of(fields[PROFILING_NAME]));
	for (unsigned i = 0; i < FSDP_FLIGHT_LISTS; i++)
		key[1 + i] = intern_list(
			reader, fields[INPUT_SIZES + i], i >= FSDP_FLIGHT_INPUT_DTYPES);
	struct fsdp_flight_called *fresh = find_row(&reader->shared->known_calls,
		&reader->shared->calls, fsdp_span(key, sizeof key), &call);
	if (fresh == NULL)
		return call;
	fresh->name = interned(reader, key[0]);
	for (unsigned i = 0; i < FSDP_FLIGHT_LISTS; i++)
		if (interned(reader, key[1 + i]).size != 0)
			fresh->lists[i] = interned(reader, key[1 + i]);
	return call;
}

/* The innermost frame that is not of PyTorch, nor of code that wraps its functions;
 * FSDP_NONE: no such frame. */
static uint32_t find_place(struct flight_reader *reader, struct dump_value frames)
{
	struct walk walk = walk_of(frames);
	uint32_t place;
	struct {
		uint32_t file, name;
		int64_t line;
	} key = { .line = FSDP_ABSENT };
	while (next_value(&walk)) {
		struct fsdp_span file = text_of(get(walk.value, "filename"));
		count_work(reader, 4 * (1 + count_of(walk.value)) + file.size / 16);
		if (file.data == NULL || fsdp_span_has(file, "torch/", false) ||
			fsdp_span_ends_any(file, "/typing_extensions.py /contextlib.py"))
			continue;
		key.file = intern(reader, file);
		key.name = intern(reader, text_of(get(walk.value, "name")));
		get_integer(get(walk.value, "line"), &key.line);
		struct fsdp_flight_place *fresh = find_row(&reader->shared->known_places,
			&reader->shared->places, fsdp_span(&key, sizeof key), &place);
		if (fresh != NULL)
			*fresh = (struct fsdp_flight_place){ interned(reader, key.file),
				interned(reader, key.name), key.line };
		return place;
	}
	return FSDP_NONE;
}

/* The group of a name, which may be new; *ret_index: in this dump. */
static struct fsdp_flight_group *find_group(
	struct flight_reader *reader, struct fsdp_span name, uint32_t *ret_index)
{
	struct fsdp_flight_part *groups = &reader->rows->groups;
	uint32_t key = intern(reader, name);
	*ret_index =
		fsdp_names_child(&reader->groups, 0, fsdp_span(&key, sizeof key)) - 1;
	if (*ret_index == groups->count)
		*(struct fsdp_flight_group *)fsdp_flight_push(groups) =
			(struct fsdp_flight_group){ .name = interned(reader, key),
				.pg_id = FSDP_ABSENT,
				.roster = FSDP_NONE };
	return fsdp_flight_at(groups, *ret_index);
}

static void add_entry(struct flight_reader *reader, struct dump_value value)
{
	struct fsdp_flight_rows *rows = reader->rows;
	struct fsdp_error **error = &reader->reading->error;
	struct dump_value fields[FIELD_COUNT];
	struct fsdp_span rest;
	int64_t seq;
	struct walk walk = walk_of(value);
	memset(fields, 0, FIELD_COUNT * sizeof *fields);
	while (next_value(&walk)) {
		size_t place = fsdp_span_place(walk.key, field_names, FIELD_COUNT);
		if (place < FIELD_COUNT)
			fields[place] = walk.value;
	}
	count_work(reader, count_of(value));
	const char *lacks =
		text_of(fields[PROFILING_NAME]).data == NULL    ? "profiling_name"
		: !is_list(fields[PROCESS_GROUP])               ? "process_group"
		: !get_integer(fields[COLLECTIVE_SEQ_ID], &seq) ? "collective_seq_id"
								: NULL;
	if (lacks != NULL) {
		fsdp_fail(error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
			"entry %llu of this Flight Recorder dump has no %s",
			FSDP_LLU(rows->entries.count), lacks);
		fsdp_trace_require(reader->reading, fsdp_error_add_kind(error, "flight"));
	}
	struct fsdp_flight_entry *entry = fsdp_flight_push(&rows->entries);
	bool is_p2p = is_true(fields[IS_P2P]);
	*entry = (struct fsdp_flight_entry){ .time_ns = FSDP_ABSENT,
		.is_p2p = is_p2p,
		.is_completed = fsdp_span_is(text_of(fields[STATE]), "completed") };
	get_integer(fields[is_p2p ? P2P_SEQ_ID : COLLECTIVE_SEQ_ID], &entry->seq);
	get_integer(fields[TIME_CREATED_NS], &entry->time_ns);
	entry->is_started = fsdp_span_is(text_of(fields[STATE]), "started");
	entry->is_unfinished = !is_true(fields[RETIRED]) && !entry->is_completed;
	rows->has_finished |= !entry->is_unfinished;
	rows->is_nccl |=
		fsdp_span_behind(text_of(fields[PROFILING_NAME]), "nccl:", &rest);
	if (rows->entries.count == 1)
		get_integer(fields[RECORD_ID], &rows->facts.first_record);
	struct walk names = walk_of(fields[PROCESS_GROUP]);
	struct fsdp_span texts[2];
	for (size_t i = 0; i < 2; i++)
		texts[i] = next_value(&names) ? text_of(names.value) : FSDP_SPAN("");
	struct fsdp_flight_group *group = find_group(reader, texts[0], &entry->group);
	if (group->desc.data == NULL)
		group->desc = keep_text(reader, texts[1]);
	if (group->pg_id == FSDP_ABSENT)
		get_integer(fields[PG_ID], &group->pg_id);
	entry->call = find_call(reader, fields);
	entry->place = find_place(reader, fields[FRAMES]);
}

/* ---- groups ---- */

/* "[0, 1]". Anything else has no ranks. */
static size_t parse_ranks(struct fsdp_span text, int64_t *ranks)
{
	size_t count = 0;
	bool inside = false;
	for (size_t i = 0; i < text.size; i++) {
		unsigned char byte = text.data[i];
		if (fsdp_is_digit(byte)) {
			if (!inside)
				ranks[count++] = 0;
			ranks[count - 1] = ranks[count - 1] * 10 + (byte - '0');
			if (ranks[count - 1] > INT32_MAX)
				return 0;
		} else if (byte != ',' && byte != ' ' && byte != '[' && byte != ']') {
			return 0;
		}
		inside = fsdp_is_digit(byte);
	}
	return count;
}

/* Groups of one pickle may share a list of ranks, and dumps of a job have the same. */
static uint32_t find_roster(struct flight_reader *reader, struct dump_value ranks)
{
	struct fsdp_flight_shared *shared = reader->shared;
	struct fsdp_span text = text_of(ranks), key;
	size_t identity = ranks.pickle != NULL ? ranks.ref : reader->rosters.count;
	uint32_t index;
	uint32_t *known = find_row(&reader->lists, &reader->rosters,
		fsdp_span(&identity, sizeof identity), &index);
	if (known == NULL)
		return *(uint32_t *)fsdp_vec_at(&reader->rosters, index);
	size_t most = is_list(ranks) ? (size_t)count_of(ranks) : text.size / 2 + 1;
	int64_t *list = FSDP_TAKE(reader->reading->scratch, list, most);
	size_t count = is_list(ranks) ? 0 : parse_ranks(text, list);
	struct walk walk = walk_of(ranks);
	while (is_list(ranks) && next_value(&walk))
		if (!get_integer(walk.value, &list[count]) || list[count] < 0 ||
			list[count++] > INT32_MAX) {
			count = 0;
			break;
		}
	count = fsdp_sort_once(list, count);
	key = fsdp_span(list, count * sizeof *list);
	if (fsdp_names_find_child(&shared->known_rosters, 0, key) == FSDP_NONE) {
		int64_t *kept = FSDP_TAKE(shared->arena, kept, count);
		if (count != 0)
			memcpy(kept, list, key.size);
		key.data = (const unsigned char *)kept;
	}
	struct fsdp_flight_roster *fresh =
		find_row(&shared->known_rosters, &shared->rosters, key, known);
	key = fsdp_names_segment(&shared->known_rosters, *known + 1);
	if (fresh != NULL)
		*fresh = (struct fsdp_flight_roster){
			.ranks = (const int64_t *)(const void *)key.data, .count = count
		};
	return *known;
}

/* ---- status ---- */

/* The last collective that this rank enqueued in each group. gloo counts otherwise. */
static void read_statuses(struct flight_reader *reader, struct dump_value status)
{
	struct fsdp_flight_rows *rows = reader->rows;
	struct walk walk = walk_of(status);
	size_t count = 0, most = rows->listed_count;
	rows->is_nccl |= rows->facts.library.size != 0;
	if (!rows->is_nccl || count_of(status) != most)
		return;
	rows->statuses = FSDP_TAKE(reader->shared->arena, rows->statuses, most);
	while (count < most && next_value(&walk)) {
		struct fsdp_flight_status *one = &rows->statuses[count];
		count_work(reader, count_of(walk.value));
		one->completed = INT64_MAX;
		get_number(get(walk.value, "last_completed_collective"), &one->completed);
		count += walk.key.data != NULL &&
			 fsdp_decimal_integer(walk.key, &one->pg_id) &&
			 get_number(get(walk.value, "last_enqueued_collective"),
				 &one->enqueued);
	}
	/* Names of groups are numbers that count in all processes, ids of statuses count
	 * in one: both in the order in which the groups were made. So the n-th name is of
	 * the n-th id, unless an entry, which has both, differs. */
	struct fsdp_flight_status *names =
		FSDP_TAKE(reader->reading->scratch, names, count);
	bool match = count == most;
	for (size_t i = 0; match && i < count; i++) {
		const struct fsdp_flight_group *one = fsdp_flight_at(&rows->groups, i);
		names[i].group = one->name;
		match = fsdp_decimal_integer(one->name, &names[i].pg_id);
	}
	if (!match)
		return;
	FSDP_SORT(names, count, FSDP_BY(names, pg_id));
	FSDP_SORT(rows->statuses, count, FSDP_BY(rows->statuses, pg_id));
	for (size_t i = 0; i < count; i++)
		rows->statuses[i].group = names[i].group;
	for (size_t i = 0; match && i < rows->groups.count; i++) {
		const struct fsdp_flight_group *group = fsdp_flight_at(&rows->groups, i);
		size_t low = 0, high = count;
		if (group->desc.data == NULL)
			continue;
		FSDP_HALVE(low, high, middle, rows->statuses[middle].pg_id < group->pg_id)
		match = low < count && rows->statuses[low].pg_id == group->pg_id &&
			fsdp_span_equal(rows->statuses[low].group, group->name);
	}
	FSDP_SORT(rows->statuses, count, FSDP_BY(rows->statuses, group));
	rows->status_count = match ? count : 0;
}

/* ---- the dump ---- */

static bool is_dump(struct dump_value top)
{
	return text_of(get(top, "version")).data != NULL &&
	       (is_dict(get(top, "pg_config")) || is_list(get(top, "entries")));
}

static void release_share(void *shared)
{
	fsdp_arena_done(&((struct fsdp_flight_shared *)shared)->own);
}

struct fsdp_flight_shared *fsdp_flight_shared_new(struct fsdp_arena *arena)
{
	struct fsdp_flight_shared *shared = FSDP_TAKE(arena, shared, FSDP_FLIGHT_SHARES);
	for (size_t i = 0; i < FSDP_FLIGHT_SHARES; i++) {
		shared[i].lock = fsdp_lock_new(arena);
		fsdp_arena_init_lean(&shared[i].own, arena->budget);
		fsdp_arena_own(arena, release_share, &shared[i]);
	}
	return shared;
}

void fsdp_flight_shared_begin(struct fsdp_flight_shared *shared, struct fsdp_arena *arena)
{
	fsdp_vec_init(&shared->calls, arena, sizeof(struct fsdp_flight_called));
	fsdp_vec_init(&shared->places, arena, sizeof(struct fsdp_flight_place));
	fsdp_vec_init(&shared->rosters, arena, sizeof(struct fsdp_flight_roster));
	fsdp_vec_init(&shared->entries, arena, sizeof(struct fsdp_flight_entry));
	fsdp_vec_init(&shared->groups, arena, sizeof(struct fsdp_flight_group));
	fsdp_names_init(&shared->texts, arena);
	fsdp_names_init(&shared->known_calls, arena);
	fsdp_names_init(&shared->known_places, arena);
	fsdp_names_init(&shared->known_rosters, arena);
	shared->texts.copies = shared->known_calls.copies = arena;
	shared->known_places.copies = arena;
	shared->arena = arena;
}

struct fsdp_flight_rows *fsdp_flight_rows_new(struct fsdp_flight_shared *shared)
{
	struct fsdp_flight_rows *rows = FSDP_TAKE(shared->arena, rows, 1);
	rows->shared = shared;
	rows->facts.first_record = rows->enqueued = FSDP_ABSENT;
	rows->entries =
		(struct fsdp_flight_part){ &shared->entries, shared->entries.count, 0 };
	rows->groups =
		(struct fsdp_flight_part){ &shared->groups, shared->groups.count, 0 };
	return rows;
}

/* The rows of a dump; until its scratch is done no other one is added to the same
 * list. */
static void read_dump(struct fsdp_trace_reading *reading, struct dump_value top)
{
	struct fsdp_flight_shared *shared = reading->shared;
	struct flight_reader *reader = FSDP_TAKE(reading->scratch, reader, 1);
	fsdp_lock_take(shared->lock, reading->scratch);
	shared->own.escape = reading->arena.escape;
	if (shared->arena == NULL)
		fsdp_flight_shared_begin(shared, &shared->own);
	reader->reading = reading;
	reader->shared = shared;
	if (top.pickle != NULL)
		reader->budget = (struct fsdp_budget){ .limits = reading->limits,
			.given = fsdp_pickle_length(top.pickle) };
	reader->rows = fsdp_flight_rows_new(shared);
	fsdp_names_init(&reader->groups, reading->scratch);
	fsdp_names_init(&reader->lists, reading->scratch);
	reader->groups.copies = reader->lists.copies = reading->scratch;
	fsdp_vec_init(&reader->rosters, reading->scratch, sizeof(uint32_t));
	static const char *const libraries[] = { "comm_lib_version", "nccl_version" };
	struct fsdp_flight_rows *rows = reader->rows;
	struct fsdp_span version = text_of(get(top, "version")),
			 major = fsdp_span_first(version, '.');
	char shown[FSDP_SHOWN];
	/* Minor versions add fields; what a major one changes is not known. */
	if (!fsdp_span_is_any(major, "1 2")) {
		fsdp_fail(&reading->error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			"this Flight Recorder dump has version %s; versions 1 and 2 are known",
			fsdp_shown(version, shown));
		fsdp_trace_require(reading,
			fsdp_error_add_hint(&reading->error, "use a newer fsdp-inspect"));
	}
	get_number(get(get(get(top, "pg_status"), "0"), "last_enqueued_collective"),
		&rows->enqueued);
	rows->facts.version = keep_text(reader, version);
	for (size_t i = 0; i < FSDP_COUNT(libraries); i++) {
		struct fsdp_span text = text_of(get(top, libraries[i]));
		if (text.size != 0)
			rows->facts.library = keep_text(reader, text);
	}
	struct dump_value config = get(top, "pg_config");
	struct walk groups = walk_of(config);
	while (next_value(&groups)) {
		count_work(reader, count_of(groups.value) + groups.key.size);
		if (groups.key.data == NULL)
			continue;
		uint32_t index, roster = find_roster(reader, get(groups.value, "ranks"));
		const struct fsdp_flight_roster *ranks =
			fsdp_vec_at(&shared->rosters, roster);
		if (ranks->count != 0)
			find_group(reader, groups.key, &index)->roster = roster;
	}
	rows->listed_count = rows->groups.count;
	struct walk walk = walk_of(get(top, "entries"));
	while (next_value(&walk))
		add_entry(reader, walk.value);
	reader->rows->facts.entries = reader->rows->entries.count;
	read_statuses(reader, get(top, "pg_status"));
	reading->recording.flight = &reader->rows->facts;
}

/* ---- files ---- */

/* All of a stream, counted by the budget of the set. */
struct dump_bytes {
	unsigned char *data;
	size_t size;
	uint64_t room;
	struct fsdp_budget *budget;
};

static void release_bytes(void *object)
{
	struct dump_bytes *bytes = object;
	fsdp_budget_return(bytes->budget, bytes->room);
	free(bytes->data);
}

static void grow_bytes(
	struct dump_bytes *bytes, uint64_t room, struct fsdp_trace_reading *reading)
{
	fsdp_trace_require(
		reading, fsdp_budget_spend(bytes->budget, room - bytes->room) ||
				 fsdp_fail_limit(&reading->error, FSDP_LIMIT_MEMORY,
					 bytes->budget->ceiling));
	bytes->room = room;
	unsigned char *larger = realloc(bytes->data, room);
	fsdp_trace_require(reading, larger != NULL || fsdp_fail_memory(&reading->error));
	bytes->data = larger;
}

/* A scanner may read the bytes after it. */
static struct fsdp_span read_bytes(
	struct fsdp_trace_reading *reading, enum fsdp_limit limit)
{
	enum { STEP = 64 << 10, PADDING = FSDP_WINDOW_PADDING };
	struct dump_bytes *bytes = FSDP_TAKE(reading->scratch, bytes, 1);
	uint64_t most = fsdp_limit(reading->limits, limit);
	size_t got = 1;
	bytes->budget = reading->budget;
	fsdp_arena_own(reading->scratch, release_bytes, bytes);
	grow_bytes(
		bytes, fsdp_min(fsdp_stream_size(reading->stream), most) + STEP, reading);
	while (got != 0) {
		if (bytes->room == PADDING + bytes->size)
			grow_bytes(bytes, bytes->room * 2, reading);
		fsdp_trace_require(reading,
			fsdp_stream_refill(reading->stream, bytes->data + bytes->size,
				(size_t)bytes->room - PADDING - bytes->size, &got,
				&reading->error));
		bytes->size += got;
		fsdp_trace_require(
			reading, bytes->size <= most ||
					 fsdp_fail_limit(&reading->error, limit, most));
	}
	memset(bytes->data + bytes->size, 0, PADDING);
	return fsdp_span(bytes->data, bytes->size);
}

static void fail_unknown(struct fsdp_trace_reading *reading, const char *what)
{
	fsdp_fail(&reading->error, FSDP_ERROR_NOT_A_CHECKPOINT, 0,
		"this is %s, but neither a Flight Recorder dump nor a memory snapshot",
		what);
	fsdp_error_add_kind(&reading->error, "no_dump");
	fsdp_trace_require(reading,
		fsdp_error_add_hint(&reading->error, "see fsdp-inspect info FILE"));
}

/* ---- pickles ---- */

/* A plain file is read in parts, anything else is in memory completely. */
struct pickled {
	struct fsdp_trace_reading *reading;
	const struct fsdp_source *file; /* NULL: it is in `bytes` */
	struct fsdp_span bytes;
	struct fsdp_arena *arena;
	struct fsdp_pickle *pickle;
};

/* Any operation of a loader other than building plain values. */
static bool note_deed(void *context, const struct fsdp_pickle *pickle,
	const struct fsdp_pickle_deed *deed)
{
	bool *done = context;
	(void)pickle;
	(void)deed;
	*done = true;
	return false;
}

static bool read_part(const void *context, uint64_t offset, void *buffer, size_t size,
	struct fsdp_error **ret_error)
{
	return fsdp_source_read(context, offset, buffer, size, ret_error);
}

/* Builds the values; dicts become rows of the memory reader, if there is one. False:
 * reading->error, and the pickle as far as it goes. */
static bool read_values(struct pickled *pickled, struct fsdp_memory_reader *memory)
{
	struct fsdp_trace_reading *reading = pickled->reading;
	struct fsdp_error **error = &reading->error;
	bool deed = false;
	const struct fsdp_pickle_options options = { .limits = reading->limits,
		.file = fsdp_span_text(reading->recording.path),
		.findings = &reading->findings,
		.fold_dict = memory != NULL ? fsdp_memory_fold : NULL,
		.context = memory,
		.check_deed = note_deed,
		.check_context = &deed };
	const struct fsdp_pickle_parts parts = { .read = read_part,
		.context = pickled->file,
		.size = pickled->file != NULL ? pickled->file->size : 0 };
	/* An earlier attempt leaves nothing. */
	fsdp_arena_done(pickled->arena);
	fsdp_arena_init(pickled->arena, reading->budget);
	pickled->pickle = NULL;
	/* The reader of pickles is not left: it holds more than memory of arenas. */
	struct fsdp_escape *escape = reading->arena.escape;
	reading->arena.escape = NULL;
	bool good = pickled->file != NULL
			    ? fsdp_pickle_read_parts(&parts, pickled->arena, &options,
				      &pickled->pickle, error)
			    : fsdp_pickle_read(pickled->bytes, pickled->arena, &options,
				      &pickled->pickle, error);
	reading->arena.escape = escape;
	bool names =
		pickled->pickle != NULL && fsdp_pickle_global_count(pickled->pickle) != 0;
	if (names || (pickled->pickle != NULL && deed)) {
		const struct fsdp_pickle_global *global =
			names ? fsdp_pickle_global(pickled->pickle, 0) : NULL;
		char module[FSDP_SHOWN], name[FSDP_SHOWN];
		fsdp_error_free(reading->error);
		reading->error = NULL;
		if (global == NULL)
			fsdp_fail(&reading->error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
				"ignored: not a Flight Recorder dump (its pickle calls code)");
		else
			fsdp_fail(&reading->error, FSDP_ERROR_UNSUPPORTED, global->offset,
				"ignored: not a Flight Recorder dump (uses %s.%s)",
				fsdp_shown(global->module, module),
				fsdp_shown(global->name, name));
		fsdp_error_add_kind(&reading->error, "refused");
		fsdp_trace_require(reading,
			fsdp_error_add_hint(&reading->error,
				"do not load it; list its calls: fsdp-inspect pickle FILE"));
	}
	return good;
}

/* This and the next: false if it is not of this kind. */
static bool read_flight(struct pickled *pickled)
{
	fsdp_trace_require(pickled->reading, read_values(pickled, NULL));
	struct dump_value top = { .pickle = pickled->pickle,
		.ref = fsdp_pickle_top(pickled->pickle) };
	if (is_list(get(top, "segments")))
		return false;
	if (!is_dump(top))
		fail_unknown(pickled->reading, "a pickle");
	read_dump(pickled->reading, top);
	return true;
}

/* If the history is truncated, the segments are still there. */
static bool read_memory(struct pickled *pickled)
{
	struct fsdp_trace_reading *reading = pickled->reading;
	struct fsdp_memory_reader *reader = fsdp_memory_reader_new(reading);
	bool is_cut = !read_values(pickled, reader);
	struct fsdp_error *damage = reading->error;
	fsdp_trace_require(
		reading, !is_cut || (fsdp_error_code(damage) == FSDP_ERROR_DAMAGED &&
					    fsdp_error_kind(damage) == NULL &&
					    pickled->pickle != NULL));
	bool is_one = fsdp_memory_is_one(reader, pickled->pickle, is_cut);
	fsdp_trace_require(reading, is_one || !is_cut);
	fsdp_error_free(damage);
	reading->error = NULL;
	if (is_one)
		fsdp_memory_take(reader, pickled->pickle, is_cut);
	return is_one;
}

static void read_pickle(struct fsdp_trace_reading *reading)
{
	struct pickled *pickled = FSDP_TAKE(reading->scratch, pickled, 1);
	struct fsdp_recording *recording = &reading->recording;
	struct fsdp_span head;
	fsdp_trace_require(
		reading, fsdp_stream_peek(reading->stream, &head, &reading->error));
	*pickled = (struct pickled){ .reading = reading,
		.file = fsdp_stream_plain(reading->stream),
		.arena = fsdp_arena_new_below(reading->scratch) };
	if (pickled->file == NULL) {
		pickled->bytes = read_bytes(reading, FSDP_LIMIT_PICKLE_BYTES);
		head = pickled->bytes;
		head.size = fsdp_min(head.size, FSDP_STREAM_PEEK);
	}
	bool is_memory = fsdp_memory_bid(head);
	for (size_t i = 0; i < 2; i++, is_memory = !is_memory) {
		recording->kind =
			is_memory ? FSDP_RECORDING_MEMORY : FSDP_RECORDING_FLIGHT;
		if (is_memory ? read_memory(pickled) : read_flight(pickled))
			return;
	}
	recording->kind = FSDP_RECORDING_FLIGHT;
	fail_unknown(reading, "a pickle");
}

static bool bid_pickle(struct fsdp_span head)
{
	return head.size >= 2 && head.data[0] == 0x80 && head.data[1] >= 2 &&
	       head.data[1] <= 5;
}

const struct fsdp_trace_reader fsdp_trace_pickle = { bid_pickle, read_pickle };

/* ---- JSON ---- */

/* The first key is one of a dump, or "version" or "entries" next to one. */
static bool bid_json(struct fsdp_span head)
{
	static const char *const own[] = { "\"comm_lib_version\"", "\"nccl_version\"",
		"\"nccl_comm_state\"", "\"pg_config\"", "\"pg_status\"",
		"\"collective_seq_id\"" };
	if (head.size == 0 || head.data[0] != '{')
		return false;
	struct fsdp_span rest =
		fsdp_trace_without_mark(fsdp_span(head.data + 1, head.size - 1));
	bool shared = fsdp_span_begins(rest, FSDP_SPAN("\"version\"")) ||
		      fsdp_span_begins(rest, FSDP_SPAN("\"entries\""));
	for (size_t i = 0; i < FSDP_COUNT(own); i++)
		if (fsdp_span_begins(rest, fsdp_span_text(own[i])) ||
			(shared && fsdp_span_has(head, own[i], false)))
			return true;
	return false;
}

static void read_json(struct fsdp_trace_reading *reading)
{
	const struct fsdp_json *root;
	struct fsdp_arena *arena = fsdp_arena_new_below(reading->scratch);
	reading->recording.kind = FSDP_RECORDING_FLIGHT;
	/* The reader of JSON is not left. */
	fsdp_arena_init(arena, reading->budget);
	fsdp_trace_require(
		reading, fsdp_json_read(read_bytes(reading, FSDP_LIMIT_JSON_BYTES),
				 reading->limits, arena, &root, &reading->error));
	struct dump_value top = { .json = root };
	if (!is_dump(top))
		fail_unknown(reading, "JSON");
	read_dump(reading, top);
}

const struct fsdp_trace_reader fsdp_trace_flight = { bid_json, read_json };

/* ---- calls ---- */

static int64_t read_number(struct fsdp_span *rest)
{
	int64_t number;
	memcpy(&number, rest->data, sizeof number);
	*rest = fsdp_span(rest->data + sizeof number, rest->size - sizeof number);
	return number;
}

static const struct fsdp_flight_sizes *unpack_sizes(
	struct fsdp_span rest, struct fsdp_arena *arena, size_t *ret_count)
{
	*ret_count = rest.size != 0 ? (size_t)read_number(&rest) : 0;
	struct fsdp_flight_sizes *sizes = FSDP_TAKE(arena, sizes, *ret_count);
	for (size_t i = 0; i < *ret_count; i++) {
		size_t count = (size_t)read_number(&rest);
		int64_t *dims = FSDP_TAKE(arena, dims, count);
		for (size_t j = 0; j < count; j++)
			dims[j] = read_number(&rest);
		sizes[i] = (struct fsdp_flight_sizes){ dims, count };
	}
	return sizes;
}

static const struct fsdp_span *unpack_texts(
	struct fsdp_span rest, struct fsdp_arena *arena, size_t *ret_count)
{
	*ret_count = rest.size != 0 ? (size_t)read_number(&rest) : 0;
	struct fsdp_span *texts = FSDP_TAKE(arena, texts, *ret_count);
	for (size_t i = 0; i < *ret_count; i++) {
		size_t size = (size_t)read_number(&rest);
		texts[i] = fsdp_span(rest.data, size);
		rest = fsdp_span(rest.data + size, rest.size - size);
	}
	return texts;
}

struct fsdp_flight_call fsdp_flight_unpack(
	const struct fsdp_flight_called *called, struct fsdp_arena *arena)
{
	const struct fsdp_span *lists = called->lists;
	struct fsdp_flight_call call = { .op = fsdp_flight_op(called->name) };
	call.input_sizes = unpack_sizes(
		lists[FSDP_FLIGHT_INPUT_SIZES], arena, &call.input_size_count);
	call.output_sizes = unpack_sizes(
		lists[FSDP_FLIGHT_OUTPUT_SIZES], arena, &call.output_size_count);
	call.input_dtypes = unpack_texts(
		lists[FSDP_FLIGHT_INPUT_DTYPES], arena, &call.input_dtype_count);
	call.output_dtypes = unpack_texts(
		lists[FSDP_FLIGHT_OUTPUT_DTYPES], arena, &call.output_dtype_count);
	return call;
}

struct fsdp_span fsdp_flight_op(struct fsdp_span name)
{
	struct fsdp_span op = name;
	size_t backend = fsdp_span_first(name, ':').size;
	if (backend < name.size) {
		op = fsdp_span(name.data + backend + 1, name.size - backend - 1);
		op = fsdp_span_first(op, ' ');
		while (op.size != 0 && op.data[0] == '_')
			op = fsdp_span(op.data + 1, op.size - 1);
		while (op.size != 0 && op.data[op.size - 1] == '_')
			op.size--;
	}
	return op;
}

struct fsdp_span fsdp_flight_folded(struct fsdp_span name, struct fsdp_arena *arena)
{
	struct fsdp_span op = fsdp_flight_op(name);
	enum fsdp_time_type type = fsdp_collective_type(op);
	return type != FSDP_TIME_OTHER && type != FSDP_TIME_SEND_RECV
		       ? fsdp_time_type_name(type)
		       : fsdp_span_lower(op, arena);
}

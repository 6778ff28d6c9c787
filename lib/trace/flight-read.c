/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dump of the Flight Recorder as rows: a dict with `version`, `pg_config`, `pg_status`
 * and `entries`, the newest collectives of one rank.
 *
 * Origin: torch/csrc/distributed/c10d/FlightRecorder.hpp, FlightRecorderDetail.hpp.
 */
#include <stdlib.h>

#include "base/characters.h"
#include "trace/flight.h"

enum { GROUPS, CALLS, PLACES, ROSTERS, TABLES };

struct flight_reader {
	struct fsdp_trace_reading *reading;
	struct fsdp_flight_rows *rows;
	struct fsdp_names tables[TABLES]; /* the id of a row, less one, is its index */
	struct fsdp_flight_bytes key;     /* of the row that is looked up */
	struct fsdp_budget budget;        /* of work: values of a pickle may be shared */
};

static bool fail_memory(struct flight_reader *reader)
{
	return fsdp_budget_work(&reader->budget, 0, &reader->reading->error) &&
	       fsdp_trace_memory(reader->reading);
}

static bool fail(struct flight_reader *reader, const char *what, uint64_t entry)
{
	fsdp_fail(&reader->reading->error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
		"entry %llu of this Flight Recorder dump has no %s", FSDP_LLU(entry),
		what);
	return fsdp_error_add_kind(&reader->reading->error, "flight");
}

/* ---- rows that entries share ---- */

/* The index of the row with the key that was put together, in *ret_key. *ret_fresh: it
 * is new. FSDP_NONE: out of memory. */
static uint32_t row_of(struct flight_reader *reader, unsigned table, size_t count,
	struct fsdp_span *ret_key)
{
	struct fsdp_names *names = &reader->tables[table];
	uint32_t id =
		fsdp_names_child(names, 0, fsdp_span(reader->key.data, reader->key.size));
	if (id == FSDP_NONE)
		return FSDP_NONE;
	*ret_key = id > count ? fsdp_names_segment(names, id) : (struct fsdp_span){ 0 };
	return id - 1;
}

static bool put_text(struct flight_reader *reader, struct fsdp_span text)
{
	return fsdp_flight_put(&reader->key, &text.size, sizeof text.size) &&
	       fsdp_flight_put(&reader->key, text.data, text.size);
}

/* The next text of a key. */
static struct fsdp_span take_text(struct fsdp_span *key)
{
	struct fsdp_span text;
	memcpy(&text.size, key->data, sizeof text.size);
	text.data = key->data + sizeof text.size;
	*key = fsdp_span(text.data + text.size, key->size - sizeof text.size - text.size);
	return text;
}

static bool find_group(
	struct flight_reader *reader, const struct fsdp_inert *pair, uint32_t *ret_group)
{
	struct fsdp_vec *groups = &reader->rows->groups;
	struct fsdp_inert_walk walk = { .of = *pair };
	struct fsdp_inert values[2] = { { 0 }, { 0 } };
	struct fsdp_flight_group *fresh;
	struct fsdp_span key;
	for (size_t i = 0; i < 2; i++)
		if (!fsdp_inert_next(&walk, &key, &values[i]))
			break;
	reader->key.size = 0;
	if (!put_text(reader, fsdp_inert_text(&values[0])) ||
		!put_text(reader, fsdp_inert_text(&values[1])))
		return false;
	*ret_group = row_of(reader, GROUPS, groups->count, &key);
	if (*ret_group == FSDP_NONE || key.data == NULL)
		return *ret_group != FSDP_NONE;
	fresh = fsdp_vec_push(groups);
	if (fresh == NULL)
		return false;
	fresh->name = take_text(&key);
	fresh->desc = take_text(&key);
	fresh->pg_id = FSDP_ABSENT;
	return true;
}

/* A part of a key with its length before it, which is written once it is known. */
static bool put_list(struct flight_reader *reader, const struct fsdp_inert *list,
	bool (*pack)(struct fsdp_flight_bytes *bytes, const struct fsdp_inert *list))
{
	size_t at = reader->key.size, size = 0;
	if (!fsdp_flight_put(&reader->key, &size, sizeof size) ||
		!pack(&reader->key, list))
		return false;
	size = reader->key.size - at - sizeof size;
	memcpy(reader->key.data + at, &size, sizeof size);
	return true;
}

static struct fsdp_span take_list(struct fsdp_span *key)
{
	struct fsdp_span list = take_text(key);
	return list.size != 0 ? list : (struct fsdp_span){ 0 };
}

/* ---- entries ---- */

enum field {
	RECORD_ID,
	PROCESS_GROUP,
	PG_ID,
	COLLECTIVE_SEQ_ID,
	P2P_SEQ_ID,
	PROFILING_NAME,
	TIME_CREATED_NS,
	INPUT_SIZES,
	OUTPUT_SIZES,
	INPUT_DTYPES,
	OUTPUT_DTYPES,
	STATE,
	RETIRED,
	IS_P2P,
	FRAMES,
	FIELD_COUNT
};

static const struct fsdp_span field_names[FIELD_COUNT] = {
	[RECORD_ID] = FSDP_SPAN_INIT("record_id"),
	[PROCESS_GROUP] = FSDP_SPAN_INIT("process_group"),
	[PG_ID] = FSDP_SPAN_INIT("pg_id"),
	[COLLECTIVE_SEQ_ID] = FSDP_SPAN_INIT("collective_seq_id"),
	[P2P_SEQ_ID] = FSDP_SPAN_INIT("p2p_seq_id"),
	[PROFILING_NAME] = FSDP_SPAN_INIT("profiling_name"),
	[TIME_CREATED_NS] = FSDP_SPAN_INIT("time_created_ns"),
	[INPUT_SIZES] = FSDP_SPAN_INIT("input_sizes"),
	[OUTPUT_SIZES] = FSDP_SPAN_INIT("output_sizes"),
	[INPUT_DTYPES] = FSDP_SPAN_INIT("input_dtypes"),
	[OUTPUT_DTYPES] = FSDP_SPAN_INIT("output_dtypes"),
	[STATE] = FSDP_SPAN_INIT("state"),
	[RETIRED] = FSDP_SPAN_INIT("retired"),
	[IS_P2P] = FSDP_SPAN_INIT("is_p2p"),
	[FRAMES] = FSDP_SPAN_INIT("frames"),
};

static bool take_fields(struct flight_reader *reader, const struct fsdp_inert *entry,
	struct fsdp_inert *fields)
{
	struct fsdp_inert_walk walk = { .of = *entry };
	struct fsdp_inert value;
	struct fsdp_span key;
	memset(fields, 0, FIELD_COUNT * sizeof *fields);
	while (fsdp_inert_next(&walk, &key, &value))
		for (size_t i = 0; i < FIELD_COUNT; i++)
			if (fsdp_span_equal(key, field_names[i])) {
				fields[i] = value;
				break;
			}
	return fsdp_flight_work(&reader->key, fsdp_inert_count(entry));
}

static bool find_call(
	struct flight_reader *reader, const struct fsdp_inert *fields, uint32_t *ret_call)
{
	struct fsdp_vec *calls = &reader->rows->calls;
	struct fsdp_flight_called *fresh;
	struct fsdp_span key;
	reader->key.size = 0;
	if (!put_text(reader, fsdp_inert_text(&fields[PROFILING_NAME])) ||
		!put_list(reader, &fields[INPUT_SIZES], fsdp_flight_pack_sizes) ||
		!put_list(reader, &fields[OUTPUT_SIZES], fsdp_flight_pack_sizes) ||
		!put_list(reader, &fields[INPUT_DTYPES], fsdp_flight_pack_texts) ||
		!put_list(reader, &fields[OUTPUT_DTYPES], fsdp_flight_pack_texts))
		return false;
	*ret_call = row_of(reader, CALLS, calls->count, &key);
	if (*ret_call == FSDP_NONE || key.data == NULL)
		return *ret_call != FSDP_NONE;
	fresh = fsdp_vec_push(calls);
	if (fresh == NULL)
		return false;
	fresh->name = take_text(&key);
	fresh->input.sizes = take_list(&key);
	fresh->output.sizes = take_list(&key);
	fresh->input.dtypes = take_list(&key);
	fresh->output.dtypes = take_list(&key);
	return true;
}

/* PyTorch's own code, and what wraps its functions. */
static bool is_inside(struct fsdp_span filename)
{
	static const char *const wrappers[] = { "/typing_extensions.py",
		"/contextlib.py" };
	for (size_t i = 0; i < FSDP_COUNT(wrappers); i++)
		if (fsdp_span_ends(filename, fsdp_span_text(wrappers[i])))
			return true;
	return fsdp_span_has(filename, "torch/", false);
}

/* The innermost frame that is not of PyTorch; filename NULL: none. False: too much
 * work. */
static bool find_frame(struct flight_reader *reader, const struct fsdp_inert *frames,
	struct fsdp_flight_place *place)
{
	struct fsdp_inert_walk walk = { .of = *frames };
	struct fsdp_inert frame;
	struct fsdp_span key;
	*place = (struct fsdp_flight_place){ .line = FSDP_ABSENT };
	while (fsdp_inert_next(&walk, &key, &frame)) {
		struct fsdp_inert name = fsdp_inert_get(&frame, "name"),
				  filename = fsdp_inert_get(&frame, "filename"),
				  line = fsdp_inert_get(&frame, "line");
		struct fsdp_span file = fsdp_inert_text(&filename);
		if (!fsdp_flight_work(&reader->key,
			    4 * (1 + fsdp_inert_count(&frame)) + file.size / 16))
			return false;
		if (file.data == NULL || is_inside(file))
			continue;
		place->filename = file;
		place->name = fsdp_inert_text(&name);
		fsdp_inert_integer(&line, &place->line);
		break;
	}
	return true;
}

static bool find_place(struct flight_reader *reader, const struct fsdp_inert *frames,
	uint32_t *ret_place)
{
	struct fsdp_vec *places = &reader->rows->places;
	struct fsdp_flight_place place, *fresh;
	struct fsdp_span key;
	*ret_place = FSDP_NONE;
	if (!find_frame(reader, frames, &place) || place.filename.data == NULL)
		return place.filename.data == NULL && !reader->budget.worn;
	reader->key.size = 0;
	if (!put_text(reader, place.filename) || !put_text(reader, place.name) ||
		!fsdp_flight_put(&reader->key, &place.line, sizeof place.line))
		return false;
	*ret_place = row_of(reader, PLACES, places->count, &key);
	if (*ret_place == FSDP_NONE || key.data == NULL)
		return *ret_place != FSDP_NONE;
	fresh = fsdp_vec_push(places);
	if (fresh == NULL)
		return false;
	fresh->filename = take_text(&key);
	fresh->name = take_text(&key);
	fresh->line = place.line;
	return true;
}

static bool is_whole(
	struct flight_reader *reader, const struct fsdp_inert *fields, uint64_t index)
{
	int64_t seq;
	if (fsdp_inert_text(&fields[PROFILING_NAME]).data == NULL)
		return fail(reader, "profiling_name", index);
	if (!fsdp_inert_is_list(&fields[PROCESS_GROUP]))
		return fail(reader, "process_group", index);
	if (!fsdp_inert_integer(&fields[COLLECTIVE_SEQ_ID], &seq))
		return fail(reader, "collective_seq_id", index);
	return true;
}

static bool add_entry(struct flight_reader *reader, const struct fsdp_inert *value)
{
	struct fsdp_flight_rows *rows = reader->rows;
	struct fsdp_inert fields[FIELD_COUNT];
	struct fsdp_span rest;
	uint64_t index = rows->entries.count;
	if (!take_fields(reader, value, fields))
		return fail_memory(reader);
	if (!is_whole(reader, fields, index))
		return false;
	bool is_p2p = fsdp_inert_truth(&fields[IS_P2P]);
	struct fsdp_flight_entry *entry = fsdp_vec_push(&rows->entries);
	if (entry == NULL)
		return fail_memory(reader);
	*entry = (struct fsdp_flight_entry){ .time_ns = FSDP_ABSENT, .is_p2p = is_p2p };
	fsdp_inert_integer(&fields[is_p2p ? P2P_SEQ_ID : COLLECTIVE_SEQ_ID], &entry->seq);
	fsdp_inert_integer(&fields[TIME_CREATED_NS], &entry->time_ns);
	entry->is_completed = fsdp_span_is(fsdp_inert_text(&fields[STATE]), "completed");
	entry->is_unfinished =
		!fsdp_inert_truth(&fields[RETIRED]) && !entry->is_completed;
	rows->has_finished |= !entry->is_unfinished;
	rows->is_nccl |= fsdp_span_behind(
		fsdp_inert_text(&fields[PROFILING_NAME]), "nccl:", &rest);
	if (index == 0)
		fsdp_inert_integer(&fields[RECORD_ID], &rows->facts.first_record);
	if (!find_group(reader, &fields[PROCESS_GROUP], &entry->group) ||
		!find_call(reader, fields, &entry->call) ||
		!find_place(reader, &fields[FRAMES], &entry->place))
		return fail_memory(reader);
	struct fsdp_flight_group *group = fsdp_vec_at(&rows->groups, entry->group);
	if (group->pg_id == FSDP_ABSENT)
		fsdp_inert_integer(&fields[PG_ID], &group->pg_id);
	return true;
}

static bool read_entries(struct flight_reader *reader, const struct fsdp_inert *entries)
{
	struct fsdp_inert_walk walk = { .of = *entries };
	struct fsdp_inert value;
	struct fsdp_span key;
	while (fsdp_inert_next(&walk, &key, &value))
		if (!add_entry(reader, &value))
			return false;
	reader->rows->facts.entries = reader->rows->entries.count;
	return true;
}

/* ---- groups ---- */

static int compare_ranks(const void *a, const void *b)
{
	const int64_t *left = a, *right = b;
	return *left < *right ? -1 : *left > *right;
}

/* Ascending, each once. */
static size_t tidy(int64_t *ranks, size_t count)
{
	size_t kept = 0;
	if (count != 0)
		qsort(ranks, count, sizeof *ranks, compare_ranks);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || ranks[kept - 1] != ranks[i])
			ranks[kept++] = ranks[i];
	return kept;
}

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
			inside = true;
			ranks[count - 1] = ranks[count - 1] * 10 + (byte - '0');
			if (ranks[count - 1] > INT32_MAX)
				return 0;
		} else if (byte == ',' || byte == ' ' || byte == '[' || byte == ']') {
			inside = false;
		} else {
			return 0;
		}
	}
	return count;
}

/* Of a list, whose items were counted for the room in `ranks`. */
static size_t list_ranks(const struct fsdp_inert *list, int64_t *ranks)
{
	struct fsdp_inert_walk walk = { .of = *list };
	struct fsdp_inert value;
	struct fsdp_span key;
	size_t count = 0;
	while (fsdp_inert_next(&walk, &key, &value))
		if (!fsdp_inert_integer(&value, &ranks[count]) || ranks[count] < 0 ||
			ranks[count++] > INT32_MAX)
			return 0;
	return count;
}

/* Groups of one pickle may share a list of ranks. */
static bool find_roster(struct flight_reader *reader, const struct fsdp_inert *ranks,
	uint32_t *ret_roster)
{
	struct fsdp_vec *rosters = &reader->rows->rosters;
	struct fsdp_span text = fsdp_inert_text(ranks), key;
	bool is_list = fsdp_inert_is_list(ranks);
	size_t identity = ranks->pickle != NULL ? ranks->ref : rosters->count;
	reader->key.size = 0;
	if (!fsdp_flight_put(&reader->key, &identity, sizeof identity))
		return false;
	*ret_roster = row_of(reader, ROSTERS, rosters->count, &key);
	if (*ret_roster == FSDP_NONE || key.data == NULL)
		return *ret_roster != FSDP_NONE;
	struct fsdp_flight_roster *fresh = fsdp_vec_push(rosters);
	size_t most = is_list ? (size_t)fsdp_inert_count(ranks) : text.size / 2 + 1;
	int64_t *list = FSDP_TAKE(&reader->reading->arena, list, most);
	if (fresh == NULL || list == NULL)
		return false;
	fresh->ranks = list;
	fresh->count = is_list ? list_ranks(ranks, list) : parse_ranks(text, list);
	fresh->count = tidy(list, fresh->count);
	return true;
}

static bool add_members(struct flight_reader *reader, struct fsdp_span name,
	const struct fsdp_inert *ranks)
{
	struct fsdp_flight_rows *rows = reader->rows;
	struct fsdp_flight_members members = { 0 };
	if (!find_roster(reader, ranks, &members.roster))
		return false;
	const struct fsdp_flight_roster *roster =
		fsdp_vec_at(&rows->rosters, members.roster);
	if (roster->count == 0)
		return true;
	if (!fsdp_flight_work(&reader->key, name.size))
		return false;
	members.name = fsdp_arena_copy(&reader->reading->arena, name);
	return members.name.data != NULL && fsdp_vec_add(&rows->members, &members);
}

static bool read_members(struct flight_reader *reader, const struct fsdp_inert *config)
{
	struct fsdp_inert_walk walk = { .of = *config };
	struct fsdp_inert value;
	struct fsdp_span key;
	while (fsdp_inert_next(&walk, &key, &value)) {
		struct fsdp_inert ranks = fsdp_inert_get(&value, "ranks");
		if (!fsdp_flight_work(&reader->key, fsdp_inert_count(&value)) ||
			(key.data != NULL && !add_members(reader, key, &ranks)))
			return fail_memory(reader);
	}
	return true;
}

/* ---- status ---- */

static int compare_statuses(const void *a, const void *b)
{
	const struct fsdp_flight_status *left = a, *right = b;
	return left->pg_id < right->pg_id ? -1 : left->pg_id > right->pg_id;
}

static int compare_status_groups(const void *a, const void *b)
{
	const struct fsdp_flight_status *left = a, *right = b;
	return fsdp_span_compare(left->group, right->group);
}

/* Names of groups are numbers that count in all processes, ids of statuses count in one:
 * both in the order in which the groups were made. So the n-th name is of the n-th id,
 * unless an entry, which has both, differs. */
static bool name_statuses(struct fsdp_flight_rows *rows, size_t count)
{
	struct fsdp_flight_status *names = calloc(count + 1, sizeof *names);
	bool match = names != NULL && count == rows->members.count;
	for (size_t i = 0; match && i < count; i++) {
		const struct fsdp_flight_members *one = fsdp_vec_at(&rows->members, i);
		names[i].group = one->name;
		match = fsdp_decimal_integer(one->name, &names[i].pg_id);
	}
	if (match && count != 0) {
		qsort(names, count, sizeof *names, compare_statuses);
		qsort(rows->statuses, count, sizeof *names, compare_statuses);
	}
	for (size_t i = 0; match && i < count; i++)
		rows->statuses[i].group = names[i].group;
	for (size_t i = 0; match && i < rows->groups.count; i++) {
		const struct fsdp_flight_group *group = fsdp_vec_at(&rows->groups, i);
		struct fsdp_flight_status like = { .pg_id = group->pg_id }, *found;
		found = bsearch(
			&like, rows->statuses, count, sizeof like, compare_statuses);
		match = found != NULL && fsdp_span_equal(found->group, group->name);
	}
	if (match && count != 0)
		qsort(rows->statuses, count, sizeof *names, compare_status_groups);
	rows->status_count = match ? count : 0;
	bool good = names != NULL;
	free(names);
	return good;
}

/* The last collective that this rank enqueued in each group. gloo counts otherwise. */
static bool read_statuses(struct flight_reader *reader, const struct fsdp_inert *top)
{
	struct fsdp_flight_rows *rows = reader->rows;
	struct fsdp_inert status = fsdp_inert_get(top, "pg_status");
	struct fsdp_inert_walk walk = { .of = status };
	struct fsdp_inert value;
	struct fsdp_span key;
	size_t count = 0, most = rows->members.count;
	rows->is_nccl |= rows->facts.library.size != 0;
	if (!rows->is_nccl || fsdp_inert_count(&status) != most)
		return true;
	rows->statuses = FSDP_TAKE(&reader->reading->arena, rows->statuses, most);
	if (rows->statuses == NULL)
		return fail_memory(reader);
	while (count < most && fsdp_inert_next(&walk, &key, &value)) {
		struct fsdp_flight_status *one = &rows->statuses[count];
		struct fsdp_inert last =
			fsdp_inert_get(&value, "last_enqueued_collective");
		if (!fsdp_flight_work(&reader->key, fsdp_inert_count(&value)))
			return fail_memory(reader);
		count += key.data != NULL && fsdp_decimal_integer(key, &one->pg_id) &&
			 fsdp_inert_number(&last, &one->enqueued);
	}
	return name_statuses(rows, count) || fail_memory(reader);
}

/* ---- the dump ---- */

bool fsdp_flight_is_dump(const struct fsdp_inert *top)
{
	struct fsdp_inert version = fsdp_inert_get(top, "version"),
			  config = fsdp_inert_get(top, "pg_config"),
			  entries = fsdp_inert_get(top, "entries");
	return fsdp_inert_text(&version).data != NULL &&
	       (fsdp_inert_is_dict(&config) || fsdp_inert_is_list(&entries));
}

/* Minor versions add fields; what a major one changes is not known. */
static bool check_version(struct flight_reader *reader, struct fsdp_span version)
{
	char shown[FSDP_SHOWN];
	struct fsdp_span major = fsdp_span_first(version, '.');
	if (fsdp_span_is(major, "1") || fsdp_span_is(major, "2"))
		return true;
	fsdp_fail(&reader->reading->error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
		"this Flight Recorder dump has version %s; versions 1 and 2 are known",
		fsdp_shown(version, shown));
	return fsdp_error_add_hint(&reader->reading->error, "use a newer fsdp-inspect");
}

static bool read_facts(struct flight_reader *reader, const struct fsdp_inert *top)
{
	static const char *const libraries[] = { "comm_lib_version", "nccl_version" };
	struct fsdp_flight_rows *rows = reader->rows;
	struct fsdp_inert version = fsdp_inert_get(top, "version"),
			  status = fsdp_inert_get(top, "pg_status"),
			  group = fsdp_inert_get(&status, "0"),
			  last = fsdp_inert_get(&group, "last_enqueued_collective");
	if (!check_version(reader, fsdp_inert_text(&version)))
		return false;
	rows->enqueued = FSDP_ABSENT;
	fsdp_inert_number(&last, &rows->enqueued);
	rows->facts.version =
		fsdp_arena_copy(&reader->reading->arena, fsdp_inert_text(&version));
	for (size_t i = 0; i < FSDP_COUNT(libraries); i++) {
		struct fsdp_inert value = fsdp_inert_get(top, libraries[i]);
		struct fsdp_span text = fsdp_inert_text(&value);
		if (text.size != 0)
			rows->facts.library =
				fsdp_arena_copy(&reader->reading->arena, text);
	}
	return rows->facts.version.data != NULL || fail_memory(reader);
}

static bool begin(struct flight_reader *reader)
{
	struct fsdp_arena *arena = &reader->reading->arena;
	struct fsdp_flight_rows *rows = FSDP_TAKE(arena, rows, 1);
	if (rows == NULL)
		return fail_memory(reader);
	reader->rows = rows;
	rows->facts.first_record = FSDP_ABSENT;
	fsdp_vec_init(&rows->entries, arena, sizeof(struct fsdp_flight_entry));
	fsdp_vec_init(&rows->groups, arena, sizeof(struct fsdp_flight_group));
	fsdp_vec_init(&rows->calls, arena, sizeof(struct fsdp_flight_called));
	fsdp_vec_init(&rows->places, arena, sizeof(struct fsdp_flight_place));
	fsdp_vec_init(&rows->members, arena, sizeof(struct fsdp_flight_members));
	fsdp_vec_init(&rows->rosters, arena, sizeof(struct fsdp_flight_roster));
	for (size_t i = 0; i < TABLES; i++) {
		if (!fsdp_names_init(&reader->tables[i], arena))
			return fail_memory(reader);
		reader->tables[i].copies = arena;
	}
	return true;
}

bool fsdp_flight_read(struct fsdp_trace_reading *reading, const struct fsdp_inert *top)
{
	struct flight_reader *reader = calloc(1, sizeof *reader);
	struct fsdp_inert config = fsdp_inert_get(top, "pg_config"),
			  entries = fsdp_inert_get(top, "entries");
	if (reader == NULL)
		return fsdp_trace_memory(reading);
	reader->reading = reading;
	reader->budget = (struct fsdp_budget){ .limits = reading->limits,
		.given = top->pickle != NULL ? fsdp_pickle_length(top->pickle) : 0 };
	if (top->pickle != NULL)
		reader->key.budget = &reader->budget;
	bool good = begin(reader) && read_facts(reader, top) &&
		    read_members(reader, &config) && read_entries(reader, &entries) &&
		    read_statuses(reader, top);
	if (good)
		reading->recording.flight = &reader->rows->facts;
	free(reader->key.data);
	free(reader);
	return good;
}

/*
 * Sizes and dtypes of calls as bytes: calls are many and few differ, so they are compared
 * as bytes and become lists again only where they are shown.
 *
 * Everything is a number of 64 bits, except the bytes of texts: how many there are, then
 * the length and the bytes of each.
 */

bool fsdp_flight_work(struct fsdp_flight_bytes *bytes, uint64_t steps)
{
	return bytes->budget == NULL || fsdp_budget_work(bytes->budget, steps, NULL);
}

/* A step for each byte: entries of a pickle may share what is packed for each of them. */
bool fsdp_flight_put(struct fsdp_flight_bytes *bytes, const void *data, size_t size)
{
	if (!fsdp_flight_work(bytes, size))
		return false;
	if (size > bytes->room - bytes->size) {
		size_t room = (bytes->room + size) * 2;
		unsigned char *larger = realloc(bytes->data, room);
		if (larger == NULL)
			return false;
		bytes->data = larger;
		bytes->room = room;
	}
	if (size != 0)
		memcpy(bytes->data + bytes->size, data, size);
	bytes->size += size;
	return true;
}

static bool put_number(struct fsdp_flight_bytes *bytes, int64_t number)
{
	return fsdp_flight_put(bytes, &number, sizeof number);
}

/* Says how many there are where a place was left for it. */
static void set_count(struct fsdp_flight_bytes *bytes, size_t at, int64_t count)
{
	memcpy(bytes->data + at, &count, sizeof count);
}

static bool pack_dims(struct fsdp_flight_bytes *bytes, const struct fsdp_inert *dims)
{
	struct fsdp_inert_walk walk = { .of = *dims };
	struct fsdp_inert value;
	struct fsdp_span key;
	size_t at = bytes->size;
	int64_t count = 0, dim;
	if (!put_number(bytes, 0) || !fsdp_flight_work(bytes, fsdp_inert_count(dims)))
		return false;
	while (fsdp_inert_next(&walk, &key, &value)) {
		if (!fsdp_inert_integer(&value, &dim))
			continue;
		if (!put_number(bytes, dim))
			return false;
		count++;
	}
	set_count(bytes, at, count);
	return true;
}

static bool pack_text(struct fsdp_flight_bytes *bytes, const struct fsdp_inert *value)
{
	struct fsdp_span text = fsdp_inert_text(value);
	return put_number(bytes, (int64_t)text.size) &&
	       fsdp_flight_put(bytes, text.data, text.size);
}

static bool pack_list(struct fsdp_flight_bytes *bytes, const struct fsdp_inert *list,
	bool (*pack)(struct fsdp_flight_bytes *bytes, const struct fsdp_inert *value))
{
	struct fsdp_inert_walk walk = { .of = *list };
	struct fsdp_inert value;
	struct fsdp_span key;
	size_t at = bytes->size;
	int64_t count = 0;
	if (!fsdp_inert_is_list(list))
		return true;
	if (!put_number(bytes, 0))
		return false;
	for (; fsdp_inert_next(&walk, &key, &value); count++)
		if (!pack(bytes, &value))
			return false;
	set_count(bytes, at, count);
	return true;
}

bool fsdp_flight_pack_sizes(
	struct fsdp_flight_bytes *bytes, const struct fsdp_inert *sizes)
{
	return pack_list(bytes, sizes, pack_dims);
}

bool fsdp_flight_pack_texts(
	struct fsdp_flight_bytes *bytes, const struct fsdp_inert *texts)
{
	return pack_list(bytes, texts, pack_text);
}

/* ---- lists again ---- */

static int64_t take_number(struct fsdp_span *rest)
{
	int64_t number;
	memcpy(&number, rest->data, sizeof number);
	*rest = fsdp_span(rest->data + sizeof number, rest->size - sizeof number);
	return number;
}

/* Where the list begins, and how many there are. */
static struct fsdp_span begin_list(struct fsdp_span packed, size_t *ret_count)
{
	*ret_count = packed.size != 0 ? (size_t)take_number(&packed) : 0;
	return packed;
}

static const struct fsdp_flight_sizes *unpack_sizes(
	struct fsdp_span packed, struct fsdp_arena *arena, size_t *ret_count)
{
	struct fsdp_span rest = begin_list(packed, ret_count);
	struct fsdp_flight_sizes *sizes = FSDP_TAKE(arena, sizes, *ret_count);
	for (size_t i = 0; sizes != NULL && i < *ret_count; i++) {
		size_t count = (size_t)take_number(&rest);
		int64_t *dims = FSDP_TAKE(arena, dims, count);
		if (dims == NULL)
			return NULL;
		for (size_t j = 0; j < count; j++)
			dims[j] = take_number(&rest);
		sizes[i] = (struct fsdp_flight_sizes){ dims, count };
	}
	return sizes;
}

static const struct fsdp_span *unpack_texts(
	struct fsdp_span packed, struct fsdp_arena *arena, size_t *ret_count)
{
	struct fsdp_span rest = begin_list(packed, ret_count);
	struct fsdp_span *texts = FSDP_TAKE(arena, texts, *ret_count);
	for (size_t i = 0; texts != NULL && i < *ret_count; i++) {
		size_t size = (size_t)take_number(&rest);
		texts[i] = fsdp_span(rest.data, size);
		rest = fsdp_span(rest.data + size, rest.size - size);
	}
	return texts;
}

bool fsdp_flight_unpack(const struct fsdp_flight_called *called, struct fsdp_arena *arena,
	struct fsdp_flight_call *ret_call)
{
	const struct fsdp_flight_lists *in = &called->input, *out = &called->output;
	struct fsdp_flight_call call = { .op = fsdp_flight_op(called->name) };
	call.input_sizes = unpack_sizes(in->sizes, arena, &call.input_size_count);
	call.output_sizes = unpack_sizes(out->sizes, arena, &call.output_size_count);
	call.input_dtypes = unpack_texts(in->dtypes, arena, &call.input_dtype_count);
	call.output_dtypes = unpack_texts(out->dtypes, arena, &call.output_dtype_count);
	*ret_call = call;
	return call.input_sizes != NULL && call.output_sizes != NULL &&
	       call.input_dtypes != NULL && call.output_dtypes != NULL;
}

/* ---- names ---- */

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
	if (type != FSDP_TIME_OTHER && type != FSDP_TIME_SEND_RECV)
		return fsdp_time_type_name(type);
	unsigned char *lower = fsdp_arena_take(arena, op.size + 1, 1);
	for (size_t i = 0; lower != NULL && i < op.size; i++)
		lower[i] = op.data[i] >= 'A' && op.data[i] <= 'Z' ? op.data[i] | 0x20
								  : op.data[i];
	return fsdp_span(lower, lower != NULL ? op.size : 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the files that training programs load with the tensors of a checkpoint, and
 * searches all other files of the tree for pickles (opening.h).
 *
 * Origin: transformers/trainer.py (5.23), accelerate/checkpointing.py (1.15), the remote
 * code of transformers/dynamic_module_utils.py.
 */
#include <limits.h>
#include <stdlib.h>

#include "base/characters.h"
#include "base/num.h"
#include "checkpoint/opening.h"
#include "syntax/json-tree.h"
#include "syntax/pickle.h"

enum {
	JSON_MOST = 16 << 20, /* of a larger one only the end is looked at */
	TAIL = 64,
	NAMED_MOST = 8,     /* of files that were not judged */
	COUNTED_MOST = 256, /* files that are looked at to count pickles */
	LISTED_MOST = 1024, /* entries of a directory, there */
	TAR_MOST = 1000,    /* members of a tar that are looked at */
	TAR_HEADER = 512,   /* before each */
};

enum content { PICKLES, RANKED, JSON };

static const struct side_file {
	const char *pattern;
	enum content content;
	/* For a file that cannot be read: the trainer of transformers opens it if it
	 * exists, and else continues without its content. */
	const char *without;
} side_files[] = {
	{ "optimizer.pt", PICKLES },
	{ "optimizer.bin", PICKLES },
	{ "optimizer_#.bin", PICKLES },
	{ "scheduler.pt", PICKLES,
		"copy this file again, or delete it: the trainer then begins with a new schedule and new states of the optimizer" },
	{ "scheduler.bin", PICKLES },
	{ "scheduler_#.bin", PICKLES },
	{ "scaler.pt", PICKLES,
		"copy this file again, or delete it: the trainer then begins with a new loss scale" },
	{ "rng_state.pth", PICKLES,
		"copy this file again, or delete it: the trainer then draws other random numbers" },
	{ "rng_state_#.pth", RANKED,
		"copy this file again, or delete it: the trainer then draws other random numbers" },
	{ "random_states_#.pkl", RANKED },
	{ "training_args.bin", PICKLES },
	{ "custom_checkpoint_#.pkl", PICKLES },
	{ "sampler.bin", PICKLES },
	{ "sampler_#.bin", PICKLES },
	{ "dl_state_dict.bin", PICKLES },
	{ "dl_state_dict_#.bin", PICKLES },
	{ "composer_states.pt", PICKLES },
	{ "meta.pt", PICKLES },
	{ "common.pt", PICKLES },
	{ "data.pt", PICKLES },
	{ "config.json", JSON },
	{ "generation_config.json", JSON },
	{ "adapter_config.json", JSON },
	{ "trainer_state.json", JSON },
	{ "tokenizer.json", JSON },
	{ "tokenizer_config.json", JSON },
	{ "added_tokens.json", JSON },
	{ "special_tokens_map.json", JSON },
	{ "preprocessor_config.json", JSON },
	{ "processor_config.json", JSON },
	{ "video_preprocessor_config.json", JSON },
	{ "quantize_config.json", JSON },
	{ "model_index.json", JSON },
	{ "fsdp_config.json", JSON },
	{ "metadata.json", JSON },
};

struct sidecars {
	struct opening *opening;
	const struct fsdp_folder *folder;
	struct fsdp_findings *findings; /* of the checkpoint */
	struct fsdp_arena arena;        /* emptied after each file */
	struct fsdp_span *read;         /* paths of the files that were read, sorted */
	size_t read_count;
	struct fsdp_ranks_here here; /* with states of random generators */
	/* A file that nothing names is looked at: only what its pickles would do counts.
	 */
	bool is_stray;
	bool is_data;        /* by its name one of a distributed checkpoint */
	bool has_listed;     /* the files that programs load were looked at */
	uint64_t fault;      /* where a text stops being a pickle */
	uint64_t files_left; /* of the limits for such files and bytes */
	uint64_t bytes_left;
	uint64_t unjudged;         /* files that were not judged */
	uint64_t unseen;           /* remote ones whose names are not of pickles */
	struct fsdp_limits limits; /* of the look at what nothing names */
	bool counts;               /* pickles are not read but counted: */
	uint64_t pickles;
	struct fsdp_span *targets; /* of links among those that were read, sorted */
	size_t target_count;
};

/* ---- which files ---- */

static int by_bytes(const void *a, const void *b)
{
	const struct fsdp_span *first = a, *second = b;
	return fsdp_span_compare(*first, *second);
}

static bool list_read(struct sidecars *sidecars, struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = &sidecars->opening->checkpoint->model;
	struct fsdp_arena *scratch = &sidecars->opening->scratch;
	sidecars->read = FSDP_TAKE(scratch, sidecars->read, model->files.count + 1);
	if (sidecars->read == NULL)
		return fsdp_arena_fail(scratch, ret_error);
	for (uint32_t i = 0; i < model->files.count; i++)
		sidecars->read[sidecars->read_count++] = fsdp_model_file(model, i)->path;
	qsort(sidecars->read, sidecars->read_count, sizeof *sidecars->read, by_bytes);
	return true;
}

static bool is_among(const struct fsdp_span *sorted, size_t count, struct fsdp_span name)
{
	return count != 0 && bsearch(&name, sorted, count, sizeof name, by_bytes) != NULL;
}

static bool was_read(const struct sidecars *sidecars, struct fsdp_span name)
{
	return is_among(sidecars->read, sidecars->read_count, name);
}

static const struct side_file *find_side_file(
	struct fsdp_span name, uint32_t *ret_numbers)
{
	for (size_t i = 0; i < FSDP_COUNT(side_files); i++)
		if (fsdp_pattern_takes(name, side_files[i].pattern, ret_numbers))
			return &side_files[i];
	return NULL;
}

bool fsdp_checkpoint_loads_beside(struct fsdp_span name)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	const struct side_file *file = find_side_file(name, numbers);
	return file != NULL && file->content != JSON;
}

/* ---- what is noticed ---- */

static enum fsdp_rule_index index_of(const struct fsdp_rule *rule)
{
	return (enum fsdp_rule_index)(rule - fsdp_rule(0));
}

/* The first ones are named, the others counted. */
static void report_unjudged(
	struct sidecars *sidecars, struct fsdp_span name, const char *why)
{
	if (sidecars->unjudged++ < NAMED_MOST && !sidecars->counts)
		fsdp_find(sidecars->findings, FSDP_RULE_NOT_EVALUATED,
			FSDP_PLACE(.file = name, .severity = FSDP_WARNING + 1,
				.fix = "read or remove it before you trust this directory"),
			"skipped its pickles: %s", why);
}

/* Takes the error: a failed read is not a finding on the file. */
static void report_error(
	struct sidecars *sidecars, struct fsdp_span name, struct fsdp_error *error)
{
	enum fsdp_error_code code = fsdp_error_code(error);
	const char *id = fsdp_error_rule(error);
	const struct fsdp_rule *rule = id != NULL ? fsdp_rule_find(id) : NULL;
	bool checked = code == FSDP_ERROR_DAMAGED || code == FSDP_ERROR_NOT_A_CHECKPOINT;
	if (sidecars->is_stray) {
		if (!checked)
			report_unjudged(sidecars, name, fsdp_error_message(error));
		fsdp_error_free(error);
		return;
	}
	fsdp_find(sidecars->findings,
		!checked       ? FSDP_RULE_NOT_EVALUATED
		: rule == NULL ? FSDP_RULE_TRUNCATED_FILE
			       : index_of(rule),
		FSDP_PLACE(.file = name, .offset = fsdp_error_offset(error)), "%s",
		fsdp_error_message(error));
	fsdp_error_free(error);
}

/* How far a file was read that nothing names. */
enum whole { WHOLE, BROKEN, BROKEN_TEXT };

/* What a program runs that loads the file counts in such a file, up to where it breaks
 * off; what else no writer of pickles writes only in a whole one. What a text that is not
 * a pickle says counts if a global is named in it. */
static bool is_taken(const struct sidecars *sidecars, const struct fsdp_finding *finding,
	enum whole whole)
{
	enum fsdp_rule_index rule = index_of(finding->rule);
	if (!sidecars->is_stray || rule == FSDP_RULE_NOT_EVALUATED)
		return true;
	if (finding->severity == FSDP_NOTE ||
		strcmp(finding->rule->category, "safety") != 0)
		return false;
	if (whole == WHOLE && !sidecars->is_data)
		return true;
	if (whole == BROKEN_TEXT && finding->offset > sidecars->fault)
		return false;
	return rule == FSDP_RULE_PICKLE_GADGET || rule == FSDP_RULE_PICKLE_GLOBAL ||
	       rule == FSDP_RULE_PICKLE_CLASS || rule == FSDP_RULE_PICKLE_NESTED_LOADER ||
	       rule == FSDP_RULE_PICKLE_GETATTR ||
	       (whole != BROKEN_TEXT && rule >= FSDP_RULE_PICKLE_IN_VALUE &&
		       rule <= FSDP_RULE_PICKLE_PERSISTENT_ID);
}

/* The findings of a file that was read into a model of its own. */
static void move_findings(
	struct sidecars *sidecars, const struct fsdp_findings *from, enum whole whole)
{
	FSDP_ITEMS(const struct fsdp_finding, finding, &from->list) {
		if (!is_taken(sidecars, finding, whole))
			continue;
		fsdp_find(sidecars->findings, index_of(finding->rule),
			FSDP_PLACE(.file = finding->file, .member = finding->member,
				.tensor = finding->tensor, .offset = finding->offset,
				.length = finding->length,
				.fix = finding->fix.data != NULL
					       ? (const char *)finding->fix.data
					       : "",
				.severity = (int)finding->severity + 1),
			"%.*s", FSDP_TEXT_MOST(finding->message, 4096));
	}
	sidecars->findings->lost |= from->lost;
}

/* ---- pickles ---- */

static bool read_alone(struct sidecars *sidecars, const struct fsdp_look *look,
	const struct fsdp_family *family, struct fsdp_model *model,
	struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = sidecars->opening->checkpoint;
	struct fsdp_vec errors, notes;
	struct fsdp_reading reading = {
		.model = model,
		.scratch = &sidecars->arena,
		.limits = &checkpoint->limits,
		.rank = FSDP_NONE,
		.errors = &errors,
		.notes = &notes,
	};
	fsdp_vec_init(&errors, &sidecars->arena, sizeof(struct fsdp_error *));
	fsdp_vec_init(&notes, &sidecars->arena, sizeof(const char *));
	fsdp_vec_init(&reading.children, &sidecars->arena, sizeof(struct fsdp_child));
	bool read = fsdp_family_read(&reading, family, look, ret_error);
	for (size_t i = 0; i < errors.count; i++)
		report_error(sidecars, look->path,
			*(struct fsdp_error **)fsdp_vec_at(&errors, i));
	return read;
}

static void check_pickles(struct sidecars *sidecars, struct fsdp_span name,
	const struct fsdp_source *source, struct fsdp_error **error)
{
	struct fsdp_checkpoint *checkpoint = sidecars->opening->checkpoint;
	unsigned char head[FSDP_HEAD_BYTES];
	struct fsdp_look look;
	struct fsdp_model *model = FSDP_TAKE(&sidecars->arena, model, 1);
	if (model == NULL) {
		fsdp_arena_fail(&sidecars->arena, error);
		return;
	}
	if (!fsdp_look_at_head(source, name, head, &look, error) ||
		!fsdp_build_init(model, &sidecars->arena, &checkpoint->limits, error))
		return;
	const struct fsdp_family *family = fsdp_registry_choose(&look);
	const char *other = fsdp_foreign_placeholder(look.head, &sidecars->arena);
	if (family != NULL && family->has_pickles) {
		(void)read_alone(sidecars, &look, family, model, error);
		move_findings(sidecars, &model->findings, WHOLE);
	} else if (other != NULL) {
		fsdp_find(sidecars->findings, FSDP_RULE_NOT_A_CHECKPOINT,
			FSDP_PLACE(.file = name,
				.fix = fsdp_foreign_placeholder_fix(look.head)),
			"this is %s", other);
	} else {
		fsdp_find(sidecars->findings, FSDP_RULE_TRUNCATED_FILE,
			FSDP_PLACE(.file = name),
			"this is not a torch.save file: its %llu bytes have no known signature",
			FSDP_LLU(source->size));
	}
}

/* ---- configurations ---- */

static const char *what_runs(const struct fsdp_json *member)
{
	if (member->key.data == NULL)
		return NULL;
	if (fsdp_span_is(member->key, "auto_map") && member->count != 0)
		return "code that comes with the checkpoint runs if it is loaded with trust_remote_code=True";
	if (fsdp_span_is(member->key, "trust_remote_code") &&
		member->kind == FSDP_JSON_BOOL && member->integer != 0)
		return "it requests to run code from the checkpoint";
	if (fsdp_span_is(member->key, "_target_") && member->kind == FSDP_JSON_TEXT)
		return "programs that instantiate configurations call the named function";
	return NULL;
}

static void report_code(
	struct sidecars *sidecars, struct fsdp_span name, const struct fsdp_json *member)
{
	char key[FSDP_SHOWN], text[FSDP_SHOWN] = "";
	/* The first text in it: "modeling_custom.CustomModel". */
	const struct fsdp_json *value = member;
	while ((value->kind == FSDP_JSON_OBJECT || value->kind == FSDP_JSON_ARRAY) &&
		value->count != 0)
		value = &value->items[0];
	struct fsdp_span first =
		value->kind == FSDP_JSON_TEXT ? value->text : (struct fsdp_span){ 0 };
	if (first.data != NULL)
		fsdp_shown(first, text);
	fsdp_find(sidecars->findings, FSDP_RULE_REMOTE_CODE, FSDP_PLACE(.file = name),
		"%s%s%s: %s", fsdp_shown(member->key, key), *text != '\0' ? " " : "",
		text, what_runs(member));
}

/* Every value below the root. Nothing is deeper than json-depth allows, but that may be
 * raised: what is still to be looked at is kept in an array. */
static bool check_values(
	struct sidecars *sidecars, struct fsdp_span name, const struct fsdp_json *root)
{
	struct fsdp_vec todo;
	fsdp_vec_init(&todo, &sidecars->arena, sizeof root);
	if (!fsdp_vec_add(&todo, &root))
		return false;
	FSDP_EACH(at, todo.count, value,
		*(const struct fsdp_json *const *)fsdp_vec_at(&todo, at)) {
		if (what_runs(value) != NULL) {
			report_code(sidecars, name, value);
			continue;
		}
		if (value->kind != FSDP_JSON_OBJECT && value->kind != FSDP_JSON_ARRAY)
			continue;
		FSDP_EACH(i, value->count, item, &value->items[i]) {
			bool holds = item->kind == FSDP_JSON_OBJECT ||
				     item->kind == FSDP_JSON_ARRAY;
			if ((holds || what_runs(item) != NULL) &&
				!fsdp_vec_add(&todo, &item))
				return false;
		}
	}
	return true;
}

/* ---- tokens ---- */

struct token {
	uint64_t number;
	struct fsdp_span text; /* data NULL: none yet */
};

static void add_token(struct token *last, uint64_t number, struct fsdp_span text)
{
	if (text.data != NULL && (last->text.data == NULL || number > last->number))
		*last = (struct token){ number, text };
}

/* The last one of tokenizer.json, of tokenizer_config.json, or of added_tokens.json.
 * False: memory ended. */
static bool read_tokens(
	struct sidecars *sidecars, struct fsdp_span name, const struct fsdp_json *root)
{
	struct fsdp_checkpoint *checkpoint = sidecars->opening->checkpoint;
	const struct fsdp_json *added = fsdp_json_get(root, "added_tokens"),
			       *decoder = fsdp_json_get(root, "added_tokens_decoder"),
			       *vocab = fsdp_json_get(
				       fsdp_json_get(root, "model"), "vocab");
	struct token last = { checkpoint->last_token.number, { 0 } };
	char shown[FSDP_SHOWN];
	int64_t id;
	if (fsdp_span_is(name, "added_tokens.json"))
		vocab = root;
	for (uint32_t i = 0; i < fsdp_json_items(added); i++)
		if (fsdp_json_get_integer(&added->items[i], "id", 0, INT64_MAX, &id))
			add_token(&last, (uint64_t)id,
				fsdp_json_get_text(&added->items[i], "content"));
	for (uint32_t i = 0;
		fsdp_json_is(decoder, FSDP_JSON_OBJECT) && i < decoder->count; i++) {
		if (fsdp_decimal_integer(decoder->items[i].key, &id) && id >= 0)
			add_token(&last, (uint64_t)id,
				fsdp_json_get_text(&decoder->items[i], "content"));
	}
	for (uint32_t i = 0; fsdp_json_is(vocab, FSDP_JSON_OBJECT) && i < vocab->count;
		i++)
		if (vocab->items[i].kind == FSDP_JSON_INTEGER &&
			vocab->items[i].integer >= 0)
			add_token(&last, (uint64_t)vocab->items[i].integer,
				vocab->items[i].key);
	if (last.text.data == NULL ||
		(checkpoint->last_token.token != NULL &&
			last.number <= checkpoint->last_token.number))
		return true;
	checkpoint->last_token.number = last.number;
	checkpoint->last_token.file =
		(const char *)fsdp_arena_copy(&checkpoint->arena, name).data;
	checkpoint->last_token.token = (const char *)fsdp_arena_copy(
		&checkpoint->arena, fsdp_span_text(fsdp_shown(last.text, shown)))
					       .data;
	return checkpoint->last_token.file != NULL &&
	       checkpoint->last_token.token != NULL;
}

/* `head`: how the file starts; a pointer or a page has a cause of its own. */
static void report_no_json(struct sidecars *sidecars, struct fsdp_span name,
	struct fsdp_span head, const char *why)
{
	const char *other = fsdp_foreign_placeholder(head, &sidecars->arena);
	/* Whether a reader of the directory already reported that it is not one. */
	FSDP_ITEMS(const struct fsdp_finding, finding, &sidecars->findings->list)
		if (finding->severity != FSDP_NOTE &&
			fsdp_span_equal(finding->file, name))
			return;
	if (other != NULL)
		fsdp_find(sidecars->findings, FSDP_RULE_NOT_A_CHECKPOINT,
			FSDP_PLACE(.file = name,
				.fix = fsdp_foreign_placeholder_fix(head)),
			"this is %s", other);
	else
		fsdp_find(sidecars->findings, FSDP_RULE_TRUNCATED_FILE,
			FSDP_PLACE(.file = name),
			"this is not a complete JSON document: %s", why);
}

static void check_json(struct sidecars *sidecars, struct fsdp_span name,
	const struct fsdp_source *source, struct fsdp_error **error)
{
	struct fsdp_checkpoint *checkpoint = sidecars->opening->checkpoint;
	const struct fsdp_json *root = NULL;
	struct fsdp_span bytes;
	if (source->size > JSON_MOST) {
		/* Of a large one. */
		struct fsdp_span tail;
		if (fsdp_source_read_all(source, source->size - TAIL, TAIL,
			    &sidecars->arena, &tail, error)) {
			while (tail.size != 0 && tail.data[tail.size - 1] <= ' ')
				tail.size--;
			if (tail.size == 0 || (tail.data[tail.size - 1] != '}' &&
						      tail.data[tail.size - 1] != ']'))
				report_no_json(sidecars, name, (struct fsdp_span){ 0 },
					"it does not end with a bracket");
		}
		return;
	}
	if (!fsdp_source_read_all(
		    source, 0, source->size, &sidecars->arena, &bytes, error))
		return;
	if (fsdp_json_read_of_python(
		    bytes, &checkpoint->limits, &sidecars->arena, &root, error)) {
		if (!check_values(sidecars, name, root) ||
			!read_tokens(sidecars, name, root))
			fsdp_arena_fail(&sidecars->arena, error);
		return;
	}
	if (fsdp_error_code(*error) == FSDP_ERROR_MEMORY)
		fsdp_arena_fail(&sidecars->arena, error);
	if (fsdp_error_code(*error) == FSDP_ERROR_MEMORY ||
		fsdp_error_code(*error) == FSDP_ERROR_LIMIT)
		return;
	report_no_json(sidecars, name, bytes, fsdp_error_message(*error));
	fsdp_error_free(*error);
	*error = NULL;
}

/* ---- pickles that nothing names ---- */

/* Family that reads the pickles of a file, under any name; NULL: no pickles. For
 * an array of NumPy: that of the pickle in it. */
static const struct fsdp_family *find_pickles(struct fsdp_look *look)
{
	const struct fsdp_family *family = fsdp_registry_choose(look);
	uint64_t at = fsdp_numpy_pickle(look->head);
	if (family != NULL && family->has_pickles)
		return family;
	if (at != 0 && fsdp_source_slice(&look->source, at, look->source.size - at,
			       &look->source, NULL))
		return fsdp_registry_find("pickle");
	return fsdp_pickle_may_begin(look) ? fsdp_registry_find("pickle") : NULL;
}

/* Files that are read in full count against the limit. */
static bool count_bytes(
	struct sidecars *sidecars, uint64_t bytes, struct fsdp_error **ret_error)
{
	if (bytes > sidecars->bytes_left)
		return fsdp_fail_limit(ret_error, FSDP_LIMIT_BESIDE_BYTES,
			fsdp_limit(&sidecars->opening->checkpoint->limits,
				FSDP_LIMIT_BESIDE_BYTES));
	sidecars->bytes_left -= bytes;
	return true;
}

static void check_with(struct sidecars *sidecars, const struct fsdp_look *look,
	const struct fsdp_family *family, struct fsdp_error **error)
{
	struct fsdp_checkpoint *checkpoint = sidecars->opening->checkpoint;
	struct fsdp_model *model = FSDP_TAKE(&sidecars->arena, model, 1);
	bool is_bare = strcmp(family->name, "pickle") == 0;
	sidecars->pickles++;
	if (sidecars->counts)
		return;
	if (model == NULL) {
		fsdp_arena_fail(&sidecars->arena, error);
		return;
	}
	if (!fsdp_build_init(model, &sidecars->arena, &checkpoint->limits, error) ||
		(is_bare && !count_bytes(sidecars, look->source.size, error)))
		return;
	bool whole = read_alone(sidecars, look, family, model, error);
	sidecars->fault =
		whole || *error == NULL ? FSDP_UNKNOWN : fsdp_error_offset(*error);
	move_findings(sidecars, &model->findings,
		whole                                            ? WHOLE
		: is_bare && look->head.data[0] != FSDP_OP_PROTO ? BROKEN_TEXT
								 : BROKEN);
	if (whole)
		return;
	/* A truncated pickle was checked up to its end, and no program continues there.
	 * The content of an archive is unknown without its directory. */
	enum fsdp_error_code code = fsdp_error_code(*error);
	bool is_archive =
		look->folder != NULL || fsdp_span_begins(look->head, FSDP_SPAN("PK"));
	if (code == FSDP_ERROR_UNSUPPORTED || code == FSDP_ERROR_NOT_A_CHECKPOINT ||
		(code == FSDP_ERROR_DAMAGED && (!is_archive || sidecars->is_data)))
		fsdp_error_cleanup(error);
}

/* A stream out of a compressed file. */
struct unpacking {
	struct fsdp_source_rest rest;
	struct fsdp_gunzip *gunzip;
	struct fsdp_unpack *unpack;
};

static bool read_stream(struct unpacking *stream, void *buffer, size_t room,
	size_t *ret_size, struct fsdp_error **ret_error)
{
	return stream->gunzip != NULL ? fsdp_gunzip_refill(stream->gunzip, buffer, room,
						ret_size, ret_error)
				      : fsdp_unpack_refill(stream->unpack, buffer, room,
						ret_size, ret_error);
}

/* All of what is compressed if it begins with pickles; *ret_source stays empty if not. */
static bool unpack(struct sidecars *sidecars, struct unpacking *stream,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error)
{
	struct fsdp_budget *budget = sidecars->arena.budget;
	unsigned char head[FSDP_HEAD_BYTES];
	size_t size = 0, count = 1;
	struct fsdp_pager pager;
	for (; size < sizeof head && count != 0; size += count)
		if (!read_stream(
			    stream, head + size, sizeof head - size, &count, ret_error))
			return false;
	struct fsdp_look look = {
		.head = fsdp_span(head, size),
		.source = fsdp_source_memory(fsdp_span(head, size)),
	};
	if (size == sizeof head) /* more may follow */
		look.source.size = INT64_MAX;
	const char *packed = fsdp_archive_kind(look.head);
	if (packed == NULL && !fsdp_span_begins(look.head, FSDP_SPAN("PK\003\004")) &&
		fsdp_numpy_pickle(look.head) == 0 && !fsdp_pickle_may_begin(&look))
		return true;
	sidecars->pickles += sidecars->counts;
	if (sidecars->counts)
		return true;
	if (packed != NULL)
		return fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			"it is compressed, and in it is a %s", packed);
	if (!fsdp_pager_init(&pager, &sidecars->arena, ret_error) ||
		!fsdp_pager_add(&pager, head, size, ret_error))
		return false;
	for (count = size; count != 0;) {
		if (!count_bytes(sidecars, count, ret_error) ||
			!fsdp_budget_unpack(budget, count, ret_error))
			return false;
		size_t room;
		unsigned char *to = fsdp_pager_room(&pager, &room);
		if (!read_stream(stream, to, room, &count, ret_error) ||
			!fsdp_pager_filled(&pager, count, ret_error))
			return false;
	}
	return fsdp_pager_take(&pager, ret_source, ret_error);
}

/* Compressed files are checked at one level only. */
static bool check_compressed(struct sidecars *sidecars, const struct fsdp_look *look,
	struct fsdp_error **error)
{
	struct unpacking stream = { .rest = { look->source, 0, look->source.size } };
	struct fsdp_source source = { .fd = -1 };
	unsigned char head[FSDP_HEAD_BYTES];
	struct fsdp_look within;
	bool is_zlib = fsdp_gunzip_is(look->head) || fsdp_gunzip_is_zlib(look->head);
	bool good =
		is_zlib ? fsdp_gunzip_new(
				  fsdp_source_refill, &stream.rest, &stream.gunzip, error)
			: fsdp_unpack_new(look->head, fsdp_source_refill, &stream.rest,
				  sidecars->arena.budget, &stream.unpack, error);
	good = good && unpack(sidecars, &stream, &source, error);
	fsdp_gunzip_free(stream.gunzip);
	fsdp_unpack_free(stream.unpack);
	if (!good || source.size == 0)
		return good;
	if (!fsdp_look_at_head(&source, look->path, head, &within, error))
		return false;
	const struct fsdp_family *family = find_pickles(&within);
	if (family != NULL)
		check_with(sidecars, &within, family, error);
	return *error == NULL;
}

/* Whether a member of a tar is a pickle, or may be one: it is compressed, or a zip. */
static bool file_has_pickles(const struct fsdp_look *tar, struct fsdp_error **error)
{
	uint64_t at = 0, left = tar->source.size;
	for (size_t i = 0; i < TAR_MOST && left > TAR_HEADER; i++) {
		unsigned char head[TAR_HEADER + FSDP_HEAD_BYTES];
		size_t room = (size_t)fsdp_min(left, sizeof head);
		if (!fsdp_source_read(&tar->source, at, head, room, error) ||
			!fsdp_archive_is_tar(fsdp_span(head, room)))
			return false;
		enum { AT = 124, DIGITS = 12 };
		uint64_t stated = 0;
		for (size_t k = AT; k < AT + DIGITS; k++)
			if (head[AT] & 0x80) /* a number and no text */
				stated = stated << 8 | (k == AT ? 0 : head[k]);
			else if (head[k] >= '0' && head[k] <= '7')
				stated = stated << 3 | (uint64_t)(head[k] - '0');
		uint64_t size = fsdp_min(stated, left - TAR_HEADER);
		room = (size_t)fsdp_min(size, room - TAR_HEADER);
		struct fsdp_look look = { .head = fsdp_span(head + TAR_HEADER, room) };
		if (size != 0 && (!fsdp_source_slice(&tar->source, at + TAR_HEADER, size,
					  &look.source, error) ||
					 find_pickles(&look) != NULL ||
					 fsdp_archive_kind(look.head) != NULL))
			return *error == NULL;
		size = TAR_HEADER + (size + TAR_HEADER - 1) / TAR_HEADER * TAR_HEADER;
		at += fsdp_min(size, left);
		left -= fsdp_min(size, left);
	}
	return false;
}

/* The form of torch 0.1 is read; another is named as one that was not. */
static bool check_tar(struct sidecars *sidecars, const struct fsdp_look *look,
	struct fsdp_error **error)
{
	struct fsdp_checkpoint *checkpoint = sidecars->opening->checkpoint;
	struct fsdp_findings unused;
	struct fsdp_vec packed;
	struct fsdp_folder folder;
	if (!file_has_pickles(look, error))
		return *error == NULL;
	sidecars->pickles += sidecars->counts;
	if (sidecars->counts)
		return true;
	fsdp_findings_init(&unused, &sidecars->arena, &checkpoint->limits);
	if (!count_bytes(sidecars, look->source.size, error) ||
		!fsdp_archive_unpack(&look->source, &sidecars->arena, &checkpoint->limits,
			look->path, &unused, &packed, error) ||
		!fsdp_folder_of_packed(&folder, &packed, &sidecars->arena, error))
		return false;
	struct fsdp_look within = {
		.path = look->path,
		.folder = &folder,
		.source = look->source,
		.tar = look->path,
	};
	const struct fsdp_family *family = fsdp_registry_find("torch-tar");
	if (family == NULL || family->recognize(&within) != FSDP_SIGN_SURE)
		return fsdp_fail(error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			"it is a tar, and there are pickles or compressed files in it");
	check_with(sidecars, &within, family, error);
	return *error == NULL;
}

static bool check_stray(struct sidecars *sidecars, struct fsdp_span path,
	const struct fsdp_source *source, struct fsdp_error **error)
{
	unsigned char head[FSDP_HEAD_BYTES];
	struct fsdp_look look;
	if (!fsdp_look_at_head(source, path, head, &look, error))
		return false;
	/* What looks for a sign gives no error if it cannot read. */
	bool failed = false;
	look.source.failed = &failed;
	const struct fsdp_family *family = find_pickles(&look);
	look.source.failed = NULL;
	if (failed)
		return fsdp_fail(error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN, "cannot read");
	if (family != NULL)
		check_with(sidecars, &look, family, error);
	else if (fsdp_archive_is_compressed(look.head) || fsdp_gunzip_is_zlib(look.head))
		return check_compressed(sidecars, &look, error);
	else if (fsdp_archive_is_tar(look.head))
		return check_tar(sidecars, &look, error);
	return *error == NULL;
}

/* The files around, relative to the directory of the checkpoint. */
struct around {
	const struct fsdp_folder *root;
	struct fsdp_span
		where; /* of that directory in it, with a slash; empty: the root */
	bool is_apart; /* only this file of it was read */
	struct fsdp_span only;
};

/* NULL data: out of memory. */
static struct fsdp_span name_from(
	struct sidecars *sidecars, const struct around *around, struct fsdp_span path)
{
	static const char UP[] = "../";
	const size_t step = sizeof UP - 1;
	struct fsdp_span where = around->where;
	size_t up = 0;
	if (fsdp_span_begins(path, where))
		return fsdp_span(path.data + where.size, path.size - where.size);
	for (size_t i = 0; i < where.size; i++)
		up += where.data[i] == '/';
	char *name = fsdp_arena_take(&sidecars->arena, up * step + path.size + 1, 1);
	if (name == NULL)
		return (struct fsdp_span){ 0 };
	for (size_t i = 0; i < up; i++)
		memcpy(name + i * step, UP, step);
	memcpy(name + up * step, path.data, path.size);
	return fsdp_span(name, up * step + path.size);
}

/* Files that were read are known, as well as files that programs load, and targets of
 * links that were read. */
static bool is_known(const struct sidecars *sidecars, const struct around *around,
	struct fsdp_span name)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	if (around->is_apart)
		return fsdp_span_equal(name, around->only);
	const struct side_file *file = find_side_file(name, numbers);
	const struct fsdp_checkpoint *checkpoint = sidecars->opening->checkpoint;
	if (checkpoint->plan_found &&
		fsdp_span_equal(
			name, fsdp_span_last(fsdp_span_text(checkpoint->plan_path), '/')))
		return true;
	return was_read(sidecars, name) ||
	       (sidecars->has_listed && file != NULL && file->content != JSON) ||
	       is_among(sidecars->targets, sidecars->target_count, name);
}

/* Takes the error. False: memory ended. */
static bool pass_over(struct sidecars *sidecars, struct fsdp_span name, bool opened,
	struct fsdp_error *error, struct fsdp_error **ret_error)
{
	enum fsdp_error_code code = fsdp_error_code(error);
	if (code == FSDP_ERROR_MEMORY) {
		*ret_error = error;
		return false;
	}
	const char *rule = fsdp_error_rule(error);
	if (opened && (fsdp_error_is_unread(error) ||
			      (rule != NULL && strcmp(rule, "FI2004") == 0))) {
		if (fsdp_vec_add(&sidecars->opening->checkpoint->errors, &error))
			return true;
		fsdp_error_free(error);
		return fsdp_fail_memory(ret_error);
	}
	report_unjudged(sidecars, name, fsdp_error_message(error));
	fsdp_error_free(error);
	return true;
}

/* False: memory ended. */
static bool look_at_item(struct sidecars *sidecars, const struct around *around,
	struct fsdp_tree_item *item, struct fsdp_error **ret_error)
{
	struct fsdp_error *error = item->error;
	struct fsdp_source source;
	struct fsdp_span name = name_from(sidecars, around, item->path);
	bool opened = false;
	if (name.data == NULL) {
		fsdp_error_free(error);
		return fsdp_arena_fail(&sidecars->arena, ret_error);
	}
	if (error == NULL && is_known(sidecars, around, name))
		return true;
	sidecars->files_left--;
	if (error == NULL && item->entry.kind != FSDP_ENTRY_FILE)
		return true;
	/* Each look at a remote file is a request: others hold no pickles, by their
	 * names. */
	if (error == NULL && item->folder->dir != NULL &&
		item->folder->dir->remote != NULL && item->entry.size != 0) {
		static const char ends[] =
			".bin .ckpt .distcp .gz .json .npy .npz .pickle .pkl .pt .pth .safetensors .tar .tgz .toml .txt .yaml .zip .zst";
		if (memchr(item->entry.name.data, '.', item->entry.name.size) != NULL &&
			!fsdp_span_ends_any(item->entry.name, ends)) {
			sidecars->unseen++;
			return true;
		}
	}
	/* "__0_0.distcp.tmp" is one of an unfinished copy. */
	sidecars->is_data = fsdp_registry_is_data(name) ||
			    fsdp_span_find(name, FSDP_SPAN(".distcp.")) != NULL;
	if (sidecars->opening->checkpoint->has_dir)
		fsdp_checkpoint_keep_open(sidecars->opening->checkpoint);
	if (error == NULL &&
		fsdp_folder_source(item->folder, item->entry.name, &source, &error)) {
		opened = true;
		if (source.size != 0)
			(void)check_stray(sidecars, name, &source, &error);
	}
	return error == NULL || pass_over(sidecars, name, opened, error, ret_error);
}

static bool look_through_tree(struct sidecars *sidecars, const struct around *around,
	struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = sidecars->opening->checkpoint;
	struct fsdp_tree_item item;
	struct fsdp_tree *files;
	bool good = true;
	if (!fsdp_tree_new(around->root, &checkpoint->budget, &sidecars->limits, &files,
		    ret_error))
		return false;
	while (good && sidecars->files_left != 0 && fsdp_tree_next(files, &item)) {
		good = look_at_item(sidecars, around, &item, ret_error);
		fsdp_arena_reset(&sidecars->arena);
	}
	if (good && sidecars->files_left == 0 && fsdp_tree_next(files, &item)) {
		struct fsdp_error *error = NULL;
		fsdp_error_free(item.error);
		fsdp_fail_limit(&error, FSDP_LIMIT_BESIDE_FILES,
			fsdp_limit(&sidecars->limits, FSDP_LIMIT_BESIDE_FILES));
		good = pass_over(sidecars, name_from(sidecars, around, item.path), false,
			error, ret_error);
	}
	fsdp_tree_free(files);
	return good;
}

/* Position of a directory below another path of the user. */
static bool is_below(
	struct fsdp_span folder, struct fsdp_span root, struct fsdp_span *ret_where)
{
	if (!fsdp_span_begins(folder, root))
		return false;
	size_t at = root.size;
	if (at != 0 && root.data[at - 1] != '/' && at < folder.size &&
		folder.data[at] != '/')
		return false;
	while (at < folder.size && folder.data[at] == '/')
		at++;
	*ret_where = fsdp_span(folder.data + at, folder.size - at);
	return true;
}

/* Of links among the files that were read, so that the hub's cache is not read twice. */
static bool list_targets(struct sidecars *sidecars, struct fsdp_error **ret_error)
{
	const struct fsdp_folder *folder = sidecars->folder;
	struct fsdp_arena *scratch = &sidecars->opening->scratch;
	char text[PATH_MAX];
	sidecars->targets =
		FSDP_TAKE(scratch, sidecars->targets, sidecars->read_count + 1);
	if (sidecars->targets == NULL)
		return fsdp_arena_fail(scratch, ret_error);
	for (size_t i = 0; i < sidecars->read_count; i++) {
		struct fsdp_span *target = &sidecars->targets[sidecars->target_count];
		if (!fsdp_dir_link(folder->dir, sidecars->read[i], text, sizeof text))
			continue;
		*target = fsdp_arena_copy(scratch, fsdp_span_text(text));
		if (target->data == NULL)
			return fsdp_arena_fail(scratch, ret_error);
		sidecars->target_count++;
	}
	qsort(sidecars->targets, sidecars->target_count, sizeof *sidecars->targets,
		by_bytes);
	return true;
}

/* The directory that the user named, on the disk. */
static bool look_around(struct sidecars *sidecars, struct fsdp_error **ret_error)
{
	struct opening *opening = sidecars->opening;
	struct fsdp_span own = fsdp_span_text(
		opening->folder_path != NULL ? opening->folder_path : opening->path);
	const char *named = opening->options->within != NULL ? opening->options->within
							     : opening->paths[0];
	struct fsdp_folder folder;
	struct fsdp_arena arena;
	struct fsdp_dir dir;
	if (opening->folder_path == NULL)
		own.size -= fsdp_span_last(own, '/').size;
	struct around around = { .root = &folder };
	char where[PATH_MAX];
	bool packed = opening->checkpoint->is_folder && sidecars->folder->dir == NULL;
	if (!is_below(own, fsdp_span_text(named), &around.where))
		named = opening->folder_path;
	if (named == NULL || around.where.size + 1 >= sizeof where)
		return true;
	if (around.where.size != 0) {
		memcpy(where, around.where.data, around.where.size);
		where[around.where.size] = '/';
		around.where = fsdp_span(
			where, around.where.size + (where[around.where.size - 1] != '/'));
		if (sidecars->folder->dir != NULL && !list_targets(sidecars, ret_error))
			return false;
	}
	around.is_apart = packed;
	around.only = opening->entered.data != NULL
			      ? opening->entered
			      : fsdp_span_last(fsdp_span_text(opening->path), '/');
	fsdp_arena_init(&arena, &opening->checkpoint->budget);
	struct fsdp_error *error = NULL;
	bool good = fsdp_dir_open_names(opening->checkpoint->remote,
		named[0] != '\0' ? named : ".", &arena, &sidecars->limits, &dir, &error);
	if (good) {
		fsdp_folder_of_dir(&folder, &dir);
		good = look_through_tree(sidecars, &around, ret_error);
		fsdp_dir_close(&dir);
	} else {
		good = pass_over(
			sidecars, (struct fsdp_span){ 0 }, false, error, ret_error);
	}
	fsdp_arena_done(&arena);
	return good;
}

/* All members of an archive. */
static bool look_around_packed(struct sidecars *sidecars, struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = sidecars->opening->checkpoint;
	struct fsdp_folder folder;
	struct around around = { .root = &folder };
	if (!fsdp_folder_of_packed(
		    &folder, &checkpoint->packed, &sidecars->opening->scratch, ret_error))
		return false;
	if (sidecars->folder->below != 0 && sidecars->folder->strip > folder.strip) {
		const struct fsdp_packed *first =
			fsdp_vec_at(&checkpoint->packed, sidecars->folder->sorted[0]);
		around.where = fsdp_span(first->name.data + folder.strip,
			sidecars->folder->strip - folder.strip);
	}
	return look_through_tree(sidecars, &around, ret_error);
}

static bool look_at_strays(struct sidecars *sidecars, struct fsdp_error **ret_error)
{
	struct opening *opening = sidecars->opening;
	struct fsdp_limits *limits = &sidecars->limits;
	const char *family = opening->checkpoint->model.format.family;
	/* That of torch 0.1 is one file. */
	bool packed = opening->checkpoint->is_folder && sidecars->folder->dir == NULL &&
		      sidecars->folder->copies == NULL &&
		      (family == NULL || strcmp(family, "torch-tar") != 0);
	*limits = opening->checkpoint->limits;
	if (sidecars->counts) {
		limits->value[FSDP_LIMIT_BESIDE_FILES] = COUNTED_MOST;
		limits->value[FSDP_LIMIT_FILES] = LISTED_MOST;
	}
	sidecars->is_stray = true;
	sidecars->files_left = fsdp_limit(limits, FSDP_LIMIT_BESIDE_FILES);
	sidecars->bytes_left = fsdp_limit(limits, FSDP_LIMIT_BESIDE_BYTES);
	if (packed && !look_around_packed(sidecars, ret_error))
		return false;
	if ((opening->options->within != NULL ||
		    (opening->checkpoint->has_dir &&
			    fsdp_dir_is(
				    opening->checkpoint->remote, opening->paths[0]))) &&
		!look_around(sidecars, ret_error))
		return false;
	sidecars->is_stray = false;
	if (sidecars->unseen != 0 && !sidecars->counts)
		fsdp_reading_note(&opening->reading,
			"only the names of %llu files at the URL were checked",
			FSDP_LLU(sidecars->unseen));
	if (sidecars->unjudged > NAMED_MOST && !sidecars->counts)
		fsdp_find(sidecars->findings, FSDP_RULE_NOT_EVALUATED,
			FSDP_PLACE(.file = { 0 }, .severity = FSDP_WARNING + 1),
			"did not check the pickles of %llu more files next to and below it",
			FSDP_LLU(sidecars->unjudged - NAMED_MOST));
	return true;
}

/* ---- one file, all of them ---- */

static bool look_at(struct sidecars *sidecars, const struct fsdp_entry *entry,
	enum content content, struct fsdp_error **ret_error)
{
	struct fsdp_source source;
	struct fsdp_error *error = NULL;
	if (entry->size == 0) {
		fsdp_find(sidecars->findings, FSDP_RULE_EMPTY_FILE,
			FSDP_PLACE(.file = entry->name), "the file is empty");
		return true;
	}
	if (fsdp_folder_source(sidecars->folder, entry->name, &source, &error))
		(content == JSON ? check_json : check_pickles)(
			sidecars, entry->name, &source, &error);
	fsdp_arena_reset(&sidecars->arena);
	if (error == NULL)
		return true;
	if (fsdp_error_code(error) == FSDP_ERROR_MEMORY) {
		*ret_error = error;
		return false;
	}
	report_error(sidecars, entry->name, error);
	return true;
}

static bool add_rank(struct sidecars *sidecars, struct fsdp_span name, uint32_t rank)
{
	struct fsdp_ranks_here *here = &sidecars->here;
	if (here->list == NULL) {
		here->example = name;
		here->example_rank = rank;
		here->list = FSDP_TAKE(
			&sidecars->opening->scratch, here->list, sidecars->folder->count);
		if (here->list == NULL)
			return false;
	}
	here->list[here->count++] = rank;
	if (rank >= here->world_size)
		here->world_size = rank + 1;
	return true;
}

/* A fix other than another copy; NULL: none. Under DeepSpeed, which keeps the optimizer
 * in a directory, the trainer opens the schedule even if it is missing. */
static const char *cure_of(const struct sidecars *sidecars, struct fsdp_span name)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	const struct side_file *file = find_side_file(name, numbers);
	return file == NULL || (strncmp(file->pattern, "scheduler", 9) == 0 &&
				       !fsdp_folder_has(sidecars->folder, "optimizer.pt",
					       FSDP_ENTRY_FILE))
		       ? NULL
		       : file->without;
}

static void add_cures(struct sidecars *sidecars)
{
	struct fsdp_vec *errors = &sidecars->opening->checkpoint->errors;
	const char *cure;
	FSDP_ITEMS(struct fsdp_finding, finding, &sidecars->findings->list)
		if (finding->severity == FSDP_ERROR &&
			strcmp(finding->rule->category, "structure") == 0 &&
			(cure = cure_of(sidecars, finding->file)) != NULL)
			finding->fix = fsdp_span_text(cure);
	for (size_t i = 0; i < errors->count; i++) {
		struct fsdp_error **error = fsdp_vec_at(errors, i);
		const char *path = fsdp_error_path(*error);
		if (path != NULL && fsdp_error_code(*error) == FSDP_ERROR_DAMAGED &&
			(cure = cure_of(sidecars,
				 fsdp_span_last(fsdp_span_text(path), '/'))) != NULL)
			fsdp_error_put_hint(error, cure);
	}
}

bool fsdp_look_aside(struct opening *opening, const struct fsdp_folder *folder,
	struct fsdp_span name, struct fsdp_error **ret_error)
{
	struct sidecars sidecars = {
		.opening = opening,
		.folder = folder,
		.findings = &opening->checkpoint->model.findings,
	};
	struct fsdp_entry entry;
	if (!fsdp_folder_find(folder, name, &entry) || entry.kind != FSDP_ENTRY_FILE)
		return true;
	fsdp_arena_init(&sidecars.arena, &opening->checkpoint->budget);
	bool good = look_at(&sidecars, &entry,
		fsdp_span_ends(name, FSDP_SPAN(".json")) ? JSON : PICKLES, ret_error);
	fsdp_arena_done(&sidecars.arena);
	return good;
}

/* Training programs keep these files when they remove the weights. A part that could not
 * be read may have them. */
static void check_weights(struct sidecars *sidecars)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	if (sidecars->opening->checkpoint->errors.count != 0)
		return;
	for (size_t i = 0; i < sidecars->read_count; i++)
		if (find_side_file(sidecars->read[i], numbers) == NULL)
			return;
	if (sidecars->read_count != 0)
		fsdp_find(sidecars->findings, FSDP_RULE_MISSING_FILE,
			FSDP_PLACE(.file = { 0 },
				.fix = fsdp_folder_has(sidecars->folder,
					       "adapter_config.json", FSDP_ENTRY_FILE)
					       ? "copy adapter_model.safetensors from where the checkpoint was written"
					       : "copy the weights, for example model.safetensors, from where the checkpoint was written"),
			"weights are missing: the directory has only configuration and training state, for example %.*s",
			FSDP_TEXT_MOST(sidecars->read[0], 256));
}

/* Of two files the second is needed to load the first. */
static void check_companions(struct sidecars *sidecars)
{
	static const struct {
		const char *file, *needs;
	} pairs[] = {
		{ "adapter_model.safetensors", "adapter_config.json" },
		{ "adapter_model.bin", "adapter_config.json" },
		{ "generation_config.json", "config.json" },
	};
	for (size_t i = 0; i < FSDP_COUNT(pairs); i++)
		if (fsdp_folder_has(sidecars->folder, pairs[i].file, FSDP_ENTRY_FILE) &&
			!fsdp_folder_has(
				sidecars->folder, pairs[i].needs, FSDP_ENTRY_FILE))
			fsdp_find(sidecars->findings, FSDP_RULE_MISSING_FILE,
				FSDP_PLACE(.file = fsdp_span_text(pairs[i].needs),
					.severity = FSDP_WARNING + 1),
				"missing file: %s cannot be loaded without it",
				pairs[i].file);
}

bool fsdp_count_beside(struct opening *opening, struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	struct sidecars sidecars = {
		.opening = opening,
		.folder = &checkpoint->folder,
		.findings = &checkpoint->model.findings,
		.counts = true,
	};
	if (checkpoint->folder.picked != NULL)
		return true;
	fsdp_arena_init(&sidecars.arena, &checkpoint->budget);
	bool good =
		list_read(&sidecars, ret_error) && look_at_strays(&sidecars, ret_error);
	fsdp_arena_done(&sidecars.arena);
	checkpoint->unread_pickles = sidecars.pickles;
	checkpoint->unseen = sidecars.unjudged != 0;
	return good;
}

bool fsdp_look_beside(struct opening *opening, struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	struct sidecars sidecars = {
		.opening = opening,
		.folder = &checkpoint->folder,
		.findings = &checkpoint->model.findings,
	};
	uint32_t numbers[FSDP_PATTERN_NUMBERS] = { 0 };
	bool good = true;
	/* A file that was named alone is a checkpoint alone. */
	bool folder = checkpoint->is_folder || checkpoint->has_dir;
	bool apart = !folder || checkpoint->folder.picked != NULL;
	if (apart && opening->options->within == NULL)
		return true;
	sidecars.has_listed = !apart;
	sidecars.here.what = "file";
	if (!list_read(&sidecars, ret_error))
		return false;
	fsdp_arena_init(&sidecars.arena, &checkpoint->budget);
	for (size_t i = 0; !apart && i < checkpoint->folder.count && good; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(&checkpoint->folder, i);
		const struct side_file *file = find_side_file(entry.name, numbers);
		/* What a configuration has run no reader looks at. */
		if (entry.kind != FSDP_ENTRY_FILE || file == NULL ||
			(file->content != JSON && was_read(&sidecars, entry.name)))
			continue;
		good = file->content != RANKED ||
		       add_rank(&sidecars, entry.name, numbers[0]) ||
		       fsdp_arena_fail(&opening->scratch, ret_error);
		good = good &&
		       (fsdp_folder_is_listed(&checkpoint->folder, entry.name) ||
			       look_at(&sidecars, &entry, file->content, ret_error));
	}
	good = good && look_at_strays(&sidecars, ret_error);
	fsdp_arena_done(&sidecars.arena);
	if (!apart) {
		/* A number in the name is that of a rank: one rank alone writes none,
		 * except with Accelerate. */
		struct fsdp_ranks_here *here = &sidecars.here;
		uint32_t ranks = sidecars.opening->checkpoint->model.world_size;
		if (ranks != FSDP_NONE && ranks > here->world_size)
			here->world_size = ranks;
		if (here->world_size < 2 &&
			!fsdp_span_begins(here->example, FSDP_SPAN("random_states_")))
			here->world_size = 2;
		if (here->count != 0)
			fsdp_find_missing_ranks(sidecars.findings, here,
				FSDP_PLACE(.severity = FSDP_WARNING + 1));
		check_companions(&sidecars);
		check_weights(&sidecars);
		add_cures(&sidecars);
	}
	return good;
}

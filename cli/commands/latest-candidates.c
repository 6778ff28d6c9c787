/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks one candidate as audit does at the same level: it is good if no error was found
 * and all checks ran.
 */
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/latest-answer.h"
#include "shared/audit-run.h"
#include "shared/tensor-row.h"
#include "shared/stored-values.h"
#include "session/session.h"

/* ---- comparison with the other steps of the run ---- */

enum { SIBLINGS_MOST = 3, NAME_MOST = 256, TRIED_MOST = 4 };

/* Kinds of files, sorted; owned. */
struct kinds {
	char **names;
	size_t count;
	bool is_folder;
};

/* "model_rank#.pt". With a step only the number that is the step becomes #; *ret_found:
 * it is there. Without one, -1, all numbers do. */
static void generalise(const char *name, int64_t step, char *kind, bool *ret_found)
{
	size_t at = 0;

	*ret_found = false;
	while (*name != '\0' && at + 24 < NAME_MOST) {
		size_t digits = strspn(name, "0123456789");
		bool is_step =
			digits > 0 && digits < 19 &&
			(step < 0 || (!*ret_found && strtoll(name, NULL, 10) == step));

		if (is_step) {
			*ret_found = true;
			kind[at++] = '#';
			name += digits;
		} else {
			do
				kind[at++] = *name++;
			while (--digits != 0 && digits < 24 && at + 24 < NAME_MOST);
		}
	}
	kind[at] = '\0';
}

/* Written by a save, and not added to it afterwards. */
static bool is_saved(const char *name)
{
	static const char *const ends[] = { ".pt", ".pth", ".bin", ".pkl", ".ckpt",
		".json", ".yaml", ".yml", ".safetensors", ".distcp", ".metadata" };
	static const char *const later[] = { "eval", "result", "metric", "log", "pred",
		"sample", "score", "bench", "unfinished", "tmp" };
	size_t size = strlen(name);
	bool saved = false;

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		saved |= size >= strlen(ends[i]) &&
			 strcmp(name + size - strlen(ends[i]), ends[i]) == 0;
	for (size_t i = 0; i < sizeof later / sizeof *later; i++)
		saved &= strcasestr(name, later[i]) == NULL;
	return saved;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void kinds_done(struct kinds *kinds)
{
	for (size_t i = 0; i < kinds->count; i++)
		free(kinds->names[i]);
	free(kinds->names);
	*kinds = (struct kinds){ 0 };
}

static bool add_kind(struct kinds *kinds, const char *kind)
{
	char **names = reallocarray(kinds->names, kinds->count + 1, sizeof *names);

	if (names == NULL)
		return false;
	kinds->names = names;
	names[kinds->count] = strdup(kind);
	return names[kinds->count++] != NULL;
}

/* For a directory the kinds of its files; for a file those of the files of its directory
 * with the same step. An unreadable directory has none. False: out of memory. */
static bool kinds_list(const struct run_candidate *candidate, struct kinds *kinds)
{
	char folder[4096], kind[NAME_MOST];
	DIR *stream = candidate->is_lone ? NULL : opendir(candidate->path);
	bool is_folder = stream != NULL, found, good = true;
	size_t size = folder_size(candidate->path);
	const struct dirent *entry;

	*kinds = (struct kinds){ .is_folder = is_folder };
	if (size >= sizeof folder)
		size = 0;
	memcpy(folder, candidate->path, size);
	folder[size] = '\0';
	if (!is_folder)
		stream = opendir(size > 0 ? folder : ".");
	while (stream != NULL && good && (entry = readdir(stream)) != NULL) {
		if (!is_saved(entry->d_name))
			continue;
		generalise(entry->d_name, is_folder ? -1 : candidate->step_name.step,
			kind, &found);
		good = (!is_folder && !found) || add_kind(kinds, kind);
	}
	if (stream != NULL)
		closedir(stream);
	if (good && kinds->count > 1)
		qsort(kinds->names, kinds->count, sizeof *kinds->names, compare);
	return good;
}

static bool has_kind(const struct kinds *kinds, const char *kind)
{
	return kinds->count > 0 && bsearch(&kind, kinds->names, kinds->count,
					   sizeof *kinds->names, compare) != NULL;
}

/* Another step of the same run, with the same kind of name. */
static bool is_sibling(const struct run_candidate *a, const struct run_candidate *b)
{
	char of[2][NAME_MOST];
	size_t folder = folder_size(a->path);
	bool found;

	if (a->input != b->input || a->step_name.step == b->step_name.step ||
		b->step_name.step < 0 || folder != folder_size(b->path) ||
		memcmp(a->path, b->path, folder) != 0)
		return false;
	generalise(a->path + folder, a->step_name.step, of[0], &found);
	generalise(b->path + folder, b->step_name.step, of[1], &found);
	return strcmp(of[0], of[1]) == 0;
}

void set_bad(struct run_candidate *candidate, const char *format, ...)
{
	char why[2 * NAME_MOST];
	va_list arguments;

	candidate->result = "bad";
	va_start(arguments, format);
	vsnprintf(why, sizeof why, format, arguments);
	va_end(arguments);
	candidate->why = collected_text(&candidate->own, why).data;
}

/* Kinds that all others have. A directory that differs from only one other may have been
 * saved in another way. */
static bool check_kinds(struct latest *latest, struct run_candidate *candidate)
{
	struct kinds own, others[SIBLINGS_MOST];
	size_t count = 0;
	bool good = kinds_list(candidate, &own), is_lacking = false;
	const char *example = candidate->path;

	for (size_t i = 0; i < latest->count && good && count < SIBLINGS_MOST; i++) {
		const struct run_candidate *other = &latest->candidates[i];

		if ((other->result == NULL || is_good(other)) &&
			is_sibling(candidate, other)) {
			good = kinds_list(other, &others[count++]);
			example = other->path;
		}
	}
	for (size_t k = 0; good && count > own.is_folder && own.count > 0 &&
			   k < others[0].count && !is_lacking;
		k++) {
		const char *kind = others[0].names[k];

		is_lacking = !has_kind(&own, kind);
		for (size_t i = 1; i < count && is_lacking; i++)
			is_lacking = has_kind(&others[i], kind);
		if (is_lacking)
			set_bad(candidate,
				"%.200s is missing; %s of the run (%.200s) %s one [FI1003 uncommitted-save]",
				kind, count == 1 ? "the other step" : "the other steps",
				example + folder_size(example),
				count == 1 ? "has" : "have");
	}
	kinds_done(&own);
	for (size_t i = 0; i < count; i++)
		kinds_done(&others[i]);
	return good;
}

/* An adapter by itself, as is written for use, where older steps can be resumed from. */
static void check_adapter(struct latest *latest, struct run_candidate *candidate)
{
	size_t tried = 0;

	if (!candidate->is_adapter || candidate->optimizer != 0)
		return;
	for (size_t i = 0; i < latest->count && is_good(candidate); i++) {
		struct run_candidate *other = &latest->candidates[i];

		if (other == candidate || other->input != candidate->input ||
			other->step_name.step < 0)
			continue;
		if (other->result == NULL && tried++ < TRIED_MOST)
			candidate_check(other, latest->run, FSDP_LEVEL_QUICK);
		if (is_good(other) && other->optimizer > 0 &&
			other->optimizer != UINT64_MAX)
			set_bad(candidate,
				"it is an adapter without a state of the optimizer, and %.200s of the same run has one",
				other->path + folder_size(other->path));
	}
}

void siblings_check(struct latest *latest, struct run_candidate *candidate)
{
	if (!is_good(candidate) || candidate->step_name.step < 0)
		return;
	check_adapter(latest, candidate);
	if (is_good(candidate))
		run_must(latest->run, check_kinds(latest, candidate));
}

enum { WHY_MOST = 200 };
#define CUT(text) (int)((text).size < WHY_MOST ? (text).size : WHY_MOST)

/* One candidate during its checks; a run of its own, for its failures and findings. */
struct examined {
	struct run_candidate *candidate;
	struct run run;
	enum fsdp_level level;
	struct fsdp_error **ret_error;
};

/* ---- contents ---- */

static uint64_t add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return a == UINT64_MAX || b == UINT64_MAX || __builtin_add_overflow(a, b, &sum)
		       ? UINT64_MAX
		       : sum;
}

/* The step of a part is the step of its checkpoint. */
static bool copy_facts(
	struct run_candidate *candidate, const struct fsdp_checkpoint *opened)
{
	struct fsdp_overview *overview;
	int64_t step, epoch;
	bool good;
	uint64_t on_disk;
	const struct fsdp_role_total *roles;
	uint64_t weights, optimizer, both;

	if (!fsdp_overview_new(opened, &overview, NULL))
		return false;
	good = step_inside(opened, overview, &step, &epoch);
	if (good && candidate->epoch == FSDP_ABSENT)
		candidate->epoch = epoch;
	if (good && step != FSDP_ABSENT && candidate->step_from == NULL) {
		candidate->step = step;
		candidate->step_from = "checkpoint";
	}
	/* Copies that several ranks stored count with the rest. */
	on_disk = fsdp_checkpoint_bytes(opened).on_disk;
	roles = fsdp_overview_facts(overview)->roles;
	weights = add(roles[FSDP_ROLE_PARAM].bytes, roles[FSDP_ROLE_BUFFER].bytes);
	optimizer = roles[FSDP_ROLE_OPTIM].bytes;
	both = add(weights, optimizer);
	candidate->bytes = add(candidate->bytes, on_disk);
	candidate->weights = add(candidate->weights, weights);
	candidate->optimizer = add(candidate->optimizer, optimizer);
	candidate->rest = add(candidate->rest, both < on_disk ? on_disk - both : 0);
	fsdp_overview_free(overview);
	return good;
}

static bool check_opened(struct examined *one, struct fsdp_checkpoint *checkpoint)
{
	static const char below[] = "release/";
	const char *family = fsdp_checkpoint_format(checkpoint).family;
	const char *base = fsdp_checkpoint_base(checkpoint);
	struct text place = text_of(base != NULL ? base : one->run.path);
	struct text first = { NULL, 0 };

	/* Megatron keeps the initial weights next to the steps, as a step without number:
	 * the opened directory, or the one that its tracker names. */
	if (fsdp_file_count(checkpoint) > 0)
		first = text_of_span(fsdp_file(checkpoint, 0).path);
	one->candidate->is_release |=
		text_is(text_last(place, '/'), text_of("release")) ||
		(first.size >= sizeof below &&
			memcmp(first.data, below, sizeof below - 1) == 0);
	one->candidate->is_adapter |=
		family != NULL && strcmp(family, "peft-adapter") == 0;
	one->run.checkpoint = checkpoint;
	if (!opened_check(&one->run, one->level, one->level >= FSDP_LEVEL_HEADERS, NULL,
		    one->ret_error) ||
		!copy_facts(one->candidate, checkpoint))
		return false;
	/* Without states of the optimizer Lightning's fit(ckpt_path) stops. */
	for (size_t i = one->run.first.finding; i < one->run.collected->finding_count;
		i++)
		if (family != NULL && strcmp(family, "lightning-ckpt") == 0 &&
			strcmp(one->run.collected->findings[i].rule, "FI5007") == 0)
			one->run.collected->findings[i].severity = SEVERITY_ERROR;
	return true;
}

/* False: it cannot be opened. */
static bool open_path(struct examined *one, const char *path,
	struct fsdp_checkpoint **ret_checkpoint, struct fsdp_error **ret_error)
{
	struct fsdp_options options = run_opens(&one->run);

	options.look_beside = options.keep_failed = true;
	if (one->level < FSDP_LEVEL_HEADERS)
		steps_only(&options);
	else
		options.read_values = true;
	/* Names of other steps differ in one number too, and are not a set with this one.
	 */
	options.single_file = strstr(path, "rank") == NULL;
	if (path == one->candidate->path && one->candidate->is_lone) {
		options.single_file = true;
		options.plan_beside = one->candidate->plan;
		options.no_plan = options.plan_beside == NULL;
	}
	one->run.path = path;
	one->run.path_count = 1;
	one->run.checkpoint = NULL;
	one->run.first.finding = one->run.collected->finding_count;
	one->run.first.failure = one->run.collected->failure_count;
	one->run.first.omission = one->run.collected->omission_count;
	*ret_checkpoint = NULL;
	return fsdp_checkpoint_open(&path, 1, &options, ret_checkpoint, ret_error);
}

static void copy_error(struct examined *one, struct fsdp_checkpoint *failed,
	const struct fsdp_error *error)
{
	struct run *run = &one->run;

	if (failed != NULL)
		collected_checkpoint(run->collected, failed, run->input, true);
	collected_error(run->collected, error, run->input);
	report_failed_files(run);
}

static void find_error(struct examined *one, const char *id, const char *message)
{
	collected_report(one->run.collected, id,
		(struct finding){ .severity = SEVERITY_ERROR, .input = one->run.input },
		NULL, "%s", message);
}

/* Files that training programs load in addition to weights. */
static bool is_beside(const char *path)
{
	static const char *const words[] = { "rng", "random_state", "sched", "optim",
		"scaler", "sampler", "dataloader", "train_state", "trainer_state",
		"extra_state", "training_args" };
	const char *slash = strrchr(path, '/');
	bool found = false;

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		found |= strcasestr(slash != NULL ? slash : path, words[i]) != NULL;
	return found;
}

static bool check_parts(struct examined *one, const struct fsdp_discover *below)
{
	bool good = true, has_weights = false;

	for (size_t i = 0; i < fsdp_discover_count(below) && good; i++) {
		const char *path = fsdp_discover_path(below, i);
		struct fsdp_checkpoint *checkpoint;
		struct fsdp_error *error = NULL;

		if (open_path(one, path, &checkpoint, &error))
			good = check_opened(one, checkpoint);
		else
			copy_error(one, checkpoint, error);
		fsdp_checkpoint_free(checkpoint);
		fsdp_error_free(error);
		has_weights |= !is_beside(path);
	}
	if (good && !has_weights && one->run.collected->failure_count == 0)
		find_error(one, "FI1001",
			"weights are missing: the directory has only configuration and training state");
	return good;
}

static bool check_unopened(struct examined *one, const char *path,
	struct fsdp_checkpoint *failed, const struct fsdp_error *error)
{
	struct fsdp_options options = run_opens(&one->run);
	const struct fsdp_step_name *name = &one->candidate->step_name;
	bool is_step = name->step >= 0 || name->epoch >= 0, good = true;
	enum fsdp_error_code code = fsdp_error_code(error);
	struct fsdp_discover *below = NULL;
	size_t count, folders = 0;

	/* A directory that is not a checkpoint may contain several, which are its parts.
	 */
	if ((code == FSDP_ERROR_USAGE || code == FSDP_ERROR_NOT_A_CHECKPOINT) &&
		!fsdp_discover_new(path, &options, &below, NULL))
		return false;
	count = below != NULL ? fsdp_discover_count(below) : 0;
	for (size_t i = 0; i < count; i++)
		folders += path_is_folder(fsdp_discover_path(below, i));
	/* Files that differ in a number, for example model_1.pt and model_2.pt, and do
	 * not belong to ranks: each is a save of its own, and they are checked in its
	 * place. */
	one->candidate->is_several = count > 1 && folders == 0 && !is_step;
	if (one->candidate->is_several)
		;
	else if (count > 0)
		good = check_parts(one, below);
	else if (below != NULL && is_step)
		/* By its name, a save started here. */
		find_error(one, "FI1003", fsdp_error_message(error));
	else
		copy_error(one, failed, error);
	fsdp_discover_free(below);
	return good;
}

/* ---- why ---- */

__attribute__((format(printf, 2, 3))) static void explain(
	struct run_candidate *candidate, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	candidate->why = collected_format(&candidate->own, format, arguments);
	va_end(arguments);
}

/* ---- files of other nodes ---- */

/* Whose data file is absent; false: another kind of file, or another finding. */
static bool is_absent_rank(const struct finding *finding, uint32_t *ret_rank)
{
	char name[64] = "";
	const char *at = &name[2];
	struct text last = text_last(finding->file, '/');
	unsigned part;

	if (strcmp(finding->rule, "FI1001") != 0 || last.size >= sizeof name)
		return false;
	memcpy(name, last.data, last.size);
	if (strncmp(name, "__", 2) != 0 || (at = digits_read(at, ret_rank)) == NULL ||
		*at != '_')
		return false;
	at = digits_read(at + 1, &part);
	return at != NULL && strcmp(at, ".distcp") == 0 && strlen(name) == last.size;
}

/* On a disk of its own each node keeps the files of its ranks, which follow each other.
 * False: that is not what is missing. */
static bool explain_other_node(struct run_candidate *candidate, uint64_t errors)
{
	const struct collected *own = &candidate->own;
	uint32_t rank, first = UINT32_MAX, last = 0;
	uint64_t files = 0;

	for (size_t i = 0; i < own->finding_count; i++) {
		if (!is_absent_rank(&own->findings[i], &rank))
			continue;
		files++;
		first = rank < first ? rank : first;
		last = rank > last ? rank : last;
	}
	if (files < 2 || files != errors || first == 0 || last - first + 1 > files)
		return false;
	explain(candidate,
		"files of ranks %u-%u are missing: this is the part of one node [FI1001 missing-file]",
		first, last);
	return true;
}

/* The first finding that is as bad stands for all. */
static void decide(struct run_candidate *candidate)
{
	struct collected *own = &candidate->own;
	const struct finding *worst = NULL;
	const struct failure *failure = own->failures;
	uint64_t same = 0;
	char rest[48] = "";

	for (size_t i = 0; i < own->finding_count; i++) {
		const struct finding *finding = &own->findings[i];

		if (finding->severity == SEVERITY_NOTE)
			continue;
		if (worst == NULL || finding->severity > worst->severity) {
			worst = finding;
			same = 0;
		}
		same += finding->severity == worst->severity;
	}
	candidate->result = collected_verdict(own);
	if (same > 1)
		snprintf(rest, sizeof rest, " (and %llu more)",
			(unsigned long long)same - 1);
	if (worst != NULL && worst->severity == SEVERITY_ERROR &&
		explain_other_node(candidate, same))
		return;
	if (worst != NULL &&
		(worst->severity == SEVERITY_ERROR || own->failure_count == 0))
		explain(candidate, "%.*s%s%.*s%s [%s %s]", CUT(worst->file),
			worst->file.data != NULL ? worst->file.data : "",
			worst->file.size > 0 ? ": " : "", CUT(worst->message),
			worst->message.data, rest, worst->rule, worst->slug);
	else if (own->failure_count > 0)
		explain(candidate, "%.*s%s%s%s", CUT(failure->message),
			failure->message.data, failure->rule != NULL ? " [" : "",
			failure->rule != NULL ? failure->rule : "",
			failure->rule != NULL ? "]" : "");
	else if (candidate->is_release)
		candidate->why = LATEST_RELEASE;
}

void candidate_check(
	struct run_candidate *candidate, struct run *run, enum fsdp_level level)
{
	struct examined one = { candidate, *run, level, &run->error };
	const struct fsdp_step_name *name = &candidate->step_name;
	struct fsdp_checkpoint *checkpoint;
	struct fsdp_error *error = NULL;
	bool good;

	collected_done(&candidate->own);
	candidate->own = (struct collected){ 0 };
	candidate->why = NULL;
	candidate->step = candidate->epoch = FSDP_ABSENT;
	candidate->step_from = NULL;
	candidate->is_several = candidate->is_release = candidate->is_adapter = false;
	candidate->bytes = candidate->weights = 0;
	candidate->optimizer = candidate->rest = 0;
	one.run.collected = &candidate->own;
	one.run.input = candidate->input;
	if (open_path(&one, candidate->path, &checkpoint, &error))
		good = check_opened(&one, checkpoint);
	else
		good = error != NULL && fsdp_error_code(error) != FSDP_ERROR_MEMORY &&
		       check_unopened(&one, candidate->path, checkpoint, error);
	fsdp_checkpoint_free(checkpoint);
	fsdp_error_free(error);
	/* Lack of memory is not a verdict. */
	for (size_t i = 0; i < candidate->own.failure_count; i++)
		good &= strcmp(candidate->own.failures[i].code, "memory") != 0;
	run_must(run, good && !candidate->own.out_of_memory);
	if (candidate->step_name.is_unfinished)
		find_error(&one, "FI1003", "temporary name of an unfinished save");
	if (path_is_unfinished(candidate->path))
		find_error(
			&one, "FI1003", "NeMo's -unfinished marker of this save exists");
	/* What the checkpoint does not contain. timm calls its files checkpoint-EPOCH. */
	if (candidate->step == FSDP_ABSENT && name->step >= 0 &&
		name->step != candidate->epoch) {
		candidate->step = name->step;
		candidate->step_from = "name";
	}
	if (candidate->epoch == FSDP_ABSENT && name->epoch >= 0)
		candidate->epoch = name->epoch;
	if (candidate->bytes == 0)
		candidate->bytes = candidate->weights = candidate->optimizer =
			candidate->rest = UINT64_MAX;
	candidate->level = fsdp_level_name(level);
	decide(candidate);
	run_must(run, !candidate->own.out_of_memory);
}

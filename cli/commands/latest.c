/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the newest checkpoint of a run that passes an audit: checks each as audit does
 * at the same level, and compares it with the other steps of the run.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fsdp/audit.h>

#include "args/parse.h"
#include "shared/audit-run.h"
#include "shared/stored-values.h"
#include "shared/tensor-row.h"
#include "render/record.h"
#include "render/writer.h"
#include "session/diagnostics.h"
#include "session/session.h"

struct latest_options {
	const char *level; /* quick, headers, data */
	bool explain, all;
	int64_t count; /* of checkpoints to name */
};

/* A directory or file of a run that may be a checkpoint. */
struct run_candidate {
	const char *path;                /* as it would be typed */
	int64_t step;                    /* FSDP_ABSENT: unknown */
	const char *step_from;           /* "checkpoint", "name" or NULL */
	int64_t epoch;                   /* FSDP_ABSENT: unknown */
	struct fsdp_step_name step_name; /* step in its name */
	bool by_name;                    /* its name is enough to order it */
	bool is_lone;                    /* see fsdp_discover_is_lone */
	const char *plan;                /* the same */
	const char *result;              /* "good", "bad", "partial"; NULL: not judged */
	const char *level;               /* at which that was found */
	uint64_t bytes;                  /* of its files; UINT64_MAX: not known */
	uint64_t weights, optimizer, rest; /* of these; UINT64_MAX: not known */
	struct collected own;              /* its findings and failures, with all texts */
	const char *why;                   /* the worst of them, or NULL */
	uint32_t input;                    /* the run that it is of */
	bool is_named;                     /* one of the newest that are good */
	bool is_several;                   /* a directory of files that are candidates */
	bool is_adapter;                   /* of PEFT */
	bool is_release;                   /* Megatron's: weights of no step */
};

#define LATEST_RELEASE "weights to start from (Megatron's release), of no step of a run"

/* A file or link of a run that names one. */
struct run_pointer {
	const char *path;
	struct text target;
	bool leads;                     /* a link to something that exists */
	const struct run_candidate *to; /* NULL: it is not there */
	uint32_t input;
	bool agrees; /* it names the newest that is good */
};

/* A named directory. */
struct run_folder {
	struct fsdp_discover
		*below;   /* of the run, with the paths; NULL: it is a candidate itself */
	bool is_misnamed; /* names do not show the order */
	size_t good;      /* of those that are newest by their names */
	struct fsdp_step_name last; /* of these: others of the same step may be newer */
};

/* What one run of the command makes. */
struct latest {
	struct run *run;
	const struct latest_options *options;
	enum fsdp_level level;
	struct run_folder *folders;       /* one per input */
	struct run_candidate *candidates; /* newest first, once they are sorted */
	size_t count;
	struct run_pointer *pointers;
	size_t pointer_count;
	size_t named;    /* of the candidates */
	size_t unjudged; /* older than those that are named */
	size_t shown;    /* the first so many were asked for */
	bool is_blind;   /* nothing could be looked at */
};

static inline bool is_good(const struct run_candidate *candidate)
{
	return candidate->result != NULL && strcmp(candidate->result, "good") == 0;
}

/* Length of the path of its directory, with the slash. */
static size_t folder_size(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

enum { SIBLINGS_MOST = 3, NAME_MOST = 256, TRIED_MOST = 4 };

/* Makes it bad, for this reason. */
__attribute__((format(printf, 2, 3))) static void set_bad(
	struct run_candidate *candidate, const char *format, ...)
{
	va_list arguments;

	candidate->result = "bad";
	va_start(arguments, format);
	candidate->why = memory_vformat(format, arguments);
	va_end(arguments);
}

/* ---- checks of one candidate ---- */

enum { WHY_MOST = 200 };
#define CUT(text) (int)((text).size < WHY_MOST ? (text).size : WHY_MOST)

/* One candidate during its checks; a run of its own, for its failures and findings. */
struct examined {
	struct run_candidate *candidate;
	struct run run;
	enum fsdp_level level;
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
static void copy_facts(struct run *run, struct run_candidate *candidate)
{
	const struct fsdp_checkpoint *opened = run->checkpoint;
	struct fsdp_overview *overview;
	int64_t step, epoch;
	uint64_t weights, optimizer, both;

	run_must(run, fsdp_overview_new(opened, &overview, &run->error));
	run_owns(run, overview, release_overview);
	step_inside(opened, overview, &step, &epoch);
	if (candidate->epoch == FSDP_ABSENT)
		candidate->epoch = epoch;
	if (step != FSDP_ABSENT && candidate->step_from == NULL) {
		candidate->step = step;
		candidate->step_from = "checkpoint";
	}
	/* Copies that several ranks stored count with the rest. */
	uint64_t on_disk = fsdp_checkpoint_bytes(opened).on_disk;
	const struct fsdp_role_total *roles = fsdp_overview_facts(overview)->roles;
	weights = add(roles[FSDP_ROLE_PARAM].bytes, roles[FSDP_ROLE_BUFFER].bytes);
	optimizer = roles[FSDP_ROLE_OPTIM].bytes;
	both = add(weights, optimizer);
	candidate->bytes = add(candidate->bytes, on_disk);
	candidate->weights = add(candidate->weights, weights);
	candidate->optimizer = add(candidate->optimizer, optimizer);
	candidate->rest = add(candidate->rest, both < on_disk ? on_disk - both : 0);
}

static void check_opened(struct examined *one, struct fsdp_checkpoint *checkpoint)
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
	opened_check(&one->run, one->level, one->level >= FSDP_LEVEL_HEADERS, NULL);
	copy_facts(&one->run, one->candidate);
	/* Without states of the optimizer Lightning's fit(ckpt_path) stops. */
	for (size_t i = one->run.first.finding; i < one->run.collected->finding_count;
		i++)
		if (family != NULL && strcmp(family, "lightning-ckpt") == 0 &&
			strcmp(one->run.collected->findings[i].rule, "FI5007") == 0)
			one->run.collected->findings[i].severity = SEVERITY_ERROR;
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
	*ret_error = NULL;
	bool opened = fsdp_checkpoint_open(&path, 1, &options, ret_checkpoint, ret_error);
	if (*ret_checkpoint != NULL)
		run_owns(&one->run, *ret_checkpoint, release_checkpoint);
	if (!opened &&
		(*ret_error == NULL || fsdp_error_code(*ret_error) == FSDP_ERROR_MEMORY))
		memory_fail();
	if (!opened)
		run_owns(&one->run, *ret_error, release_error);
	return opened;
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

static void check_parts(struct examined *one, const struct fsdp_discover *below)
{
	bool has_weights = false;

	FOR_EACH(i, fsdp_discover_count(below), path, fsdp_discover_path(below, i)) {
		struct fsdp_checkpoint *checkpoint;
		struct fsdp_error *error;
		size_t mark = memory_mark();

		if (open_path(one, path, &checkpoint, &error))
			check_opened(one, checkpoint);
		else
			copy_error(one, checkpoint, error);
		memory_release(mark);
		has_weights |= !is_beside(path);
	}
	if (!has_weights && one->run.collected->failure_count == 0)
		find_error(one, "FI1001",
			"weights are missing: the directory has only configuration and training state");
}

static void check_unopened(struct examined *one, const char *path,
	struct fsdp_checkpoint *failed, const struct fsdp_error *error)
{
	struct fsdp_options options = run_opens(&one->run);
	const struct fsdp_step_name *name = &one->candidate->step_name;
	bool is_step = name->step >= 0 || name->epoch >= 0;
	enum fsdp_error_code code = fsdp_error_code(error);
	struct fsdp_discover *below = NULL;
	size_t count, folders = 0;

	/* A directory that is not a checkpoint may contain several, which are its parts.
	 */
	if (code == FSDP_ERROR_USAGE || code == FSDP_ERROR_NOT_A_CHECKPOINT) {
		run_must(&one->run,
			fsdp_discover_new(path, &options, &below, &one->run.error));
		run_owns(&one->run, below, release_discover);
	}
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
		check_parts(one, below);
	else if (below != NULL && is_step)
		/* By its name, a save started here. */
		find_error(one, "FI1003", fsdp_error_message(error));
	else
		copy_error(one, failed, error);
}

/* ---- why ---- */

__attribute__((format(printf, 2, 3))) static void explain(
	struct run_candidate *candidate, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	candidate->why = memory_vformat(format, arguments);
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

	FOR_EACH(i, own->finding_count, finding, &own->findings[i]) {
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

/* Checks it at this level, and fills all except its path and names. */
static void candidate_check(
	struct run_candidate *candidate, struct run *run, enum fsdp_level level)
{
	struct examined one = { candidate, *run, level };
	const struct fsdp_step_name *name = &candidate->step_name;
	struct fsdp_checkpoint *checkpoint;
	struct fsdp_error *error;
	size_t mark = memory_mark();

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
		check_opened(&one, checkpoint);
	else
		check_unopened(&one, candidate->path, checkpoint, error);
	memory_release(mark);
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
}

/* ---- comparison with the other steps of the run ---- */

/* Kinds of files, sorted. */
struct kinds {
	char **names;
	size_t count;
	bool is_folder;
};

/* "model_rank#.pt". With a step only the number that is the step becomes #; *ret_found:
 * it is there. Without one, -1, all numbers do. */
static void generalize(const char *name, int64_t step, char *kind, bool *ret_found)
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
	/* Directories of reinforcement learning. */
	static const char *const parts[] = { "actor", "critic", "data" };
	static const char *const later[] = { "eval", "result", "metric", "log", "pred",
		"sample", "score", "bench", "unfinished", "tmp" };
	size_t size = strlen(name);
	bool saved = false;

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		saved |= size >= strlen(ends[i]) &&
			 strcmp(name + size - strlen(ends[i]), ends[i]) == 0;
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		saved |= strcmp(name, parts[i]) == 0;
	for (size_t i = 0; i < sizeof later / sizeof *later; i++)
		saved &= strcasestr(name, later[i]) == NULL;
	return saved;
}

/* An empty directory contains nothing of a save. */
static bool is_empty_folder(DIR *parent, const char *name)
{
	int fd = openat(dirfd(parent), name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry = NULL;

	if (stream == NULL) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while ((entry = readdir(stream)) != NULL && entry->d_name[0] == '.' &&
		strspn(entry->d_name, ".") == strlen(entry->d_name))
		;
	closedir(stream);
	return entry == NULL;
}

/* For a directory the kinds of its files; for a file those of the files of its directory
 * with the same step. An unreadable directory has none. */
static void kinds_list(const struct run_candidate *candidate, struct kinds *kinds)
{
	char folder[4096], kind[NAME_MOST];
	DIR *stream = candidate->is_lone ? NULL : opendir(candidate->path);
	bool is_folder = stream != NULL, found;
	size_t mark = memory_mark();
	size_t size = folder_size(candidate->path);
	const struct dirent *entry;

	*kinds = (struct kinds){ .is_folder = is_folder };
	if (size >= sizeof folder)
		size = 0;
	memcpy(folder, candidate->path, size);
	folder[size] = '\0';
	if (!is_folder)
		stream = opendir(size > 0 ? folder : ".");
	if (stream != NULL)
		memory_owns(stream, release_folder);
	while (stream != NULL && (entry = readdir(stream)) != NULL) {
		if (!is_saved(entry->d_name) ||
			(entry->d_type == DT_DIR &&
				is_empty_folder(stream, entry->d_name)))
			continue;
		generalize(entry->d_name, is_folder ? -1 : candidate->step_name.step,
			kind, &found);
		if (!is_folder && !found)
			continue;
		kinds->names =
			memory_grown(kinds->names, kinds->count, sizeof *kinds->names);
		kinds->names[kinds->count++] = memory_text(kind);
	}
	memory_release(mark);
	if (kinds->count > 1)
		qsort(kinds->names, kinds->count, sizeof *kinds->names, compare_texts);
}

static bool has_kind(const struct kinds *kinds, const char *kind)
{
	return kinds->count > 0 && bsearch(&kind, kinds->names, kinds->count,
					   sizeof *kinds->names, compare_texts) != NULL;
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
	generalize(a->path + folder, a->step_name.step, of[0], &found);
	generalize(b->path + folder, b->step_name.step, of[1], &found);
	return strcmp(of[0], of[1]) == 0;
}

static bool share_folder(const char *a, const char *b)
{
	size_t size = folder_size(a);

	return size == folder_size(b) && memcmp(a, b, size) == 0;
}

/* False: it is not a number. */
static bool read_number(struct text tracker_target, int64_t *ret_number)
{
	char digits[20] = "";

	if (tracker_target.size >= sizeof digits)
		return false;
	memcpy(digits, tracker_target.data, tracker_target.size);
	return option_integer(digits, 0, INT64_MAX, ret_number);
}

/* Whether a path is in the directory of a pointer, or further below. */
static bool is_below(const struct run_pointer *pointer, const char *path)
{
	size_t size = folder_size(pointer->path);

	return size <= folder_size(path) && memcmp(pointer->path, path, size) == 0;
}

/* A name, or the number of a step. */
static bool leads_to(
	const struct run_pointer *pointer, const struct run_candidate *candidate)
{
	struct text name = text_last(text_of(candidate->path), '/');
	int64_t number;

	return (text_is(pointer->target, name) ||
		       (read_number(pointer->target, &number) &&
			       candidate->step_name.step == number)) &&
	       is_below(pointer, candidate->path);
}

/* Whether a file that is written last still names the other, earlier step. */
static bool is_tracked(const struct latest *latest, const struct run_candidate *other,
	const struct run_candidate *later)
{
	bool is_tracked = false;

	FOR_EACH(i, latest->pointer_count, pointer, &latest->pointers[i])
		is_tracked |= pointer->input == other->input && !pointer->leads &&
			      leads_to(pointer, other);
	return is_tracked && other->step_name.step < later->step_name.step;
}

/* Kinds that all others have. A directory that differs from only one other may have been
 * saved in another way, unless a tracker names the other; an empty one was not filled. */
static void check_kinds(struct latest *latest, struct run_candidate *candidate)
{
	struct kinds own, others[SIBLINGS_MOST];
	size_t count = 0;
	bool is_lacking = false, tracks = false;
	const char *example = candidate->path;

	kinds_list(candidate, &own);
	for (size_t i = 0; i < latest->count && count < SIBLINGS_MOST; i++) {
		const struct run_candidate *other = &latest->candidates[i];

		if ((other->result == NULL || is_good(other)) &&
			is_sibling(candidate, other)) {
			kinds_list(other, &others[count++]);
			example = other->path;
			tracks |= is_tracked(latest, other, candidate);
		}
	}
	for (size_t k = 0;
		count > 0 && own.count > 0 && k < others[0].count && !is_lacking; k++) {
		const char *kind = others[0].names[k];
		char path[4096];
		struct stat status;
		/* Names with the number of a step are not looked for: these are files. */
		bool lacks = !has_kind(&own, kind);
		bool is_empty = lacks && own.is_folder &&
				(size_t)snprintf(path, sizeof path, "%s/%s",
					candidate->path, kind) < sizeof path &&
				stat(path, &status) == 0;

		is_lacking = lacks && (count > own.is_folder || is_empty || tracks);
		for (size_t i = 1; i < count && is_lacking; i++)
			is_lacking = has_kind(&others[i], kind);
		if (is_lacking)
			set_bad(candidate,
				"%.200s is %s; %s of the run (%.200s) %s %s%s [FI1003 uncommitted-save]",
				kind, is_empty ? "empty" : "missing",
				count == 1 ? "the other step" : "the other steps",
				example + folder_size(example),
				count == 1 ? "has" : "have",
				is_empty ? "files in it" : "one",
				tracks ? ", and the tracker points there" : "");
	}
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

/* ---- trackers: files and links that name the newest checkpoint ---- */

/* Finds the candidates that pointers name. */
static void pointers_follow(struct latest *latest)
{
	FOR_EACH(i, latest->pointer_count, pointer, &latest->pointers[i]) {
		pointer->to = NULL;
		for (size_t k = 0; k < latest->count && pointer->to == NULL; k++)
			if (leads_to(pointer, &latest->candidates[k]))
				pointer->to = &latest->candidates[k];
	}
}

/* "latest points to step-30 (bad); newest good step: step-20". `good` is below the
 * directory of the pointer, or NULL; `has_other`: another run has a good one. */
static void find_stale(struct latest *latest, const struct run_pointer *pointer,
	const struct run_candidate *good, bool has_other)
{
	const struct text run = latest->run->collected->inputs[pointer->input].path;
	const char *below = strncmp(pointer->path, run.data, run.size) == 0
				    ? pointer->path + run.size
				    : pointer->path + folder_size(pointer->path);
	const struct finding about = {
		.severity = good != NULL || has_other ? SEVERITY_WARNING : SEVERITY_ERROR,
		.input = pointer->input,
		.file = text_of(below + (*below == '/'))
	};
	const char *is = pointer->to == NULL
				 ? pointer->leads ? "not a checkpoint" : "missing"
			 : is_good(pointer->to) ? "good, but not the newest"
			 : strcmp(pointer->to->result, "bad") == 0 ? "bad"
								   : "not judged";
	const char *newest = good != NULL ? text_last(text_of(good->path), '/').data : "";
	const bool is_plain =
		!url_is(pointer->path) && is_plain_path(text_of(pointer->path));
	char fix[1024] = "";
	struct stat status;
	int64_t number;

	/* Trackers of some programs hold a number, those of others and links a name. */
	if (good == NULL || !share_folder(pointer->path, good->path))
		fix[0] = '\0';
	else if (read_number(pointer->target, &number))
		snprintf(fix, sizeof fix,
			is_plain ? "echo %lld > %s" : "write %lld into %s",
			(long long)good->step_name.step, pointer->path);
	else
		snprintf(fix, sizeof fix,
			lstat(pointer->path, &status) == 0 && S_ISLNK(status.st_mode)
				? "point the link to %s: %s"
			: is_plain && is_plain_path(text_of(newest)) ? "echo %s > %s"
								     : "write %s into %s",
			newest, pointer->path);
	collected_report(latest->run->collected, "FI1011", about, fix,
		"%s points to %.*s (%s)%s%s", about.file.data, (int)pointer->target.size,
		pointer->target.data, is,
		good != NULL ? "; newest good checkpoint: " : "", newest);
}

/* A link to something that exists and is outside of the checkpoints, in a run without
 * other links: wandb's latest-run. */
static bool is_other(const struct latest *latest, const struct run_pointer *pointer)
{
	const char *run = latest->run->collected->inputs[pointer->input].path.data;
	bool is_other = pointer->leads && pointer->to == NULL &&
			folder_size(pointer->path) > strlen(run) + 1;

	for (size_t i = 0; i < latest->count && is_other; i++)
		is_other = !share_folder(pointer->path, latest->candidates[i].path);
	return is_other;
}

/* Compares what pointers say with what was named, and adds a finding for each
 * that is wrong. */
static void trackers_check(struct latest *latest)
{
	size_t kept = 0;

	pointers_follow(latest);
	for (size_t i = 0; i < latest->pointer_count; i++)
		if (!is_other(latest, &latest->pointers[i]))
			latest->pointers[kept++] = latest->pointers[i];
	latest->pointer_count = kept;
	FOR_EACH(i, kept, pointer, &latest->pointers[i]) {
		const struct run_candidate *newest = NULL;
		bool has_other = false;

		for (size_t k = 0; k < latest->count && newest == NULL; k++) {
			const struct run_candidate *one = &latest->candidates[k];

			if (one->input != pointer->input || !is_good(one))
				continue;
			has_other = true;
			if (is_below(pointer, one->path))
				newest = one;
		}
		pointer->agrees = newest != NULL && pointer->to == newest;
		/* The weights that a model is released with have no step. */
		if (!pointer->agrees && !text_is(pointer->target, text_of("release")))
			find_stale(latest, pointer, newest, has_other);
	}
}

/* ---- lists the contents of run directories, and sorts them by step ---- */

static void add_candidate(struct latest *latest, const char *path, uint32_t input)
{
	struct run_candidate *added =
		memory_grown(latest->candidates, latest->count, sizeof *added);

	latest->candidates = added;
	added += latest->count++;
	*added = (struct run_candidate){
		.path = path, .step = FSDP_ABSENT, .epoch = FSDP_ABSENT, .input = input
	};
	/* Of a path that ends with a slash all of it. */
	path += path[folder_size(path)] != '\0' ? folder_size(path) : 0;
	fsdp_step_name(span_of_text(text_of(path)), &added->step_name);
}

static void add_below(
	struct latest *latest, const struct fsdp_discover *below, uint32_t input)
{
	for (size_t i = 0; i < fsdp_discover_count(below); i++) {
		add_candidate(latest, fsdp_discover_path(below, i), input);
		struct run_candidate *added = &latest->candidates[latest->count - 1];
		added->is_lone = fsdp_discover_is_lone(below, i, &added->plan);
	}
}

static void look_in(struct latest *latest, const char *path, uint32_t input)
{
	struct run *run = latest->run;
	struct fsdp_options options = run_opens(run);
	size_t first = latest->count;
	struct fsdp_discover *below;
	struct fsdp_tracker from;
	bool has_steps = false;

	run_must(run, fsdp_discover_new_run(path, &options, &below, NULL));
	run_owns(run, below, release_discover);
	latest->folders[input].below = below;
	add_below(latest, below, input);
	for (size_t i = 0; (from = fsdp_discover_tracker(below, i)).path != NULL; i++) {
		latest->pointers = run_grown(run, latest->pointers, latest->pointer_count,
			sizeof *latest->pointers);
		latest->pointers[latest->pointer_count++] = (struct run_pointer){
			.path = from.path,
			.target = text_of_span(from.target),
			.leads = from.leads,
			.input = input,
		};
	}
	/* Steps decide the order, or epochs if no name has a step: one without may be the
	 * newest. */
	for (size_t i = first; i < latest->count; i++)
		has_steps |= latest->candidates[i].step_name.step >= 0;
	for (size_t i = first; i < latest->count; i++) {
		const struct fsdp_step_name *name = &latest->candidates[i].step_name;

		latest->candidates[i].by_name =
			has_steps ? name->step >= 0 : name->epoch >= 0;
	}
	uint64_t unread = fsdp_discover_unread(below);
	latest->is_blind |= unread > 0 && fsdp_discover_count(below) == 0;
	if (unread > 0)
		run_failure(run, "system", NULL,
			unread == 1 ? "%s: %llu file or directory could not be read"
				    : "%s: %llu files or directories could not be read",
			path, (unsigned long long)unread);
	if (fsdp_discover_limit_reached(below))
		run_note(run,
			"%s: there may be more: --limit below=N looks at more entries",
			path);
}

/* Finds the checkpoints of all runs. */
static void candidates_find(struct latest *latest)
{
	struct collected *collected = latest->run->collected;
	size_t count = collected->input_count;

	latest->folders = run_memory(latest->run, count, sizeof *latest->folders);
	FOR_EACH(i, count, typed, collected->inputs[i].path) {
		/* Names of files below it have a slash of their own. */
		while (typed.size > 1 && typed.data[typed.size - 1] == '/')
			typed.size--;
		const char *path = text_copy(typed).data;
		(path_is_folder(path) ? look_in : add_candidate)(
			latest, path, (uint32_t)i);
	}
}

/* ---- order ---- */

/* Order: with a step, then with an epoch, then others. For the same step the name
 * decides, else the shorter name is first. Unchecked ones are older than the rest. */
static int compare(const void *left, const void *right)
{
	const struct run_candidate *a = left, *b = right;
	const int64_t keys[][2] = { { b->result == NULL, a->result == NULL },
		{ a->step, b->step }, { a->epoch, b->epoch },
		{ a->step_name.step, b->step_name.step } };

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (keys[i][0] != keys[i][1])
			return keys[i][0] > keys[i][1] ? -1 : 1;
	return a->step != FSDP_ABSENT ? strverscmp(a->path, b->path)
				      : strverscmp(b->path, a->path);
}

static int compare_names(const void *left, const void *right)
{
	const struct run_candidate *a = left, *b = right;
	const struct fsdp_step_name *is = &a->step_name, *other = &b->step_name;

	if (is->step != other->step)
		return is->step > other->step ? -1 : 1;
	if (is->epoch != other->epoch)
		return is->epoch > other->epoch ? -1 : 1;
	return strverscmp(a->path, b->path);
}

/* Sorts the newest first: by names, or by all known facts. */
static void candidates_sort(struct latest *latest, bool by_name)
{
	if (latest->count > 1)
		qsort(latest->candidates, latest->count, sizeof *latest->candidates,
			by_name ? compare_names : compare);
}

/* ---- output ---- */

enum { VIEW_EXPLAIN, VIEW_ALL };

static const char *const RESULTS[] = { "good", "bad", "partial", NULL };
static const char *const LEVELS[] = { "quick", "headers", "data", NULL };
static const char *const SOURCES[] = { "checkpoint", "name", NULL };

#define CANDIDATE struct run_candidate

/* Steps are more precise. */
GETTER(get_bare_epoch, struct run_candidate,
	one->step == FSDP_ABSENT && one->epoch != FSDP_ABSENT ? value_integer(one->epoch)
							      : value_absent())

static struct value get_why(struct subject of)
{
	const char *why = ((const struct run_candidate *)of.object)->why;

	return value_word(why != NULL ? why : "");
}

GETTER(get_mark, struct run_candidate, value_word(one->is_named ? "*" : ""))

static const struct record candidate_record = OBJECT_RECORD(CANDIDATE, "candidate",
	"A directory or file of a run that may be a checkpoint.",
	{ "step", INTEGER_AT(CANDIDATE, step), .null = true,
		ALWAYS("Step of the run in which it was saved.") },
	{ "step_from", WORD_AT(CANDIDATE, step_from), .words = SOURCES,
		ABOUT("Source of the step. Absent if unknown.") },
	{ "epoch", INTEGER_AT(CANDIDATE, epoch),
		ABOUT("Epoch in which it was saved, if it or its name contains it.") },
	{ "path", PATH_AT(CANDIDATE, path), ALWAYS("Its path, as it would be typed.") },
	{ "result", WORD_AT(CANDIDATE, result), .always = true, .words = RESULTS,
		ABOUT("`good`: no error, and all checks ran. `partial`: no error, but a check could not run.") },
	{ "level", WORD_AT(CANDIDATE, level), .always = true, .words = LEVELS,
		ABOUT("Level of the check: that of `--level`, or `quick` if that decides already, or if a newer one is good.") },
	{ "bytes", BYTES_AT(CANDIDATE, bytes),
		ABOUT("Bytes of its files. Absent where they are unknown.") },
	{ "weight_bytes", BYTES_AT(CANDIDATE, weights),
		ABOUT("Bytes of parameters and buffers.") },
	{ "optimizer_bytes", BYTES_AT(CANDIDATE, optimizer),
		ABOUT("Bytes of the states of optimizers.") },
	{ "other_bytes", BYTES_AT(CANDIDATE, rest),
		ABOUT("Bytes of its files that are neither.") },
	{ "findings", LIST_AT(CANDIDATE, own.findings, own.finding_count, finding_record),
		ALWAYS("Its findings.") },
	{ "errors", LIST_AT(CANDIDATE, own.failures, own.failure_count, failure_record),
		ALWAYS("Checks that could not run.") });

static const struct record row_record = RECORD_OF(RECORD_OBJECT, CANDIDATE,
	{ "mark", GET(FIELD_WORD, get_mark), .text_only = EVERY_VIEW, .label = " " },
	{ "step", INTEGER_AT(CANDIDATE, step), .right = true },
	{ "bare_epoch", GET(FIELD_INTEGER, get_bare_epoch), .text_only = EVERY_VIEW,
		.label = "epoch", .right = true },
	{ "epoch", INTEGER_AT(CANDIDATE, epoch), .machine_only = EVERY_VIEW },
	{ "path", PATH_AT(CANDIDATE, path) }, { "result", WORD_AT(CANDIDATE, result) },
	{ "bytes", BYTES_AT(CANDIDATE, bytes), .machine_only = EVERY_VIEW },
	{ "weight_bytes", BYTES_AT(CANDIDATE, weights), .label = "weights",
		.machine_only = 1 << VIEW_EXPLAIN },
	{ "optimizer_bytes", BYTES_AT(CANDIDATE, optimizer), .label = "optimizer",
		.machine_only = 1 << VIEW_EXPLAIN },
	{ "other_bytes", BYTES_AT(CANDIDATE, rest), .label = "other",
		.machine_only = 1 << VIEW_EXPLAIN },
	{ "why", GET(FIELD_WORD, get_why) });

#define POINTER struct run_pointer

static const struct record pointer_record = OBJECT_RECORD(POINTER, "pointer",
	"A file or link of a run that names a checkpoint.",
	{ "file", PATH_AT(POINTER, path), ALWAYS("Its path.") },
	{ "says", TEXT_AT(POINTER, target),
		ALWAYS("Its target: a directory, or the number of a step.") },
	{ "agrees", BOOL_AT(POINTER, agrees),
		ALWAYS("Whether that is the newest one that is good.") });

static struct value get_newest(struct subject of)
{
	const struct latest *latest = of.object;

	for (size_t i = 0; i < latest->count; i++)
		if (latest->candidates[i].is_named)
			return value_name(text_of(latest->candidates[i].path));
	return value_null();
}

#define LATEST struct latest
static const struct record latest_record =
	OBJECT_RECORD(LATEST, "latest", "Newest good checkpoint of a run.",
		{ "newest", GET(FIELD_NAME, get_newest), .always = true, .null = true,
			ABOUT("Its path; `null`: none.") },
		{ "candidates", ITEMS_AT(LATEST, candidates, count, candidate_record),
			ALWAYS("All that may be checkpoints, newest first.") },
		{ "pointers", LIST_AT(LATEST, pointers, pointer_count, pointer_record),
			ALWAYS("Files and links that name one.") });

/* ---- showing ---- */

static bool is_table(const struct latest *latest)
{
	return latest->options->explain || latest->options->all;
}

/* The checked candidates; without a table those that are named. */
static void write_rows(const struct latest *latest, const struct table *like)
{
	struct record_table table;

	record_table_init(&table, like, &row_record, NULL);
	out_records_begin(latest->run->out, &table);
	for (size_t i = 0; i < latest->shown; i++)
		if (is_table(latest) || latest->candidates[i].is_named)
			out_records_row(latest->run->out, &table, &latest->candidates[i]);
	out_table_end(latest->run->out);
}

enum { SKIPPED_MOST = 10 };

static const char *const level_words[] = { "quick", "headers", "data", NULL };

#define AT(member) offsetof(struct latest_options, member)
static const struct option_row OPTIONS[] = {
	{ "level", 0, OPTION_WORD, "LEVEL", AT(level), level_words, .initial = "quick",
		.help = "check names and sizes, all headers, or every byte" },
	{ "explain", 0, OPTION_FLAG, NULL, AT(explain),
		.help = "show why newer checkpoints were rejected" },
	{ "all", 0, OPTION_FLAG, NULL, AT(all),
		.help = "list all checkpoints with their sizes" },
	{ "count", 0, OPTION_INTEGER, "N", AT(count), .minimum = 1, .maximum = 1000000,
		.initial = "1", .help = "print the N newest good checkpoints" },
	{ NULL },
};

/* ---- one ---- */

/* False: other names of the run may be wrong about the order too. */
static bool name_is_right(const struct run_candidate *candidate)
{
	const struct fsdp_step_name *name = &candidate->step_name;
	int64_t number = name->step >= 0 ? name->step : name->epoch;

	return candidate->step == number || candidate->epoch == number ||
	       (candidate->step == FSDP_ABSENT && candidate->epoch == FSDP_ABSENT);
}

/* Whether it was a directory that is not a checkpoint, and whose files took its place:
 * never one with a step or epoch in its name. */
static bool check_candidate(struct latest *latest, size_t index)
{
	struct run *run = latest->run;
	struct run_candidate *candidate = &latest->candidates[index];
	struct fsdp_options options = run_opens(run);
	struct fsdp_discover *below;

	candidate_check(candidate, run, FSDP_LEVEL_QUICK);
	latest->folders[candidate->input].is_misnamed |=
		candidate->by_name && !name_is_right(candidate);
	if (!candidate->is_several)
		return false;
	struct run_candidate folder = *candidate;
	run_must(run, fsdp_discover_new(folder.path, &options, &below, NULL));
	run_owns(run, below, release_discover);
	*candidate = latest->candidates[--latest->count];
	add_below(latest, below, folder.input);
	return true;
}

/* The newest of each run by their names, until so many are good. What fails here fails at
 * any level. */
static void check_newest(struct latest *latest, size_t wanted)
{
	candidates_sort(latest, true);
	for (size_t i = 0; i < latest->count && i < wanted; i++)
		fsdp_remote_expect_directory(
			helper_remote(), latest->candidates[i].path, true);
	for (size_t i = 0; i < latest->run->collected->input_count; i++)
		latest->folders[i].good = 0;
	FOR_EACH(i, latest->count, candidate, &latest->candidates[i]) {
		struct run_folder *folder = &latest->folders[candidate->input];
		const struct fsdp_step_name *name = &candidate->step_name;
		bool is_wanted = folder->is_misnamed || folder->good < wanted ||
				 (name->step == folder->last.step &&
					 name->epoch == folder->last.epoch);

		if (!candidate->by_name || !is_wanted)
			continue;
		if (candidate->result == NULL)
			check_candidate(latest, i);
		folder->last = *name;
		folder->good += is_good(candidate);
	}
	candidates_sort(latest, false);
}

/* A file of the trainer's state, in a directory with weights in other files: checks that
 * one of them has the same step. */
static void check_weights(struct latest *latest, struct run_candidate *candidate)
{
	const char *example = NULL, *end;

	/* What follows the first word of a file's name: ".0.20.pt" of checkpoint.0.20.pt.
	 */
	end = candidate->path + folder_size(candidate->path);
	end += strcspn(end, "0123456789");
	if (!is_good(candidate) || !candidate->is_lone || candidate->weights != 0 ||
		candidate->bytes == UINT64_MAX || *end == '\0')
		return;
	FOR_EACH(i, latest->count, file, &latest->candidates[i]) {
		const char *name = file->path + folder_size(file->path);

		if (!file->is_lone || file->result == NULL || file->weights == 0 ||
			file->bytes == UINT64_MAX ||
			!share_folder(file->path, candidate->path))
			continue;
		if (strcmp(name + strcspn(name, "0123456789"), end) == 0)
			return;
		example = name;
	}
	if (example != NULL)
		set_bad(candidate,
			"the weights of this step are missing (%.200s belongs to another step)",
			example);
}

/* Looks at the newest more closely, until there are enough. */
static void choose(struct latest *latest)
{
	size_t wanted = (size_t)latest->options->count;

	latest->named = latest->unjudged = 0;
	for (size_t i = 0; i < latest->count; i++)
		latest->unjudged += latest->candidates[i].result == NULL;
	FOR_EACH(i, latest->count, candidate, &latest->candidates[i]) {
		if (latest->named == wanted && !latest->options->all)
			break;
		if (is_good(candidate) &&
			strcmp(candidate->level, fsdp_level_name(latest->level)) != 0)
			candidate_check(candidate, latest->run, latest->level);
		check_weights(latest, candidate);
		/* The other steps of its run may show that it is not whole. */
		if (is_good(candidate) && candidate->step_name.step >= 0)
			check_adapter(latest, candidate);
		if (is_good(candidate) && candidate->step_name.step >= 0)
			check_kinds(latest, candidate);
		candidate->is_named = latest->named < wanted && is_good(candidate);
		latest->named += candidate->is_named;
		latest->shown = i + 1;
	}
}

/* Names usually show the newest, so that most checkpoints of a long run are not opened.
 * Listing all needs all. */
static void check_inputs(struct latest *latest)
{
	bool all = latest->options->all || answer_is_machine(latest->run);
	size_t wanted = all ? SIZE_MAX : (size_t)latest->options->count;

	/* Those that may be the newest whatever the others are, and those that pointers
	 * name. */
	for (size_t i = 0; i < latest->count;)
		if (latest->candidates[i].by_name || !check_candidate(latest, i))
			i++;
	pointers_follow(latest);
	for (size_t i = 0; i < latest->pointer_count; i++) {
		const struct run_candidate *to = latest->pointers[i].to;

		if (to != NULL && to->result == NULL)
			check_candidate(latest, (size_t)(to - latest->candidates));
	}
	do {
		check_newest(latest, wanted);
		choose(latest);
		wanted = wanted < SIZE_MAX / 2 ? wanted * 2 : SIZE_MAX;
	} while (latest->unjudged > 0 && latest->named < (size_t)latest->options->count);
}

/* ---- messages ---- */

/* Whether nothing is wrong but that classes are built which are on no list. */
static bool only_builds(const struct run_candidate *candidate)
{
	bool builds = false;

	FOR_EACH(i, candidate->own.finding_count, finding, &candidate->own.findings[i]) {
		if (finding->severity == SEVERITY_ERROR)
			return false;
		builds |= strcmp(finding->rule, "FI3018") == 0;
	}
	return builds;
}

/* The first entry of a run without candidates that may be a part of a checkpoint. */
static const char *unclear(const struct latest *latest)
{
	const char *unclear = NULL;

	for (size_t i = 0; i < latest->run->collected->input_count && unclear == NULL;
		i++)
		if (latest->folders[i].below != NULL)
			unclear = fsdp_discover_unclear(latest->folders[i].below);
	return unclear;
}

/* The directories could be listed to their ends, and nothing in them is of a save. */
static bool is_empty(const struct latest *latest)
{
	bool empty = latest->count == 0 && latest->pointer_count == 0 &&
		     unclear(latest) == NULL;

	for (size_t i = 0; i < latest->run->collected->input_count && empty; i++)
		empty = latest->folders[i].below != NULL &&
			fsdp_discover_unread(latest->folders[i].below) == 0 &&
			!fsdp_discover_limit_reached(latest->folders[i].below);
	return empty;
}

static void print_none(struct latest *latest)
{
	if (latest->count == 0) {
		const char *path = latest->run->path, *part = unclear(latest);

		if (part != NULL)
			run_reason(latest->run,
				"%s: no checkpoint, but '%s' may be a part of one: see fsdp-inspect info",
				path, part);
		else if (is_empty(latest))
			run_note(latest->run,
				"%s: no checkpoint, tracker file or unfinished save",
				path);
		else
			run_reason(latest->run, "%s: no checkpoint", path);
	} else if (latest->named == 0 && !is_table(latest))
		run_reason(latest->run, "%s: no good checkpoint (%zu checked)",
			latest->run->path, latest->count);
	if (!is_table(latest)) {
		struct run *run = latest->run;
		size_t skipped = 0;

		/* Newer than what is named, or all if nothing is. What cannot be read and
		 * has no step in its name may be newer: last.ckpt. */
		FOR_EACH(i, latest->count, candidate, &latest->candidates[i]) {
			bool may_be_newer = candidate->result != NULL &&
					    candidate->step == FSDP_ABSENT &&
					    candidate->epoch == FSDP_ABSENT;
			if (candidate->is_named || is_good(candidate) ||
				(i >= latest->shown && !may_be_newer) ||
				++skipped > SKIPPED_MOST)
				continue;
			if (latest->named > 0)
				run_note(run, "%s skipped: %s", candidate->path,
					candidate->why);
			else
				run_reason(run, "%s: %s: %s", candidate->path,
					candidate->result, candidate->why);
		}
		if (skipped > SKIPPED_MOST)
			(latest->named > 0 ? run_note : run_reason)(run,
				"%zu more skipped: fsdp-inspect latest --explain %s",
				skipped - SKIPPED_MOST, run->path);
	}
	if (latest->count == 0 || latest->named > 0 || is_table(latest))
		return;
	if (!only_builds(&latest->candidates[0]))
		run_reason(latest->run, "fsdp-inspect audit %s prints how to repair it",
			path_to_paste(latest->candidates[0].path));
	else
		run_note(latest->run,
			"no other problems: a program with these classes can load it; torch.load needs weights_only=False, which runs code from the file");
}

static void print_cost(struct latest *latest)
{
	uint64_t all = 0, old = 0;
	char total[HUMAN_ROOM], rest[HUMAN_ROOM];

	if (!latest->options->all)
		return;
	FOR_EACH(i, latest->count, candidate, &latest->candidates[i]) {
		uint64_t bytes = candidate->bytes != UINT64_MAX ? candidate->bytes : 0;

		if (__builtin_add_overflow(all, bytes, &all))
			return;
		old += candidate->is_named ? 0 : bytes;
	}
	if (all == 0)
		return;
	run_total(latest->run,
		latest->named > 0 && old > 0
			? "%zu checkpoint%s, %s (* marks the newest good one; the rest take %s)"
			: "%zu checkpoint%s, %s",
		latest->count, latest->count == 1 ? "" : "s",
		out_bytes(latest->run->out, all, total),
		out_bytes(latest->run->out, old, rest));
}

/* Nothing could be checked, the run is empty, nothing is good, or something newer may be.
 */
static int status_of(const struct latest *latest)
{
	bool blind = latest->count > 0 || latest->is_blind;
	bool partial = false;

	FOR_EACH(i, latest->count, candidate, &latest->candidates[i]) {
		blind &= candidate->result != NULL &&
			 strcmp(candidate->result, "partial") == 0 &&
			 candidate->own.failure_count > 0;
		partial |= candidate->own.failure_count > 0;
	}
	return blind                ? STATUS_FAILED
	       : is_empty(latest)   ? STATUS_NOTHING
	       : latest->named == 0 ? STATUS_BAD
	       : partial            ? STATUS_PARTIAL
				    : STATUS_GOOD;
}

static void run_latest(struct run *run)
{
	const struct latest_options *options = run->options;
	struct latest *latest = run_memory(run, 1, sizeof *latest);
	struct table table = { .key = "candidates",
		.main = true,
		.rows_only = true,
		.view = options->all ? VIEW_ALL : VIEW_EXPLAIN };

	*latest = (struct latest){ .run = run,
		.options = options,
		.level = (strcmp(options->level, "data") == 0      ? FSDP_LEVEL_DATA
			  : strcmp(options->level, "headers") == 0 ? FSDP_LEVEL_HEADERS
								   : FSDP_LEVEL_QUICK) };
	candidates_find(latest);
	check_inputs(latest);
	trackers_check(latest);
	int status = status_of(latest);
	/* An unreadable one may be newer than its name shows, and good. */
	FOR_EACH(i, latest->count, candidate, &latest->candidates[i]) {
		const struct failure *from = candidate->own.failures;
		struct failure *failure =
			candidate->own.failure_count > 0
				? collected_failure(run->collected, from->code)
				: NULL;

		if (failure == NULL)
			continue;
		failure->rule = from->rule;
		failure->input = candidate->input;
		failure->path = text_new(candidate->path);
		failure->message = text_new(from->message.data);
		failure->hint = text_new(from->hint.data);
	}
	bool is_one = latest->named == 1 && !latest->options->all;
	const char *named = "";
	for (size_t i = 0; is_one && i < latest->count; i++)
		if (latest->candidates[i].is_named)
			named = text_last(text_of(latest->candidates[i].path), '/').data;
	for (size_t i = 0; i < latest->count; i++)
		if (latest->candidates[i].is_named && latest->candidates[i].is_release)
			run_note(run, "%s: " LATEST_RELEASE, latest->candidates[i].path);
	if (status != STATUS_FAILED)
		print_none(latest);
	if (latest->named > 0 && latest->level != FSDP_LEVEL_DATA)
		run_note(run,
			"%s%sonly %s were checked; fsdp-inspect audit --data also checks contents",
			named, named[0] != '\0' ? " is the newest good checkpoint; " : "",
			latest->level == FSDP_LEVEL_QUICK ? "names and sizes"
							  : "headers");
	print_cost(latest);
	run_begin(run, status);
	if (run->status == STATUS_FAILED)
		return;
	out_fields(run->out, &latest_record, (struct subject){ NULL, latest });
	write_rows(latest, &table);
	table.rows_only = false;
	table.text_only = true;
	if (is_table(latest))
		write_rows(latest, &table);
	for (size_t i = 0; !is_table(latest) && i < latest->count; i++) {
		if (!latest->candidates[i].is_named)
			continue;
		out_verbatim(run->out, text_of(latest->candidates[i].path));
		out_verbatim(run->out, text_of("\n"));
	}
}

const struct command command_latest = {
	.name = "latest",
	.group = GROUP_START,
	.summary = "print the newest good checkpoint of a run",
	.synopsis = "[--level=LEVEL] [--explain | --all] [--count=N] [-0] RUN...",
	.examples = { "latest runs/exp7", "latest --level=headers --explain runs/exp7",
		"latest --all runs/exp7" },
	.exit_1 = "no checkpoint is good",
	.exit_4 = "the run is empty: no checkpoint, tracker file or unfinished save",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_columns, NULL },
	.shapes = SHAPE_FACTS | SHAPE_TABLE | SHAPE_ITEMS,
	.answer = &latest_record,
	.output = "text",
	.inputs = INPUTS_RUNS,
	.options_size = sizeof(struct latest_options),
	.perform = run_latest,
};

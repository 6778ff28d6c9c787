/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LATEST_LATEST_ANSWER_H
#define LATEST_LATEST_ANSWER_H

#include <fsdp/audit.h>
#include <string.h>

#include "args/parse.h"
#include "session/diagnostics.h"

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

/* Length of the directory's part of a path, with the slash. */
size_t folder_size(const char *path);

/* Makes it bad, for this reason. */
void set_bad(struct run_candidate *candidate, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Checks it at this level, and fills all except its path and names. */
void candidate_check(
	struct run_candidate *candidate, struct run *run, enum fsdp_level level);

static inline bool is_good(const struct run_candidate *candidate)
{
	return candidate->result != NULL && strcmp(candidate->result, "good") == 0;
}

/* Makes it bad if the other steps of its run show that it is not whole. */
void siblings_check(struct latest *latest, struct run_candidate *candidate);

#endif

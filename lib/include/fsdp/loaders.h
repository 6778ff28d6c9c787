/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_LOADERS_H
#define FSDP_LOADERS_H

#include <fsdp/survey.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * What loaders of other programs would do with a checkpoint: load it, refuse it, or load
 * something else without a word. Nothing is loaded: each loader is a table of rules, read
 * in its source and seen in runs, which are asked one after the other.
 *
 * A loader is called with its defaults, but for the parameters that the caller sets. Its
 * model is the one that a list of expected names, the configuration in the folder or the
 * checkpoint itself describes. What depends on anything else is not judged, and never
 * called loadable.
 */

enum fsdp_load_verdict {
	FSDP_LOADS,          /* every tensor of the model gets the saved one */
	FSDP_LOAD_DIFFERS,   /* the call returns, but not all is what was saved */
	FSDP_LOAD_REFUSES,   /* the call raises */
	FSDP_LOAD_NOT_JUDGED /* the files do not tell */
};

/** "loads", "differs", "refuses", "not_judged"; the last one past the end. */
FSDP_API const char *fsdp_load_verdict_name(enum fsdp_load_verdict verdict);

/** Why. Texts live as long as the result. */
struct fsdp_load_reason {
	const char *rule; /* "hf-missing" */
	enum fsdp_load_verdict verdict;
	const char *exception; /* class that is raised, with its module; or NULL */
	/* The first line that the loader prints; or what happens without a word */
	const char *message;
	const char *way_out;           /* what was seen to help, or NULL */
	const struct fsdp_span *names; /* of tensors or files, the first ones … */
	size_t name_count;
	uint64_t all_names; /* … of so many */
};

/** A parameter of a loader that changes what it does. */
struct fsdp_loader_option {
	const char *name; /* "strict", as the loader's call or configuration has it */
	/* The values that it takes, up to NULL; NULL: any text */
	const char *const *words;
	bool is_count;     /* it takes a number above 0 */
	const char *about; /* what it is, one line */
};

/** Such a parameter, set to a value. */
struct fsdp_load_choice {
	const char *name, *value;
};

/** The answer of one loader. */
struct fsdp_load_result {
	const char *loader;  /* "hf" */
	const char *library; /* "transformers" */
	const char *version; /* of the library: the rules are of it */
	enum fsdp_load_verdict verdict;
	const struct fsdp_load_reason *reasons; /* in the order in which they are met */
	size_t reason_count;
	/* Those of the asked choices that it has; their texts are the caller's. */
	const struct fsdp_load_choice *choices;
	size_t choice_count;
	/* Files of weights that it reads, under the folder, in order of names: of several
	 * sets those of the one that wins. None if it refuses, or names no file itself. */
	const struct fsdp_span *took;
	size_t took_count;
};

/** A tensor that the loader's model has. */
struct fsdp_load_expected {
	struct fsdp_span name;
	const int64_t *shape; /* NULL: any */
	uint32_t dims;
};

/** All zero but `size`, `loaders` and `loader_count` means defaults. */
struct fsdp_loads_options {
	size_t size;                /* of this struct, as the caller knows it */
	const char *const *loaders; /* names; those that are none are left out */
	size_t loader_count;
	const char *path;    /* as messages have it; NULL: "" */
	const char *version; /* of the libraries; NULL: the newest that is known */
	uint32_t world;      /* of the run that loads; 0: as many ranks as saved it */
	bool data;           /* compare the bytes of sets of weights */

	/* What the model has; NULL: as the configuration says. */
	const struct fsdp_load_expected *expected;
	size_t expected_count;

	/* Parameters of the loaders; of one that is named twice the last counts. A loader
	 * leaves those out that it does not have or whose value it does not take. */
	const struct fsdp_load_choice *choices;
	size_t choice_count;
};

/** Answers of several loaders. */
struct fsdp_loads;

/**
 * Asks the loaders about what lies there. The caller owns *ret_loads, which needs the
 * survey no more. Fails if memory ends; damage is an answer. Time is that of opening each
 * set of weights, and of reading those of one name with `data`.
 */
FSDP_API bool fsdp_loads_new(struct fsdp_survey *survey,
	const struct fsdp_loads_options *options, struct fsdp_loads **ret_loads,
	struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_loads_free(struct fsdp_loads *loads);

/** In the order in which loaders were named. */
FSDP_API size_t fsdp_loads_count(const struct fsdp_loads *loads);
FSDP_API const struct fsdp_load_result *fsdp_loads_result(
	const struct fsdp_loads *loads, size_t index);

/** How two sets of weights in one folder compare. */
enum fsdp_set_likeness {
	FSDP_SETS_SAME,     /* the same names, shapes, types and bytes */
	FSDP_SETS_DIFFER,   /* one of these differs */
	FSDP_SETS_NOT_TOLD, /* all but the bytes are the same, which were not compared */
	/* Of Mistral or Meta beside that of transformers: no name is in both, or it is
	 * one rank's part; not compared */
	FSDP_SETS_OTHER_FORMAT,
	FSDP_SETS_OTHER_MODEL /* an actor and a critic, which are meant to differ */
};

/** How the tensors of two models compare. */
struct fsdp_set_shares {
	uint64_t first, second; /* tensors of each */
	uint64_t alike;         /* of these with one name, shape and type in both */
	uint64_t equal; /* of these with the same bytes; 0 where they were not read */
};

/** Two of them. */
struct fsdp_set_pair {
	const char *first, *second; /* names of files */
	enum fsdp_set_likeness likeness;
	struct fsdp_span name;         /* of the first tensor that differs, or absent */
	struct fsdp_set_shares shares; /* of FSDP_SETS_OTHER_MODEL */
	/* Of FSDP_SETS_OTHER_MODEL: the second, which lives as long as the survey; NULL: it
	 * cannot be opened, and nothing is compared. */
	const struct fsdp_checkpoint *checkpoint;
};

/** All pairs of sets of weights of one model, or of one adapter, in a folder; and an actor
 * beside its critic. */
struct fsdp_set_pairs;

/** The caller owns *ret_pairs. `data`: compare the bytes, which are read then. Fails if
 * memory ends. */
FSDP_API bool fsdp_set_pairs_new(struct fsdp_survey *survey, bool data,
	struct fsdp_set_pairs **ret_pairs, struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_set_pairs_free(struct fsdp_set_pairs *pairs);

/** Each pair once. */
FSDP_API size_t fsdp_set_pair_count(const struct fsdp_set_pairs *pairs);
FSDP_API struct fsdp_set_pair fsdp_set_pair(
	const struct fsdp_set_pairs *pairs, size_t index);

/** Who takes which: "hf, trainer take model.safetensors; accelerate takes
 * pytorch_model.bin". Lives as long as the pairs. */
FSDP_API const char *fsdp_set_pairs_takers(const struct fsdp_set_pairs *pairs);

/** Names that such a set may have; NULL past the end. */
FSDP_API const char *fsdp_set_name(size_t index);

/** Names of files or folders that hold two models which are trained together: the first of
 * each pair at even numbers, the second behind it; NULL past the end. */
FSDP_API const char *fsdp_set_model_name(size_t index);

/** Names of all loaders; NULL past the end. */
FSDP_API const char *fsdp_loader_name(size_t index);

/** The parameters that rules of a loader know; NULL past the end, or of no loader. */
FSDP_API const struct fsdp_loader_option *fsdp_loader_option(
	const char *loader, size_t index);

/** Whether the parameter may have this value. */
FSDP_API bool fsdp_loader_option_takes(
	const struct fsdp_loader_option *option, const char *value);

/** Whether rules for a version of that loader's library are known. A loader that is
 * unknown has none. */
FSDP_API bool fsdp_loader_has_version(const char *loader, const char *version);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a loader of another program would do with a directory: load everything, load
 * something else, refuse it, or unknown.
 *
 * Nothing is loaded and no Python runs. Each loader is a list of rules in the order
 * in which the loader's own code decides, read from the source of the library and
 * tried with the release that fsdp_load_result.version has. tests/oracle/loaders.py
 * runs the real loaders on the samples and compares the verdicts.
 *
 * A verdict is given only if the files contain all that it depends on; else it is
 * "not judged". Results belong to the caller. They keep no reference to the
 * directory.
 *
 * Example (testdata/hf/llama-sharded):
 *
 *     bool print_verdict(const char *path, struct fsdp_error **ret_error)
 *     {
 *         const char *const names[] = { "hf" };
 *         struct fsdp_load_check_options options = { .size = sizeof options,
 *             .loaders = names, .loader_count = 1, .path = path };
 *         struct fsdp_scan *survey = NULL;
 *         struct fsdp_load_check *loads = NULL;
 *         bool good = fsdp_scan_new(path, NULL, 0, NULL, &survey, ret_error) &&
 *             fsdp_load_check_new(survey, &options, &loads, ret_error);
 *         for (size_t i = 0; good && i < fsdp_load_check_count(loads); i++) {
 *             const struct fsdp_load_result *result = fsdp_load_check_result(loads, i);
 *             printf("%s: %s\n", result->library,
 *                 fsdp_load_verdict_name(result->verdict));
 *             for (size_t k = 0; k < result->reason_count; k++)
 *                 printf("  %s\n", result->reasons[k].code);
 *         }
 *         fsdp_load_check_free(loads);
 *         fsdp_scan_free(survey);
 *         return good;
 *     }
 *
 * It prints:
 *
 *     transformers: loads
 */
#ifndef FSDP_LOADERS_H
#define FSDP_LOADERS_H

#include <fsdp/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * What loaders of other programs would do with a checkpoint: load it, refuse it, or
 * load something else without a warning. Nothing is loaded: each loader is a table
 * of rules, taken from its source and tried in runs, which are checked in order.
 *
 * A loader is called with its defaults, except the parameters that the caller sets.
 * Its model is the one that a list of expected names, the configuration in the
 * directory or the checkpoint itself describes. What depends on anything else is
 * not judged, and never called loadable.
 */

enum fsdp_load_verdict {
	/* Every tensor of the model gets the saved one. */
	FSDP_LOADS,
	/* The call returns, but not all is what was saved. */
	FSDP_LOAD_DIFFERS,
	/* The call raises. */
	FSDP_LOAD_REFUSES,
	/* The files do not contain enough information. */
	FSDP_LOAD_NOT_JUDGED
};

/** "loads", "differs", "refuses", "not_judged"; the last one past the end. */
FSDP_API const char *fsdp_load_verdict_name(enum fsdp_load_verdict verdict);

/** Codes of reasons, the same for all loaders. A code keeps its meaning in all
 * releases of this library. Static; NULL past the end. */
FSDP_API const char *fsdp_load_code_name(size_t index);

/** Why. Texts live as long as the result. */
struct fsdp_load_reason {
	/* "missing-tensor": one of fsdp_load_code_name(). */
	const char *code;
	/* What this reason alone leads to. */
	enum fsdp_load_verdict verdict;
	/* One sentence without a full stop. The loader itself prints another one, which
	 * may change with its releases. */
	const char *message;
	/* What was seen to help, or NULL. */
	const char *way_out;
	/* Of tensors or files: the first ones … */
	const struct fsdp_span *names;
	size_t name_count;
	/* … of so many. */
	uint64_t all_names;
};

/** A parameter that changes the behavior of a loader. */
struct fsdp_loader_option {
	/* "strict", as the loader's call or configuration has it. */
	const char *name;
	/* The values that it takes, up to NULL; NULL: any text */
	const char *const *words;
	/* It takes a number above 0. */
	bool is_count;
	/* Description in one line. */
	const char *about;
};

/** Such a parameter, set to a value. */
struct fsdp_loader_setting {
	/* As fsdp_loader_option.name has it, and one of its words, or digits. */
	const char *name, *value;
};

/** The answer of one loader. */
struct fsdp_load_result {
	/* "hf": one of fsdp_loader_name. */
	const char *loader;
	/* As people call it: "from_pretrained". */
	const char *title;
	/* The Python package that has it, by its name on PyPI. */
	const char *library;
	/* The release that the rules were tried with: "4.57.6". */
	const char *version;
	/* It is the loader of the checkpoint's own family. */
	bool is_family;
	/* At least as bad as the worst of its reasons. */
	enum fsdp_load_verdict verdict;
	/* In the order in which they are met. */
	const struct fsdp_load_reason *reasons;
	size_t reason_count;
	/* Those of the asked choices that it has; their texts are the caller's. */
	const struct fsdp_loader_setting *choices;
	size_t choice_count;
	/* Files of weights that it reads, relative to the directory, in order of names:
	 * if it has several sets, those of the chosen one. Empty if it refuses, or names
	 * no file. */
	const struct fsdp_span *took;
	size_t took_count;
};

/** A tensor that the loader's model has. */
struct fsdp_load_expected {
	/* As the model's own state dict has it. */
	struct fsdp_span name;
	/* Elements per dimension, `dims` numbers; NULL: any shape. */
	const int64_t *shape;
	uint32_t dims;
};

/** All zero but `size`, `loaders` and `loader_count` means defaults. */
struct fsdp_load_check_options {
	/* Bytes of this struct in the caller's version of this header. */
	size_t size;
	/* Names of loaders (fsdp_loader_name); unknown ones are skipped. "auto" is
	 * the loader of the directory's own family, if it has one. */
	const char *const *loaders;
	size_t loader_count;
	/* The directory as the user typed it, for messages and suggested commands; NULL:
	 * "". */
	const char *path;
	/* Of the libraries; NULL: the newest that is known. */
	const char *version;
	/* World size of the run that loads; 0: as many ranks as saved it. */
	uint32_t world;
	/* Compare the bytes of sets of weights, which reads them. */
	bool data;

	/* Names of the model's tensors; NULL: by the configuration. */
	const struct fsdp_load_expected *expected;
	size_t expected_count;

	/* Parameters of the loaders; of one that is named twice the last counts. A loader
	 * leaves those out that it does not have or whose value it does not take. */
	const struct fsdp_loader_setting *choices;
	size_t choice_count;
};

/** Answers of several loaders for one directory. They do not change, so any number
 * of threads may look; every pointer lives until fsdp_load_check_free. */
struct fsdp_load_check;

/**
 * Checks the rules of the loaders on the directory. The caller owns *ret_loads,
 * which does not need the survey any more. Fails if memory ends; damage is an
 * answer. Time is that of opening each set of weights, and of reading those of one
 * name with `data`.
 */
FSDP_API bool fsdp_load_check_new(struct fsdp_scan *survey,
	const struct fsdp_load_check_options *options, struct fsdp_load_check **ret_loads,
	struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_load_check_free(struct fsdp_load_check *loads);

/** In the order in which loaders were named. */
FSDP_API size_t fsdp_load_check_count(const struct fsdp_load_check *loads);
FSDP_API const struct fsdp_load_result *fsdp_load_check_result(
	const struct fsdp_load_check *loads, size_t index);

/** Relation between two sets of weights in one directory. */
enum fsdp_set_likeness {
	/* The same names, shapes, types and bytes. */
	FSDP_SETS_SAME,
	/* One of these differs. */
	FSDP_SETS_DIFFER,
	/* All but the bytes are the same, which were not compared. */
	FSDP_SETS_NOT_STATED,
	/* Of Mistral or Meta in addition to that of transformers: no name is in both, or
	 * it is the part of one rank; not compared */
	FSDP_SETS_OTHER_FORMAT,
	/* An actor and a critic, which are meant to differ. */
	FSDP_SETS_OTHER_MODEL
};

/** How the tensors of two models compare. */
struct fsdp_set_shares {
	/* Tensors of each. */
	uint64_t first, second;
	/* Of these with one name, shape and type in both. */
	uint64_t alike;
	/* Of these with the same bytes; 0 where they were not read. */
	uint64_t equal;
};

/** Two sets of weights: a loader reads one of them. */
struct fsdp_weight_set_pair {
	/* Names of files or directories, relative to the surveyed one. */
	const char *first, *second;
	enum fsdp_set_likeness likeness;
	/* Of the first tensor that differs, or absent. */
	struct fsdp_span name;
	/* Of FSDP_SETS_OTHER_MODEL; else zero. */
	struct fsdp_set_shares shares;
	/* Of FSDP_SETS_OTHER_MODEL: the second, which lives as long as the survey; NULL:
	 * it cannot be opened, and nothing is compared. */
	const struct fsdp_checkpoint *checkpoint;
};

/** All pairs of sets of weights of one model, or of one adapter, in a directory; and
 * an actor with its critic. */
struct fsdp_weight_set_pairs;

/** The caller owns *ret_pairs. `data`: compare the bytes, which are read then. Fails
 * if memory ends. */
FSDP_API bool fsdp_weight_set_pairs_new(struct fsdp_scan *survey, bool data,
	struct fsdp_weight_set_pairs **ret_pairs, struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_weight_set_pairs_free(struct fsdp_weight_set_pairs *pairs);

/** Pairs, each once. The index must be below the count; names live as long as the
 * pairs. */
FSDP_API size_t fsdp_weight_set_pair_count(const struct fsdp_weight_set_pairs *pairs);
FSDP_API struct fsdp_weight_set_pair fsdp_weight_set_pair(
	const struct fsdp_weight_set_pairs *pairs, size_t index);

/** Who takes which: "hf, trainer take model.safetensors; accelerate takes
 * pytorch_model.bin". Lives as long as the pairs. */
FSDP_API const char *fsdp_weight_set_loaders(const struct fsdp_weight_set_pairs *pairs);

/** File names that such a set may have ("model.safetensors", …). Static; NULL past
 * the end. */
FSDP_API const char *fsdp_set_name(size_t index);

/** Names of files or directories of two models that are trained together: the first
 * of each pair at even numbers, the second after it; NULL past the end. */
FSDP_API const char *fsdp_set_model_name(size_t index);

/** Names of all loaders ("hf", "trainer", "dcp", …), as --for of the command takes
 * them. Static; NULL past the end. */
FSDP_API const char *fsdp_loader_name(size_t index);

/** The parameters that rules of a loader use; NULL past the end, or of no loader. */
FSDP_API const struct fsdp_loader_option *fsdp_loader_option(
	const char *loader, size_t index);

/** Whether the parameter may have this value: one of its words, a number above 0, or
 * any text. fsdp_load_check_new ignores a choice that it does not take. */
FSDP_API bool fsdp_loader_option_takes(
	const struct fsdp_loader_option *option, const char *value);

/** Whether rules for a version of that loader's library are known. A loader that is
 * unknown has none. */
FSDP_API bool fsdp_loader_has_version(const char *loader, const char *version);

#ifdef __cplusplus
}
#endif

#endif

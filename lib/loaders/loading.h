/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_LOADERS_LOADING_H
#define FSDP_LOADERS_LOADING_H

#include <fsdp/loaders.h>

#include "base/arena.h"

/*
 * One loader that is asked about one checkpoint: the facts that its rules share, and the
 * words of a rule that holds. A rule is a row: when it holds, and what the loader does
 * then.
 */

enum {
	FSDP_LOAD_WORDS = 5, /* of a rule … */
	FSDP_LOAD_ROOT = 10, /* … and from there on of all rules of the loader; {root} */
	FSDP_LOAD_KEPT,
	FSDP_LOAD_WORD = 1024,
	FSDP_LOAD_WORD_BYTES = 128,
	FSDP_LOAD_NAMES = 20
};

/* A tensor of the model, or of what is stored. */
struct fsdp_load_tensor {
	struct fsdp_span name;
	const int64_t *shape; /* NULL: any */
	uint32_t dims, dtype;
	struct fsdp_load_tensor *match; /* on the other side, or NULL */
	bool is_misshaped;              /* of the model: and that one has another shape */
	uint8_t tie;                    /* of the model: enum fsdp_load_tie */
	bool was_tied;  /* of the model: and none of its names is stored */
	bool is_value;  /* stored: of no shape */
	bool is_deep;   /* stored: not under a key of the outermost dict */
	uint8_t expert; /* enum fsdp_load_expert */
	uint32_t layer; /* of an expert */
};

/* Tied names: one stored name is enough. */
enum fsdp_load_tie {
	FSDP_LOAD_UNTIED,
	FSDP_LOAD_TIED_WEIGHT, /* of the embedding and the head */
	FSDP_LOAD_TIED_BIAS,   /* of the head */
	FSDP_LOAD_EITHER,      /* two names of one head */
	FSDP_LOAD_OPTIONAL,    /* none of the model misses it */
	FSDP_LOAD_TIE_COUNT
};

/* Which of an expert's matrices it is. */
enum fsdp_load_expert {
	FSDP_LOAD_NO_EXPERT,
	FSDP_LOAD_EXPERT_GATE,
	FSDP_LOAD_EXPERT_UP,
	FSDP_LOAD_EXPERT_DOWN,
	FSDP_LOAD_EXPERT_COUNT
};

struct fsdp_load_tensors {
	struct fsdp_load_tensor *items; /* in order of names */
	size_t count;
};

struct fsdp_loading {
	struct fsdp_scan *survey;
	const struct fsdp_load_check_options *options;
	/* Of this check; of its answers. All runs in fsdp_arena_try. */
	struct fsdp_arena *arena, *answers;
	const char *path;
	bool is_before_5;  /* release of transformers */
	const char *torch; /* the same; NULL: another library, or the newest */
	const struct fsdp_loader_setting *choices; /* those that this loader has */
	size_t choice_count;
	bool is_own; /* the loader was chosen from the contents of the directory */
	uint64_t is; /* facts: bits of the loader's own, and shared ones */
	void *own;   /* what its rules have read, or NULL */
	/* The answer lists the files of the chosen weights, and this file; NULL: no
	 * other. */
	bool lists_weights;
	const char *listed_beside;

	/* That is asked; if it holds: {0} to {4} in its texts, which are empty at first,
	 * and its names. {5} to {9} are written before any rule. */
	const struct fsdp_load_rule *rule;
	char words[FSDP_LOAD_KEPT][FSDP_LOAD_WORD];
	struct fsdp_span names[FSDP_LOAD_NAMES];
	size_t name_count;
	uint64_t all_names;

	/* ---- weights: chosen-weights.c ---- */
	const char *weights;        /* name of the chosen set; NULL: none */
	struct fsdp_scan_root root; /* of a pickle; all zero of other weights */
	bool has_weights;           /* the above is known */
	struct fsdp_load_tensors model, stored;
	bool has_model, has_stored; /* they are known */
	bool was_compared;
	size_t good_items, bad_items; /* load-dcp.c: once they are counted */
	size_t missing, unexpected, misshaped;
	struct fsdp_load_tensor *first_missing, *first_unexpected, *first_misshaped;
	const char *base_prefix; /* of the model, as "model." */
	bool converts;           /* the loader converts stored names to those in memory */
	bool takes_values;       /* the loader asks for all that is stored by its name */
	bool adds_prefix;        /* the loader puts it in front where it is missing */
};

/* Why: the closed list of reasons. */
enum fsdp_load_code {
	FSDP_LOAD_NO_CODE,
#define FSDP_LOAD_CODE(constant, code, message, fix) FSDP_LOAD_##constant,
#include "loaders/reason-codes.def"
#undef FSDP_LOAD_CODE
};

/* It holds if all of its conditions do. */
struct fsdp_load_rule {
	enum fsdp_load_verdict verdict;
	enum fsdp_load_code code;
	bool (*holds)(struct fsdp_loading *loading); /* may be NULL */
	/* NULL: those of the code. {path}, {weights}, {root}: what these are, {copy}: a
	 * fix for their file, {0} to {4}. A fix works on these files, or it
	 * is not given: `holds` checks what it needs, or makes it a word, which is empty
	 * then. */
	const char *message, *fix;
	uint64_t when, unless; /* facts that must all be true, or all be false */
	const char *lacks;     /* a file that is missing, which is word 0; or NULL */
	const char
		*dtypes; /* a stored tensor has one of these, which is word 0; or NULL */
	const char *broken;  /* patterns: one of these files is neither a pickle nor JSON,
				    * whichever its name suggests; it is word 0; or NULL */
	unsigned arg;        /* for `holds` */
	const char *text;    /* the same */
	const char *finding; /* id of a rule that the weights break, or NULL; word 0
				    * and the names: the tensors, or files */
	const char *since, *until; /* versions; NULL: any. `until` has it no more */
	bool ends;                 /* the call returns here */
};

/* Rows of the table. */
#define FSDP_REFUSES(code, ...)                                  \
	{                                                        \
		FSDP_LOAD_REFUSES, FSDP_LOAD_##code, __VA_ARGS__ \
	}
#define FSDP_DIFFERS(code, ...)                                  \
	{                                                        \
		FSDP_LOAD_DIFFERS, FSDP_LOAD_##code, __VA_ARGS__ \
	}
/* It loads, and ignores what is stored and of no use to its model. */
#define FSDP_IGNORES(code, ...)                           \
	{                                                 \
		FSDP_LOADS, FSDP_LOAD_##code, __VA_ARGS__ \
	}
#define FSDP_NOT_JUDGED(code, ...)                                  \
	{                                                           \
		FSDP_LOAD_NOT_JUDGED, FSDP_LOAD_##code, __VA_ARGS__ \
	}
#define FSDP_NO_FIX ""

/* Rows of all loaders that open weights by themselves, of those that take a dict of
 * tensors, and of those that choose one of several sets. */
#define FSDP_READS_WEIGHTS(facts)                                                       \
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_shard, .when = facts),               \
		FSDP_REFUSES(                                                           \
			UNSAFE_GLOBAL, fsdp_load_weights_refuse_global, .when = facts), \
		FSDP_REFUSES(                                                           \
			UNSAFE_PICKLE, fsdp_load_weights_refuse_opcode, .when = facts), \
		FSDP_REFUSES(DAMAGED_FILE, fsdp_load_is_damaged, .when = facts)
#define FSDP_TAKES_DICT(facts)                                                         \
	FSDP_REFUSES(NO_STATE_DICT, .when = (facts) | FSDP_LOAD_NO_DICT),              \
		FSDP_NOT_JUDGED(NO_STATE_DICT, .when = (facts) | FSDP_LOAD_OTHER_ROOT, \
			.ends = true),                                                 \
		FSDP_REFUSES(NO_STATE_DICT, .when = (facts) | FSDP_LOAD_UNUSUAL_KEY)
#define FSDP_COMPARES_SETS(facts)                                                     \
	FSDP_DIFFERS(OTHER_WEIGHTS, fsdp_load_has_other_set, .arg = FSDP_SETS_DIFFER, \
		.when = facts),                                                       \
		FSDP_NOT_JUDGED(UNREAD_WEIGHTS, fsdp_load_has_other_set,              \
			.arg = FSDP_SETS_NOT_STATED, .when = facts)

/* What the value of a setting is. */
enum fsdp_load_kind {
	FSDP_LOAD_GIVEN, /* not null */
	FSDP_LOAD_TEXT,
	FSDP_LOAD_DICT,
	FSDP_LOAD_SET, /* neither null, false, 0 nor empty */
};

/* A fact that holds if what its row has is so. Words are separated by single spaces. */
struct fsdp_load_fact {
	uint64_t bit;
	/* One of these files or directories is there: names or patterns. "?" stands for a
	 * character, also for a space; "*" for any text without "/", if the pattern has
	 * none. */
	const char *any;
	/* This parameter has one of these values; NULL: any. */
	const char *option, *values;
	/* One of these keys of the document, "outer.key" too, has a value of this kind: a
	 * text that is one of `values`. Without keys: the document is not a JSON object.
	 * No fact of the index holds of weights without one. */
	const char *document, *keys;
	enum fsdp_load_kind kind;
	bool is_lacking; /* none of them has */
};

/* In place of a document: the index of the chosen weights. */
#define FSDP_LOAD_OF_INDEX ""

/* Facts of all loaders. */
#define FSDP_LOAD_EXPECTS (1ull << 32)     /* the caller gives the names of the model */
#define FSDP_LOAD_NONE (1ull << 33)        /* no set of weights is taken */
#define FSDP_LOAD_NO_DICT (1ull << 34)     /* the weights are a pickle of another class */
#define FSDP_LOAD_OTHER_ROOT (1ull << 35)  /* … or of one with an unknown layout … */
#define FSDP_LOAD_UNUSUAL_KEY (1ull << 36) /* … or with a key that is not a string … */
#define FSDP_LOAD_NESTED (1ull << 37)      /* … or whose tensors are nested deeper */

struct fsdp_loader {
	const char *name, *title, *library;
	const char *const *versions; /* newest first, up to NULL */
	/* Patterns of sets of weights: the first that is there is taken; may be NULL. */
	const char *order;
	const struct fsdp_load_fact *facts; /* up to bit 0; may be NULL */
	uint64_t is;                        /* facts of the loader itself */
	/* What else is learnt before any rule is asked; may be NULL. */
	void (*begin)(struct fsdp_loading *loading);
	const struct fsdp_load_rule *rules; /* up to one without code */
	const struct fsdp_loader_option
		*options; /* up to one without name; may be NULL */
};

/* The loader of a file, which has its facts, begin() and rules; then its title, its
 * library, the versions and what else it has. */
#define FSDP_LOADER(of, title_of, library_of, versions_of, ...)                        \
	const struct fsdp_loader fsdp_loader_##of = { .name = #of,                     \
		.title = title_of,                                                     \
		.library = library_of,                                                 \
		.versions =                                                            \
			(const char *const[]){ FSDP_LOAD_RELEASES versions_of, NULL }, \
		.facts = facts,                                                        \
		.begin = begin,                                                        \
		.rules = rules,                                                        \
		__VA_ARGS__ }
#define FSDP_LOAD_RELEASES(...) __VA_ARGS__

extern const struct fsdp_loader fsdp_loader_hf, fsdp_loader_trainer, fsdp_loader_peft,
	fsdp_loader_accelerate, fsdp_loader_dcp, fsdp_loader_deepspeed,
	fsdp_loader_megatron, fsdp_loader_weights_only, fsdp_loader_vllm,
	fsdp_loader_sglang;

/* ---- engine.c ---- */

/* Finds out the facts, and which weights it takes. */
void fsdp_load_begin(struct fsdp_loading *loading, const struct fsdp_loader *loader);

/* "5.23.0" against "4.57": negative, 0 or positive. */
int fsdp_load_compare_versions(const char *a, const char *b);

/* Sets a word of the rule; a longer one is cut. These return true. */
bool fsdp_load_report(struct fsdp_loading *loading, size_t word, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
bool fsdp_load_set_word(struct fsdp_loading *loading, size_t word, struct fsdp_span text);
/* Adds a name of the rule; beyond FSDP_LOAD_NAMES it is counted. The first one is word 0,
 * unless that is set. */
bool fsdp_load_name(struct fsdp_loading *loading, struct fsdp_span name);
/* Forgets words and names. */
void fsdp_load_clear(struct fsdp_loading *loading);

/* A file of this name, with "%u" and so on filled in. */
bool fsdp_load_has_file(struct fsdp_loading *loading, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
bool fsdp_load_has_folder(struct fsdp_loading *loading, const char *name);
/* The next file or directory of these patterns, as of struct fsdp_load_fact, from the
 * entry *at on; NULL: none. */
const struct fsdp_scan_entry *fsdp_load_next(
	struct fsdp_loading *loading, size_t *at, const char *patterns);
/* The chosen set, if it is an index; else NULL. */
const char *fsdp_load_index(struct fsdp_loading *loading);
/* A file that the first of the patterns finds. */
const char *fsdp_load_choose(struct fsdp_loading *loading, const char *order);

/* Cuts the first word off, which a single space follows. False: no word is left. */
bool fsdp_load_next_word(const char **words, char word[FSDP_LOAD_WORD_BYTES]);

/* Fix for a file whose content does not match its name: it may be a pointer of Git LFS.
 */
const char *fsdp_load_copying(struct fsdp_loading *loading, const char *name);

/* Whether a tensor has one of these dtypes, as word 0; NULL has no tensors. */
bool fsdp_load_has_dtype(struct fsdp_loading *loading,
	const struct fsdp_checkpoint *checkpoint, const char *names);

/* Whether the weights, or the directory if no set is taken, break this rule of reading:
 * word 0 and the names are the tensors, or files. */
bool fsdp_load_has_finding(struct fsdp_loading *loading, const char *rule);

#define FSDP_LOAD_BROKEN \
	"{0} is damaged", "copy this file again, or use an earlier checkpoint"

/* Reports "directory/name" as word 0 if that is not a file. */
bool fsdp_load_lacks(struct fsdp_loading *loading, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A part as a checkpoint of its own; the error, or NULL: it cannot be opened. */
struct fsdp_scan_part fsdp_load_part(struct fsdp_loading *loading, const char *name);
const struct fsdp_checkpoint *fsdp_load_open(
	struct fsdp_loading *loading, const char *name);

/* The chosen weights, or the directory if no set is chosen. */
const struct fsdp_checkpoint *fsdp_load_opened(struct fsdp_loading *loading);
/* Whether there are scales, or tensors of another dtype than floats of 16 bits or more;
 * true if nothing can be read. */
bool fsdp_load_may_be_quantized(struct fsdp_loading *loading);

/* Leaves what runs if memory ended; frees the error, or NULL. */
void fsdp_load_must(struct fsdp_loading *loading, struct fsdp_error *error);

/* It lives as long as the check. */
struct fsdp_locator *fsdp_load_locate(
	struct fsdp_loading *loading, const struct fsdp_checkpoint *checkpoint);

/* It was read completely, and no finding is an error. NULL is not. */
bool fsdp_load_is_sound(const struct fsdp_checkpoint *checkpoint);

struct fsdp_scan_pickles fsdp_load_pickles(
	struct fsdp_loading *loading, const char *name);

/* What a list or a dict holds: at, then settings[at].end, up to end. None if it is
 * neither. */
struct fsdp_load_items {
	const struct fsdp_setting *settings;
	uint32_t at, end;
};
/* A member of a document, or "outer.key" of a member; if it is not there, it is absent
 * (kind NONE, key absent). */
struct fsdp_setting fsdp_load_setting(
	struct fsdp_loading *loading, const char *document, const char *path);
struct fsdp_load_items fsdp_load_items(
	struct fsdp_loading *loading, const char *document, const char *path);
/* NULL: no more. */
const struct fsdp_setting *fsdp_load_next_item(struct fsdp_load_items *items);
/* The first with one of these keys, words that single spaces separate, that is neither
 * null, false, 0 nor empty; NULL: none. */
const struct fsdp_setting *fsdp_load_find_set(
	struct fsdp_loading *loading, const char *document, const char *keys);
int64_t fsdp_load_integer(struct fsdp_loading *loading, const char *document,
	const char *key, int64_t otherwise);
struct fsdp_span fsdp_load_text(
	struct fsdp_loading *loading, const char *document, const char *key);
/* The type of the model's values in config.json, which has two keys for it. */
struct fsdp_span fsdp_load_dtype(struct fsdp_loading *loading);

extern const char *const fsdp_load_flags[]; /* "true", "false" */

/* Its value, or NULL. */
const char *fsdp_loader_setting(struct fsdp_loading *loading, const char *name);
/* It is one of these words; NULL: it was set. */
bool fsdp_load_is_chosen(
	struct fsdp_loading *loading, const char *name, const char *values);
bool fsdp_load_flag(struct fsdp_loading *loading, const char *name, bool otherwise);

/* ---- chosen-weights.c ---- */

/* Lists the files of the chosen set, then the other one. */
void fsdp_load_list_took(struct fsdp_loading *loading, struct fsdp_load_result *result);

/* A name as it is stored, which lives as long as the check. */
struct fsdp_span fsdp_load_copy_name(struct fsdp_loading *loading,
	const struct fsdp_checkpoint *checkpoint, uint32_t name);

/* Whether a header of the chosen set is damaged; if no set is chosen, of any file. Words:
 * the file, how. */
bool fsdp_load_is_damaged(struct fsdp_loading *loading);
/* A file of the index that is not there, as word 0. */
bool fsdp_load_lacks_shard(struct fsdp_loading *loading);

/* Tensors of any role as they are stored, of the opened checkpoint; none if nothing is
 * opened. */
const struct fsdp_load_tensors *fsdp_load_list_all(struct fsdp_loading *loading);
const struct fsdp_load_tensor *fsdp_load_find_stored(
	struct fsdp_loading *loading, struct fsdp_span name);

/* A word: its sizes as Python lists them, without brackets: "2, 8". */
void fsdp_load_write_numbers(
	struct fsdp_loading *loading, size_t word, const struct fsdp_load_tensor *tensor);

/* What the expected model has under this name; NULL: nothing, or no model is given. */
const struct fsdp_load_tensor *fsdp_load_find_expected(
	struct fsdp_loading *loading, struct fsdp_span name);

/* For qsort. */
int fsdp_load_by_name(const void *a, const void *b);

/* Tensors of a set as they are stored, in order of names: all, or those of the model. */
void fsdp_load_list_stored(struct fsdp_loading *loading,
	const struct fsdp_checkpoint *checkpoint, bool all,
	struct fsdp_load_tensors *ret);
/* A shape that is not known is like any. */
bool fsdp_load_same_shape(
	const struct fsdp_load_tensor *a, const struct fsdp_load_tensor *b);

/* Compares what the model has with what is stored; false: one of them is not known. */
bool fsdp_load_compare(struct fsdp_loading *loading);

/* Rules that several loaders share. Something is missing; the argument: only if nothing
 * is there that the model does not have, or only if something is. */
enum { FSDP_LOAD_ONLY_MISSING = 1, FSDP_LOAD_ALSO_OTHERS };
bool fsdp_load_misses(struct fsdp_loading *loading);
/* What load_state_dict(strict=True) refuses: other names or other shapes. */
bool fsdp_load_is_other_model(struct fsdp_loading *loading);
bool fsdp_load_is_misshaped(struct fsdp_loading *loading);
bool fsdp_load_has_no_model(struct fsdp_loading *loading);
bool fsdp_load_cannot_open(struct fsdp_loading *loading);

/* The experts of a layer, which are loaded as two tensors: gates and ups cannot be
 * joined, as those of one expert lack or have other shapes; with an argument, fewer are
 * stored than the model has. Word 0 is the tensor that they would be. */
bool fsdp_load_has_other_experts(struct fsdp_loading *loading);

/* ---- weight-sets.c ---- */

/* Another weight set in the directory, as word 0, compares so with the chosen one, as
 * word 1: the argument is an enum fsdp_set_likeness. Their bytes are compared with
 * `data`. */
bool fsdp_load_has_other_set(struct fsdp_loading *loading);
/* All names of the tied weight are stored: with bytes that differ; or with bytes that
 * nothing compared. */
#define FSDP_LOAD_UNTIE "set tie_word_embeddings to false in config.json"
bool fsdp_load_ties_contradict(struct fsdp_loading *loading);
bool fsdp_load_ties_unread(struct fsdp_loading *loading);
/* The head is stored, and not the embedding that it is tied to. */
bool fsdp_load_has_only_head(struct fsdp_loading *loading);

/* ---- load-trainer.c ---- */

/* Numbered states in a file that the text of the rule matches have shapes that the chosen
 * weights do not have, or have in fewer weights: those of another model. With the
 * argument further models of the directory count, and one such state is enough; else the
 * weights may have been converted when they were saved, or some may not be stored.
 * Words: a state, its shape, what has that. */
enum { FSDP_LOAD_EACH_STATE = 1 };
bool fsdp_load_has_other_optimizer(struct fsdp_loading *loading);

#define FSDP_OTHER_OPTIMIZER                                                            \
	.message = "{0} has shape [{1}], which {2}: the optimizer is of another model", \
	.fix = "copy the optimizer and the weights of one save again"

/* ---- load-dcp.c ---- */

/* A data file that is listed and absent, as word 0: of the directories that are the text
 * of the rule, else of the one that is the loader's own, else of the directory itself. */
bool fsdp_load_lacks_data(struct fsdp_loading *loading);

/* ---- load-deepspeed.c ---- */

/* Reads what the rules below need. Returns facts of that loader. */
uint32_t fsdp_load_read_zero(struct fsdp_loading *loading);
bool fsdp_load_has_no_tag(struct fsdp_loading *loading);
bool fsdp_load_lacks_states(struct fsdp_loading *loading);
bool fsdp_load_is_other_world(struct fsdp_loading *loading);
bool fsdp_load_lacks_optimizer(struct fsdp_loading *loading);

/* ---- expected-model.c ---- */

/* Names and shapes of the model that config.json describes, in order of names. False: it
 * is of no type that is known. */
bool fsdp_load_model_of_config(struct fsdp_loading *loading);

/* ---- load-pickle.c ---- */

/* Whether torch.load(weights_only=True) refuses the weights that the loader takes, if
 * these are a pickle: rules of all loaders that read weights with it. */
bool fsdp_load_weights_refuse_global(struct fsdp_loading *loading);
bool fsdp_load_weights_refuse_opcode(struct fsdp_loading *loading);

/* Reads what the pickle of the weights makes, if they are one: facts. */
void fsdp_load_read_root(struct fsdp_loading *loading);

#define FSDP_LOAD_NEW_DTYPE                                                 \
	.dtypes = "bcomplex32",                                             \
	.message = "tensors have dtype bcomplex32, which torch 2.14 added", \
	.fix = "load it with torch 2.14 or later"

#endif

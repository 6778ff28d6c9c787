/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ANALYSIS_ADAPTER_H
#define FSDP_ANALYSIS_ADAPTER_H

#include "analysis/loaders/loading.h"

/*
 * Adapters of PEFT: what each type stores for an adapted module, with names and sizes, and the settings of
 * adapter_config.json.
 */

#define FSDP_ADAPTER_CONFIG "adapter_config.json"
#define FSDP_ADAPTER_PREFIX "base_model.model."

enum {
	FSDP_ADAPTER_NAME = 4096,
	FSDP_ADAPTER_MEMBERS = 7,
	FSDP_ADAPTER_ITEMS = 4096, /* of a list: programs write one per module */
};

/* Of the module in the base model; of a linear one these are the sizes of its weight. */
enum fsdp_adapter_size {
	FSDP_ADAPTER_ANY,
	FSDP_ADAPTER_IN,
	FSDP_ADAPTER_OUT,
	FSDP_ADAPTER_ROWS,    /* of an embedding */
	FSDP_ADAPTER_COLUMNS, /* … */
	FSDP_ADAPTER_SIDE,    /* its elements are as many as inputs or as outputs */
};

/* A tensor of an adapted module. */
struct fsdp_adapter_member {
	const char *name, *tail; /* "lora_A", ".weight", as they are stored */
	const char *live_tail;   /* after the adapter's name in the model; NULL: `tail` */
	uint8_t needs;           /* number of a member that is stored, too; 0: none */
	uint8_t also_needs;      /* another one … */
	const char *flag;        /* … if this is set */
	uint8_t unsized_by;      /* with this member present `size` is unknown; 0: none */
	uint32_t rank_dim;       /* dimension that is the rank, from 1; 0: none */
	enum fsdp_adapter_size size; /* what dimension `at` is … */
	uint32_t at, times_at;       /* … times that dimension; 0: no other … */
	const char *times;           /* … times that setting; NULL: none */
};

struct fsdp_adapter_form {
	const char *type; /* as peft_type has it */
	const char *rank; /* setting with the rank; NULL: no rank */
	int64_t rank_default;
	bool is_prompt; /* one tensor before all layers, no module is adapted */
	struct fsdp_adapter_member members[FSDP_ADAPTER_MEMBERS]; /* from 1 on */
};

/* Form of the configured type; NULL: an unsupported type. */
const struct fsdp_adapter_form *fsdp_adapter_form(struct fsdp_loading *loading);

/* A tensor's name, taken apart. */
struct fsdp_adapter_name {
	struct fsdp_span whole;
	struct fsdp_span module; /* as the base has it, if the name is live */
	bool is_live;            /* the loader finds it in its model */
	const struct fsdp_adapter_member *member; /* NULL: it is none of an adapter */
	struct fsdp_span adapter;                 /* ".default", or empty */
};

bool fsdp_adapter_is_unwrapped(struct fsdp_span name);

/* The buffer has FSDP_ADAPTER_NAME bytes and keeps the name. */
struct fsdp_adapter_name fsdp_adapter_read_name(const struct fsdp_adapter_form *form,
	const struct fsdp_checkpoint *checkpoint, uint32_t tensor, char *buffer);

/* Whether the module of the named tensor has a member, by its number. */
bool fsdp_adapter_has(const struct fsdp_adapter_form *form,
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_adapter_name *name,
	uint8_t member);

/* Whether any tensor is stored for a module of the base. */
bool fsdp_adapter_has_module(const struct fsdp_adapter_form *form,
	const struct fsdp_checkpoint *checkpoint, struct fsdp_span module);

/* Says as word 0 how the live model calls a member of a module. */
void fsdp_adapter_say_live(struct fsdp_loading *loading, struct fsdp_span module,
	const struct fsdp_adapter_member *member);

/* Whether a word's last segments are the name, or all of it. */
bool fsdp_adapter_ends(struct fsdp_span module, struct fsdp_span word);

/* ---- tensors in order ---- */

struct fsdp_adapter_walk {
	const struct fsdp_adapter_form *form;
	const struct fsdp_checkpoint *checkpoint;
	uint32_t next;
	struct fsdp_tensor tensor;
	struct fsdp_adapter_name name; /* of the present tensor */
	char buffer[FSDP_ADAPTER_NAME];
};

/* Of adapters of prompts there is nothing to walk through. */
void fsdp_adapter_begin(struct fsdp_adapter_walk *walk, struct fsdp_loading *loading);
bool fsdp_adapter_walk_on(struct fsdp_adapter_walk *walk);
/* On to the next that the loader puts into the model. */
bool fsdp_adapter_walk_to_live(struct fsdp_adapter_walk *walk);

/* -1: the present tensor has fewer dimensions. */
int64_t fsdp_adapter_size_at(const struct fsdp_adapter_walk *walk, uint32_t dim);

/* Says the present tensor's name as word 0. */
void fsdp_adapter_say_name(
	struct fsdp_loading *loading, const struct fsdp_adapter_walk *walk);
/* Says the number that is stored and the other one, as words 1 and 2. */
void fsdp_adapter_say_numbers(
	struct fsdp_loading *loading, int64_t stored, int64_t other);

/* ---- settings ---- */

bool fsdp_adapter_is_of_type(struct fsdp_loading *loading, const char *type);

/* Items of a list or members of a dict that are texts; *at is 0 at first. */
bool fsdp_adapter_next(struct fsdp_loading *loading, const char *key, uint32_t *at,
	struct fsdp_span *ret_word);
bool fsdp_adapter_is_list(struct fsdp_loading *loading, const char *key);
/* Whether it is set: no null, false, 0, or what is empty. */
bool fsdp_adapter_is_set(struct fsdp_loading *loading, const char *key);

/* The rank of a module. False: the configuration has a pattern that is not understood. */
bool fsdp_adapter_rank(struct fsdp_loading *loading, const struct fsdp_adapter_form *form,
	struct fsdp_span module, int64_t *ret_rank);

/* The number of its layer; -1: its name has no number. */
int64_t fsdp_adapter_layer(struct fsdp_span module);

/* Whether target_modules, if it is a list, names the module. */
bool fsdp_adapter_is_named(struct fsdp_loading *loading, struct fsdp_span module);

/* Whether a module of the base is adapted; *ret_unknown: the configuration has a pattern
 * that may say otherwise. */
bool fsdp_adapter_is_target(
	struct fsdp_loading *loading, struct fsdp_span module, bool *ret_unknown);
/* Whether a module with tensors that are stored is adapted, as far as the configuration
 * lists the targets. */
bool fsdp_adapter_is_stored_target(struct fsdp_loading *loading, struct fsdp_span module);

/* ---- rules about what is asked for by name: adapter-whole.c ---- */

bool fsdp_adapter_has_lost_module(struct fsdp_loading *loading);
bool fsdp_adapter_lacks_module(struct fsdp_loading *loading);
bool fsdp_adapter_has_unstripped_module(struct fsdp_loading *loading);
bool fsdp_adapter_lacks_module_of_base(struct fsdp_loading *loading);
bool fsdp_adapter_has_other_module(struct fsdp_loading *loading);
bool fsdp_adapter_lacks_tokens(struct fsdp_loading *loading);
bool fsdp_adapter_has_other_tokens(struct fsdp_loading *loading);

/* ---- rules about the base that --expect names: adapter-base.c ---- */

bool fsdp_adapter_is_turned_vector(struct fsdp_loading *loading);
bool fsdp_adapter_has_other_sizes(struct fsdp_loading *loading);
bool fsdp_adapter_lacks_target(struct fsdp_loading *loading);
bool fsdp_adapter_may_lack_target(struct fsdp_loading *loading);
bool fsdp_adapter_lacks_bias(struct fsdp_loading *loading);
bool fsdp_adapter_is_other_base(struct fsdp_loading *loading);

#endif

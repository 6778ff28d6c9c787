/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SELECT_H
#define SELECT_H

#include <fsdp/model.h>

#include "args/parse.h"

/*
 * Which tensors and modules are meant. Patterns are compiled once. A dotted glob: `*`
 * within one segment, `**` across segments (also none), `?`, `[0-9]`; a leading !
 * excludes. Any include suffices, an exclude wins. A pattern that names a module selects
 * everything below it. -e is PCRE2, searched anywhere in the name.
 */
struct selection;

/* Refuses a pattern or a word that is wrong. Freed by memory_release. */
struct selection *selection_new(
	const struct select_options *options, struct usage *usage);

/* Whether a name has no more segments than --depth says. */
bool select_reaches(const struct select_options *options, struct fsdp_span name);

/* Whether there is any selector at all (depth, sort, columns and head are none). */
bool selection_is_all(const struct selection *selection);

/* Whether names alone decide: nothing but -g and -e, or nothing at all. */
bool selection_is_by_name(const struct selection *selection);

/* A pattern that needs too many steps on a name gives up: the name is not matched. */
bool selection_gave_up(const struct selection *selection);

/* By all criteria. The name is the one that is shown (clean, or raw under --raw). */
bool selection_takes_tensor(struct selection *selection,
	const struct fsdp_checkpoint *checkpoint, uint32_t tensor, struct fsdp_span name);

/* Looks for the container of stored names ("model." of "model.fc.weight", where a plan
 * has "fc.weight"), so that patterns may be about either name. Before it is called there
 * is none. */
void selection_resolve(
	struct selection *selection, const struct fsdp_checkpoint *checkpoint);

/* Where glob `index` is a plain name that no entry has, searches it anywhere: from a dot
 * on, else as a part of names. True if the pattern was replaced. */
bool selection_widen(struct selection *selection, const struct texts *globs, size_t index,
	const struct fsdp_checkpoint *checkpoint);

/* The container with its last dot; empty: none. */
struct fsdp_span selection_prefix(const struct selection *selection);

/* By -g and -e only: of a tensor or value by its stored name, which may be in that
 * container; of a module by the plan's, which is not. */
bool selection_takes_name(struct selection *selection, struct fsdp_span name);
bool selection_takes_module(struct selection *selection, struct fsdp_span name);

/* By --file only. */
bool selection_takes_file(struct selection *selection, struct fsdp_span path);

/* By --rank and --file only. */
bool selection_takes_piece(struct selection *selection,
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_piece *piece);

/* An expression that finds the rank in a path: its first group, or all that it matches.
 * NULL: it is none. Freed by memory_release. */
void *rank_pattern_new(const char *expression);

/* A number, or INT64_MIN. */
int64_t rank_pattern_find(void *pattern, const char *path);

#endif

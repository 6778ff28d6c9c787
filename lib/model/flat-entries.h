/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_MODEL_LEDGER_H
#define FSDP_MODEL_LEDGER_H

#include "model/flat-parameter.h"
#include "model/model.h"

/*
 * The entries of a FlatParameter under the arithmetic of flat-parameter.h. Entries are
 * numbered from 0 within their flat parameter; they begin at 0 and leave nothing out.
 */
struct fsdp_flat_cut fsdp_ledger_cut(const struct fsdp_flat_record *flat);

const struct fsdp_flat_entry_record *fsdp_ledger_entry(
	const struct fsdp_model *model, const struct fsdp_flat_record *flat, uint32_t n);

/* The entry that holds this element; entry_count: none. */
uint32_t fsdp_ledger_entry_at(const struct fsdp_model *model,
	const struct fsdp_flat_record *flat, uint64_t element);

/*
 * The next entry of which the rank holds a part, from entry *entry on; *entry 0 begins at
 * the rank's first. False: there is none left. The caller steps behind *entry.
 */
bool fsdp_ledger_next(const struct fsdp_model *model, const struct fsdp_flat_record *flat,
	uint32_t rank, uint32_t *entry, struct fsdp_flat_part *ret_part);

#endif

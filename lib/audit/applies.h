/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_AUDIT_APPLIES_H
#define FSDP_AUDIT_APPLIES_H

#include <fsdp/model.h>

/* What rules are about, as a set. */
unsigned fsdp_subjects_of(const struct fsdp_checkpoint *checkpoint);

/* Whether a rule is about something that is in the set. */
bool fsdp_rule_applies(const struct fsdp_rule *rule, unsigned subjects);

#endif

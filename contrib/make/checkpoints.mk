# SPDX-License-Identifier: Apache-2.0
#
# make -f checkpoints.mk step-1000.audit.json : audits step-1000 and keeps the answer; a bad one
# (status 1) fails the rule and leaves none, as does one that could be judged only in part (3).
# Anything that depends on it is made from good checkpoints only.

AUDIT = fsdp-inspect audit -q -o json

%.audit.json: %
	@$(AUDIT) $< >$@.part; status=$$?; \
	if [ $$status -ne 0 ]; then echo "$<: status $$status" >&2; rm -f $@.part; exit $$status; fi; \
	mv $@.part $@

# Kept also where only the weights were asked for.
.PRECIOUS: %.audit.json

%.weights: % %.audit.json
	fsdp-inspect export -q -o $@ $<

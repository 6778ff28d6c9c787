# SPDX-License-Identifier: Apache-2.0
#
# make -f checkpoints.mk step-1000.audit.json : audits step-1000 and keeps the answer; a bad one
# (status 1) fails the rule and leaves none. What could not be judged (status 3) is kept, with a
# warning. Anything that depends on it is made from good checkpoints only.

AUDIT = fsdp-inspect audit -q -o json

%.audit.json: %
	@$(AUDIT) $< >$@.part; status=$$?; \
	case $$status in \
	0) ;; \
	3) echo "$<: judged in part" >&2 ;; \
	*) echo "$<: status $$status" >&2; rm -f $@.part; exit $$status ;; \
	esac; mv $@.part $@

%.weights: % %.audit.json
	fsdp-inspect export -q -o $@ $<

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A task prolog (TaskProlog=, srun --task-prolog): stops a task before it takes the GPUs if the
# checkpoint that it is to load, RESUME_FROM, is bad. Headers only: milliseconds, on one node.
# What slurmstepd reads from a prolog is its stdout, so all messages go to stderr.

[ -n "${RESUME_FROM-}" ] && [ "${SLURM_PROCID-0}" = 0 ] || exit 0
fsdp-inspect audit -q "$RESUME_FROM" >&2
case $? in
0 | 3) exit 0 ;; # good, or good as far as it could be judged
*) echo "prolog: not started, $RESUME_FROM" >&2; exit 1 ;;
esac

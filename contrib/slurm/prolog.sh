#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A task prolog (TaskProlog=, srun --task-prolog): stops the step before it takes the GPUs unless
# the checkpoint that it is to load, RESUME_FROM, is good. Each task checks, so that none starts
# while another one still reads; the first that finds a fault cancels all. Headers only; add
# --quick where thousands of tasks start.
# What slurmstepd reads from a prolog is its stdout, so all messages go to stderr.

[ -n "${RESUME_FROM-}" ] || exit 0
fsdp-inspect audit -q "$RESUME_FROM" >&2
status=$?
[ "$status" -ne 0 ] || exit 0
echo "prolog: not started, $RESUME_FROM (status $status)" >&2
step=${SLURM_STEP_ID-${SLURM_STEPID-}}
[ -z "$step" ] || scancel "$SLURM_JOB_ID.$step" >&2
exit 1

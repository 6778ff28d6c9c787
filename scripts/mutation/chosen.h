/* SPDX-License-Identifier: Apache-2.0 */
/* The number that scripts/mutation/copies.py asks for. */
extern int fsdp_chosen;

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_IO_ARCHIVE_H
#define FSDP_IO_ARCHIVE_H

#include "base/arena.h"
#include "base/finding.h"
#include "io/source.h"

/*
 * Everything that is packed around a checkpoint: tar (ustar, pax, gnu) and the
 * compressions gz, zst, xz, bz2, lz4, read by libarchive. What is compressed is unpacked
 * once, into memory; compressed twice is not supported. Nothing is ever written to disk.
 * Zip is not read here (io/zip.h).
 */
struct fsdp_packed {
	struct fsdp_span name;     /* of the member; absent for a bare compressed file */
	struct fsdp_source source; /* in the arena; of a bare tar a part of that */
	uint64_t offset; /* of these in the archive; FSDP_UNKNOWN: it is compressed */
};

/* Whether the first bytes (up to 512 are looked at) are a compression or a tar. */
bool fsdp_archive_is_compressed(struct fsdp_span head);
bool fsdp_archive_is_tar(struct fsdp_span head);

/* "gzip", "zstd", … or "tar"; NULL if it is neither. */
const char *fsdp_archive_kind(struct fsdp_span head);

/*
 * Finds all regular members, in archive order, and unpacks compressed ones into the
 * arena. What comes out is bounded by `inflate-bytes`, `inflate-ratio` and `stdin-bytes`,
 * the number of members by `members`. Links, devices and unsafe names are findings and
 * omitted. A bare compressed file gives one member without a name. If the archive is
 * truncated it fails, and *ret_packed has the members before that.
 */
bool fsdp_archive_unpack(const struct fsdp_source *source, struct fsdp_arena *arena,
	const struct fsdp_limits *limits, struct fsdp_span file,
	struct fsdp_findings *findings,
	struct fsdp_vec *ret_packed /* struct fsdp_packed */,
	struct fsdp_error **ret_error);

/* The same of bytes that must be compressed in this way, with nothing but one thing in
 * them. */
bool fsdp_archive_unpack_one(const struct fsdp_source *source, const char *kind,
	struct fsdp_arena *arena, const struct fsdp_limits *limits,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error);

/*
 * One compressed file as a stream over another stream. A truncated file ends after its
 * last readable byte. `head` is its first bytes. Memory for unpacking is taken from the
 * budget.
 */
struct fsdp_unpack;

bool fsdp_unpack_new(struct fsdp_span head, fsdp_refill refill, void *context,
	struct fsdp_budget *budget, struct fsdp_unpack **ret_unpack,
	struct fsdp_error **ret_error);
/* A fsdp_refill; context is the struct fsdp_unpack. */
bool fsdp_unpack_refill(void *context, void *buffer, size_t size, size_t *ret_size,
	struct fsdp_error **ret_error);
bool fsdp_unpack_is_cut(const struct fsdp_unpack *unpack);
void fsdp_unpack_free(struct fsdp_unpack *unpack);

/* "libarchive 3.6.2" */
const char *fsdp_archive_version(void);

/*
 * How far back compressed bytes may refer: so much of what it gave the unpacker keeps in
 * memory of its own, up to 128 MiB (zstd) or 1 GiB (xz) for a file of a few bytes. What
 * is kept is counted in a budget as it grows. The other compressions keep 8 MiB at most.
 *
 * Zero it, set the budget and what to look for; NULL: nothing.
 */
struct fsdp_reach {
	struct fsdp_budget *budget;
	const struct fsdp_reach_look *look;
	uint64_t most;          /* that any header so far declares */
	uint64_t charged;       /* in the budget */
	unsigned char tail[16]; /* the end of what was seen before */
	size_t tail_size;
};

extern const struct fsdp_reach_look fsdp_reach_zstd, fsdp_reach_xz;

/* Compressed bytes in their order, before they are unpacked. */
void fsdp_reach_see(struct fsdp_reach *reach, struct fsdp_span bytes);

/* `unpacked` bytes came out so far. False: the budget refuses what is kept of them. */
bool fsdp_reach_charge(struct fsdp_reach *reach, uint64_t unpacked);

void fsdp_reach_done(struct fsdp_reach *reach);

#endif

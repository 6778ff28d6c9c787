/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_VERIFY_PRIVATE_H
#define FSDP_VERIFY_PRIVATE_H

#include <sys/stat.h>

#include <fsdp/verify.h>

#include "checkpoint-private.h"
#include "store/zip.h"
#include "sweep/view.h"

/* What the files of this door share. */

/* What kept a part of the bytes from being judged. */
enum {
	FSDP_WITHOUT_CRC = 1 << 0, /* payload that nothing covers */
	FSDP_UNREADABLE = 1 << 1,
	FSDP_OVER_LIMIT = 1 << 2,
};

struct fsdp_verify {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_budget budget;
	struct fsdp_arena arena; /* lives as long as this */
	struct fsdp_findings findings;
	struct fsdp_verify_options options;
	struct fsdp_verify_scope scope;
	unsigned lacks;     /* FSDP_WITHOUT_CRC … */
	unsigned crc_count; /* files that record checksums */

	/* Numbers of extents, of pieces and of values that lie in files, each in the
	 * order of files and of the bytes in these. */
	uint32_t *extents, *pieces, *values;
	size_t extent_count, piece_count, value_count;

	/* While it is made. */
	struct fsdp_locator *locator;
	struct fsdp_arena batch;    /* what the files in hand need */
	struct fsdp_arena item;     /* what one item needs */
	struct fsdp_findings notes; /* of one zip, before they are moved */
	unsigned char *window;      /* FSDP_VERIFY_WINDOW bytes */
};

enum { FSDP_VERIFY_WINDOW = 1 << 20 };

/* How the bytes of a file are found. */
enum fsdp_verify_kind {
	FSDP_BYTES_RAW,   /* payload lies where extents say */
	FSDP_BYTES_ZIP,   /* one zip */
	FSDP_BYTES_ITEMS, /* zips one behind the other: a .distcp file */
};

/* A file while it is looked at. */
struct fsdp_verify_file {
	uint32_t id; /* FSDP_NONE: it is none of the model's */
	struct fsdp_span path;
	enum fsdp_verify_kind kind;
	struct fsdp_source source;
	struct stat before; /* of its descriptor */

	/* Its parts of the three lists. */
	const uint32_t *extents, *pieces, *values;
	size_t extent_count, piece_count, value_count;

	struct fsdp_zip zip;      /* of a ZIP */
	uint64_t *offsets;        /* where its members' bytes begin */
	struct fsdp_vec segments; /* of others: struct fsdp_segment (sweep/pass.h) */

	uint64_t members, unrecorded; /* with bytes; of those, without a checksum */
	bool skipped_data;            /* storages have no checksum although others have */
	bool contradicts;             /* an item is not what the metadata says */
};

/* Where a finding about a file lies. */
#define FSDP_IN(file_, ...) FSDP_PLACE(.file = (file_)->path, __VA_ARGS__)

/* ---- verify-files.c ---- */

/* Puts extents, pieces and values in order. */
bool fsdp_verify_sort(struct fsdp_verify *verify, struct fsdp_error **ret_error);

/* Opens a file of the model, with its parts of the lists; false without an error: it
 * cannot be read, and a finding says so. */
bool fsdp_verify_file(struct fsdp_verify *verify, uint32_t id,
	struct fsdp_verify_file *ret_file, struct fsdp_error **ret_error);

/* Says what could not be read, and goes on: false if that is impossible. */
bool fsdp_verify_excuse(struct fsdp_verify *verify, const struct fsdp_verify_file *file,
	struct fsdp_error **error, struct fsdp_error **ret_error);

/* Files of the folder that hold machine code. */
bool fsdp_verify_folder(struct fsdp_verify *verify, struct fsdp_error **ret_error);

/* "ELF" … if bytes begin as a program does, else NULL. */
const char *fsdp_native_code(struct fsdp_span head);

/* The first names of tensors that lie in a range of a file, for a message: "a, b and 3
 * more". Empty: there are none. */
enum { FSDP_NAMES_SHOWN = 400 };
const char *fsdp_verify_names(const struct fsdp_verify *verify,
	const struct fsdp_verify_file *file, uint64_t begin, uint64_t end,
	char room[FSDP_NAMES_SHOWN]);

/* Moves the notes of a zip that begins at `base` of the file into the findings. */
void fsdp_verify_move_notes(struct fsdp_verify *verify, uint64_t base, bool keep);

/* ---- verify-zip.c ---- */

/* Reads the directory and checks the headers of a file that is a zip. */
bool fsdp_verify_zip(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error);

/* Whether the zip records a checksum of this member; counts it. */
bool fsdp_verify_has_crc(struct fsdp_verify_file *file,
	const struct fsdp_zip_member *member, bool storages_zero);

/* Whether all storages of a zip have the checksum 0, as under skip_data. */
bool fsdp_verify_storages_zero(const struct fsdp_zip *zip);

/* ---- verify-items.c ---- */

/* Opens each item of a .distcp file and checks it against the metadata. */
bool fsdp_verify_items(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error);

/* ---- verify-ledger.c ---- */

/* What is wrong with the ranges of a file, whatever their bytes are. */
bool fsdp_verify_ledger(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error);

#endif

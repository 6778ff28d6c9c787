/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_AUDIT_VERIFY_PRIVATE_H
#define FSDP_AUDIT_VERIFY_PRIVATE_H

#include <sys/stat.h>

#include <fsdp/audit.h>

#include "base/tasks.h"
#include "checkpoint/checkpoint-private.h"
#include "elements/elements-private.h"
#include "io/zip.h"

/* Common declarations of verify.c, verify-data.c and verify-files.c. */

/* Why a part of the bytes was not checked. */
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
	struct fsdp_verify_coverage scope;
	unsigned lacks;           /* FSDP_WITHOUT_CRC … */
	uint64_t crc_count;       /* files that record checksums */
	struct fsdp_vec digests;  /* struct fsdp_listed_digest, by name */
	struct fsdp_vec sources;  /* const char *: where they were found */
	struct fsdp_span only;    /* absent, or of the one file whose digests count */
	struct fsdp_copy *copies; /* by piece */
	size_t copy_count;
	bool is_unlisted; /* a finding of the metadata explains bytes without an item */
	bool unlike_copies, unlike_ties; /* some are cut or laid out in two ways */
	struct fsdp_numbers *numbers;    /* of each tensor, at the level of values */
	uint8_t *is_copy; /* of each piece: another one has its place and is counted */

	/* Numbers of extents, pieces and values in files, each in the order of files and
	 * of their bytes. */
	uint32_t *extents, *pieces, *values;
	size_t extent_count, piece_count, value_count;

	/* While it is made. */
	struct fsdp_locator *locator;
	struct fsdp_arena batch;       /* what the files in hand need */
	struct fsdp_arena item;        /* what one item needs */
	struct fsdp_findings notes;    /* of one zip, before they are moved */
	unsigned char *window;         /* FSDP_VERIFY_WINDOW bytes */
	struct fsdp_verify_file *hand; /* FSDP_VERIFY_HAND files */
	size_t hand_count;
	uint64_t hand_bytes, hand_segments;
	uint64_t inflate_left; /* that may be inflated yet */
	struct fsdp_pass_options pass;
	struct fsdp_share share; /* of the files, in the order in which they are met */
	uint8_t *own;            /* files of the model: in the share. NULL: all are */
	bool foreign;            /* files of other parts are looked at, for copies */
	uint32_t place;          /* of the file in hand, in that order */
	struct fsdp_vec places;  /* uint32_t: of each finding */
};

enum {
	FSDP_VERIFY_WINDOW = 1 << 20,
	/* A source is valid until 64 others were asked for. */
	FSDP_VERIFY_HAND = 32,
	FSDP_VERIFY_HAND_BYTES = 256 << 20,
	FSDP_VERIFY_HAND_REMOTE = 8 << 20,
	FSDP_VERIFY_HAND_SEGMENTS = 1 << 16,
};

/* A digest that something says a file has. */
struct fsdp_listed_digest {
	struct fsdp_span name;
	unsigned char bytes[FSDP_SHA256_BYTES];
	const char *source; /* in the list of sources */
	uint64_t line;      /* 0: it has none */
	bool is_manifest;   /* the user named it */
	bool met;
};

/* A piece that must have the bytes of the others of its group: copies of one box, or the
 * same box of tied tensors. */
struct fsdp_copy {
	uint32_t piece, group;
	bool tied, known;
	bool wanted; /* although its file is another part's */
	uint32_t file;
	uint64_t offset, length; /* in the file; FSDP_UNKNOWN: not stored as it is */
	struct fsdp_trait trait;
	uint64_t layout;
};

/* What is added up of a tensor. */
struct fsdp_numbers {
	struct fsdp_moments moments;
	struct fsdp_trait trait; /* of a sample, until verify-data.c has seen it */
	uint64_t layout;
	uint32_t due, seen; /* pieces */
	uint32_t bad_piece;
	bool strided; /* a piece whose bytes are not contiguous */
	bool sampled; /* `trait` is not of all bytes */
};

/* How the bytes of a file are found. */
enum fsdp_verify_kind {
	FSDP_BYTES_RAW,   /* payload at the ranges of extents */
	FSDP_BYTES_ZIP,   /* one zip */
	FSDP_BYTES_ITEMS, /* concatenated zips: a .distcp file */
};

/* A file while it is looked at. */
struct fsdp_verify_file {
	uint32_t id;    /* FSDP_NONE: it is none of the model's */
	uint32_t place; /* in the order in which files are met */
	struct fsdp_span path;
	enum fsdp_verify_kind kind;
	struct fsdp_source source;
	struct stat before; /* of its descriptor */

	/* Its parts of the three lists. */
	const uint32_t *extents, *pieces, *values;
	size_t extent_count, piece_count, value_count;

	struct fsdp_zip zip;          /* of a ZIP */
	uint64_t *offsets;            /* where its members' bytes begin */
	struct fsdp_vec segments;     /* struct fsdp_segment; of some zips none */
	struct fsdp_pass_view *views; /* room for what is wanted, or NULL */
	size_t view_count;
	struct fsdp_pass_file pass;

	uint64_t members, unrecorded; /* with bytes; of those, without a checksum */
	bool skipped_data;            /* storages have no checksum although others have */
	bool is_unreadable;           /* reported: it is not read further */
	bool contradicts;             /* an item differs from the metadata */
	bool has_digest; /* it is hashed, because something says what it should be */

	/* For an unpacked item: its range in the file. Else 0. */
	uint64_t packed_offset, packed_length;
};

/* Location of a finding about a file. */
#define FSDP_IN(file_, ...) FSDP_PLACE(.file = (file_)->path, __VA_ARGS__)

/* Factors that hashes of this room are mixed with. */
#define FSDP_VERIFY_MIX_A UINT64_C(0x9E3779B185EBCA87)
#define FSDP_VERIFY_MIX_B UINT64_C(0xC2B2AE3D27D4EB4F)

/* ---- verify-files.c ---- */

/* Puts extents, pieces and values in order. */
bool fsdp_verify_sort(struct fsdp_verify *verify, struct fsdp_error **ret_error);

/* Opens a file of the model, with its parts of the lists; false without an error: it
 * cannot be read, and a finding says so. */
bool fsdp_verify_file(struct fsdp_verify *verify, uint32_t id,
	struct fsdp_verify_file *ret_file, struct fsdp_error **ret_error);

/* Reports an unreadable file, and continues: false if that is impossible. */
bool fsdp_verify_excuse(struct fsdp_verify *verify, const struct fsdp_verify_file *file,
	struct fsdp_error **error, struct fsdp_error **ret_error);

/* Files of the directory that contain machine code. */
bool fsdp_verify_folder(struct fsdp_verify *verify, struct fsdp_error **ret_error);
/* The same of a file of the model, just before the rest of it is read. */
bool fsdp_verify_head(
	struct fsdp_verify *verify, uint32_t file, struct fsdp_error **ret_error);

/* "ELF" … if bytes begin as a program does, else NULL. */
const char *fsdp_native_code(struct fsdp_span head);

/* Names of tensors in a range of a file, the first `most` of how many there are. The
 * names live as long as the batch. */
size_t fsdp_verify_names(struct fsdp_verify *verify, const struct fsdp_verify_file *file,
	uint64_t begin, uint64_t end, size_t most, const struct fsdp_span **ret_names);

/* Moves the notes of a zip that begins at `base` of the file into the findings. */
void fsdp_verify_move_notes(struct fsdp_verify *verify, uint64_t base, bool keep);

/* Paths of the files that the facts speak of, sorted. NULL: out of memory. */
const struct fsdp_span *fsdp_verify_list_known(struct fsdp_verify *verify);
bool fsdp_verify_lists_digest(const struct fsdp_verify *verify,
	const struct fsdp_span *known, struct fsdp_span name);

/* Takes zips that are loaded with the checkpoint and are none of its files; those that
 * have a digest are read for that. */
bool fsdp_verify_beside(struct fsdp_verify *verify, struct fsdp_error **ret_error);

/* What is wrong with the ranges of a file, whatever their bytes are. */
bool fsdp_verify_ledger(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error);

/* Reads the lists of digests in the directory, and the manifest. */
bool fsdp_verify_read_digests(struct fsdp_verify *verify, struct fsdp_error **ret_error);

/* Whether something says what the digest of a file is. */
bool fsdp_verify_has_digest(struct fsdp_verify *verify, struct fsdp_span name);

/* The same; that it was asked is not remembered. */
bool fsdp_verify_lists(const struct fsdp_verify *verify, struct fsdp_span name);

void fsdp_verify_check_digest(
	struct fsdp_verify *verify, const struct fsdp_verify_file *file);

/* Listed files that are none of the checkpoint: the next one to be read, or false. What
 * is absent is reported. */
bool fsdp_verify_next_listed(
	struct fsdp_verify *verify, size_t *state, struct fsdp_verify_file *ret_file);

/* Files of the checkpoint that a list lacks. */
void fsdp_verify_check_lists(struct fsdp_verify *verify);

/* ---- verify.c ---- */

/* Whether the next file is this part's; call it once of each, in an order that all parts
 * have. */
bool fsdp_verify_takes(struct fsdp_verify *verify, uint64_t bytes);

/* Findings made since the last mark belong to this place. */
bool fsdp_verify_mark(
	struct fsdp_verify *verify, uint32_t place, struct fsdp_error **ret_error);

/* ---- verify.c ---- */

/* Reads the directory and checks the headers of a file that is a zip. */
bool fsdp_verify_zip(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error);

/* Opens each item of a .distcp file and checks it against the metadata. */
bool fsdp_verify_items(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error);

/* ---- verify-data.c ---- */

/* Takes the file in hand, to be read with others. It is copied. */
bool fsdp_verify_take(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error);

/* Whether the bytes of a member can be had; counts what inflating takes. */
bool fsdp_verify_may_read(struct fsdp_verify *verify, const struct fsdp_verify_file *file,
	const struct fsdp_zip_member *member, const struct fsdp_segment *segment);

/* Reads what is in hand, and says what was seen. */
bool fsdp_verify_read(struct fsdp_verify *verify, struct fsdp_error **ret_error);

/* Makes room for the views of a file, if anything of it is wanted. */
bool fsdp_verify_begin_views(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error);

/* A piece whose place is known; its segment is there already. */
void fsdp_verify_add_view(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	uint32_t piece, const struct fsdp_view *view);

/* Finds the groups of pieces that should be alike. */
bool fsdp_verify_find_copies(struct fsdp_verify *verify, struct fsdp_error **ret_error);

/* Whether a piece of another part's file is needed. */
bool fsdp_verify_needs(const struct fsdp_verify *verify, uint32_t piece);

/* For each group whose first copy is in a file of another part: requests that copy, and
 * marks its file. */
void fsdp_verify_add_first(struct fsdp_verify *verify, uint8_t *files);

/* Says which differ. */
void fsdp_verify_check_copies(struct fsdp_verify *verify);

/* Room for the numbers of tensors, when copies are known. */
bool fsdp_verify_begin_values(struct fsdp_verify *verify, struct fsdp_error **ret_error);

/* Reads what the pass could not see, and says which numbers cannot be weights. */
bool fsdp_verify_check_values(struct fsdp_verify *verify, struct fsdp_error **ret_error);

#endif

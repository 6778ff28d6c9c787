/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ANALYSIS_COMPLETE_PACKED_H
#define FSDP_ANALYSIS_COMPLETE_PACKED_H

#include "analysis/checks/complete.h"

/* Layouts of quantized weights, by the tensors stored with them. */
enum fsdp_packed_layout {
	FSDP_PACKED_NONE,
	FSDP_PACKED_FP8,         /* weight: F8, a scale for all, a row or a block */
	FSDP_PACKED_FP8_EXPERTS, /* the same of all experts in one tensor */
	FSDP_PACKED_MXFP4,       /* X_blocks, X_scales */
	FSDP_PACKED_NVFP4,       /* of modelopt: weight U8 */
	FSDP_PACKED_BYTES,       /* of compressed-tensors: weight_packed U8 */
	FSDP_PACKED_WORDS,       /* the same: weight_packed I32 */
	FSDP_PACKED_GPTQ,        /* qweight */
	FSDP_PACKED_AWQ,         /* qweight, packed along the other dimension */
	FSDP_PACKED_INT8,        /* of compressed-tensors: weight I8 */
	FSDP_PACKED_BNB8,        /* of bitsandbytes: weight I8 */
	FSDP_PACKED_BNB4,        /* the same: weight U8 in one column */
	FSDP_PACKED_MLX,         /* weight U32 */
	FSDP_PACKED_LAYOUTS
};

/* Members of a weight, in the order of the layout's table. */
enum { FSDP_PACKED_MEMBERS_MOST = 6 };

struct fsdp_packed_weight {
	uint32_t tensor;
	enum fsdp_packed_layout layout;
	uint32_t module;                            /* its name, in `stored` */
	uint32_t members[FSDP_PACKED_MEMBERS_MOST]; /* tensors, or FSDP_NONE */
};

struct fsdp_packing {
	struct fsdp_complete *complete;
	struct fsdp_names stored;  /* names as they are stored */
	struct fsdp_table tensors; /* of each of them: the tensor */
	struct fsdp_vec weights;   /* struct fsdp_packed_weight */
	uint32_t config;           /* setting that describes the quantisation, or none */
	struct fsdp_span method;   /* that it names, absent if it does not */
	bool is_awq, is_bnb;
	uint32_t counts[FSDP_PACKED_LAYOUTS];
	uint32_t have[FSDP_PACKED_LAYOUTS][FSDP_PACKED_MEMBERS_MOST];
	/* How the rest of a member's name goes, if it is longer than the table's. */
	struct fsdp_span tails[FSDP_PACKED_LAYOUTS][FSDP_PACKED_MEMBERS_MOST];
};

/* Compares the shapes of all members with those of their weights. */
void fsdp_packed_judge_shapes(struct fsdp_packing *packed);

#endif

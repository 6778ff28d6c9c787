/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files and directories that are recognized only to be refused: their signs, and
 * the message for the user. One row each.
 */
#include "base/num.h"
#include "formats/format.h"
#include "io/zip.h"
#include "syntax/pickle.h"

#include <ctype.h>
#include <stdio.h>

struct foreign {
	const char *magic;
	size_t offset, size;
	enum fsdp_error_code code;
	const char *rule;
	const char *what; /* "this is …" */
	const char *hint; /* or NULL */
};

#define MAGIC(text, offset) text, offset, sizeof(text) - 1
#define UNSUPPORTED FSDP_ERROR_UNSUPPORTED, "FI9002"
#define WRAPPED FSDP_ERROR_UNSUPPORTED, "FI3060"
#define NOTHING FSDP_ERROR_NOT_A_CHECKPOINT, "FI4001"
#define OTHER FSDP_ERROR_NOT_A_CHECKPOINT, "FI9005"
#define ORBAX_TMP ".orbax-checkpoint-tmp"
#define NATIVE FSDP_ERROR_NOT_A_CHECKPOINT, "FI3063"

static const struct foreign table[] = {
	{ MAGIC("PK\005\006", 0), NOTHING, "an empty zip archive", NULL },
	{ MAGIC("\211HDF\r\n\032\n", 0), UNSUPPORTED, "an HDF5 file (Keras, TensorFlow)",
		"look at it with h5dump" },
	{ MAGIC("\014\333\072\052", 0), UNSUPPORTED, "an OCDBT manifest (Orbax, JAX)",
		"load it with Orbax" },
	{ MAGIC("\014\333\040\336", 0), UNSUPPORTED,
		"a node of an OCDBT tree (Orbax, JAX)", "give its directory to Orbax" },
	{ MAGIC("\014\333\022\064", 0), UNSUPPORTED,
		"a version node of an OCDBT tree (Orbax, JAX)",
		"give its directory to Orbax" },
	{ MAGIC("lmgg", 0), UNSUPPORTED,
		"a GGML model (llama.cpp or whisper.cpp, before GGUF)", NULL },
	{ MAGIC("tjgg", 0), UNSUPPORTED, "a GGML model (llama.cpp, before GGUF)", NULL },
	{ MAGIC("fmgg", 0), UNSUPPORTED, "a GGML model (llama.cpp, before GGUF)", NULL },
	{ MAGIC("algg", 0), UNSUPPORTED, "an adapter of llama.cpp (GGML)", NULL },
	{ MAGIC("TFL3", 4), UNSUPPORTED, "a TensorFlow Lite model",
		"load it with TensorFlow" },
	{ MAGIC("ET12", 4), UNSUPPORTED, "an ExecuTorch program (.pte)", NULL },
	{ MAGIC("\357\276\255\336", 64), UNSUPPORTED, "weights of a Core ML package",
		NULL },
	{ MAGIC("ptrt", 0), UNSUPPORTED, "a TensorRT engine", NULL },
	{ MAGIC("ftrt", 0), UNSUPPORTED, "a TensorRT engine", NULL },
	{ MAGIC("RKNN", 0), UNSUPPORTED, "an RKNN model", NULL },
	{ MAGIC("RTEN", 0), UNSUPPORTED, "an RTen model", NULL },
	{ MAGIC("CBM1", 0), UNSUPPORTED, "a CatBoost model", NULL },
	{ MAGIC("\022\001\000\000\000\000\000\000", 0), UNSUPPORTED,
		"a parameter file of MXNet", NULL },
	{ MAGIC("\272\026\117\057", 0), UNSUPPORTED, "a fastText model", NULL },
	{ MAGIC("mmap lm http://kheafield.com/code", 0), UNSUPPORTED,
		"a KenLM language model", NULL },
	{ MAGIC("7767517\n", 0), UNSUPPORTED, "a network of ncnn (.param)", NULL },
	{ MAGIC("tree\nversion=", 0), UNSUPPORTED, "a LightGBM model", NULL },
	{ MAGIC("ARROW1", 0), OTHER, "an Arrow file", NULL },
	{ MAGIC("\377\330\377", 0), OTHER, "a picture (JPEG)", NULL },
	{ MAGIC("RIFF", 0), OTHER, "a RIFF file (WAV, WebP)", NULL },
	{ MAGIC("7z\274\257\047\034", 0), WRAPPED, "a 7z archive", "unpack it first" },
	{ MAGIC("Rar!", 0), WRAPPED, "a rar archive", "unpack it first" },
	{ MAGIC("MSCF", 0), WRAPPED, "a cabinet archive", "unpack it first" },
	{ MAGIC("\177ELF", 0), NATIVE, "a program (ELF), not data", NULL },
	{ MAGIC("MZ", 0), NATIVE, "a program (PE), not data", NULL },
	{ MAGIC("\312\376\272\276", 0), NATIVE, "a program (Mach-O) or a Java class",
		NULL },
	{ MAGIC("\317\372\355\376", 0), NATIVE, "a program (Mach-O), not data", NULL },
	{ MAGIC("#!", 0), NATIVE, "a script, not data", NULL },
	{ MAGIC("\211PNG", 0), OTHER, "a picture (PNG)", NULL },
	{ MAGIC("%PDF", 0), OTHER, "a PDF document", NULL },
	{ MAGIC("SQLite format 3", 0), OTHER, "an SQLite database", NULL },
	{ MAGIC("PAR1", 0), OTHER, "a Parquet file", NULL },
};

static struct fsdp_span without_blanks(struct fsdp_span head)
{
	if (fsdp_span_begins(head, FSDP_SPAN("\xef\xbb\xbf")))
		head = fsdp_span(head.data + 3, head.size - 3);
	while (head.size != 0 && memchr(" \t\n\r", *head.data, 4) != NULL)
		head = fsdp_span(head.data + 1, head.size - 1);
	return head;
}

static bool begins_in_any_case(struct fsdp_span text, const char *lower)
{
	size_t size = strlen(lower);
	if (text.size < size)
		return false;
	for (size_t i = 0; i < size; i++)
		if (tolower(text.data[i]) != lower[i])
			return false;
	return true;
}

/* "size 5678" on a line of a pointer. */
static uint64_t pointer_size(struct fsdp_span head)
{
	const unsigned char *at = memmem(head.data, head.size, "\nsize ", 6);
	uint64_t size = 0;
	if (at == NULL)
		return 0;
	for (at += 6;
		at < head.data + head.size && isdigit(*at) && size < UINT64_MAX / 16;
		at++)
		size = size * 10 + (uint64_t)(*at - '0');
	return size;
}

/* The text of the first element of this name, for the message. */
static struct fsdp_span text_in(struct fsdp_span head, const char *tag)
{
	size_t length = strlen(tag);
	const unsigned char *begin = memmem(head.data, head.size, tag, length);
	if (begin == NULL)
		return (struct fsdp_span){ 0 };
	begin += length;
	size_t left = head.size - (size_t)(begin - head.data);
	const unsigned char *end = memmem(begin, left, "<", 1);
	size_t size = end != NULL ? (size_t)(end - begin) : left;
	return fsdp_span(begin, size > 80 ? 80 : size);
}

static bool is_lfs_pointer(struct fsdp_span body)
{
	return fsdp_span_begins(body, FSDP_SPAN("version https://git-lfs"));
}

const char *fsdp_foreign_placeholder_fix(struct fsdp_span head)
{
	return is_lfs_pointer(without_blanks(head)) ? "git lfs pull"
						    : "download it again";
}

const char *fsdp_foreign_placeholder(struct fsdp_span head, struct fsdp_arena *arena)
{
	static const char page[] = "an HTML page", message[] = "an error message",
			  stored[] = "an XML error message of an object store";
	static const struct {
		const char *begin, *inside, *what, *title;
	} pages[] = {
		{ "<!doctype html", "", page, "<title>" },
		{ "<html", "", page, "<title>" },
		{ "<?xml", "<Error>", stored, "<Code>" },
		{ "<error>", "<Code>", stored, "<Code>" },
		{ "<?xml", "", page, "<title>" },
		{ "{\"error\"", "", message, "<title>" },
		{ "entry not found", "", message, "<title>" },
		{ "repository not found", "", message, "<title>" },
		{ "invalid username or password", "", message, "<title>" },
	};
	char text[256], size[48];
	struct fsdp_span body = without_blanks(head);
	/* A page has no network of layers in it. */
	if (fsdp_span_begins(body, FSDP_SPAN("<?xml")) &&
		memmem(body.data, body.size, "<net ", 5) != NULL)
		return NULL;
	if (is_lfs_pointer(body)) {
		uint64_t real = pointer_size(body);
		const char *const units[] = { real == 1 ? "byte" : "bytes", "KiB", "MiB",
			"GiB", "TiB" };
		double value = (double)real;
		size_t unit = 0;
		while (value >= 1024 && unit < 4) {
			value /= 1024;
			unit++;
		}
		snprintf(size, sizeof size, unit == 0 ? "%.0f %s" : "%.1f %s", value,
			units[unit]);
		/* One without its size is truncated; of an empty file there is none. */
		snprintf(text, sizeof text,
			real != 0 ? "a Git LFS pointer instead of the file (%s)"
				  : "a Git LFS pointer instead of the file",
			size);
		return (const char *)fsdp_arena_copy(arena, fsdp_span_text(text)).data;
	}
	for (size_t i = 0; i < FSDP_COUNT(pages); i++) {
		if (!begins_in_any_case(body, pages[i].begin) ||
			memmem(body.data, body.size, pages[i].inside,
				strlen(pages[i].inside)) == NULL)
			continue;
		struct fsdp_span title = text_in(body, pages[i].title);
		if (title.data != NULL)
			snprintf(text, sizeof text,
				"%s, probably a failed download ('%.*s')", pages[i].what,
				FSDP_TEXT(title));
		else
			snprintf(text, sizeof text, "%s, probably a failed download",
				pages[i].what);
		return (const char *)fsdp_arena_copy(arena, fsdp_span_text(text)).data;
	}
	return NULL;
}

static bool fail(struct fsdp_error **ret_error, enum fsdp_error_code code,
	const char *rule, const char *what, const char *hint)
{
	fsdp_fail_rule(ret_error, code, rule, FSDP_UNKNOWN, "this is %s", what);
	if (hint != NULL)
		fsdp_error_add_hint(ret_error, "%s", hint);
	return false;
}

/* A configuration without weights. A file of a download cache is a link: the file that it
 * leads to may be missing. */
static bool fail_weights(const struct fsdp_look *look, struct fsdp_error **ret_error)
{
	FSDP_EACH(i, look->folder->count, entry, fsdp_folder_entry(look->folder, i)) {
		bool is_outside = entry.kind == FSDP_ENTRY_LINK_OUTSIDE;

		if ((entry.kind != FSDP_ENTRY_LINK_BROKEN && !is_outside) ||
			!fsdp_span_ends_any(entry.name, ".safetensors .bin"))
			continue;
		fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED,
			is_outside ? "FI3065" : "FI1001", FSDP_UNKNOWN,
			is_outside
				? "%.*s is a link that leads out of the directory; it was not opened"
				: "%.*s is a link, and the file that it points to is missing",
			FSDP_TEXT_MOST(entry.name, 256));
		return fsdp_error_add_hint(ret_error, "%s",
			is_outside
				? "copy the directory with the targets of its links (cp -rL)"
				: FSDP_LINK_FIX);
	}
	return fail(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, "FI1001",
		"the configuration of a model without its weights: config.json, but no model.safetensors, pytorch_model.bin or index",
		"download the weights too");
}

/* What a header of NumPy says, up to its end of line; empty if there is none. */
static struct fsdp_span numpy_header(struct fsdp_span head)
{
	size_t begin = head.size > 6 && head.data[6] >= 2 ? 12 : 10;
	const unsigned char *brace =
		head.size > begin ? memchr(head.data + begin, '}', head.size - begin)
				  : NULL;
	if (brace == NULL)
		return FSDP_SPAN("");
	return fsdp_span(head.data + begin, (size_t)(brace - head.data) + 1 - begin);
}

/* Of its dtype the letter "O" is what NumPy writes, "object" is the same to it. */
uint64_t fsdp_numpy_pickle(struct fsdp_span head)
{
	struct fsdp_span header = numpy_header(head);
	if (!fsdp_span_begins(head, FSDP_SPAN("\223NUMPY")) || header.size == 0 ||
		(memchr(header.data, 'O', header.size) == NULL &&
			memmem(header.data, header.size, "object", 6) == NULL))
		return 0;
	size_t begin = head.data[6] >= 2 ? 12 : 10;
	return begin + fsdp_load_le(head.data + 8, begin - 8);
}

static uint64_t read_number(const unsigned char *at, size_t size, bool big)
{
	uint64_t number = fsdp_load_le(at, size);
	return big ? __builtin_bswap64(number) >> (64 - 8 * size) : number;
}

/* "GGUF", version (4 bytes), tensors and keys (8 each), in the byte order of the writer.
 */
static bool fail_gguf(const struct fsdp_look *look, struct fsdp_error **ret_error)
{
	const unsigned char *at = look->head.data;
	uint32_t part[FSDP_PATTERN_NUMBERS] = { 0 };
	char text[FSDP_WORD_MAX], set[64] = "";
	struct fsdp_span name = look->path;
	for (size_t i = name.size; i-- > 0;)
		if (name.data[i] == '-' &&
			fsdp_pattern_takes(fsdp_span(name.data + i, name.size - i),
				"-#-of-#.gguf", part))
			snprintf(set, sizeof set, ", part %u of %u", part[0], part[1]);
	if (look->head.size < 24)
		return fail(ret_error, UNSUPPORTED, "a truncated GGUF model (llama.cpp)",
			"copy it again");
	bool big = at[4] == 0 && at[7] != 0;
	snprintf(text, sizeof text,
		"a GGUF model (llama.cpp), version %llu, %llu tensors, %llu keys%s%s",
		FSDP_LLU(read_number(at + 4, 4, big)),
		FSDP_LLU(read_number(at + 8, 8, big)),
		FSDP_LLU(read_number(at + 16, 8, big)), big ? ", big-endian" : "", set);
	return fail(ret_error, UNSUPPORTED, text,
		"use gguf-dump for this file, or inspect the checkpoint that it was converted from");
}

/* ---- ONNX: a protobuf, which has no magic ---- */

static bool read_varint(struct fsdp_span head, size_t *at, uint64_t *ret_value)
{
	*ret_value = 0;
	for (unsigned shift = 0; *at < head.size && shift < 63; shift += 7) {
		unsigned char byte = head.data[(*at)++];
		*ret_value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return true;
	}
	return false;
}

/* The version of the format, then texts and the model's version, then the graph, which
 * the file has room for. */
static bool is_onnx(const struct fsdp_look *look)
{
	enum { VERSION = 1 << 3, MODEL_VERSION = 5 << 3, GRAPH = 7 << 3 | 2 };
	struct fsdp_span head = look->head;
	uint64_t tag, value;
	size_t at = 0;
	if (!read_varint(head, &at, &tag) || tag != VERSION ||
		!read_varint(head, &at, &value) || value == 0)
		return false;
	while (read_varint(head, &at, &tag) && read_varint(head, &at, &value)) {
		if (tag == MODEL_VERSION)
			continue;
		if ((tag & 7) != 2 || tag > GRAPH || value > look->source.size - at)
			return false;
		if (tag == GRAPH)
			return value != 0;
		at += value > head.size - at ? head.size - at : value;
	}
	return false;
}

/*
 * Other protobufs, by how they begin: tags, and what follows them. "(" goes into a
 * message, a quote steps over a short text, and "v" over a number.
 */
static const struct protobuf {
	const char *shape, *suffix; /* of the name, or NULL */
	const char *what, *hint;
} protobufs[] = {
	{ "\n(\n\"\x15", NULL, "a SentencePiece model (tokenizer)",
		"the weights are in another file of its directory" },
	{ "\n(\n\"\x12\"", NULL, "a graph of TensorFlow (protobuf)",
		"load it with TensorFlow" },
	{ "\n(\n\"\x12(\bv", NULL, "a MindSpore checkpoint (protobuf)",
		"load it with mindspore.load_checkpoint" },
	{ "\n(\n\"\x12(\x12\"", NULL, "a MindSpore checkpoint (protobuf)",
		"load it with mindspore.load_checkpoint" },
	{ "\n(\bv\x10v\x1a(", NULL, "a program of PaddlePaddle (protobuf)",
		"its weights are in the .pdiparams file next to it" },
	{ "\n\"\xa2\x06(", NULL, "a Caffe model (protobuf)", NULL },
	{ "\n\"\x12(", ".caffemodel", "a Caffe model (protobuf)", NULL },
	{ "\bv\x12(", ".mlmodel", "a Core ML model", NULL },
	{ "\bv\x12(", ".pb", "a SavedModel of TensorFlow (protobuf)",
		"load it with TensorFlow" },
};

static bool has_shape(struct fsdp_span head, const char *shape)
{
	uint64_t value;
	size_t at = 0;
	for (; *shape != '\0'; shape++) {
		if (*shape == 'v' || *shape == '(' || *shape == '"') {
			if (!read_varint(head, &at, &value) ||
				(*shape != 'v' && value == 0))
				return false;
			for (; *shape == '"' && value != 0; value--, at++)
				if (at >= head.size || head.data[at] < ' ' ||
					head.data[at] == 0x7f)
					return false;
		} else if (at >= head.size || head.data[at++] != (unsigned char)*shape) {
			return false;
		}
	}
	return true;
}

static const struct protobuf *find_protobuf(const struct fsdp_look *look)
{
	FSDP_EACH(i, FSDP_COUNT(protobufs), row, &protobufs[i])
		if (has_shape(look->head, row->shape) &&
			(row->suffix == NULL ||
				fsdp_span_ends(look->path, fsdp_span_text(row->suffix))))
			return row;
	return NULL;
}

/* ---- what has a length or an end where others have a magic ---- */

/* An object or a table of Lua Torch, in binary or in text: a version precedes each
 * class. */
static bool is_lua_torch(struct fsdp_span head)
{
	static const char BINARY[] = "\3\0\0\0V 1", TEXT[] = "\n3\nV 1\n";
	if (head.size < 12)
		return false;
	if (fsdp_span_begins(head, FSDP_SPAN("4\n")) ||
		fsdp_span_begins(head, FSDP_SPAN("3\n")))
		return memmem(head.data, head.size, TEXT, sizeof TEXT - 1) != NULL;
	uint64_t kind = fsdp_load_le(head.data, 4);
	return (kind == 3 || kind == 4) &&
	       memmem(head.data, head.size, BINARY, sizeof BINARY - 1) != NULL;
}

/* A version, then the name of what the model is: "TransformerSpec" with its NUL. */
static bool is_ctranslate2(struct fsdp_span head)
{
	if (head.size < 16)
		return false;
	uint64_t version = fsdp_load_le(head.data, 4);
	size_t size = (size_t)fsdp_load_le(head.data + 4, 2);
	return version > 1 && version < 64 && size > 5 && size < 64 &&
	       size <= head.size - 6 && memcmp(head.data + 6 + size - 5, "Spec", 5) == 0;
}

/* Tables of LevelDB end with a number: the index of a TensorFlow checkpoint is one. */
static bool is_tensorflow(const struct fsdp_look *look)
{
	static const char MAGIC_END[] = "\x57\xfb\x80\x8b\x24\x75\x47\xdb";
	uint32_t part[FSDP_PATTERN_NUMBERS];
	struct fsdp_span name = look->path;
	struct fsdp_error *error = NULL;
	unsigned char end[8];
	for (size_t i = name.size; i-- > 0;)
		if (name.data[i] == '.' &&
			fsdp_pattern_takes(fsdp_span(name.data + i, name.size - i),
				".data-#-of-#", part))
			return true;
	bool is_read = look->source.size >= 48 &&
		       fsdp_source_read(&look->source, look->source.size - sizeof end,
			       end, sizeof end, &error);
	fsdp_error_free(error);
	return is_read && memcmp(end, MAGIC_END, sizeof end) == 0;
}

/* A map whose first key is a short text, and an array of Flax in it (extension 1). */
static bool is_flax(struct fsdp_span head)
{
	if (head.size < 4 || (head.data[0] & 0xf0) != 0x80 ||
		(head.data[1] & 0xe0) != 0xa0 || (head.data[1] & 0x1f) == 0)
		return false;
	for (size_t i = 2; i < 2 + (size_t)(head.data[1] & 0x1f); i++)
		if (i >= head.size || head.data[i] < ' ' || head.data[i] > '~')
			return false;
	for (size_t i = 2; i + 5 < head.size; i++)
		if ((head.data[i] == 0xc7 && head.data[i + 2] == 1) ||
			(head.data[i] == 0xc8 && head.data[i + 3] == 1) ||
			(head.data[i] == 0xc9 && head.data[i + 5] == 1))
			return true;
	return false;
}

/* Documents by one of their keys. Files next to weights do not identify a directory. */
static const struct document {
	bool is_beside;
	const char *key, *what, *hint;
} documents[] = {
	{ false, "\"fx_exec_order\"", "a recorded execution order",
		"fsdp-inspect order FILE" },
	{ false, "\"exec_order\"", "a recorded execution order",
		"fsdp-inspect order FILE" },
	{ false, "\"fsdp-inspect-trace\"", "a recording of a run",
		"fsdp-inspect replay FILE" },
	{ false, "\"traceEvents\"", "a trace of torch.profiler",
		"fsdp-inspect replay FILE" },
	{ false, "\"schemaVersion\"", "a trace of torch.profiler",
		"fsdp-inspect replay FILE" },
	{ false, "\"collective_seq_id\"", "a dump of the Flight Recorder",
		"fsdp-inspect order FILE" },
	{ true, "\"weight_map\"", "an index of shards: it has a key weight_map",
		"give the directory with its files" },
	{ true, "\"peft_type\"",
		"the configuration of an adapter: it has a key peft_type",
		"give the directory that contains it" },
	{ true, "\"model_type\"", "the configuration of a model: it has a key model_type",
		"give the directory that contains it" },
	{ true, "\"architectures\"",
		"the configuration of a model: it has a key architectures",
		"give the directory that contains it" },
	{ false, "fsdp_plan\"", "a plan of transformers: it has a key fsdp_plan",
		"an FSDP sharding plan is a different file: fsdp-inspect help plan" },
	{ false, "tp_plan\"", "a plan of transformers: it has a key tp_plan",
		"an FSDP sharding plan is a different file: fsdp-inspect help plan" },
	{ true, "\"sharded_backend\"",
		"metadata.json of Megatron-core: it has a key sharded_backend",
		"give the directory that contains it" },
	{ true, "\"sharding_type\"",
		"a sharding plan of TorchRec: it has a key sharding_type",
		"give the checkpoint that was saved with it" },
	{ true, "\"tree_metadata\"",
		"metadata of Orbax (JAX): it has a key tree_metadata",
		"load its directory with Orbax" },
	{ false, "\"zarr_format\"", "metadata of a zarr array: it has a key zarr_format",
		"load its directory with zarr" },
};

static bool fail_json(struct fsdp_span body, struct fsdp_error **ret_error)
{
	FSDP_EACH(i, FSDP_COUNT(documents), row, &documents[i])
		if (*body.data == '{' &&
			memmem(body.data, body.size, row->key, strlen(row->key)) != NULL)
			return fail(ret_error,
				row->is_beside ? FSDP_ERROR_NOT_A_CHECKPOINT
					       : FSDP_ERROR_UNSUPPORTED,
				row->is_beside ? "FI9005" : "FI9002", row->what,
				row->hint);
	return fail(ret_error, OTHER, "a JSON document that is not a sharding plan",
		"a plan is described in fsdp-inspect help plan");
}

static bool is_zero(struct fsdp_span head)
{
	for (size_t i = 0; i < head.size; i++)
		if (head.data[i] != 0)
			return false;
	return true;
}

/* A file of this name with other content: only its first bytes can show the error. */
static bool fail_broken_header(
	const struct fsdp_look *look, struct fsdp_error **ret_error)
{
	uint64_t size = look->head.size >= 8 ? fsdp_load_le(look->head.data, 8) : 0;
	if (look->head.size < 8)
		fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, 0,
			"a safetensors file has a header of eight bytes or more, this file has %zu",
			look->head.size);
	else if (size > look->source.size - 8)
		fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, 0,
			"the safetensors header should have %llu bytes, the file has %llu",
			FSDP_LLU(size), FSDP_LLU(look->source.size));
	else
		fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, 8,
			"the safetensors header does not begin with a brace");
	fsdp_error_add_rule(ret_error, "FI1050");
	return fsdp_error_add_hint(ret_error, "copy this file again");
}

/* Text of a log or a program: no byte that only binary files have. */
static bool is_text(struct fsdp_span head)
{
	for (size_t i = 0; i < head.size; i++)
		if (head.data[i] < ' ' && memchr("\t\n\r\033", head.data[i], 4) == NULL)
			return false;
	return head.size != 0;
}

/* What Python's pickle module begins with below protocol 2, and nothing but opcodes up to
 * where the file ends, in one of them or before STOP. */
static bool is_torn_pickle(const struct fsdp_look *look)
{
	static const char *const begins[] = { "(dp", "(lp", "}q", "]q", "(ip",
		"ccollections\n", "ccopy_reg\n", "ctorch." };
	const struct fsdp_pickle_opcode *opcode;
	struct fsdp_error *error = NULL;
	struct fsdp_span argument;
	struct fsdp_span head = look->head;
	uint64_t at = 0;
	size_t i = 0;
	while (i < FSDP_COUNT(begins) &&
		!fsdp_span_begins(head, fsdp_span_text(begins[i])))
		i++;
	if (i == FSDP_COUNT(begins) || head.size != look->source.size)
		return false;
	do
		opcode = fsdp_pickle_next_opcode(head, &at, &argument, &error);
	while (opcode != NULL && opcode->code != FSDP_OP_STOP);
	bool is_torn = opcode == NULL &&
		       (error == NULL || at >= head.size ||
			       (fsdp_error_rule(error) != NULL &&
				       strcmp(fsdp_error_rule(error), "FI3014") == 0));
	fsdp_error_free(error);
	return is_torn;
}

/* A log may begin with a bracket too: "[rank0]: step 1". */
static bool begins_json(struct fsdp_span body)
{
	if (body.size == 0 || (*body.data != '{' && *body.data != '['))
		return false;
	struct fsdp_span rest = without_blanks(fsdp_span(body.data + 1, body.size - 1));
	return *body.data == '{' || rest.size == 0 ||
	       memchr("[]{\"-0123456789", *rest.data, 15) != NULL;
}

static bool fail_file(const struct fsdp_look *look, struct fsdp_error **ret_error)
{
	if (look->source.size == 0)
		return fail(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, "FI4001",
			"an empty file", "copy or download it again");
	if (fsdp_span_begins(look->head, FSDP_SPAN("GGUF")))
		return fail_gguf(look, ret_error);
	if (fsdp_span_begins(look->head, FSDP_SPAN("\x93NUMPY"))) {
		struct fsdp_span header = numpy_header(look->head);
		bool objects = fsdp_numpy_pickle(look->head) != 0;
		fsdp_fail_rule(ret_error, FSDP_ERROR_UNSUPPORTED,
			objects ? "FI3004" : "FI9002", FSDP_UNKNOWN,
			objects ? "this is a NumPy array (.npy) of Python objects: loading it runs a pickle%s%.*s"
				: "this is a NumPy array (.npy)%s%.*s",
			header.size != 0 ? ": " : ", truncated",
			FSDP_TEXT_MOST(header, 200));
		return fsdp_error_add_hint(
			ret_error, "load it with numpy.load(FILE, allow_pickle=False)");
	}
	FSDP_EACH(i, FSDP_COUNT(table), row, &table[i])
		if (look->head.size >= row->offset + row->size &&
			memcmp(look->head.data + row->offset, row->magic, row->size) == 0)
			return fail(
				ret_error, row->code, row->rule, row->what, row->hint);
	struct fsdp_span body = without_blanks(look->head);
	if (begins_json(body))
		return fail_json(body, ret_error);
	/* Bytes outside of UTF-8, each replaced by U+FFFD: a copy in text mode did it. */
	size_t count = 0;
	for (size_t i = 0; i + 2 < look->head.size; i++)
		count += memcmp(look->head.data + i, "\xef\xbf\xbd", 3) == 0;
	if (count >= 8 && count >= look->head.size / 32)
		return fail(ret_error, NOTHING,
			"a binary file that was copied as text: bytes were replaced by U+FFFD",
			"copy it again, as binary");
	if (is_onnx(look))
		return fail(ret_error, UNSUPPORTED, "an ONNX model",
			"save the state dict of the model instead");
	if (is_flax(look->head))
		return fail(ret_error, UNSUPPORTED, "a Flax checkpoint (msgpack)",
			"load it with flax.serialization");
	if (find_protobuf(look) != NULL)
		return fail(ret_error, UNSUPPORTED, find_protobuf(look)->what,
			find_protobuf(look)->hint);
	if (fsdp_span_begins(body, FSDP_SPAN("<?xml")) &&
		memmem(body.data, body.size, "<net ", 5) != NULL)
		return fail(ret_error, UNSUPPORTED, "a network of OpenVINO (.xml)",
			"its weights are in the .bin file next to it");
	if (is_lua_torch(look->head))
		return fail(ret_error, UNSUPPORTED, "a file of Lua Torch (.t7)",
			"load it with torchfile and save it with torch.save");
	if (is_ctranslate2(look->head))
		return fail(ret_error, UNSUPPORTED, "a CTranslate2 model",
			"the checkpoint it was converted from can be read");
	if (is_tensorflow(look))
		return fail(ret_error, UNSUPPORTED, "a part of a TensorFlow checkpoint",
			"load it with TensorFlow");
	/* Four numbers of Darknet: version 0.1 or 0.2, and images that were seen. */
	if (fsdp_span_ends(look->path, FSDP_SPAN(".weights")) && look->head.size >= 20 &&
		fsdp_load_le(look->head.data, 4) == 0 &&
		fsdp_load_le(look->head.data + 4, 4) <= 2)
		return fail(ret_error, UNSUPPORTED, "a weights file of Darknet", NULL);
	if (fsdp_span_ends(look->path, FSDP_SPAN(".safetensors")))
		return fail_broken_header(look, ret_error);
	if (is_torn_pickle(look)) {
		fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI3014", look->source.size,
			"file is truncated: the pickle ends without STOP");
		return fsdp_error_add_hint(ret_error, "copy this file again");
	}
	if (is_text(look->head)) {
		struct fsdp_span line = fsdp_span_first(look->head, '\n');
		char room[FSDP_SHOWN];
		fsdp_fail_rule(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, "FI9005",
			FSDP_UNKNOWN, "not a checkpoint: text that begins with '%s'",
			fsdp_shown(fsdp_span(line.data, (size_t)fsdp_min(line.size, 40)),
				room));
		return fsdp_error_add_hint(ret_error,
			"if it is the log of a training run: fsdp-inspect replay FILE");
	}
	if (is_zero(look->head))
		return fail(ret_error, OTHER, "a file that begins with zeros only",
			"copy it again; its data was probably never written");
	char bytes[64] = "";
	for (size_t i = 0; i < 16 && i < look->head.size; i++)
		snprintf(
			bytes + 3 * i, sizeof bytes - 3 * i, " %02x", look->head.data[i]);
	fsdp_fail_rule(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, "FI9005", 0,
		"unknown file format; first bytes:%s", bytes);
	return fsdp_error_add_hint(ret_error,
		"give a torch.save file, a directory of a distributed checkpoint, or a sharding plan");
}

/* ---- zips ---- */

static bool is_npz(const struct fsdp_zip *zip)
{
	for (size_t i = 0; i < zip->members.count; i++)
		if (!fsdp_span_ends(fsdp_zip_member(zip, i)->name, FSDP_SPAN(".npy")))
			return false;
	return zip->members.count != 0;
}

/* The first member whose name ends so; empty: none. */
static struct fsdp_span find_end(const struct fsdp_zip *zip, const char *end)
{
	for (size_t i = 0; i < zip->members.count; i++)
		if (fsdp_span_ends(fsdp_zip_member(zip, i)->name, fsdp_span_text(end)))
			return fsdp_zip_member(zip, i)->name;
	return (struct fsdp_span){ 0 };
}

/* Of a member that is a file of weights: its name; else empty. */
static struct fsdp_span find_weights(const struct fsdp_zip *zip)
{
	static const char *const ends[] = { ".safetensors", ".distcp", ".metadata", ".pt",
		".pth", ".bin", ".ckpt" };
	struct fsdp_span found = { 0 };
	for (size_t k = 0; k < FSDP_COUNT(ends) && found.data == NULL; k++)
		found = find_end(zip, ends[k]);
	return found;
}

static bool has_member(const struct fsdp_zip *zip, const char *name)
{
	for (size_t i = 0; i < zip->members.count; i++)
		if (fsdp_span_is(fsdp_zip_member(zip, i)->name, name))
			return true;
	return false;
}

bool fsdp_foreign_zip(const struct fsdp_zip *zip, struct fsdp_error **ret_error)
{
	struct fsdp_span weights = find_weights(zip);
	if (is_npz(zip)) {
		struct fsdp_span first = fsdp_zip_member(zip, 0)->name;
		fsdp_fail_rule(ret_error, FSDP_ERROR_UNSUPPORTED, "FI9002", FSDP_UNKNOWN,
			"this is a NumPy archive (.npz) of %zu arrays, the first is %.*s",
			zip->members.count, FSDP_TEXT_MOST(first, 128));
		return fsdp_error_add_hint(
			ret_error, "load it with numpy.load(FILE, allow_pickle=False)");
	}
	if (has_member(zip, "_stable_baselines3_version")) {
		/* Its pickles are in base64 inside of JSON; only its own loader reads
		 * them. */
		char names[512];
		size_t size = 0;
		for (size_t i = 0; i < zip->members.count && size < 400; i++) {
			char room[FSDP_SHOWN];
			size += (size_t)snprintf(names + size, sizeof names - size,
				"%s%.64s", i == 0 ? "" : ", ",
				fsdp_shown(fsdp_zip_member(zip, i)->name, room));
		}
		fsdp_fail_rule(ret_error, FSDP_ERROR_UNSUPPORTED, "FI9002", FSDP_UNKNOWN,
			"this is a model of Stable-Baselines3 with %zu members (%s); not checked: its weights, and the pickles in its JSON file data",
			zip->members.count, names);
		return fsdp_error_add_hint(ret_error,
			"unpack it and give one of its files of weights, as policy.pth");
	}
	if (has_member(zip, "model.weights.h5"))
		return fail(ret_error, UNSUPPORTED, "a Keras model: model.weights.h5",
			"load it with Keras");
	/* torch.export since 2.8, and before. */
	if (find_end(zip, "/archive_format").size != 0 ||
		has_member(zip, "serialized_exported_program.json"))
		return fail(ret_error, UNSUPPORTED,
			"a program of torch.export (.pt2), whose weights are not records of torch.save",
			"save them: torch.save(torch.export.load(FILE).state_dict, \"weights.pt\")");
	if (has_member(zip, "model_index.json") && weights.size != 0)
		return fail(ret_error, UNSUPPORTED,
			"a DDUF file (diffusers): model_index.json and weights",
			"unpack it and give one of its directories");
	if (has_member(zip, "data.pkl")) {
		fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI3042", FSDP_UNKNOWN,
			"data.pkl is at the root of the zip, and torch.load needs a directory around it");
		return fsdp_error_add_hint(
			ret_error, "unzip FILE -d archive && zip -0 -r fixed.pt archive");
	}
	if (weights.size == 0)
		return fail(ret_error, OTHER,
			"a zip archive without a data.pkl, so torch.save did not write it",
			NULL);
	fsdp_fail_rule(ret_error, FSDP_ERROR_UNSUPPORTED, "FI3060", FSDP_UNKNOWN,
		"a zip archive that contains a checkpoint (%.*s)",
		FSDP_TEXT_MOST(weights, 128));
	return fsdp_error_add_hint(ret_error, "unpack it and give the directory");
}

/* ---- directories ---- */

/* Directories that other families would accept. */
static const struct folder_row {
	const char *pattern, *beside; /* an entry, and another one, an ending or NULL */
	const char *what, *hint;
	bool alone; /* no other file has weights */
	bool lacks; /* … that PyTorch reads */
} folders[] = {
	{ "tf_model.h5", "config.json",
		"a model with weights for TensorFlow only (tf_model.h5), which transformers 5 does not load",
		"load it with transformers 4 and from_tf=True, and save it with save_pretrained",
		true, true },
	{ "flax_model.msgpack", "config.json",
		"a model with weights for Flax only (flax_model.msgpack), which transformers 5 does not load",
		"load it with transformers 4 and from_flax=True, and save it with save_pretrained",
		true, true },
	{ "nccl_trace_rank_#", NULL, "a directory of Flight Recorder dumps",
		"fsdp-inspect order FILE", true },
	{ "fr_trace_#", NULL, "a directory of Flight Recorder dumps",
		"fsdp-inspect order FILE", true },
	{ "rank#.safetensors", "config.json",
		"a TensorRT-LLM checkpoint: rankN.safetensors with config.json",
		"give one of its files, or the checkpoint it was made from" },
	{ "index.json", ".dat",
		"a directory to which Accelerate moved weights: index.json and NAME.dat",
		"give the checkpoint that they come from" },
	{ "model_index.json", NULL,
		"a pipeline of Diffusers: model_index.json, and a directory per model",
		"give one of its directories: unet, transformer, vae, text_encoder" },
	{ "_CHECKPOINT_METADATA", NULL, "an Orbax checkpoint (JAX): _CHECKPOINT_METADATA",
		"load it with Orbax" },
	{ "manifest.ocdbt", NULL, "an Orbax checkpoint (JAX): manifest.ocdbt",
		"load it with Orbax" },
	{ "_METADATA", NULL, "an Orbax checkpoint (JAX): _METADATA",
		"load it with Orbax" },
	{ ".snapshot_metadata", NULL,
		"a snapshot of torchsnapshot: .snapshot_metadata is its manifest",
		"load it with torchsnapshot" },
	{ ".zarray", NULL, "a zarr array: .zarray", "load it with zarr" },
	{ ".zgroup", NULL, "a zarr group: .zgroup", "load it with zarr" },
	{ "zarr.json", NULL, "a zarr array or group: zarr.json", "load it with zarr" },
	{ "Manifest.json", "Data", "a Core ML package: Manifest.json and Data", NULL },
	{ "coremldata.bin", NULL, "a compiled Core ML model: coremldata.bin", NULL },
	{ "saved_model.pb", NULL, "a TensorFlow SavedModel: saved_model.pb",
		"load it with TensorFlow" },
};

static bool is_alone(const struct fsdp_folder *folder, const char *pattern)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i))
		if (!fsdp_pattern_takes(entry.name, pattern, numbers) &&
			!fsdp_span_ends_any(
				entry.name, ".json .txt .md .model .gitattributes"))
			return false;
	return true;
}

static bool has_ending(const struct fsdp_folder *folder, const char *ending)
{
	bool found = false;
	for (size_t i = 0; *ending == '.' && i < folder->count; i++)
		found |= fsdp_span_ends(
			fsdp_folder_entry(folder, i).name, fsdp_span_text(ending));
	return found;
}

static const struct folder_row *find_folder(const struct fsdp_folder *folder)
{
	struct fsdp_entry entry;
	FSDP_EACH(i, FSDP_COUNT(folders), row, &folders[i])
		if (fsdp_pattern_in(folder, FSDP_ENTRY_FILE, row->pattern) &&
			(row->beside == NULL || has_ending(folder, row->beside) ||
				fsdp_folder_find(
					folder, fsdp_span_text(row->beside), &entry)) &&
			(!row->alone || is_alone(folder, row->pattern)))
			return row;
	return NULL;
}

struct evidence {
	const char *suffix;
	const char *what;
	const char *hint;
};

static const struct evidence directories[] = {
	{ ".trace.json", "a directory of traces of torch.profiler",
		"fsdp-inspect replay FILE" },
	{ ".trace.json.gz", "a directory of traces of torch.profiler",
		"fsdp-inspect replay FILE" },
	{ "manifest.ocdbt", "an Orbax checkpoint (JAX)", NULL },
	{ ".distcp", "a distributed checkpoint without .metadata", NULL },
	{ ".pt", "a directory of PyTorch files, which are not one checkpoint",
		"give one of its files" },
	{ ".pth", "a directory of PyTorch files, which are not one checkpoint",
		"give one of its files" },
	{ ".bin", "a directory of PyTorch files, which are not one checkpoint",
		"give one of its files" },
};

enum { LOOKED_AT = 64, HEAD = 512 };

/* Pages and pointers in place of files are one kind, whatever they fail; of the others
 * the message is compared up to a comma or colon: what follows is of the one file. */
static bool is_same_kind(const struct fsdp_error *a, const struct fsdp_error *b)
{
	const char *first = fsdp_error_message(a), *second = fsdp_error_message(b);
	size_t size = strcspn(first, ",:");
	return strcmp(fsdp_error_rule(a), fsdp_error_rule(b)) == 0 &&
	       (strcmp(fsdp_error_rule(a), "FI4001") == 0 ||
		       (size == strcspn(second, ",:") &&
			       strncmp(first, second, size) == 0));
}

/* Kind of the files of a directory, if all that are recognized by content are the same.
 */
static bool fail_one_kind(const struct fsdp_look *look, struct fsdp_error **ret_error)
{
	struct fsdp_error *first = NULL;
	bool same = true;
	for (size_t i = 0; i < look->folder->count && i < LOOKED_AT && same; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(look->folder, i);
		struct fsdp_error *error = NULL;
		struct fsdp_source source;
		unsigned char bytes[HEAD];
		if (entry.kind != FSDP_ENTRY_FILE || entry.size == 0)
			continue;
		size_t size = entry.size < HEAD ? (size_t)entry.size : HEAD;
		if (fsdp_folder_source(look->folder, entry.name, &source, &error) &&
			fsdp_source_read(&source, 0, bytes, size, &error)) {
			struct fsdp_look file = {
				.path = entry.name,
				.source = source,
				.head = fsdp_span(bytes, size),
			};
			fsdp_foreign(&file, &error);
		}
		bool known = error != NULL && fsdp_error_rule(error) != NULL &&
			     strcmp(fsdp_error_rule(error), "FI9005") != 0 &&
			     strcmp(fsdp_error_rule(error), "FI1050") != 0;
		if (known && first == NULL) {
			fsdp_error_add_path(&error, (const char *)entry.name.data);
			first = error;
			continue;
		}
		same = !known || is_same_kind(error, first);
		fsdp_error_free(error);
	}
	if (first != NULL && same && ret_error != NULL && *ret_error == NULL)
		*ret_error = first;
	else
		fsdp_error_free(first);
	return first != NULL && same;
}

static bool is_unfinished_name(struct fsdp_span name)
{
	return memmem(name.data, name.size, ORBAX_TMP, sizeof ORBAX_TMP - 1) != NULL;
}

/* A step, or an item of one. Where directories cannot be renamed a file marks it as
 * finished. */
static bool is_unfinished_orbax(
	const struct fsdp_look *look, const struct folder_row *row)
{
	if (row == NULL || strstr(row->what, "Orbax") == NULL || look->typed.size == 0)
		return false;
	struct fsdp_span path = look->typed;
	size_t begin = path.size, slashes = 0;
	while (begin != 0 && slashes < 2)
		slashes += path.data[--begin] == '/' && begin + 1 != path.size;
	return is_unfinished_name(fsdp_span(path.data + begin, path.size - begin)) &&
	       !fsdp_folder_has(look->folder, "commit_success.txt", FSDP_ENTRY_FILE);
}

static bool fail_directory(const struct fsdp_look *look, struct fsdp_error **ret_error)
{
	const struct folder_row *row = find_folder(look->folder);
	if (is_unfinished_orbax(look, row)) {
		char text[160];
		snprintf(text, sizeof text,
			"%s, of a save that did not finish: " ORBAX_TMP " in its name",
			row->what);
		return fail(ret_error, UNSUPPORTED, text,
			"use a step that is finished, or wait for the save to end");
	}
	if (row != NULL && row->lacks)
		return fail(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, "FI1001", row->what,
			row->hint);
	if (row != NULL)
		return fail(ret_error, UNSUPPORTED, row->what, row->hint);
	if (look->folder->count == 0)
		return fail(ret_error, OTHER, "an empty directory",
			"give its parent directory, which lists its contents");
	if (fail_one_kind(look, ret_error))
		return false;
	for (size_t k = 0; k < FSDP_COUNT(directories); k++) {
		FSDP_EACH(i, look->folder->count, entry,
			fsdp_folder_entry(look->folder, i)) {
			if (!fsdp_span_ends(
				    entry.name, fsdp_span_text(directories[k].suffix)))
				continue;
			if (entry.kind == FSDP_ENTRY_FILE && entry.size == 0)
				return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED,
					"FI1002", FSDP_UNKNOWN, "%.*s is empty",
					FSDP_TEXT_MOST(entry.name, 256));
			return fail(ret_error, FSDP_ERROR_UNSUPPORTED, "FI9002",
				directories[k].what, directories[k].hint);
		}
	}
	struct fsdp_entry entry;
	if (fsdp_folder_find(look->folder, FSDP_SPAN("config.json"), &entry) ||
		fsdp_folder_find(look->folder, FSDP_SPAN("adapter_config.json"), &entry))
		return fail_weights(look, ret_error);
	fsdp_fail_rule(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, "FI9005", FSDP_UNKNOWN,
		"no checkpoint in this directory (%zu %s, first '%s')",
		look->folder->count, look->folder->count == 1 ? "entry" : "entries",
		(const char *)fsdp_folder_entry(look->folder, 0).name.data);
	for (size_t i = 0; i < look->folder->count; i++) {
		entry = fsdp_folder_entry(look->folder, i);
		if (entry.kind != FSDP_ENTRY_FILE || entry.name.size > 200 ||
			!fsdp_span_ends_any(entry.name,
				".tar .tar.gz .tgz .tar.bz2 .tar.xz .tar.zst .zip"))
			continue;
		return fsdp_error_add_hint(ret_error,
			"if the checkpoint is in the archive %.*s, give that",
			FSDP_TEXT(entry.name));
	}
	return fsdp_error_add_hint(
		ret_error, "give the directory with .metadata, or a torch.save file");
}

static enum fsdp_sign recognize(const struct fsdp_look *look)
{
	const struct folder_row *row =
		look->folder != NULL ? find_folder(look->folder) : NULL;
	return row != NULL && !row->alone ? FSDP_SIGN_SURE : FSDP_SIGN_NONE;
}

bool fsdp_foreign_has_dumps(const struct fsdp_look *look)
{
	const struct folder_row *row =
		look->folder != NULL ? find_folder(look->folder) : NULL;
	return row != NULL && row->alone;
}

static bool refuse(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	if (is_unfinished_orbax(look, find_folder(look->folder)))
		fsdp_find(&reading->model->findings, FSDP_RULE_COMMIT_LEFTOVER,
			FSDP_PLACE(.file = { 0 }),
			"the directory belongs to a save that did not finish: " ORBAX_TMP
			" in its name");
	return fail_directory(look, ret_error);
}

const struct fsdp_family fsdp_family_foreign = {
	.name = "foreign",
	.title = "checkpoint of another program",
	.recognize = recognize,
	.read = refuse,
	.is_refused = true,
	.is_unfinished = is_unfinished_name,
};

bool fsdp_foreign(const struct fsdp_look *look, struct fsdp_error **ret_error)
{
	struct fsdp_budget budget = { .ceiling = 1 << 20 };
	struct fsdp_arena arena;
	if (look->folder != NULL)
		return fail_directory(look, ret_error);
	fsdp_arena_init(&arena, &budget);
	const char *placeholder = fsdp_foreign_placeholder(look->head, &arena);
	if (placeholder != NULL)
		fail(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, "FI4001", placeholder,
			fsdp_foreign_placeholder_fix(look->head));
	else
		fail_file(look, ret_error);
	fsdp_arena_done(&arena);
	return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows which globals a checkpoint's pickle may name as data; knows nothing of what
 * they build. Everything that is not listed is a finding, whatever it is called.
 *
 * Origin: torch/_weights_only_unpickler.py (PyTorch 2.13) for what torch itself takes;
 * files of FSDP, DCP, numpy and the older releases for the rest.
 */
#include "format/torch-value.h"
#include "model/dtype.h"

/* Where a name is at home; a profile says which homes count. */
enum home {
	STRICT = 1,  /* torch.load(weights_only=True) takes it as it is */
	DTENSOR = 2, /* … once torch.distributed.tensor is imported */
	SHARDED = 4, /* rank files of FSDP */
	METADATA = 8,
	NUMPY = 16,
	PLAIN = 32,  /* constructors of plain data */
	SCRIPT = 64, /* TorchScript only: classes that its own code defines */
};

struct known {
	const char *module; /* ends in * for all that begin so */
	const char *names;  /* separated by blanks; "*" for any */
	unsigned home;
};

#define STORAGES                                                                      \
	"DoubleStorage FloatStorage HalfStorage LongStorage IntStorage ShortStorage " \
	"CharStorage ByteStorage BoolStorage BFloat16Storage ComplexDoubleStorage "   \
	"ComplexFloatStorage"
#define TENSORS                                                                 \
	"DoubleTensor FloatTensor HalfTensor LongTensor IntTensor ShortTensor " \
	"CharTensor "                                                           \
	"ByteTensor BFloat16Tensor"
#define METADATA_CLASSES                                                            \
	"Metadata TensorStorageMetadata BytesStorageMetadata ChunkStorageMetadata " \
	"MetadataIndex TensorProperties StorageMeta _MEM_FORMAT_ENCODING"
#define PATHS "PosixPath WindowsPath PurePosixPath PureWindowsPath"
#define PLACEMENTS "Shard Replicate Partial _Partial _StridedShard"

static const struct known table[] = {
	{ "collections", "OrderedDict Counter", STRICT },
	{ "collections", "defaultdict", METADATA | PLAIN },
	{ "torch", "Size Tensor device " STORAGES " " TENSORS " BoolTensor", STRICT },
	{ "torch",
		"QInt8Storage QInt32Storage QUInt8Storage QUInt4x2Storage "
		"QUInt2x4Storage "
		"per_tensor_affine per_tensor_symmetric per_channel_affine "
		"per_channel_symmetric "
		"per_channel_affine_float_qparams",
		STRICT },
	{ "torch", "strided sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc",
		METADATA },
	{ "torch.cuda", STORAGES " " TENSORS " BoolTensor", STRICT },
	{ "torch.sparse", TENSORS, STRICT },
	{ "torch.cuda.sparse", TENSORS, STRICT },
	{ "torch.storage", "UntypedStorage TypedStorage", STRICT },
	{ "torch.nn.parameter", "Parameter", STRICT },
	{ "torch.serialization", "_get_layout", STRICT },
	{ "torch._tensor", "_rebuild_from_type_v2", STRICT },
	{ "torch._utils",
		"_rebuild_parameter _rebuild_parameter_with_state _rebuild_qtensor "
		"_rebuild_tensor _rebuild_tensor_v2 _rebuild_tensor_v3 "
		"_rebuild_sparse_tensor "
		"_rebuild_meta_tensor_no_storage _rebuild_nested_tensor "
		"_rebuild_wrapper_subclass _rebuild_device_tensor_from_numpy "
		"_rebuild_device_tensor_from_cpu_tensor",
		STRICT },
	{ "torch._utils", "_rebuild_xla_tensor", SHARDED },
	{ "_codecs", "encode", STRICT },
	{ "builtins", "bytearray set complex", STRICT },
	{ "builtins", "frozenset slice range list dict tuple int float str bool bytes",
		METADATA | PLAIN },
	{ "torch.distributed.device_mesh", "DeviceMesh", DTENSOR },
	{ "torch.distributed._mesh_layout", "_MeshLayout _FlatLayout", DTENSOR },
	{ "torch.distributed.tensor", "DTensor", DTENSOR },
	{ "torch.distributed.tensor._dtensor_spec",
		"DTensorSpec TensorMeta ShardOrderEntry", DTENSOR },
	{ "torch.distributed.tensor.placement_types", PLACEMENTS, DTENSOR },
	{ "torch.distributed._tensor.api", "DTensor", SHARDED },
	{ "torch.distributed._tensor", "DTensor DeviceMesh " PLACEMENTS, SHARDED },
	{ "torch.distributed._tensor.placement_types",
		"DTensorSpec TensorMeta " PLACEMENTS, SHARDED },
	{ "torch.distributed._tensor._dtensor_spec", "DTensorSpec TensorMeta", SHARDED },
	{ "torch.distributed._tensor.device_mesh", "DeviceMesh", SHARDED },
	{ "torch.nested._internal.nested_tensor", "NestedTensor _rebuild_njt", STRICT },
	{ "torch._dynamo.decorators", "_DimRange", STRICT },
	{ "torch.distributed._shard.sharded_tensor.api",
		"ShardedTensor ShardedTensor.ProcessGroupState", SHARDED },
	{ "torch.distributed._shard.sharded_tensor.shard", "Shard", SHARDED },
	{ "torch.distributed._shard.sharded_tensor.metadata",
		"ShardedTensorMetadata TensorProperties MEM_FORMAT_ENCODING",
		SHARDED | METADATA },
	{ "torch.distributed._shard.metadata", "ShardMetadata", SHARDED },
	{ "torch.distributed._shard.sharding_spec.chunk_sharding_spec",
		"ChunkShardingSpec", SHARDED },
	{ "torch.distributed._shard.sharding_spec.api", "EnumerableShardingSpec",
		SHARDED },
	{ "torch.distributed.remote_device", "_remote_device", SHARDED },
	{ "torch.distributed.checkpoint.metadata", METADATA_CLASSES, METADATA },
	{ "torch.distributed.checkpoint.filesystem", "_StorageInfo", METADATA },
	{ "torch.distributed.checkpoint._hf_utils", "_HFStorageInfo", METADATA },
	{ "torch.distributed._shard.checkpoint.metadata", METADATA_CLASSES, METADATA },
	{ "torch.distributed._shard.checkpoint.filesystem", "_StorageInfo", METADATA },
	{ "torch.distributed.checkpoint.planner",
		"SavePlan WriteItem WriteItemType TensorWriteData BytesIOWriteData",
		METADATA },
	{ "megatron.core.dist_checkpointing*", "MCoreMetadata", METADATA },
	{ "pathlib", PATHS, METADATA | PLAIN },
	{ "pathlib._local", PATHS, METADATA | PLAIN },
	{ "numpy", "ndarray dtype", NUMPY },
	{ "numpy.core.multiarray", "_reconstruct scalar", NUMPY },
	{ "numpy._core.multiarray", "_reconstruct scalar", NUMPY },
	{ "numpy.core.numeric", "_frombuffer", NUMPY },
	{ "numpy._core.numeric", "_frombuffer", NUMPY },
	{ "numpy.random._pickle",
		"__randomstate_ctor __generator_ctor __bit_generator_ctor", NUMPY },
	{ "_io", "BytesIO", PLAIN }, /* Megatron's extra states: bytes */
	{ "argparse", "Namespace", PLAIN },
	{ "deepspeed.runtime.fp16.loss_scaler", "LossScaler DynamicLossScaler", PLAIN },
	{ "deepspeed.runtime.zero.config", "ZeroStageEnum", PLAIN },
	{ "deepspeed.utils.tensor_fragment", "fragment_address", PLAIN },
	{ "types", "SimpleNamespace", PLAIN },
	{ "datetime", "datetime timedelta", PLAIN },
	{ "__torch__*", "*", SCRIPT },
	{ "torch.jit._pickle",
		"build_boollist build_doublelist build_intlist build_tensor_from_id "
		"build_tensorlist restore_type_tag",
		SCRIPT },
};

/* Names that make the message stronger; being absent here means nothing. */
static const struct known gadgets[] = {
	{ "os", "*", 0 },
	{ "posix", "*", 0 },
	{ "nt", "*", 0 },
	{ "sys", "*", 0 },
	{ "subprocess", "*", 0 },
	{ "shutil", "*", 0 },
	{ "socket", "*", 0 },
	{ "importlib*", "*", 0 },
	{ "runpy", "*", 0 },
	{ "pty", "*", 0 },
	{ "ctypes*", "*", 0 },
	{ "webbrowser", "*", 0 },
	{ "multiprocessing*", "*", 0 },
	{ "code", "*", 0 },
	{ "timeit", "*", 0 },
	{ "pdb", "*", 0 },
	{ "bdb", "*", 0 },
	{ "asyncio*", "*", 0 },
	{ "operator", "attrgetter methodcaller itemgetter", 0 },
	{ "functools", "partial reduce", 0 },
	{ "builtins",
		"eval exec compile open __import__ getattr setattr delattr globals "
		"locals vars "
		"input breakpoint apply execfile",
		0 },
	{ "pickle", "loads load Unpickler", 0 },
	{ "_pickle", "loads load Unpickler", 0 },
	{ "torch", "load", 0 },
	{ "torch.serialization", "load", 0 },
	{ "torch.hub", "*", 0 },
	{ "torch.storage", "_load_from_bytes", 0 },
	{ "numpy", "load", 0 },
};

static bool module_matches(const char *pattern, struct fsdp_span module)
{
	size_t size = strlen(pattern);
	if (size != 0 && pattern[size - 1] == '*')
		return fsdp_span_begins(module, fsdp_span(pattern, size - 1));
	return fsdp_span_is(module, pattern);
}

static bool name_matches(const char *names, struct fsdp_span name)
{
	if (strcmp(names, "*") == 0)
		return true;
	while (*names != '\0') {
		size_t size = strcspn(names, " ");
		if (size == name.size && memcmp(names, name.data, size) == 0)
			return true;
		names += size;
		names += *names == ' ';
	}
	return false;
}

static unsigned find_home(const struct known *rows, size_t count,
	const struct fsdp_pickle_global *global, bool *ret_found)
{
	unsigned home = 0;
	for (size_t i = 0; i < count; i++) {
		if (!module_matches(rows[i].module, global->module) ||
			!name_matches(rows[i].names, global->name))
			continue;
		home |= rows[i].home;
		*ret_found = true;
	}
	return home;
}

static bool is_dtype(const struct fsdp_pickle_global *global)
{
	return fsdp_span_is(global->module, "torch") &&
	       fsdp_dtype_find(global->name) != FSDP_DTYPE_UNKNOWN;
}

static bool is_numpy_type(const struct fsdp_pickle_global *global)
{
	return fsdp_span_is(global->module, "numpy.dtypes") &&
	       fsdp_span_ends(global->name, FSDP_SPAN("DType"));
}

static bool is_getattr(const struct fsdp_pickle_global *global)
{
	return fsdp_span_is(global->module, "builtins") &&
	       fsdp_span_is(global->name, "getattr");
}

/*
 * Two ordinary writers compute attributes: every pickle of a class inside a class below
 * protocol 4 (ShardedTensor.ProcessGroupState), and enum members as early releases of
 * CPython 3.11 write them. Both name their class beside it.
 */
static bool has_getattr_class(const struct fsdp_pickle *pickle)
{
	for (size_t i = 0; i < fsdp_pickle_global_count(pickle); i++) {
		const struct fsdp_pickle_global *global = fsdp_pickle_global(pickle, i);
		if (fsdp_span_is(global->name, "ShardedTensor") ||
			fsdp_span_is(global->name, "_MEM_FORMAT_ENCODING") ||
			fsdp_span_is(global->name, "MEM_FORMAT_ENCODING"))
			return true;
	}
	return false;
}

static const char *use_text(unsigned uses)
{
	return uses & FSDP_USE_CALLED  ? "called"
	       : uses & FSDP_USE_BUILT ? "built"
				       : "named";
}

static void say(struct fsdp_torch *torch, const struct fsdp_pickle_global *global,
	uint64_t base, enum fsdp_rule_index rule, const char *what)
{
	char text[512];
	size_t module = global->module.size < 200 ? global->module.size : 200;
	size_t name = global->name.size < 200 ? global->name.size : 200;
	size_t size = 0;
	if (module != 0)
		memcpy(text, global->module.data, module);
	size = module;
	text[size++] = '.';
	if (name != 0)
		memcpy(text + size, global->name.data, name);
	size += name;
	fsdp_find(&torch->model->findings, rule,
		FSDP_PLACE(.file = torch->file, .member = torch->member,
			.offset = base + global->offset, .tensor = fsdp_span(text, size)),
		"%.*s is %s, %s; nothing was run", (int)size, text,
		use_text(global->uses), what);
}

/* What torch.load(weights_only=True) would refuse, as one remark on the file. */
struct refused {
	size_t count;
	bool only_dtensors; /* an import of torch.distributed.tensor is enough */
	char names[360];
	size_t size;
};

static void add_refused(
	struct refused *refused, const struct fsdp_pickle_global *global, bool dtensor)
{
	size_t need = global->module.size + 1 + global->name.size + 2;
	refused->only_dtensors &= dtensor;
	if (refused->count++ != 0 && refused->size + need < sizeof refused->names) {
		memcpy(refused->names + refused->size, ", ", 2);
		refused->size += 2;
	}
	if (refused->size + need >= sizeof refused->names)
		return;
	memcpy(refused->names + refused->size, global->module.data, global->module.size);
	refused->size += global->module.size;
	refused->names[refused->size++] = '.';
	memcpy(refused->names + refused->size, global->name.data, global->name.size);
	refused->size += global->name.size;
}

static void say_refused(struct fsdp_torch *torch, const struct refused *refused)
{
	if (refused->count == 0)
		return;
	fsdp_find(&torch->model->findings, FSDP_RULE_WEIGHTS_ONLY_REFUSES,
		FSDP_PLACE(.file = torch->file, .member = torch->member,
			.next = refused->only_dtensors
					? "import torch.distributed.tensor first"
					: NULL),
		"torch.load(weights_only=True) refuses %zu of its classes: %.*s",
		refused->count, (int)refused->size, refused->names);
}

static bool is_known(const struct fsdp_torch *torch, enum fsdp_profile profile,
	const struct fsdp_pickle_global *global, unsigned *ret_home)
{
	bool found = false;
	*ret_home = find_home(table, sizeof table / sizeof *table, global, &found);
	if (*ret_home == SCRIPT)
		return profile == FSDP_PROFILE_SCRIPT;
	if (is_dtype(global))
		*ret_home |= STRICT;
	if (is_numpy_type(global))
		*ret_home |= NUMPY;
	if (is_getattr(global) && has_getattr_class(torch->pickle))
		*ret_home |= SHARDED | METADATA;
	return found || *ret_home != 0;
}

void fsdp_torch_judge(struct fsdp_torch *torch, enum fsdp_profile profile, uint64_t base)
{
	const struct fsdp_pickle *pickle = torch->pickle;
	struct refused refused = { .only_dtensors = true };
	if (pickle == NULL)
		return;
	for (size_t i = 0; i < fsdp_pickle_global_count(pickle); i++) {
		const struct fsdp_pickle_global *global = fsdp_pickle_global(pickle, i);
		bool gadget = false;
		unsigned home;
		if (is_known(torch, profile, global, &home)) {
			if (!(home & STRICT))
				add_refused(&refused, global, home & DTENSOR);
			continue;
		}
		(void)find_home(
			gadgets, sizeof gadgets / sizeof *gadgets, global, &gadget);
		say(torch, global, base,
			gadget ? FSDP_RULE_PICKLE_GADGET : FSDP_RULE_PICKLE_GLOBAL,
			gadget ? "which can run commands or code"
			       : "which is not on the list of known data");
	}
	/* Metadata is never loaded that way. */
	if (profile == FSDP_PROFILE_TENSORS)
		say_refused(torch, &refused);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the globals that a checkpoint's pickle may name as data. Everything that is not
 * listed is a finding, whatever it is called.
 *
 * Origin: torch/_weights_only_unpickler.py (PyTorch 2.13) for what torch itself takes;
 * files of FSDP, DCP, numpy and the older releases for the rest.
 */
#include <stdio.h>

#include "format/torch/torch.h"
#include "model/dtype.h"

enum { TEXT_BYTES = 4 * FSDP_SHOWN + 32 };

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
	"MetadataIndex TensorProperties StorageMeta"
#define PATHS "PosixPath WindowsPath PurePosixPath PureWindowsPath"
#define PLACEMENTS "Shard Replicate Partial _Partial _StridedShard"

/* Columns: calls and states as their writers have them (torch.h). Without them a
 * name stands for itself only: it is not called, and what it makes gets no state. */
#define NEVER NULL, NULL
#define ENUM "i|s", NULL, FSDP_KNOWN_ENUM
#define OBJECT "", "dt"

static const struct fsdp_torch_known table[] = {
	{ "collections", "OrderedDict", STRICT, "|l|d", "m", FSDP_KNOWN_FACTORY },
	{ "collections", "Counter", STRICT, "|d", NULL, FSDP_KNOWN_FACTORY },
	{ "collections", "defaultdict", METADATA | PLAIN, "F|Fd", NULL },
	{ "torch", "Size", STRICT, "Z", NULL },
	{ "torch", "Tensor", STRICT, NEVER, FSDP_KNOWN_TENSOR },
	{ "torch", "device", STRICT, "s|si", NULL },
	{ "torch", STORAGES, STRICT, NEVER },
	{ "torch", TENSORS " BoolTensor", STRICT, "", "t", FSDP_KNOWN_TENSOR },
	{ "torch",
		"QInt8Storage QInt32Storage QUInt8Storage QUInt4x2Storage "
		"QUInt2x4Storage "
		"per_tensor_affine per_tensor_symmetric per_channel_affine "
		"per_channel_symmetric "
		"per_channel_affine_float_qparams",
		STRICT, NEVER },
	{ "torch", "strided sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc",
		METADATA, NEVER },
	{ "torch.cuda", STORAGES, STRICT, NEVER },
	{ "torch.cuda", TENSORS " BoolTensor", STRICT, "", "t", FSDP_KNOWN_TENSOR },
	{ "torch.sparse", TENSORS, STRICT, "", "t", FSDP_KNOWN_TENSOR },
	{ "torch.cuda.sparse", TENSORS, STRICT, "", "t", FSDP_KNOWN_TENSOR },
	{ "torch.storage", "UntypedStorage TypedStorage", STRICT, NEVER },
	{ "torch.nn.parameter", "Parameter", STRICT, "", "t", FSDP_KNOWN_TENSOR },
	{ "torch.serialization", "_get_layout", STRICT, "s", NULL },
	{ "torch._tensor", "_rebuild_from_type_v2", STRICT, "!r2c1s3", NULL },
	{ "torch._utils", "_rebuild_parameter", STRICT, "!h2", NULL },
	{ "torch._utils", "_rebuild_parameter_with_state", STRICT, "!h2s3", NULL },
	{ "torch._utils", "_rebuild_tensor", STRICT, "!", NULL },
	{ "torch._utils", "_rebuild_tensor_v2 _rebuild_tensor_v3", STRICT, "!h5", NULL },
	{ "torch._utils", "_rebuild_qtensor", STRICT, "!h6", NULL },
	{ "torch._utils", "_rebuild_wrapper_subclass", STRICT, "!c0", NULL },
	{ "torch._utils",
		"_rebuild_sparse_tensor _rebuild_meta_tensor_no_storage _rebuild_nested_tensor _rebuild_device_tensor_from_cpu_tensor",
		STRICT, "!", NULL },
	{ "torch._utils", "_rebuild_device_tensor_from_numpy", STRICT, "xDxb", NULL },
	{ "torch._utils", "_rebuild_xla_tensor", SHARDED, "xDxb", NULL },
	{ "_codecs", "encode", STRICT, "sC", NULL },
	{ "builtins", "bytearray", STRICT, "|y|sC", NULL },
	{ "builtins", "set", STRICT, "|l", NULL, FSDP_KNOWN_FACTORY },
	{ "builtins", "complex", STRICT, "ff", NULL },
	{ "builtins", "frozenset", METADATA | PLAIN, "|l", NULL },
	{ "builtins", "list tuple", METADATA | PLAIN, "|l", NULL, FSDP_KNOWN_FACTORY },
	{ "builtins", "dict", METADATA | PLAIN, "|d|l", NULL, FSDP_KNOWN_FACTORY },
	{ "builtins", "slice", METADATA | PLAIN, "ppp", NULL },
	{ "builtins", "range", METADATA | PLAIN, "i|ii|iii", NULL },
	{ "builtins", "int float str bool", METADATA | PLAIN, "|p", NULL,
		FSDP_KNOWN_FACTORY },
	{ "builtins", "bytes", METADATA | PLAIN, "|y|l|sC", NULL },
	{ "builtins", "getattr", SHARDED | METADATA, NEVER, FSDP_KNOWN_GETATTR },
	{ "torch.distributed.device_mesh", "DeviceMesh", DTENSOR, OBJECT },
	{ "torch.distributed._mesh_layout", "_MeshLayout _FlatLayout", DTENSOR, "|xx",
		"dt" },
	{ "torch.distributed.tensor", "DTensor", DTENSOR, NEVER, FSDP_KNOWN_TENSOR },
	{ "torch.distributed.tensor._dtensor_spec", "DTensorSpec", DTENSOR, OBJECT },
	{ "torch.distributed.tensor._dtensor_spec", "TensorMeta", DTENSOR, "ZZD", NULL },
	{ "torch.distributed.tensor._dtensor_spec", "ShardOrderEntry", DTENSOR, "iZ",
		NULL },
	{ "torch.distributed.tensor.placement_types", PLACEMENTS, DTENSOR, "|p|pp",
		"dt" },
	{ "torch.distributed._tensor.api", "DTensor", SHARDED, NEVER, FSDP_KNOWN_TENSOR },
	{ "torch.distributed._tensor", "DTensor", SHARDED, NEVER, FSDP_KNOWN_TENSOR },
	{ "torch.distributed._tensor", "DeviceMesh", SHARDED, OBJECT },
	{ "torch.distributed._tensor", PLACEMENTS, SHARDED, "|p|pp", "dt" },
	{ "torch.distributed._tensor.placement_types", "DTensorSpec", SHARDED, OBJECT },
	{ "torch.distributed._tensor.placement_types", "TensorMeta", SHARDED, "ZZD",
		NULL },
	{ "torch.distributed._tensor.placement_types", PLACEMENTS, SHARDED, "|p|pp",
		"dt" },
	{ "torch.distributed._tensor._dtensor_spec", "DTensorSpec", SHARDED, OBJECT },
	{ "torch.distributed._tensor._dtensor_spec", "TensorMeta", SHARDED, "ZZD", NULL },
	{ "torch.distributed._tensor.device_mesh", "DeviceMesh", SHARDED, OBJECT },
	/* of DTensors of torch 2.1 */
	{ "torch.fx.passes.shape_prop", "TensorMetadata", SHARDED, "ZDbZxbd|ZDbZgbd",
		NULL },
	{ "torch", "contiguous_format channels_last channels_last_3d preserve_format",
		SHARDED, NEVER },
	{ "torch.nested._internal.nested_tensor", "NestedTensor", STRICT, NEVER,
		FSDP_KNOWN_TENSOR },
	{ "torch.nested._internal.nested_tensor", "_rebuild_njt", STRICT, "*x", NULL },
	{ "torch._dynamo.decorators", "_DimRange", STRICT, "ppp", NULL },
	{ "torch.distributed._shard.sharded_tensor.api", "ShardedTensor", SHARDED, NEVER,
		FSDP_KNOWN_TENSOR | FSDP_KNOWN_SHARDED },
	{ "torch.distributed._shard.sharded_tensor.api",
		"ShardedTensor.ProcessGroupState", SHARDED, OBJECT },
	{ "torch.distributed._shard.sharded_tensor.shard", "Shard", SHARDED, OBJECT },
	{ "torch.distributed._shard.sharded_tensor.metadata",
		"ShardedTensorMetadata TensorProperties", SHARDED | METADATA, OBJECT },
	{ "torch.distributed._shard.sharded_tensor.metadata", "MEM_FORMAT_ENCODING",
		SHARDED | METADATA, ENUM },
	{ "torch.distributed._shard.metadata", "ShardMetadata", SHARDED, OBJECT },
	{ "torch.distributed._shard.sharding_spec.chunk_sharding_spec",
		"ChunkShardingSpec", SHARDED, OBJECT },
	{ "torch.distributed._shard.sharding_spec.api", "EnumerableShardingSpec", SHARDED,
		OBJECT },
	{ "torch.distributed.remote_device", "_remote_device", SHARDED, OBJECT },
	{ "torch.distributed.checkpoint.metadata", METADATA_CLASSES, METADATA, OBJECT },
	{ "torch.distributed.checkpoint.metadata", "_MEM_FORMAT_ENCODING", METADATA,
		ENUM },
	{ "torch.distributed.checkpoint.filesystem", "_StorageInfo", METADATA, OBJECT },
	{ "torch.distributed.checkpoint._hf_utils", "_HFStorageInfo", METADATA, OBJECT },
	{ "torch.distributed._shard.checkpoint.metadata", METADATA_CLASSES, METADATA,
		OBJECT },
	{ "torch.distributed._shard.checkpoint.metadata", "_MEM_FORMAT_ENCODING",
		METADATA, ENUM },
	{ "torch.distributed._shard.checkpoint.filesystem", "_StorageInfo", METADATA,
		OBJECT },
	{ "torch.distributed.checkpoint.planner",
		"SavePlan WriteItem TensorWriteData BytesIOWriteData", METADATA, OBJECT },
	{ "torch.distributed.checkpoint.planner", "WriteItemType", METADATA, ENUM },
	{ "megatron.core.dist_checkpointing*", "MCoreMetadata", METADATA, OBJECT },
	{ "pathlib", PATHS, METADATA | PLAIN, "*s", NULL },
	{ "pathlib._local", PATHS, METADATA | PLAIN, "*s", NULL },
	{ "numpy", "ndarray", NUMPY, NEVER },
	{ "numpy", "dtype", NUMPY, "Obb", "t" },
	{ "numpy.core.multiarray", "_reconstruct", NUMPY, "NZy|NZs", "t" },
	{ "numpy._core.multiarray", "_reconstruct", NUMPY, "NZy|NZs", "t" },
	{ "numpy.core.multiarray", "scalar", NUMPY, "xy|xs", NULL },
	{ "numpy._core.multiarray", "scalar", NUMPY, "xy|xs", NULL },
	{ "numpy.core.numeric", "_frombuffer", NUMPY, "xxZs", NULL },
	{ "numpy._core.numeric", "_frombuffer", NUMPY, "xxZs", NULL },
	{ "numpy.random._pickle", "__randomstate_ctor __generator_ctor", NUMPY, "|x|xB",
		"dt" },
	{ "numpy.random._pickle", "__bit_generator_ctor", NUMPY, "|s|g", "dt" },
	{ "_io", "BytesIO", PLAIN, "|y", "t" }, /* Megatron's extra states: bytes */
	{ "argparse", "Namespace", PLAIN, "", "d" },
	{ "deepspeed.runtime.fp16.loss_scaler", "LossScaler DynamicLossScaler", PLAIN,
		OBJECT },
	{ "deepspeed.runtime.zero.config", "ZeroStageEnum", PLAIN, ENUM },
	{ "deepspeed.utils.tensor_fragment", "fragment_address", PLAIN, OBJECT },
	{ "types", "SimpleNamespace", PLAIN, "|d", "d" },
	{ "transformers.training_args", "TrainingArguments", PLAIN, OBJECT },
	{ "transformers.training_args", "OptimizerNames ParallelMode", PLAIN, ENUM },
	{ "transformers.training_args_seq2seq", "Seq2SeqTrainingArguments", PLAIN,
		OBJECT },
	{ "transformers.trainer_utils",
		"HubStrategy IntervalStrategy SaveStrategy SchedulerType EvaluationStrategy FSDPOption",
		PLAIN, ENUM },
	{ "transformers.trainer_pt_utils", "AcceleratorConfig", PLAIN, OBJECT },
	{ "transformers.integrations.deepspeed",
		"HfDeepSpeedConfig HfTrainerDeepSpeedConfig", PLAIN, OBJECT },
	{ "transformers.deepspeed", "HfDeepSpeedConfig HfTrainerDeepSpeedConfig", PLAIN,
		OBJECT },
	{ "accelerate.state", "PartialState", PLAIN, OBJECT },
	{ "accelerate.utils.dataclasses", "DistributedType", PLAIN, ENUM },
	{ "accelerate.utils.dataclasses",
		"DeepSpeedPlugin FullyShardedDataParallelPlugin", PLAIN, OBJECT },
	{ "datetime", "datetime", PLAIN, "y|yx|s|sx", NULL },
	{ "datetime", "timedelta", PLAIN, "iii", NULL },
	{ "__torch__*", "*", SCRIPT, "*x", "*" },
	{ "torch.jit._pickle",
		"build_boollist build_doublelist build_intlist build_tensorlist", SCRIPT,
		"x", NULL },
	{ "torch.jit._pickle", "build_tensor_from_id", SCRIPT, "x", NULL },
	{ "torch.jit._pickle", "restore_type_tag", SCRIPT, "xs", NULL },
};

static const struct fsdp_torch_known plain = { .home = STRICT },
				     numpy_type = { .home = NUMPY, .calls = "" }, unknown;

/* Names that make the message stronger; being absent here means nothing. */
enum { COMMANDS, LOADS };

static const struct gadget {
	const char *module, *names;
	int what;
} gadgets[] = {
	{ "os", "*", COMMANDS },
	{ "posix", "*", COMMANDS },
	{ "nt", "*", COMMANDS },
	{ "sys", "*", COMMANDS },
	{ "subprocess", "*", COMMANDS },
	{ "shutil", "*", COMMANDS },
	{ "socket", "*", COMMANDS },
	{ "importlib*", "*", COMMANDS },
	{ "runpy", "*", COMMANDS },
	{ "pty", "*", COMMANDS },
	{ "ctypes*", "*", COMMANDS },
	{ "webbrowser", "*", COMMANDS },
	{ "multiprocessing*", "*", COMMANDS },
	{ "code", "*", COMMANDS },
	{ "timeit", "*", COMMANDS },
	{ "pdb", "*", COMMANDS },
	{ "bdb", "*", COMMANDS },
	{ "asyncio*", "*", COMMANDS },
	{ "operator", "*", COMMANDS },
	{ "_operator", "*", COMMANDS },
	{ "functools", "partial reduce partialmethod", COMMANDS },
	{ "_functools", "partial reduce", COMMANDS },
	{ "builtins",
		"eval exec compile open __import__ getattr setattr delattr globals locals vars input breakpoint apply execfile",
		COMMANDS },
	{ "pickle", "loads load Unpickler _Unpickler", LOADS },
	{ "_pickle", "loads load Unpickler _Unpickler", LOADS },
	{ "torch", "load", LOADS },
	{ "torch.serialization", "load _load _legacy_load", LOADS },
	{ "torch.hub", "*", LOADS },
	{ "torch.jit*", "*", LOADS },
	{ "torch.storage", "_load_from_bytes", LOADS },
	{ "numpy", "load loadtxt fromfile", LOADS },
	{ "numpy.lib*", "*", LOADS },
	{ "joblib*", "*", LOADS },
	{ "dill*", "*", LOADS },
	{ "cloudpickle*", "*", LOADS },
	{ "shelve", "*", LOADS },
	{ "marshal", "*", LOADS },
	{ "pandas*", "read_pickle", LOADS },
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

static bool matches(
	const char *module, const char *names, const struct fsdp_pickle_global *global)
{
	return module_matches(module, global->module) &&
	       name_matches(names, global->name);
}

static bool is_dtype(const struct fsdp_pickle_global *global)
{
	return fsdp_span_is(global->module, "torch") &&
	       fsdp_dtype_find(global->name) != FSDP_DTYPE_UNKNOWN;
}

static bool is_numpy_type(const struct fsdp_pickle_global *global)
{
	return fsdp_span_is(global->module, "numpy.dtypes") &&
	       fsdp_span_ends(global->name, FSDP_SPAN("DType")) &&
	       !fsdp_span_is(global->name, "ObjectDType");
}

static const struct fsdp_torch_known *find_known(
	enum fsdp_profile profile, const struct fsdp_pickle_global *global)
{
	for (size_t i = 0; i < FSDP_COUNT(table); i++)
		if (matches(table[i].module, table[i].names, global))
			return table[i].home != SCRIPT || profile == FSDP_PROFILE_SCRIPT
				       ? &table[i]
				       : &unknown;
	return is_dtype(global) ? &plain : is_numpy_type(global) ? &numpy_type : &unknown;
}

const struct fsdp_torch_known *fsdp_torch_known(
	const struct fsdp_torch *torch, struct fsdp_pickle_global *global)
{
	if (global->known == NULL)
		global->known = find_known(torch->profile, global);
	return global->known != &unknown ? global->known : NULL;
}

/* That of getattr only as long as all it is called with is what ordinary writers do. */
static bool is_known(const struct fsdp_torch *torch,
	const struct fsdp_pickle_global *global, const struct fsdp_torch_known *known)
{
	if (known->what & FSDP_KNOWN_GETATTR)
		return !torch->odd_getattr && !(global->uses & FSDP_USE_VALUE);
	return known != &unknown;
}

const char *fsdp_torch_profile_of(
	const struct fsdp_torch *torch, const struct fsdp_pickle_global *global)
{
	static const struct {
		unsigned home;
		const char *name;
	} names[] = { { STRICT, "torch" }, { DTENSOR, "dtensor" }, { SHARDED, "sharded" },
		{ NUMPY, "numpy" }, { PLAIN, "plain" }, { METADATA, "dcp" },
		{ SCRIPT, "torchscript" } };
	const struct fsdp_torch_known *known =
		global->known != NULL ? global->known
				      : find_known(torch->profile, global);
	if (!is_known(torch, global, known))
		return NULL;
	for (size_t i = 0; i < FSDP_COUNT(names); i++)
		if (known->home & names[i].home)
			return names[i].name;
	return NULL;
}

static const char *use_text(unsigned uses)
{
	return uses & FSDP_USE_CALLED  ? "called"
	       : uses & FSDP_USE_BUILT ? "built"
				       : "named";
}

/* "module.name", and behind it how it is written where that is something else. */
static size_t spell(const struct fsdp_pickle_global *global, char text[TEXT_BYTES])
{
	char part[4][FSDP_SHOWN];
	bool mapped = !fsdp_span_equal(global->module, global->written_module) ||
		      !fsdp_span_equal(global->name, global->written_name);
	int size = snprintf(text, TEXT_BYTES, "%s.%s",
		fsdp_shown(global->module, part[0]), fsdp_shown(global->name, part[1]));
	if (mapped)
		snprintf(text + size, TEXT_BYTES - (size_t)size, " (written %s.%s)",
			fsdp_shown(global->written_module, part[2]),
			fsdp_shown(global->written_name, part[3]));
	return (size_t)size;
}

static void say(struct fsdp_torch *torch, const struct fsdp_pickle_global *global,
	enum fsdp_rule_index rule, const char *what)
{
	char text[TEXT_BYTES];
	size_t size = spell(global, text);
	fsdp_find(&torch->model->findings, rule,
		FSDP_PLACE(.file = torch->file, .member = torch->member,
			.offset = torch->base + global->offset,
			.tensor = fsdp_span(text, size)),
		"%s is %s, %s; nothing was run", text, use_text(global->uses), what);
}

static void say_unknown(struct fsdp_torch *torch, const struct fsdp_pickle_global *global)
{
	for (size_t i = 0; i < FSDP_COUNT(gadgets); i++) {
		if (!matches(gadgets[i].module, gadgets[i].names, global))
			continue;
		if (gadgets[i].what == LOADS)
			say(torch, global, FSDP_RULE_PICKLE_NESTED_LOADER,
				"which loads what another file or text says");
		else
			say(torch, global, FSDP_RULE_PICKLE_GADGET,
				"which can run commands or code");
		return;
	}
	if (memchr(global->name.data, '.', global->name.size) != NULL)
		say(torch, global, FSDP_RULE_PICKLE_NAME,
			"a name with dots that is not on the list of known data");
	else
		say(torch, global, FSDP_RULE_PICKLE_GLOBAL,
			"which is not on the list of known data");
}

/* What torch.load(weights_only=True) would refuse, as one remark on the file. */
struct refused {
	size_t count, left_out; /* that many names do not fit */
	bool only_dtensors;     /* an import of torch.distributed.tensor is enough */
	char names[360];
	size_t size;
};

static void add_refused(
	struct refused *refused, const struct fsdp_pickle_global *global, bool dtensor)
{
	size_t need = global->module.size + 1 + global->name.size + 2;
	refused->only_dtensors &= dtensor;
	refused->count++;
	if (refused->size + need >= sizeof refused->names) {
		refused->left_out++;
		return;
	}
	if (refused->size > 0) {
		memcpy(refused->names + refused->size, ", ", 2);
		refused->size += 2;
	}
	memcpy(refused->names + refused->size, global->module.data, global->module.size);
	refused->size += global->module.size;
	refused->names[refused->size++] = '.';
	memcpy(refused->names + refused->size, global->name.data, global->name.size);
	refused->size += global->name.size;
}

static void say_refused(struct fsdp_torch *torch, const struct refused *refused)
{
	char more[40] = "";

	if (refused->count == 0)
		return;
	if (refused->left_out > 0)
		snprintf(more, sizeof more, "%s%zu more",
			refused->size > 0 ? ", and " : "", refused->left_out);
	fsdp_find(&torch->model->findings, FSDP_RULE_WEIGHTS_ONLY_REFUSES,
		FSDP_PLACE(.file = torch->file, .member = torch->member,
			.next = refused->only_dtensors
					? "import torch.distributed.tensor first"
					: NULL),
		"torch.load(weights_only=True) refuses %zu of its classes: %.*s%s",
		refused->count, (int)refused->size, refused->names, more);
}

void fsdp_torch_judge(struct fsdp_torch *torch)
{
	const struct fsdp_pickle *pickle = torch->pickle;
	struct refused refused = { .only_dtensors = true };
	if (pickle == NULL)
		return;
	for (size_t i = 0; i < fsdp_pickle_global_count(pickle); i++) {
		const struct fsdp_pickle_global *global = fsdp_pickle_global(pickle, i);
		const struct fsdp_torch_known *known =
			global->known != NULL ? global->known
					      : find_known(torch->profile, global);
		if (!is_known(torch, global, known))
			say_unknown(torch, global);
		else if (!(known->home & STRICT))
			add_refused(&refused, global, known->home & DTENSOR);
	}
	/* Metadata is never loaded that way. */
	if (torch->profile == FSDP_PROFILE_TENSORS)
		say_refused(torch, &refused);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the globals that a checkpoint's pickle may name as data. Everything that is not
 * listed is a finding: an error if it is known to run commands, if it is of Python's own
 * library or if it is called as only functions are; else a class that is not checked.
 *
 * Origin: torch/_weights_only_unpickler.py (PyTorch 2.13 to 2.15) for what torch itself
 * takes; files of FSDP, DCP, numpy and the older releases, and the sources of the
 * libraries (what their __new__, __reduce__ and __setstate__ do) for the rest.
 */
#include <stdio.h>

#include "formats/torch/torch.h"

enum { TEXT_BYTES = 4 * FSDP_SHOWN + 32 };

/* Where a name is at home; a profile says which homes count. */
enum home {
	STRICT = 1,  /* torch.load(weights_only=True) takes it as it is */
	DTENSOR = 2, /* … once torch.distributed.tensor is imported */
	SHARDED = 4, /* rank files of FSDP */
	METADATA = 8,
	NUMPY = 16,
	PLAIN = 32,    /* data of torch and of Python itself */
	SCRIPT = 64,   /* TorchScript only: classes that its own code defines */
	LIBRARY = 128, /* data of other packages, without which it does not load */
	NESTED = 256,  /* nested tensors, which 2.15 takes no more */
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
#define EXCEPTIONS                                                             \
	"Exception ArithmeticError AssertionError AttributeError EOFError "    \
	"FileNotFoundError ImportError IndexError KeyError KeyboardInterrupt " \
	"LookupError NotImplementedError OSError OverflowError RuntimeError "  \
	"StopIteration TypeError ValueError ZeroDivisionError"
#define PATHS "PosixPath WindowsPath PurePosixPath PureWindowsPath"
#define STANDARD                                                                                 \
	"abc aifc antigravity argparse array ast asynchat asyncio asyncore atexit audioop "      \
	"base64 bdb binascii bisect builtins bz2 cProfile calendar cgi cgitb chunk cmath cmd "   \
	"code codecs codeop collections colorsys commands compileall concurrent configparser "   \
	"contextlib contextvars copy copyreg crypt csv ctypes curses dataclasses datetime dbm "  \
	"decimal difflib dis distutils doctest email encodings ensurepip enum errno "            \
	"faulthandler fcntl filecmp fileinput fnmatch fractions ftplib functools gc "            \
	"genericpath getopt getpass gettext glob graphlib grp gzip hashlib heapq hmac html "     \
	"http idlelib imaplib imghdr imp importlib inspect io ipaddress itertools json keyword " \
	"lib2to3 linecache locale logging lzma mailbox mailcap marshal math mimetypes mmap "     \
	"modulefinder msilib msvcrt multiprocessing netrc nis nntplib nt ntpath nturl2path "     \
	"numbers opcode operator optparse os ossaudiodev pathlib pdb pickle pickletools pipes "  \
	"pkgutil platform plistlib poplib posix posixpath pprint profile pstats pty pwd "        \
	"py_compile pyclbr pydoc pydoc_data pyexpat queue quopri random re readline reprlib "    \
	"resource rlcompleter runpy sched secrets select selectors shelve shlex shutil signal "  \
	"site smtpd smtplib sndhdr socket socketserver spwd sqlite3 sre_compile sre_constants "  \
	"sre_parse ssl stat statistics string stringprep struct subprocess sunau symtable sys "  \
	"sysconfig syslog tabnanny tarfile telnetlib tempfile termios textwrap this threading "  \
	"time timeit tkinter token tokenize tomllib trace traceback tracemalloc tty turtle "     \
	"turtledemo types typing unicodedata unittest urllib uu uuid venv warnings wave "        \
	"weakref webbrowser winreg winsound wsgiref xdrlib xml xmlrpc zipapp zipfile zipimport " \
	"zlib zoneinfo"
#define PLACEMENTS "Shard Replicate Partial _Partial _StridedShard"

/* Columns: calls and states as their writers have them (torch.h). Without them a
 * name stands for itself only: it is not called, and what it makes gets no state. */
#define NEVER NULL, NULL
#define ENUM "i|s", NULL, FSDP_KNOWN_ENUM
#define OBJECT "", "dt"
#define MAPPING OBJECT, FSDP_KNOWN_PAIRS
#define NAMED NEVER, FSDP_KNOWN_NAMED

static const struct fsdp_torch_known table[] = {
	{ "collections", "OrderedDict", STRICT, "|l|d", "m",
		FSDP_KNOWN_FACTORY | FSDP_KNOWN_PAIRS },
	{ "collections", "Counter", STRICT, "|d", NULL,
		FSDP_KNOWN_FACTORY | FSDP_KNOWN_PAIRS },
	{ "collections", "defaultdict", METADATA | PLAIN, "F|Fd", NULL,
		FSDP_KNOWN_PAIRS },
	{ "collections", "deque", PLAIN, "|l|lp", NULL,
		FSDP_KNOWN_FACTORY | FSDP_KNOWN_APPENDS },
	{ "collections", "ChainMap UserDict UserList UserString", PLAIN, OBJECT },
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
	{ "torch.storage", "_load_from_bytes", PLAIN, "!", NULL },
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
		"_rebuild_sparse_tensor _rebuild_meta_tensor_no_storage _rebuild_device_tensor_from_cpu_tensor",
		STRICT, "!", NULL },
	{ "torch._utils", "_rebuild_nested_tensor", NESTED, "!", NULL },
	{ "torch._utils", "_rebuild_device_tensor_from_numpy", STRICT, "xDxb", NULL },
	{ "torch._utils", "_rebuild_xla_tensor", SHARDED, "xDxb", NULL },
	{ "_codecs", "encode", STRICT, "sC", NULL },
	{ "builtins", "bytearray", STRICT, "|y|sC", NULL },
	{ "builtins", "set", STRICT, "|l", NULL, FSDP_KNOWN_FACTORY },
	{ "builtins", "complex", STRICT, "ff", NULL },
	{ "builtins", "frozenset", METADATA | PLAIN, "|l", NULL },
	{ "builtins", "list", METADATA | PLAIN, "|l", NULL,
		FSDP_KNOWN_FACTORY | FSDP_KNOWN_APPENDS },
	{ "builtins", "tuple", METADATA | PLAIN, "|l", NULL, FSDP_KNOWN_FACTORY },
	{ "builtins", "dict", METADATA | PLAIN, "|d|l", NULL,
		FSDP_KNOWN_FACTORY | FSDP_KNOWN_PAIRS },
	{ "builtins", "slice", METADATA | PLAIN, "ppp", NULL },
	{ "builtins", "range", METADATA | PLAIN, "i|ii|iii", NULL },
	{ "builtins", "int float str bool", METADATA | PLAIN, "|p", NULL,
		FSDP_KNOWN_FACTORY },
	{ "builtins", "bytes", METADATA | PLAIN, "|y|l|sC", NULL },
	{ "builtins", "getattr", SHARDED | METADATA, NEVER, FSDP_KNOWN_GETATTR },
	{ "builtins", "type", PLAIN, "p", NULL },
	{ "builtins",
		"object Ellipsis NotImplemented print len max min sum abs round sorted",
		PLAIN, NEVER },
	{ "builtins", EXCEPTIONS, PLAIN, "*x", "d" },
	{ "copyreg", "_reconstructor __newobj__ __newobj_ex__", PLAIN, NEVER,
		FSDP_KNOWN_MAKER },
	{ "functools", "partial", PLAIN, "g", "t", FSDP_KNOWN_CALLED },
	{ "_operator", "getitem", PLAIN, "Tx|Tg", NULL, FSDP_KNOWN_CALLED },
	{ "types", "GenericAlias", PLAIN, "Tx|Tg", NULL },
	{ "typing", "*", PLAIN, NEVER },
	{ "math", "*", PLAIN, NEVER },
	{ "re", "_compile", PLAIN, "si|yi", NULL },
	{ "re", "RegexFlag", PLAIN, ENUM },
	{ "decimal", "Decimal", PLAIN, "s", NULL },
	{ "fractions", "Fraction", PLAIN, "s|ii", NULL },
	{ "uuid", "UUID", PLAIN, OBJECT },
	{ "uuid", "SafeUUID", PLAIN, ENUM },
	{ "array", "array", PLAIN, "sl", NULL },
	{ "array", "_array_reconstructor", PLAIN, "gsiy", NULL },
	{ "itertools", "count", PLAIN, "f|ff", NULL },
	{ "ipaddress", "IPv4Address IPv6Address", PLAIN, "i", NULL },
	{ "time", "struct_time", PLAIN, "xd", NULL },
	{ "random", "Random", PLAIN, "", "t" },
	{ "logging", "getLogger", PLAIN, "s", NULL },
	{ "signal", "Signals Handlers", PLAIN, ENUM },
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
	{ "torch.nested._internal.nested_tensor", "NestedTensor", NESTED, NEVER,
		FSDP_KNOWN_TENSOR },
	{ "torch.nested._internal.nested_tensor", "_rebuild_njt", NESTED, "*x", NULL },
	{ "torch._dynamo.decorators", "_DimRange", NESTED, "|ppp", "l" },
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
	{ "numpy.ma.core", "_mareconstruct", NUMPY, "PNZs|PNZy", "t" },
	{ "numpy.random._pcg64", "PCG64 PCG64DXSM", NUMPY, NEVER },
	{ "numpy.random._mt19937", "MT19937", NUMPY, NEVER },
	{ "numpy.random._philox", "Philox", NUMPY, NEVER },
	{ "numpy.random._sfc64", "SFC64", NUMPY, NEVER },
	{ "numpy.random.bit_generator", "SeedSequence", NUMPY, NEVER },
	{ "numpy.random.bit_generator", "__pyx_unpickle_SeedSequence", NUMPY, "Pix",
		"*" },
	{ "numpy.random._pickle", "__randomstate_ctor __generator_ctor", NUMPY, "|x|xB",
		"dt" },
	{ "numpy.random._pickle", "__bit_generator_ctor", NUMPY, "|s|P", "*" },
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
	{ "datetime", "datetime time", PLAIN, "y|yx|s|sx", NULL },
	{ "datetime", "date", PLAIN, "y|s", NULL },
	{ "datetime", "timedelta", PLAIN, "iii", NULL },
	{ "datetime", "timezone", PLAIN, "x|xs", NULL },
	{ "__torch__*", "*", SCRIPT, "*x", "*" },
	{ "torch.jit._pickle",
		"build_boollist build_doublelist build_intlist build_tensorlist", SCRIPT,
		"x", NULL },
	{ "torch.jit._pickle", "build_tensor_from_id", SCRIPT, "x", NULL },
	{ "torch.jit._pickle", "restore_type_tag", SCRIPT, "xs", NULL },
	/* torch's own classes: their objects are made without a call of theirs */
	{ "torch.torch_version", "TorchVersion", PLAIN, "s", NULL },
	{ "torch._C", "_VariableFunctionsClass", PLAIN, NEVER, FSDP_KNOWN_ENUM },
	{ "torch.nn.backends.thnn", "_get_thnn_function_backend", PLAIN, "", NULL },
	{ "torch.nn.*", "*", PLAIN, OBJECT },
	{ "torch.optim.*", "*", PLAIN, OBJECT },
	{ "torch.distributions.*", "*", PLAIN, OBJECT },
	{ "torch.amp.*", "*", PLAIN, OBJECT },
	{ "torch.cuda.amp.*", "*", PLAIN, OBJECT },
	{ "torch.utils.data.*", "*", PLAIN, OBJECT },
	/* configurations and tables of other packages */
	{ "addict.addict", "Dict", LIBRARY, "*x", "*", FSDP_KNOWN_PAIRS },
	{ "attrdict*", "AttrDict AttrMap", LIBRARY, MAPPING },
	{ "box.*", "Box ConfigBox SBox DDBox BoxList", LIBRARY, OBJECT,
		FSDP_KNOWN_PAIRS | FSDP_KNOWN_APPENDS },
	{ "detectron2.config.config", "CfgNode", LIBRARY, MAPPING },
	{ "easydict", "EasyDict", LIBRARY, MAPPING },
	{ "fvcore.common.config", "CfgNode", LIBRARY, MAPPING },
	{ "lightning*", "AttributeDict", LIBRARY, MAPPING },
	{ "pytorch_lightning*", "AttributeDict", LIBRARY, MAPPING },
	{ "ml_collections.*", "*", LIBRARY, MAPPING },
	{ "mmcv.utils.config", "Config ConfigDict", LIBRARY, "|x", "dt",
		FSDP_KNOWN_PAIRS },
	{ "mmengine.config.config", "Config ConfigDict", LIBRARY, "|x", "dt",
		FSDP_KNOWN_PAIRS },
	{ "munch*", "Munch DefaultMunch", LIBRARY, MAPPING },
	{ "omegaconf.*", "*", LIBRARY, OBJECT },
	{ "yacs.config", "CfgNode", LIBRARY, MAPPING },
	{ "pandas.core.indexes.*",
		"_new_Index _new_DatetimeIndex _new_PeriodIndex _new_IntervalIndex",
		LIBRARY, "Pd", NULL },
	{ "pandas._libs.internals", "_unpickle_block", LIBRARY, "xxi", NULL },
	{ "pandas._libs.arrays", "__pyx_unpickle_NDArrayBacked", LIBRARY, "Pix", "*" },
	{ "pandas._libs.tslibs.timestamps", "_unpickle_timestamp", LIBRARY, "*x", NULL },
	{ "pandas._libs.tslibs.timedeltas", "_timedelta_unpickle", LIBRARY, "*x", NULL },
	{ "pandas._libs.tslibs.nattype", "_nat_unpickle", LIBRARY, "p", NULL },
	{ "pandas", "StringDtype", LIBRARY, "*p|sP", NULL },
	{ "pandas.core.internals.managers", "BlockManager SingleBlockManager", LIBRARY,
		"*x", "dt" },
	{ "pandas._libs.tslibs.offsets", "*", LIBRARY, "*x", "dt" },
	{ "pandas*", "Interval", LIBRARY, "*x", NULL },
	{ "pandas", "*", LIBRARY, "", "dt" },
	{ "pandas.*", "*", LIBRARY, "", "dt" },
	{ "torchao.*", "*", LIBRARY, "|i|s", "dt", FSDP_KNOWN_TENSOR | FSDP_KNOWN_ENUM },
	{ "torchvision.models.*", "*", LIBRARY, OBJECT },
	{ "torchvision.ops.*", "*", LIBRARY, OBJECT },
	{ "torchvision.transforms.*", "*", LIBRARY, OBJECT },
	/* modules whose classes and functions may be named */
	{ "torch", "*", PLAIN, NAMED },
	{ "torch.*", "*", PLAIN, NAMED },
	{ "numpy", "*", NUMPY, NAMED },
	{ "numpy.*", "*", NUMPY, NAMED },
	{ "torchvision.*", "*", LIBRARY, NAMED },
	{ "torchaudio*", "*", LIBRARY, NAMED },
	{ "torchmetrics*", "*", LIBRARY, NAMED },
	{ "lightning", "*", LIBRARY, NAMED },
	{ "lightning.*", "*", LIBRARY, NAMED },
	{ "lightning_fabric.*", "*", LIBRARY, NAMED },
	{ "pytorch_lightning", "*", LIBRARY, NAMED },
	{ "pytorch_lightning.*", "*", LIBRARY, NAMED },
	{ "transformers", "*", LIBRARY, NAMED },
	{ "transformers.*", "*", LIBRARY, NAMED },
	{ "diffusers.*", "*", LIBRARY, NAMED },
	{ "timm.*", "*", LIBRARY, NAMED },
	{ "sklearn.*", "*", LIBRARY, NAMED },
	{ "scipy.*", "*", LIBRARY, NAMED },
};

static const struct fsdp_torch_known plain = { .home = STRICT, .names = "" },
				     numpy_type = { .home = NUMPY,
					     .names = "",
					     .calls = "" },
				     unknown;

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
	{ "pip*", "*", COMMANDS },
	{ "setuptools*", "*", COMMANDS },
	{ "distutils*", "*", COMMANDS },
	{ "antigravity", "*", COMMANDS },
	{ "numpy.testing*", "*", COMMANDS },
	{ "numpy.f2py*", "*", COMMANDS },
	{ "numpy.distutils*", "*", COMMANDS },
	{ "torch.utils.cpp_extension", "*", COMMANDS },
	{ "torch.utils.bottleneck*", "*", COMMANDS },
	{ "torch.utils.collect_env", "*", COMMANDS },
	{ "torch.multiprocessing*", "*", COMMANDS },
	{ "torch.distributed.elastic*", "*", COMMANDS },
	{ "torch.distributed.launch*", "*", COMMANDS },
	{ "torch.distributed.run", "*", COMMANDS },
	{ "torch.distributed.rpc*", "*", COMMANDS },
	{ "torch.testing._internal*", "*", COMMANDS },
	{ "torch._inductor*", "*", COMMANDS },
	{ "torch._dynamo*", "*", COMMANDS },
	{ "torch.ops", "*", COMMANDS },
	{ "torch._ops", "*", COMMANDS },
	{ "torch._classes", "*", COMMANDS },
	{ "torch", "ops classes compile library import_ir_module", COMMANDS },
	{ "torch.fx.graph_module",
		"reduce_graph_module reduce_package_graph_module reduce_deploy_graph_module _exec_with_source _forward_from_src",
		COMMANDS },
	{ "torch.package*", "*", LOADS },
	{ "torch.utils.model_zoo", "*", LOADS },
	{ "torch.utils.data.datapipes*", "*", LOADS },
	{ "torch.distributed.distributed_c10d", "_tensor_to_object", LOADS },
	{ "pickle", "loads load Unpickler _Unpickler", LOADS },
	{ "_pickle", "loads load Unpickler _Unpickler", LOADS },
	{ "torch", "load", LOADS },
	{ "torch.serialization", "load _load _legacy_load", LOADS },
	{ "torch.hub", "*", LOADS },
	{ "torch.jit*", "*", LOADS },
	{ "numpy", "load loadtxt fromfile genfromtxt memmap DataSource", LOADS },
	{ "numpy.lib*", "*", LOADS },
	{ "joblib*", "*", LOADS },
	{ "dill*", "*", LOADS },
	{ "cloudpickle*", "*", LOADS },
	{ "shelve", "*", LOADS },
	{ "marshal", "*", LOADS },
	{ "pandas*", "read_pickle eval HDFStore", LOADS },
};

/* Modules that may be reached as a name of a module that imports them. */
static const char reached[] =
	"os posix nt sys subprocess shutil socket importlib runpy pty ctypes builtins io pickle";

/* What Python brings itself: what is data of it is in the table. Its other modules begin
 * with an underscore. */
static const char standard[] = STANDARD;

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

static const struct gadget *find_gadget(const struct fsdp_pickle_global *global)
{
	static const struct gadget module = { "", "", COMMANDS };
	for (size_t i = 0; i < FSDP_COUNT(gadgets); i++)
		if (matches(gadgets[i].module, gadgets[i].names, global))
			return &gadgets[i];
	return name_matches(reached, global->name) ? &module : NULL;
}

bool fsdp_torch_is_gadget(struct fsdp_span dotted)
{
	bool found = name_matches(reached, fsdp_span_first(dotted, '.'));
	for (size_t i = 0; i < dotted.size && !found; i++) {
		const struct fsdp_pickle_global global = { .module = fsdp_span(
								   dotted.data, i),
			.name = fsdp_span(dotted.data + i + 1, dotted.size - i - 1) };
		found = dotted.data[i] == '.' && find_gadget(&global) != NULL;
	}
	return found;
}

static const struct fsdp_torch_known *find_known(
	enum fsdp_profile profile, const struct fsdp_pickle_global *global)
{
	FSDP_EACH(i, FSDP_COUNT(table), row, &table[i]) {
		if (!matches(row->module, row->names, global))
			continue;
		if (row->home == SCRIPT)
			return profile == FSDP_PROFILE_SCRIPT ? row : &unknown;
		if (fsdp_span_is(global->module, "torch") &&
			(fsdp_dtype_find(global->name) != FSDP_DTYPE_UNKNOWN ||
				fsdp_dtype_may_be(global->name)))
			return &plain;
		if (fsdp_span_is(global->module, "numpy.dtypes") &&
			fsdp_span_ends(global->name, FSDP_SPAN("DType")) &&
			!fsdp_span_is(global->name, "ObjectDType"))
			return &numpy_type;
		/* A row of many names is none of those that are known to be more. */
		if (*row->names == '*' &&
			(find_gadget(global) != NULL ||
				memchr(global->name.data, '.', global->name.size)))
			return &unknown;
		return row;
	}
	return &unknown;
}

const struct fsdp_torch_known *fsdp_torch_known(
	const struct fsdp_torch *torch, struct fsdp_pickle_global *global)
{
	if (global->known == NULL)
		global->known = find_known(torch->profile, global);
	const struct fsdp_torch_known *known = global->known;
	return known != &unknown && !(known->what & FSDP_KNOWN_NAMED) ? known : NULL;
}

/* That of getattr only as long as all it is called with is what ordinary writers do. */
static bool is_known(const struct fsdp_torch *torch,
	const struct fsdp_pickle_global *global, const struct fsdp_torch_known *known)
{
	if (known->what & FSDP_KNOWN_NAMED)
		return !(global->uses & (FSDP_USE_CALLED | FSDP_USE_BUILT));
	if (known->what & FSDP_KNOWN_CALLED)
		return !(global->uses & FSDP_USE_VALUE);
	if (known->what & FSDP_KNOWN_GETATTR)
		return !torch->has_unusual_getattr && !(global->uses & FSDP_USE_VALUE);
	return known != &unknown;
}

/* ---- what is not on the list ---- */

static struct fsdp_span package_of(const struct fsdp_pickle_global *global)
{
	return fsdp_span_first(global->module, '.');
}

bool fsdp_torch_same_package(
	const struct fsdp_pickle_global *one, const struct fsdp_pickle_global *other)
{
	return fsdp_span_equal(package_of(one), package_of(other));
}

static bool is_script(struct fsdp_span package)
{
	return fsdp_span_is(package, "__main__") || fsdp_span_is(package, "__mp_main__");
}

/* Python's own library, torch and numpy: their data are in the table. */
static bool is_charted(struct fsdp_span package)
{
	return name_matches(standard, package) || fsdp_span_is(package, "torch") ||
	       fsdp_span_is(package, "numpy") ||
	       (package.size != 0 && *package.data == '_' && !is_script(package));
}

/* As classes are called, and functions are not. */
bool fsdp_torch_is_class_name(struct fsdp_span name)
{
	for (size_t at = 0; at < name.size; at++) {
		struct fsdp_span rest = fsdp_span(name.data + at, name.size - at);
		struct fsdp_span part = fsdp_span_first(rest, '.');
		size_t first = 0;
		while (first < part.size && part.data[first] == '_')
			first++;
		if (first == part.size || part.data[first] < 'A' ||
			part.data[first] > 'Z')
			return false;
		at += part.size;
	}
	return name.size != 0 && name.data[name.size - 1] != '.';
}

bool fsdp_torch_may_be_class(const struct fsdp_pickle_global *global)
{
	return find_gadget(global) == NULL && !is_charted(package_of(global)) &&
	       fsdp_torch_is_class_name(global->name);
}

enum standing { DATA, UNCHECKED, GADGET, BAD_NAME, BAD };

static enum standing standing_of(
	const struct fsdp_torch *torch, const struct fsdp_pickle_global *global)
{
	const struct fsdp_torch_known *known =
		global->known != NULL ? global->known
				      : find_known(torch->profile, global);
	struct fsdp_span package = package_of(global);
	if (is_known(torch, global, known))
		return DATA;
	if (find_gadget(global) != NULL)
		return GADGET;
	if (memchr(global->name.data, '.', global->name.size) != NULL &&
		!fsdp_torch_may_be_class(global))
		return BAD_NAME;
	if (global->as_function || package.size == 0)
		return BAD;
	/* torch and numpy: an object of a class that is not in the table. */
	return is_charted(package) && !(known->what & FSDP_KNOWN_NAMED) ? BAD : UNCHECKED;
}

bool fsdp_torch_is_bad(
	const struct fsdp_torch *torch, const struct fsdp_pickle_global *global)
{
	return standing_of(torch, global) > UNCHECKED;
}

const char *fsdp_torch_profile_of(
	const struct fsdp_torch *torch, const struct fsdp_pickle_global *global)
{
	static const struct {
		unsigned home;
		const char *name;
	} names[] = { { STRICT, "torch" }, { DTENSOR, "dtensor" }, { SHARDED, "sharded" },
		{ NUMPY, "numpy" }, { PLAIN, "plain" }, { METADATA, "dcp" },
		{ SCRIPT, "torchscript" }, { LIBRARY, "library" }, { NESTED, "nested" } };
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

/* "module.name", and its written form after it if that differs. */
static size_t format(const struct fsdp_pickle_global *global, char text[TEXT_BYTES])
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

static void report(struct fsdp_torch *torch, const struct fsdp_pickle_global *global,
	enum fsdp_rule_index rule, const char *what)
{
	char text[TEXT_BYTES];
	size_t size = format(global, text);
	fsdp_find(&torch->model->findings, rule,
		FSDP_PLACE(.file = torch->file, .member = torch->member,
			.offset = torch->base + global->offset,
			.tensor = fsdp_span(text, size)),
		"%s is %s when Python loads this file, %s", text, use_text(global->uses),
		what);
}

/* Classes that torch.load(weights_only=True) refuses, as one finding of the file. */
struct refused {
	size_t count, left_out; /* that many names do not fit */
	bool only_dtensors;     /* an import of torch.distributed.tensor is enough */
	bool cannot_allow;      /* add_safe_globals of all names is not enough */
	bool needs_group;       /* ShardedTensor asks the process group when it is read */
	bool must_not;          /* a file may make such an object run what it contains */
	char names[360];
	size_t size;
	char imports[700], items[2000]; /* of the line of Python that allows them */
	size_t imports_size, items_size;
};

static bool name_in(const char *texts, struct fsdp_span text)
{
	for (; *texts != '\0'; texts += strcspn(texts, " "), texts += *texts == ' ') {
		size_t size = strcspn(texts, ", ");
		if (size == text.size && memcmp(texts, text.data, size) == 0)
			return true;
	}
	return false;
}

/* "a, b" */
static bool add_text(char *texts, size_t room, size_t *size, struct fsdp_span text)
{
	if (*size + text.size + 3 > room)
		return false;
	if (*size > 0) {
		memcpy(texts + *size, ", ", 2);
		*size += 2;
	}
	memcpy(texts + *size, text.data, text.size);
	*size += text.size;
	texts[*size] = '\0';
	return true;
}

/* Letters, digits, underscores and dots, so that a line of Python may contain it. */
static bool is_dotted_name(struct fsdp_span name)
{
	FSDP_EACH(i, name.size, c, name.data[i])
		if (c != '.' && c != '_' && (c < '0' || c > '9') &&
			((c | 32) < 'a' || (c | 32) > 'z'))
			return false;
	return name.size != 0;
}

/* Adds a class to the line "import MODULE, ...;
 * torch.serialization.add_safe_globals([CLASS, ...])". */
static void allow(struct refused *refused, const struct fsdp_pickle_global *global,
	const struct fsdp_torch_known *known)
{
	/* Objects that are not classes, and classes that protocol 2 has under a name of
	 * Python 2. */
	const char *const unnamed = "Ellipsis NotImplemented " EXCEPTIONS;
	const struct fsdp_span dtypes =
		FSDP_SPAN("*{type(numpy.dtype(c)) for c in numpy.typecodes[\"All\"]}");
	/* Its unpickler puts items into no such object. */
	const unsigned filled = FSDP_KNOWN_PAIRS | FSDP_KNOWN_APPENDS |
				FSDP_KNOWN_GETATTR | FSDP_KNOWN_CALLED | FSDP_KNOWN_MAKER;
	char path[2 * FSDP_SHOWN], item[5 * FSDP_SHOWN];
	struct fsdp_span module = global->module;
	if (fsdp_span_is(
		    package_of(global), "torchao")) /* importing it allows its classes */
		module = FSDP_SPAN("torchao");
	else if ((known->what & filled) != 0 || global->via != FSDP_OP_GLOBAL ||
		 fsdp_span_begins(module, FSDP_SPAN("numpy.random")) ||
		 fsdp_span_begins(module, FSDP_SPAN("numpy.ma")) ||
		 matches("builtins", unnamed, global) || !is_dotted_name(module) ||
		 !is_dotted_name(global->name) ||
		 module.size + global->name.size + 2 > sizeof path)
		refused->cannot_allow = true;
	if (refused->cannot_allow)
		return;
	/* torch.optim deletes the names of its modules that have optimizers, and has
	 * their classes itself. */
	if (fsdp_span_begins(module, FSDP_SPAN("torch.optim.")) &&
		!fsdp_span_is_any(
			module, "torch.optim.lr_scheduler torch.optim.swa_utils"))
		module.size = sizeof "torch.optim" - 1;
	bool fits = name_in(refused->imports, module) ||
		    add_text(refused->imports, sizeof refused->imports,
			    &refused->imports_size, module);
	if (module.data == global->module.data) {
		int size;
		snprintf(path, sizeof path, "%.*s.%.*s", (int)module.size, module.data,
			(int)global->name.size, global->name.data);
		/* Modules whose classes are found under more than one name: torch looks
		 * for the stored one. */
		if (fsdp_span_begins(module, FSDP_SPAN("pathlib")) ||
			fsdp_span_begins(module, FSDP_SPAN("numpy")) ||
			fsdp_span_begins(module, FSDP_SPAN("torch.distributed._tensor")))
			size = snprintf(item, sizeof item, "(%s, \"%s\")", path, path);
		else
			size = snprintf(item, sizeof item, "%s", path);
		fits &= add_text(refused->items, sizeof refused->items,
			&refused->items_size, fsdp_span(item, (size_t)size));
	}
	if (fsdp_span_is(module, "numpy") && fsdp_span_is(global->name, "dtype"))
		fits &= add_text(refused->items, sizeof refused->items,
			&refused->items_size, dtypes);
	refused->cannot_allow |= !fits;
}

/* Nothing was found in the pickle that speaks against loading it. */
static bool is_harmless(const struct fsdp_torch *torch)
{
	const struct fsdp_findings *findings = &torch->model->findings;
	for (size_t i = torch->first_finding; i < findings->list.count; i++) {
		const struct fsdp_finding *finding = fsdp_vec_at(&findings->list, i);
		if (finding->severity > FSDP_NOTE &&
			strcmp(finding->rule->category, "safety") == 0)
			return false;
	}
	return true;
}

static void report_refused(struct fsdp_torch *torch, const struct refused *refused)
{
	char more[40] = "", next[sizeof refused->imports + sizeof refused->items + 80];
	const char *fix = next;
	if (refused->count == 0)
		return;
	if (refused->left_out > 0)
		snprintf(more, sizeof more, "%s%zu more",
			refused->size > 0 ? ", and " : "", refused->left_out);
	if (!is_harmless(torch) || refused->must_not)
		fix = "";
	else if (refused->only_dtensors)
		fix = "import torch.distributed.tensor";
	else if (refused->needs_group)
		fix = "call init_process_group with the ranks of the save, then on each rank torch.load(..., weights_only=False), if you trust its source";
	else if (refused->cannot_allow)
		fix = "torch.load(..., weights_only=False), if you trust its source";
	else if (refused->items_size == 0)
		snprintf(next, sizeof next, "import %s", refused->imports);
	else
		snprintf(next, sizeof next,
			"import %s%s; torch.serialization.add_safe_globals([%s])",
			name_in(refused->imports, FSDP_SPAN("torch")) ? "" : "torch, ",
			refused->imports, refused->items);
	char several[48] = "";
	if (refused->count != 1)
		snprintf(several, sizeof several, "%zu of its globals: ", refused->count);
	fsdp_find(&torch->model->findings, FSDP_RULE_WEIGHTS_ONLY_REFUSES,
		FSDP_PLACE(.file = torch->file, .member = torch->member, .fix = fix),
		"torch.load(weights_only=True) does not allow %s%.*s%s", several,
		(int)refused->size, refused->names, more);
}

void fsdp_torch_check(struct fsdp_torch *torch)
{
	const struct fsdp_pickle *pickle = torch->pickle;
	/* The source text of a module is a persistent id, which is not allowed. */
	struct refused refused = { .only_dtensors = true,
		.cannot_allow = torch->reported_source };
	if (pickle == NULL)
		return;
	FSDP_EACH(i, fsdp_pickle_global_count(pickle), global,
		fsdp_pickle_global(pickle, i)) {
		const struct fsdp_torch_known *known =
			global->known != NULL ? global->known
					      : find_known(torch->profile, global);
		enum standing standing = standing_of(torch, global);
		if (standing == UNCHECKED) {
			/* An object of a class that is on no list, or its class or a
			 * function as a value. */
			char text[TEXT_BYTES], needs[FSDP_SHOWN], fix[TEXT_BYTES + 160];
			size_t size = format(global, text);
			struct fsdp_span package = package_of(global);
			bool script = is_script(package);
			snprintf(fix, sizeof fix,
				"read its code; if it is harmless: %sfsdp-inspect audit --allow-global=%s",
				torch->profile == FSDP_PROFILE_TENSORS
					? "load with weights_only=False, and accept it with "
					: "",
				text);
			fsdp_find(&torch->model->findings, FSDP_RULE_PICKLE_CLASS,
				FSDP_PLACE(.file = torch->file, .member = torch->member,
					.offset = torch->base + global->offset,
					.tensor = fsdp_span(text, size),
					.fix = is_dotted_name(global->module) &&
							       is_dotted_name(
								       global->name)
						       ? fix
						       : NULL),
				"%s is %s when Python loads this file%s; loading needs %s%s, whose code was not checked",
				text, use_text(global->uses),
				torch->profile == FSDP_PROFILE_TENSORS
					? ": torch.load() refuses it by default (weights_only=True since torch 2.6)"
					: "",
				script ? "the script that defines it as " : "",
				fsdp_shown(package, needs));
		} else if (standing != DATA) {
			if (standing == GADGET && find_gadget(global)->what == LOADS)
				report(torch, global, FSDP_RULE_PICKLE_NESTED_LOADER,
					"which loads code or data from another file or text");
			else if (standing == GADGET)
				report(torch, global, FSDP_RULE_PICKLE_GADGET,
					"which can run commands or code");
			else if (standing == BAD_NAME)
				report(torch, global, FSDP_RULE_PICKLE_NAME,
					"a name with dots that is not on the list of known data");
			else
				report(torch, global, FSDP_RULE_PICKLE_GLOBAL,
					"which is not on the list of known data");
		} else if (!(known->home & STRICT)) {
			char name[sizeof refused.names];
			size_t size = global->module.size + 1 + global->name.size;
			refused.only_dtensors &= (known->home & DTENSOR) != 0;
			refused.needs_group |=
				fsdp_span_is(global->name, "ShardedTensor");
			refused.must_not |=
				fsdp_span_is(global->name, "_load_from_bytes");
			refused.count++;
			if (size < sizeof name) {
				memcpy(name, global->module.data, global->module.size);
				name[global->module.size] = '.';
				memcpy(name + global->module.size + 1, global->name.data,
					global->name.size);
			}
			refused.left_out += size >= sizeof name ||
					    !add_text(refused.names, sizeof refused.names,
						    &refused.size, fsdp_span(name, size));
			allow(&refused, global, known);
		}
	}
	/* Metadata is never loaded that way. */
	if (torch->profile == FSDP_PROFILE_TENSORS)
		report_refused(torch, &refused);
}

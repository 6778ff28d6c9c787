# SPDX-License-Identifier: Apache-2.0
"""The sharding plan of a live model: fsdp-inspect-plan(5).

Knows where FSDP1 and FSDP2 keep what they made of a model, and asks this process only.
What other ranks hold of a flat parameter is worked out by _flat.py.
"""

from __future__ import annotations

import importlib
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ._files import Path, path_of_rank, plan_text, write_text
from ._flat import pieces
from ._names import below, clean, dtype
from ._process import private_torch, rank_and_world, torch_version

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.nn import Module

FORMAT = "fsdp-plan"
VERSION = 1


def export_plan(model: "Module", path: Path, *, mesh: Optional["DeviceMesh"] = None,
                unsharded: bool = False) -> Dict[str, Any]:
    """Writes the sharding plan of `model` to `path`, and returns it on every rank.

    Call it after wrapping, best before the first forward; any rank can, alone. A path
    with `{rank}` is written by each rank, another by rank 0. `mesh` is the device mesh
    that the model is sharded over, if the parameters of FSDP2 do not tell the right one.
    A model that nothing wraps is an error, unless `unsharded` says that it is meant.
    """
    plan = checked_plan(model, mesh=mesh, unsharded=unsharded)
    name = path_of_rank(path, rank_and_world()[0])
    if name is not None:
        write_text(name, plan_text(plan))
    return plan


@private_torch("the sharding plan")
def checked_plan(model: "Module", *, mesh: Optional["DeviceMesh"] = None, unsharded: bool = False) -> Dict[str, Any]:
    """The plan; an error that says what to do, where the model is none or is not wrapped."""
    if isinstance(model, Mapping):
        raise TypeError("export_plan takes the model, not a state dict: export_plan(model, path)")
    if not hasattr(model, "named_children"):
        raise TypeError(f"export_plan takes a torch.nn.Module, not {type(model).__name__}: export_plan(model, path)")
    plan = sharding_plan(model, mesh=mesh)
    if not unsharded and not plan["units"] and not _is_wrapped(model):
        raise ValueError(
            f"{type(model).__name__} is not sharded: call export_plan after fully_shard(model) or "
            "FullyShardedDataParallel(model); if that is meant: export_plan(model, path, unsharded=True)")
    return plan


def _is_wrapped(model: "Module") -> bool:
    """By anything that shards or copies it over ranks, though it may keep no unit."""
    return any(_is_fsdp2(module) or _fsdp1_state(module) is not None or
               (_wrapper(module) or ("", ""))[0] in ("fsdp1", "ddp", "dmp")
               for _, module in _visits(model))


@private_torch("the sharding plan")
def sharding_plan(model: "Module", *, mesh: Optional["DeviceMesh"] = None) -> Dict[str, Any]:
    """The sharding plan of `model`, as the value that JSON will hold."""
    rank, world = rank_and_world()
    look = _Look(model)
    units = look.fsdp1_units() + look.fsdp2_units()
    plan: Dict[str, Any] = {"format": FORMAT, "version": VERSION, "torch": torch_version(),
                            "world_size": world, "rank": rank}
    shape = _mesh(mesh) if mesh is not None else look.fsdp2_mesh()
    if shape is not None:
        plan["mesh"] = shape
    plan["modules"] = look.modules
    plan["parameter_names"] = [name for name, _ in model.named_parameters()]
    plan["parameters"] = look.parameters
    plan["buffers"] = look.buffers
    plan["units"] = sorted(units, key=lambda unit: int(unit["visit"]))
    return plan


# ---- modules

def _visits(root: "Module") -> Iterator[Tuple[str, "Module"]]:
    """Every visit by named_children, parents first: raw name and module."""
    ahead = [("", root)]
    while ahead:
        name, module = ahead.pop()
        yield name, module
        children = [(below(name, child_name), child) for child_name, child in module.named_children()]
        ahead.extend(reversed(children))


def _owners(root: "Module") -> Iterator[Tuple[str, "Module"]]:
    """Every path to every module, two names under one parent too, without the segment
    that DDP adds. Those of FSDP1 and activation checkpointing are for clean(); that of
    torch.compile stays, since PyTorch keeps it in the names of flat parameters."""
    ahead = [("", root)]
    while ahead:
        name, module = ahead.pop()
        yield name, module
        hidden = _wrapper(module) == ("ddp", "module")
        paths = [(name if hidden and segment == "module" else below(name, segment), child)
                 for segment, child in module._modules.items() if child is not None]
        ahead.extend(reversed(paths))


def _wrapper(module: Any) -> Optional[Tuple[str, str]]:
    """For a module that holds one child and nothing else: what it is, and the child's name."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import ActivationWrapper
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.nn.parallel import DistributedDataParallel

    if isinstance(module, FullyShardedDataParallel):
        return "fsdp1", "_fsdp_wrapped_module"
    if isinstance(module, ActivationWrapper):
        return "checkpoint", "_checkpoint_wrapped_module"
    if isinstance(module, DistributedDataParallel):
        return "ddp", "module"
    # By name: importing their classes costs seconds, or another package.
    for kind, name, child in (("compile", "OptimizedModule", "_orig_mod"),
                              ("dmp", "DistributedModelParallel", "_dmp_wrapped_module")):
        if any(c.__name__ == name for c in type(module).__mro__) and child in module._modules:
            return kind, child
    return None


def _fsdp1_state(module: "Module") -> Any:
    from torch.distributed.fsdp._common_utils import _get_module_fsdp_state

    return _get_module_fsdp_state(module)


def _is_fsdp2(module: Any) -> bool:
    """A class that fully_shard puts before the module's own, in the place that torch has it since 2.6, 2.4, 2.3."""
    for place, name in (("fsdp", "FSDPModule"), ("_composable.fsdp", "FSDPModule"), ("_composable.fsdp", "FSDP")):
        try:
            found = getattr(importlib.import_module(f"torch.distributed.{place}"), name, None)
        except ImportError:  # a torch from before FSDP2
            return False
        if found is not None:
            return isinstance(module, found)
    return False


def _orig_class(module: Any) -> str:
    """fully_shard puts classes of its own before the one that the module had."""
    mro = type(module).__mro__
    return str(mro[getattr(type(module), "_orig_cls_mro_index", 2)].__name__)


class _Managed(NamedTuple):
    """A parameter that FSDP keeps, as it was before."""

    identity: object  # equal for the names of a tied parameter
    shape: List[int]
    dtype: str
    requires_grad: bool


class _Look:
    """One look at a model. Modules are told apart by id; `root` keeps them alive."""

    def __init__(self, root: "Module") -> None:
        self.root = root
        self.visits = list(_visits(root))
        self.first_visit: Dict[int, int] = {}
        self.modules: List[Dict[str, Any]] = []
        for index, (name, module) in enumerate(self.visits):
            self.modules.append(self._visit(index, name, module))
        self.states = self._fsdp1_states()
        self.groups = self._fsdp2_groups()
        self.managed: Dict[Tuple[int, str], _Managed] = {}
        for state in self.states:
            self._manage_fsdp1(state._handle)
        for _, group in self.groups:
            self._manage_fsdp2(group)
        self.first_name: Dict[object, str] = {}
        self.parameters = self._parameters()
        self.buffers = self._buffers()

    def _visit(self, index: int, name: str, module: "Module") -> Dict[str, Any]:
        entry: Dict[str, Any] = {"name": name, "class": type(module).__name__}
        wrapper = _wrapper(module)
        if wrapper:
            entry["wrapper"] = wrapper[0]
        elif _is_fsdp2(module):
            entry["orig_class"] = _orig_class(module)
        first = self.first_visit.setdefault(id(module), index)
        if first != index:
            entry["same_as"] = first
        return entry

    # ---- what FSDP keeps

    def _fsdp1_states(self) -> List[Any]:
        """States that have a handle, each once, in the order of modules."""
        found: Dict[int, Any] = {}
        for _, module in self.visits:
            state = _fsdp1_state(module)
            if state is not None and state._handle is not None:
                found.setdefault(id(state._handle), state)
        return list(found.values())

    def _fsdp2_groups(self) -> List[Tuple[int, Any]]:
        """Parameter groups with the visit of their first module. A state of several
        modules is reached from each of them."""
        found: Dict[int, Tuple[int, Any]] = {}
        for index, (_, module) in enumerate(self.visits):
            if not _is_fsdp2(module) or self.first_visit[id(module)] != index:
                continue
            for group in _groups(module):
                found.setdefault(id(group), (index, group))
        return list(found.values())

    def _manage_fsdp1(self, handle: Any) -> None:
        flat = handle.flat_param
        own = flat._params or [flat] * len(flat._param_infos)
        for number, (info, shape) in enumerate(zip(flat._param_infos, flat._shapes)):
            self.managed[id(info.module), info.param_name] = _Managed(
                (id(handle), number), list(shape), dtype(flat.dtype), bool(own[number].requires_grad))
        for info in flat._shared_param_infos:
            self.managed[id(info.module), info.param_name] = \
                self.managed[id(info.prim_module), info.prim_param_name]

    def _manage_fsdp2(self, group: Any) -> None:
        for param in group.fsdp_params:
            sharded, info = param.sharded_param, param._module_info
            record = _Managed(id(param), list(sharded.shape), dtype(sharded.dtype), bool(sharded.requires_grad))
            self.managed[id(info.module), info.param_name] = record
            for module, name in zip(info.shared_modules, info.shared_param_names):
                self.managed[id(module), name] = record

    # ---- parameters and buffers, as before wrapping

    def _parameters(self) -> List[Dict[str, Any]]:
        from torch.distributed.fsdp._flat_param import FlatParameter

        kept: Dict[int, List[str]] = {}
        for module_id, name in self.managed:
            kept.setdefault(module_id, []).append(name)
        found = []
        for path, module in _owners(self.root):
            here = {n: p for n, p in module._parameters.items()
                    if p is not None and not isinstance(p, FlatParameter)}
            # With use_orig_params false FSDP1 took them out.
            for name in dict.fromkeys([*here, *kept.get(id(module), ())]):
                record = self.managed.get((id(module), name)) or _plain(here[name])
                found.append(self._parameter(clean(below(path, name)), record))
        return found

    def _parameter(self, fqn: str, record: _Managed) -> Dict[str, Any]:
        entry: Dict[str, Any] = {"fqn": fqn, "shape": record.shape, "dtype": record.dtype,
                                 "requires_grad": record.requires_grad}
        first = self.first_name.setdefault(record.identity, fqn)
        if first != fqn:
            entry["shared_with"] = first
        return entry

    def _buffers(self) -> List[Dict[str, Any]]:
        dtypes = self._buffer_dtypes()
        return [{"fqn": clean(below(path, name)), "shape": list(b.shape),
                 "dtype": dtype(dtypes.get(id(b), b.dtype)),
                 "persistent": name not in module._non_persistent_buffers_set}
                for path, module in _owners(self.root)
                for name, b in module._buffers.items() if b is not None]

    def _buffer_dtypes(self) -> Dict[int, Any]:
        """Mixed precision of FSDP1 casts buffers at the first forward; checkpoints have
        them as they were."""
        found: Dict[int, Any] = {}
        for _, module in self.visits:
            names: Dict[str, Any] = getattr(_fsdp1_state(module), "_buffer_name_to_orig_dtype", {})
            for name, buffer in module.named_buffers() if names else ():
                if clean(name) in names:
                    found.setdefault(id(buffer), names[clean(name)])
        return found

    # ---- units

    def fsdp1_units(self) -> List[Dict[str, Any]]:
        return [self._fsdp1_unit(state) for state in self.states]

    def _fsdp1_unit(self, state: Any) -> Dict[str, Any]:
        handle = state._handle
        visit = self.first_visit[id(handle._fully_sharded_module)]
        ranks = int(handle.process_group.size())
        shards, copies = (ranks, 1) if handle.uses_sharded_strategy else (1, ranks)
        if "HYBRID" in state.sharding_strategy.name:
            copies = int(state._inter_node_pg.size())
        unit: Dict[str, Any] = {
            "module": self.visits[visit][0], "visit": visit, "api": "fsdp1",
            "strategy": state.sharding_strategy.name, "use_orig_params": bool(handle._use_orig_params),
            "shard_world_size": shards, "replicate_world_size": copies,
            "cpu_offload": bool(handle._offload_params),
        }
        _mixed_precision(unit, state.mixed_precision, "param_dtype", "reduce_dtype", "buffer_dtype")
        unit["flat_parameter"] = _flat_parameter(handle.flat_param, shards)
        return unit

    def fsdp2_units(self) -> List[Dict[str, Any]]:
        return [self._fsdp2_unit(visit, group) for visit, group in self.groups if _shards(group)]

    def _fsdp2_unit(self, visit: int, group: Any) -> Dict[str, Any]:
        info, after = group.mesh_info, group.post_forward_mesh_info
        offload = _kept(group, "offload_policy")
        reshards = after is not None
        strategy = "FULL_SHARD" if reshards else "SHARD_GRAD_OP"
        if info.replicate_mesh_dim is not None:
            strategy = "HYBRID_SHARD"
        unit: Dict[str, Any] = {
            "module": self.visits[visit][0], "visit": visit, "api": "fsdp2", "strategy": strategy,
            "reshard_after_forward": reshards if not reshards or after is info else int(after.shard_mesh_size),
            "shard_world_size": int(info.shard_mesh_size),
            "replicate_world_size": int(getattr(info, "replicate_mesh_size", 1)),
        }
        if offload is not None:
            unit["cpu_offload"] = type(offload).__name__ == "CPUOffloadPolicy"
        unit["params"] = [self._fsdp2_param(param) for param in group.fsdp_params]
        names = [self.visits[self.first_visit[id(m)]][0] for m in _modules(group) if id(m) in self.first_visit]
        if len(names) > 1:
            unit["modules"] = names
        self._fsdp2_mixed_precision(unit, group)
        return unit

    def _fsdp2_mixed_precision(self, unit: Dict[str, Any], group: Any) -> None:
        """From torch 2.15 on each parameter has a policy: that of most of them, and who has another type."""
        of_group = hasattr(group, "mp_policy")
        policies = [(self.first_name[id(p)], group.mp_policy if of_group else _kept(p, "mp_policy")) for p in group.fsdp_params]
        types = Counter(getattr(policy, "param_dtype", None) for _, policy in policies)
        usual = max(types, key=lambda t: types[t])
        names = ("param_dtype", "reduce_dtype", "output_dtype")
        _mixed_precision(unit, next(p for _, p in policies if getattr(p, "param_dtype", None) == usual), *names)
        others = {fqn: {"param_dtype": _dtype_or_none(p.param_dtype)} for fqn, p in policies
                  if getattr(p, "param_dtype", None) != usual}
        if others:
            unit.setdefault("mixed_precision", dict.fromkeys(names))["param_overrides"] = others

    def _fsdp2_param(self, param: Any) -> Dict[str, Any]:
        sharded = param.sharded_param
        return {"fqn": self.first_name[id(param)], "shape": list(sharded.shape), "dtype": dtype(sharded.dtype),
                "placements": [repr(p) for p in sharded.placements],
                "mesh_dim_names": list(sharded.device_mesh.mesh_dim_names or [])}

    def fsdp2_mesh(self) -> Optional[Dict[str, Any]]:
        """The mesh that all meshes of the parameters are parts of, if one of them is."""
        meshes = [_mesh(p.sharded_param.device_mesh)
                  for _, group in self.groups if _shards(group) for p in group.fsdp_params]
        if not meshes:
            return None
        widest = max(meshes, key=lambda mesh: len(mesh["shape"]))
        sizes = set(zip(widest["dim_names"], widest["shape"]))
        if any(not set(zip(mesh["dim_names"], mesh["shape"])) <= sizes for mesh in meshes):
            return None
        return widest


def _modules(group: Any) -> Sequence[Any]:
    """Until torch 2.5 a group is of one module."""
    return group.modules if hasattr(group, "modules") else [group.module]


def _kept(thing: Any, name: str) -> Any:
    """What a plan can do without; None where this torch does not keep it there."""
    if not hasattr(thing, name):
        warnings.warn(f"torch {torch_version()} keeps no {name} in {type(thing).__name__}: the plan is written without it",
                      stacklevel=2)
    return getattr(thing, name, None)


def _plain(parameter: Any) -> _Managed:
    return _Managed(id(parameter), list(parameter.shape), dtype(parameter.dtype), bool(parameter.requires_grad))


def _groups(module: Any) -> List[Any]:
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None)
    if groups is None:  # an older torch has one a module
        groups = [getattr(state, "_fsdp_param_group", None)]
    return [group for group in groups if group is not None]


def _shards(group: Any) -> bool:
    """replicate() is built on FSDP2, but what it keeps is whole on every rank: no unit."""
    return group.mesh_info.shard_mesh_dim is not None


def _mesh(mesh: Any) -> Dict[str, Any]:
    return {"dim_names": list(mesh.mesh_dim_names or [f"dim_{i}" for i in range(mesh.ndim)]),
            "shape": [int(size) for size in mesh.shape]}


def _mixed_precision(unit: Dict[str, Any], policy: Any, *names: str) -> None:
    """Absent when nothing is set."""
    values = {name: getattr(policy, name, None) for name in names}
    if any(value is not None for value in values.values()):
        unit["mixed_precision"] = {n: _dtype_or_none(v) for n, v in values.items()}


def _dtype_or_none(value: Any) -> Optional[str]:
    return None if value is None else dtype(value)


def _flat_parameter(flat: Any, shards: int) -> Dict[str, Any]:
    def relative(module: str, name: str) -> str:
        return clean(below(module, name))

    fqns = [clean(fqn) for fqn in flat._fqns]
    numels = [int(n) for n in flat._numels_with_padding]
    padding = [bool(p) for p in flat._is_padding_mask]
    return {
        "dtype": dtype(flat.dtype), "requires_grad": bool(flat.requires_grad),
        "fqns": fqns, "shapes": [list(shape) for shape in flat._shapes],
        "numels": [int(n) for n in flat._numels], "numels_with_padding": numels, "is_padding": padding,
        "shared": [{"fqn": relative(s.module_name, s.param_name),
                    "same_as": relative(s.prim_module_name, s.prim_param_name)} for s in flat._shared_param_infos],
        **pieces(fqns, numels, padding, shards),
    }

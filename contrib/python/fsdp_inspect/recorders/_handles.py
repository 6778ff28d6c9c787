# SPDX-License-Identifier: Apache-2.0
"""Records what FSDP1 tells its _ExecOrderData, and, if asked, its training states.

Knows the root's _ExecOrderData and the two attributes that hold training states. Refuses
to know the orders and prefetches that follow from them.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

from ._files import Path, Recording
from ._names import clean_module, full
from ._patch import Patches
from ._process import FORMAT, VERSION, debug_level, private_torch, rank_and_world, recording

if TYPE_CHECKING:
    from torch.nn import Module


ORDER = "the order of FSDP1's units"


@contextmanager
def record_handles(model: "Module", path: Path, *, states: bool = False) -> Iterator[None]:
    """Records, while it is entered, the forwards and iterations of an FSDP1 model into
    the native format `exec_order` (see fsdp-inspect-trace(5)). `model` is the root of
    FSDP1, the outermost FullyShardedDataParallel. Enter it before the first forward, or
    else the orders begin where it is entered.

    With `states`, also every change of the training states of the model's units. For that
    two classes of PyTorch get a property each while it is entered; without it only one
    object of this model is patched.
    """
    with private_torch(ORDER):
        from torch.distributed.fsdp._common_utils import _get_module_fsdp_state

        state: Any = _get_module_fsdp_state(model)
    if state is None:
        raise ValueError(f"{type(model).__name__} is not the root of an FSDP1 model")
    out = recording(path)
    if out is None:
        yield
        return
    with out, Patches() as patches:
        with private_torch(ORDER):
            events = _Events(out, state._exec_order_data, model, states)
            events.patch(patches)
        try:
            yield
        finally:
            events.end()


class _Events:
    """The handles of one root, by their places in _ExecOrderData.all_handles."""

    def __init__(self, out: Recording, data: Any, model: Any, states: bool) -> None:
        self._out = out
        self._data = data
        self._states: Optional[_States] = _States(self) if states else None
        self._ids: Dict[int, int] = {}
        if data.all_handles:  # it has run before
            self._head(model)

    @private_torch(ORDER)
    def _head(self, root: Any) -> None:
        data = self._data
        rank, world = rank_and_world()
        names = {id(module): name for name, module in root.named_modules()}
        handles: List[Dict[str, Any]] = []
        for number, handle in enumerate(data.all_handles):
            self._ids[id(handle)] = number
            flat = handle.flat_param
            module = names.get(id(handle._fully_sharded_module), "")
            handles.append({
                "id": number,
                "module": clean_module(module),
                "fqns": [full(module, fqn) for fqn in flat._fqns],
                "names": data.param_to_fqn.get(flat),
            })
        if self._states is not None:
            self._states.begin(root)
        self._out.put(type="header", format=FORMAT, version=VERSION, kind="exec_order", rank=rank,
                      world_size=world, debug_level=debug_level(),
                      backward_prefetch_limit=data._backward_prefetch_limit,
                      forward_prefetch_limit=data._forward_prefetch_limit, handles=handles)

    def number(self, handle: Any) -> Optional[int]:
        return None if handle is None else self._ids.get(id(handle))

    def put(self, **fields: Any) -> None:
        """Before the header there is nothing to be said of any handle."""
        if self._out.lines:
            self._out.put(**fields)

    def end(self) -> None:
        if self._states is not None:
            self._states.flush()

    def patch(self, patches: Patches) -> None:
        data = self._data
        init, next_iter = data.init, data.next_iter
        pre, post = data.record_pre_forward, data.record_post_forward

        def recorded_init(state: Any, root_module: Any, process_group: Any) -> None:
            init(state, root_module, process_group)
            if not self._out.lines:
                self._head(root_module)

        # A line is put before PyTorch acts on it: it may refuse, and the line tells what.
        def recorded_pre(handle: Any, is_training: bool) -> None:
            self._event("pre_forward", handle, training=bool(is_training))
            pre(handle, is_training)

        def recorded_post(handle: Any) -> None:
            self._event("post_forward", handle)
            post(handle)

        def recorded_next() -> None:
            self.end()
            self.put(ev="next_iter")
            next_iter()

        patches.set(data, "init", recorded_init)
        patches.set(data, "record_pre_forward", recorded_pre)
        patches.set(data, "record_post_forward", recorded_post)
        patches.set(data, "next_iter", recorded_next)
        if self._states is not None:
            self._states.patch(patches)

    def _event(self, ev: str, handle: Any, **fields: Any) -> None:
        if self._states is not None:
            self._states.flush()
            fields.update(self._states.now(handle))
        self.put(ev=ev, handle=self.number(handle), **fields)


class _States:
    """Sees every assignment to the training states of the model's units. What one function
    of PyTorch assigns to a unit and then to its handle becomes one line."""

    def __init__(self, events: _Events) -> None:
        self._events = events
        self._mine: Dict[int, Any] = {}  # id of a state or handle -> the state; holds it
        self._pending: Optional[Tuple[Any, str]] = None

    def begin(self, root: Any) -> None:
        from torch.distributed.fsdp._traversal_utils import _get_fsdp_states

        for state in _get_fsdp_states(root):
            self._mine[id(state)] = state
            if state._handle is not None:
                self._mine[id(state._handle)] = state

    def now(self, handle: Any) -> Dict[str, str]:
        state = self._mine.get(id(handle))
        if handle is None or state is None:
            return {}
        return {"training_state": state.training_state.name, "handle_state": handle._training_state.name}

    def flush(self) -> None:
        if self._pending is not None:
            (handle, name), self._pending = self._pending, None
            self._events.put(ev="state", handle=self._events.number(handle), training_state=name)

    def patch(self, patches: Patches) -> None:
        from torch.distributed.fsdp._common_utils import _FSDPState
        from torch.distributed.fsdp._flat_param import FlatParamHandle

        patches.set(_FSDPState, "training_state", self._watched("training_state", self._of_unit))
        patches.set(FlatParamHandle, "_training_state", self._watched("_training_state", self._of_handle))

    def _watched(self, name: str, tell: Any) -> property:
        def get(thing: Any) -> Any:
            try:
                return thing.__dict__[name]
            except KeyError:
                raise AttributeError(name) from None

        def put(thing: Any, value: Any) -> None:
            before = thing.__dict__.get(name)
            thing.__dict__[name] = value
            if before is not value and id(thing) in self._mine:
                tell(thing, value.name)

        return property(get, put)

    def _of_unit(self, state: Any, name: str) -> None:
        self.flush()
        self._pending = (state._handle, name)
        if state._handle is None:
            self.flush()

    def _of_handle(self, handle: Any, name: str) -> None:
        if self._pending is not None and self._pending[0] is handle:
            unit, self._pending = self._pending[1], None
            self._events.put(ev="state", handle=self._events.number(handle), training_state=unit, handle_state=name)
            return
        self.flush()
        self._events.put(ev="state", handle=self._events.number(handle), handle_state=name)

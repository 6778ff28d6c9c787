# SPDX-License-Identifier: Apache-2.0
"""Records what a torch.fx tracer meets: calls of modules, and proxies it creates.

Knows the three methods of a tracer that matter to PyTorch's _ExecOrderTracer. Refuses to
know the order that follows from them.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Dict, Iterator, Optional

from ._files import Path, Recording
from ._names import dtype
from ._patch import Patches
from ._process import FORMAT, VERSION, recording, torch_version

if TYPE_CHECKING:
    from torch.fx import Tracer


@contextmanager
def record_fx_order(tracer: "Tracer", path: Path) -> Iterator[None]:
    """Records the next `tracer.trace(model, …)` into the native format `fx_exec_order`
    (see fsdp-inspect-trace(5)). One recording holds one trace; one that raises is kept,
    with a line that says so. For a `TracingConfig` of FSDP:

        with record_fx_order(config.tracer, path):
            config.tracer.trace(model, config.concrete_args)

    Only this tracer object is patched, and restored at the end.
    """
    out = recording(path)
    if out is None:
        yield
        return
    with out, Patches() as patches:
        _patch(patches, out, tracer)
        yield


def _patch(patches: Patches, out: Recording, tracer: "Tracer") -> None:
    trace = tracer.trace

    def recorded_trace(root: Any, *args: Any, **kwargs: Any) -> Any:
        if out.lines:
            raise RuntimeError("a recording of fx order holds one trace")
        concrete_args = kwargs.get("concrete_args", args[0] if args else None)
        with Patches() as inner:
            _Trace(out, tracer, root, concrete_args).patch(inner)
            try:
                return trace(root, *args, **kwargs)
            except Exception as error:
                out.put(ev="abort", error=type(error).__name__)
                raise

    patches.set(tracer, "trace", recorded_trace)


class _Trace:
    """One trace of one model. Modules and parameters have the numbers of their places in
    named_modules() and named_parameters()."""

    def __init__(self, out: Recording, tracer: Any, root: Any, concrete_args: Optional[Dict[str, Any]]) -> None:
        import torch

        if not isinstance(root, torch.nn.Module):
            raise TypeError("fx order is that of a module, not of a function")
        self._out = out
        self._tracer = tracer
        self._proxy = torch.fx.Proxy
        # Modules are held so that no other can come to have the id of one.
        self._modules = dict(root.named_modules())
        self._numbers = {id(module): number for number, module in enumerate(self._modules.values())}
        self._strange = 0
        self._head(root, concrete_args)

    def _head(self, root: Any, concrete_args: Optional[Dict[str, Any]]) -> None:
        put = self._out.put
        put(type="header", format=FORMAT, version=VERSION, kind="fx_exec_order", root=type(root).__name__,
            torch=torch_version(), tracer=type(self._tracer).__name__,
            concrete_args=None if concrete_args is None else list(concrete_args))
        parameters = {id(p): number for number, (_, p) in enumerate(root.named_parameters())}
        for name, p in root.named_parameters():
            put(ev="param", id=parameters[id(p)], fqn=name, shape=list(p.shape), dtype=dtype(p.dtype))
        for name, module in self._modules.items():
            put(ev="module", id=self._numbers[id(module)], fqn=name, cls=type(module).__name__,
                params=[[n, parameters[id(p)]] for n, p in module.named_parameters()])

    def patch(self, patches: Patches) -> None:
        call_module, create_proxy = self._tracer.call_module, self._tracer.create_proxy

        def recorded_call(m: Any, forward: Any, args: Any, kwargs: Any) -> Any:
            number = self._numbers.get(id(m))
            if number is None:
                # Made while tracing, so it has no name: what happens in it stays there.
                self._strange += 1
                try:
                    return call_module(m, forward, args, kwargs)
                finally:
                    self._strange -= 1
            self._put(ev="call_module", module=number)
            result = call_module(m, forward, args, kwargs)
            self._put(ev="end_module", module=number)
            return result

        def recorded_create(kind: str, target: Any, args: Any, kwargs: Any, *more: Any, **named: Any) -> Any:
            proxy = create_proxy(kind, target, args, kwargs, *more, **named)
            self._put(ev="create_proxy", kind=kind, target=_text(target),
                      node=getattr(getattr(proxy, "node", None), "name", None),
                      args=[self._argument(a) for a in args or ()])
            return proxy

        patches.set(self._tracer, "call_module", recorded_call)
        patches.set(self._tracer, "create_proxy", recorded_create)

    def _put(self, **fields: Any) -> None:
        if not self._strange:
            self._out.put(**fields)

    def _argument(self, argument: Any) -> Optional[Dict[str, Any]]:
        if not isinstance(argument, self._proxy):
            return None
        target = argument.node.target
        return {"node": argument.node.name, "target": target if isinstance(target, str) else None}


def _text(target: Any) -> str:
    return target if isinstance(target, str) else str(getattr(target, "__name__", target))

# SPDX-License-Identifier: Apache-2.0
"""Models whose execution order has something to show to a torch.fx tracer.

Each entry of FX_MODELS gives (model, TracingConfig or None).
"""
import torch
from torch import nn
from torch.distributed.fsdp._trace_utils import TracingConfig


class Recurrent(nn.Module):
    """A cell called again and again; a parameter used by an operator each time."""

    def __init__(self):
        super().__init__()
        self.out, self.cell = nn.Linear(3, 2), nn.Linear(3, 3)
        self.decay = nn.Parameter(torch.ones(3))

    def forward(self, x):
        for _ in range(3):
            x = self.cell(x).mul(self.decay)
        return self.out(x)


class Upside(nn.Module):
    """Runs last to first; two children have no parameters."""

    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(3))

    def forward(self, x):
        for stage in reversed(self.stages):
            x = stage(x)
        return x


class Adapter(nn.Module):
    """Used by position, by keyword (unseen), in a list (unseen), and never."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(3, 3)
        for name in ("low", "high", "bias", "listed", "unused"):
            self.register_parameter(name, nn.Parameter(torch.ones(3, 3)))

    def forward(self, x):
        y = self.base(x) + torch.matmul(torch.matmul(x, self.low), self.high)
        y = torch.add(input=y, other=self.bias)
        return torch.cat([y, self.listed.relu()])


class Tied(nn.Module):
    """The head uses the embedding's weight by a function; a norm has two homes."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(7, 4)
        self.first = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
        self.second = nn.Sequential(nn.Linear(4, 4), self.first[1])

    def forward(self, ids):
        x = self.second(self.first(self.words(ids)))
        return nn.functional.linear(x, self.words.weight)


class Gated(nn.Module):
    """Its flow depends on arguments."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
        self.gate = nn.Parameter(torch.ones(3))

    def forward(self, x, depth, gated=False):
        for layer in self.layers[:depth]:
            x = layer(x) * self.gate if gated else layer(x)
        return x


class Loops(nn.Module):
    """Goes through a proxy in a child: the trace ends there."""

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return sum(row for row in x * self.scale)

    def __init__(self):
        super().__init__()
        self.before, self.inner, self.after = nn.Linear(3, 3), self.Inner(), nn.Linear(3, 3)

    def forward(self, x):
        return self.after(self.inner(self.before(x)))


class Whole(torch.fx.Tracer):
    """Its leaves: nothing, or the Sequential."""

    def __init__(self, leaf=()):
        super().__init__()
        self.leaf = leaf

    def is_leaf_module(self, m, module_qualified_name):
        return isinstance(m, self.leaf)


FX_MODELS = {
    "recurrent": lambda: (Recurrent(), None),
    "upside down": lambda: (Upside(), None),
    "upside down, leaves": lambda: (Upside(), TracingConfig(tracer=Whole(nn.Sequential))),
    "upside down, no leaves": lambda: (Upside(), TracingConfig(tracer=Whole())),
    "adapter": lambda: (Adapter(), None),
    "tied": lambda: (Tied(), None),
    "gated": lambda: (Gated(), TracingConfig(concrete_args={"depth": 2, "gated": True})),
    "gated, not told": lambda: (Gated(), None),
    "loops": lambda: (Loops(), None),
    "no parameters": lambda: (nn.Sequential(nn.ReLU(), nn.Flatten()), None),
}

# SPDX-License-Identifier: Apache-2.0
"""What a native recording says happened, by the rules of fsdp-inspect-trace(5).

Plain and slow on purpose, and without torch: it stands between a recording and PyTorch's
own results, so that the recorders can be judged by themselves.
"""
import json


def read(path):
    """(header, events)"""
    with open(path, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    assert lines[0]["type"] == "header" and lines[0]["format"] == "fsdp-inspect-trace" and lines[0]["version"] == 1
    return lines[0], lines[1:]


class Profiler:
    """kind simple_profiler"""

    def __init__(self, events):
        self.dumps, self.problems = [], []
        self.results, self.active, self.frames = {}, set(), {}
        for event in events:
            getattr(self, event["ev"])(**{k: v for k, v in event.items() if k != "ev"})

    def begin(self, type, t_ns):
        if type in self.active:
            self.problems.append(("reentry", type))
            return
        self.active.add(type)
        self.frames.setdefault(type, []).append(t_ns)

    def end(self, type, t_ns):
        if not self.frames.get(type):
            self.problems.append(("end_without_begin", type))
            return
        self.results[type] = self.results.get(type, 0) + t_ns - self.frames[type].pop()
        if type in self.active:
            self.active.remove(type)
        else:
            self.problems.append(("end_after_reset", type))

    def reset(self, t_ns=0):
        self.results, self.active = {}, set()

    def dump(self, msg, t_ns):
        self.dumps.append((msg, self.results))
        self.reset()


class FxOrder:
    """kind fx_exec_order"""

    def __init__(self, events):
        self.params = {e["fqn"]: e["id"] for e in events if e["ev"] == "param"}
        self.modules = {e["id"]: e["params"] for e in events if e["ev"] == "module"}
        self.current, self.above = 0, []
        self.order, self.usage, self.visited, self.aborted = [0], {0: []}, [], None
        for event in events:
            act = getattr(self, event["ev"], None)
            if act and self.aborted is None:
                act(event)

    def call_module(self, event):
        module = event["module"]
        self.order.append(module)
        if self.modules[module]:
            self.usage[self.current].append([module, self.modules[module]])
        self.above.append(self.current)
        self.current = module
        self.usage[module] = []

    def end_module(self, _):
        self.current = self.above.pop()

    def create_proxy(self, event):
        if event["kind"] in ("call_function", "call_method"):
            used = [[a["target"], self.params[a["target"]]] for a in event["args"] if a and a["target"] in self.params]
        elif event["kind"] == "call_module":
            used = self.modules[self.current]
        else:
            return
        if used:
            self.usage[self.current].append([self.current, used])
        for _, param in used:
            if param not in self.visited:
                self.visited.append(param)

    def abort(self, event):
        self.aborted = event["error"]

    def result(self):
        return {
            "aborted": self.aborted,
            "module_forward_order": self.order,
            "module_to_param_usage_infos": [[m, used] for m, used in self.usage.items()],
            "param_forward_order": self.visited,
            "curr_module": self.current,
        }


class ExecOrder:
    """kind exec_order, up to any line"""

    def __init__(self, header, events):
        self.pre, self.post = [], []
        ids = [h["id"] for h in header["handles"]]
        self.pre_index, self.post_index = dict.fromkeys(ids), dict.fromkeys(ids)
        self.iteration = 0
        self.states = {h: ["IDLE", "IDLE"] for h in ids}
        for event in events:
            if event.get("handle") is not None or event["ev"] == "next_iter":
                getattr(self, event["ev"])(event)

    def pre_forward(self, event):
        handle = event["handle"]
        if self.iteration == 0 and self.pre_index[handle] is None:
            self.pre_index[handle] = len(self.pre)
            self.pre.append(handle)

    def post_forward(self, event):
        handle = event["handle"]
        if not self.post_index[handle]:
            self.post_index[handle] = len(self.post)
        self.post.append(handle)

    def next_iter(self, _):
        self.iteration += 1
        self.post = []
        self.post_index = dict.fromkeys(self.post_index)

    def state(self, event):
        pair = self.states[event["handle"]]
        pair[0] = event.get("training_state", pair[0])
        pair[1] = event.get("handle_state", pair[1])

    def result(self):
        return {
            "iter": self.iteration,
            "handles_pre_forward_order": self.pre,
            "handles_post_forward_order": self.post,
            "pre_forward_order_index": list(self.pre_index.values()),
            "post_forward_index": list(self.post_index.values()),
        }

# SPDX-License-Identifier: Apache-2.0
"""Writes rank0.pickle, a snapshot with stacks of C++ and Python as torch.cuda.memory._record_memory_history() records them by default."""
import pickle

HEAD = [("??", 0, "torch::unwind::unwind()"), ("??", 0, "torch::CapturedTraceback::gather(bool, bool, bool)"),
        ("memory_snapshot.cpp", 0, "torch::cuda::(anonymous namespace)::gather_with_cpp()"),
        ("CUDACachingAllocator.cpp", 0, "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)"),
        ("??", 0, "at::detail::empty_strided_cuda(c10::ArrayRef<long>, c10::ArrayRef<long>, c10::ScalarType)")]
MUL = [("??", 0, "at::_ops::mul_Tensor::call(at::Tensor const&, at::Tensor const&)")]
ADD = [("??", 0, "at::_ops::add_Tensor::call(at::Tensor const&, at::Tensor const&, c10::Scalar const&)")]
EVAL = [("??", 0, "_PyEval_EvalFrameDefault"), ("??", 0, "slot_tp_call")]
CALL = [("/env/lib/python3.12/site-packages/torch/nn/modules/module.py", 1750, "_call_impl")]
STEP, NORM = [("/job/optimizers.py", 82, "step")], [("/job/layers.py", 10, "norm")]
FIRST, SECOND, MAIN = [("/job/model.py", 20, "attention")], [("/job/model.py", 30, "mlp")], [("/job/train.py", 5, "main")]
BACKWARD = [("??", 0, "torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor>&&)"),
            ("??", 0, "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)"), ("??", 0, "clone")]
LOAD = [("/job/native.cpp", 7, "load_weights()"), ("??", 0, "clone")]

BLOCKS = [  # MiB, stack
    (40, HEAD + MUL + STEP + EVAL + MAIN), (40, HEAD + MUL + STEP + CALL + MAIN),  # equal but for frames of PyTorch
    (20, HEAD + ADD + NORM + EVAL + FIRST + MAIN), (10, HEAD + ADD + NORM + EVAL + SECOND + MAIN),  # other callers
    (5, HEAD + BACKWARD), (3, HEAD[:4] + LOAD), (2, [])]


def frames(stack):
    return [{"filename": file, "line": line, "name": name} for file, line, name in stack]


blocks, at = [], 1 << 32
for mib, stack in BLOCKS:
    blocks.append({"address": at, "size": mib << 20, "requested_size": mib << 20, "state": "active_allocated", "frames": frames(stack)})
    at += mib << 20
total = sum(block["size"] for block in blocks)
segment = {"device": 0, "address": 1 << 32, "total_size": total, "allocated_size": total, "active_size": total, "requested_size": total,
           "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks}
with open("rank0.pickle", "wb") as out:
    pickle.dump({"segments": [segment], "device_traces": [[]], "allocator_settings": {}}, out, 4)

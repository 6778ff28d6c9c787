# SPDX-License-Identifier: Apache-2.0
"""What a map makes of a model of Megatron-core is the same model in transformers: a small one is built by each library,
the weights of the first are exported with the map into the names of the second, which must load all of them, and both
must give the same logits for the same tokens. Llama, Qwen2, Qwen3, Qwen3-MoE, Mixtral and GPT-2, on one
processor.

Skipped where megatron-core or transformers is not installed.
"""
import contextlib
import os
import sys
import tempfile
import warnings

import oraclelib

sys.path.remove(os.path.dirname(os.path.abspath(__file__)))  # a packaging.py is there
sys.modules.pop("packaging", None)
warnings.filterwarnings("ignore")
try:
    import torch
    import transformers
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.tensor_parallel import random as megatron_random
    from megatron.core.transformer.moe import moe_utils
    from megatron.core.transformer.transformer_config import TransformerConfig
    from safetensors.torch import save_file
except ImportError as error:
    oraclelib.skip_all(str(error))
transformers.logging.set_verbosity_error()

VOCABULARY, HIDDEN, HEADS, GROUPS, LAYERS, FFN, EXPERTS, LENGTH = 32, 24, 4, 2, 2, 40, 3, 9
EPSILON = 1e-6
NEAR = 1e-4  # of logits around 4; one tensor in a wrong order makes them differ by 1 or more

MEGATRON = dict(
    num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS, ffn_hidden_size=FFN, use_cpu_initialization=True,
    attention_dropout=0.0, hidden_dropout=0.0, bias_activation_fusion=False, masked_softmax_fusion=False, bias_dropout_fusion=False,
    persist_layer_norm=False, apply_rope_fusion=False, gradient_accumulation_fusion=False, layernorm_epsilon=EPSILON)
ROTARY = dict(num_query_groups=GROUPS, normalization="RMSNorm", gated_linear_unit=True, activation_func=torch.nn.functional.silu,
              add_bias_linear=False)
THEIRS = dict(vocab_size=VOCABULARY, hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
              num_key_value_heads=GROUPS, rms_norm_eps=EPSILON, tie_word_embeddings=False, head_dim=HIDDEN // HEADS, rope_theta=10000.0)
# map -> (class of transformers, its settings, those of Megatron)
MODELS = {
    "hf-llama": ("Llama", THEIRS, ROTARY),
    "hf-qwen2": ("Qwen2", THEIRS, ROTARY | dict(add_qkv_bias=True)),
    "hf-qwen3": ("Qwen3", THEIRS, ROTARY | dict(qk_layernorm=True)),
    "hf-mixtral": ("Mixtral", THEIRS | dict(num_local_experts=EXPERTS, num_experts_per_tok=2),
                   ROTARY | dict(num_moe_experts=EXPERTS, moe_router_topk=2, moe_grouped_gemm=False)),
    "hf-qwen3-moe": ("Qwen3Moe", THEIRS | dict(num_experts=EXPERTS, num_experts_per_tok=2, moe_intermediate_size=FFN, norm_topk_prob=True),
                     ROTARY | dict(num_moe_experts=EXPERTS, moe_router_topk=2, moe_grouped_gemm=False, qk_layernorm=True)),
    "hf-gpt2": ("GPT2", dict(vocab_size=VOCABULARY, n_embd=HIDDEN, n_layer=LAYERS, n_head=HEADS, n_inner=FFN, n_positions=16,
                             layer_norm_epsilon=EPSILON, tie_word_embeddings=False),
                dict(activation_func=lambda x: torch.nn.functional.gelu(x, approximate="tanh"))),
}


def on_a_processor():
    """Megatron-core asks for a GPU, its random generator and Transformer Engine, also where it needs none."""
    moe_utils.te_general_gemm = None
    torch.cuda.current_device = lambda: torch.device("cpu")
    megatron_random.CudaRNGStatesTracker.fork = lambda self, name=None: contextlib.nullcontext()
    os.environ.update(RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel(1, 1)


def of_megatron(settings):
    config = TransformerConfig(**MEGATRON, **settings)
    spec = get_gpt_layer_local_spec(num_experts=settings.get("num_moe_experts"), moe_grouped_gemm=False,
                                    qk_layernorm=settings.get("qk_layernorm", False), normalization=config.normalization)
    rotary = config.normalization == "RMSNorm"
    model = GPTModel(config, spec, VOCABULARY, 16, position_embedding_type="rope" if rotary else "learned_absolute",
                     rotary_base=10000, share_embeddings_and_output_weights=False).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(torch.randn_like(weight) * 0.3 + ("norm" in name and name.endswith("weight")))
    return model


def judge(args, name, work):
    problems = []
    kind, theirs, settings = MODELS[name]
    torch.manual_seed(7)
    model = of_megatron(settings)
    source, config, out = (os.path.join(work, n) for n in ("model.safetensors", "config", "out"))
    save_file({n: w.detach().contiguous() for n, w in model.state_dict().items() if isinstance(w, torch.Tensor)}, source)
    cls = getattr(transformers, "GPT2LMHeadModel" if kind == "GPT2" else kind + "ForCausalLM")
    getattr(transformers, kind + "Config")(architectures=[cls.__name__], **theirs).save_pretrained(config)
    sizes = [f"--size=num_attention_heads={HEADS}", f"--size=num_key_value_heads={GROUPS}", f"--size=num_local_experts={EXPERTS}"]
    run = oraclelib.run(args, "export", "-q", f"--map={name}", *sizes, f"--with-config={config}", "-o", out, source)
    if run.status != 0:
        return [run.tail]
    loaded, told = cls.from_pretrained(out, output_loading_info=True, local_files_only=True)
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        oraclelib.same(problems, what, sorted(map(str, told[what])), [])
    tokens = torch.arange(LENGTH)[None] * 5 % VOCABULARY
    ahead = torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool).triu(1)
    with torch.no_grad():
        apart = (model(tokens, torch.arange(LENGTH)[None], ahead) - loaded.eval()(tokens).logits).abs().max().item()
    return problems + ([f"logits differ by {apart}"] if apart > NEAR else [])


def main():
    args = oraclelib.arguments(__doc__)
    tap = oraclelib.Tap()
    on_a_processor()
    for name in MODELS:
        with tempfile.TemporaryDirectory() as work:
            tap.none(f"{name}: the logits of Megatron-core", judge(args, name, work))
    tap.done()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Kinds of saves by programs that train, and by libraries that quantise."""
import os

from fresh_hub import tiny
from fresh_saves import CannotWork, digests, kind, of_dcp, of_safetensors, on_ranks, saved, small, stepped
from fresh_sharded import wide


@kind("Trainer", "transformers")
def trainer(folder):
    import torch
    from transformers import Trainer, TrainingArguments
    model = tiny("LlamaForCausalLM")
    rows = [{"input_ids": torch.arange(6) + i, "labels": torch.arange(6)} for i in range(4)]
    args = TrainingArguments(folder, max_steps=2, save_steps=1, per_device_train_batch_size=2, report_to=[], use_cpu=True,
                             optim="adamw_torch")
    Trainer(model, args, train_dataset=rows).train()
    made = os.path.join(folder, "checkpoint-2")
    state = os.path.join(made, "optimizer.pt")
    return {"weights": (os.path.join(made, "model.safetensors"), of_safetensors(os.path.join(made, "model.safetensors"))),
            "optimizer": (state, digests(torch.load(state, weights_only=True)))}


@kind("accelerate without FSDP", "accelerate")
def plain_accelerate(folder):
    import torch
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True)
    model = wide()
    optimizer = torch.optim.Adam(model.parameters())
    model, optimizer = accelerator.prepare(model, optimizer)
    stepped(model, optimizer, (4, 8))
    where = lambda name: os.path.join(folder, name)
    accelerator.save_state(where("state"))
    accelerator.save_state(where("bin"), safe_serialization=False)
    accelerator.save_model(model, where("model"), max_shard_size="1KB")
    accelerator.save_model(model, where("pickled"), max_shard_size="1KB", safe_serialization=False)
    told, state = digests(model.state_dict()), os.path.join(where("state"), "optimizer.bin")
    return {"save_model": (where("model"), told), "save_model, pickles": (where("pickled"), told),
            "save_state, weights": (os.path.join(where("state"), "model.safetensors"), told),
            "save_state, pickles": (os.path.join(where("bin"), "pytorch_model.bin"), told),
            "save_state, optimizer": (state, digests(torch.load(state, weights_only=True)))}


def accelerate_ranks(version, form):
    def ranks(_, folder):
        import accelerate
        import torch
        # accelerate keeps FSDP for devices that are none of these processes': it is told that they have one.
        accelerate.PartialState(cpu=True)
        accelerate.PartialState._shared_state["distributed_type"] = accelerate.DistributedType.MULTI_GPU
        plugin = accelerate.FullyShardedDataParallelPlugin(
            fsdp_version=version, state_dict_type=form + "_STATE_DICT", auto_wrap_policy="size_based_wrap", min_num_params=50,
            cpu_ram_efficient_loading=False)
        accelerator = accelerate.Accelerator(cpu=True, fsdp_plugin=plugin)
        model = wide()
        optimizer = torch.optim.AdamW(model.parameters())
        model, optimizer = accelerator.prepare(model, optimizer)
        stepped(model, optimizer, (4, 8))
        accelerator.save_state(folder)
        return sorted(os.listdir(folder))
    return ranks


@kind("accelerate with FSDP", "accelerate")
def fsdp_accelerate(folder):
    import torch
    from accelerate.utils import merge_fsdp_weights
    saves = {}
    for form in ("SHARDED", "FULL"):
        where = os.path.join(folder, form)
        os.makedirs(where)
        for entry in on_ranks(2, accelerate_ranks(2, form), where):
            path = os.path.join(where, entry)
            if entry.startswith(("pytorch_model", "optimizer")):
                saves[f"{form}, {entry}"] = path, of_dcp(path, folder) if os.path.isdir(path) else \
                    digests(torch.load(path, weights_only=False))
    path, target = os.path.join(folder, "SHARDED", "pytorch_model_fsdp_0"), os.path.join(folder, "merged")
    merge_fsdp_weights(path, target)
    saves["merge-weights"] = path, {}, {"merged": of_safetensors(target)}
    return saves


@kind("lightning", "lightning")
def lightning_saves(folder):
    import lightning
    import torch

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.save_hyperparameters({"width": 3})
            self.net = wide()

        def training_step(self, batch, _):
            return self.net(batch).square().sum()

        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters())
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]
    trainer_ = lightning.Trainer(max_steps=2, accelerator="cpu", devices=1, logger=False, default_root_dir=folder,
                                 enable_progress_bar=False, callbacks=[])
    trainer_.fit(Module(), torch.utils.data.DataLoader(torch.randn(8, 8), batch_size=4))
    path = os.path.join(folder, "last.ckpt")
    trainer_.save_checkpoint(path)

    def loaded(path):
        """The key of the model goes: these files always have it."""
        return {n.removeprefix("state_dict."): t for n, t in digests(torch.load(path, weights_only=False)).items()}
    bare = os.path.join(folder, "weights.ckpt")
    trainer_.save_checkpoint(bare, weights_only=True)
    fabric = lightning.Fabric(accelerator="cpu", devices=1)
    fabric.save(os.path.join(folder, "fabric.ckpt"), {"model": wide(), "step": 3})
    return {"Trainer": (path, loaded(path)), "weights only": (bare, loaded(bare)),
            "Fabric": (os.path.join(folder, "fabric.ckpt"), digests(torch.load(os.path.join(folder, "fabric.ckpt"))))}


@kind("ignite", "ignite")
def ignite_saves(folder):
    import torch
    from ignite.engine import Engine
    from ignite.handlers import Checkpoint, DiskSaver, EMAHandler
    model = wide()
    optimizer = stepped(model, torch.optim.SGD(model.parameters(), momentum=0.9), (4, 8))
    engine = Engine(lambda e, b: None)
    ema = EMAHandler(model)
    handler = Checkpoint({"model": model, "optimizer": optimizer, "trainer": engine, "ema": ema.ema_model},
                         DiskSaver(folder, require_empty=False), filename_pattern="all.pt")
    engine.run([1], max_epochs=1)
    handler(engine)
    path = os.path.join(folder, "all.pt")
    return {"Checkpoint": (path, digests(torch.load(path, weights_only=False)))}


@kind("fastai", "fastai")
def fastai_saves(folder):
    import torch
    from fastai.data.core import DataLoaders
    from fastai.learner import Learner
    data = torch.utils.data.TensorDataset(torch.randn(8, 8), torch.randn(8, 6))
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    from fastai.data.load import DataLoader
    learner = Learner(DataLoaders(DataLoader(data, bs=4), DataLoader(data, bs=4)), wide(), loss_func=torch.nn.MSELoss(),
                      path=folder)
    del loader
    learner.create_opt()
    x, y = data[:4]
    learner.model(x).sub(y).square().sum().backward()
    learner.opt.step()
    path = os.path.join(folder, "models", "last.pth")
    learner.save("last")
    told = digests(torch.load(path, weights_only=False))
    return {"Learner.save": (path, told, {"findings": ["fastcore.foundation.L "]})}


@kind("fairscale", "fairscale")
def fairscale_saves(folder):
    def rank_saves(rank, folder):
        import torch
        from fairscale.optim import OSS
        model = wide()
        optimizer = stepped(model, OSS(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9), (4, 8))
        optimizer.consolidate_state_dict(0)
        state = {"model": model.state_dict()}
        if rank == 0:
            state["optim"] = optimizer.state_dict()
            torch.save(state, os.path.join(folder, "oss.pt"))
        return digests(state)
    told = on_ranks(2, rank_saves, folder)
    return {"OSS": (os.path.join(folder, "oss.pt"), told)}


@kind("torchao", "torchao")
def torchao_saves(folder):
    import torch
    from torchao.quantization import Int8WeightOnlyConfig, quantize_
    model = wide()
    quantize_(model, Int8WeightOnlyConfig())
    path = os.path.join(folder, "int8.pt")
    torch.save(model.state_dict(), path)
    return {"int8": (path, digests(torch.load(path, weights_only=False)), {"findings": ["torchao."]})}


@kind("optimizers of torchao", "torchao.optim")
def torchao_optimizers(folder):
    import torch
    from torchao.optim import AdamW8bit
    model = torch.nn.Linear(128, 64)
    optimizer = stepped(model, AdamW8bit(model.parameters()), (2, 128))
    made = saved({"model": model.state_dict(), "opt": optimizer.state_dict()}, os.path.join(folder, "a.pt"))
    return {"AdamW8bit": (*made, {"findings": ["torchao."]})}


@kind("bitsandbytes", "bitsandbytes")
def bits(folder):
    import bitsandbytes as bnb
    import torch
    from safetensors.torch import save_file
    saves = {}
    for name, layer in (("int8", bnb.nn.Linear8bitLt(64, 64, has_fp16_weights=False)), ("nf4", bnb.nn.Linear4bit(64, 64))):
        try:
            state = torch.nn.Sequential(layer).to("cpu").state_dict()
        except (RuntimeError, NotImplementedError) as error:
            raise CannotWork(str(error)) from error
        path = os.path.join(folder, name + ".safetensors")
        save_file({k: v.contiguous() for k, v in state.items() if v is not None}, path)
        saves[name] = path, of_safetensors(path)
        saves[name + ", pickled"] = saved(state, os.path.join(folder, name + ".pt"))
    return saves


@kind("bitsandbytes by save_pretrained", "bitsandbytes")
def bits_pretrained(folder):
    import transformers
    where = lambda name: os.path.join(folder, name)
    tiny("LlamaForCausalLM", hidden_size=64, intermediate_size=64, head_dim=16).save_pretrained(where("plain"))
    saves = {}
    for name, options in (("8bit", {"load_in_8bit": True}), ("4bit", {"load_in_4bit": True})):
        config = transformers.BitsAndBytesConfig(**options)
        try:
            model = transformers.AutoModelForCausalLM.from_pretrained(where("plain"), quantization_config=config, device_map="cpu")
        except (RuntimeError, ValueError, NotImplementedError) as error:
            raise CannotWork(str(error)) from error
        model.save_pretrained(where(name))
        saves[name] = where(name), of_safetensors(where(name))
    return saves


@kind("torchtune", "torchtune")
def torchtune_saves(folder):
    import torch
    from torchtune.models.llama3 import llama3
    from torchtune.modules.peft import get_adapter_params
    from torchtune.models.llama3 import lora_llama3
    options = dict(vocab_size=67, num_layers=2, num_heads=4, num_kv_heads=2, embed_dim=32, max_seq_len=40, intermediate_dim=48)
    model = llama3(**options)
    lora = lora_llama3(["q_proj", "v_proj"], lora_rank=2, lora_alpha=4, **options)
    return {"model": saved(model.state_dict(), os.path.join(folder, "model.pt")),
            "adapter": saved(get_adapter_params(lora), os.path.join(folder, "adapter_0.pt"))} if torch else {}


def deepspeed_ranks(stage, dtype):
    def ranks(rank, folder):
        import deepspeed
        import torch
        os.environ["DS_ACCELERATOR"] = "cpu"
        torch.manual_seed(1)
        config = {"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
                  "zero_optimization": {"stage": stage, "round_robin_gradients": stage == 2}, "bf16": {"enabled": dtype == "bf16"}}
        engine, *_ = deepspeed.initialize(model=wide(), config=config, dist_init_required=False)
        data = torch.randn(2, 8).to(torch.bfloat16 if dtype == "bf16" else torch.float32)
        engine.backward(engine(data).square().sum())
        engine.step()
        engine.save_checkpoint(folder, tag="step")
        from deepspeed.utils import safe_get_full_fp32_param
        with deepspeed.zero.GatheredParameters(list(engine.module.parameters()), enabled=stage == 3):
            live = digests({n: p.detach().clone() for n, p in engine.module.named_parameters()})
        return live, digests({n: safe_get_full_fp32_param(p) for n, p in engine.module.named_parameters()})
    return ranks


def deepspeed_kind(stage, dtype):
    @kind(f"deepspeed, ZeRO {stage}, {dtype}", "deepspeed")
    def saves(folder):
        live, masters = on_ranks(2, deepspeed_ranks(stage, dtype), folder)
        more = {"part": True, "findings": ["round_robin_gradients: "]}
        path = os.path.join(folder, "step")
        from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
        converted = digests(get_fp32_state_dict_from_zero_checkpoint(folder, "step"))
        merged = {"zero_to_fp32": (path, {}, {"merged": converted})}
        if dtype == "fp32":
            return {"weights": (path, live, more), **merged}
        # In that order of gradients the library itself puts the masters together from other places.
        return {"masters": (path, masters, more), **merged} if stage != 2 else \
            {"masters": (path, {n: ["float32", shape, None] for n, (_, shape, _) in masters.items()}, more),
             "masters, narrowed": (path, live, {**more, "dtype": "float32", "export": ["--cast=bfloat16"]})}
    return saves


for zero_stage in (1, 2, 3):
    for zero_dtype in ("fp32", "bf16"):
        deepspeed_kind(zero_stage, zero_dtype)


@kind("composer", "composer")
def composer_saves(folder):
    import torch
    from composer import Trainer
    from composer.models import ComposerClassifier
    model = ComposerClassifier(small(), num_classes=3)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 7), torch.randint(0, 3, (8,))), batch_size=4)
    run = Trainer(model=model, train_dataloader=data, max_duration="1ep", device="cpu",
                  optimizers=torch.optim.AdamW(model.parameters()), progress_bar=False)
    run.fit()
    path = run.save_checkpoint(os.path.join(folder, "last.pt")) or os.path.join(folder, "last.pt")
    return {"Trainer": (path, digests(torch.load(path, weights_only=False)))}

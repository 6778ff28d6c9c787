# SPDX-License-Identifier: Apache-2.0
"""Kinds of saves by libraries around PyTorch that most people meet second-hand."""
import os

from fresh_hub import tiny
from fresh_saves import CannotWork, digests, kind, of_dcp, of_safetensors, on_ranks, saved, small, stepped
from fresh_sharded import wide


def loaded(path):
    import torch
    return digests(torch.load(path, weights_only=False))


# ---- PyTorch itself

@kind("DCP made of a file, and a file made of DCP", "torch")
def converted(folder):
    import torch
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp
    model = wide()
    state = {"model": model.state_dict(), "optimizer": stepped(model, torch.optim.AdamW(model.parameters()), (4, 8)).state_dict(),
             "epoch": 3}
    file, made, back = (os.path.join(folder, n) for n in ("a.pt", "dcp", "back.pt"))
    torch.save(state, file)
    torch_save_to_dcp(file, made)
    dcp_to_torch_save(made, back)
    return {"to DCP": (made, of_dcp(made, folder)), "to a file": (back, loaded(back))}


@kind("states of the whole application", "torch")
def stateful(folder):
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict
    from torch.distributed.checkpoint.stateful import Stateful

    class App(Stateful):
        def __init__(self, model, optimizer):
            self.model, self.optimizer = model, optimizer

        def state_dict(self):
            weights, states = get_state_dict(self.model, self.optimizer)
            return {"model": weights, "optim": states, "seen": torch.tensor(9)}
    model = wide()
    path = os.path.join(folder, "dcp")
    app = App(model, stepped(model, torch.optim.Adagrad(model.parameters()), (4, 8)))
    dcp.save({"app": app, "rng": torch.get_rng_state()}, checkpoint_id=path, no_dist=True)
    return {"Stateful": (path, of_dcp(path, folder))}


def zero_redundancy(rank, folder):
    import torch
    from torch.distributed.optim import ZeroRedundancyOptimizer
    model = torch.nn.parallel.DistributedDataParallel(wide())
    optimizer = stepped(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1), (4, 8))
    optimizer.consolidate_state_dict(0)
    if rank != 0:
        return {}
    return saved({"model": model.module.state_dict(), "optim": optimizer.state_dict()}, os.path.join(folder, "a.pt"))[1]


@kind("ZeroRedundancyOptimizer", "torch")
def redundancy(folder):
    told = on_ranks(2, zero_redundancy, folder)
    return {"consolidated": (os.path.join(folder, "a.pt"), told)}


def dcp_by_ranks(count, body, folder):
    """What so many ranks saved, and what loads from it."""
    on_ranks(count, body, folder)
    path = os.path.join(folder, "dcp")
    return path, of_dcp(path, folder)


def pipeline_ranks(rank, folder):
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict
    stages = torch.nn.ModuleDict({str(i): torch.nn.Linear(6, 6) for i in range(4)})
    for name in [n for n in stages if int(n) // 2 != rank]:
        del stages[name]
    dcp.save({"model": get_model_state_dict(stages), f"rng_{rank}": torch.get_rng_state()}, checkpoint_id=os.path.join(folder, "dcp"))
    return True


@kind("stages of a pipeline in one DCP", "torch")
def pipeline_stages(folder):
    return {"two stages": dcp_by_ranks(2, pipeline_ranks, folder)}


def mixed_ranks(_, folder):
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    model = wide()
    mesh = init_device_mesh("cpu", (3,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for part in model:
        if list(part.parameters()):
            fully_shard(part, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], amsgrad=True)
    stepped(model, optimizer, (4, 8))
    weights, states = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optim": states}, checkpoint_id=os.path.join(folder, "dcp"))
    return True


@kind("FSDP2 with frozen layers and mixed precision on three ranks", "torch")
def mixed(folder):
    return {"amsgrad": dcp_by_ranks(3, mixed_ranks, folder)}


@kind("states of loaders", "torchdata")
def loaders(folder):
    import torch
    from torchdata.stateful_dataloader import StatefulDataLoader
    loader = StatefulDataLoader(list(range(12)), batch_size=2, shuffle=True)
    next(iter(loader))
    return {"StatefulDataLoader": saved({"loader": loader.state_dict(), "model": small().state_dict(), "rng": torch.get_rng_state()},
                                        os.path.join(folder, "a.pt"))}


@kind("states of metrics", "torchmetrics")
def metrics(folder):
    import torch
    import torchmetrics
    metric = torchmetrics.MetricCollection({"acc": torchmetrics.classification.MulticlassAccuracy(num_classes=3),
                                            "confusion": torchmetrics.classification.MulticlassConfusionMatrix(num_classes=3)})
    metric.persistent(True)
    metric.update(torch.tensor([0, 1, 2]), torch.tensor([0, 2, 2]))
    return {"collection": saved({"metrics": metric.state_dict()}, os.path.join(folder, "a.pt"))}


# ---- transformers

MORE = ("MambaForCausalLM", "GPTNeoXForCausalLM", "OPTForCausalLM", "BloomForCausalLM", "FalconForCausalLM", "Qwen2MoeForCausalLM",
        "CohereForCausalLM", "StableLmForCausalLM", "XLMRobertaForMaskedLM", "ElectraForPreTraining", "DistilBertForMaskedLM",
        "Wav2Vec2ForCTC", "SegformerForSemanticSegmentation", "BartForConditionalGeneration", "MarianMTModel")
SIZES = {"MambaForCausalLM": {"state_size": 4}, "Wav2Vec2ForCTC": {"conv_dim": [8, 8], "conv_kernel": [3, 3], "conv_stride": [2, 2],
         "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2},
         "SegformerForSemanticSegmentation": {"hidden_sizes": [4, 8, 8, 8], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 2],
                                              "decoder_hidden_size": 8},
         "OPTForCausalLM": {"ffn_dim": 48, "word_embed_proj_dim": 32}, "BloomForCausalLM": {"n_head": 4, "n_layer": 2},
         "DistilBertForMaskedLM": {"dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4},
         "Qwen2MoeForCausalLM": {"num_experts": 4, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}}
for seq in "BartForConditionalGeneration", "MarianMTModel":
    SIZES[seq] = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
                  "encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": 40}


@kind("save_pretrained: further families", "transformers")
def families(folder):
    saves = {}
    for name in MORE:
        path = os.path.join(folder, name)
        try:
            model = tiny(name, **SIZES.get(name, {}))
        except (AttributeError, TypeError, ValueError, ImportError):
            continue
        model.save_pretrained(path)
        loaded_, told = type(model).from_pretrained(path, output_loading_info=True)
        assert not told["missing_keys"], told
        assert digests(loaded_.state_dict()) == digests(model.state_dict())
        saves[name] = path, of_safetensors(path)
    if not saves:
        raise CannotWork("no family")
    return saves


@kind("Trainer with an adapter", "peft")
def adapter_run(folder):
    import peft
    import torch
    from transformers import Trainer, TrainingArguments
    saves = {}
    rows = [{"input_ids": torch.arange(6) + i, "labels": torch.arange(6)} for i in range(4)]
    wrapped = peft.get_peft_model(tiny("LlamaForCausalLM"), peft.LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=["lm_head"]))
    args = TrainingArguments(os.path.join(folder, "run"), max_steps=1, save_steps=1, per_device_train_batch_size=2, report_to=[],
                             use_cpu=True, optim="adamw_torch")
    Trainer(wrapped, args, train_dataset=rows).train()
    made = os.path.join(folder, "run", "checkpoint-1")
    adapter = os.path.join(made, "adapter_model.safetensors")
    saves["adapter of a run"] = adapter, of_safetensors(adapter)
    saves["its optimizer"] = os.path.join(made, "optimizer.pt"), loaded(os.path.join(made, "optimizer.pt"))
    return saves


@kind("cross-encoders", "sentence_transformers")
def cross_encoders(folder):
    import transformers
    from sentence_transformers import CrossEncoder
    bert = os.path.join(folder, "bert")
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 40}
    transformers.BertForSequenceClassification(transformers.BertConfig(**sizes, num_labels=1)).save_pretrained(bert)
    with open(os.path.join(bert, "vocab.txt"), "w", encoding="utf-8") as stream:
        stream.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [chr(97 + i) for i in range(26)]))
    transformers.BertTokenizerFast(os.path.join(bert, "vocab.txt")).save_pretrained(bert)
    path = os.path.join(folder, "cross")
    CrossEncoder(bert, device="cpu").save_pretrained(path)
    return {"CrossEncoder": (path, of_safetensors(path))}


# ---- accelerate

@kind("several models, state of the caller", "accelerate")
def accelerated(folder):
    import torch
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True)
    first, second = accelerator.prepare(wide(), small())
    accelerator.register_for_checkpointing(torch.optim.lr_scheduler.StepLR(torch.optim.SGD(first.parameters(), 0.1), 1))
    where = os.path.join(folder, "state")
    accelerator.save_state(where)
    return {"first model": (os.path.join(where, "model.safetensors"), digests(first.state_dict())),
            "second model": (os.path.join(where, "model_1.safetensors"), digests(second.state_dict()))}


# ---- pictures

@kind("LoRA, ControlNet and variants", "diffusers")
def diffused(folder):
    import diffusers
    import torch
    from safetensors.torch import load_file
    where = lambda name: os.path.join(folder, name)
    sizes = {"block_out_channels": (32, 32), "layers_per_block": 1, "cross_attention_dim": 8, "attention_head_dim": 4,
             "norm_num_groups": 8}
    unet = diffusers.UNet2DConditionModel(sample_size=8, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
                                          up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), **sizes)
    diffusers.ControlNetModel.from_unet(unet, conditioning_embedding_out_channels=(8, 8)).save_pretrained(where("control"))
    unet.to(torch.float16).save_pretrained(where("variant"), variant="fp16", max_shard_size="200KB")
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict
    unet.add_adapter(LoraConfig(r=2, target_modules=["to_q", "to_v"]))
    diffusers.StableDiffusionPipeline.save_lora_weights(where("lora"), unet_lora_layers=get_peft_model_state_dict(unet))
    lora = os.path.join(where("lora"), "pytorch_lora_weights.safetensors")
    return {"ControlNet": (where("control"), of_safetensors(where("control"))),
            "shards of a variant": (where("variant"), of_safetensors(where("variant"))), "LoRA": (lora, digests(load_file(lora)))}


@kind("segmentation models", "segmentation_models_pytorch")
def segmentation(folder):
    import segmentation_models_pytorch as smp
    path = os.path.join(folder, "unet")
    smp.Unet("resnet18", encoder_weights=None, encoder_depth=3, decoder_channels=(16, 8, 8)).save_pretrained(path)
    return {"Unet": (path, of_safetensors(path))}


@kind("saves of open_clip", "open_clip")
def clip(folder):
    import open_clip
    model = open_clip.CLIP(embed_dim=16, vision_cfg={"layers": 1, "width": 64, "image_size": 16, "patch_size": 8},
                           text_cfg={"layers": 1, "width": 32, "heads": 4, "context_length": 8, "vocab_size": 50})
    return {"epoch": saved({"epoch": 1, "name": "run", "state_dict": model.state_dict()}, os.path.join(folder, "epoch_1.pt"))}


# ---- training

@kind("skorch", "skorch")
def skorch_saves(folder):
    import numpy
    import skorch
    import torch
    where = lambda name: os.path.join(folder, name)
    net = skorch.NeuralNetRegressor(torch.nn.Linear, module__in_features=4, module__out_features=1, max_epochs=1, verbose=0,
                                    optimizer=torch.optim.Adam)
    net.fit(numpy.ones((8, 4), "float32"), numpy.ones((8, 1), "float32"))
    net.save_params(f_params=where("params.pt"), f_optimizer=where("optimizer.pt"))
    net.save_params(f_params=where("params.safetensors"), use_safetensors=True)
    return {"params": (where("params.pt"), loaded(where("params.pt"))), "optimizer": (where("optimizer.pt"), loaded(where("optimizer.pt"))),
            "safetensors": (where("params.safetensors"), of_safetensors(where("params.safetensors")))}


@kind("stable-baselines3", "stable_baselines3")
def baselines(folder):
    import io
    import zipfile
    import gymnasium
    import stable_baselines3
    import torch
    model = stable_baselines3.PPO("MlpPolicy", gymnasium.make("CartPole-v1"), n_steps=8, batch_size=8, policy_kwargs={"net_arch": [8]})
    path = os.path.join(folder, "ppo.zip")
    model.save(path)
    saves = {}
    with zipfile.ZipFile(path) as archive:
        for name in "policy.pth", "policy.optimizer.pth":
            member = os.path.join(folder, name)
            with open(member, "wb") as stream:
                stream.write(archive.read(name))
            saves[name] = member, digests(torch.load(io.BytesIO(archive.read(name))))
    return saves


def optimizers_of(library, make):
    @kind(f"optimizers of {library}", library)
    def saves(folder):
        done = {}
        for name, build in make().items():
            model = wide()
            optimizer = build(model.parameters())
            getattr(optimizer, "train", lambda: None)()
            stepped(model, optimizer, (4, 8))
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            done[name] = saved(state, os.path.join(folder, name + ".pt"))
        return done


def schedule_free():
    import schedulefree
    return {"AdamWScheduleFree": schedulefree.AdamWScheduleFree, "SGDScheduleFree": lambda p: schedulefree.SGDScheduleFree(p, lr=0.1)}


def prodigy():
    import prodigyopt
    return {"Prodigy": prodigyopt.Prodigy}


def lion():
    import lion_pytorch
    return {"Lion": lion_pytorch.Lion}


def many_optimizers():
    import pytorch_optimizer
    return {name: getattr(pytorch_optimizer, name) for name in ("Adan", "AdEMAMix", "CAME", "SOAP", "Lamb")
            if hasattr(pytorch_optimizer, name)}


optimizers_of("schedulefree", schedule_free)
optimizers_of("prodigyopt", prodigy)
optimizers_of("lion_pytorch", lion)
optimizers_of("pytorch_optimizer", many_optimizers)


@kind("ModelCheckpoint, averaged weights", "lightning")
def lightning_more(folder):
    import lightning
    import torch
    from lightning.pytorch.callbacks import ModelCheckpoint, StochasticWeightAveraging

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = wide()

        def training_step(self, batch, _):
            return self.net(batch).square().sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-4, momentum=0.9)
    keep = ModelCheckpoint(dirpath=folder, save_last=True, filename="{epoch}-{step}")
    run = lightning.Trainer(max_epochs=3, accelerator="cpu", devices=1, logger=False, default_root_dir=folder,
                            enable_progress_bar=False, callbacks=[keep, StochasticWeightAveraging(1e-3, swa_epoch_start=1)])
    run.fit(Module(), torch.utils.data.DataLoader(torch.randn(8, 8), batch_size=4))
    path = os.path.join(folder, "last.ckpt")
    return {"last": (path, {n.removeprefix("state_dict."): t for n, t in loaded(path).items()})}


@kind("ModelCheckpoint of ignite", "ignite")
def ignite_more(folder):
    from ignite.engine import Engine
    from ignite.handlers import ModelCheckpoint
    handler = ModelCheckpoint(folder, "best", n_saved=1, require_empty=False)
    handler(Engine(lambda e, b: None), {"net": wide(), "other": small()})
    path, = (os.path.join(folder, n) for n in os.listdir(folder) if n.startswith("best"))
    return {"two models": (path, loaded(path))}


# ---- narrow weights

@kind("quanto", "optimum.quanto")
def quanto(folder):
    import torch
    from optimum.quanto import freeze, qint8, quantize
    from safetensors.torch import save_file
    model = torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.Linear(16, 8))
    quantize(model, weights=qint8)
    freeze(model)
    path = os.path.join(folder, "a.safetensors")
    save_file(model.state_dict(), path)
    return {"qint8": (path, of_safetensors(path))}


@kind("hqq", "hqq")
def hqq_saves(folder):
    import torch
    from hqq.core.quantize import BaseQuantizeConfig, HQQLinear
    layer = HQQLinear(torch.nn.Linear(64, 64), BaseQuantizeConfig(nbits=4, group_size=32), compute_dtype=torch.float32, device="cpu")
    return {"4 bits": saved({k: v for k, v in layer.state_dict().items() if isinstance(v, torch.Tensor)}, os.path.join(folder, "a.pt"))}


@kind("compressed tensors", "compressed_tensors")
def compressed(folder):
    import torch
    from compressed_tensors.compressors import pack_quantized
    from safetensors.torch import save_file
    packed = pack_quantized.pack_to_int32(torch.randint(-8, 8, (16, 32), dtype=torch.int8), 4)
    path = os.path.join(folder, "a.safetensors")
    save_file({"l.weight_packed": packed, "l.weight_scale": torch.ones(16, 1, dtype=torch.bfloat16),
               "l.weight_shape": torch.tensor([16, 32])}, path)
    return {"packed": (path, of_safetensors(path))}


@kind("safetensors of MLX", "mlx.core")
def mlx_saves(folder):
    import mlx.core as mx
    path = os.path.join(folder, "weights.safetensors")
    weight = mx.random.normal((64, 64))
    packed, scales, biases = mx.quantize(weight, group_size=32, bits=4)
    mx.save_safetensors(path, {"l.weight": packed, "l.scales": scales, "l.biases": biases, "half": mx.ones((3, 2), mx.bfloat16)},
                        {"format": "mlx"})
    return {"quantised": (path, of_safetensors(path))}


@kind("tensordict", "tensordict")
def dictionaries(folder):
    import tensordict
    import torch
    data = tensordict.TensorDict({"a": torch.ones(3, 2), "b": {"c": torch.zeros(3)}}, [3])
    return {"state_dict": saved(data.state_dict(), os.path.join(folder, "a.pt"))}

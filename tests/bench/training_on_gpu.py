#!/usr/bin/env python3
"""Measures on one GPU with PyTorch what models/ estimate: a step's time and its parts, peak memory,
and when each gradient is there. One JSON object a line. models/reference/steps.csv holds a run, and
docs/accuracy-notes.md says what came out. Needs torch, torchvision and transformers.

    python3 tests/bench/training_on_gpu.py --out steps.jsonl [--only NAME] [--seconds 200]
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F


def vision(name, **options):
    import torchvision
    model = getattr(torchvision.models, name)(weights=None, **options)

    def loss(batch):
        images = torch.randn(batch, 3, 224, 224, device="cuda")
        if name in ("resnet50", "vgg16"):
            images = images.to(memory_format=torch.channels_last)
        labels = torch.randint(0, 1000, (batch,), device="cuda")
        return lambda: F.cross_entropy(model(images), labels)
    if name in ("resnet50", "vgg16"):
        model = model.to(memory_format=torch.channels_last)
    return model, loss


class Adapted(torch.nn.Module):
    """A frozen product with a trained one of low rank beside it (LoRA)."""

    def __init__(self, product, rank):
        super().__init__()
        self.product = product.requires_grad_(False)
        self.down = torch.nn.Linear(product.in_features, rank, bias=False)
        self.up = torch.nn.Linear(rank, product.out_features, bias=False)

    def forward(self, x):
        return self.product(x) + self.up(self.down(x))


def adapt(model, names, rank=16):
    """Freezes the model and puts adapters beside the products that end in one of `names`."""
    model.requires_grad_(False)
    for name, module in list(model.named_modules()):
        if isinstance(module, torch.nn.Linear) and name.endswith(names):
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, Adapted(module, rank))
    return model


def language(kind, tokens, config, attention="sdpa", adapted=(), kept=torch.float32):
    import transformers
    made = getattr(transformers, kind + "Config")(**config)
    head = {"Bert": "BertForPreTraining", "GPT2": "GPT2LMHeadModel", "Llama": "LlamaForCausalLM",
            "Mixtral": "MixtralForCausalLM", "Olmoe": "OlmoeForCausalLM",
            "T5": "T5ForConditionalGeneration"}[kind]
    if kind == "T5":
        model = getattr(transformers, head)(made)
    else:
        model = getattr(transformers, head)._from_config(made, attn_implementation=attention)
    model = model.to(kept)
    if adapted:
        adapt(model, adapted)

    def loss(batch):
        ids = torch.randint(0, made.vocab_size, (batch, tokens), device="cuda")
        if kind == "Bert":  # all positions are predicted, as foreduce counts them
            next_ = torch.randint(0, 2, (batch,), device="cuda")
            return lambda: model(input_ids=ids, labels=ids, next_sentence_label=next_).loss
        return lambda: model(input_ids=ids, labels=ids).loss
    return model, loss


def gpt2(layers, width, heads, gelu="gelu_pytorch_tanh", attention="sdpa"):
    return lambda: language("GPT2", 1024, dict(n_layer=layers, n_embd=width, n_head=heads,
                                               activation_function=gelu, use_cache=False),
                            attention)


def bert(layers, width, heads, tokens, attention="sdpa"):
    return lambda: language("Bert", tokens, dict(
        num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads,
        intermediate_size=4 * width), attention)


def t5(layers, width, heads, inner):
    return lambda: language("T5", 512, dict(
        num_layers=layers, d_model=width, num_heads=heads, d_ff=inner, d_kv=64, vocab_size=32128,
        decoder_start_token_id=0, use_cache=False))


def llama(layers, tokens, attention="sdpa", adapted=(), kept=torch.float32, **config):
    return lambda: language("Llama", tokens, dict(num_hidden_layers=layers, use_cache=False,
                                                  max_position_embeddings=tokens, **config),
                            attention, adapted, kept)


def part(config, parts):
    """What one GPU of a tensor-parallel group has of each block, without the group's collectives."""
    return dict(config, head_dim=128, num_attention_heads=config["num_attention_heads"] // parts,
                num_key_value_heads=config["num_key_value_heads"] // parts,
                intermediate_size=config["intermediate_size"] // parts)


def mixture(kind, layers, **config):
    return lambda: language(kind, 4096, dict(num_hidden_layers=layers, use_cache=False,
                                             max_position_embeddings=4096, **config),
                            kept=torch.bfloat16)


LLAMA2_7B = dict(hidden_size=4096, num_attention_heads=32, num_key_value_heads=32,
                 intermediate_size=11008, vocab_size=32000)
LLAMA2_13B = dict(hidden_size=5120, num_attention_heads=40, num_key_value_heads=40,
                  intermediate_size=13824, vocab_size=32000)
LLAMA3_8B = dict(hidden_size=4096, num_attention_heads=32, num_key_value_heads=8,
                 intermediate_size=14336, vocab_size=128256)

MIXTRAL = dict(hidden_size=4096, num_attention_heads=32, num_key_value_heads=8,
               intermediate_size=14336, vocab_size=32000, num_local_experts=8,
               num_experts_per_tok=2)
OLMOE = dict(hidden_size=2048, num_attention_heads=16, num_key_value_heads=16,
             intermediate_size=1024, vocab_size=50304, num_experts=64, num_experts_per_tok=8)
ATTENTION, ALL_PRODUCTS = ("q_proj", "v_proj"), ("_proj",)

# name, workload and sample of foreduce, how to make it, batches, and whether blocks are computed
# again; what ends in +compile is compiled by torch.compile, and what ends in +graph is launched as
# one CUDA graph. GPT2's own activation, gelu_new, is six kernels where the one of its paper's
# authors is one.
CASES = [
    ("resnet50", "resnet50", "224x224 image", lambda: vision("resnet50"), (256, 64), (False,)),
    ("vgg16", "vgg16", "224x224 image", lambda: vision("vgg16"), (128,), (False,)),
    ("vit-b16", "vit-b16", "224x224 image", lambda: vision("vit_b_16"), (256, 64), (False,)),
    ("vit-l16", "vit-l16", "224x224 image", lambda: vision("vit_l_16"), (128,), (False,)),
    ("bert-base-128", "bert-base", "128 tokens", bert(12, 768, 12, 128), (256,), (False,)),
    ("bert-large-512", "bert-large", "512 tokens", bert(24, 1024, 16, 512), (32, 8),
     (False, True)),
    ("bert-large-128", "bert-large", "128 tokens", bert(24, 1024, 16, 128), (128,), (False,)),
    ("gpt2-124m", "gpt2-124m", "1024 tokens", gpt2(12, 768, 12), (12, 4), (False,)),
    ("gpt2-124m/gelu_new", "gpt2-124m", "1024 tokens", gpt2(12, 768, 12, "gelu_new"), (12,),
     (False,)),
    ("gpt2-355m", "gpt2-355m", "1024 tokens", gpt2(24, 1024, 16), (8,), (False, True)),
    ("gpt2-774m", "gpt2-774m", "1024 tokens", gpt2(36, 1280, 20), (8,), (False,)),
    ("gpt2-1.5b", "gpt2-1.5b", "1024 tokens", gpt2(48, 1600, 25), (4,), (False, True)),
    ("t5-base", "t5-base", "512+512 tokens", t5(12, 768, 12, 3072), (16,), (False,)),
    ("t5-large", "t5-large", "512+512 tokens", t5(24, 1024, 16, 4096), (8,), (False,)),
    # Blocks of models that do not fit whole: two depths give a block's time and memory.
    ("llama2-7b/2", "llama2-7b", "4096 tokens", llama(2, 4096, **LLAMA2_7B), (2,), (False, True)),
    ("llama2-7b/6", "llama2-7b", "4096 tokens", llama(6, 4096, **LLAMA2_7B), (2,), (False, True)),
    ("llama2-13b/2", "llama2-13b", "4096 tokens", llama(2, 4096, **LLAMA2_13B), (2,), (False,)),
    ("llama2-13b/5", "llama2-13b", "4096 tokens", llama(5, 4096, **LLAMA2_13B), (2,), (False,)),
    ("llama3-8b/2", "llama3-8b", "8192 tokens", llama(2, 8192, **LLAMA3_8B), (1,), (False, True)),
    ("llama3-8b/5", "llama3-8b", "8192 tokens", llama(5, 8192, **LLAMA3_8B), (1,), (False, True)),
    ("gpt2-124m+compile", "gpt2-124m", "1024 tokens", gpt2(12, 768, 12), (12,), (False,)),
    ("bert-large-512+compile", "bert-large", "512 tokens", bert(24, 1024, 16, 512), (32,),
     (False,)),
    ("vit-b16+compile", "vit-b16", "224x224 image", lambda: vision("vit_b_16"), (256,), (False,)),
    ("llama2-7b/2+compile", "llama2-7b", "4096 tokens", llama(2, 4096, **LLAMA2_7B), (2,),
     (False,)),
    ("llama2-7b/6+compile", "llama2-7b", "4096 tokens", llama(6, 4096, **LLAMA2_7B), (2,),
     (False,)),
    ("gpt2-355m+compile", "gpt2-355m", "1024 tokens", gpt2(24, 1024, 16), (8,), (False,)),
    ("resnet50+compile", "resnet50", "224x224 image", lambda: vision("resnet50"), (256,),
     (False,)),
    # Micro-batches: what one costs besides what is proportional to its samples.
    ("bert-large-512/batches", "bert-large", "512 tokens", bert(24, 1024, 16, 512),
     (1, 2, 4, 16, 64), (False,)),
    ("resnet50/batches", "resnet50", "224x224 image", lambda: vision("resnet50"),
     (1, 8, 16, 32, 128), (False,)),
    ("gpt2-355m/batches", "gpt2-355m", "1024 tokens", gpt2(24, 1024, 16), (1, 2, 4, 16), (False,)),
    ("llama3-8b/2 of 2048", "llama3-8b", "2048 tokens", llama(2, 2048, **LLAMA3_8B), (1, 2, 8),
     (False,)),
    ("llama3-8b/5 of 2048", "llama3-8b", "2048 tokens", llama(5, 2048, **LLAMA3_8B), (1, 2, 8),
     (False,)),
    # Attention as products and softmax, whose scores are kept.
    ("gpt2-124m/eager", "gpt2-124m", "1024 tokens", gpt2(12, 768, 12, attention="eager"), (12,),
     (False,)),
    ("bert-large-512/eager", "bert-large", "512 tokens", bert(24, 1024, 16, 512, "eager"), (32,),
     (False,)),
    ("llama2-7b/2/eager", "llama2-7b", "4096 tokens", llama(2, 4096, "eager", **LLAMA2_7B), (1,),
     (False,)),
    ("llama2-7b/4/eager", "llama2-7b", "4096 tokens", llama(4, 4096, "eager", **LLAMA2_7B), (1,),
     (False,)),
    ("llama2-7b/2 one", "llama2-7b", "4096 tokens", llama(2, 4096, **LLAMA2_7B), (1,), (False,)),
    ("llama2-7b/4 one", "llama2-7b", "4096 tokens", llama(4, 4096, **LLAMA2_7B), (1,), (False,)),
    # A trained part beside what is frozen (LoRA), kept in bf16.
    ("llama2-7b/2/lora-qv", "llama2-7b", "4096 tokens",
     llama(2, 4096, adapted=ATTENTION, kept=torch.bfloat16, **LLAMA2_7B), (2,), (False,)),
    ("llama2-7b/6/lora-qv", "llama2-7b", "4096 tokens",
     llama(6, 4096, adapted=ATTENTION, kept=torch.bfloat16, **LLAMA2_7B), (2,), (False, True)),
    ("llama2-7b/2/lora-all", "llama2-7b", "4096 tokens",
     llama(2, 4096, adapted=ALL_PRODUCTS, kept=torch.bfloat16, **LLAMA2_7B), (2,), (False,)),
    ("llama2-7b/6/lora-all", "llama2-7b", "4096 tokens",
     llama(6, 4096, adapted=ALL_PRODUCTS, kept=torch.bfloat16, **LLAMA2_7B), (2,), (False,)),
    ("llama2-7b/2/bf16", "llama2-7b", "4096 tokens",
     llama(2, 4096, kept=torch.bfloat16, **LLAMA2_7B), (2,), (False,)),
    ("llama2-7b/6/bf16", "llama2-7b", "4096 tokens",
     llama(6, 4096, kept=torch.bfloat16, **LLAMA2_7B), (2,), (False,)),
    # One GPU's part of a tensor-parallel group.
    *((f"llama2-7b/{layers}/tensor-{parts}", "llama2-7b", "4096 tokens",
       llama(layers, 4096, **part(LLAMA2_7B, parts)), (2,), (False,))
      for parts in (2, 4, 8) for layers in (2, 6)),
    *((f"llama3-8b/{layers}/tensor-8", "llama3-8b", "8192 tokens",
       llama(layers, 8192, **part(LLAMA3_8B, 8)), (1,), (False,)) for layers in (2, 5)),
    # Mixtures of experts, kept in bf16.
    ("mixtral-8x7b/1", "mixtral-8x7b", "4096 tokens", mixture("Mixtral", 1, **MIXTRAL), (1,),
     (False,)),
    ("mixtral-8x7b/3", "mixtral-8x7b", "4096 tokens", mixture("Mixtral", 3, **MIXTRAL), (1, 2),
     (False,)),
    ("olmoe/1", "olmoe", "4096 tokens", mixture("Olmoe", 1, **OLMOE), (2,), (False,)),
    ("olmoe/4", "olmoe", "4096 tokens", mixture("Olmoe", 4, **OLMOE), (2,), (False,)),
    # One launch of forward and backward.
    ("resnet50+graph", "resnet50", "224x224 image", lambda: vision("resnet50"), (8, 32), (False,)),
    ("bert-large-512+graph", "bert-large", "512 tokens", bert(24, 1024, 16, 512), (1, 4, 8),
     (False,)),
]


def event():
    e = torch.cuda.Event(enable_timing=True)
    e.record()
    return e


def measure(name, workload, sample, make, batch, recomputed):
    torch.manual_seed(1)
    with torch.device("cuda"):
        model, loss_of = make()
    model.train()
    if recomputed:
        model.gradient_checkpointing_enable()
        if not all(p.requires_grad for p in model.parameters()):  # the embedding, above all
            model.enable_input_require_grads()
    if name.endswith("+compile"):
        model.compile()
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-5, fused=True)
    loss = loss_of(batch)

    graph = None

    def step():
        marks = [event()]
        if graph:
            graph.replay()
            marks += [event(), event()]
        else:
            with torch.autocast("cuda", torch.bfloat16, cache_enabled=not graphed):
                value = loss()
            marks.append(event())
            value.backward()
            marks.append(event())
        optimizer.step()
        marks.append(event())
        optimizer.zero_grad(set_to_none=not graphed)
        return marks

    graphed = name.endswith("+graph")
    if graphed:  # forward and backward are recorded beside the stream that trains
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(beside)
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded), torch.autocast("cuda", torch.bfloat16,
                                                        cache_enabled=False):
            loss().backward()
        graph = recorded
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    begin, steps = time.perf_counter(), []
    while len(steps) < 5 or (time.perf_counter() - begin < 1.5 and len(steps) < 30):
        marks = step()
        torch.cuda.synchronize()
        steps.append([a.elapsed_time(b) for a, b in zip(marks, marks[1:])])
    peak, held = torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated()
    # Without waiting for each step, as training does.
    first = event()
    for _ in range(5):
        last = step()[-1]
    torch.cuda.synchronize()
    streamed = first.elapsed_time(last) / 5
    # When each gradient is there, in parts of backward. A compiled backward is one piece.
    ready = {}
    hooks = [p.register_post_accumulate_grad_hook(lambda p, n=n: ready.__setitem__(n, event()))
             for n, p in model.named_parameters()
             if p.requires_grad and not name.endswith(("+compile", "+graph"))]
    marks = step()
    torch.cuda.synchronize()
    backward = marks[1].elapsed_time(marks[2])
    order = [[n, p.numel(), round(marks[1].elapsed_time(ready[n]) / backward, 4)]
             for n, p in model.named_parameters() if n in ready]
    for hook in hooks:
        hook.remove()
    forward_ms, backward_ms, optimizer_ms = (statistics.median(s[i] for s in steps)
                                             for i in range(3))
    return dict(name=name, workload=workload, sample=sample, batch=batch, recomputed=recomputed,
                parameters=sum(p.numel() for p in parameters), step_ms=round(streamed, 4),
                forward_ms=round(forward_ms, 4), backward_ms=round(backward_ms, 4),
                optimizer_ms=round(optimizer_ms, 4), peak_bytes=peak, held_bytes=held,
                gradients=order)


def main():
    torch.backends.cudnn.benchmark = True  # as training scripts for images of one size have it
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", help="names of cases")
    parser.add_argument("--from", dest="first", help="the first case; those before it are left out")
    parser.add_argument("--seconds", type=float, default=1e9)
    arguments = parser.parse_args()
    begin = time.perf_counter()
    with open(arguments.out, "a") as out:
        print(json.dumps(dict(gpu=torch.cuda.get_device_name(), torch=torch.__version__,
                              nccl=".".join(map(str, torch.cuda.nccl.version())))), file=out)
        for name, workload, sample, make, batches, ways in CASES:
            if arguments.only and name not in arguments.only.split(","):
                continue
            if arguments.first and name != arguments.first:
                continue
            arguments.first = None
            for batch in batches:
                for recomputed in ways:
                    if time.perf_counter() - begin > arguments.seconds:
                        print("out of time before", name, flush=True)
                        return
                    try:
                        row = measure(name, workload, sample, make, batch, recomputed)
                    except Exception as e:  # the others are still worth having
                        print(name, batch, recomputed, type(e).__name__, str(e)[:300], flush=True)
                        continue
                    finally:
                        torch.cuda.empty_cache()
                    print(json.dumps(row), file=out, flush=True)
                    row.pop("gradients")
                    print(" ".join(f"{k}={v}" for k, v in row.items()), flush=True)


if __name__ == "__main__":
    main()

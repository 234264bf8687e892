// What a workload file may say: read by models/workload.cpp, and printed by `foreduce docs
// scenario`.
#pragma once

#include <fmt/format.h>

#include <set>
#include <string>

#include "input/fields.hpp"
#include "models/workload.hpp"

namespace foreduce {

template <class Fields>
void describe(Fields& f, Variant& v) {
  f.required("sample", v.sample, "Shape of one sample, e.g. 1024 tokens.");
  f.optional("train_gflop", v.train_gflop,
             "GFLOP of forward and backward for one sample: 6 times all its forward MACs, those of "
             "attention scores included.");
  std::optional<Flop> flops;
  f.optional("flops", flops, "The same with a unit, e.g. 188.8 TFLOP.");
  f.verify([&](FieldReader& r) {
    if (r.has("train_gflop") == r.has("flops"))
      r.problem("train_gflop", "give one of train_gflop (a number) and flops (with a unit)");
    if (flops) v.train_gflop = flops->value / 1e9;
  });
}
template <class Fields>
void describe(Fields& f, Measured& m) {
  f.required("gpu", m.gpu, "GPU family, as V100, A100 or H100.");
  f.required("precision", m.precision, "fp16 (bf16 counts as fp16) or fp32.",
             OneOf{"precision", {"fp16", "fp32"}});
  f.required("sample", m.sample, "Shape of the samples, one of variants.");
  f.required("batch", m.batch, "Samples per micro-batch.", Limits::between(1, 1e6));
  f.required("samples_per_s", m.samples_per_s, "Throughput of one GPU without communication.");
  f.optional("accumulation", m.accumulation, "Micro-batches per optimizer step. Default: 1.",
             Limits::between(1, 1e6));
  f.optional("framework", m.framework,
             "pytorch, tensorflow, mxnet, or several of which this is the median: from a rate of "
             "another framework the interval is wider. Default: pytorch.");
  f.required("source", m.source, "Where it was published or measured.");
}
template <class Fields>
void describe(Fields& f, MemoryPart& p) {
  f.required("memory", p.memory, "", Limits::between(0, 1));
  f.required("least", p.least, "", Limits::between(0, 1));
  f.required("most", p.most, "", Limits::between(0, 1));
}
template <class Fields>
void describe(Fields& f, Spread& s) {
  f.required("faster", s.faster, "A factor that 95 % of times are not shorter by.",
             Limits::between(1, 10));
  f.required("slower", s.slower, "A factor that 95 % of times are not longer by.",
             Limits::between(1, 10));
}
template <class Fields>
void describe(Fields& f, EstimateOn& e) {
  f.required("gpu", e.gpu, "Family.");
  f.required("fp16", e.fp16, "As estimate.fp16.", Limits::between(0.001, 1));
  f.optional("recomputed", e.recomputed, "As estimate.recomputed.", Limits::between(0.001, 1));
}
template <class Fields>
void describe(Fields& f, Estimate& e) {
  f.optional("fp16", e.fp16,
             "Of the fp16 peak, for fp16 and bf16, and of TF32's for tf32. Default: 0.43.",
             Limits::between(0.001, 1));
  f.optional("bf16", e.fp16, "The same under its other name.", Limits::between(0.001, 1));
  f.optional("fp32", e.fp32, "Of the fp32 peak of any GPU. Default: 0.55.",
             Limits::between(0.001, 1));
  f.optional("fused_attention", e.fused_attention,
             "Whether the shares are of programs whose attention is one kernel: attention_scores "
             "then take time besides. Default: no; of a transformer without an estimate, yes.");
  f.optional("recomputed", e.recomputed,
             "As fp16, of all arithmetic where activations are recomputed. Default: as fp16.",
             Limits::between(0.001, 1));
  f.optional("gpu", e.gpu,
             "Family of the GPU that reaches fp16's share; another GPU's follows from its peak and "
             "memory bandwidth. Default: A100.");
  f.optional("others", e.others,
             "What GPUs of other families reach; a GPU that is in none follows from the one whose "
             "peak is nearest.");
  f.optional("within", e.within,
             "What published rates differ by from these shares, on the GPUs that are named. "
             "Default: a factor of 2.5 either way, for the shares are assumed.");
  f.required("source", e.source, "Why.");
  f.verify([](FieldReader& r) {
    if (r.has("fp16") && r.has("bf16"))
      r.problem("bf16", "fp16 says the same; give one of the two");
  });
}
template <class Fields>
void describe(Fields& f, TransformerShape& t) {
  f.required("layers", t.layers, "Transformer blocks.", Limits::between(1, 10000));
  f.required("hidden", t.hidden, "Width of the model.", Limits::between(1, 1e6));
  f.required("vocabulary", t.vocabulary, "Entries of the token embedding.",
             Limits::between(1, 1e7));
  f.required("sequence", t.sequence, "Tokens of a sample.", Limits::between(1, 1e7));
  f.optional("feed_forward", t.feed_forward,
             "Width inside the feed-forward layers. Default: 4 times hidden.",
             Limits::between(1, 1e7));
  f.optional("heads", t.heads, "Attention heads.", Limits::between(1, 1e5));
  f.optional("kv_heads", t.kv_heads,
             "Heads of keys and values, where several query heads share one (grouped-query "
             "attention). Default: as heads.",
             Limits::between(1, 1e5));
  f.optional("head_size", t.head_size, "Width of a head. Default: hidden / heads.",
             Limits::between(1, 1e5));
  f.optional("gated", t.gated,
             "Whether a gate multiplies the feed-forward layer (SwiGLU), which takes a third "
             "matrix. Default: no.");
  f.optional("bias", t.bias, "Whether matrices have a bias. Default: yes.");
  f.optional("norm", t.norm, "layer has a weight and a bias, rms a weight alone. Default: layer.",
             OneOf{"norm", {"layer", "rms"}});
  f.optional("positions", t.positions,
             "learned is an embedding of as many positions as sequence has tokens, rotary has no "
             "parameters. Default: learned.",
             OneOf{"kind of positions", {"learned", "rotary"}});
  f.optional("tied", t.tied,
             "Whether the output layer shares the token embedding's weights. Default: yes.");
  f.verify([&t](FieldReader& r) {
    if (r.has("kv_heads") && !r.has("heads"))
      r.problem("heads", "kv_heads share the keys of heads, which are missing here");
    if (r.has("head_size") && !r.has("heads"))
      r.problem("heads", "head_size is of each of so many heads, which are missing here");
    if (t.heads > 0 && t.head_size == 0 && t.hidden % t.heads != 0)
      r.problem("heads", "hidden is no multiple of heads");
    if (t.heads > 0 && t.kv_heads > 0 && t.heads % t.kv_heads != 0)
      r.problem("kv_heads", "heads is no multiple of kv_heads");
  });
}
template <class Fields>
void describe(Fields& f, Experts& e) {
  f.required("count", e.count, "Experts of a block. Those that every token takes do not count.",
             Limits::between(2, 1e5));
  f.required("per_token", e.per_token, "Of these, how many a token takes.",
             Limits::between(1, 1e5));
  f.verify([&e](FieldReader& r) {
    if (r.has("count") && r.has("per_token") && e.per_token > e.count)
      r.problem("per_token", "a token cannot take more experts than there are");
  });
}
template <class Fields>
void describe(Fields& f, Workload& w) {
  f.required("workload", w.name, "Its name, as reports have it.");
  f.optional("title", w.title, "One line for people. Default: the name.");
  f.optional("note", w.note, "Anything that a reader should know.");
  f.optional(
      "transformer", w.transformer,
      "A decoder (GPT-2, GPT-NeoX, Llama): foreduce makes its tensors and its GFLOP from the "
      "shape.");
  f.optional("tensors", w.tensors_in,
             "CSV file of any other model, or its lines themselves after a |, a line a tensor in "
             "order of registration: name, elements, forward MACs per sample, and perhaps the "
             "measured µs of its backward.");
  f.optional("positions", w.positions,
             "Of tensors: rotary says that a sample may be longer than the variants. A transformer "
             "says it itself. Default: not known, so that no sample is longer.",
             OneOf{"kind of positions", {"rotary"}});
  f.optional(
      "blocks", w.blocks,
      "Without tensors: parameters in so many equal tensors. Activations are taken for those "
      "of a transformer of as many blocks.",
      Limits::between(1, 1e5));
  f.optional("parameters", w.parameters,
             "Their number, checked against the tensors; in whole millions it may be 1 % off.");
  f.optional("experts", w.experts,
             "Of a mixture of experts: those among which a router chooses for each token. Each "
             "block of a transformer then has so many feed-forward layers. In a list of tensors "
             "those are experts' that are named so, as model.layers.0.mlp.experts.down_proj.");
  f.optional("variants", w.variants,
             "Shapes of a sample, the default first. Default: the transformer's sequence.");
  f.optional(
      "attention_scores", w.attention_scores,
      "Elements of attention's scores that a sample of the first variant has (heads x tokens "
      "x keys, over all layers), where backward keeps them because attention is not one fused "
      "kernel. They take memory, and time where the estimate is of fused attention or "
      "framework names a program. Default: 0.",
      Limits::between(0, 1e15));
  f.optional("estimate", w.estimate,
             "Share of the peak to assume where nothing was measured on any GPU. Default: of a "
             "transformer what Llama-2 7B reaches with fused attention, scaled by the width; of "
             "others 43 %.");
  f.optional("measured", w.measured, "Throughput that one GPU was measured to have.");
  f.verify([&w](FieldReader& r) {
    if (r.has("tensors") + r.has("transformer") + r.has("blocks") != 1)
      r.problem("tensors",
                r.has("tensors") || r.has("transformer")
                    ? "the tensors are given twice: give one of tensors (a CSV file), transformer "
                      "(a shape) and blocks (with parameters)"
                    : "the tensors are missing: add blocks: 32, in which parameters are divided, "
                      "or give tensors (a CSV file) or transformer (a shape)");
    if (r.has("experts") && r.has("blocks"))
      r.problem("experts", "equal blocks do not say which parameters are experts'",
                "give transformer (a shape) or tensors (a CSV file)");
    if (r.has("blocks") && !r.has("parameters"))
      r.problem("blocks", "blocks divide parameters, which are missing here");
    if (!r.has("transformer") && w.variants.empty())
      r.problem("variants",
                "at least one variant is needed, e.g. [{ sample: 1024 tokens, train_gflop: 860 }]");
    std::set<std::string> samples;
    for (const Variant& v : w.variants)
      if (!samples.insert(v.sample).second)
        r.problem("variants", fmt::format("the sample '{}' is there twice", v.sample));
    if (w.title.empty()) w.title = w.name;
  });
}

}  // namespace foreduce

#include "models/memory.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "models/tensors.hpp"

namespace foreduce {
namespace {

/// Whether all tokens' heads share it: it does not stand behind the product that it comes after.
bool is_of_heads(const Tensor& t) {
  for (const char* norm : {".q_norm.", ".k_norm.", ".q_layernorm.", ".k_layernorm."})
    if (t.name.find(norm) != std::string::npos) return true;
  return false;
}

/// Whether it is the last product of its block's experts.
bool ends_experts(const Workload& workload, std::size_t at) {
  const auto& all = workload.tensors;
  const std::string block = block_of(all[at].name);
  for (std::size_t i = at + 1; i < all.size() && block_of(all[i].name) == block; ++i)
    if (all[i].macs > 0 && is_of_experts(all[i], workload)) return false;
  return is_of_experts(all[at], workload);
}

/// Elements of a layer's output for one sample. Each weight does one multiply-add per position; the
/// bias or norm behind it is as wide as the output, else the input has the usual width. Behind a
/// tied output layer, the embedding, stand positions or the first norm. Each of several experts has
/// its part of weights, positions and biases, and the last of its products the usual width.
double outputs(const Workload& workload, std::size_t at, std::size_t width) {
  const std::vector<Tensor>& tensors = workload.tensors;
  const Tensor& t = tensors[at];
  const auto of_one = [&](const Tensor& one) {
    return static_cast<double>(one.elements) / std::max(1, experts_in(one, workload));
  };
  const double elements = of_one(t), positions = t.macs / elements,
               usual = static_cast<double>(std::max<std::size_t>(1, width));
  if (ends_experts(workload, at)) return positions * usual;
  const bool has_behind =
      at + 1 < tensors.size() && tensors[at + 1].macs == 0 && !is_of_heads(tensors[at + 1]);
  const double behind = has_behind ? of_one(tensors[at + 1]) : 0;
  const bool fits =
      behind > 0 && behind < elements && std::fmod(elements, behind) == 0 && !is_tied_output(t);
  return positions * (fits ? behind : std::max(1.0, elements / usual));
}

/// Layers' outputs for one sample of the workload's first variant, in elements.
struct Outputs {
  double all = 0;
  double root = 0;           ///< of what belongs to no block
  double ends = 0;           ///< of each block's last product: what goes into the next
  double largest_block = 0;  ///< of one block
  double experts = 0;        ///< of experts' products
  double loss = 0;           ///< of the layer that chooses among a vocabulary; 0: there is none
  int blocks = 0;
};

/// Of a model that is described by its parameters and blocks alone, taken for a transformer: a
/// block of width w has 12 w^2 parameters, and of each token a GPU keeps 36 bytes of 16 bits a
/// hidden unit.
Outputs outputs_of_blocks(const Workload& workload) {
  constexpr double kOutputs = 9;
  Outputs sum;
  if (workload.variants.empty()) return sum;
  const auto parameters = static_cast<double>(workload.elements());
  const double tokens = workload.variants[0].train_gflop * 1e9 / (kFlopPerMac * parameters),
               width = model_width(workload);
  sum.blocks = workload.blocks;
  sum.ends = tokens * width * workload.blocks;
  sum.all = kOutputs * sum.ends;
  sum.largest_block = sum.all / workload.blocks;
  return sum;
}

Outputs outputs_of(const Workload& workload) {
  if (workload.blocks > 0) return outputs_of_blocks(workload);
  const std::size_t width = usual_width(workload.tensors);
  Outputs sum;
  double block = 0, last = 0, tokens = 0, widest_in_blocks = 0, loss_tokens = 0;
  bool mixture = false;  // whether the block has experts
  std::string open;
  const auto close = [&] {
    sum.largest_block = std::max(sum.largest_block, block);
    // What experts put out is summed for each token again.
    sum.ends += std::exchange(mixture, false) ? tokens * static_cast<double>(width) : last;
    block = last = 0;
  };
  for (std::size_t i = 0; i < workload.tensors.size(); ++i) {
    if (workload.tensors[i].macs <= 0) continue;
    const Tensor& t = workload.tensors[i];
    const double one = outputs(workload, i, width);
    const std::string name = block_of(t.name);
    sum.all += one;
    if (name != open) close();
    if (name != open && !name.empty()) ++sum.blocks;
    open = name;
    if (name.empty()) {
      sum.root += one;
      if (one > sum.loss) loss_tokens = t.macs / static_cast<double>(t.elements);
      sum.loss = std::max(sum.loss, one);
    } else {
      block += one;
      last = one;
      if (is_of_experts(t, workload)) {
        mixture = true;
        sum.experts += one;
      } else {
        tokens = t.macs / static_cast<double>(t.elements);
        widest_in_blocks = std::max(widest_in_blocks, one);
      }
    }
  }
  close();
  // A layer that chooses among a vocabulary does so for every token, and is wider than what blocks
  // hand on, if not than all that is in them.
  const bool of_every_token = loss_tokens == tokens && sum.loss * sum.blocks > sum.ends;
  if (sum.blocks == 0 || (sum.loss <= widest_in_blocks && !of_every_token)) sum.loss = 0;
  if (workload.fused_loss) {  // behind the logits nothing is kept
    sum.all -= sum.loss / 2;
    sum.root -= sum.loss / 2;
  }
  return sum;
}

double bytes_of(Precision type) { return static_cast<double>(size_of(element_type(type))); }

/// Bytes of a layer's kept output: itself and what follows it.
double kept_bytes(Precision precision) { return 2 * bytes_of(precision); }

/// Of kept_bytes(), the part that a block's layers keep. Of what is computed again, each block's
/// input alone is there, in 16 bits.
double kept_part(const Workload& workload, Precision precision, Recompute how) {
  const bool fewer = precision == Precision::fp8 && workload.framework == Framework::megatron &&
                     how == Recompute::none;
  return fewer ? training_constants().megatron.fp8_kept : 1;
}

/// Of products whose every second output is kept: experts' are one product for all of them
/// (grouped_mm), which torchtitan's list of what to keep does not have.
double kept_by_half(const Outputs& o) { return (o.all - o.root - o.experts) / 4; }

/// Kept elements, each of kept_bytes().
double kept_elements(const Outputs& o, Recompute how) {
  // Half of kept_bytes() is the output itself, the other half what follows it.
  switch (how) {
    case Recompute::none: return o.all;
    case Recompute::selective:  // of a block every second product, its input, attention's output
      return o.root + kept_by_half(o) + o.ends + o.largest_block;
    case Recompute::full: break;
  }
  return o.root + o.ends / 2 + o.largest_block;
}

/// Bytes of a kept score: after softmax in fp32 and as the product takes it, dropped out, and what
/// was dropped. Of Hugging Face's T5 (models/reference/steps.csv) 8.3 and 7.7 are kept in 16 bits.
double score_bytes(const Workload& workload, Precision precision) {
  if (workload.framework == Framework::megatron) return training_constants().megatron.kept_score;
  return bytes_of(precision) == 2 ? 8 : 12;
}

/// Scores of attention that are kept; recomputed selectively none are, fully those of one block.
double kept_scores(const Workload& workload, const Outputs& o, Recompute how) {
  if (how == Recompute::none) return workload.attention_scores;
  return how == Recompute::full && o.blocks > 0 ? workload.attention_scores / o.blocks : 0;
}

/// Bytes that norms of several kernels keep for one sample of the first variant, of the blocks
/// that are there.
double kept_by_norms(const Workload& workload, const Outputs& o, Recompute how,
                     MixedPrecision mixed) {
  if (workload.framework != Framework::transformers || !has_separate_norms(workload)) return 0;
  const TransformersConstants& c = training_constants().transformers;
  const double there = how == Recompute::none ? o.ends : o.ends / std::max(1, o.blocks);
  return there * (mixed == MixedPrecision::autocast ? c.kept_norms : c.kept_norms_16).value;
}

}  // namespace

double recomputed_share(Recompute how) {
  return how == Recompute::none ? 0 : how == Recompute::selective ? 0.5 : 1;
}

Bytes activations(const Workload& workload, const std::string& sample, Precision precision,
                  int batch, Recompute how, MixedPrecision mixed) {
  const Outputs o = outputs_of(workload);
  const double elements = std::min(o.all, kept_elements(o, how)),
               positions = positions_of(workload, sample);
  const double kept = o.root + (elements - o.root) * kept_part(workload, precision, how);
  return Bytes{
      ((kept * kept_bytes(precision) + kept_by_norms(workload, o, how, mixed)) * positions +
       kept_scores(workload, o, how) * positions * positions * score_bytes(workload, precision)) *
      batch};
}

double model_width(const Workload& workload) {
  if (workload.blocks == 0) return static_cast<double>(usual_width(workload.tensors));
  constexpr double kSquares = 12;  // parameters of a transformer's block, by its width's square
  return std::sqrt(static_cast<double>(workload.elements()) / (kSquares * workload.blocks));
}

LayerOutputs layer_outputs(const Workload& workload, const std::string& sample, int batch) {
  const Outputs o = outputs_of(workload);
  const double samples = positions_of(workload, sample) * batch;
  return {o.all * samples, o.root * samples, o.ends * samples};
}

bool has_loss_over_vocabulary(const Workload& workload) { return outputs_of(workload).loss > 0; }

bool is_language_model(const Workload& workload) {
  return has_loss_over_vocabulary(workload) || workload.blocks > 0 || workload.transformer;
}

Bytes loss_working_space(const Workload& workload, const std::string& sample, int batch) {
  if (workload.fused_loss) return Bytes{0};
  constexpr double kEach = 4 + 4;  // the logarithm of a probability, and its gradient
  return Bytes{outputs_of(workload).loss * positions_of(workload, sample) * batch * kEach};
}

double block_output(const Workload& workload, const std::string& sample, int batch) {
  if (workload.blocks > 0) return 0;  // nothing says how such blocks could be divided
  const Outputs o = outputs_of(workload);
  return o.blocks > 0 ? o.ends / o.blocks * positions_of(workload, sample) * batch : 0;
}

namespace {

/// The last part of a tensor's name but for "weight": "k_proj".
std::string_view layer_of(const Tensor& t) {
  std::string_view name = t.name;
  if (name.ends_with(".weight")) name.remove_suffix(std::string_view(".weight").size());
  return name.substr(name.rfind('.') + 1);
}
bool is_named(const Tensor& t, std::initializer_list<std::string_view> layers) {
  return std::find(layers.begin(), layers.end(), layer_of(t)) != layers.end();
}

/// Keys and values that a layer puts out for one sample of the first variant.
double keys_and_values_of(const Workload& workload, std::size_t at, std::size_t width) {
  const std::vector<Tensor>& all = workload.tensors;
  const Tensor& t = all[at];
  if (t.macs <= 0) return 0;
  const double positions = t.macs / static_cast<double>(t.elements);
  if (is_named(t, {"k_proj", "v_proj", "key", "value", "k", "v"}))
    return outputs(workload, at, width);
  // From a latent space (DeepSeek), whose norm stands before it.
  if (is_named(t, {"kv_b_proj"}) && at > 0 && all[at - 1].macs <= 0)
    return t.macs / static_cast<double>(all[at - 1].elements);
  if (!is_named(t, {"c_attn", "qkv_proj", "qkv", "query_key_value", "Wqkv", "in_proj_weight"}))
    return 0;
  // With queries, which are as wide as what attention's output layer, the next one, takes.
  for (std::size_t i = at + 1; i < all.size(); ++i)
    if (all[i].macs > 0)
      return outputs(workload, at, width) -
             positions * static_cast<double>(all[i].elements) / static_cast<double>(width);
  return 0;
}

/// Among how many of `tensor` GPUs heads of keys are divided, which are `width` wide together.
double parts_of_heads(const Workload& workload, double width, int tensor) {
  constexpr double kUsualHead = 128;
  const auto model = static_cast<double>(usual_width(workload.tensors));
  double heads = width < model ? std::max(1.0, std::floor(width / kUsualHead)) : tensor;
  if (workload.transformer && workload.transformer->heads > 0)
    heads = workload.transformer->kv_heads > 0 ? workload.transformer->kv_heads
                                               : workload.transformer->heads;
  return std::min<double>(tensor, heads);
}

}  // namespace

bool shrinks_images(const Workload& workload) {
  std::vector<double> positions;
  for (const Tensor& t : workload.tensors)
    if (t.macs > 0) positions.push_back(t.macs / static_cast<double>(t.elements));
  if (positions.empty()) return false;
  std::sort(positions.begin(), positions.end());
  constexpr double kShrunk = 3;  // ResNet-50's middle half of layers: 4
  return positions[positions.size() * 3 / 4] >= kShrunk * positions[positions.size() / 4];
}

double keys_and_values(const Workload& workload, const std::string& sample, int batch, int tensor) {
  const double of_block = block_output(workload, sample, batch);
  const std::size_t width = usual_width(workload.tensors);
  double all = 0;
  for (std::size_t i = 0; i < workload.tensors.size(); ++i)
    all += keys_and_values_of(workload, i, width);
  if (of_block <= 0 || all <= 0) return 2 * of_block / tensor;
  const double both = all / outputs_of(workload).blocks * positions_of(workload, sample) * batch;
  return both /
         parts_of_heads(workload, both / (2 * of_block) * static_cast<double>(width), tensor);
}

namespace {

/// Bytes of one parameter, as a GPU that shards nothing keeps them.
struct PerParameter {
  double weight = 0, gradient = 0, optimizer = 0;
};
PerParameter per_parameter(const MemoryQuestion& q, double wire) {
  const double usual = training_constants().state_bytes;
  // Megatron sums gradients in a buffer of their own type, beside weights of 16 bits (Megatron-LM,
  // docs/source/api-guide/dist_optimizer.md: 18 bytes, or 6 + 12/d).
  const double sums = q.workload->framework == Framework::megatron
                          ? std::max(0.0, bytes_of(q.gradient) - wire)
                          : 0,
               state = q.per_parameter ? q.per_parameter->value : usual + sums,
               each = std::clamp((state - sums) / 2, 0.0, wire);
  return {each, each + sums, std::max(0.0, state - 2 * each - sums)};
}

/// What one of the GPUs that share experts has of a unit, if it shares nothing else.
double elements_of(const ModelUnit& unit, const ShardingPlan& plan) {
  return static_cast<double>(unit.elements - unit.experts) +
         static_cast<double>(unit.experts) * plan.expert_span / plan.expert;
}

/// Units that are there whole at once, and the gradients of the largest.
Bytes gathered(const std::vector<ModelUnit>& units, const MemoryQuestion& q) {
  std::vector<double> blocks;
  double root = 0, all = 0;
  for (const ModelUnit& u : units) {
    // Experts that a GPU has to itself are not gathered.
    const double elements = q.sharding.expert_shards() > 1
                                ? elements_of(u, q.sharding)
                                : static_cast<double>(u.elements - u.experts);
    if (u.root) root += elements;
    else blocks.push_back(elements);
    all += elements;
  }
  std::sort(blocks.rbegin(), blocks.rend());
  const double largest = std::max(root, blocks.empty() ? 0 : blocks.front());
  const double parameters = bytes_of(q.precision),
               gradients = q.workload->trainable * bytes_of(q.gradient);
  const ShardingPlan& plan = q.sharding;
  if (plan.sharding == Sharding::none || plan.sharding == Sharding::zero1) return Bytes{0};
  if (plan.sharding == Sharding::zero2) return Bytes{largest * gradients};
  double there = 0;  // of blocks
  for (std::size_t i = 0; i < blocks.size() && i < 1 + static_cast<std::size_t>(plan.prefetch); ++i)
    there += blocks[i];
  if (plan.reshard == Reshard::after_backward) there = all - root;
  const double in_blocks = plan.gathered == Gathered::fp8 ? 1 : parameters;
  const double kept =  // gradients that wait for the last micro-batch are whole
      plan.synchronised == Synchronised::last_micro_batch && q.accumulation > 1 ? all : largest;
  return Bytes{root * parameters + there * in_blocks + kept * gradients};
}

/// Kept elements of what a GPU gathers of divided sequences: the inputs of attention's and of the
/// feed-forward layer's first products, each half an element of kept_bytes(). Megatron keeps its
/// own part and gathers again in backward (arXiv 2205.05198, section 4.2.2); nanotron's and
/// PyTorch's products keep what they took. With that 11 published peaks of nanotron are 0.98 to
/// 1.08 times what is predicted, and 1.06 to 1.5 times without (docs/accuracy-notes.md).
double kept_gathered(const Outputs& o, const MemoryQuestion& q) {
  if (q.workload->framework == Framework::megatron) return 0;
  return q.recompute == Recompute::none ? o.ends : o.ends / std::max(1, o.blocks);
}

/// What a tensor-parallel GPU has of a model's activations.
double tensor_part(const Outputs& o, const MemoryQuestion& q) {
  const double divided = 1.0 / q.sharding.tensor, all = kept_elements(o, q.recompute);
  if (q.sharding.sequence == Sequence::divided)
    return all > 0 ? divided + kept_gathered(o, q) * (1 - divided) / all : divided;
  constexpr double kWhole = 10.0 / 34;  // norms' and dropouts' inputs and masks
  const double inside = kWhole + (1 - kWhole) * divided;
  if (all <= 0) return divided;
  // The root's are those of the vocabulary's layer, which is divided. What is computed again leaves
  // each block's input, which is whole.
  double kept = o.root * divided + (o.all - o.root) * inside;
  if (q.recompute == Recompute::full)
    kept = o.root * divided + o.ends / 2 + o.largest_block * inside;
  else if (q.recompute == Recompute::selective)
    kept = o.root * divided + kept_by_half(o) * divided + o.ends + o.largest_block * inside;
  return kept / all;
}

/// What DDP's buckets add to a peak that has weights, gradients and activations. Gradients that no
/// micro-batch waits with are made as activations go (zero_grad's set_to_none): where the buckets
/// are smaller than those, the end of forward, without gradients, is fuller.
Bytes beside_gradients(const MemoryBy& m, Bytes buckets, int accumulation) {
  return accumulation > 1 ? buckets : std::max(Bytes{0}, buckets - m.activations - m.working);
}

/// What the gradients of a GPU alone add to a peak that has weights, optimizer and activations.
/// They are made as activations go. When they are there, the optimizer works, and needs as much
/// again as one of its states (torch.optim's foreach, the default on CUDA): Mistral 7B in bf16 took
/// 5 times its weights at batches of 4 and of 8 (foundation-model-stack/fms-acceleration).
Bytes after_backward(const MemoryBy& m, bool has_master_weights) {
  const Bytes at_once = m.optimizer / (has_master_weights ? 3 : 2);
  return std::max(Bytes{0}, m.gradients + at_once - m.activations - m.working);
}

/// The memory of a GPU of one stage, whose blocks are alike. `part`: the stage's share of all
/// blocks.
MemoryBy memory_of_alike(const MemoryQuestion& q, const std::vector<ModelUnit>& units, int stage,
                         double part) {
  const ShardingPlan& plan = q.sharding;
  // What is sharded is among all of a sharding group's GPUs, experts too.
  double whole = 0, sharded = 0;
  for (const ModelUnit& u : units) {
    whole += elements_of(u, plan);
    sharded += static_cast<double>(u.elements) / plan.shard_ranks;
  }
  const double wire = bytes_of(q.precision);
  const Sharding how = plan.sharding;
  const double parameters = how == Sharding::zero3 ? sharded : whole,
               gradients = how == Sharding::zero2 || how == Sharding::zero3 ? sharded : whole,
               optimized = how == Sharding::none ? whole : sharded;
  // FSDP has weights and gradients in fp32, which are part of the same state.
  const PerParameter each = per_parameter(q, how == Sharding::zero3 ? 4 : wire);
  MemoryBy m;
  const double trained = q.workload->trainable;
  // What is frozen needs no more digits than products take.
  m.parameters = Bytes{parameters * (trained * each.weight + (1 - trained) * wire)};
  m.gradients = Bytes{gradients * trained * each.gradient};
  m.optimizer = Bytes{optimized * trained * each.optimizer};
  m.gathered = gathered(units, q);
  const Bytes all =
      activations(*q.workload, q.sample, q.precision, q.batch, q.recompute,
                  how == Sharding::none ? MixedPrecision::autocast : MixedPrecision::model);
  m.activations = all;
  m.working = loss_working_space(*q.workload, q.sample, q.batch);
  if (plan.stages > 1) {
    const Outputs o = outputs_of(*q.workload);
    const double kept = std::min(o.all, kept_elements(o, q.recompute)),
                 root = kept > 0 ? o.root / kept : 0;
    // The block that is computed again is there once, on every stage.
    const double again = kept > 0 && kept < o.all ? o.largest_block / kept : 0;
    const double in_flight = std::min<double>(q.accumulation, micro_batches_kept(plan, stage));
    const bool last = stage == plan.stages - 1;
    m.activations = all * ((1 - root - again) * part * in_flight + again + (last ? root : 0));
    if (!last) m.working = Bytes{0};
  }
  if (plan.tensor > 1) {
    for (Bytes* b : {&m.parameters, &m.gradients, &m.optimizer, &m.gathered, &m.working})
      *b = *b / plan.tensor;
    m.activations = m.activations * tensor_part(outputs_of(*q.workload), q);
  }
  if (plan.context > 1) {
    m.working = m.working / plan.context;
    m.activations =
        m.activations / plan.context +
        Bytes{keys_and_values(*q.workload, q.sample, q.batch, plan.tensor) * bytes_of(q.precision)};
  }
  if (q.bucket_copies && how == Sharding::none && q.workload->framework != Framework::megatron)
    m.buckets = Bytes{gradients * trained * bytes_of(q.gradient) / plan.tensor};
  return m;
}

/// What gradients and buckets add to the fullest moment, where activations take their room.
void at_the_fullest(MemoryBy& m, const MemoryQuestion& q) {
  const double wire = bytes_of(q.precision);
  if (q.alone && q.accumulation == 1 && m.activations > Bytes{0} &&
      q.workload->framework != Framework::megatron)
    m.gradients = after_backward(m, per_parameter(q, wire).optimizer > 2 * wire);
  m.buckets = beside_gradients(m, m.buckets, q.accumulation);
}

/// The same where a part of the blocks is computed again.
MemoryBy memory_of_stage(const MemoryQuestion& q, const std::vector<ModelUnit>& units, int stage,
                         double part) {
  MemoryBy m = memory_of_alike(q, units, stage, part);
  if (q.recomputed_blocks < 1 && q.recompute != Recompute::none) {
    MemoryQuestion kept = q;
    kept.recompute = Recompute::none;
    m.activations =
        m.activations * q.recomputed_blocks +
        memory_of_alike(kept, units, stage, part).activations * (1 - q.recomputed_blocks);
  }
  at_the_fullest(m, q);
  return m;
}

}  // namespace

double micro_batches_kept(const ShardingPlan& plan, int stage) {
  const int behind = plan.stages - stage;
  if (plan.parts == 1) return behind;
  return (2.0 * (behind - 1) + (plan.parts - 1) * plan.stages + 1) / plan.parts;
}

MemoryBy memory_of(const MemoryQuestion& q) {
  const auto units =
      units_of(*q.workload, q.sharding.units, static_cast<std::size_t>(bytes_of(q.precision)));
  const auto stages = stages_of(units, q.sharding.stages);
  double blocks = 0;
  for (const ModelUnit& u : units) blocks += u.root ? 0 : u.share;
  MemoryBy most;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    double part = 0;
    for (const ModelUnit& u : stages[s]) part += u.root || blocks <= 0 ? 0 : u.share / blocks;
    const MemoryBy one = memory_of_stage(q, stages[s], static_cast<int>(s), part);
    if (one.peak() > most.peak()) most = one;
  }
  return most;
}

}  // namespace foreduce

// What sees: ViT, DINOv2, and CLIP, which reads besides (modeling_vit.py, modeling_dinov2.py,
// modeling_clip.py of huggingface/transformers).
#include <fmt/format.h>

#include "models/family_parts.hpp"

namespace foreduce {
namespace {

using Bias = TensorList::Bias;
using Norm = TensorList::Norm;

/// What of config.json says an image's size and that of its patches.
struct Patches {
  std::size_t image, count, inputs;  ///< in width; in an image; numbers of a patch
};
Patches patches_of(const ConfigKeys& c, std::size_t image_otherwise, std::size_t patch_otherwise) {
  constexpr std::size_t kWidest = 10'000, kMostChannels = 1000;
  const std::size_t image = c.whole_or("image_size", image_otherwise),
                    patch = c.whole_or("patch_size", patch_otherwise),
                    channels = c.whole_or("num_channels", 3);
  if (image > kWidest) c.fail("image_size", fmt::format("it must be from 1 to {}", kWidest));
  if (channels > kMostChannels)
    c.fail("num_channels", fmt::format("it must be from 1 to {}", kMostChannels));
  if (patch > image)
    c.fail("patch_size", fmt::format("{} is more than image_size, {}", patch, image));
  return {image, (image / patch) * (image / patch), channels * patch * patch};
}

/// The patches of a model that does nothing but see, whose sample an image is.
Patches patches_of_sample(const FamilyInput& in, std::size_t image, std::size_t patch,
                          FamilyModel& m) {
  const Patches p = patches_of(in.keys, image, patch);
  if (in.sequence > 0)
    in.keys.fail("image_size",
                 "an image's patches are its positions, so --sequence does not apply");
  m.sample = fmt::format("{0}x{0} image", p.image);
  return p;
}

FamilyModel vit(const FamilyInput& in) {
  FamilyModel m;
  const ConfigKeys& c = in.keys;
  const std::size_t hidden = c.whole("hidden_size"), layers = c.whole("num_hidden_layers"),
                    inner = c.whole("intermediate_size");
  const Patches p = patches_of_sample(in, 224, 16, m);
  const std::size_t positions = p.count + 1;
  const auto each = static_cast<double>(positions);
  const std::string model = in.head == Head::none ? "" : "vit.";
  m.tensors.add(model + "embeddings.cls_token", hidden);
  m.tensors.add(model + "embeddings.position_embeddings", positions * hidden);
  m.tensors.linear(model + "embeddings.patch_embeddings.projection", p.inputs, hidden,
                   static_cast<double>(p.count), Bias::with);
  for (std::size_t layer = 0; layer < layers; ++layer)
    encoder_block(fmt::format("{}encoder.layer.{}.", model, layer),
                  {"attention.attention.", "attention.output.dense", nullptr}, hidden, inner, each,
                  bias_by(c, "qkv_bias", Bias::with), m.tensors);
  m.tensors.norm(model + "layernorm", hidden, Norm::layer);
  if (in.head == Head::none) m.tensors.linear("pooler.dense", hidden, hidden, 1, Bias::with);
  if (in.head == Head::classes) m.tensors.linear("classifier", hidden, c.labels(), 1, Bias::with);
  m.score_macs = score_macs(layers, positions, positions, hidden);
  return m;
}

/// Its feed-forward part, which in the largest has a gate.
void dinov2_mlp(const ConfigKeys& c, const std::string& of, std::size_t hidden, double positions,
                TensorList& t) {
  const std::size_t inner = c.whole_or("mlp_ratio", 4) * hidden;
  if (!c.flag("use_swiglu_ffn").value_or(false)) {
    t.linear(of + "mlp.fc1", hidden, inner, positions, Bias::with);
    t.linear(of + "mlp.fc2", inner, hidden, positions, Bias::with);
    return;
  }
  const std::size_t gated = (inner * 2 / 3 + 7) / 8 * 8;
  t.linear(of + "mlp.weights_in", hidden, 2 * gated, positions, Bias::with);
  t.linear(of + "mlp.weights_out", gated, hidden, positions, Bias::with);
}

FamilyModel dinov2(const FamilyInput& in) {
  FamilyModel m;
  const ConfigKeys& c = in.keys;
  const std::size_t hidden = c.whole("hidden_size"), layers = c.whole("num_hidden_layers");
  const Patches p = patches_of_sample(in, 224, 14, m);
  const std::size_t positions = p.count + 1;
  const auto each = static_cast<double>(positions);
  const std::string model = in.head == Head::none ? "" : "dinov2.";
  m.tensors.add(model + "embeddings.cls_token", hidden);
  if (c.flag("use_mask_token").value_or(true))
    m.tensors.add(model + "embeddings.mask_token", hidden);
  m.tensors.add(model + "embeddings.position_embeddings", positions * hidden);
  m.tensors.linear(model + "embeddings.patch_embeddings.projection", p.inputs, hidden,
                   static_cast<double>(p.count), Bias::with);
  const Bias bias = bias_by(c, "qkv_bias", Bias::with);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string of = fmt::format("{}encoder.layer.{}.", model, layer);
    m.tensors.norm(of + "norm1", hidden, Norm::layer);
    for (const char* matrix : {"query", "key", "value"})
      m.tensors.linear(of + "attention.attention." + matrix, hidden, hidden, each, bias);
    m.tensors.linear(of + "attention.output.dense", hidden, hidden, each, Bias::with);
    m.tensors.add(of + "layer_scale1.lambda1", hidden);
    m.tensors.norm(of + "norm2", hidden, Norm::layer);
    dinov2_mlp(c, of, hidden, each, m.tensors);
    m.tensors.add(of + "layer_scale2.lambda1", hidden);
  }
  m.tensors.norm(model + "layernorm", hidden, Norm::layer);
  if (in.head == Head::classes)  // of the first position beside the mean of the others
    m.tensors.linear("classifier", 2 * hidden, c.labels(), 1, Bias::with);
  m.score_macs = score_macs(layers, positions, positions, hidden);
  return m;
}

/// The layers of one of CLIP's two encoders; returns the multiply-adds of attention's scores.
double clip_layers(const ConfigKeys& c, const std::string& of, std::size_t positions,
                   TensorList& t) {
  const std::size_t hidden = c.whole("hidden_size"), inner = c.whole("intermediate_size"),
                    layers = c.whole("num_hidden_layers");
  const auto each = static_cast<double>(positions);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string block = fmt::format("{}.encoder.layers.{}.", of, layer);
    for (const char* matrix : {"k_proj", "v_proj", "q_proj", "out_proj"})
      t.linear(block + "self_attn." + matrix, hidden, hidden, each, Bias::with);
    t.norm(block + "layer_norm1", hidden, Norm::layer);
    t.linear(block + "mlp.fc1", hidden, inner, each, Bias::with);
    t.linear(block + "mlp.fc2", inner, hidden, each, Bias::with);
    t.norm(block + "layer_norm2", hidden, Norm::layer);
  }
  return score_macs(layers, positions, positions, hidden);
}

FamilyModel clip(const FamilyInput& in) {
  FamilyModel m;
  // What CLIPTextConfig and CLIPVisionConfig have for what a file leaves out.
  const ConfigKeys text = in.keys.part("text_config")
                              .with({{"vocab_size", 49408},
                                     {"hidden_size", 512},
                                     {"intermediate_size", 2048},
                                     {"num_hidden_layers", 12}}),
                   image = in.keys.part("vision_config")
                               .with({{"hidden_size", 768},
                                      {"intermediate_size", 3072},
                                      {"num_hidden_layers", 12}});
  text.limit_layers();
  image.limit_layers();
  const std::size_t context = text.context_or("max_position_embeddings", 77),
                    tokens = in.sequence > 0 ? in.sequence : context,
                    read = text.whole("hidden_size"), seen = image.whole("hidden_size"),
                    common = in.keys.whole_or("projection_dim", 512);
  if (tokens > context)
    text.fail(
        "max_position_embeddings",
        fmt::format("the model has {} positions, and --sequence asks for {}", context, tokens));
  const Patches p = patches_of(image, 224, 32);
  m.sample = fmt::format("{0}x{0} image and {1} tokens", p.image, tokens);
  TensorList& t = m.tensors;
  t.add("logit_scale", 1);
  t.add("text_model.embeddings.token_embedding.weight", text.whole("vocab_size") * read);
  t.add("text_model.embeddings.position_embedding.weight", context * read);
  m.score_macs = clip_layers(text, "text_model", tokens, t);
  t.norm("text_model.final_layer_norm", read, Norm::layer);
  t.add("vision_model.embeddings.class_embedding", seen);
  t.linear("vision_model.embeddings.patch_embedding", p.inputs, seen, static_cast<double>(p.count),
           Bias::without);
  t.add("vision_model.embeddings.position_embedding.weight", (p.count + 1) * seen);
  t.norm("vision_model.pre_layrnorm", seen, Norm::layer);
  m.score_macs += clip_layers(image, "vision_model", p.count + 1, t);
  t.norm("vision_model.post_layernorm", seen, Norm::layer);
  t.linear("visual_projection", seen, common, 1, Bias::without);
  t.linear("text_projection", read, common, 1, Bias::without);
  m.notes.emplace_back(
      "The loss compares the images of a batch with its texts. Where it is of all GPUs' samples, "
      "what they exchange for it is left out.");
  return m;
}

}  // namespace

const std::vector<ModelFamily>& vision_families() {
  static const std::vector<ModelFamily> all = {
      {"vit", "ViT", {Head::classes, Head::none}, vit, "vit-b16"},
      {"dinov2", "Dinov2", {Head::none, Head::classes}, dinov2, "vit-b16"},
      {"clip", "CLIP", {Head::none}, clip, "vit-b16"},
  };
  return all;
}

}  // namespace foreduce

// What sees: ViT (modeling_vit.py of huggingface/transformers).
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

}  // namespace

const std::vector<ModelFamily>& vision_families() {
  static const std::vector<ModelFamily> all = {
      {"vit", "ViT", {Head::classes, Head::none}, vit, "vit-b16"},
  };
  return all;
}

}  // namespace foreduce

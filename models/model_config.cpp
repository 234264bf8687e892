#include "models/model_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "input/holds.hpp"
#include "input/json.hpp"
#include "models/model_families.hpp"
#include "models/tensors.hpp"

namespace foreduce {

void ConfigKeys::fail(const char* key, std::string message, std::string hint) const {
  throw InputError(Problem{file_, 0, 0, within_ + key, std::move(message), std::move(hint), ""});
}

std::size_t ConfigKeys::whole_to(const char* key, std::size_t most) const {
  if (!is_set(key))
    fail(key, "this key is missing",
         within_ == "text_config." ? "it leaves out what its class has; the config.json of the "
                                     "language model itself has all keys"
                                   : "");
  const nlohmann::json& value = keys_.at(key);
  if (!value.is_number_integer()) fail(key, "a whole number is expected");
  const auto number = value.is_number_unsigned() ? value.get<std::uint64_t>()
                      : value.get<std::int64_t>() < 0
                          ? 0
                          : static_cast<std::uint64_t>(value.get<std::int64_t>());
  if (number < 1 || number > most) fail(key, fmt::format("it must be from 1 to {}", most));
  return static_cast<std::size_t>(number);
}

std::size_t ConfigKeys::whole(const char* key) const {
  constexpr std::size_t kMost = 1'000'000;
  return whole_to(key, kMost);
}

std::size_t ConfigKeys::whole_or(const char* key, std::size_t otherwise) const {
  return is_set(key) ? whole(key) : otherwise;
}

std::size_t ConfigKeys::whole_of(std::initializer_list<const char*> keys) const {
  for (const char* key : keys)
    if (is_set(key)) return whole(key);
  return whole(*(keys.end() - 1));
}

std::size_t ConfigKeys::context_or(const char* key, std::size_t otherwise) const {
  constexpr std::size_t kMost = 100'000'000;
  return is_set(key) ? whole_to(key, kMost) : otherwise;
}

std::size_t ConfigKeys::count_or(const char* key, std::size_t otherwise) const {
  const bool zero = is_set(key) && keys_.at(key).is_number_integer() && keys_.at(key) == 0;
  return zero ? 0 : whole_or(key, otherwise);
}

std::size_t ConfigKeys::above_0_or(const char* key, std::size_t otherwise) const {
  const bool none = is_set(key) && keys_.at(key).is_number_integer() &&
                    (keys_.at(key) == 0 || keys_.at(key) == -1);
  return none ? otherwise : whole_or(key, otherwise);
}

std::vector<std::size_t> ConfigKeys::numbers(const char* key) const {
  std::vector<std::size_t> all;
  if (!is_set(key)) return all;
  if (!keys_.at(key).is_array()) fail(key, "a list of whole numbers is expected");
  for (const nlohmann::json& one : keys_.at(key)) {
    if (!one.is_number_unsigned()) fail(key, "a list of whole numbers is expected");
    all.push_back(one.get<std::size_t>());
  }
  return all;
}

std::vector<std::string> ConfigKeys::words(const char* key) const {
  std::vector<std::string> all;
  if (!is_set(key)) return all;
  if (!keys_.at(key).is_array()) fail(key, "a list of words is expected");
  for (const nlohmann::json& one : keys_.at(key)) {
    if (!one.is_string()) fail(key, "a list of words is expected");
    all.push_back(one.get<std::string>());
  }
  return all;
}

std::optional<bool> ConfigKeys::flag(const char* key) const {
  if (!is_set(key)) return std::nullopt;
  if (!keys_.at(key).is_boolean()) fail(key, "true or false is expected");
  return keys_.at(key).get<bool>();
}

std::string ConfigKeys::word(const char* key, const std::string& otherwise) const {
  if (!is_set(key)) return otherwise;
  if (!keys_.at(key).is_string()) fail(key, "a word is expected");
  return keys_.at(key).get<std::string>();
}

ConfigKeys ConfigKeys::part(const char* key) const {
  ConfigKeys inner(file_, is_set(key) ? keys_.at(key) : nlohmann::json::object());
  if (!inner.keys_.is_object()) fail(key, "an object, with keys, is expected");
  inner.within_ = within_ + key + ".";
  return inner;
}

ConfigKeys ConfigKeys::with(nlohmann::json defaults) const {
  for (const auto& [key, value] : keys_.items())
    if (!value.is_null()) defaults[key] = value;
  ConfigKeys all(file_, std::move(defaults));
  all.within_ = within_;
  return all;
}

bool ConfigKeys::mentions(const char* key, const std::string& word) const {
  if (is_set(key) && keys_.at(key).is_string())
    return keys_.at(key).get<std::string>().find(word) != std::string::npos;
  return holds(words(key), word);
}

void ConfigKeys::limit_layers() const {
  constexpr std::size_t kMostLayers = 1000;
  for (const char* key : {"num_hidden_layers", "n_layer", "n_layers", "num_layers",
                          "num_decoder_layers", "encoder_layers", "decoder_layers"})
    if (whole_or(key, 1) > kMostLayers)
      fail(key, fmt::format("at most {} layers are accepted", kMostLayers));
}

std::size_t ConfigKeys::labels() const {
  if (is_set("id2label") && keys_.at("id2label").is_object() && !keys_.at("id2label").empty())
    return keys_.at("id2label").size();
  return whole_or("num_labels", 2);
}

std::string ConfigKeys::architecture() const {
  if (!is_set("architectures")) return "";
  const nlohmann::json& all = keys_.at("architectures");
  if (!all.is_array() || all.empty() || !all.at(0).is_string())
    fail("architectures", "a list of a class's name is expected");
  return all.at(0).get<std::string>();
}

namespace {

const char* head_name(Head head, const ModelFamily& family) {
  const std::string type = family.type;
  if (head == Head::language && type == "gpt2") return "LMHeadModel";
  if (head == Head::language && (type == "t5" || type == "whisper"))
    return "ForConditionalGeneration";
  if (head == Head::classes && (type == "vit" || type == "dinov2")) return "ForImageClassification";
  for (const auto& [name, meant] : head_names())
    if (meant == head) return name.c_str();
  return "";
}

/// The heads that a family's classes have, as their names: "LlamaForCausalLM".
std::vector<std::string> classes_of(const ModelFamily& family) {
  std::vector<std::string> names;
  for (const Head head : family.heads)
    names.push_back(std::string(family.class_prefix) + head_name(head, family));
  return names;
}

std::string without_digits(std::string name) {
  std::erase_if(name, [](unsigned char c) { return std::isdigit(c); });
  return name;
}

/// Whether one who writes `named` may mean `known`: one of which another letter differs is another
/// model where it is short ("bart" of "bert"), and where two do ("deberta" of "roberta").
bool may_mean(const std::string& named, const std::string& known) {
  constexpr std::size_t kShort = 5;
  if (named.size() != known.size()) return true;
  std::string letters[2];
  for (std::size_t i = 0; i < named.size(); ++i) {
    const auto of = [](char c) { return static_cast<unsigned char>(c); };
    const int a = std::tolower(of(named[i])), b = std::tolower(of(known[i]));
    if (a == b || std::isdigit(a) || std::isdigit(b)) continue;
    letters[0] += static_cast<char>(a);
    letters[1] += static_cast<char>(b);
  }
  if (letters[0].size() == 1 && named.size() > kShort) return true;
  return std::is_permutation(letters[0].begin(), letters[0].end(), letters[1].begin(),
                             letters[1].end());
}

/// The nearest of the names that may be meant; empty if none is near.
std::string meant(const std::string& named, std::vector<std::string> known) {
  if (holds(known, named + "_text")) return named + "_text";  // beside what sees pictures
  // One of another number is another release: "olmo3" is no slip of "olmo2".
  const auto is_release = [name = without_digits(named)](const std::string& k) {
    return without_digits(k) == name;
  };
  if (std::any_of(known.begin(), known.end(), is_release)) return "";
  known.erase(std::remove_if(known.begin(), known.end(),
                             [&](const std::string& k) { return !may_mean(named, k); }),
              known.end());
  return nearest(named, known);
}

/// The class that is nearest by what stands before its head; empty if none is.
std::string class_meant(const std::string& named) {
  std::string family_named = named, head;
  for (const auto& [end, of_head] : head_names())
    if (named.size() > end.size() && named.ends_with(end) && head.empty()) {
      family_named.resize(named.size() - end.size());
      head = end;
    }
  std::vector<std::string> prefixes;
  for (const ModelFamily& family : model_families()) prefixes.emplace_back(family.class_prefix);
  const std::string near = meant(family_named, prefixes);
  for (const ModelFamily& family : model_families()) {
    if (near != family.class_prefix) continue;
    const auto classes = classes_of(family);
    return holds(classes, near + head) ? near + head : classes.front();
  }
  return "";
}

/// Refuses what is no family, with the nearest one and what can be done.
[[noreturn]] void fail_unknown(const ConfigKeys& keys, const std::string& type,
                               const std::string& architecture) {
  const std::string named = type.empty() ? architecture : type;
  const char* key = type.empty() ? "architectures" : "model_type";
  const std::string unknown =
      fmt::format("'{}' is an architecture that foreduce does not know", named);
  const std::string otherwise =
      "write the tensors into a CSV file, or give --parameters, --layers and --hidden";
  for (const auto& [refused, reason] : refused_families())
    if (type == refused) keys.fail(key, unknown + ": " + reason, otherwise);
  const std::string near = type.empty() ? class_meant(named) : meant(named, known_architectures());
  keys.fail(key, unknown,
            fmt::format("{}accepted{}: {}\n  of others: {}",
                        near.empty() ? "" : fmt::format("did you mean '{}'?\n  ", near),
                        type.empty() ? " in model_type" : "",
                        fmt::join(known_architectures(), ", "), otherwise));
}

const ModelFamily& family_of(const ConfigKeys& keys) {
  const std::string type = keys.word("model_type", ""), architecture = keys.architecture();
  for (const ModelFamily& family : model_families())
    if (type.empty() ? holds(classes_of(family), architecture) : type == family.type) return family;
  if (type.empty() && architecture.empty())
    keys.fail("model_type", "this key is missing: what kind of model is it?",
              suggest("", known_architectures()));
  fail_unknown(keys, type, architecture);
}

Head head_of(const ConfigKeys& keys, const ModelFamily& family) {
  const std::string architecture = keys.architecture();
  if (architecture.empty()) return family.heads.front();
  for (const auto& [name, head] : head_names())
    if (architecture.ends_with(name) &&
        std::find(family.heads.begin(), family.heads.end(), head) != family.heads.end())
      return head;
  keys.fail("architectures",
            fmt::format("'{}' is a class that foreduce does not know", architecture),
            suggest(architecture, classes_of(family)));
}

/// The last part of a path or of a repository's name.
std::string last_part(std::string name) {
  while (!name.empty() && name.back() == '/') name.pop_back();
  return name.substr(name.rfind('/') + 1);
}

std::string name_for(const ConfigKeys& keys, const std::filesystem::path& file,
                     const DescriptionChoices& choices) {
  if (!choices.name.empty()) return choices.name;
  if (const std::string own = last_part(keys.word("_name_or_path", "")); !own.empty()) return own;
  const std::string stem = file.stem().string();
  if (stem != "config") return stem;
  std::error_code none;
  const std::string folder =
      std::filesystem::absolute(file, none).parent_path().filename().string();
  return folder.empty() ? keys.word("model_type", "model") : folder;
}

constexpr double kMostParameters = 1e15;

}  // namespace

std::vector<std::string> known_architectures() {
  std::vector<std::string> names;
  for (const ModelFamily& family : model_families()) names.emplace_back(family.type);
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

/// A known family that a language model is, by what its part of a config.json is called: of
/// Qwen's models that see, the position alone is told otherwise, which is no parameter.
std::string language_family(const std::string& type) {
  static const std::vector<std::pair<std::string, std::string>> same = {
      {"qwen2_vl", "qwen2"},        {"qwen2_vl_text", "qwen2"}, {"qwen2_5_vl", "qwen2"},
      {"qwen2_5_vl_text", "qwen2"}, {"qwen3_vl_text", "qwen3"}, {"qwen3_vl_moe_text", "qwen3_moe"}};
  for (const auto& [named, family] : same)
    if (type == named) return family;
  return holds(known_architectures(), type) ? type : "";
}

/// What a config.json calls its model, or a part of it; empty if it does not say.
std::string type_in(const nlohmann::json& keys) {
  const bool said = keys.contains("model_type") && keys.at("model_type").is_string();
  return said ? keys.at("model_type").get<std::string>() : "";
}

/// Where a config.json that is of several models has the known language model among them.
enum class LanguagePart : std::uint8_t {
  none,         ///< it is of one model
  text_config,  ///< in a part of its own
  beside        ///< among the keys of the whole, as Qwen2-VL has it
};
LanguagePart language_part_of(const nlohmann::json& whole) {
  if (whole.contains("text_config") && whole.at("text_config").is_object() &&
      !language_family(type_in(whole.at("text_config"))).empty())
    return LanguagePart::text_config;
  const std::string type = type_in(whole), family = language_family(type);
  return !family.empty() && family != type ? LanguagePart::beside : LanguagePart::none;
}

/// The language model's keys of a config.json that has others beside it, with that model's class.
nlohmann::json language_keys(const nlohmann::json& whole, LanguagePart where) {
  if (where == LanguagePart::none) return whole;
  nlohmann::json part = where == LanguagePart::text_config ? whole.at("text_config") : whole;
  for (const char* key : {"_name_or_path", "architectures", "tie_word_embeddings"})
    if (whole.contains(key) && !part.contains(key)) part[key] = whole.at(key);
  part["model_type"] = language_family(type_in(part));
  return part;
}

/// Refuses the config.json of diffusers, whose models make pictures and films.
void refuse_diffusers(const std::filesystem::path& config, const nlohmann::json& keys) {
  if (!keys.contains("_class_name") || !keys.contains("_diffusers_version")) return;
  const std::string name =
      keys.at("_class_name").is_string() ? keys.at("_class_name").get<std::string>() : "a model";
  throw InputError(
      Problem{config.string(), 0, 0, "_class_name",
              fmt::format("this is a file of diffusers, of {}; foreduce knows the models of "
                          "transformers, whose config.json has a model_type",
                          name),
              "write the tensors and their forward MACs into a CSV file, or time a step and take "
              "foreduce workload from-trace",
              ""});
}

}  // namespace

DescribedModel workload_from_config(const std::filesystem::path& config,
                                    const DescriptionChoices& choices) {
  auto json = load_json<nlohmann::json>(config);
  if (!json.is_object()) throw file_error(config, "a config.json is an object, with keys");
  refuse_diffusers(config, json);
  const LanguagePart part = language_part_of(json);
  const ConfigKeys keys(config.string(), language_keys(json, part),
                        part == LanguagePart::text_config ? "text_config." : "");
  const ModelFamily& family = family_of(keys);
  const FamilyInput input{keys, head_of(keys, family), static_cast<std::size_t>(choices.sequence)};
  keys.limit_layers();
  FamilyModel made = family.make(input);
  DescribedModel model;
  model.architecture = keys.architecture();
  if (model.architecture.empty()) {
    model.architecture = classes_of(family).front();
    made.notes.push_back(
        fmt::format("config.json names no class; {} is assumed.", model.architecture));
  }
  model.notes = std::move(made.notes);
  if (part != LanguagePart::none)
    model.notes.push_back(
        fmt::format("{}: what sees or hears beside the language model is left out.",
                    part == LanguagePart::text_config ? "Only text_config is read"
                                                      : "Only the language model is read"));
  if (keys.is_set("quantization_config"))
    model.notes.emplace_back(
        "quantization_config says how a checkpoint is stored. A workload has no such weights: "
        "memory and traffic are of the scenario's precision, so those of QLoRA are not predicted.");
  Workload& w = model.workload;
  w.tensors = made.tensors.take();
  w.name = name_for(keys, config, choices);
  const Workload reference = Workloads().load(family.estimate_from);
  w.estimate = reference.estimate;
  if (std::string_view(family.estimate_from) == "llama2-7b")
    w.estimate = decoder_estimate(static_cast<double>(usual_width(w.tensors)));
  else if (reference.estimate.within)  // it was published of decoders
    w.estimate = at_width(reference.estimate, static_cast<double>(usual_width(reference.tensors)),
                          static_cast<double>(usual_width(w.tensors)));
  w.title = w.name + " training";
  w.experts = made.experts;
  if (w.experts) {
    w.estimate.within.reset();  // which was published of dense models
    model.notes.emplace_back(
        "A mixture of experts: its products are smaller than a dense model's, whose shares of the "
        "peak are assumed here, so the interval is wide. expert_parallel in a scenario divides the "
        "experts among GPUs.");
  }
  double macs = made.score_macs, elements = 0;
  for (const Tensor& t : w.tensors) {
    macs += t.macs;
    elements += static_cast<double>(t.elements);
  }
  if (elements > kMostParameters)
    throw file_error(config,
                     fmt::format("{:.3g} parameters are more than any model has", elements));
  w.parameters = Count{static_cast<double>(w.elements())};
  w.variants.push_back({made.sample, kFlopPerMac * macs / 1e9});
  w.attention_scores = made.kept_scores;
  return model;
}

DescribedModel workload_from_size(const ModelSize& size, const DescriptionChoices& choices) {
  constexpr int kUsualSequence = 4096;
  DescribedModel model;
  TransformerShape shape;
  shape.layers = size.layers;
  shape.hidden = size.hidden;
  shape.vocabulary = size.vocabulary;
  shape.sequence = choices.sequence > 0 ? choices.sequence : kUsualSequence;
  shape.gated = true;
  shape.bias = shape.tied = false;
  shape.norm = "rms";
  shape.positions = "rotary";
  // What stands beside the feed-forward layers: two embeddings, four square matrices and two norms
  // a block, and a last norm.
  const double hidden = size.hidden, layers = size.layers;
  const double rest = 2 * hidden * size.vocabulary + layers * (4 * hidden * hidden + 2 * hidden) +
                      hidden,
               inner = (size.parameters.value - rest) / (3 * hidden * layers);
  const auto parameters_with = [&](double width) { return rest + 3 * hidden * layers * width; };
  const double least = hidden / 2, most = 32 * hidden;
  if (inner < least || inner > most)
    throw input_error(
        fmt::format("{} parameters do not fit {} layers of width {} and a vocabulary of {}",
                    to_text(size.parameters), size.layers, size.hidden, size.vocabulary),
        fmt::format("with feed-forward layers of {:.0f} to {:.0f} there are {} to {}", least, most,
                    to_text(Count{parameters_with(least)}), to_text(Count{parameters_with(most)})));
  shape.feed_forward = static_cast<int>(std::lround(inner));
  Workload& w = model.workload;
  w.transformer = shape;
  w.estimate = decoder_estimate(size.hidden);
  w.tensors = transformer_tensors(shape);
  w.parameters = Count{static_cast<double>(w.elements())};
  w.variants.push_back(
      {fmt::format("{} tokens", shape.sequence), transformer_gflop(shape, w.tensors)});
  w.name = choices.name.empty() ? fmt::format("{}x{}", size.layers, size.hidden) : choices.name;
  w.title = w.name + " training";
  model.architecture = "a decoder as Llama's";
  model.notes = {
      fmt::format("{} parameters, {} layers and a width of {} were given.",
                  to_text(size.parameters), size.layers, size.hidden),
      "Assumed: all else as in Llama (gated feed-forward layers, no biases, RMS norms, rotary "
      "positions, an output layer of its own).",
      fmt::format("The feed-forward width, {}, is what gives the parameters.", shape.feed_forward)};
  return model;
}

}  // namespace foreduce

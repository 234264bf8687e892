#include "scenarios/sweep/elsewhere.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "input/fields.hpp"
#include "models/nccl_names.hpp"
#include "scenarios/sweep/scenario.hpp"

namespace foreduce {
namespace {

using Json = nlohmann::ordered_json;

/// Adds the paths of all keys of that name at or below a part of the schema.
void collect(const Json& schema, const std::string& path, const std::string& key,
             std::vector<std::string>& found) {
  if (schema.is_array())
    for (const Json& one : schema) collect(one, path, key, found);
  if (!schema.is_object()) return;
  for (const auto& [word, below] : schema.items())
    if (word != "properties") {
      collect(below, path, key, found);
    } else {
      for (const auto& [name, field] : below.items()) {
        const std::string here = path.empty() ? name : path + "." + name;
        if (name == key && std::find(found.begin(), found.end(), here) == found.end())
          found.push_back(here);
        collect(field, field.value("type", "") == "array" ? here + "[]" : here, key, found);
      }
    }
}

}  // namespace

void refuse_other_kinds(YamlFile& file) {
  struct Kind {
    const char *key, *what, *named;
  };
  if (const YamlNode* clusters = file.root().find("cluster");
      clusters && clusters->kind == YamlNode::Kind::list) {
    file.problem(
        clusters->mark, "cluster", "expected a map, found a list",
        "several clusters: cluster: { choices: [{ instance: p4d.24xlarge, nodes: 8 }, …] }");
    file.throw_if_problems();
  }
  if (const YamlNode* cluster = file.root().find("cluster"))
    if (const YamlNode* prices = cluster->find("prices");
        prices && prices->kind == YamlNode::Kind::map) {
      file.problem(prices->mark, "cluster.prices", "expected a list, found a map",
                   "an entry an instance: prices: [{ instance: p5.48xlarge, price: 30 USD/h }]");
      file.throw_if_problems();
    }
  for (const char* of_scenario : {"workload", "messages", "cluster"})
    if (const YamlNode* part = file.root().find(of_scenario);
        part && part->kind != YamlNode::Kind::scalar)  // a workload's file has its name there
      return;
  if (file.root().find("model_type") || file.root().find("architectures"))
    throw InputError(Problem{
        file.name(), file.root().mark.line, file.root().mark.column, "",
        "this is a model's config.json, not a scenario",
        fmt::format("make a workload of it, which a scenario names: foreduce workload from-config "
                    "{} -o mine.yaml; then workload: {{ model: ./mine.yaml, ... }}",
                    file.name()),
        ""});
  for (const Kind& kind : {Kind{"tensors", "workload file", "workload: {{ model: ./{}, ... }}"},
                           {"transformer", "workload file", "workload: {{ model: ./{}, ... }}"},
                           {"variants", "workload file", "workload: {{ model: ./{}, ... }}"},
                           {"profile", "profile", "allreduce: {{ profile: ./{} }}"},
                           {"gpu", "machine file", "cluster: {{ instance: ./{}, ... }}"},
                           {"nic", "machine file", "cluster: {{ instance: ./{}, ... }}"}})
    if (file.root().find(kind.key))
      throw InputError(
          Problem{file.name(), file.root().mark.line, file.root().mark.column, kind.key,
                  fmt::format("this is a {}, not a scenario", kind.what),
                  "name it in a scenario: " +
                      fmt::format(fmt::runtime(kind.named),
                                  std::filesystem::path(file.name()).filename().string()),
                  ""});
}

namespace {

/// Where a key belongs that no scenario has; empty of one that nothing has.
std::string place_in_another_file(const std::string& key) {
  const auto among = [&](std::initializer_list<const char*> keys) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  if (among({"parameters", "flops", "blocks", "layers", "hidden", "heads", "kv_heads", "vocabulary",
             "sequence", "feed_forward", "experts", "transformer", "tensors"}))
    return "a model of your own is a file, which the scenario names (workload: { model: "
           "./mine.yaml }): `foreduce help workload`";
  if (among({"gpu", "nic", "nvlink", "pcie", "host", "like"}))
    return "a machine of your own is a file, which the scenario names (cluster: { instance: "
           "./mine.yaml }): `foreduce help topology`";
  return "";
}

}  // namespace

InputError with_places_of_keys(const InputError& error) {
  static const Json schema = scenario_schema();  // a file may have thousands of unknown keys
  std::vector<Problem> problems = error.problems();
  for (Problem& p : problems) {
    if (p.message != kNoSuchKey) continue;
    std::vector<std::string> found;
    const std::string name = p.key.substr(p.key.find_last_of('.') + 1);
    collect(schema, "", name, found);
    if (found.empty()) {
      if (const std::string place = place_in_another_file(name);
          !place.empty() && !p.hint.starts_with("did you mean"))
        p.hint = place + (p.hint.empty() ? "" : "\n  " + p.hint);
      continue;
    }
    const std::string places = fmt::format("{}", fmt::join(found, " or "));
    // A key of this place comes first: "did you mean 'batch_per_gpu'?".
    if (const auto end = p.hint.find('?');
        p.hint.starts_with("did you mean") && end < p.hint.size())
      p.hint.insert(end, ", or " + places);
    else p.hint = fmt::format("did you mean {}?{}{}", places, p.hint.empty() ? "" : "\n  ", p.hint);
  }
  return InputError(std::move(problems));
}

InputError with_assignments(const InputError& error, const std::vector<std::string>& set) {
  std::vector<Problem> problems = error.problems();
  for (Problem& p : problems)
    for (const std::string& assignment : set) {
      const std::string key = assignment.substr(0, assignment.find_first_of("=["));
      const bool at_or_below = p.key == key || p.key.starts_with(key + ".");
      if (p.line == 0 && at_or_below) p.file = "--set " + assignment;
    }
  return InputError(std::move(problems));
}

std::vector<std::pair<std::string, std::string>> forced_in_names() {
  std::vector<std::pair<std::string, std::string>> others;
  for (const NcclAlgorithmNames& names : kNcclAlgorithms)
    for (const std::string between : {":", "-", " ", "_"}) {
      std::string pattern = "nccl" + between + names.variable;
      std::transform(pattern.begin(), pattern.end(), pattern.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      const std::string said = fmt::format(
          "NCCL's own are forced beside it: algorithm: nccl, nccl: {{ algo: {} }}", names.variable);
      // nccl:nvlstree* before nccl:nvls*
      others.insert(others.begin(), {pattern + "*", said});
    }
  return others;
}

}  // namespace foreduce

// The machines that ship, by their names: instance types of EC2, and others that were published.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "input/fields.hpp"
#include "input/files.hpp"
#include "input/yaml.hpp"
#include "topologies/machine.hpp"
#include "topologies/other_names.hpp"

namespace foreduce {

namespace {

std::filesystem::path folder_elsewhere() { return data_folder() / "topologies" / "elsewhere"; }

/// The names of a folder's machine files, sorted.
std::vector<std::string> names_in(const std::filesystem::path& folder, std::error_code& error) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".yaml" && entry.path().stem() != "sources")
      names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::vector<std::string> machines_elsewhere() {
  std::error_code none;
  return names_in(folder_elsewhere(), none);
}

std::vector<std::string> machine_names() {
  std::vector<std::string> names = Catalogue().names();
  for (std::string& name : machines_elsewhere()) names.push_back(std::move(name));
  return names;
}

Machine machine_named(const std::string& name, const std::filesystem::path& folder) {
  if (names_file(name)) return load_machine(folder / name);
  const auto has = [&](const std::vector<std::string>& names) {
    return std::binary_search(names.begin(), names.end(), name);
  };
  const Catalogue catalogue;
  if (has(catalogue.names())) return catalogue.load(name);
  if (has(machines_elsewhere())) return load_machine(folder_elsewhere() / (name + ".yaml"));
  const std::string* said = said_of(name, other_names());
  throw input_error(fmt::format("unknown instance '{}'", name),
                    said ? *said : suggest(name, machine_names()));
}

Catalogue::Catalogue(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  names_ = names_in(folder_, error);
  if (error || names_.empty())
    throw input_error(fmt::format("{}: no catalogue of instance types there", folder_.string()));
}

Machine Catalogue::load(const std::string& name) const {
  if (!std::binary_search(names_.begin(), names_.end(), name))
    throw input_error(fmt::format("unknown instance '{}'", name), suggest(name, names_));
  return load_machine(folder_ / (name + ".yaml"), Citing::required);
}

std::vector<Catalogue::Source> Catalogue::sources() const {
  const YamlFile file = YamlFile::load(folder_ / "sources.yaml");
  const YamlNode* uncertain = file.root().find("uncertain");
  std::vector<Source> all;
  for (const auto& entry : file.root().entries) {
    if (&entry.value == uncertain) continue;
    Source& source = all.emplace_back(Source{entry.key, entry.value.text, false});
    for (std::size_t i = 0; uncertain && i < uncertain->items.size(); ++i)
      source.uncertain = source.uncertain || uncertain->items[i].text == entry.key;
  }
  return all;
}

bool same_links(const Machine& a, const Machine& b) {
  const auto nvlink = [](const Machine& m) {
    const NvLink none, &own = m.nvlink ? *m.nvlink : none;
    return std::tuple(own.kind, own.links, own.bandwidth, own.multicast, own.edges);
  };
  const auto rest = [](const Machine& m) {
    return std::tuple(m.gpus(), m.gpu ? family_of(*m.gpu) : std::string(), m.nic.count,
                      m.nic.bandwidth, m.nic.efa, m.fabric(), m.nic.gpudirect,
                      m.pcie ? m.pcie->bandwidth : BytesPerSecond{0});
  };
  return nvlink(a) == nvlink(b) && rest(a) == rest(b);
}

}  // namespace foreduce

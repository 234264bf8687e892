#include "topologies/pci_ids.hpp"

#include <algorithm>
#include <cctype>
#include <vector>

#include "input/csv.hpp"
#include "input/files.hpp"

namespace foreduce {
namespace {

const Csv& all_ids() {
  static const Csv ids = Csv::load(data_folder() / "topologies" / "pci_ids.csv");
  return ids;
}

/// The words of "A100-SXM4-40GB" or "GA100 [A100 SXM4 40GB]", in small letters.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : with_family_joined(text))
    if (const auto letter = static_cast<unsigned char>(c); std::isalnum(letter))
      words.back() += static_cast<char>(std::tolower(letter));
    else if (!words.back().empty()) words.emplace_back();
  if (words.back().empty()) words.pop_back();
  return words;
}

/// The cell under `wanted` of the row that has `value` under `known`.
std::string look_up(const char* known, const std::string& value, const char* wanted) {
  const Csv& ids = all_ids();
  const std::size_t from = ids.column(known), to = ids.column(wanted);
  for (const Csv::Row& row : ids.rows)
    if (row.cells[from] == value) return row.cells[to];
  return "";
}

}  // namespace

std::string with_family_joined(std::string name) {
  const std::string apart = "RTX PRO ";
  for (auto at = name.find(apart); at != std::string::npos; at = name.find(apart, at))
    name.replace(at, apart.size(), "RTXPRO");
  return name;
}

std::string gpu_model_of(const std::string& device) { return look_up("device", device, "model"); }
std::string pci_device_of(const std::string& model) { return look_up("model", model, "device"); }

std::string pci_device_named(const std::string& name) {
  const Csv& ids = all_ids();
  const std::vector<std::string> said = words_of(name);
  const auto says = [&](const std::string& word) {
    return std::find(said.begin(), said.end(), word) != said.end();
  };
  std::string whole, family;
  int wholes = 0, families = 0;
  for (const Csv::Row& row : ids.rows) {
    const std::vector<std::string> words = words_of(row.cells[ids.column("model")]);
    if (!says(words.front())) continue;
    family = row.cells[ids.column("device")];
    ++families;
    if (!std::all_of(words.begin(), words.end(), says)) continue;
    whole = family;
    ++wholes;
  }
  if (wholes == 1) return whole;
  return families == 1 ? family : "";
}

}  // namespace foreduce

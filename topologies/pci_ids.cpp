#include "topologies/pci_ids.hpp"

#include "input/csv.hpp"
#include "input/files.hpp"

namespace foreduce {
namespace {

/// The cell under `wanted` of the row that has `value` under `known`.
std::string look_up(const char* known, const std::string& value, const char* wanted) {
  static const Csv ids = Csv::load(data_folder() / "topologies" / "pci_ids.csv");
  const std::size_t from = ids.column(known), to = ids.column(wanted);
  for (const Csv::Row& row : ids.rows)
    if (row.cells[from] == value) return row.cells[to];
  return "";
}

}  // namespace

std::string gpu_model_of(const std::string& device) { return look_up("device", device, "model"); }
std::string pci_device_of(const std::string& model) { return look_up("model", model, "device"); }

}  // namespace foreduce

#include "real/baseline.hpp"

#include "real/module.hpp"

namespace foreduce {

bool has_baseline(const std::string& name) { return has_module(name); }

std::unique_ptr<Baseline> load_baseline(const std::string& name) {
  const bool deep = name == "mpi";  // SimGrid's library exports an MPI of its own
  const auto make = reinterpret_cast<MakeBaseline>(module_symbol(name, "foreduce_baseline", deep));
  return std::unique_ptr<Baseline>(make());
}

}  // namespace foreduce

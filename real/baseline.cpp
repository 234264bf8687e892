#include "real/baseline.hpp"

#include "real/module.hpp"

namespace foreduce {

bool has_baseline(const std::string& name) { return has_module(name); }

std::unique_ptr<Baseline> load_baseline(const std::string& name) {
  // SimGrid's library, which the program is linked to, exports an MPI of its own.
  const auto lookup = name == "mpi" ? SymbolLookup::module_first : SymbolLookup::program_first;
  const auto make =
      reinterpret_cast<MakeBaseline>(module_symbol(name, "foreduce_baseline", lookup));
  return std::unique_ptr<Baseline>(make());
}

}  // namespace foreduce

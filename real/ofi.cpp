// What the program knows of libfabric: that it is in a module. Loaded when it is asked for, because libraries under libfabric
// (libinfinipath) look at the clock for a sixth of a second before main() when they are linked.
#include "real/module.hpp"
#include "real/ofi_port.hpp"

namespace foreduce {
namespace {

const OfiModule& module() {
  static const OfiModule& loaded = *static_cast<const OfiModule*>(module_symbol("ofi", "foreduce_ofi", false));
  return loaded;
}

}  // namespace

bool has_ofi() { return has_module("ofi"); }
std::string ofi_version(const OfiOptions& options) { return module().version(options); }
std::vector<std::string> ofi_providers() { return module().providers(); }
std::unique_ptr<OfiPort> open_ofi(const OfiOptions& options) { return module().open(options); }

}  // namespace foreduce

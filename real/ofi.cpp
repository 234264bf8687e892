// The program's side of libfabric, which is a module. It is loaded when it is first needed, because
// libraries below libfabric (libinfinipath) delay main() by 0.16 s if the program is linked to
// them.
#include <fmt/format.h>

#include "input/problem.hpp"
#include "real/module.hpp"
#include "real/ofi_port.hpp"

namespace foreduce {
namespace {

const OfiModule& module() {
  static const OfiModule& loaded = *static_cast<const OfiModule*>(
      module_symbol("ofi", "foreduce_ofi", SymbolLookup::program_first));
  return loaded;
}

}  // namespace

bool has_ofi() { return has_module("ofi"); }
std::string ofi_version(const OfiOptions& options) { return module().version(options); }
std::vector<std::string> ofi_providers() { return module().providers(); }
std::unique_ptr<OfiPort> open_ofi(const OfiOptions& options) {
  if (auto port = module().open(options)) return port;
  throw input_error(
      fmt::format("--provider: libfabric has no provider '{}' with reliable datagrams here{}",
                  options.provider, options.address.empty() ? "" : " on " + options.address),
      fmt::format("accepted: {}", fmt::join(ofi_providers(), ", ")));
}

}  // namespace foreduce

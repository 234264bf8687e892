#include "real/module.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "algorithms/core/transport.hpp"
#include "input/files.hpp"
#include "real/keep_signals.hpp"

namespace foreduce {
bool has_module(const std::string& name) { return !module_file(name).empty(); }

void* module_symbol(const std::string& name, const char* symbol, SymbolLookup lookup) {
  const auto file = module_file(name);
  if (file.empty())
    throw TransportError(
        fmt::format("foreduce_{}.so is neither beside the program nor in ../lib/foreduce: its "
                    "library was not found when "
                    "foreduce was configured ({}), or the file was not copied",
                    name,
                    name == "ofi"   ? "libfabric-dev, or the EFA installer"
                    : name == "mpi" ? "libopenmpi-dev"
                                    : "libnccl-dev"));
  const KeepSignals keep;
  // Global, since Open MPI's own plugins look for its symbols.
  const int deep = lookup == SymbolLookup::module_first ? RTLD_DEEPBIND : 0;
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL | deep);
  if (!handle) throw TransportError(fmt::format("'{}' does not load: {}", name, ::dlerror()));
  void* found = ::dlsym(handle, symbol);
  if (!found) throw TransportError(fmt::format("{} has no {}", file.string(), symbol));
  return found;
}

}  // namespace foreduce

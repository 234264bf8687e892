#include "real/baseline.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "algorithms/core/transport.hpp"

namespace foreduce {
namespace {

/// Beside the program in a build tree, in ../lib/foreduce once installed.
std::filesystem::path module_of(const std::string& name) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::string file = "foreduce_" + name + ".so";
  for (const auto& folder : {program, program.parent_path() / "lib" / "foreduce"})
    if (std::filesystem::exists(folder / file)) return folder / file;
  return {};
}

}  // namespace

bool has_baseline(const std::string& name) { return !module_of(name).empty(); }

std::unique_ptr<Baseline> load_baseline(const std::string& name) {
  const auto file = module_of(name);
  if (file.empty()) throw TransportError(fmt::format("the baseline '{}' was not built: its headers were missing when foreduce was configured", name));
  // Global, since Open MPI's own plugins look for its symbols; bound deeply, since SimGrid's library exports an MPI of its own.
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_DEEPBIND);
  if (!handle) throw TransportError(fmt::format("the baseline '{}' does not load: {}", name, ::dlerror()));
  const auto make = reinterpret_cast<MakeBaseline>(::dlsym(handle, "foreduce_baseline"));
  if (!make) throw TransportError(fmt::format("{} is no baseline", file.string()));
  return std::unique_ptr<Baseline>(make());
}

}  // namespace foreduce

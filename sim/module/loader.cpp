// Runs ranks by the module foreduce_simgrid.so, which is loaded when it is first needed.
#include <dlfcn.h>
#include <fmt/format.h>

#include "input/build_id.hpp"
#include "input/files.hpp"
#include "sim/simulator.hpp"

namespace foreduce {

/// The build of the module that was linked with this program (write_build_id.cmake).
extern const char* const kEngineBuildId;

namespace {

using RunRanks = void (*)(const SimulatedNetwork*, const std::function<void(Transport&)>*,
                          std::optional<CollectiveResult>*);

RunRanks run_in_module() {
  static const RunRanks found = [] {
    const auto file = module_file("simgrid");
    if (file.empty())
      throw TransportError(
          "foreduce_simgrid.so is neither beside the program nor in ../lib/foreduce: it was not "
          "copied with the program, which cannot simulate without it");
    if (build_id_of(file) != kEngineBuildId)
      throw TransportError(
          fmt::format("{} is of another build than the program: copy both from "
                      "the same build, or install one package",
                      file.string()));
    void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) throw TransportError(fmt::format("the simulator does not load: {}", ::dlerror()));
    void* symbol = ::dlsym(handle, "foreduce_run_ranks");
    if (!symbol) throw TransportError(fmt::format("{} is not foreduce's module", file.string()));
    return reinterpret_cast<RunRanks>(symbol);
  }();
  return found;
}

}  // namespace

std::optional<CollectiveResult> run_ranks(const SimulatedNetwork& on,
                                          const std::function<void(Transport&)>& rank_function) {
  std::optional<CollectiveResult> result;
  run_in_module()(&on, &rank_function, &result);
  return result;
}

void load_simulator() { run_in_module(); }

const std::string& simulator_build_id() {
  static const std::string id = build_id_of(module_file("simgrid"));
  return id;
}

}  // namespace foreduce

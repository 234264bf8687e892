// libFuzzer: any bytes are a topology, a model's description or a trace, or an InputError. Build
// with the preset fuzz, run build/fuzz/tests/fuzz_import -max_total_time=60 CORPUS
// tests/fuzz/import
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "models/model_config.hpp"
#include "scenarios/validation/kineto_trace.hpp"
#include "topologies/imported_machine.hpp"

namespace {

template <class Work>
void accepted_or_refused(const Work& work) {
  try {
    work();
  } catch (const foreduce::InputError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  accepted_or_refused([&] {
    foreduce::import_machine(foreduce::parse_topology_dump("fuzz.txt", text),
                             {.name = "", .like = "p4d.24xlarge"});
  });
  if (text.starts_with("<")) return 0;
  static const std::string file = (std::filesystem::temp_directory_path() /
                                   ("fuzz_import." + std::to_string(::getpid()) + ".json"))
                                      .string();
  std::ofstream(file, std::ios::binary) << text;
  accepted_or_refused([] { foreduce::workload_from_config(file, {}); });
  accepted_or_refused(
      [] { foreduce::workload_from_trace(foreduce::load_trace(file), {.name = "fuzz"}); });
  std::filesystem::remove(file);
  return 0;
}

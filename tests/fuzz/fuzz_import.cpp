// libFuzzer: any bytes are a topology, a model's description or a trace, or an InputError. Build
// with the preset dev, run build/dev/tests/fuzz_import -max_total_time=60 CORPUS
// tests/fuzz/import
#include "models/model_config.hpp"
#include "scenarios/validation/kineto_trace.hpp"
#include "tests/fuzz/harness.hpp"
#include "topologies/imported_machine.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreduce;
  const std::string text(fuzz::text_of(data, size));
  fuzz::accepted_or_refused([&] {
    import_machine(parse_topology_dump("fuzz.txt", text), {.name = "", .like = "p4d.24xlarge"});
  });
  if (text.starts_with("<")) return 0;
  const std::string file = fuzz::folder().write("import.json", text);
  fuzz::accepted_or_refused([&] { workload_from_config(file, {}); });
  fuzz::accepted_or_refused([&] { workload_from_trace(load_trace(file), {.name = "fuzz"}); });
  return 0;
}

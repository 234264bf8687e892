// libFuzzer: any bytes are a schedule that every rank can run, or an InputError. Build with the
// preset dev, run build/dev/tests/fuzz_schedule -max_total_time=60 CORPUS tests/fuzz/schedules
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "algorithms/extensions/mscclpp.hpp"
#include "algorithms/extensions/schedule.hpp"
#include "input/problem.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const foreduce::MscclProgram program =
        text.starts_with("{")
            ? foreduce::as_messages(foreduce::parse_mscclpp_plan("fuzz.json", text))
            : foreduce::parse_msccl_xml("fuzz.xml", text);
    const std::string written = foreduce::to_msccl_xml(program);
    if (!text.starts_with("{") &&
        foreduce::to_msccl_xml(foreduce::parse_msccl_xml("written.xml", written)) != written)
      std::abort();  // what is written is read as the same
    const foreduce::Algorithm algorithm = foreduce::algorithm_of(program);
    const foreduce::Layout layout =
        foreduce::Layout::uniform(static_cast<int>(program.gpus.size()));
    for (int r = 0; r < layout.workers; ++r) algorithm.sends(layout, r, 1003, {.segments = 3});
  } catch (const foreduce::InputError&) {
  }
  return 0;
}

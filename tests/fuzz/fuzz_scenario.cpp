// libFuzzer: any bytes are a scenario that is accepted or an InputError. Build with the preset
// fuzz, run build/fuzz/tests/fuzz_scenario -max_total_time=60 CORPUS scenarios
#include <cstddef>
#include <cstdint>
#include <string>

#include "scenarios/sweep/scenario.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    foreduce::parse_scenario("fuzz.yaml", std::string(reinterpret_cast<const char*>(data), size));
  } catch (const foreduce::InputError&) {
  }
  return 0;
}

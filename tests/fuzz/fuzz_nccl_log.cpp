// libFuzzer: any bytes are a log with a table, or an InputError. Build with the preset fuzz, run
// build/fuzz/tests/fuzz_nccl_log -max_total_time=60 CORPUS tests/logs
#include <cstddef>
#include <cstdint>

#include "input/problem.hpp"
#include "scenarios/validation/nccl_log.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    foreduce::parse_nccl_log("fuzz.txt", {reinterpret_cast<const char*>(data), size});
  } catch (const foreduce::InputError&) {
  }
  return 0;
}

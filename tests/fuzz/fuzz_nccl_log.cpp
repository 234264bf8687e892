// libFuzzer: any bytes are a log with a table, or nccl-tests' JSON, or an InputError. Build with
// the preset dev, run build/dev/tests/fuzz_nccl_log -max_total_time=60 CORPUS tests/logs
// tests/fuzz/nccl_json
#include "scenarios/validation/nccl_log.hpp"
#include "tests/fuzz/harness.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreduce;
  fuzz::accepted_or_refused([&] { parse_nccl_log("fuzz.txt", fuzz::text_of(data, size)); });
  return 0;
}

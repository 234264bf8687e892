// libFuzzer: any bytes are a report of `run` that `validate` can use, or an InputError. Build with
// the preset dev, run build/dev/tests/fuzz_runs -max_total_time=60 CORPUS tests/fuzz/runs
#include "scenarios/validation/own_runs.hpp"
#include "tests/fuzz/harness.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreduce;
  const std::string file = fuzz::folder().write("runs.json", fuzz::text_of(data, size));
  fuzz::accepted_or_refused([&] {
    UserRunsValidation runs;
    read_own_runs(file, 4, 1, runs);
    if (runs.runs.empty() && runs.replays.empty()) std::abort();
    for (const UserRun& run : runs.runs)
      if (!(run.measured > 0) || run.count < 1 || run.segments < 1) std::abort();
  });
  return 0;
}

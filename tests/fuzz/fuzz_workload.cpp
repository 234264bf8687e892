// libFuzzer: any bytes are a workload, or its tensors, or an InputError. Build with the preset
// dev, run build/dev/tests/fuzz_workload -max_total_time=60 CORPUS models/workloads
// models/workloads/tensors
#include "input/csv.hpp"
#include "models/tensors.hpp"
#include "tests/fuzz/harness.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreduce;
  const std::string text(fuzz::text_of(data, size));
  const std::string file = fuzz::folder().write("workload.yaml", text);
  fuzz::folder().write("tensors.csv", "a,1000,1000\nb,10,0\n");
  fuzz::accepted_or_refused([&] {
    const Workload workload = Workloads::load_file(file);
    if (workload.tensors.empty() || !workload.variant("")) std::abort();
    for (const Variant& v : workload.variants) tokens_of(v.sample);
  });
  fuzz::accepted_or_refused([&] {
    if (parse_tensors("tensors.csv", text, 1).empty()) std::abort();
  });
  fuzz::accepted_or_refused([&] {
    const Csv table = Csv::parse("table.csv", text);
    for (const Csv::Row& row : table.rows)
      for (std::size_t column = 0; column < row.cells.size(); ++column)
        fuzz::accepted_or_refused([&] { table.number(row, column); });
  });
  return 0;
}

// libFuzzer: any bytes are a report that can be merged and shown in every form, or an InputError.
// Build with the preset dev, run build/dev/tests/fuzz_report -max_total_time=60 CORPUS
// tests/fuzz/reports
#include "input/json.hpp"
#include "scenarios/report/report.hpp"
#include "tests/fuzz/harness.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreduce;
  const std::string file = fuzz::folder().write("report.json", fuzz::text_of(data, size));
  fuzz::accepted_or_refused([&] {
    std::size_t failed = 0;
    dump(merge_reports({file}, failed));
  });
  for (const Format format : {Format::table, Format::csv, Format::markdown, Format::html})
    fuzz::accepted_or_refused([&] {
      const Json report = load_report(file);
      with_typed_fields(file, [&] {
        View view;
        view.format = format;
        view.wide = view.explain = format == Format::markdown;
        return render(report, view);
      });
    });
  return 0;
}

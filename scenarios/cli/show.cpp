// `foreduce show` and `foreduce merge`: stored reports.
#include <fmt/format.h>

#include <iostream>

#include "input/json.hpp"
#include "scenarios/cli/shared_options.hpp"

namespace foreduce {

void add_show_and_merge(CLI::App& app, Action& action) {
  struct Arguments {
    std::vector<std::string> files;
    OutputOptions output;
  };
  auto* show = app.add_subcommand(
      "show", "Show a stored JSON report again, as a table or in another format.");
  const auto shown = std::make_shared<Arguments>();
  show->add_option("report", shown->files, "JSON report of any command.")->required()->expected(1);
  shown->output.add_to(*show, Forms::with_nccl_tests);
  shown->output.add_explain_to(*show);
  add_examples(*show, {"foreduce show sweep.json", "foreduce show sweep.json --format markdown"});
  show->callback([shown, &action] {
    action = [shown] {
      const std::string& file = shown->files.front();
      const Json report = load_report(file);
      const std::string text =
          with_typed_fields(file, [&] { return render(report, shown->output.view()); });
      write_output(shown->output.file(), text, file);
      return 0;
    };
  });

  auto* merge = app.add_subcommand("merge", "Join the JSON reports of all shards of one sweep.");
  const auto merged = std::make_shared<Arguments>();
  merge->add_option("parts", merged->files, "JSON reports, e.g. part-*.json")->required();
  merged->output.add_to(*merge, Forms::usual, Format::json);
  add_examples(*merge, {"foreduce merge part-*.json -o sweep.json",
                        "foreduce merge part-*.json -o sweep.csv"});
  merge->callback([merged, &action] {
    action = [merged] {
      for (const std::string& part : merged->files)
        refuse_to_overwrite(merged->output.file(), part);
      std::size_t failed = 0;
      const Json report = merge_reports(merged->files, failed);
      const bool stored = merged->output.format() == Format::json;
      write_output(merged->output.file(),
                   stored ? dump(report) : render(report, merged->output.view()));
      if (failed > 0)
        std::cerr << fmt::format("{} point{} no answer\n", failed, failed == 1 ? " has" : "s have");
      return failed > 0 ? 1 : 0;
    };
  });
}

}  // namespace foreduce

// `foreduce cache`: answers of earlier runs.
#include <fmt/format.h>

#include "input/counted.hpp"
#include "scenarios/cli/shared_options.hpp"
#include "sim/result_cache.hpp"

namespace foreduce {

void add_cache(CLI::App& app, Action& action) {
  struct Arguments {
    bool clear = false, stats = false;
  };
  auto* command = app.add_subcommand(
      "cache",
      "Say how many simulations are kept from earlier runs, and where; $FOREDUCE_CACHE is another "
      "folder, or off.");
  const auto a = std::make_shared<Arguments>();
  auto* clear = command->add_flag("--clear", a->clear, "Remove them.");
  command->add_flag("--stats", a->stats, "Say what is kept, as without any option.")
      ->excludes(clear);
  add_examples(*command, {"foreduce cache", "foreduce cache --clear",
                          "FOREDUCE_CACHE=off foreduce predict mine.yaml"});
  command->callback([a, &action] {
    action = [a] {
      const std::filesystem::path folder = cache_folder();
      if (folder.empty()) {
        write_output("", "nothing is kept: FOREDUCE_CACHE is off, or there is no home\n");
        return 0;
      }
      if (a->clear) {
        const RemovedAnswers all = clear_cache(folder);
        write_output("", fmt::format("{}: {} removed\n", folder.string(),
                                     counted(static_cast<std::int64_t>(all.removed), "answer")));
        if (all.left > 0)
          throw input_error(fmt::format("{} answers cannot be removed: {}", all.left, all.why_left),
                            "run it as the user who owns the folder");
        return 0;
      }
      if (const std::string why = why_nothing_is_kept(folder); !why.empty()) {
        write_output("", fmt::format("nothing is kept: {}\n", why));
        return 0;
      }
      const CacheContents c = cache_contents(folder);
      write_output(
          "", fmt::format("{}: {} answers, {}; {} of this build of foreduce\n", folder.string(),
                          c.answers, to_text(c.bytes), c.answers_of_this_build));
      return 0;
    };
  });
}

}  // namespace foreduce

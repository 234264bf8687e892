#include "scenarios/cli/plugin_options.hpp"

#include <cstdlib>

#include "algorithms/extensions/plugin.hpp"

namespace foreduce {

void add_plugin_option(CLI::App& command) {
  command
      .add_option_function<std::vector<std::string>>(
          "--plugin",
          [](const std::vector<std::string>& files) {
            for (const std::string& file : files) load_plugin(file);
          },
          "FILE.so: load algorithms of your own, built with foreduce_add_algorithm. May be given "
          "several times. FOREDUCE_PLUGINS names more, with colons.")
      ->allow_extra_args(false);
}

void load_plugins_of_environment() {
  const char* list = std::getenv("FOREDUCE_PLUGINS");
  if (!list) return;
  for (const std::string& file : plugins_listed(list)) try {
      load_plugin(file);
    } catch (const InputError& e) {
      Problem problem = e.problems().front();
      problem.key = "FOREDUCE_PLUGINS";
      throw InputError(problem);
    }
}

Json plugins_json() {
  Json all = Json::array();
  for (const Plugin* p : loaded_plugins())
    all.push_back({{"file", p->file.filename().string()}, {"sha1", p->content}});
  return all;
}

}  // namespace foreduce

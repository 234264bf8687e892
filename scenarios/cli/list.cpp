// `foreduce list`: what there is to choose from.
#include "real/transports.hpp"
#include "scenarios/cli/shared_options.hpp"

namespace foreduce {
namespace {

Json transports_report() {
  Json j = {{"foreduce_version", FOREDUCE_VERSION},
            {"kind", "list"},
            {"what", "transports"},
            {"transports", Json::array()}};
  for (const TransportStatus& t : transports())
    j["transports"].push_back(
        {{"transport", t.name}, {"available", t.available}, {"what", t.details}});
  return j;
}

}  // namespace

void add_list(CLI::App& app, Action& action) {
  struct Arguments {
    std::string what;
    OutputOptions output;
  };
  auto* command = app.add_subcommand(
      "list", "List what there is: algorithms, instances, workloads, profiles or transports.");
  const auto a = std::make_shared<Arguments>();
  command->add_option("what", a->what, "What to list.")
      ->transform(one_of({"algorithms", "instances", "workloads", "profiles", "transports"}));
  a->output.add_to(*command);
  add_examples(*command, {"foreduce list algorithms", "foreduce list instances --format csv"});
  command->callback([a, &action] {
    action = [a] {
      if (a->what.empty())
        throw input_error("what to list is missing",
                          "accepted: algorithms, instances, workloads, profiles, transports");
      a->output.write(a->what == "transports" ? transports_report() : list_report(a->what));
      return 0;
    };
  });
}

}  // namespace foreduce

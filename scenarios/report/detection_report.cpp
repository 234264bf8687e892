// The report of `validate --detection`: which faults `check` finds.
#include <fmt/format.h>

#include "scenarios/report/words.hpp"

namespace foreduce {

Json detection_report(const std::vector<DetectionRow>& rows) {
  Json j = report_head("detection");
  j["rows"] = Json::array();
  for (const DetectionRow& r : rows)
    j["rows"].push_back({{"fault", r.fault},
                         {"logs_of_known_clusters", r.known.logs},
                         {"called_not_normal_of_known_clusters", r.known.found},
                         {"logs_of_other_clusters", r.model.logs},
                         {"called_not_normal_of_other_clusters", r.model.found},
                         {"logs_of_stand_in_clusters", r.stand_in.logs},
                         {"called_not_normal_of_stand_in_clusters", r.stand_in.found}});
  return j;
}

Document render_detection(const Json& report, const View& view) {
  Table table;
  table.column("fault");
  table.column("another site is known");
  table.column("only the model is known");
  table.column("other clouds");
  const auto share = [](const Json& row, const char* of) {
    return fmt::format("{} of {}", row[fmt::format("called_not_normal_of_{}_clusters", of)].dump(),
                       row[fmt::format("logs_of_{}_clusters", of)].dump());
  };
  for (const Json& row : report.at("rows"))
    table.row(
        {text_or(row, "fault"), share(row, "known"), share(row, "other"), share(row, "stand_in")});
  if (view.format == Format::csv) return table.csv();
  Document document;
  document.title("Published all-reduces that check calls not normal, with a fault put into each");
  return document.gap().table(table).gap().lines(
      Role::notes,
      wrapped("Each is judged without its own source: by what another site published of such a "
              "cluster, or by the model's interval. Without a fault, not normal is a false alarm. "
              "Other "
              "clouds: machines that are none of EC2's types, as those of stand_ins.csv.",
              view, 2));
}

}  // namespace foreduce

#include "scenarios/report/page.hpp"

#include <fmt/format.h>

#include "input/files.hpp"
#include "input/text_stream.hpp"
#include "scenarios/report/charts.hpp"
#include "scenarios/report/cluster_picture.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

/// Of a page's 2 MB: Chart.js takes 0.2, tables and charts may take these.
constexpr std::size_t kMostTables = 700'000, kMostCharts = 250'000, kMostNumbers = 150'000,
                      kMostReport = 600'000;

/// JSON inside a script element, where neither HTML nor XML may find markup.
std::string json_in_page(const Json& json) {
  std::string out;
  for (const char c : json.dump(-1, ' ', true, Json::error_handler_t::replace))
    if (c == '<' || c == '>' || c == '&') out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else out += c;
  return out;
}

/// A style sheet or script, for readers of HTML and of XML.
std::string code_element(const char* element, const char* text) {
  return fmt::format("<{0}>/*<![CDATA[*/\n{1}\n/*]]>*/</{0}>\n", element, text);
}

std::string paragraphs(const std::string& text) {
  TextStream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find_first_not_of(' ');
    if (first == std::string::npos) continue;
    const bool item = first > 0 || line.starts_with("- ");
    out += fmt::format("<p{}>{}</p>\n", item ? " class=\"item\"" : "",
                       html_escaped(line.substr(first)));
  }
  return out;
}

std::string lines_element(const Document::Lines& lines) {
  const std::string inside = paragraphs(lines.text);
  if (inside.empty()) return "";
  switch (lines.role) {
    case Role::setting: return "<div class=\"setting\">\n" + inside + "</div>\n";
    case Role::answer: return "<div class=\"answer\">\n" + inside + "</div>\n";
    case Role::notes: return "<div class=\"notes\">\n" + inside + "</div>\n";
    case Role::definitions:
      return "<h2>Definitions and sources</h2>\n<div class=\"notes\">\n" + inside + "</div>\n";
    case Role::plain: break;
  }
  return "<pre>" + html_escaped(lines.text) + "</pre>\n";
}

/// A table in a frame that scrolls sideways, with a box that shows all its columns.
class Tables {
 public:
  std::string element(const Table& table) {
    const std::string html = table.html(std::max<std::size_t>(2'000, left_));
    left_ -= std::min(left_, html.size());
    const std::string id = fmt::format("columns-{}", ++count_);
    const bool more = html.find("class=\"more") != std::string::npos;
    return (more ? fmt::format("<input type=\"checkbox\" class=\"columns\" id=\"{0}\"/> <label "
                               "for=\"{0}\">all columns</label>\n",
                               id)
                 : std::string()) +
           "<div class=\"scroll\">\n" + html + "</div>\n";
  }

 private:
  std::size_t left_ = kMostTables;
  int count_ = 0;
};

/// What was asked: the command, and the scenario's text.
std::string question(const Json& report, const View& view) {
  std::string out;
  if (!view.command.empty()) out += "<pre>" + html_escaped(view.command) + "</pre>\n";
  const std::string text = text_or(report, "scenario_text");
  if (!text.empty())
    out += fmt::format(
        "<details><summary>The scenario{}</summary>\n<pre>{}</pre>\n</details>\n",
        text_or(report, "scenario").empty() ? "" : ": " + html_escaped(text_or(report, "scenario")),
        html_escaped(text));
  return out;
}

std::string figure(const Chart& chart, std::size_t number, std::size_t most) {
  const std::string note =
      chart.note.empty() ? "" : "<span>" + html_escaped(chart.note) + "</span>";
  return fmt::format(
      "<figure>\n<figcaption>{}{}</figcaption>\n<div class=\"canvas\"><canvas id=\"chart-{}\" "
      "role=\"img\" aria-label=\"{}\"></canvas></div>\n<details open=\"open\"><summary>The numbers"
      "</summary>\n<div class=\"scroll\">\n{}</div>\n</details>\n</figure>\n",
      html_escaped(chart.title), note, number, html_escaped(chart.title),
      chart_table(chart).html(most));
}

std::string figures(const std::vector<Chart>& charts) {
  std::string out;
  for (std::size_t i = 0; i < charts.size(); ++i)
    out += figure(charts[i], i, kMostNumbers / charts.size());
  return out;
}

std::string version_words(const Json& report) {
  std::string words = "foreduce " + text_or(report, "foreduce_version");
  if (const auto engine = report.find("engine"); engine != report.end() && engine->is_object())
    words += ", " + text_or(*engine, "simulator");
  return words;
}

/// Versions and hashes, and the report itself where that is not long.
std::string footer(const Json& report) {
  std::string out = "<footer>\n<p>Made by " + html_escaped(version_words(report)) + ".</p>\n";
  const std::string hash = text_or(report, "scenario_hash");
  if (!hash.empty())
    out += "<p>SHA-1 of the scenario and of every file that it reads: <code>" + html_escaped(hash) +
           "</code></p>\n";
  out += "<p>SHA-1 of the JSON report: <code>" + sha1(dump(report)) + "</code> ";
  const std::string json = json_in_page(report);
  const bool carried = json.size() <= kMostReport;
  out += carried ? "<button class=\"link\" id=\"download\">Save the report as JSON</button></p>\n"
                 : "(too long to be carried here)</p>\n";
  out += "<p>Charts: Chart.js, MIT licence. This file asks no other for anything.</p>\n</footer>\n";
  if (carried) out += "<script type=\"application/json\" id=\"report\">" + json + "</script>\n";
  return out;
}

/// The blocks in their order, with the charts before the first table.
std::string body(const Json& report, const Document& document, const View& view,
                 const std::vector<Chart>& charts) {
  Tables tables;
  bool titled = false, drawn = false;
  std::string out;
  const std::string asked = question(report, view);
  const auto title = [&](const std::string& text) {
    out += fmt::format("<h{0}>{1}</h{0}>\n", titled ? 2 : 1, html_escaped(text));
    titled = true;
  };
  out += fmt::format("<p class=\"kind\">foreduce {}</p>\n", html_escaped(text_or(report, "kind")));
  bool told = false;
  const auto ask = [&] {
    if (!told) out += asked;
    told = true;
  };
  for (const Document::Block& block : document.blocks()) {
    if (const auto* heading = std::get_if<Document::Title>(&block)) {
      title(heading->text);
      continue;
    }
    if (!titled) title("foreduce " + text_or(report, "kind"));
    if (const auto* lines = std::get_if<Document::Lines>(&block)) {
      if (lines->role != Role::setting && lines->text != "\n") ask();
      out += lines_element(*lines);
      continue;
    }
    ask();
    if (!drawn) out += figures(charts) + cluster_figure(report);
    if (!drawn && charts.empty() && !charts_of(report).empty())
      out += "<p class=\"note\">There are too many points for charts.</p>\n";
    drawn = true;
    out += tables.element(std::get<Table>(block));
  }
  return out + (drawn ? "" : figures(charts) + cluster_figure(report));
}

}  // namespace

std::string page_of(const Json& report, const Document& document, const View& view) {
  std::vector<Chart> charts = charts_of(report);
  Json drawn = Json::array();
  std::size_t size = 0;
  std::erase_if(charts, [&](const Chart& chart) {
    Json one = chart_json(chart);
    const std::size_t bytes = json_in_page(one).size();
    if (size + bytes > kMostCharts) return true;
    size += bytes;
    drawn.push_back(std::move(one));
    return false;
  });
  std::string name = text_or(report, "name");
  if (name.empty()) name = "foreduce " + text_or(report, "kind");
  return fmt::format(
             "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
             "'unsafe-inline'; script-src 'unsafe-inline'\"/>\n"
             "<meta name=\"generator\" content=\"foreduce {}\"/>\n<title>{}</title>\n",
             html_escaped(text_or(report, "foreduce_version")), html_escaped(name)) +
         code_element("style", kPageStyle) + "</head>\n<body>\n<main>\n" +
         body(report, document, view, charts) + footer(report) +
         "<script type=\"application/json\" id=\"charts\">" + json_in_page(drawn) + "</script>\n" +
         (charts.empty() ? "" : code_element("script", kChartLibrary)) +
         code_element("script", kPageScript) + "</main>\n</body>\n</html>\n";
}

}  // namespace foreduce

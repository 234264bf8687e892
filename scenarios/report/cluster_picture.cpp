#include "scenarios/report/cluster_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

// A node's picture is as wide as a phone.
constexpr double kWidth = 344, kBoxHeight = 20, kLeast = 4;

/// From top to bottom.
enum Row : std::size_t { kSwitch, kGpu, kPcie, kNic, kSocket, kNetwork, kSpine, kRows };

struct Box {
  std::string name, label;
  Row row = kGpu;
  double x = 0, y = 0, width = 38;
};

struct Line {
  std::size_t from = 0, to = 0;
  std::string kind;
  double rate = 0;  // GB/s; 0: it never binds
  double load = 0;
};

/// 0: unused, to 5: busy for four fifths of the time or more.
int level_of(double load) {
  return load < 0.005 ? 0 : load >= 0.8 ? 5 : 1 + static_cast<int>(load * 5);
}

constexpr std::array<const char*, 6> kLevels = {"not used",   "up to 20 %", "20 to 40 %",
                                                "40 to 60 %", "60 to 80 %", "80 % or more"};

std::string letters_of(const std::string& name) {
  return name.substr(0, name.find_first_of("0123456789"));
}

Row row_of(const std::string& kind) {
  return kind == "nvswitch"  ? kSwitch
         : kind == "gpu"     ? kGpu
         : kind == "pcie"    ? kPcie
         : kind == "nic"     ? kNic
         : kind == "network" ? kNetwork
                             : kSocket;
}

/// "GPU 3"; only the number where there are many.
std::string box_label(const std::string& name, std::size_t in_row) {
  static const std::map<std::string, std::string> kWords = {
      {"nvswitch", "NVSwitch"}, {"gpu", "GPU"},    {"pcie", "PCIe"},      {"nic", "NIC"},
      {"socket", "CPU"},        {"memory", "RAM"}, {"network", "network"}};
  const std::string kind = letters_of(name), number = name.substr(kind.size());
  const auto at = kWords.find(kind);
  const std::string word = at == kWords.end() ? kind : at->second;
  if (number.empty()) return word;
  return in_row > 8 ? word.substr(0, 1) + number : word + " " + number;
}

/// One node, its boxes in rows: GPUs in the order of their numbers, everything else near what it is
/// joined to.
class NodePicture {
 public:
  NodePicture(const Json& node, const Json& cluster) {
    for (const Json& v : node.at("vertices")) add(v.get<std::string>());
    for (const Json& l : node.at("links"))
      lines_.push_back({l.at(0), l.at(1), l.at(2).get<std::string>(),
                        l.at(3).is_number() ? l.at(3).get<double>() : 0, l.at(4).get<double>()});
    for (const Line& line : lines_)
      if (line.from >= boxes_.size() || line.to >= boxes_.size())
        throw input_error("cluster: a link of something that is not there");
    add_spine(cluster);
    place();
  }

  std::string svg(const std::string& title) const {
    std::string out =
        fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n", kWidth,
                    height_, html_escaped(title));
    for (const Line& line : lines_) out += line_element(line);
    for (const Box& box : boxes_)
      out += fmt::format(
          "<rect class=\"box {}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" "
          "rx=\"3\"></rect><text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
          letters_of(box.name), box.x - box.width / 2, box.y - kBoxHeight / 2, box.width,
          kBoxHeight, box.x, box.y + 3.5, html_escaped(box.label));
    return out + "</svg>\n";
  }

 private:
  void add(const std::string& name) {
    Box box;
    box.name = name;
    box.row = row_of(letters_of(name));
    boxes_.push_back(std::move(box));
  }

  void add_spine(const Json& cluster) {
    const auto uplinks = cluster.find("uplinks");
    if (uplinks == cluster.end()) return;
    Box spine;
    spine.name = "spine";
    spine.row = kSpine;
    for (std::size_t i = 0; i < boxes_.size(); ++i)
      if (boxes_[i].row == kNetwork) {
        for (const bool up : {true, false})
          lines_.push_back({up ? i : boxes_.size(), up ? boxes_.size() : i, "fabric uplink",
                            number_or(*uplinks, "GBps", 0), number_or(*uplinks, "utilisation", 0)});
        boxes_[i].label = "leaf switch";
        boxes_.push_back(spine);
        return;
      }
  }

  std::vector<std::size_t> in(Row row) const {
    std::vector<std::size_t> some;
    for (std::size_t i = 0; i < boxes_.size(); ++i)
      if (boxes_[i].row == row) some.push_back(i);
    return some;
  }

  /// The middle of what a box is joined to in rows that are placed already.
  double middle(std::size_t box, Row before) const {
    double sum = 0;
    int joined = 0;
    for (const Line& line : lines_)
      if (line.from == box && boxes_[line.to].row < before && boxes_[line.to].row != kSwitch) {
        sum += boxes_[line.to].x;
        ++joined;
      }
    return joined > 0 ? sum / joined : kWidth / 2;
  }

  /// Keeps their order, and makes room between them where there is too little.
  void spread(std::vector<std::size_t> row) {
    std::stable_sort(row.begin(), row.end(),
                     [this](std::size_t a, std::size_t b) { return boxes_[a].x < boxes_[b].x; });
    const double each = kWidth / static_cast<double>(row.size());
    bool tight = false;
    for (std::size_t i = 0; i + 1 < row.size(); ++i)
      tight = tight || boxes_[row[i + 1]].x - boxes_[row[i]].x < std::min(each, 42.0) - 0.5;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (tight) boxes_[row[i]].x = each * (static_cast<double>(i) + 0.5);
      boxes_[row[i]].width = std::min(each - kLeast, boxes_[row[i]].row == kSocket ? 33.0 : 40.0);
    }
  }

  void place() {
    double y = 14;
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto row = static_cast<Row>(r);
      const std::vector<std::size_t> boxes = in(row);
      if (boxes.empty()) {
        if (row == kSwitch && meshed()) y += 50;  // where links between GPUs have room
        continue;
      }
      for (std::size_t i = 0; i < boxes.size(); ++i) {
        Box& box = boxes_[boxes[i]];
        box.y = y;
        if (box.label.empty()) box.label = box_label(box.name, boxes.size());
        box.x = row == kGpu
                    ? kWidth * (static_cast<double>(i) + 0.5) / static_cast<double>(boxes.size())
                    : middle(boxes[i], row) + 0.01 * static_cast<double>(i);
        if (row == kNic && boxes.size() <= 4)
          box.x += 22;  // so that a switch's way to its socket can be seen
      }
      if (row == kSwitch || row == kNetwork || row == kSpine)
        for (const std::size_t i : boxes) {
          boxes_[i].x = kWidth / 2;
          boxes_[i].width = kWidth - 2;
        }
      else spread(boxes);
      if (row == kSocket) clear_of_nics(boxes);
      y += 48;
    }
    height_ = y - 48 + kBoxHeight;
  }

  /// Sockets and memory stand beside the lines from NICs to the network.
  void clear_of_nics(const std::vector<std::size_t>& row) {
    for (const std::size_t i : row)
      for (const std::size_t nic : in(kNic)) {
        const double apart = boxes_[i].x - boxes_[nic].x, least = boxes_[i].width / 2 + 5;
        if (std::abs(apart) < least) boxes_[i].x = boxes_[nic].x + (apart < 0 ? -least : least);
      }
  }

  bool meshed() const {
    return std::any_of(lines_.begin(), lines_.end(), [this](const Line& l) {
      return boxes_[l.from].row == kGpu && boxes_[l.to].row == kGpu;
    });
  }

  /// Either direction beside the other.
  std::string line_element(const Line& line) const {
    const Box &a = boxes_[line.from], &b = boxes_[line.to];
    const bool forth = line.from < line.to;
    const double side = forth ? -1.8 : 1.8;
    const auto wide = [](const Box& box) { return box.width > 60; };
    double x1 = wide(a) ? b.x : a.x, x2 = wide(b) ? a.x : b.x;
    std::string path;
    if (a.row == b.row) {
      const double high = (a.row == kGpu ? -10 - 0.14 * std::abs(x1 - x2) : 9.0) + side,
                   edge = (a.row == kGpu ? -1 : 1) * kBoxHeight / 2;
      path = fmt::format("M{:.1f} {:.1f}Q{:.1f} {:.1f} {:.1f} {:.1f}", x1 + side, a.y + edge,
                         (x1 + x2) / 2, a.y + edge + 2 * high, x2 + side, b.y + edge);
    } else {
      const double down = a.y < b.y ? 1 : -1;
      // A socket's link begins on the free side of its switch.
      const double shift = (a.row == kPcie && b.row == kSocket)   ? -11
                           : (a.row == kSocket && b.row == kPcie) ? -11
                                                                  : 0;
      if (a.row == kPcie) x1 += shift;
      if (b.row == kPcie) x2 += shift;
      path = fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}", x1 + side, a.y + down * kBoxHeight / 2,
                         x2 + side, b.y - down * kBoxHeight / 2);
    }
    return fmt::format("<path class=\"link {}\" d=\"{}\"><title>{}</title></path>\n",
                       line.rate > 0 ? fmt::format("l{}", level_of(line.load)) : "ideal", path,
                       html_escaped(words(line)));
  }

  std::string words(const Line& line) const {
    const std::string name =
        fmt::format("{} to {}, {}", boxes_[line.from].label, boxes_[line.to].label, line.kind);
    return line.rate > 0
               ? fmt::format("{}: {:.4g} GB/s, {} busy", name, line.rate, percent(line.load, 1))
               : name + ": no limit";
  }

  std::vector<Box> boxes_;
  std::vector<Line> lines_;
  double height_ = 0;
};

std::string colour_legend() {
  std::string out = "<p class=\"legend\">Busy:";
  for (std::size_t i = 0; i < kLevels.size(); ++i)
    out += fmt::format(
        " <span><svg viewBox=\"0 0 26 8\" width=\"26\" height=\"8\"><path class=\"link l{}\" "
        "d=\"M0 4L26 4\"></path></svg> {}</span>",
        i, kLevels.at(i));
  return out + "</p>\n";
}

std::string nodes_words(const Json& drawn, const Json& cluster) {
  std::vector<std::size_t> numbers;
  for (const Json& n : drawn.at("nodes")) numbers.push_back(n.get<std::size_t>());
  const std::string instance = text_or(drawn, "instance");
  if (cluster.at("whole") == true)
    return fmt::format("node{} {} ({})", numbers.size() == 1 ? "" : "s", as_ranges(numbers),
                       instance);
  return fmt::format("one of {} nodes ({})", numbers.size(), instance);
}

/// The busiest link of each class, the busiest first.
Table loads_table(const Json& cluster) {
  struct Busy {
    std::string kind;
    double rate = 0, load = 0;
  };
  std::map<std::string, Busy> links;
  for (const Json& node : cluster.at("drawn"))
    for (const Json& l : node.at("links")) {
      if (!l.at(3).is_number()) continue;
      const Json& names = node.at("vertices");
      Busy& row = links[names.at(l.at(0).get<std::size_t>()).get<std::string>() + ">" +
                        names.at(l.at(1).get<std::size_t>()).get<std::string>()];
      if (row.rate > 0 && row.load >= l.at(4).get<double>()) continue;
      row = {l.at(2), l.at(3), l.at(4)};
    }
  std::vector<std::pair<std::string, Busy>> sorted(links.begin(), links.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.load > b.second.load; });
  Table table;
  for (const char* heading : {"link", "kind", "GB/s", "busy"}) table.column(heading);
  for (const auto& [name, row] : sorted)
    table.row({name, row.kind, fmt::format("{:.4g}", row.rate), percent(row.load, 1)});
  return table;
}

}  // namespace

std::string cluster_figure(const Json& report) {
  const auto at = report.find("cluster");
  if (at == report.end() || !at->is_object()) return "";
  const Json& cluster = *at;
  const bool whole = cluster.at("whole") == true;
  std::string pictures;
  for (const Json& drawn : cluster.at("drawn")) {
    const NodePicture picture(drawn, cluster);
    const std::string title = nodes_words(drawn, cluster);
    // Nodes that are alike are drawn as often as there are, for all are few.
    const std::size_t times = whole ? drawn.at("nodes").size() : 1;
    for (std::size_t i = 0; i < times; ++i) {
      const std::string name = whole ? fmt::format("node {} ({})", cell_of(drawn.at("nodes").at(i)),
                                                   text_or(drawn, "instance"))
                                     : title;
      pictures += "<div class=\"node\"><p>" + html_escaped(name) + "</p>\n" + picture.svg(name) +
                  "</div>\n";
    }
  }
  const std::string note = fmt::format(
      "Point {}, {} by {}. {}", cell_of(cluster.at("point")),
      size_words(number_or(cluster, "bytes", 0)), text_or(cluster, "algorithm"),
      whole ? "Each link is two lines, one for either direction."
            : "Each link is two lines, one for either direction, with the load of the busiest "
              "link like it in the cluster.");
  return fmt::format(
      "<h2>How busy the links of the cluster are</h2>\n<p class=\"note\">{}</p>\n{}<div "
      "class=\"nodes\">\n{}</div>\n<details><summary>The links</summary>\n<div class=\"scroll\">"
      "\n{}</div>\n</details>\n",
      html_escaped(note), colour_legend(), pictures, loads_table(cluster).html(60'000));
}

}  // namespace foreduce

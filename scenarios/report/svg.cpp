#include "scenarios/report/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "input/files.hpp"
#include "input/problem.hpp"
#include "input/units.hpp"

namespace foreduce {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

constexpr double kLeft = 80, kTop = 40, kWidth = 620, kHeight = 380;

/// Okabe and Ito's colours, which people tell apart who do not see all.
const char* colour(std::size_t i) {
  static constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                          "#e69f00", "#56b4e9", "#000000"};
  return kColours[i % kColours.size()];
}

/// A logarithmic axis over the given values, with a line at each decade, and at 2 and 5 of it where
/// there are few.
struct Axis10 {
  double low, high, from, length;
  Axis10(double least, double most, double at, double size)
      : low(std::log10(least) - 0.05), high(std::log10(most) + 0.05), from(at), length(size) {
    const double middle = (low + high) / 2;
    low = std::min(low, middle - 0.5);
    high = std::max(high, middle + 0.5);
  }
  double at(double value) const { return from + length * (std::log10(value) - low) / (high - low); }
  std::vector<double> lines() const {
    std::vector<double> values;
    for (double decade = std::floor(low); decade <= high; ++decade)
      for (const double step : {1.0, 2.0, 5.0}) {
        const double value = step * std::pow(10, decade);
        if ((step == 1 || high - low < 3) && std::log10(value) >= low && std::log10(value) <= high)
          values.push_back(value);
      }
    return values;
  }
};

/// The sheet with its axes, its title and what stands below it.
class Sheet {
 public:
  Sheet(const std::string& title, const std::string& below, double x_least, double x_most,
        double y_least, double y_most, const std::function<std::string(double)>& x_text,
        const std::function<std::string(double)>& y_text)
      : x(x_least, x_most, kLeft, kWidth), y(y_least, y_most, kTop + kHeight, -kHeight) {
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n<text x=\"{2}\" y=\"24\" "
        "font-size=\"14\">{3}</text>\n",
        kLeft + kWidth + 40, kTop + kHeight + 60, kLeft, escaped(title));
    for (const double v : x.lines())
      svg_ += fmt::format(
          "<path d=\"M{0:.1f} {1} V{2}\" stroke=\"#ddd\"/><text x=\"{0:.1f}\" y=\"{3}\" "
          "text-anchor=\"middle\">{4}</text>\n",
          x.at(v), kTop, kTop + kHeight, kTop + kHeight + 16, x_text(v));
    for (const double v : y.lines())
      svg_ += fmt::format(
          "<path d=\"M{0} {1:.1f} H{2}\" stroke=\"#ddd\"/><text x=\"{3}\" y=\"{4:.1f}\" "
          "text-anchor=\"end\">{5}</text>\n",
          kLeft, y.at(v), kLeft + kWidth, kLeft - 6, y.at(v) + 4, y_text(v));
    svg_ += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", kLeft, kTop + kHeight + 44,
                        escaped(below));
  }
  void dot(double px, double py, const char* fill, const std::string& what = {}) {
    svg_ += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\" "
        "fill-opacity=\"0.8\">{}</circle>\n",
        x.at(px), y.at(py), fill, what.empty() ? "" : "<title>" + escaped(what) + "</title>");
  }
  /// Below a dot, where a falling front leaves room.
  void write(double px, double py, const std::string& text) {
    svg_ += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"10\" text-anchor=\"middle\">{}</text>\n",
        x.at(px), y.at(py) + 15, escaped(text));
  }
  std::string to(const std::string& path, double px, double py) const {
    return fmt::format("{}{:.1f} {:.1f} ", path.empty() ? "M" : "L", x.at(px), y.at(py));
  }
  void draw(const std::string& shape) { svg_ += shape; }
  void legend(std::size_t place, const std::string& name) {
    svg_ += fmt::format(
        "<circle cx=\"{}\" cy=\"{}\" r=\"4\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>\n",
        kLeft + 14, kTop + 16 + 18 * static_cast<double>(place), colour(place), kLeft + 24,
        kTop + 20 + 18 * static_cast<double>(place), escaped(name));
  }
  std::string done() { return svg_ + "</svg>\n"; }

  Axis10 x, y;

 private:
  std::string svg_;
};

std::string decimal_bytes(double bytes) {
  static constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < kUnits.size(); ++unit) bytes /= 1000;
  return fmt::format("{:.0f} {}", bytes, kUnits[unit]);
}

}  // namespace

std::string curves_svg(const std::string& title, std::vector<Curve> curves) {
  double left = 1e300, right = 0, least = 1e300, most = 0;
  bool bands = false;
  for (Curve& c : curves) {
    std::sort(c.points.begin(), c.points.end(),
              [](const Curve::Point& a, const Curve::Point& b) { return a.bytes < b.bytes; });
    for (Curve::Point& p : c.points) {
      if (p.low >= p.high) p.low = p.high = p.predicted;
      bands = bands || p.low < p.high;
      left = std::min(left, p.bytes);
      right = std::max(right, p.bytes);
      least = std::min({least, p.low, p.measured});
      most = std::max({most, p.high, p.measured});
    }
  }
  Sheet sheet(title,
              fmt::format("bus bandwidth over message size; dots: measured; line{0}: predicted{1}",
                          bands ? " and band" : "", bands ? ", 90 % prediction interval" : ""),
              left, right, least, most, decimal_bytes,
              [](double v) { return decimal_bytes(v) + "/s"; });
  for (std::size_t i = 0; i < curves.size(); ++i) {
    std::string up, down, line;
    for (const Curve::Point& p : curves[i].points) {
      up += sheet.to(up, p.bytes, p.high);
      down = sheet.to("L", p.bytes, p.low) + down;
      line += sheet.to(line, p.bytes, p.predicted);
    }
    if (bands)
      sheet.draw(
          fmt::format("<path d=\"{}{}Z\" fill=\"{}\" opacity=\"0.15\"/>\n", up, down, colour(i)));
    sheet.draw(fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                           line, colour(i)));
    for (const Curve::Point& p : curves[i].points) sheet.dot(p.bytes, p.measured, colour(i));
    if (curves.size() > 1) sheet.legend(i, curves[i].name);
  }
  return sheet.done();
}

std::string scatter_svg(const std::string& title, const std::string& unit,
                        const std::vector<Cloud>& clouds) {
  double least = 1e300, most = 0;
  for (const Cloud& c : clouds)
    for (const Cloud::Point& p : c.points) {
      least = std::min({least, p.x, p.y});
      most = std::max({most, p.x, p.y});
    }
  const auto text = [&](double v) { return fmt::format("{:g} {}", v, unit); };
  Sheet sheet(title,
              "predicted (up) over measured (right); on the line both are equal, dashed: 20 % off",
              least, most, least, most, text, text);
  const double from = std::pow(10, sheet.x.low),
               until = std::pow(10, sheet.x.high);  // both axes are alike
  sheet.draw(fmt::format(
      "<clipPath id=\"sheet\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>\n",
      kLeft, kTop, kWidth, kHeight));
  for (const double off : {1.0, 1.2, 1 / 1.2})
    sheet.draw(fmt::format(
        "<path d=\"{}{}\" fill=\"none\" stroke=\"#888\" clip-path=\"url(#sheet)\"{}/>\n",
        sheet.to("", from, from * off), sheet.to("L", until, until * off),
        off == 1 ? "" : " stroke-dasharray=\"4 4\""));
  for (std::size_t i = 0; i < clouds.size(); ++i) {
    for (const Cloud::Point& p : clouds[i].points) sheet.dot(p.x, p.y, colour(i));
    sheet.legend(i, clouds[i].name);
  }
  return sheet.done();
}

std::string front_svg(const std::string& title, const std::vector<Cloud>& clouds,
                      const std::vector<Cloud::Point>& front, double most_hours, double most_usd) {
  Cloud::Point least{1e300, 1e300}, most;
  const auto cover = [&](double x, double y) {
    if (x > 0) least.x = std::min(least.x, x), most.x = std::max(most.x, x);
    if (y > 0) least.y = std::min(least.y, y), most.y = std::max(most.y, y);
  };
  cover(most_hours, most_usd);
  for (const Cloud& c : clouds)
    for (const Cloud::Point& p : c.points) cover(p.x, p.y);
  Sheet sheet(
      title,
      "cost (up) over time (right); line: what no other beats in both, with its nodes; dashed: "
      "goal",
      least.x, most.x, least.y, most.y, [](double v) { return fmt::format("{:g} h", v); },
      [](double v) { return fmt::format("{:g} USD", v); });
  const auto limit = [&](double x0, double y0, double x1, double y1) {
    sheet.draw(fmt::format("<path d=\"{}{}\" stroke=\"#888\" stroke-dasharray=\"4 4\"/>\n",
                           sheet.to("", x0, y0), sheet.to("L", x1, y1)));
  };
  const double low = std::pow(10, sheet.y.low), left = std::pow(10, sheet.x.low);
  if (most_hours > 0) limit(most_hours, low, most_hours, std::pow(10, sheet.y.high));
  if (most_usd > 0) limit(left, most_usd, std::pow(10, sheet.x.high), most_usd);
  std::string line;
  for (const Cloud::Point& p : front) line += sheet.to(line, p.x, p.y);
  sheet.draw(
      fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"#888\" stroke-width=\"1.5\"/>\n", line));
  for (const Cloud::Point& p : front) sheet.write(p.x, p.y, p.beside);
  for (std::size_t i = 0; i < clouds.size(); ++i) {
    for (const Cloud::Point& p : clouds[i].points) sheet.dot(p.x, p.y, colour(i), p.what);
    sheet.legend(i, clouds[i].name);
  }
  return sheet.done();
}

void write_svg(const std::string& folder, const std::string& name, const std::string& svg) {
  make_folder(folder, kPictures);
  std::string stem;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c))) stem += c;
    else if (!stem.empty() && stem.back() != '-') stem += '-';
  constexpr std::size_t kMostLetters = 200;  // a file's name may have 255
  stem.resize(std::min(stem.size(), kMostLetters));
  const auto file = std::filesystem::path(folder) / (stem + ".svg");
  std::ofstream out(file, std::ios::binary);
  out << svg << std::flush;
  if (!out) throw file_error(file.string(), "cannot be written");
}

}  // namespace foreduce

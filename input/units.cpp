#include "input/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <span>

namespace foreduce {

const Unit UnitsOf<Seconds>::table[] = {{"ns", 1e-9},
                                        {"us", 1e-6},
                                        {"ms", 1e-3},
                                        {"s", 1},
                                        {"min", 60},
                                        {"h", 3600},
                                        {"d", 86400},
                                        {"second", 1, false},
                                        {"seconds", 1, false},
                                        {"minute", 60, false},
                                        {"minutes", 60, false},
                                        {"hour", 3600, false},
                                        {"hours", 3600, false},
                                        {"day", 86400, false},
                                        {"days", 86400, false},
                                        {"week", 604800, false},
                                        {"weeks", 604800, false},
                                        {nullptr, 0}};
const Unit UnitsOf<Bytes>::table[] = {
    {"B", 1},         {"KB", 1e3},         {"MB", 1e6},
    {"GB", 1e9},      {"TB", 1e12},        {"KiB", 1024},
    {"MiB", 1048576}, {"GiB", 1073741824}, {"TiB", 1099511627776.},
    {nullptr, 0}};
const Unit UnitsOf<BytesPerSecond>::table[] = {
    {"B/s", 1},        {"KB/s", 1e3},      {"MB/s", 1e6},         {"GB/s", 1e9},
    {"TB/s", 1e12},    {"MiB/s", 1048576}, {"GiB/s", 1073741824}, {"Kbps", 125},
    {"Mbps", 125e3},   {"Gbps", 125e6},    {"Tbps", 125e9},       {"Kb/s", 125},
    {"Mb/s", 125e3},   {"Gb/s", 125e6},    {"Tb/s", 125e9},       {"Kbit/s", 125},
    {"Mbit/s", 125e3}, {"Gbit/s", 125e6},  {"Tbit/s", 125e9},     {nullptr, 0}};
const Unit UnitsOf<Flop>::table[] = {
    {"GFLOP", 1e9}, {"TFLOP", 1e12}, {"PFLOP", 1e15}, {"EFLOP", 1e18}, {nullptr, 0}};
const Unit UnitsOf<FlopPerSecond>::table[] = {
    {"GFLOPS", 1e9}, {"TFLOPS", 1e12}, {"PFLOPS", 1e15}, {nullptr, 0}};
const Unit UnitsOf<DollarsPerHour>::table[] = {
    {"USD/h", 1}, {"$/h", 1}, {"USD/hour", 1, false}, {"$/hour", 1, false}, {nullptr, 0}};
const Unit UnitsOf<Count>::table[] = {
    {"", 1},    {"thousand", 1e3}, {"million", 1e6}, {"billion", 1e9}, {"trillion", 1e12},
    {"k", 1e3}, {"M", 1e6},        {"B", 1e9},       {"T", 1e12},      {nullptr, 0}};
const Unit UnitsOf<Dollars>::table[] = {{"USD", 1},
                                        {"$", 1},
                                        {"dollars", 1, false},
                                        {"$k", 1e3, false},
                                        {"$M", 1e6, false},
                                        {"k USD", 1e3, false},
                                        {"M USD", 1e6, false},
                                        {"thousand USD", 1e3, false},
                                        {"million USD", 1e6, false},
                                        {nullptr, 0}};

bool groups_thousands(const Unit* table) {
  return table == UnitsOf<Dollars>::table || table == UnitsOf<DollarsPerHour>::table ||
         table == UnitsOf<Count>::table;
}

std::string spellings(const Unit* table) {
  std::string all;
  for (; table->spelling; ++table)
    if (*table->spelling && table->offered)
      all += (all.empty() ? "" : ", ") + std::string(table->spelling);
  return all;
}

std::string exact_text(double base_units, const Unit* table) {
  std::string best;
  for (const Unit* unit = table; unit->spelling; ++unit) {
    if (!unit->offered) continue;
    const std::string number = fmt::format("{:.15g}", base_units / unit->worth);
    const std::string text = number + (*unit->spelling ? " " : "") + unit->spelling;
    double value = 0;
    std::string why;
    if (number.find('e') == std::string::npos && parse_number(number, value, why) &&
        value * unit->worth == base_units && (best.empty() || text.size() < best.size()))
      best = text;
  }
  return best.empty() ? fmt::format("{:.17g} {}", base_units / table->worth, table->spelling)
                      : best;
}

bool parse_number(const std::string& text, double& value, std::string& why) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  const char* digits = begin + (begin != end && *begin == '-' ? 1 : 0);
  if (end - digits > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9') {
    why = fmt::format("'{}' starts with a zero; write it without", text);
    return false;
  }
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value)) {
    why = fmt::format("'{}' is not a number", text);
    return false;
  }
  return true;
}

namespace {

/// "did you mean MiB, MB? " of "M" and "mib"; "" where no unit begins so.
std::string meant(const std::string& unit, const Unit* table) {
  const auto lower = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
  };
  // Eight bits and one are told apart: "50 GBps" is no 50 Gbps.
  std::string begin = unit;
  for (const auto& [other, usual] : {std::pair("Bytes", "B"), {"Bps", "B/s"}, {"/sec", "/s"}})
    if (const auto at = begin.find(other); at != std::string::npos)
      begin.replace(at, std::string_view(other).size(), usual);
  const bool exact = begin != unit;
  std::string all;
  for (; table->spelling; ++table)
    if (table->offered &&
        (exact ? begin == table->spelling : lower(table->spelling).starts_with(lower(begin))))
      all += (all.empty() ? "did you mean " : " or ") + std::string(table->spelling);
  return all.empty() || unit.empty() ? "" : all + "? ";
}

/// Removes the commas of the text's number. False where one does not stand in front of three
/// digits.
bool remove_commas(std::string& text) {
  const std::size_t begin = text.starts_with("$") ? 1 : 0,
                    end = std::min(text.size(), text.find_first_not_of("0123456789,", begin)),
                    first = std::min(end, text.find(','));
  if (first == end) return true;
  if (first == begin || first > begin + 3 || (end - first) % 4 != 0) return false;
  for (std::size_t i = first; i < end; ++i)
    if ((text[i] == ',') != ((i - first) % 4 == 0)) return false;
  std::erase(text, ',');
  return true;
}

/// "a size", "an amount of arithmetic".
std::string with_article(const std::string& kind) {
  return (std::string_view("aeiou").find(kind[0]) == std::string_view::npos ? "a " : "an ") + kind;
}

}  // namespace

bool parse_quantity(const std::string& text, const Unit* table, const char* kind,
                    double& base_units, std::string& why) {
  if (text.ends_with(' '))
    return parse_quantity(text.substr(0, text.find_last_not_of(' ') + 1), table, kind, base_units,
                          why);
  if (groups_thousands(table)) {
    std::string plain = text;
    if (!remove_commas(plain)) {
      why = fmt::format("'{}': three digits follow each comma of a number", text);
      return false;
    }
    if (plain != text) return parse_quantity(plain, table, kind, base_units, why);
  }
  if (text.starts_with("$")) {  // "$3.50/h": the sign belongs to the unit
    const auto unit = std::min(text.size(), text.find_first_not_of("0123456789. ", 1));
    if (unit > 1 && text[1] != ' ')
      return parse_quantity(text.substr(1, unit - 1) + " $" + text.substr(unit), table, kind,
                            base_units, why);
  }
  if (table == UnitsOf<Count>::table)  // "3 billion tokens": the key says which of them count
    for (const std::string_view counted : {" tokens", " samples"})
      if (text.ends_with(counted))
        return parse_quantity(text.substr(0, text.size() - counted.size()), table, kind, base_units,
                              why);
  auto split = text.find_first_not_of("+-0123456789.eE");
  // An e is of the number where an exponent follows: "1EB" has the unit EB.
  if (const auto e = text.find_first_of("eE");
      e != std::string::npos && e > 0 &&
      std::string_view("+-0123456789").find(e + 1 < text.size() ? text[e + 1] : ' ') ==
          std::string_view::npos)
    split = std::min(split, e);
  if (text.find_first_not_of(' ') == std::string::npos) {
    why = fmt::format("there is no number: {} is a number and a unit ({})", with_article(kind),
                      spellings(table));
    return false;
  }
  const std::string number = text.substr(
      0, split == std::string::npos ? text.size()
                                    : text.find_last_not_of(' ', split - (split > 0)) + 1);
  std::string unit =
      split == std::string::npos ? "" : text.substr(text.find_first_not_of(' ', split));
  if (split == 0 || number.empty()) {
    why = fmt::format("'{}' is not {}: a number and a unit ({})", text, with_article(kind),
                      spellings(table));
    return false;
  }
  double value = 0;
  if (!parse_number(number, value, why)) return false;
  if (unit.empty() && *table->spelling) {
    why = fmt::format("'{}' has no unit: {} is written with one of {}", text, with_article(kind),
                      spellings(table));
    return false;
  }
  for (const Unit* u = table; u->spelling; ++u)
    if (unit == u->spelling) {
      base_units = value * u->worth;
      return true;
    }
  why = fmt::format("'{}' is not a unit of {}; {}accepted: {}", unit, with_article(kind),
                    meant(unit, table), spellings(table));
  return false;
}

bool parse_size_range(const std::string& text, std::vector<Bytes>& sizes, std::string& why) {
  const auto size_of = [&](const std::string& word, Bytes& size) {
    const std::string trimmed = word.substr(std::min(word.size(), word.find_first_not_of(' ')));
    if (!parse_quantity(trimmed, UnitsOf<Bytes>::table, UnitsOf<Bytes>::kind, size.value, why))
      return false;
    if (size.value < 0 || size.value > kMostOf<Bytes>)
      why = fmt::format("'{}' is out of range: 0 B to {}", word,
                        exact_text(kMostOf<Bytes>, UnitsOf<Bytes>::table));
    return why.empty();
  };
  why.clear();
  const auto sign = std::min(text.find(".."), text.find(':'));
  Bytes low, high;
  if (sign == std::string::npos) {
    if (!size_of(text, low)) return false;
    sizes.push_back(low);
    return true;
  }
  const std::size_t after = sign + (text[sign] == '.' ? 2 : 1),
                    colon = std::min(text.size(), text.find(':', after));
  double factor = 2;
  if (!size_of(text.substr(0, sign), low) || !size_of(text.substr(after, colon - after), high))
    return false;
  if (colon < text.size() && (text[std::min(colon + 1, text.size() - 1)] != 'x' ||
                              !parse_number(text.substr(colon + 2), factor, why))) {
    why = "a range is low:high or low:high:xFACTOR";
    return false;
  }
  if (factor < 1.1 || low.value <= 0 || low > high) {
    why = "the range must rise, by a factor of at least 1.1";
    return false;
  }
  for (double s = low.value; s <= high.value * (1 + 1e-9); s *= factor)
    sizes.emplace_back(std::round(s));
  return true;
}

bool parse_money(const std::string& text, const Unit* table, const char* kind, double& amount,
                 std::string& currency, std::string& why) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 3> signs{
      {{"€", "EUR"}, {"£", "GBP"}, {"₹", "INR"}}};
  currency = "USD";
  std::string in_dollars = text;
  for (const auto& [sign, iso] : signs)
    if (const auto at = text.find(sign); at != std::string::npos) {
      currency = iso;
      in_dollars.replace(at, sign.size(), "$");
    }
  const auto capital = [&](std::size_t i) {
    return i < text.size() && text[i] >= 'A' && text[i] <= 'Z';
  };
  for (std::size_t from = 0, to = 0; from < text.size(); from = to + 1) {
    for (to = from; capital(to);) ++to;
    if (to - from != 3) continue;
    currency = text.substr(from, 3);
    in_dollars.replace(from, 3, "USD");
    break;
  }
  if (parse_quantity(in_dollars, table, kind, amount, why)) return true;
  if (in_dollars != text) parse_quantity(text, table, kind, amount, why);  // in the user's words
  const std::string after = std::string(table->spelling).substr(3);  // of the first, USD or USD/h
  if (text.find("/GPU") != std::string::npos || text.find("/gpu") != std::string::npos)
    why = fmt::format("'{}': a price is of a whole instance, which has several GPUs", text);
  else
    why += fmt::format("; or a currency's three letters{}, such as EUR{}",
                       after.empty() ? "" : " and " + after, after);
  return false;
}

namespace {
struct Step {
  double from;
  double worth;
  const char* unit;
};
std::string readable(double v, std::span<const Step> steps) {
  for (const Step& s : steps)
    if (std::abs(v) >= s.from) return fmt::format("{:.4g} {}", v / s.worth, s.unit);
  return fmt::format("{:.4g} {}", v / steps.back().worth, steps.back().unit);
}
}  // namespace

std::string to_text(Seconds s) {
  static constexpr std::array<Step, 7> steps{{{172800, 86400, "d"},
                                              {3600, 3600, "h"},
                                              {600, 60, "min"},
                                              {1, 1, "s"},
                                              {1e-3, 1e-3, "ms"},
                                              {1e-6, 1e-6, "us"},
                                              {0, 1e-9, "ns"}}};
  return readable(s.value, steps);
}
std::string to_text(Bytes b) {
  static constexpr std::array<Step, 4> steps{{{1073741824, 1073741824, "GiB"},
                                              {1048576, 1048576, "MiB"},
                                              {1024, 1024, "KiB"},
                                              {0, 1, "B"}}};
  return readable(b.value, steps);
}
std::string to_text(BytesPerSecond r) {
  static constexpr std::array<Step, 4> steps{
      {{1e12, 1e12, "TB/s"}, {1e9, 1e9, "GB/s"}, {1e6, 1e6, "MB/s"}, {0, 1, "B/s"}}};
  return readable(r.value, steps);
}
std::string to_text(FlopPerSecond r) { return fmt::format("{:.4g} TFLOPS", r.value / 1e12); }
std::string to_text(Count c) {
  if (c.value < 1000) return fmt::format("{:.4g}", c.value);
  static constexpr std::array<Step, 4> steps{{{1e12, 1e12, "trillion"},
                                              {1e9, 1e9, "billion"},
                                              {1e6, 1e6, "million"},
                                              {0, 1e3, "thousand"}}};
  return readable(c.value, steps);
}
std::string to_text(Dollars d) {
  if (d.value > 0 && d.value < 0.01) return fmt::format("{:.2g} USD", d.value);
  return d.value < 100 ? fmt::format("{:.2f} USD", d.value) : fmt::format("{:.0f} USD", d.value);
}
std::string to_text(DollarsPerHour d) { return fmt::format("{:.2f} USD/h", d.value); }

}  // namespace foreduce

#include "scenarios/validation/nccl_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <regex>

namespace foreduce::nccl_words {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

Words split(string_view line) {
  Words words;
  for (std::size_t at = 0; (at = line.find_first_not_of(" \t", at)) != string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

/// The cells of a line without what is around them: blanks, quotes, units, and the commas within
/// the numbers of a table that does not separate by commas. An empty cell is "N/A".
static std::vector<std::string> cells_of(string_view line, char between) {
  constexpr string_view kAround = " \t*`\"'";
  std::vector<std::string> cells;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find(between, at), line.size());
    string_view text = line.substr(at, end - at);
    at = end + 1;
    text.remove_prefix(std::min(text.find_first_not_of(kAround), text.size()));
    std::string cell(text.substr(0, text.find_first_of(" \t(*`\"'")));
    const Words behind = split(text.substr(cell.size()));
    if (!behind.empty() && binary_size(cell + std::string(behind[0])))
      cell += behind[0];  // "2 MiB" is no 2
    static const std::regex kGrouped(R"(\d{1,3}(,\d{3})+(\.\d+)?)");
    if (between != ',' && std::regex_match(cell, kGrouped)) std::erase(cell, ',');
    const bool edge = cells.empty() || at > line.size();  // "| a | b |" has two cells
    if (!cell.empty() || !edge) cells.push_back(cell.empty() ? "N/A" : std::move(cell));
  }
  return cells;
}

std::optional<CellLine> words_of_cells(string_view line) {
  for (const char between : {'|', ',', ';'}) {
    if (std::count(line.begin(), line.end(), between) + 1 < kFewestCells) continue;
    std::vector<std::string> cells = cells_of(line, between);
    if (std::ssize(cells) < kFewestCells) continue;
    if (cells[0].starts_with('#')) cells[0].erase(0, 1);
    const bool is_heading =
        lower(cells[0]) == "size" && lower(cells[1]) == "count" && lower(cells[2]) == "type";
    if (is_heading)
      for (std::string& cell : cells) cell = lower(cell);
    if (is_heading || (whole(cells[0]) && whole(cells[1]) && bytes_of(cells[2]) > 0))
      return CellLine{fmt::format("{}", fmt::join(cells, " ")), between, is_heading};
  }
  return std::nullopt;
}

bool begins_as_row_of(string_view line, char between) {
  const std::size_t first = line.find_first_not_of(" \t|*`\"'");
  return first != string_view::npos && line[first] >= '0' && line[first] <= '9' &&
         std::count(line.begin(), line.end(), between) + 1 >= kFewestCells;
}

bool lacks_sign(const Words& words) {
  if (words.size() < 3) return false;
  return words[0] == "nThread" || (words[0] == "size" && words[1] == "count") ||
         (words[0] == "Avg" && words[1] == "bus") || (words[0] == "Out" && words[1] == "of") ||
         (words[0] == "Collective" && words[2] == "starting:") ||
         (words[0] == "Rank" && std::find(words.begin(), words.end(), "device") != words.end());
}

std::string uneven_words(const std::map<std::string, int>& hosts) {
  const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [least, most] = std::minmax_element(hosts.begin(), hosts.end(), fewer);
  if (least == hosts.end() || least->second == most->second) return "";
  return fmt::format("{} on {}, {} on {}", most->second, most->first, least->second, least->first);
}

std::string without_colours(string_view line) {
  std::string plain;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] != '\x1b') {
      plain += line[at];
      continue;
    }
    if (at + 1 < line.size() && line[at + 1] == '[')
      for (++at; at + 1 < line.size() && (line[at + 1] < '@' || line[at + 1] > '~');) ++at;
    ++at;  // the letter that ends the sequence
  }
  return plain;
}

std::string without_tags(string_view line) {
  std::string plain(line);
  for (const string_view stream : {"<stdout>:", "<stderr>:"})
    for (std::size_t at = 0; (at = plain.find(stream, at)) != std::string::npos;) {
      const std::size_t open = plain.rfind('[', at);
      const std::size_t from =
          at > 0 && plain[at - 1] == ']' && open != std::string::npos ? open : at;
      plain.replace(from, at + stream.size() - from, " ");
      at = from;
    }
  return plain;
}

AskedRun asked_in(const Words& words) {
  const auto after = [&](string_view name) {
    const auto at = std::find(words.begin(), words.end(), name);
    return words.end() - at > 1 ? whole(at[1]) : std::nullopt;
  };
  constexpr double kMost = 1024;
  const double each = after("nThread").value_or(1) * after("nGpus").value_or(1);
  return {after("maxBytes").value_or(0), each >= 1 && each <= kMost ? static_cast<int>(each) : 1};
}

double half_digit(string_view word) {
  const std::size_t point = word.find('.');
  const std::size_t digits =
      point == string_view::npos ? 0 : word.find_first_not_of("0123456789", point + 1);
  const std::size_t end = digits == string_view::npos ? word.size() : digits;
  return point == string_view::npos ? 0.5
                                    : 0.5 * std::pow(10, -static_cast<double>(end - point - 1));
}

std::optional<double> number(string_view word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() || !std::isfinite(value) ||
      value < 0)
    return std::nullopt;
  return value;
}
std::optional<double> number_or_none(string_view word) {
  if (word.starts_with('-')) word.remove_prefix(1);
  if (word == "nan" || word == "inf") return std::numeric_limits<double>::infinity();
  return number(word);
}
std::optional<double> whole(string_view word) {
  if (word.empty() || word.size() > 15 || word.find_first_not_of("0123456789") != string_view::npos)
    return std::nullopt;
  return number(word);
}
std::optional<int> small(string_view word) {
  const auto value = whole(word);
  return value && *value <= kMaxRanks ? std::optional<int>(static_cast<int>(*value)) : std::nullopt;
}

std::optional<double> binary_size(string_view word) {
  const std::size_t digits = std::min(word.find_first_not_of("0123456789"), word.size());
  const auto value = whole(word.substr(0, digits));
  const string_view unit = word.substr(digits);
  constexpr string_view kPrefixes = "KMGT";
  if (!value || *value <= 0 || unit.empty()) return std::nullopt;
  const std::size_t prefix = kPrefixes.find(unit[0]);
  if (prefix == string_view::npos || (unit.substr(1) != "iB" && unit.substr(1) != "B"))
    return std::nullopt;
  const double bytes = *value * std::pow(1024, prefix + 1);
  return bytes <= kMaxSize ? std::optional(bytes) : std::nullopt;
}

std::optional<double> in_gbps(string_view word) {
  constexpr string_view kUnit = "GBps";
  if (!word.ends_with(kUnit)) return std::nullopt;
  return number(word.substr(0, word.size() - kUnit.size()));
}

std::string quoted_from(const Words& words, std::size_t first) {
  constexpr std::size_t kMostWords = 16;
  std::string text;
  for (std::size_t i = first; i < std::min(words.size(), first + kMostWords); ++i) {
    text += (i > first ? " " : "") + std::string(words[i]);
    const std::size_t open = text.find('\''), close = text.find('\'', open + 1);
    if (close != std::string::npos) return text.substr(open + 1, close - open - 1);
  }
  return "";
}

std::string dotted(const Words& words) {
  std::string text;
  for (string_view word : words) {
    word = word.substr(0, word.find_first_of(",)"));
    if (!small(word)) return "";
    text += (text.empty() ? "" : ".") + std::string(word);
  }
  return text;
}

double bytes_of(string_view type) {
  static const std::map<string_view, double> kTypes = {
      {"int8", 1},   {"uint8", 1},  {"char", 1},     {"int32", 4},   {"uint32", 4}, {"int", 4},
      {"int64", 8},  {"uint64", 8}, {"half", 2},     {"float", 4},   {"double", 8}, {"bfloat16", 2},
      {"f8e4m3", 1}, {"f8e5m2", 1}, {"fp8_e4m3", 1}, {"fp8_e5m2", 1}};
  const auto found = kTypes.find(type);
  return found == kTypes.end() ? 0 : found->second;
}

namespace {
/// How long the end of a test's name is; 0: it is none. NVIDIA's containers have
/// all_reduce_perf_mpi, which was built with MPI.
std::size_t suffix_of_test(string_view program) {
  for (const string_view suffix : {string_view("_perf"), string_view("_perf_mpi")})
    if (program.ends_with(suffix)) return suffix.size();
  return 0;
}
}  // namespace

std::string collective_of(string_view program) {
  program.remove_prefix(program.find_last_of('/') + 1);
  return std::string(program.substr(0, program.size() - suffix_of_test(program)));
}

std::vector<std::string> collectives_like(const TableSigns& signs) {
  enum class Factor { one, of_n, twice };  // 1, (n-1)/n, 2(n-1)/n
  struct Known {
    const char* name;
    bool reduces, rooted;
    Factor factor;
    bool checks_in_place = true;
  };
  static constexpr Known kAll[] = {{"all_reduce", true, false, Factor::twice},
                                   {"reduce_scatter", true, false, Factor::of_n},
                                   {"reduce", true, true, Factor::one},
                                   {"all_gather", false, false, Factor::of_n},
                                   {"alltoall", false, false, Factor::of_n, false},
                                   {"sendrecv", false, false, Factor::one, false},
                                   {"sendrecv", true, false, Factor::one, false},
                                   {"broadcast", false, true, Factor::one}};
  std::vector<std::string> all;
  for (const Known& k : kAll) {
    if (k.reduces != signs.reduces || k.rooted != signs.rooted ||
        signs.in_blocks.value_or(k.factor == Factor::of_n) != (k.factor == Factor::of_n) ||
        signs.in_place_checked.value_or(k.checks_in_place) != k.checks_in_place)
      continue;
    const auto fits = [&](int n) {
      const double times = k.factor == Factor::of_n ? 1 : 2,
                   f = k.factor == Factor::one ? 1 : times * (n - 1) / n;
      return f >= signs.low && f <= signs.high;
    };
    bool some = signs.ranks > 0 && fits(signs.ranks);
    for (int n = 2; signs.ranks == 0 && !some && n <= 65536; n += n < 4096 ? 1 : 4096)
      some = fits(n);
    if (some) all.emplace_back(k.name);
    if (!all.empty() && all[0] == "all_reduce") break;  // what most people measure
  }
  return all;
}

std::optional<Columns> columns_of(const Words& names) {
  Columns c;
  int half = -1;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const int at = static_cast<int>(i);
    const string_view name = without_tail(names[i]);
    if (name == "timestamp") {
      c.timestamp = true;
      continue;
    }
    c.words = i + 1;
    if (name == "redop") c.redop = at;
    if (name == "root") c.root = at;
    if (name == "time" || name == "cputime") {
      const bool begins = half < 0 || c.busbw[half] >= 0;
      const bool first = !begins && c.algbw[half] < 0;  // of two, that of the GPU counts
      if (begins ? ++half > 1 : !first || (name == "time" && !c.cpu_time)) return std::nullopt;
      if (begins || name == "time") {
        c.time[half] = at;
        c.cpu_time = name == "cputime";
      }
    }
    if (half >= 0 && name == "algbw" && c.algbw[half] < 0) c.algbw[half] = at;
    if (half >= 0 && name == "busbw" && c.algbw[half] >= 0 && c.busbw[half] < 0) c.busbw[half] = at;
    if ((name == "#wrong" || name == "error") && half >= 0) c.wrong[half] = at;
    c.largest_error = c.largest_error || name == "error";
  }
  return half < 0 || c.busbw[half] < 0 ? std::nullopt : std::optional(c);
}

std::optional<Columns> columns_like(const Words& words) {
  Columns c;
  std::size_t at = 1;
  if (words.size() > at && !number(words[at]) && words[at] != "-1" && words[at] != "N/A")
    c.redop = static_cast<int>(at++);
  std::size_t left = words.size() - std::min(at, words.size());
  if (left == 10 || left == 11 || left == 18 || left == 19) {  // a date and a time of day
    c.timestamp = true;
    left -= 2;
  }
  if (left % 8 == 1) {
    c.root = static_cast<int>(at++);
    --left;
  }
  if (left != 8 && left != 16) return std::nullopt;
  for (const int half : {0, 1}) {
    c.time[half] = static_cast<int>(at + static_cast<std::size_t>(half) * left / 2);
    c.algbw[half] = c.time[half] + 1;
    c.busbw[half] = c.time[half] + 2;
    c.wrong[half] = c.time[half] + 3;
  }
  c.words = at + left;
  return c;
}

bool launches(const Words& words) {
  constexpr string_view kLaunchers[] = {"mpirun", "mpiexec", "prterun", "srun", "torchrun"};
  return std::any_of(words.begin(), words.end(), [&](string_view word) {
    return std::find(std::begin(kLaunchers), std::end(kLaunchers), word) != std::end(kLaunchers);
  });
}

string_view test_in(const Words& words) {
  constexpr string_view kJudged[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                     "alltoall"};
  constexpr string_view kOthers[] = {"reduce", "sendrecv", "gather", "scatter", "hypercube"};
  const auto is_one = [](const auto& names, const std::string& name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  string_view last;
  if (!words.empty() && (words[0] == "Linking" || words[0] == "Compiling")) return last;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (suffix_of_test(words[i]) == 0) continue;
    const std::string name = collective_of(words[i]);
    const bool options = i + 1 < words.size() && words[i + 1].starts_with('-');
    if (is_one(kJudged, name) || (options && is_one(kOthers, name))) last = words[i];
  }
  return last;
}

string_view without_mark(string_view word) {
  const std::size_t open = word.rfind('[');
  const bool mark = word.ends_with(']') && open != string_view::npos &&
                    small(word.substr(open + 1, word.size() - open - 2));
  return mark ? word.substr(0, open) : word;
}

string_view without_tail(string_view word) {
  for (const string_view tail : {"\"", "<br>", "<br/>", "\\n'", "'"})
    if (word.size() > tail.size() && word.ends_with(tail)) word.remove_suffix(tail.size());
  return word;
}

std::string host_in(string_view line) {
  string_view before = line.substr(0, std::min(line.find(" ["), line.find(" NCCL ")));
  before = before.substr(before.find_last_of(" \t") + 1);
  for (int part = 0; part < 2; ++part) {
    const auto colon = before.find_last_of(':');
    if (colon == string_view::npos || !small(before.substr(colon + 1))) return "";
    before = before.substr(0, colon);
  }
  return std::string(before.substr(before.find_last_of(":>") + 1));
}

std::optional<double> amount(string_view word) {
  if (const auto number = whole(word)) return number;
  static const std::regex kGrouped(R"(\d{1,3}(,\d{3})+)"), kPrefixed(R"(\d+[KMGT]i?B?)");
  std::string text(word);
  if (std::regex_match(text, kGrouped)) {
    std::erase(text, ',');
    return whole(text);
  }
  if (!std::regex_match(text, kPrefixed)) return std::nullopt;
  return binary_size(text.back() == 'B' ? text : text + 'B');
}

bool is_value(string_view word) { return word == "N/A" || number_or_none(word).has_value(); }

string_view without_prefix(string_view word) { return word.substr(word.find_last_of(">:") + 1); }

std::optional<std::size_t> row_begins(const Words& words) {
  for (std::size_t i = 0; i + 2 < words.size(); ++i)
    if (bytes_of(without_mark(words[i + 2])) > 0 && amount(without_prefix(words[i])) &&
        amount(words[i + 1]))
      return i;
  return std::nullopt;
}

static std::size_t nccl_mark_in(string_view line) {
  std::size_t first = string_view::npos;
  for (const string_view mark : {" NCCL INFO ", " NCCL WARN ", " NCCL TRACE "})
    first = std::min(first, line.find(mark));
  return first;
}

bool is_of_nccl(string_view line) { return nccl_mark_in(line) != string_view::npos; }

std::size_t where_nccl_begins(string_view line, string_view host) {
  const std::size_t mark = nccl_mark_in(line);
  if (mark == string_view::npos) return 0;
  string_view before = line.substr(0, mark);
  if (before.ends_with(']')) before = before.substr(0, before.find_last_of('['));
  while (before.ends_with(' ')) before.remove_suffix(1);
  const std::size_t word = before.find_last_of(" \t") + 1;
  string_view head = before.substr(word);  // "-1host:41:41"
  for (int part = 0; part < 2; ++part) {
    const auto colon = head.find_last_of(':');
    if (colon == string_view::npos || !small(head.substr(colon + 1))) return 0;
    head = head.substr(0, colon);
  }
  std::size_t digits = 0;
  if (!host.empty() && head.ends_with(host)) {
    digits = head.size() - host.size();
  } else {
    static const std::regex kValue(R"(^(-?\d+(\.\d+)?(e[+-]\d+)?|N/A))");
    std::cmatch found;
    if (std::regex_search(head.data(), head.data() + head.size(), found, kValue) &&
        static_cast<std::size_t>(found.length()) < head.size())
      digits = static_cast<std::size_t>(found.length());
  }
  const string_view piece = line.substr(0, word + digits);
  const Words words = split(piece);
  constexpr std::size_t kHalf = 3;  // time, algbw and busbw, at least
  const bool half =
      words.size() >= kHalf && std::all_of(words.end() - kHalf, words.end(), is_value);
  return half || row_begins(words) ? piece.size() : 0;
}

Words whole_row(Words words, const std::optional<Columns>& columns) {
  for (string_view& word : words) word = without_tail(without_mark(word));
  std::erase(words, string_view());
  const auto is_root = [](string_view word) { return word == "-1" || number(word); };
  if (columns && columns->redop == 1 && words.size() > 1 && is_root(words[1]) &&
      words.size() + 1 == columns->words + (columns->timestamp ? 2 : 0))
    words.insert(words.begin() + 1, "none");
  return words;
}

}  // namespace foreduce::nccl_words

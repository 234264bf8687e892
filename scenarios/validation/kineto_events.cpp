#include "scenarios/validation/kineto_events.hpp"

#include <fmt/format.h>

#include <cmath>
#include <istream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "input/gunzip.hpp"
#include "input/json.hpp"
#include "input/units.hpp"

namespace foreduce {
namespace {

/// Takes the parser's calls. Names are short in traces; of longer ones the beginning is kept.
class EventReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit EventReader(const std::function<void(const TraceEvent&)>& each) : each_(each) {}

  TraceHead head;
  std::optional<std::size_t> wrong;  ///< byte at which it is no JSON
  std::string not_a_time;            ///< what stands for one instead; empty: nothing
  bool too_deep = false, has_events = false;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value), fmt::format("{}", value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value), fmt::format("{}", value));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    return number(value, text);
  }
  bool string(string_t& value) override {
    if (in_event()) {
      if (key_ == "ph") phase_ = value;
      else if (key_ == "cat") event_.category = value;
      else if (key_ == "name") event_.name = value.substr(0, 200);
      else if (key_ == "tid") event_.thread = value;
      else if (key_ == "ts" || key_ == "dur") return written_number(value);
    } else if (in_arguments()) {
      if (key_ == "Collective name") event_.collective = value.substr(0, 100);
      else if (key_ == "dtype") event_.type = value.substr(0, 100);
    } else if (where(1, "deviceProperties") && depth_ == 3 && key_ == "name" && head.gpu.empty()) {
      head.gpu = value.substr(0, 200);
    }
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    if (!open()) return false;
    if (in_event()) {
      event_ = {};
      phase_.clear();
    }
    return true;
  }
  bool key(string_t& value) override {
    key_ = value.substr(0, 100);
    return true;
  }
  bool end_object() override {
    if (in_event() && phase_ == "X" && std::isfinite(event_.start) && event_.duration >= 0)
      each_(event_);
    return close();
  }
  bool start_array(std::size_t) override {
    if (!open()) return false;
    has_events = has_events || (depth_ == 2 && where(1, "traceEvents"));
    return true;
  }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    wrong = position;
    return false;
  }

 private:
  bool open() {
    if (static_cast<std::size_t>(depth_) < std::size(path_)) path_[depth_] = key_;
    key_.clear();
    too_deep = ++depth_ > kMostJsonDepth;
    return !too_deep;
  }
  bool close() {
    --depth_;
    key_.clear();
    return true;
  }
  bool where(std::size_t level, const char* key) const { return path_[level] == key; }
  // The file's object, its list, an event, its arguments.
  bool in_event() const { return depth_ == 3 && where(1, "traceEvents"); }
  bool in_arguments() const { return depth_ == 4 && where(1, "traceEvents") && where(3, "args"); }

  /// Some tools write times as texts.
  bool written_number(const std::string& text) {
    double value = 0;
    std::string why;
    if (parse_number(text, value, why)) return number(value, text);
    not_a_time = fmt::format("{}: {}", key_, why.substr(0, 100));
    return false;
  }

  bool number(double value, const std::string& text) {
    if (in_event()) {
      if (key_ == "ts") event_.start = value;
      else if (key_ == "dur") event_.duration = value;
      else if (key_ == "tid") event_.thread = text;
    } else if (in_arguments()) {
      if (key_ == "correlation" && std::abs(value) < 9e15)
        event_.correlation = static_cast<long long>(value);
      else if (key_ == "In msg nelems") event_.elements = value;
      else if (key_ == "Group size" && value >= 0 && value < 1e8)
        event_.group = static_cast<int>(value);
    } else if (depth_ == 2 && where(1, "distributedInfo") && value >= 0 && value < 1e8) {
      if (key_ == "rank") head.rank = static_cast<int>(value);
      else if (key_ == "world_size") head.world = static_cast<int>(value);
    }
    return true;
  }

  const std::function<void(const TraceEvent&)>& each_;
  TraceEvent event_;
  std::string phase_, key_;
  int depth_ = 0;
  std::string path_[4];  // the keys of what is open, outermost first
};

/// Line and column of a byte of the unpacked text, which is read again up to there.
std::pair<int, int> place_of(const std::filesystem::path& file, std::size_t byte) {
  GunzipBuffer text(file);
  int line = 1, column = 1;
  for (std::size_t i = 1; i < byte; ++i) {
    const int c = text.sbumpc();
    if (c == std::char_traits<char>::eof()) break;
    if (c == '\n') {
      ++line;
      column = 0;
    }
    ++column;
  }
  return {line, column};
}

}  // namespace

TraceHead read_trace_events(const std::filesystem::path& file,
                            const std::function<void(const TraceEvent&)>& each) {
  GunzipBuffer buffer(file);
  std::istream text(&buffer);
  EventReader reader(each);
  if (!nlohmann::json::sax_parse(text, &reader)) {
    if (reader.too_deep)
      throw file_error(file, fmt::format("JSON more than {} levels deep", kMostJsonDepth));
    if (!reader.not_a_time.empty())
      throw file_error(file, "not a PyTorch trace: an event's " + reader.not_a_time);
    const auto [line, column] = place_of(file, reader.wrong.value_or(1));
    throw InputError(Problem{file.string(), line, column, "",
                             "not a PyTorch trace: not JSON from here on", "", ""});
  }
  if (!reader.has_events)
    throw file_error(file, "there are no traceEvents in it, which a PyTorch trace has",
                     "what torch.profiler's export_chrome_trace wrote");
  return reader.head;
}

}  // namespace foreduce

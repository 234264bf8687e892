#include "real/rendezvous_frames.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <climits>

namespace foreduce {
namespace {

using nlohmann::json;

constexpr std::string_view kMagic = "foreduce";
constexpr int kDepth = 16;  // settings need 3
constexpr std::size_t kHostName = 256;

/// A whole number in the range, under that key.
std::optional<int> whole(const json& message, const char* key, int at_least, int at_most) {
  const auto found = message.find(key);
  if (found == message.end() || !found->is_number_integer()) return std::nullopt;
  const auto value = found->get<std::int64_t>();
  if (value < at_least || value > at_most) return std::nullopt;
  return static_cast<int>(value);
}

std::optional<std::string> text(const json& message, const char* key) {
  const auto found = message.find(key);
  if (found == message.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

bool has_object(const json& message, const char* key) {
  const auto found = message.find(key);
  return found != message.end() && found->is_object();
}

}  // namespace

std::string encode_frame(const json& message) {
  const std::string body = message.dump(-1, ' ', false, json::error_handler_t::replace);
  std::string frame(kMagic);
  for (int shift = 24; shift >= 0; shift -= 8)
    frame += static_cast<char>(body.size() >> shift & 0xff);
  return frame + body;
}

std::optional<std::uint32_t> decode_frame_head(std::span<const char, kFrameHeadBytes> head,
                                               std::uint32_t at_most) {
  if (std::string_view(head.data(), kMagic.size()) != kMagic) return std::nullopt;
  std::uint32_t length = 0;
  for (const char byte : head.subspan<kMagic.size()>())
    length = length << 8 | static_cast<unsigned char>(byte);
  if (length > at_most) return std::nullopt;
  return length;
}

std::optional<json> decode_frame_body(std::string_view body) {
  bool deep = false;
  json message = json::parse(
      body,
      [&deep](int depth, json::parse_event_t, const json&) {
        deep = deep || depth > kDepth;
        return !deep;
      },
      false);
  if (deep || !message.is_object()) return std::nullopt;
  return message;
}

json Hello::message() const {
  return {{"process", process}, {"job", job}, {"token", token ? token->hex() : ""}};
}

std::optional<Hello> decode_hello(const json& message, int processes) {
  if (!message.is_object()) return std::nullopt;
  const auto process = whole(message, "process", 1, processes - 1);
  const auto job = text(message, "job"), token = text(message, "token");
  if (!process || !job || !token) return std::nullopt;
  Hello hello{*process, *job, RunToken::from_hex(*token)};
  if (!token->empty() && !hello.token) return std::nullopt;
  return hello;
}

json Introduction::message() const { return {{"settings", settings}, {"about", about}}; }

std::optional<Introduction> decode_introduction(const json& message) {
  if (!message.is_object() || !has_object(message, "settings") || !has_object(message, "about"))
    return std::nullopt;
  return Introduction{message.at("settings"), message.at("about")};
}

json MeetingAnswer::message() const {
  if (!gave_up.empty()) return {{"gave_up", gave_up}};
  return {{"everyone", everyone}, {"token", token.hex()}};
}

std::optional<MeetingAnswer> decode_answer(const json& message, int processes) {
  MeetingAnswer answer;
  if (const auto why = decode_give_up(message)) {
    answer.gave_up = *why;
    return answer;
  }
  const auto everyone = message.is_object() ? message.find("everyone") : message.end();
  if (everyone == message.end() || !everyone->is_array() ||
      everyone->size() != static_cast<std::size_t>(processes) ||
      !std::all_of(everyone->begin(), everyone->end(),
                   [](const json& about) { return about.is_object(); }))
    return std::nullopt;
  const auto hex = text(message, "token");
  const auto token = hex ? RunToken::from_hex(*hex) : std::nullopt;
  if (!token) return std::nullopt;
  answer.token = *token;
  answer.everyone = everyone->get<std::vector<json>>();
  return answer;
}

json ProcessAbout::message() const {
  return {{"host", host}, {"node", node}, {"addresses", addresses}};
}

std::optional<ProcessAbout> decode_about(const json& message, std::size_t ports) {
  if (!message.is_object()) return std::nullopt;
  const auto host = text(message, "host");
  const auto node = whole(message, "node", -1, INT_MAX);
  const auto addresses = message.find("addresses");
  if (!host || host->size() > kHostName || !node || addresses == message.end() ||
      !addresses->is_array() || addresses->size() != ports ||
      !std::all_of(addresses->begin(), addresses->end(),
                   [](const json& address) { return address.is_string(); }))
    return std::nullopt;
  return ProcessAbout{printable(*host), *node, addresses->get<std::vector<std::string>>()};
}

std::optional<std::string> decode_give_up(const json& message) {
  if (!message.is_object()) return std::nullopt;
  auto why = text(message, "gave_up");
  if (why && why->empty()) why = "it gave no reason";
  if (why) why = printable(*why);
  return why;
}

}  // namespace foreduce

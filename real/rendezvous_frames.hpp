// What the processes of a run say to each other when they meet: how it is written, and what is
// checked before anything in it is believed. Everything here is a pure function, and a fuzzer's
// target.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "input/printable.hpp"
#include "real/run_token.hpp"

namespace foreduce {

/// Bytes in front of a frame's body: a magic word, and the body's length.
constexpr std::size_t kFrameHeadBytes = 12;

/// The frame of a message: its head, and its body as JSON.
std::string encode_frame(const nlohmann::json& message);
/// How many bytes of body follow that head; nothing if it is none, or announces more than
/// `at_most`.
std::optional<std::uint32_t> decode_frame_head(std::span<const char, kFrameHeadBytes> head,
                                               std::uint32_t at_most);
/// The message in a frame's body: an object that is not nested deeply, or nothing.
std::optional<nlohmann::json> decode_frame_body(std::string_view body);

/// A process's first message to process 0, at once after it has connected.
struct Hello {
  int process = 0;
  std::string job;                ///< the launcher's name of the job
  std::optional<RunToken> token;  ///< the launcher's secret, if it gave one
  nlohmann::json message() const;
};
/// Reads a hello in a run of `processes`; nothing if the message is none, or is of no process that
/// process 0 waits for.
std::optional<Hello> decode_hello(const nlohmann::json& message, int processes);

/// A process's second message, when its ports are open.
struct Introduction {
  nlohmann::json settings, about;
  nlohmann::json message() const;
};
/// Reads an introduction; nothing if the message is none.
std::optional<Introduction> decode_introduction(const nlohmann::json& message);

/// Process 0's answer to all: what everyone said about itself by process, or why they cannot meet.
struct MeetingAnswer {
  std::vector<nlohmann::json> everyone;
  RunToken token;       ///< for what they send each other from now on
  std::string gave_up;  ///< empty: they have met
  nlohmann::json message() const;
};
/// Reads an answer in a run of `processes`; nothing if the message is none.
std::optional<MeetingAnswer> decode_answer(const nlohmann::json& message, int processes);

/// What a process says about itself.
struct ProcessAbout {
  std::string host;
  int node = -1;                       ///< the launcher's number of its host; -1: none
  std::vector<std::string> addresses;  ///< of its ports
  nlohmann::json message() const;
};
/// Reads it for a run whose processes have so many ports each; nothing if the message is none.
std::optional<ProcessAbout> decode_about(const nlohmann::json& message, std::size_t ports);

/// Why a process gives up, in a message; nothing if the message is about something else.
std::optional<std::string> decode_give_up(const nlohmann::json& message);

}  // namespace foreduce

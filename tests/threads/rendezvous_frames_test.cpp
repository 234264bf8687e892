// What is believed of other processes' messages, and how their text is shown.
#include <gtest/gtest.h>

#include <algorithm>

#include "real/endpoint_names.hpp"
#include "real/rendezvous_frames.hpp"

namespace foreduce {
namespace {

using nlohmann::json;

std::optional<std::uint32_t> length_of(const std::string& frame, std::uint32_t at_most) {
  return decode_frame_head(std::span<const char, kFrameHeadBytes>(frame.data(), kFrameHeadBytes),
                           at_most);
}

TEST(RendezvousFrames, KeepMessages) {
  const json message = {{"a", 1}, {"b", std::string(300, 'x')}};
  const std::string frame = encode_frame(message);
  EXPECT_EQ(length_of(frame, 1000), frame.size() - kFrameHeadBytes);
  EXPECT_EQ(length_of(frame, 300), std::nullopt);
  EXPECT_EQ(decode_frame_body(frame.substr(kFrameHeadBytes)), message);
  EXPECT_EQ(length_of("GET / HTTP/1.0", 1000), std::nullopt);
}

TEST(RendezvousFrames, AreObjects) {
  for (const char* body : {"", ",", "\",\"", "[]", "1", "null", "{", "{]", "{\"a\":}"})
    EXPECT_EQ(decode_frame_body(body), std::nullopt) << body;
  // Copying deeply nested JSON would run out of stack.
  std::string deep = "{\"a\":";
  deep += std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}";
  EXPECT_EQ(decode_frame_body(deep), std::nullopt);
}

TEST(RendezvousFrames, HellosComeFromProcessesOfTheRun) {
  const Hello hello{2, "job", RunToken{1, 2}};
  const auto decoded = decode_hello(hello.message(), 3);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->process, 2);
  EXPECT_EQ(decoded->job, "job");
  EXPECT_EQ(decoded->token, hello.token);
  EXPECT_EQ(decode_hello(Hello{2, "", std::nullopt}.message(), 3)->token, std::nullopt);
  EXPECT_FALSE(decode_hello(hello.message(), 2)) << "there is no process 2 of 2";
  for (const char* key : {"process", "job", "token"})
    for (const json& wrong : {json(), json("1"), json(1.5), json(-1), json(0), json(1u << 31),
                              json(~0ull), json::array()}) {
      if (std::string(key) == "job" && wrong.is_string()) continue;
      json message = hello.message();
      message[key] = wrong;
      EXPECT_FALSE(decode_hello(message, 3)) << message;
      message.erase(key);
      EXPECT_FALSE(decode_hello(message, 3)) << message;
    }
}

TEST(RendezvousFrames, IntroductionsHaveSettings) {
  const Introduction introduction{{{"a", 1}}, {{"b", 2}}};
  const auto decoded = decode_introduction(introduction.message());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->settings, introduction.settings);
  EXPECT_EQ(decoded->about, introduction.about);
  for (const char* message : {"{}", R"({"settings":{}})", R"({"settings":{},"about":[]})",
                              R"({"settings":1,"about":{}})", R"(",")"})
    EXPECT_FALSE(decode_introduction(json::parse(message))) << message;
}

TEST(RunTokens, AreThirtyTwoDigits) {
  const RunToken token = RunToken::random();
  EXPECT_EQ(RunToken::from_hex(token.hex()), token);
  EXPECT_FALSE(token == RunToken::random());
  EXPECT_FALSE((RunToken{1, 2} == RunToken{1, 3}));
  EXPECT_FALSE((RunToken{1, 2} == RunToken{0, 2}));
  EXPECT_EQ((RunToken{0xab, 1}.hex()), "00000000000000ab0000000000000001");
  for (const char* wrong :
       {"", "00", "00000000000000ab000000000000000g", "-0000000000000ab0000000000000001",
        "00000000000000ab00000000000000010"})
    EXPECT_FALSE(RunToken::from_hex(wrong)) << wrong;
}

TEST(RendezvousFrames, AnswersHaveEveryone) {
  MeetingAnswer answer;
  answer.token = {3, 4};
  answer.everyone = {{{"a", 1}}, {{"a", 2}}};
  const auto decoded = decode_answer(answer.message(), 2);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->everyone, answer.everyone);
  EXPECT_EQ(decoded->token, answer.token);
  EXPECT_EQ(decoded->gave_up, "");
  EXPECT_FALSE(decode_answer(json::parse(R"({"everyone":[{},{}]})"), 2)) << "no token";
  for (const char* message : {"{}", R"({"everyone":[]})", R"({"everyone":{}})", R"({"everyone":1})",
                              R"({"everyone":[{}]})", R"({"everyone":[{},{},{}]})",
                              R"({"everyone":[{},","]})", R"({"gave_up":1})", R"(",")", "[]"})
    EXPECT_FALSE(decode_answer(json::parse(message), 2)) << message;
  answer.gave_up = "why\x1b[2J";
  EXPECT_EQ(decode_answer(answer.message(), 2)->gave_up, "why\\x1b[2J");
  EXPECT_NE(decode_answer({{"gave_up", ""}}, 2)->gave_up, "") << "giving up needs no reason";
}

TEST(RendezvousFrames, ProcessesSayWhereTheyAre) {
  const ProcessAbout about{"host", 3, {"00ff", "01"}};
  const auto decoded = decode_about(about.message(), 2);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->host, "host");
  EXPECT_EQ(decoded->node, 3);
  EXPECT_EQ(decoded->addresses, about.addresses);
  EXPECT_FALSE(decode_about(about.message(), 1));
  EXPECT_FALSE(decode_about(about.message(), 3));
  for (const char* key : {"host", "node", "addresses"})
    for (const json& wrong : {json(), json(1.5), json(-2), json(1ull << 40), json::array({1, 2}),
                              json(std::string(1000, 'x'))}) {
      json message = about.message();
      message[key] = wrong;
      EXPECT_FALSE(decode_about(message, 2)) << message;
    }
}

TEST(EndpointNames, AreHexadecimal) {
  const std::vector<EndpointName> names = {{0, 255, 16}, {7}};
  EXPECT_EQ(encode_endpoint_names(names), "00ff10,07");
  EXPECT_EQ(decode_endpoint_names("00ff10,07"), names);
  for (const std::string& wrong :
       {std::string(), std::string(","), std::string("00,"), std::string(",00"), std::string("0"),
        std::string("0g"), std::string("-1"), std::string("+1"), std::string(1000, '0')})
    EXPECT_EQ(decode_endpoint_names(wrong), std::nullopt) << wrong;
}

TEST(Printable, EscapesWhatATerminalObeys) {
  EXPECT_EQ(printable("plain, 90 \xc2\xb5s\nsecond"), "plain, 90 \xc2\xb5s\nsecond");
  EXPECT_EQ(printable("\x1b]0;title\x07\r\b\t\x7f"), "\\x1b]0;title\\x07\\x0d\\x08\\x09\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "\\x9b2J");  // the same as ESC [
  EXPECT_EQ(printable(std::string(5000, 'x')).size(), 4004u);
}

}  // namespace
}  // namespace foreduce

// How processes meet, and what process 0 does with connections of other programs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "real/rendezvous.hpp"
#include "real/session.hpp"
#include "tests/real/real_support.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

int connect_to(const char* host, int port) {
  const int s = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = loopback(port);
  ::inet_pton(AF_INET, host, &address.sin_addr);
  if (::connect(s, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return s;
  ::close(s);
  return -1;
}

/// A frame with that body.
std::string frame_of(const std::string& body) {
  std::string frame = "foreduce";
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(body.size() >> shift);
  return frame + body;
}

TEST(Rendezvous, DropsConnectionsOfOtherPrograms) {
  RendezvousOptions options;
  options.port = free_port();
  options.processes = 2;
  options.job = "ours";
  options.timeout_s = 20;
  Rendezvous hub(options);
  EXPECT_EQ(connect_to("127.0.0.2", options.port), -1) << "it listens only on the given address";
  std::jthread others([&] {
    std::vector<std::string> frames = {"GET / HTTP/1.0\r\n\r\n",
                                       std::string("foreduce\xff\xff\xff\xff", 12),
                                       std::string("foreduce\0\0\0\2{]", 14),
                                       std::string(100000, '\0'),
                                       std::string("foreduce\0\0\0\2{}", 14),
                                       std::string("foreduce\0\0\0\1", 12),
                                       ""};
    for (const std::string hello :
         {R"({"process":1,"job":"theirs","token":""})", R"({"process":99,"job":"ours","token":""})",
          R"({"process":"1","job":"ours","token":""})", R"({"process":0,"job":"ours","token":""})",
          R"([1])"})
      frames.push_back(frame_of(hello));
    std::vector<int> sockets;
    for (const std::string& frame : frames) {
      const int s = connect_to("127.0.0.1", options.port);
      [[maybe_unused]] const auto sent = ::send(s, frame.data(), frame.size(), MSG_NOSIGNAL);
      sockets.push_back(s);
    }
    // A connection that sends a part of a frame and stops must not keep the real process out.
    const int slow = connect_to("127.0.0.1", options.port);
    [[maybe_unused]] const auto sent = ::send(slow, "fore", 4, MSG_NOSIGNAL);
    RendezvousOptions real = options;
    real.process = 1;
    Rendezvous member(real);
    const Meeting meeting = member.meet({{"a", 1}}, {{"name", "member"}});
    EXPECT_EQ(meeting.everyone.at(0)["name"], "hub");
    for (const int s : sockets) ::close(s);
    ::close(slow);
  });
  const Meeting meeting = hub.meet({{"a", 1}}, {{"name", "hub"}});
  ASSERT_EQ(meeting.everyone.size(), 2u);
  EXPECT_EQ(meeting.everyone[1]["name"], "member");
}

/// Process 0 of two that wait for each other on a free port, with a token.
RendezvousOptions two_processes() {
  RendezvousOptions options;
  options.port = free_port();
  options.processes = 2;
  options.token = RunToken::random();
  options.timeout_s = 20;
  return options;
}

/// Meets as process 1 in another thread. Returns what failed, or "(accepted)".
std::string joined(RendezvousOptions options) {
  options.process = 1;
  return error_of<TransportError>(
      [&] { Rendezvous(options).meet(nlohmann::json::object(), nlohmann::json::object()); });
}

TEST(Rendezvous, WithoutTheTokenNobodyTakesAPlace) {
  const RendezvousOptions options = two_processes();
  std::string stranger, other_token, member;
  {
    Rendezvous hub(options);
    const std::jthread others([&] {
      RendezvousOptions without = options, wrong = options;
      without.token.reset();
      wrong.token->low ^= 1;
      stranger = joined(without);
      other_token = joined(wrong);
      member = joined(options);
    });
    const Meeting meeting = hub.meet(nlohmann::json::object(), nlohmann::json::object());
    EXPECT_EQ(meeting.everyone.size(), 2u);
    EXPECT_FALSE(meeting.token == *options.token) << "each run has a token of its own";
  }
  EXPECT_SAYS(stranger, "another FOREDUCE_TOKEN");
  EXPECT_SAYS(other_token, "another FOREDUCE_TOKEN");
  EXPECT_EQ(member, "(accepted)");
}

/// Whether the other side has closed the connection.
bool closed(int socket) {
  char byte = 0;
  const auto got = ::recv(socket, &byte, 1, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN);
}

TEST(Rendezvous, IdleStrangersKeepNobodyOut) {
  const RendezvousOptions options = two_processes();
  Rendezvous hub(options);
  std::vector<int> idle;
  const std::jthread others([&] {
    for (int i = 0; i < 300; ++i) idle.push_back(connect_to("127.0.0.1", options.port));
    std::this_thread::sleep_for(std::chrono::seconds(1));
    EXPECT_EQ(std::count_if(idle.begin(), idle.end(), closed), 300 - 64);
    std::this_thread::sleep_for(std::chrono::seconds(5));
    EXPECT_EQ(std::count_if(idle.begin(), idle.end(), closed), 300);
    EXPECT_EQ(joined(options), "(accepted)");
  });
  EXPECT_EQ(hub.meet(nlohmann::json::object(), nlohmann::json::object()).everyone.size(), 2u);
  for (const int s : idle) ::close(s);
}

TEST(Rendezvous, WarnsIfItListensEverywhere) {
  NEEDS_OFI();
  const std::string port = std::to_string(free_port());
  const auto says_of = [&](const std::string& address) {
    return shell("RANK=0 WORLD_SIZE=2 MASTER_ADDR=" + address + " MASTER_PORT=" + port + " " +
                 kProgram + " run --transport ofi --timeout 0.5")
        .out;
  };
  EXPECT_SAYS(says_of("0.0.0.0"), "listens on all networks of this host");
  EXPECT_SAYS_NOT(says_of("127.0.0.1"), "listens on all networks");
}

/// Answers one connection's first frame with `body`, as process 0 would.
class FalseHub {
 public:
  explicit FalseHub(const std::string& body) {
    EXPECT_TRUE(socket_.listen());
    thread_ = std::jthread([this, body] {
      const int s = ::accept(socket_.socket(), nullptr, nullptr);
      char hello[16];
      [[maybe_unused]] const auto got = ::recv(s, hello, sizeof hello, 0);
      const std::string frame = frame_of(body);
      [[maybe_unused]] const auto sent = ::send(s, frame.data(), frame.size(), MSG_NOSIGNAL);
      while (::recv(s, hello, sizeof hello, 0) > 0) {
      }
      ::close(s);
    });
  }
  int port() const { return socket_.port(); }

 private:
  BoundSocket socket_;
  std::jthread thread_;
};

/// What the second of two processes says if process 0 answers that.
std::string failure_after(const std::string& answer) {
  const FalseHub hub(answer);
  ProcessPlace place;
  place.process = 1;
  place.processes = 2;
  place.port = hub.port();
  SessionOptions options;
  options.timeout_s = 10;
  return error_of<TransportError>([&] { const Session session(place, options); });
}

// Each of these ended the program with a segmentation fault, or with a word about JSON.
TEST(Rendezvous, ChecksTheAnswerOfProcess0) {
  NEEDS_OFI();
  for (const char* answer :
       {R"(",")", "{}", R"({"everyone":[]})", R"({"everyone":[{}]})", R"({"everyone":[1,2]})"})
    EXPECT_SAYS(failure_after(answer), "process 1: process 0 at 127.0.0.1");
  EXPECT_SAYS(failure_after(R"({"everyone":[{},{}],"token":"00000000000000000000000000000000"})"),
              "process 0 does not say what host it is on");
  for (const char* address : {",", "00", "zz", "0", "0200"}) {
    MeetingAnswer answer;
    answer.everyone = {ProcessAbout{"a", -1, {address}}.message(),
                       ProcessAbout{"b", -1, {address}}.message()};
    EXPECT_SAYS(failure_after(answer.message().dump()), "address of rank 0");
  }
}

TEST(Rendezvous, EscapesTheTextOfOthers) {
  NEEDS_OFI();
  const std::string why = failure_after(R"({"gave_up":"\u001b[2J\u009b31mgone"})");
  EXPECT_SAYS(why, "process 1: \\x1b[2J\\x9b31mgone");
  EXPECT_SAYS_NOT(why, "\x1b");
}

}  // namespace
}  // namespace foreduce

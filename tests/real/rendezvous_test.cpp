// How processes meet, and what process 0 does with connections of other programs.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "real/rendezvous.hpp"
#include "tests/real/real_support.hpp"

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
         {R"({"process":1,"job":"theirs","settings":{},"about":{}})",
          R"({"process":99,"job":"ours","settings":{},"about":{}})",
          R"({"process":"1","job":"ours"})",
          R"({"process":0,"job":"ours","settings":{},"about":{}})", R"([1])"})
      frames.push_back(std::string("foreduce\0\0\0", 11) + static_cast<char>(hello.size()) + hello);
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
    const auto about = member.meet({{"a", 1}}, {{"name", "member"}});
    EXPECT_EQ(about.at(0)["name"], "hub");
    for (const int s : sockets) ::close(s);
    ::close(slow);
  });
  const auto about = hub.meet({{"a", 1}}, {{"name", "hub"}});
  ASSERT_EQ(about.size(), 2u);
  EXPECT_EQ(about[1]["name"], "member");
}

}  // namespace
}  // namespace foreduce

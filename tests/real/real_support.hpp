// What several tests of real ranks share: runs of the program, sockets, and what reports must
// contain.
#pragma once

#include <arpa/inet.h>
#include <cstdint>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "real/ofi_port.hpp"
#include "tests/support/shell.hpp"
#include "tests/support/says.hpp"

namespace foreduce::test {

inline const std::string kProgram = FOREDUCE_PROGRAM;
inline Result run(const std::string& arguments) { return shell(kProgram + " run " + arguments); }

#define NEEDS_OFI()                                                            \
  if (!has_ofi())                                                              \
  GTEST_SKIP() << "this build has no libfabric: nothing between processes is " \
                  "tested"

/// Whether `run --algorithm mpi` can work here.
inline bool has_mpi() {
  return shell(kProgram + " list transports --format csv").out.find("mpi,yes") !=
             std::string::npos &&
         shell("command -v mpirun").status == 0;
}
#define NEEDS_MPI() \
  if (!has_mpi()) GTEST_SKIP() << "no MPI here: the baseline is not tested"

/// Expects that a run of two iterations has no wrong element.
inline void expect_exact(const std::string& arguments) {
  const Result r = run(arguments + " --check --warmup 0 --iterations 2 --format json");
  ASSERT_EQ(r.status, 0) << arguments << "\n" << r.out;
  const auto json = nlohmann::json::parse(r.out);
  ASSERT_FALSE(json["rows"].empty());
  for (const auto& row : json["rows"])
    for (const char* place : {"out_of_place", "in_place"}) {
      EXPECT_EQ(row[place]["wrong"], 0)
          << arguments << ": " << row["algorithm"] << " " << row["bytes"] << " " << place;
      EXPECT_EQ(row[place]["samples_s"].size(), 2u);
    }
}

/// What a failing rank must report: who waits for what, with which tag and size.
inline void expect_rank_report(const std::string& text) {
  EXPECT_SAYS(text, "rank ");
  EXPECT_TRUE(text.find("recv") != std::string::npos || text.find("send") != std::string::npos)
      << text;
  EXPECT_SAYS(text, "step ");
  EXPECT_SAYS(text, " bytes");
}

inline sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = ::htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  return address;
}

/// A socket on a free port of 127.0.0.1, which does not listen yet.
class BoundSocket {
 public:
  BoundSocket() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    ::bind(socket_, reinterpret_cast<sockaddr*>(&address), length);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ::ntohs(address.sin_port);
  }
  BoundSocket(const BoundSocket&) = delete;
  ~BoundSocket() { ::close(socket_); }
  int port() const { return port_; }
  int socket() const { return socket_; }
  bool listen() const { return ::listen(socket_, 1) == 0; }

 private:
  int socket_, port_ = 0;
};

/// A port that nobody listens on now.
inline int free_port() { return BoundSocket().port(); }

}  // namespace foreduce::test

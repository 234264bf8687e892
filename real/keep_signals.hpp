// Libraries below libfabric (libinfinipath) take over SIGINT and others and call exit() from their handlers, which runs
// destructors in whatever the process was doing. Whoever lets such a library in puts back what was there before.
#pragma once

#include <array>
#include <csignal>

namespace foreduce {

/// What every signal does when this is made is what it does again when this goes.
class KeepSignals {
 public:
  KeepSignals() {
    for (int s = 1; s < kSignals; ++s) ::sigaction(s, nullptr, &before_[static_cast<std::size_t>(s)]);
  }
  KeepSignals(const KeepSignals&) = delete;
  ~KeepSignals() {
    for (int s = 1; s < kSignals; ++s)
      ::sigaction(s, &before_[static_cast<std::size_t>(s)], nullptr);  // not of SIGKILL and SIGSTOP
  }

 private:
  static constexpr int kSignals = 32;
  std::array<struct sigaction, kSignals> before_{};
};

}  // namespace foreduce

// Restores signal handlers after a library is loaded. Libraries below libfabric (libinfinipath)
// catch SIGINT and other signals and call exit() in the handler, which runs destructors at any
// point of the program.
#pragma once

#include <array>
#include <csignal>

namespace foreduce {

/// The destructor restores the handlers that the constructor found.
class KeepSignals {
 public:
  KeepSignals() {
    for (int s = 1; s < kSignals; ++s)
      ::sigaction(s, nullptr, &before_[static_cast<std::size_t>(s)]);
  }
  KeepSignals(const KeepSignals&) = delete;
  ~KeepSignals() {
    for (int s = 1; s < kSignals; ++s)
      ::sigaction(s, &before_[static_cast<std::size_t>(s)],
                  nullptr);  // fails for SIGKILL and SIGSTOP, which have none
  }

 private:
  static constexpr int kSignals = 32;
  std::array<struct sigaction, kSignals> before_{};
};

}  // namespace foreduce

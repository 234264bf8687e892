// How the processes of a run find each other, compare their settings, and learn that one of them is
// gone. They form a star of TCP connections around process 0.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "real/run_token.hpp"

namespace foreduce {

struct RendezvousOptions {
  std::string address = "127.0.0.1";  ///< where process 0 listens, and only there
  int port = 29500;                   ///< torchrun's default
  int listening_socket =
      -1;  ///< process 0: a socket that listens already, whose owner chose the port
  int process = 0, processes = 1;
  std::string job;                ///< connections of other jobs are dropped; empty matches empty
  std::optional<RunToken> token;  ///< so are those with another token; none matches none
  /// A descriptor on which the launcher sends a ProcessEnd if a process ends before all have met;
  /// -1: there is none.
  int process_end_fd = -1;
  double timeout_s = 30;
};

/// What a process learns when all have met.
struct Meeting {
  std::vector<nlohmann::json> everyone;  ///< what they say about themselves, by process
  RunToken token;  ///< process 0 has drawn it: for what the processes send each other directly
};

/// One process's connection to the others. A frame is a magic word, a length and JSON. Process 0
/// drops connections that have not said hello after 5 s, the oldest of them if there are more than
/// 64, and those that say anything else; the first that it drops is reported on stderr. A
/// TransportError says which process did not come, differs or is gone.
class Rendezvous {
 public:
  explicit Rendezvous(const RendezvousOptions& options);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// This host's address on the path to process 0. For process 0, the address where it listens.
  std::string local_address() const;
  /// Meets the others. `settings` must be equal everywhere; everyone learns the others' `about`.
  Meeting meet(const nlohmann::json& settings, const nlohmann::json& about);
  /// From now on, `lost` is called with the reason when a process is gone or gave up: once, from a
  /// thread of the rendezvous.
  void watch(std::function<void(const std::string&)> lost);
  /// Reports to all others that this process gives up, and why.
  void give_up(const std::string& why);
  /// Waits until all processes have called it. Afterwards a lost connection is no failure.
  void leave();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace foreduce

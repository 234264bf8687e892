// How the processes of a run find each other, compare their settings, and learn that one of them is
// gone. They form a star of TCP connections around process 0.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace foreduce {

struct RendezvousOptions {
  std::string address = "127.0.0.1";  ///< where process 0 listens, and only there
  int port = 29500;                   ///< torchrun's default
  int listening = -1;  ///< process 0: a socket that listens already, whose owner chose the port
  int process = 0, processes = 1;
  std::string job;  ///< connections of other jobs are dropped; empty matches empty
  double timeout_s = 30;
};

/// One process's connection to the others. A frame is a magic word, a length and JSON. Process 0
/// drops connections that send anything else, announce too long a frame, or take longer than the
/// timeout. A TransportError says which process did not come, differs or is gone.
class Rendezvous {
 public:
  explicit Rendezvous(const RendezvousOptions& options);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// This host's address on the path to process 0. For process 0, the address where it listens.
  std::string local_address() const;
  /// Meets the others. `settings` must be equal everywhere; returns everyone's `about`, by process.
  std::vector<nlohmann::json> meet(const nlohmann::json& settings, const nlohmann::json& about);
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

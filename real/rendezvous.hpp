// How the processes of a run find each other, agree, and learn that one of them is gone: a star of TCP connections around process
// 0.
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
  int listening = -1;                 ///< process 0: a socket that listens already; its owner chose the port
  int process = 0, processes = 1;
  std::string job;  ///< connections of other jobs are dropped; empty matches empty
  double timeout_s = 30;
};

/// One process's place in the star. Frames are a magic word, a length and JSON; whatever speaks otherwise, promises too much or
/// takes over five seconds is dropped. Throws TransportError: who has not come, who disagrees about what, who is gone.
class Rendezvous {
 public:
  explicit Rendezvous(const RendezvousOptions& options);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// This host's address on the way to process 0 (for process 0: where it listens).
  std::string local_address() const;
  /// Meets the others. `settings` must be equal everywhere; returns everyone's `about`, by process.
  std::vector<nlohmann::json> meet(const nlohmann::json& settings, const nlohmann::json& about);
  /// From now on `lost` is called (once, from a thread of the rendezvous) when a process is gone or gave up, with the reason.
  void watch(std::function<void(const std::string&)> lost);
  /// Tells all others that this process gives up, and why.
  void give_up(const std::string& why);
  /// Waits until everyone has come this far; afterwards a lost connection is no failure.
  void leave();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace foreduce

// One process's part in a run: it meets the others, opens its ports and runs a function on each of its ranks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "real/launch.hpp"
#include "real/ofi_port.hpp"
#include "real/rendezvous.hpp"
#include "real/thread_backend.hpp"

namespace foreduce {

struct SessionOptions {
  int ranks_per_process = 1;    ///< workers, threads of each process, that reach each other through memory
  int servers_per_process = 0;  ///< reduction servers beside them
  int channels = 1;             ///< copies of the rank order in the layout
  double timeout_s = 30;        ///< for meeting, and for any wait without progress
  /// Where workers keep their data, by rank and number among this machine's workers; null: in the process's memory, as servers
  /// always do.
  std::function<std::unique_ptr<RankDevice>(int rank, int nth)> device = nullptr;
  OfiOptions network;                                  ///< how processes reach each other; not used by a single process
  nlohmann::json settings = nlohmann::json::object();  ///< must be equal in all processes
};

class Session {
 public:
  /// Throws TransportError if the processes cannot meet, disagree, or have no network in common.
  Session(const ProcessPlace& place, const SessionOptions& options);

  const ProcessPlace& place() const { return place_; }
  bool first() const { return place_.process == 0; }
  /// All workers, without and with the servers.
  const Layout& workers() const { return workers_; }
  const Layout& everyone() const { return everyone_; }
  /// How this process's devices reached the network so far: "FI_HMEM", "FI_HMEM in part" (memory that could not be registered went
  /// another way), or "through the host".
  std::string to_network() const;
  /// Host names by process.
  const std::vector<std::string>& hosts() const { return hosts_; }

  /// Runs `rank_function` on every rank of this process. If one fails here or elsewhere, all end, and the first reason is thrown.
  void run(const std::function<void(HostRank&)>& rank_function);
  /// After the last run: waits for the others, so that nobody hangs up on a slower one.
  void leave() { rendezvous_.leave(); }

 private:
  ProcessPlace place_;
  SessionOptions options_;
  HostRanks world_;
  Rendezvous rendezvous_;  // after the world: its thread breaks that up, and ends first
  Layout workers_, everyone_;
  std::vector<std::string> hosts_;
};

}  // namespace foreduce

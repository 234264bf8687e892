// One process of a run: it meets the other processes, opens its ports and runs a function on each
// of its ranks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "real/launch.hpp"
#include "real/ofi_port.hpp"
#include "real/rendezvous.hpp"
#include "real/rendezvous_frames.hpp"
#include "real/thread_backend.hpp"

namespace foreduce {

struct SessionOptions {
  int ranks_per_process =
      1;  ///< workers: threads of each process, which reach each other through memory
  int servers_per_process = 0;  ///< reduction servers beside them
  int channels = 1;             ///< copies of the rank order in the layout
  double timeout_s = 30;        ///< for meeting, and for any wait without progress
  /// Creates the device that a worker keeps its data on, from its rank and its number among this
  /// machine's workers. Null: workers keep their data in host memory, as servers always do.
  std::function<std::unique_ptr<RankDevice>(int rank, int local_rank)> device = nullptr;
  OfiOptions network;  ///< how processes reach each other; unused if there is only one
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
  /// How this process's devices reached the network so far: "FI_HMEM", "FI_HMEM in part" (some
  /// memory could not be registered and went through the host), or "through the host".
  std::string to_network() const;
  /// Host names by process.
  const std::vector<std::string>& hosts() const { return hosts_; }

  /// Runs `rank_function` on every rank of this process. If one fails here or elsewhere, all end,
  /// and the first reason is thrown.
  void run(const std::function<void(HostRank&)>& rank_function);
  /// After the last run: waits for the other processes, so that none closes a connection that a
  /// slower one still uses.
  void leave() { rendezvous_.leave(); }

 private:
  int ranks_each() const { return options_.ranks_per_process + options_.servers_per_process; }
  int rank_of(int process, int index) const;
  std::vector<std::unique_ptr<OfiPort>> open_ports() const;
  void lay_out(const std::vector<ProcessAbout>& about);
  std::vector<std::string> addresses_by_rank(const std::vector<ProcessAbout>& about) const;
  void create_ranks(std::vector<std::unique_ptr<OfiPort>> ports,
                    const std::vector<std::string>& addresses, const RunToken& token);

  ProcessPlace place_;
  SessionOptions options_;
  HostRanks ranks_;
  Rendezvous rendezvous_;  // after ranks_: its thread may stop them, and must end first
  Layout workers_, everyone_;
  std::vector<std::string> hosts_;
};

}  // namespace foreduce

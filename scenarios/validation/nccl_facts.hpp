// What NCCL says of how it ran, with NCCL_DEBUG=INFO.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "input/units.hpp"
#include "models/nccl_names.hpp"

namespace foreduce {

/// What NCCL carried the bytes over.
enum class NcclNetwork { unknown, efa, sockets, infiniband };
const char* name_of(NcclNetwork network);

/// What other_plugin says of HPE's Slingshot.
inline constexpr const char* kSlingshot = "libfabric:cxi";

/// How NCCL ran.
struct NcclFacts {
  std::string nccl_version, plugin_version;  ///< "2.23.4", "1.13.2" (aws-ofi-nccl)
  std::string platform;  ///< the instance type that aws-ofi-nccl says it runs on
  NcclNetwork network = NcclNetwork::unknown;
  /// Network cards that the plugin found, or that NCCL uses over InfiniBand, where the fewest and
  /// the most.
  std::optional<int> nics, most_nics;
  std::string nics_host;          ///< where it found the fewest; "" where the line names none
  bool plugin_over_tcp = false;   ///< aws-ofi-nccl took libfabric's TCP instead of EFA
  bool no_infiniband = false;     ///< NCCL found no InfiniBand card
  std::optional<int> channels;    ///< of the largest communicator
  int least_channels = 0;         ///< that lines of single channels name
  std::optional<bool> gpudirect;  ///< connections between nodes read GPU memory
  std::map<std::string, bool> gpudirect_of_host = {};  ///< the same of each host that is named
  /// "gpu37, gpu38": hosts whose connections do not, where those of others do; else "".
  std::string hosts_without_gpudirect() const;
  bool receives = false;  ///< a line is of a connection that receives
  /// "GPU 0 and HCA 3 (distance 7 > 4)": a pair that NCCL does without GPUDirect; "": none.
  std::string too_far;
  /// By host, the numbers of the cards that its connections go by.
  std::map<std::string, std::set<int>> cards_in_use;
  std::optional<bool> tuner;  ///< a tuner plugin chose algorithms
  std::optional<bool> nvls;   ///< the NVSwitches can reduce, on every node
  bool over_shm = false;      ///< GPUs of one node talk through host memory
  /// By bytes, what NCCL says that it chose for all-reduces (NCCL_DEBUG_SUBSYS=TUNING).
  std::map<double, NcclAlgoProto> chosen;
  /// NCCL's settings that change its speed, as the user's environment had them: NCCL_ALGO, Ring.
  std::map<std::string, std::string> settings;
  std::set<std::string> set_by_plugin;  ///< those that aws-ofi-nccl gave it
  /// The rates of the network cards that NCCL's graph has, one way, by its number of the card; of
  /// several nodes the slowest.
  std::map<int, BytesPerSecond> card_rates;
  bool blocking = false;   ///< -z 1: each call waits for the one before, and for all ranks
  bool efa_named = false;  ///< the plugin says that its provider is EFA
  /// A network plugin that is neither EFA's nor InfiniBand's nor NCCL's own: "GPUDirectTCPX_v7".
  std::string other_plugin;
  bool rccl = false;                  ///< AMD's library printed it
  std::vector<std::string> warnings;  ///< NCCL's, the first few that differ

  /// Whether there is any line of what NCCL did: its network, cards or channels.
  bool say_how() const {
    return network != NcclNetwork::unknown || nics || channels || !settings.empty();
  }
  /// The cards that NCCL_IB_HCA leaves it: "=mlx5_0,mlx5_1" two. Nothing where it does not list
  /// single cards.
  struct Cards {
    int least = 0;
    /// No more. Without "=" a name is of all cards that begin so: "mlx5_1" of mlx5_10, too.
    bool exact = true;
    bool operator==(const Cards&) const = default;
  };
  std::optional<Cards> cards_listed() const;
  /// Whether NCCL_IB_HCA names cards of InfiniBand or RoCE, or leaves some out ("mlx5",
  /// "^mlx5_8"). EFA's plugin has no use for it.
  bool names_rdma_cards() const;
  /// Of a setting; "" where it is not there.
  std::string setting(const std::string& name) const {
    const auto at = settings.find(name);
    return at == settings.end() ? "" : at->second;
  }
};

/// Adds what one line of the log says. Of several nodes the worst counts, whichever comes last.
void take_info(NcclFacts& facts, std::string_view line);

/// NCCL's settings of a command that starts a test: "mpirun -x NCCL_ALGO=Ring …", "export
/// NCCL_ALGO=Ring", "NCCL_ALGO=Ring ./build/all_reduce_perf …"; none where the line is no command.
std::map<std::string, std::string> settings_of_command(std::string_view line);

/// The settings of commands and shells in a log. What a shell exports stays for all runs that
/// follow, what stands in a command is of the next.
class CommandSettings {
 public:
  /// A line that NCCL did not write.
  void take(std::string_view line);
  /// The run has its first row: adds what it was started with. What NCCL itself said stays.
  void give_to(NcclFacts& facts);

 private:
  std::map<std::string, std::string> commanded_, exported_;
  bool test_seen_ = false;  // in a command, and no row of its run yet
};

}  // namespace foreduce

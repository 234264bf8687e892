// How a collective is sent: as NCCL would (its choice of algorithm, protocol, channels and
// chunks), or as one of our own algorithms would by the same transport.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "models/nccl_cost.hpp"

namespace foreduce {

/// How a library sends, beyond what the algorithm says.
struct Sending {
  std::shared_ptr<const Profile>
      profile;  ///< null: every link does what its data sheet says, a message costs its latency
  std::string protocol;      ///< of the profile; empty: none
  double channels_each = 1;  ///< of the library's channels that one connection here stands for
  double messages_each = 1;  ///< of the library's messages that one message here stands for
  double slots = 0;          ///< messages on the way on one connection at most; 0: no limit
  bool separate_halves =
      false;  ///< a double tree's two trees use connections of their own, as NCCL's channels do
  bool many_peers = false;  ///< a rank sends to many at once, see LinkClass::peer_overhead
  bool ring = false;        ///< a library's ring, see Protocol::ring_hop
  /// GPUs of a node through which data pass at once: they hand on every line as it comes, so that a
  /// chain of them takes a channel's time once.
  double chain = 1;
  /// Of the rate at which the switch adds and multicasts: fewer channels than the library takes by
  /// itself reach so much less.
  double switch_share = 1;
};

/// How many channels NCCL uses, of how many bytes its messages are.
struct NcclCut {
  double channels = 1;
  Bytes chunk;        ///< payload of one message on one channel
  double chunks = 1;  ///< that a channel's data is cut into (ring: each rank's chunk of them)
  double last = Segments::kFull;  ///< length of the last loop's chunks, see Plan::last
  double slots = 0;               ///< messages on the way on one channel's connection; 0: no limit
};
/// Of `bytes`, nccl-tests' size, by `choice`. Throws InputError if the profile lacks its protocol.
NcclCut nccl_cut(const Site& site, const NcclChoice& choice, Bytes bytes,
                 const NcclForced& forced = {});

/// By which a schedule is known: "ring" of ours, "ring LL128" of NCCL's.
struct ScheduleName {
  std::string_view algorithm = {};            ///< as the registry has it; empty: there is none
  std::optional<NcclProtocol> protocol = {};  ///< that NCCL takes; null: the algorithm is our own
  bool operator==(const ScheduleName&) const = default;
};

/// How one collective is run: by which algorithm, cut how, sent how.
struct Schedule {
  const Algorithm* algorithm = nullptr;
  Plan plan;  ///< complete: no field is 0
  Sending sending;
  std::optional<NcclProtocol> nccl;  ///< that NCCL takes; null: the algorithm is our own
  int nccl_channels = 0;             ///< that NCCL takes; 0: the algorithm is our own
  std::string why;                   ///< NCCL's: which rule chose it
  Seconds least = {};  ///< our own by a protocol of several: it hardly takes less; else 0

  ScheduleName name() const { return {algorithm->name, nccl}; }
};

/// As NCCL would run it. Throws InputError if the profile has no protocols, or for what is forced
/// and cannot run here.
Schedule nccl_schedule(const Site& site, Bytes bytes, const NcclForced& forced = {},
                       Collective collective = Collective::all_reduce);

/// As one of our own algorithms would run with that library's transport: by `protocol`, over as
/// many channels, cut as the algorithm says. Where `protocol` is empty it is one of those by which
/// `bytes` and the algorithm's chain of messages may be fastest: the likeliest at `place` 0, then
/// the next ones, and the likeliest again where there are no more. Without protocols, by its links'
/// latencies and rates alone.
Schedule own_schedule(const Algorithm& algorithm, const Plan& wanted, const Site& site, Bytes bytes,
                      const std::string& protocol = {}, std::size_t place = 0);

/// Why own algorithms cannot be sent by that protocol of the profile; empty where they can, and for
/// an empty protocol.
std::string protocol_unsupported(const Profile& profile, const Layout& layout,
                                 const std::string& protocol);

}  // namespace foreduce

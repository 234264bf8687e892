// A transport profile: what a message costs beyond what the machine's data sheet says, and how a
// library cuts data into messages. Written by hand from publications, or by a calibration; read by
// the simulator.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/core/collective.hpp"
#include "algorithms/core/layout.hpp"
#include "input/files.hpp"
#include "input/words.hpp"
#include "topologies/cluster.hpp"

namespace foreduce {

class YamlFile;

/// How a number is known.
enum class NumberOrigin : std::uint8_t {
  published,
  fitted,
  derived,
  recalled,
  data_sheet,
  assumed
};
template <>
struct EnumWords<NumberOrigin> {
  static constexpr EnumWord<NumberOrigin> all[] = {
      {NumberOrigin::published, "published"},   {NumberOrigin::fitted, "fitted"},
      {NumberOrigin::derived, "derived"},       {NumberOrigin::recalled, "recalled"},
      {NumberOrigin::data_sheet, "data sheet"}, {NumberOrigin::assumed, "assumed"}};
};

/// A number that is not certain: where it comes from, and within which bounds it lies.
template <class Q>
struct Estimated {
  Q value{};
  NumberOrigin origin = NumberOrigin::assumed;
  std::optional<std::array<Q, 2>> interval;  ///< 90 %; null where nobody knows
  std::string source;                        ///< publication, file or command
};

/// What a message crosses: the network, else NVLink, else PCIe, else host memory alone.
enum class PathClass : std::uint8_t { network, nvlink, pcie, host_memory };
inline constexpr std::size_t kPathClasses = 4;
const char* name_of(PathClass kind);

/// Efficiency of the links of one path class, and what a message over them costs.
struct LinkClass {
  std::optional<Estimated<Seconds>>
      latency;  ///< of a message over such a path, all hops together; null: the machine's own
  std::optional<Estimated<double>>
      efficiency;  ///< of the links' bandwidth that payload can reach; null: 1
  std::optional<Estimated<Seconds>> overhead;  ///< for which a message occupies its sender and its
                                               ///< receiver, instead of the NIC's own; null: 0
  std::optional<Estimated<Seconds>> peer_overhead;  ///< the same where a rank sends to many at
                                                    ///< once; null: `overhead`
  /// Bytes a second that a GPU's host thread moves, a message after the other: its copies between a
  /// network without access to GPU memory and buffers in host memory. One thread's job is what
  /// enters a node or what leaves it on one channel, where a node has GPUs enough for that; else
  /// the threads there are do it all. Null: they touch no data.
  std::optional<Estimated<BytesPerSecond>> proxy_rate;
};

/// One of a library's protocols: payload efficiency, cost of a hop, and chunk size.
struct Protocol {
  std::string name;  ///< LL, LL128, Simple
  /// Once a collective by this protocol, besides the profile's own launch; null: 0.
  std::optional<Estimated<Seconds>> launch;
  std::optional<Estimated<double>> efficiency;  ///< payload over bytes on the wire; null: 1
  std::optional<Estimated<Seconds>>
      hop;  ///< synchronisation that a message inside a node pays more; null: 0
  std::optional<Estimated<Seconds>> ring_hop;  ///< the same in a ring; null: `hop`
  std::optional<Estimated<Seconds>> net_hop;   ///< the same between nodes; null: 0
  /// Bytes on the wire from which net_hop is whole; it grows with the square root of the bytes up
  /// to there. Null: whole for every message.
  std::optional<Estimated<Bytes>> net_hop_whole_from;
  /// Bytes on the wire from which a message pays net_hop at all. Null: any does.
  std::optional<Estimated<Bytes>> net_hop_from;
  /// In place of net_hop in a ring over InfiniBand or RoCE, where the GPU matters, and from how
  /// many bytes on the wire it is whole, as net_hop_whole_from; null: net_hop and its own.
  std::optional<Estimated<Seconds>> rdma_ring_hop;
  std::optional<Estimated<Bytes>> rdma_ring_hop_whole_from;
  std::optional<Estimated<Seconds>>
      overhead;  ///< for which a message between nodes occupies either end more; null: 0
  /// Bytes on the wire a second that the sender's host thread handles for one channel, a message
  /// after the other, between nodes: of LL it checks the flag of every eight bytes. Null: no limit.
  std::optional<Estimated<BytesPerSecond>> proxy_rate;
  std::optional<Estimated<Seconds>>
      gap;  ///< for which a connection between nodes rests after a message; null: 0
  /// Bytes on the wire from which the gap is whole; it grows with the square root of the bytes up
  /// to there. Null: whole after every message.
  std::optional<Estimated<Bytes>> gap_whole_from;
  /// For which a connection rests after a message on one node: the threads of a channel signal and
  /// wait between two slices, and all channels do so at a time. What switches sum does not wait;
  /// between nodes the fit of the network's numbers contains it. Null: 0.
  std::optional<Estimated<Seconds>> gap_one_node;
  std::optional<Estimated<Bytes>>
      gap_from;  ///< whole after messages of so many bytes on the wire or more, where a network
                 ///< asks the receiver first, and not after those of half as many; null: after all
  std::optional<Estimated<Bytes>>
      chunk;  ///< payload of one message at most; null: the algorithm's own choice
  std::optional<Estimated<double>>
      slots;  ///< messages on the way on a connection at most; null: no limit
  std::optional<Estimated<BytesPerSecond>>
      channel_rate;  ///< payload that one channel can move; null: no limit
  /// The same of what goes between nodes, where a channel's threads write it into host memory and
  /// read it from there.
  std::optional<Estimated<BytesPerSecond>> net_channel_rate;
  bool one_node = false;  ///< only used inside one node
};

/// A kind of cluster that predictions were compared on.
struct Compared {
  std::string instance;    ///< an instance type; of a fabric, a family of GPUs: "H100"
  std::vector<int> nodes;  ///< on how many, ascending
  int per_node_least = 8, per_node_most = 8;  ///< GPUs in use on each node
};

/// How well a profile's predictions fit what was published, for one range of sizes.
struct Accuracy {
  Collective collective = Collective::all_reduce;  ///< that was compared
  Bytes least, most;                               ///< sizes that it was made from
  std::vector<Compared> compared;
  double spread =
      1;  ///< 90 % of published times lie within predicted / spread … predicted x spread
  std::optional<double> spread_other_nodes;  ///< the same on numbers of nodes that the fit lacks
  int points = 0;
  bool seen = false;   ///< compared only with the points of its own fit, for there is one source
  std::string source;  ///< what was compared
};

struct Profile {
  std::string name, note;
  std::string library;                 ///< "foreduce" or "NCCL 2.23+": whose transport this is
  std::vector<std::string> instances;  ///< instance types it was made for; empty: any
  std::optional<Fabric> fabric;        ///< between nodes that its numbers are for; null: any
  bool needs_fabric = false;  ///< it has none of its own, and must be joined to one's profile
  std::string nccl_release;   ///< that NCCL's choice follows where the question names none, as its
                              ///< numbers were fitted with it: "2.19"; empty: the newest known
  std::vector<std::string> nearest_for;  ///< GPU families of other machines that it stands in for
  bool several_kinds = false;  ///< these differ so much that one says little about the others
  std::optional<Estimated<Seconds>>
      launch;  ///< once an all-reduce: kernel launch, first and last synchronisation
  std::optional<Estimated<BytesPerSecond>>
      reduce_bandwidth;  ///< of a device; null: the machine's own
  std::optional<Estimated<double>> channels, channels_one_node, channels_nvls,
      channels_nvls_one_node;                  ///< that the library runs side by side
  std::optional<Estimated<double>> in_switch;  ///< of NVLink's bandwidth that reduction in the
                                               ///< switch reaches; null: as other messages
  std::optional<Estimated<double>> in_switch_one_node;  ///< the same of one host; null: alike
  /// What a chunk takes longer to go into or out of the switch, whatever its size: the flags
  /// between GPUs and between a channel's warps. Null: 0.
  std::optional<Estimated<Seconds>> in_switch_sync;
  std::optional<Estimated<Seconds>> in_switch_sync_one_node;  ///< of one host; null: alike
  std::array<LinkClass, kPathClasses> links;                  ///< by PathClass
  std::vector<Protocol> protocols;
  std::vector<Accuracy> accuracy;  ///< by size; empty: never compared with anything

  std::filesystem::path file;  ///< where it was read; empty: made here

  /// Channels of an all-reduce over so many nodes, by NVLS or not; null where nothing is known.
  const std::optional<Estimated<double>>& channels_over(int nodes,
                                                        SummedBy by = SummedBy::gpus) const {
    return by == SummedBy::switches ? nodes > 1 ? channels_nvls : channels_nvls_one_node
           : nodes > 1              ? channels
                                    : channels_one_node;
  }
  const LinkClass& of(PathClass kind) const { return links[static_cast<std::size_t>(kind)]; }
  LinkClass& of(PathClass kind) { return links[static_cast<std::size_t>(kind)]; }
  /// The protocol of that name, or null.
  const Protocol* protocol(const std::string& name) const;
  /// Whether every machine does exactly what its own file says.
  bool ideal() const;
  /// Whether its numbers are for clusters with that fabric between nodes.
  bool holds_over(Fabric between) const { return !needs_fabric && (!fabric || fabric == between); }
};

using ProfilePtr = std::shared_ptr<const Profile>;

/// The value, or `otherwise` if there is none.
template <class Q>
Q value_or(const std::optional<Estimated<Q>>& estimated, Q otherwise) {
  return estimated ? estimated->value : otherwise;
}

/// Reads and checks a profile; throws InputError.
Profile load_profile(const std::filesystem::path& file);
/// The same of a file that was read already.
Profile read_profile(YamlFile file);
/// As YAML that load_profile() reads back to the same values (nine digits).
std::string to_yaml(const Profile& profile);

/// Every field of a profile, exactly: equal texts mean equal profiles.
std::string text_of(const Profile& profile);

/// A free parameter of a fit: a number of a profile whose origin is fitted.
struct FreeParameter {
  std::string name;         ///< "links.network.latency"
  double* value = nullptr;  ///< in the profile; base units
  double upper_bound = 0;   ///< 1 of an efficiency, else infinite
  double start = 0;  ///< initial value of a fit: the same for every profile, so that a fit without
                     ///< a source knows nothing of it
  std::optional<std::array<double, 2>>
      interval;  ///< 90 % confidence interval of the profile's value
  /// Sets interval and source in the profile.
  std::function<void(std::optional<std::array<double, 2>> interval, const std::string& source)>
      set_interval;
};
/// All free parameters of `profile`, in the order of its fields. They point into it.
std::vector<FreeParameter> free_parameters(Profile& profile);

/// The profile of the same library and GPU over another fabric: `fabric` says what a message costs
/// between nodes, for each protocol that it names, and `gpu` everything else. The name is that of
/// both, joined by "+".
Profile over_fabric(Profile gpu, const Profile& fabric);

/// A profile's latencies are those of the machines it was made on. Of one whose file begins with an
/// instance type (Machine::like) and has other latencies they are longer or shorter by as much as
/// its own paths are.
Profile with_latencies_of(Profile profile, const Machine& machine);

/// The profiles that ship; same conventions as Catalogue. "ideal" is always among them.
class Profiles {
 public:
  explicit Profiles(std::filesystem::path folder = data_folder() / "models");
  /// Of libraries on GPUs, each with the fabric that it was calibrated on.
  const std::vector<std::string>& names() const { return names_; }
  /// Of fabrics, which load() joins to one of names(): "nccl-h100+infiniband".
  const std::vector<std::string>& fabrics() const { return fabrics_; }
  /// By name, or a file ("./mine.yaml"). Throws InputError for an unknown one.
  Profile load(const std::string& name) const;
  /// A fabric's numbers alone. Throws InputError for an unknown one.
  Profile load_fabric(const std::string& name) const;
  /// The one that was made for this instance type and starts with `library` ("NCCL"); "ideal" if
  /// there is none.
  Profile made_for(const std::string& instance, const std::string& library = "NCCL") const;
  /// The same, and where none is made for such a machine the one for its GPU, or else for the GPU
  /// nearest to it; over the machine's own fabric, where that is another than the profile's. With
  /// the machine's own latencies, see with_latencies_of().
  Profile nearest_to(const Machine& machine) const;
  /// NCCL's profile of the GPUs nearest to the machine's by bandwidth of NVLink and of memory, or,
  /// without NVLink, of those that have none either. `except` is passed over. "ideal" if there is
  /// no other, and where the machine's file does not say its GPU's memory bandwidth.
  Profile nearest_by_bandwidth(const Machine& machine, const std::string& except = {}) const;

 private:
  std::filesystem::path folder_;
  std::vector<std::string> names_, fabrics_;
};

}  // namespace foreduce

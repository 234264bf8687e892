// One machine as a file describes it: GPUs, NVLink, host, PCIe, NICs, price. The EC2 catalogue and
// a user's own machine have the same form and go through the same checks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "input/fields.hpp"
#include "input/files.hpp"

namespace foreduce {

struct Price {
  DollarsPerHour on_demand;          ///< us-east-1, Linux
  std::string date;                  ///< when it was read, YYYY-MM-DD; empty: nobody says
  DollarsPerHour before_2025_06{0};  ///< before the price cut of June 2025; 0: unknown or unchanged
};
/// A price may be written without its map.
inline DollarsPerHour& short_form(Price& price) { return price.on_demand; }

struct Gpu {
  std::string model;
  int count = 0;
  Bytes memory;
  BytesPerSecond memory_bandwidth;
  FlopPerSecond fp16, fp32;         ///< dense peak; fp16 is the tensor-core rate for fp16 and bf16
  BytesPerSecond reduce_bandwidth;  ///< bytes of arriving data that one GPU can reduce per second
  bool fp8 = false;                 ///< whether it has FP8 tensor cores: from Ada and Hopper on
  int sms = 0;       ///< streaming multiprocessors, for the interference of communication kernels
  bool bf16 = true;  ///< whether it computes in bf16 (NVIDIA: from the A100 on)
  /// Whether a file that starts from another machine (`like:`) gives the model another peak or
  /// memory bandwidth: what was measured on that model is not of it.
  bool altered = false;
};

/// "H100" of "H100-SXM5-80GB".
std::string family_of(const Gpu& gpu);
/// Whether a GPU's model is called that, or begins with it as a whole word: "A100", "A100-SXM" and
/// "A100-SXM4" are of "A100-SXM4-40GB", and "A10" is not.
bool is_model(const std::string& model, const std::string& called);

/// The most GPUs of a node that a scenario or a command may ask for. The largest NVLink domain
/// that is sold has 72.
inline constexpr int kMostGpusANode = 128;

/// How the GPUs of a node are linked.
enum class NvLinkKind : std::uint8_t {
  through_switch,  ///< NVSwitch: any pair at full port speed
  mesh             ///< the listed edges
};
template <>
struct EnumWords<NvLinkKind> {
  static constexpr EnumWord<NvLinkKind> all[] = {{NvLinkKind::through_switch, "switch"},
                                                 {NvLinkKind::mesh, "mesh"}};
};

/// Direct links between the GPUs of a node.
struct NvLink {
  NvLinkKind kind = NvLinkKind::through_switch;
  int links = 0;             ///< per GPU
  BytesPerSecond bandwidth;  ///< of one link, one direction
  Seconds latency;           ///< of one message over one hop, software included
  bool multicast = false;    ///< the switch can sum what GPUs send and multicast to them (NVLS:
                             ///< NVSwitch 3 and later)
  int hosts = 1;             ///< whose GPUs the switch joins to one node, as NCCL has it (MNNVL)
  std::vector<std::vector<int>> edges;  ///< mesh: [gpu, gpu, links]
};

struct Host {
  std::string cpu;
  int sockets = 1;
  BytesPerSecond memory_bandwidth;  ///< sustained, per socket, reads and writes together
  BytesPerSecond
      interconnect;  ///< between sockets, one direction (QPI, UPI, xGMI); unused with one socket
  BytesPerSecond
      reduce_bandwidth;  ///< bytes of arriving data that one socket can reduce per second
};

struct PcieSwitch {
  int socket = 0;
  std::vector<int> gpus, nics;
};

/// A PCIe link that is slower than its neighbours: a x16 that came up as x8, or a generation lower.
struct SlowLink {
  std::string device;  ///< whose link: "gpu3" or "nic0", as links are named in reports
  double share = 1;    ///< of the bandwidth that it should have
};

struct Pcie {
  BytesPerSecond bandwidth;  ///< of every link of the tree, one direction, as achieved
  BytesPerSecond uplink{
      0};           ///< between a switch and its socket, where that is narrower; 0: as the others
  Seconds latency;  ///< of one crossing
  std::vector<PcieSwitch> switches;
  std::vector<SlowLink> slow_links;

  /// The bandwidth of a device's own link; `kind` is gpu or nic.
  BytesPerSecond link_of(const char* kind, int device) const;
};

/// What a machine file says that its cards speak.
enum class NicFabric : std::uint8_t { efa, tcp, infiniband, roce };
template <>
struct EnumWords<NicFabric> {
  static constexpr EnumWord<NicFabric> all[] = {{NicFabric::efa, "efa"},
                                                {NicFabric::tcp, "tcp"},
                                                {NicFabric::infiniband, "infiniband"},
                                                {NicFabric::roce, "roce"}};
};

/// What is between nodes, as far as predictions tell fabrics apart.
enum class Fabric : std::uint8_t {
  efa,       ///< that reads GPU memory
  efa_host,  ///< EFA from host memory
  tcp,
  rdma  ///< InfiniBand and RoCE
};
template <>
struct EnumWords<Fabric> {
  static constexpr EnumWord<Fabric> all[] = {{Fabric::efa, "efa"},
                                             {Fabric::efa_host, "efa-host"},
                                             {Fabric::tcp, "tcp"},
                                             {Fabric::rdma, "rdma"}};
};

struct Nic {
  int count = 1;
  BytesPerSecond bandwidth;              ///< of one NIC, one direction
  BytesPerSecond baseline_bandwidth{0};  ///< the baseline of a burstable NIC; 0: not burstable
  Seconds latency;                       ///< of one message between two hosts, software included
  Seconds message_overhead{0};  ///< how long a message of any size occupies a NIC beyond its bytes
  int efa = 0;                  ///< generation of EFA; 0: another network
  std::optional<NicFabric> fabric;      ///< null: see Machine::fabric()
  bool gpudirect = false;               ///< NIC reads GPU memory; otherwise data cross host memory
  BytesPerSecond flow_limit{0};         ///< of one flow (ENA in a cluster placement group); 0: none
  BytesPerSecond flow_limit_spread{0};  ///< the same outside a placement group; 0: as flow_limit
  int flows = 1;                        ///< parallel flows a connection uses
  std::vector<std::string>
      efa_peers;  ///< the only instance types that it can talk EFA to; empty: any
};

struct Machine {
  std::string name, note;
  std::optional<Price> price;
  std::optional<Gpu> gpu;
  std::optional<NvLink> nvlink;
  std::optional<Host> host;
  std::optional<Pcie> pcie;
  Nic nic;

  std::string like;       ///< the instance type that its file starts from (`like:`); empty: none
  bool textbook = false;  ///< made by flat(): nobody can measure it

  std::filesystem::path file;                ///< where it was read
  std::vector<std::filesystem::path> bases;  ///< files that `like:` named on the way, nearest first
  std::vector<YamlFile::Citation> citations;  ///< the source of each number

  /// What its cards speak. Where a file says nothing, a card that reads GPU memory has RDMA.
  Fabric fabric() const;
  /// Whose profile and whose published runs are its: what it is like, else its own name.
  const std::string& type() const { return like.empty() ? name : like; }
  int gpus() const { return gpu ? gpu->count : 0; }
  bool cpu_only() const { return gpus() == 0; }
  /// The same machine with its first `count` GPUs in use. Throws InputError if it has fewer.
  Machine with_gpus(int count) const;
  /// The same machine with `count` of its NICs, as many as possible of each PCIe switch. Throws
  /// InputError if it has fewer.
  Machine with_nics(int count) const;
  /// The same machine with some of its devices' PCIe links slower. Throws InputError if it has no
  /// such device.
  Machine with_slow_links(const std::vector<SlowLink>& links) const;
  /// A flat switch port: one GPU, one NIC, nothing in between. The α-β-γ network of textbooks.
  static Machine flat(BytesPerSecond bandwidth, Seconds latency, BytesPerSecond reduce_bandwidth);
};

/// Whether collectives are expected to take as long on both: the same number and family of GPUs and
/// the same NVLinks, PCIe and NICs (p4d and p4de differ in memory alone).
bool same_links(const Machine& a, const Machine& b);

/// JSON Schema of a machine file, from the description that the loader checks with.
nlohmann::ordered_json machine_schema();

/// Every field of a machine, exactly: equal texts mean equal machines.
std::string text_of(const Machine& machine);

/// Whether a machine file must name a source for every number, as those of the catalogue do.
enum class Citing : std::uint8_t { optional, required };
/// Reads and checks a machine file; throws InputError. A file that begins with `like:` gives only
/// what differs from another machine.
Machine load_machine(const std::filesystem::path& file, Citing citing = Citing::optional);
/// Names of the published machines outside of EC2 that ship (topologies/elsewhere), sorted.
std::vector<std::string> machines_elsewhere();
/// All names that machine_named() knows: the instance types, then the others.
std::vector<std::string> machine_names();
/// A machine by the name of an instance type or of one of machines_elsewhere(), or by its file
/// ("./mine.yaml", relative to `folder`). Throws InputError.
Machine machine_named(const std::string& name, const std::filesystem::path& folder = {});

/// The same machine without EFA: NCCL over TCP through ENA (topologies/ena.yaml), from host memory.
/// Throws InputError.
Machine over_ena(Machine machine);
/// The machine with InfiniBand in place of EFA, at the rate of its cards. A message takes 5 us
/// (assumed: MPI over InfiniBand 1 to 2, NCCL's host thread more).
Machine over_rdma(Machine machine);

/// The EC2 catalogue.
class Catalogue {
 public:
  /// Reads nothing yet; throws InputError if the folder is missing.
  explicit Catalogue(std::filesystem::path folder = data_folder() / "topologies" / "ec2");
  /// Names of all instance types, sorted.
  const std::vector<std::string>& names() const { return names_; }
  /// The instance type of that name. Throws InputError for an unknown one.
  Machine load(const std::string& name) const;
  /// A source that numbers of the catalogue cite.
  struct Source {
    std::string id, text;
    bool uncertain = false;  ///< not read for the very machine that cites it
  };
  std::vector<Source> sources() const;

 private:
  std::filesystem::path folder_;
  std::vector<std::string> names_;
};

}  // namespace foreduce

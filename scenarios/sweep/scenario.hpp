// The YAML scenario: what to train, on what, with which all-reduce. A list anywhere is an axis of a
// sweep.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/core/buffer.hpp"
#include "algorithms/core/registry.hpp"
#include "input/fields.hpp"
#include "input/files.hpp"
#include "models/nccl_names.hpp"
#include "models/precision.hpp"
#include "models/sharding.hpp"
#include "models/step.hpp"
#include "scenarios/sweep/element_types.hpp"
#include "topologies/cluster.hpp"
#include "topologies/machine.hpp"

namespace foreduce {

/// What the asker has measured on one GPU of an instance type.
struct UserRate {
  std::string instance;
  std::optional<Precision> precision;                      ///< null: any
  int batch = 0;                                           ///< per GPU; 0: any
  std::optional<double> samples_per_s, tokens_per_s, mfu;  ///< of one GPU alone; one of them

  /// "bf16"; empty for any.
  std::string precision_word() const { return precision ? to_text(*precision) : ""; }
};

/// Where the optimizer's states and activations are.
enum class Offload : std::uint8_t { none };
template <>
struct EnumWords<Offload> {
  static constexpr EnumWord<Offload> all[] = {{Offload::none, "none"}};
};

struct WorkloadSpec {
  Axis<std::string> model;
  Axis<Precision> precision{Precision::fp16};
  Axis<Precision> gradient;  ///< type on the wire; empty: see default_gradient()
  Axis<int> batch_per_gpu;
  Axis<int> accumulation{1};
  Axis<int> global_batch;  ///< samples per optimizer step of all GPUs, from which accumulation
                           ///< follows; empty: accumulation says
  std::string sample;      ///< empty: the workload's first variant
  std::optional<double> samples_per_s;  ///< of one GPU alone, as measured; unset: ours
  std::vector<UserRate> measured;       ///< the same, by instance type
  Axis<std::string> recompute{"no"};    ///< see recomputes_of()
  int recompute_blocks = 0;             ///< of a stage, that are computed again; 0: all
  std::optional<Bytes> state;           ///< that a GPU keeps per parameter; unset: training.yaml's
  Seconds step_overhead{0};             ///< of every step, in which no GPU computes
  std::optional<double> input_rate;     ///< samples per second that come into a node
  bool cuda_graphs = false;             ///< see Workload
  bool fused_loss = false;              ///< see Workload
  double trainable = 1;                 ///< see Workload
  Axis<Framework> framework{Framework::pytorch};
  Axis<double> spread;  ///< standard deviation of GPUs' compute times; empty: training.yaml's
  Axis<std::string> sharding{"none"};  ///< see models/sharding.hpp
  Axis<std::string> hybrid;            ///< GPUs that share one state, or "node"; empty: all
  std::string units;  ///< block, tensors or a size; empty: by the framework, see plan_of()
  std::optional<int> prefetch;  ///< units gathered ahead; unset: by the framework
  bool fp8_all_gather = false;
  std::optional<bool> reshard_after_forward;  ///< unset: but for pipelines
  Communicators communicators = Communicators::shared;
  std::optional<bool> no_sync;  ///< unset: as the sharding has it
  Offload offload = Offload::none;
  Axis<int> tensor_parallel{1}, context_parallel{1}, pipeline{1}, virtual_pipeline{1},
      expert_parallel{1};
  bool sequence_parallel = false;  ///< see Sequence
  ContextCommunication context_communication = ContextCommunication::all_gather;
};

struct SwitchSpec {
  Axis<int> ranks;
  Axis<BytesPerSecond> bandwidth;
  Axis<Seconds> latency;
  Axis<BytesPerSecond> reduce_bandwidth{BytesPerSecond{1e12}};
};

struct MixedSpec {
  std::string instance;
  int nodes = 0;
  int gpus = 0;          ///< that the job has of each; 0: all
  double nic_share = 1;  ///< of their NICs' bandwidth, where something is wrong with these
  double gpu_speed = 1;  ///< the same of their GPUs
  std::vector<SlowLink> slow_links;
};

struct FabricFields {
  int nodes_per_leaf = 0;
  Axis<double> oversubscription{1.0};
  Seconds spine_latency{0};
  Axis<Placement> placement{Placement::packed};
  bool placement_group = true;
};

/// Instance types with node counts of their own.
struct ClusterChoice {
  Axis<std::string> instance;
  Axis<int> nodes;
};

/// What an instance costs the asker.
struct UserPrice {
  std::string instance;
  std::string written;       ///< as the scenario has it: "12.50 USD/h", "11 EUR/h"
  double exchange_rate = 0;  ///< USD for one unit of the written currency; 0: none was given
  DollarsPerHour price;
};

struct ClusterSpec {
  Axis<std::string> instance;
  Axis<int> nodes;
  std::vector<ClusterChoice> choices;  ///< in place of instance and nodes
  Axis<int> gpus_per_node;             ///< that the job has of each instance; empty: all
  std::optional<SwitchSpec> flat;
  std::vector<MixedSpec> mixed;
  std::vector<UserPrice> prices;  ///< in place of the on-demand price
  FabricFields fabric;
};

/// Where reduction servers run.
enum class ServerPlace : std::uint8_t {
  co_located,  ///< on the workers' hosts
  dedicated    ///< on instances of their own
};
template <>
struct EnumWords<ServerPlace> {
  static constexpr EnumWord<ServerPlace> all[] = {{ServerPlace::co_located, "co-located"},
                                                  {ServerPlace::dedicated, "dedicated"}};
};

struct ServersSpec {
  ServerPlace place = ServerPlace::co_located;
  std::string instance;
  Axis<int> count{1};
};

/// What NCCL_BUFFSIZE can be.
inline const Limits kNcclBuffers = Limits::between(65536, 1 << 30);
/// As many channels as NCCL has (MAXCHANNELS).
inline constexpr int kMostNcclChannels = 64;

/// Which NCCL chooses, and what a scenario forces it to, in NCCL's own words; empty: it chooses.
struct NcclSpec {
  Axis<std::string> version, algo;
  Axis<NcclProtocol> proto;
  Axis<int> channels;
  Axis<Bytes> buffsize;
};

/// How buckets of gradients are filled, as the library of that name does it.
enum class Bucketing : std::uint8_t { ddp, horovod, smddp };
template <>
struct EnumWords<Bucketing> {
  static constexpr EnumWord<Bucketing> all[] = {
      {Bucketing::ddp, "ddp"}, {Bucketing::horovod, "horovod"}, {Bucketing::smddp, "smddp"}};
};

struct AllReduceSpec {
  Axis<std::string> algorithm;  ///< empty, of a command line: all that can run
  Axis<std::string> inner{kUsualInner};
  Axis<Bytes> bucket;  ///< empty: 25 MiB (models/training.yaml)
  std::optional<Bytes> first_bucket;
  Bucketing bucketing = Bucketing::ddp;
  bool gradient_as_bucket_view = false;  ///< of ddp
  std::optional<Seconds> cycle;          ///< of horovod; unset: 5 ms (models/training.yaml)
  GradientSums overlap = GradientSums::beside_backward;
  Axis<int> segments{0};               ///< 0: the algorithm chooses by size
  int channels = 0;                    ///< 0: as many as the topology has rails
  Axis<std::string> protocol{"auto"};  ///< of foreduce's own algorithms; auto: chosen by size
  NcclSpec nccl;
  ServersSpec servers;
  std::optional<double> compute_share;
  Axis<std::string> profile{"auto"};  ///< what messages cost, see models/profile.hpp
};

/// Which lower bound stands beside times.
enum class BoundKind : std::uint8_t {
  groups,  ///< of cuts into GPUs, nodes and leaves
  exact    ///< of the worst cut, which an optimal schedule reaches
};
template <>
struct EnumWords<BoundKind> {
  static constexpr EnumWord<BoundKind> all[] = {{BoundKind::groups, "groups"},
                                                {BoundKind::exact, "exact"}};
};

struct MessagesSpec {
  Axis<Bytes> sizes;  ///< as nccl-tests counts them, see Collective
  Collective collective = Collective::all_reduce;
  Type dtype = Type::f32;
  BoundKind bound = BoundKind::groups;
  std::string timed_by = "nccl-tests";  ///< see models/caller.hpp
};

/// What `plan` is to reach.
struct GoalSpec {
  std::optional<Count> samples, tokens;  ///< to be trained on; one of the two
  std::optional<Seconds> deadline;
  std::string budget_written;  ///< as the scenario has it: "$500", "900 EUR"
  double exchange_rate = 0;    ///< USD for one unit of the written currency; 0: none was given
  std::optional<Dollars> budget;
};

struct Scenario {
  std::string name;
  std::optional<WorkloadSpec> workload;
  ClusterSpec cluster;
  AllReduceSpec allreduce;
  std::optional<MessagesSpec> messages;
  std::optional<GoalSpec> goal;

  std::string file;  ///< where it was read; empty: made from a command line
  std::string text;  ///< of the file, and a comment line for each value that was set in its place
  std::string hash;  ///< SHA-1 of its text
  std::map<std::string, Mark> places;  ///< of its keys ("cluster.instance") in the file
};

/// What a scenario is used for: `predict`, `plan` or `compare`.
enum class Asked : std::uint8_t { training, plan, messages };
/// The scenario's keys, as dotted paths, that have no effect on that.
std::vector<std::string> unused_keys(const Scenario& scenario, Asked asked);

/// What is wrong with a scenario that read well: told at the key, or at the nearest above it that
/// is in the file.
InputError wrong(const Scenario& scenario, std::string key, std::string message,
                 std::string hint = {});

/// Reads and checks a scenario, "-" from standard input; throws InputError with every problem of
/// the file. `set`: values in place of the file's, as "cluster.nodes=4". "scenarios/x.yaml" is also
/// found where foreduce's data are.
Scenario load_scenario(const std::filesystem::path& file, const std::vector<std::string>& set = {});
/// The same from text; `name` stands in messages.
Scenario parse_scenario(const std::string& name, const std::string& text);

/// The JSON Schema of a scenario, for editors; from the same description that the loader checks
/// with.
nlohmann::ordered_json scenario_schema();
/// The same of a workload file.
nlohmann::ordered_json workload_schema();

}  // namespace foreduce

// The cases of a sweep: the clusters that a scenario describes, the profiles that it names, and the
// product of its axes.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "models/exact_bound.hpp"
#include "models/workload.hpp"
#include "scenarios/sweep/change.hpp"
#include "scenarios/sweep/methods.hpp"
#include "scenarios/sweep/sweep.hpp"

namespace foreduce {

/// The hash of a question: of its scenario and of every file that it reads, in the order of
/// reading.
class QuestionHash {
 public:
  explicit QuestionHash(std::string scenario_hash) : value_(std::move(scenario_hash)) {}
  void add(const std::filesystem::path& file);
  const std::string& value() const { return value_; }

 private:
  std::string value_;
};

/// A cluster of the sweep.
struct ClusterCase {
  std::string instance;  ///< "p4d.24xlarge", or with fewer GPUs "p4d.24xlarge (4 GPUs)"
  int nodes = 0;
  double oversubscription = 1;
  Placement placement = Placement::packed;
  std::shared_ptr<const Cluster>
      cluster;        ///< without servers; null if there can be no such cluster
  std::string error;  ///< why not
  /// Of nodes that are not alike: the one with the least bandwidth, which all nodes' slow links are
  /// put into, and all nodes as it; null where it has no such link.
  std::string weakest;
  std::shared_ptr<const Cluster> as_weakest;
};

/// Whether each node has as many GPUs as the others.
bool have_as_many_gpus(const Cluster& cluster);

/// "4 x p5.48xlarge"; of a mixed cluster what says it all: "7xp4d.24xlarge+1xp4de.24xlarge".
/// `nodes`: a number, or several: "4, 8".
std::string cluster_words(const std::string& nodes, const std::string& instance);

/// All clusters that a scenario describes, and those that its questions need besides: with
/// reduction servers, and single nodes.
class Clusters {
 public:
  /// Reads every machine file at once, whatever part of the sweep is asked for: they are part of
  /// the question.
  Clusters(const Scenario& scenario, QuestionHash& hash, const Change& change = {});

  const std::vector<ClusterCase>& cases() const { return cases_; }
  /// workload_of() the scenario; throws InputError where a rate is of a GPU that nothing has.
  Workload workload(const std::string& model, Framework framework) const;
  /// The case's cluster with what the method needs.
  std::shared_ptr<const Cluster> with_servers(const ClusterCase& c, const Method& method);
  /// Its layout, made once.
  std::shared_ptr<const Layout> layout(const std::shared_ptr<const Cluster>& cluster);
  /// The exact bound on it, found once; see models/exact_bound.hpp.
  const std::optional<ExactCut>& exact_cut_of(const std::shared_ptr<const Cluster>& cluster,
                                              Collective collective);
  /// Whether reduction servers would be machines of their own.
  bool dedicated_servers() const {
    return scenario_.allreduce.servers.place == ServerPlace::dedicated;
  }
  /// One node of the same kind, to compare with; null for mixed clusters.
  const ClusterCase* one_node(const ClusterCase& c);

 private:
  using Nodes = std::vector<std::shared_ptr<const Machine>>;
  std::shared_ptr<const Machine> machine(const std::string& name);
  /// The machine with so many of its GPUs, and what the answer calls it; 0 is all.
  struct Part {
    std::shared_ptr<const Machine> machine;
    std::string name;
  };
  Part part_of(const std::string& name, int gpus);
  static Part with_slow_links(const Part& part, const std::vector<SlowLink>& links);
  void add(const std::string& instance, const Nodes& nodes);
  void add_instances();
  void add_switches();
  void add_mixed();

  const Scenario& scenario_;
  QuestionHash& hash_;
  Change change_;
  std::map<std::string, std::shared_ptr<const Machine>> machines_;
  std::map<std::pair<std::string, int>, std::shared_ptr<const Machine>> parts_;
  std::map<std::tuple<BytesPerSecond, Seconds, BytesPerSecond>, std::shared_ptr<const Machine>>
      switches_;
  /// By instance, nodes of one kind after another, oversubscription and placement.
  using Shape = std::tuple<std::string, std::vector<std::pair<const Machine*, std::size_t>>, double,
                           Placement>;
  std::map<Shape, std::shared_ptr<const Cluster>> made_;
  std::vector<ClusterCase> cases_;
  std::map<std::string, std::unique_ptr<ClusterCase>> single_nodes_;
  std::map<std::pair<std::shared_ptr<const Cluster>, int>, std::shared_ptr<const Cluster>>
      with_servers_;
  std::map<std::shared_ptr<const Cluster>, std::shared_ptr<const Layout>> layouts_;
  std::map<std::pair<std::shared_ptr<const Cluster>, Collective>, std::optional<ExactCut>>
      exact_cuts_;
};

/// Profiles by name or file, or the one made for a machine; each is read once.
class TransportProfiles {
 public:
  /// Files are read at once, whatever part of the sweep is asked for: they are part of the
  /// question, and so is what ships.
  TransportProfiles(const Scenario& scenario, QuestionHash& hash, const Change& change = {});
  std::shared_ptr<const Profile> get(const std::string& name, const Cluster& cluster);
  /// What a report calls it: what was asked for, or what that comes to here.
  std::string name(const std::string& asked, const std::shared_ptr<const Cluster>& cluster);

 private:
  Profiles shipped_;
  Change change_;
  std::map<std::string, std::shared_ptr<const Profile>> known_;
};

/// What the points of a sweep share: the clusters and profiles, each made once, the questions, and
/// how many channels are asked for.
struct SweepContext {
  Clusters& clusters;
  TransportProfiles& profiles;
  Batch& batch;
  int channels = 0;                     ///< of own algorithms; 0: as many as the topology has rails
  std::vector<std::string> named = {};  ///< algorithms that `best` tries however long they take
};

/// The same for a node alone, which may have fewer rails than channels are asked for.
SweepContext on_one_node(SweepContext context, const ClusterCase& node);

/// What a method can be on a cluster: one candidate, or for `best` every algorithm that can run
/// there without machines of its own, and what NCCL would choose. Throws InputError where nothing
/// can.
std::vector<Candidate> candidates_of(const Method& method, const ClusterCase& c,
                                     const SweepContext& context);

/// The methods that can run on a cluster as they come, NCCL's choice first, and why others cannot
/// ("nvls: the switch cannot reduce").
struct UsableMethods {
  std::vector<Method> methods;
  std::vector<std::string> left_out;
};
UsableMethods usable_methods(const ClusterCase& c, const std::string& profile,
                             const SweepContext& context, Collective collective);

/// The product of axes: which value of each axis a point has. The last axis varies fastest.
class AxisProduct {
 public:
  explicit AxisProduct(std::vector<std::size_t> sizes) : sizes_(std::move(sizes)) {}
  std::size_t size() const;
  std::vector<std::size_t> at(std::size_t number) const;

 private:
  std::vector<std::size_t> sizes_;
};

/// How many points a scenario has, counted from its axes alone: nothing is read or made. Of a
/// comparison without a word about algorithms, so many as there can be at most.
double count_points(const Scenario& scenario, Asked asked);
/// Throws InputError for more points than kMostPoints, unless they are accepted or a part of them
/// is asked for.
void refuse_too_many(const Scenario& scenario, Asked asked, const SweepOptions& options);

/// A workload that a scenario names: one that ships, or a file beside the scenario.
Workload workload_of(const Scenario& scenario, const std::string& model, Framework framework);
/// The sample that it asks for, or the workload's first. Throws InputError for one that the
/// workload does not have.
std::string sample_of(const Scenario& scenario, const Workload& workload);

/// The one cluster that a scenario describes; throws InputError for several.
std::shared_ptr<const Cluster> only_cluster(const Scenario& scenario);

}  // namespace foreduce

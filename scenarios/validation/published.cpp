#include "scenarios/validation/published.hpp"

#include <algorithm>
#include <map>

#include "input/csv.hpp"
#include "models/caller.hpp"

namespace foreduce {
namespace {

/// Takes what the source calls an algorithm.
void take_algorithm(Published& p, const std::string& text) {
  p.algorithm = nccl_algorithm_forced(text);
  if (text.starts_with("ring (NCCL_NVLS_ENABLE=0)")) p.algorithm = NcclAlgorithm::ring;
  p.by_nccl = p.algorithm || text.starts_with("auto") || text == "unspecified" ||
              text == "ring (NCCL default)";
}

/// "2.27.7" of "NCCL 2.27.7 / aws-ofi-nccl"; empty where a source says none, or only what its
/// documents propose.
std::string version_in(const std::string& library) {
  constexpr std::string_view kBefore = "NCCL 2.";
  if (!library.starts_with(kBefore)) return "";
  const std::size_t from = kBefore.size() - 2;
  return library.substr(from, library.find_first_not_of("0123456789.", from) - from);
}

/// Instance types that stand for published machines, by their published names.
std::map<std::string, std::string> machines_of(const std::filesystem::path& folder) {
  const Csv stand_ins = Csv::load(folder / "stand_ins.csv");
  std::map<std::string, std::string> machines;
  for (const Csv::Row& row : stand_ins.rows)
    machines[row.cells[stand_ins.column("published")]] = row.cells[stand_ins.column("instance")];
  const Catalogue catalogue;
  for (const std::string& name : catalogue.names()) machines[name] = name;
  return machines;
}

/// All points of a table with a time, in order. `collective`: of all of them; else a column says
/// it.
std::vector<Published> points_of(const Csv& table, std::optional<Collective> collective,
                                 const std::map<std::string, std::string>& machines) {
  const auto source = table.column("source_id"), instance = table.column("instance"),
             nodes = table.column("nodes"), gpus = table.column("gpus"),
             library = table.column("library"), algorithm = table.column("algorithm"),
             protocol = table.column("protocol"), size = table.column("size_bytes"),
             time = table.column("time_us"), which = collective ? 0 : table.column("collective");
  std::vector<Published> points;
  for (const Csv::Row& row : table.rows) {
    if (row.cells[time].empty()) continue;
    Published& p = points.emplace_back();
    p.source = row.cells[source];
    p.instance = row.cells[instance];
    p.library = row.cells[library];
    p.version = version_in(p.library);
    if (p.library.find("torch") != std::string::npos) p.caller = kTorch;
    p.nodes = static_cast<int>(table.number(row, nodes));
    p.gpus = static_cast<int>(table.number(row, gpus));
    const auto named = collective ? collective : collective_named(row.cells[which]);
    if (!named) table.fail(row, which, "there is no such collective");
    p.collective = *named;
    take_algorithm(p, row.cells[algorithm]);
    p.protocol = value_named<NcclProtocol>(row.cells[protocol]);
    p.bytes = Bytes{table.number(row, size)};
    p.time = Seconds{table.number(row, time) * 1e-6};
    if (p.nodes < 1 || p.gpus < p.nodes || p.gpus % p.nodes != 0)
      table.fail(row, gpus, "the GPUs do not divide among the nodes");
    if (p.time.value <= 0) table.fail(row, time, "a time is more than zero");
    const auto known = machines.find(p.instance);
    if (known != machines.end() && p.by_nccl) p.machine = known->second;
  }
  return points;
}

}  // namespace

std::vector<Published> published_all_reduces(const std::filesystem::path& folder) {
  const Csv out = Csv::load(folder / "not_fitted.csv");
  std::map<std::string, std::array<double, 3>>
      not_fitted;  // below how many bytes, from how many on, from how many nodes on
  for (const Csv::Row& row : out.rows)
    not_fitted[row.cells[out.column("source")]] = {out.number(row, out.column("below_bytes")),
                                                   out.number(row, out.column("from_bytes")),
                                                   out.number(row, out.column("from_nodes"))};
  const Csv versions = Csv::load(folder / "nccl_versions.csv");
  std::map<std::string, std::array<std::string, 2>> inferred;  // of NCCL, of the plugin
  for (const Csv::Row& row : versions.rows)
    inferred[row.cells[versions.column("source")]] = {row.cells[versions.column("nccl")],
                                                      row.cells[versions.column("plugin")]};
  std::vector<Published> points =
      points_of(Csv::load(folder / "allreduce.csv"), Collective::all_reduce, machines_of(folder));
  for (Published& p : points) {
    if (const auto known = inferred.find(p.source); known != inferred.end()) {
      if (p.version.empty()) p.version = known->second[0];
      p.plugin = known->second[1];
    }
    const auto left_out = not_fitted.find(p.source);
    if (left_out == not_fitted.end()) continue;
    const auto [below, from, nodes] = left_out->second;
    p.fit = p.bytes.value >= below && p.bytes.value < from && (nodes == 0 || p.nodes < nodes);
  }
  return points;
}

std::vector<Published> published_collectives(const std::filesystem::path& folder) {
  std::vector<Published> points =
      points_of(Csv::load(folder / "collectives.csv"), std::nullopt, machines_of(folder));
  for (Published& p : points) p.fit = false;
  return points;
}

std::string asked_of(const Published& point) {
  return point.algorithm ? to_text(*point.algorithm) : "nccl";
}

PublishedClusters::Key PublishedClusters::key_of(const Published& point) {
  return {point.machine, point.machine != point.instance, point.nodes, point.gpus};
}

void PublishedClusters::add(const Published& point, std::shared_ptr<const Cluster> cluster) {
  known_.emplace_back(key_of(point), std::move(cluster));
}

std::shared_ptr<const Cluster> PublishedClusters::of(const Published& point) {
  const Key key = key_of(point);
  for (const auto& [k, cluster] : known_)
    if (k == key) return cluster;
  Machine loaded = machine_named(point.machine).with_gpus(point.gpus / point.nodes);
  if (std::get<bool>(key) && point.nodes == 1)
    loaded.nic.efa = 0;  // not on EC2: NCCL runs without its plugin
  const auto machine = std::make_shared<const Machine>(std::move(loaded));
  auto cluster = std::make_shared<const Cluster>(
      std::vector<std::shared_ptr<const Machine>>(static_cast<std::size_t>(point.nodes), machine),
      FabricSpec{});
  known_.emplace_back(key, cluster);
  return cluster;
}

}  // namespace foreduce

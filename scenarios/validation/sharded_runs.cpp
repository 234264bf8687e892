#include "scenarios/validation/sharded_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "input/files.hpp"

namespace foreduce {

/// A run as the file has it.
struct PublishedShardedRun {
  std::string series, compare, source, note, model, instance, keys, profile = "auto";
  int nodes = 0;
  std::optional<double> tokens_per_s, samples_per_s;
  std::optional<Bytes> memory;
};
struct ShardedSource {
  std::string name, says;
};
struct ShardedRunsFile {
  std::vector<ShardedSource> sources;
  std::vector<PublishedShardedRun> runs;
};
template <class Fields>
void describe(Fields& f, ShardedSource& s) {
  f.required("name", s.name, "what runs call it");
  f.required("says", s.says, "where it was published, and what is not known of it");
}
template <class Fields>
void describe(Fields& f, PublishedShardedRun& r) {
  f.required("series", r.series, "runs that are compared with each other");
  f.required("compare", r.compare, "what of the series can be compared",
             OneOf{"comparison", {"scaling", "order", "rate"}});
  f.required("source", r.source, "a source below");
  f.optional("note", r.note, "what is not as in the prediction");
  f.required("model", r.model, "as workload.model");
  f.required("instance", r.instance, "as cluster.instance");
  f.required("nodes", r.nodes, "as cluster.nodes", Limits::between(1, 65536));
  f.required("keys", r.keys, "the rest of workload");
  f.optional("profile", r.profile, "as allreduce.profile");
  f.optional("tokens_per_s", r.tokens_per_s, "of one GPU");
  f.optional("samples_per_s", r.samples_per_s, "of all GPUs");
  f.optional("memory", r.memory, "peak of a GPU");
  f.verify([](FieldReader& reader) {
    if (reader.has("tokens_per_s") == reader.has("samples_per_s"))
      reader.problem("tokens_per_s", "give one of tokens_per_s and samples_per_s");
  });
}

template <class Fields>
void describe(Fields& f, ShardedRunsFile& file) {
  f.required("sources", file.sources, "where runs were published");
  f.required("runs", file.runs, "published runs");
  f.verify([&file](FieldReader& reader) {
    for (const PublishedShardedRun& r : file.runs)
      if (std::none_of(file.sources.begin(), file.sources.end(),
                       [&](const ShardedSource& s) { return s.name == r.source; }))
        reader.problem("runs", "there is no source called '" + r.source + "'");
  });
}

namespace {

const std::string& source_of(const ShardedRunsFile& file, const std::string& name) {
  return std::find_if(file.sources.begin(), file.sources.end(),
                      [&](const ShardedSource& s) { return s.name == name; })
      ->says;
}

Prediction predicted_run(const PublishedShardedRun& run, const std::filesystem::path& file,
                         const BatchOptions& options) {
  const Scenario scenario =
      parse_scenario(file.string(), fmt::format("name: {}\nworkload: {{ model: {}, {} }}\n"
                                                "cluster: {{ instance: {}, nodes: {} }}\n"
                                                "allreduce: {{ algorithm: nccl, profile: {} }}\n",
                                                run.series, run.model, run.keys, run.instance,
                                                run.nodes, run.profile));
  SweepOptions sweep;
  sweep.batch = options;
  sweep.all_failed = AllFailed::is_answer;
  return predict(scenario, sweep).points.at(0);
}

/// Of the first run of a series and its last.
ShardedSeries compared(const ShardedRun& first, const ShardedRun& last) {
  ShardedSeries s;
  s.series = first.series;
  s.order = first.compare == "order";
  const auto ratio = [&](double one, double other) { return s.order ? one / other : other / one; };
  s.measured = ratio(first.measured, last.measured);
  s.predicted = ratio(first.predicted(), last.predicted());
  return s;
}

}  // namespace

double ShardedRun::predicted() const {
  if (!point.error.empty()) return 0;
  return of_all ? point.throughput : point.tokens_per_s / point.gpus;
}

bool ShardedSeries::good() const {
  constexpr double kPoints = 0.03;
  return order ? (measured > 1) == (predicted > 1) : std::abs(predicted - measured) <= kPoints;
}

ShardedValidation validate_sharded(const BatchOptions& options) {
  const auto path = data_folder() / "models" / "reference" / "sharded_runs.yaml";
  YamlFile yaml = YamlFile::load(path);
  ShardedRunsFile file;
  read_file(yaml, file);
  ShardedValidation v;
  for (const PublishedShardedRun& run : file.runs)
    v.runs.push_back({run.series, source_of(file, run.source), run.note, run.compare,
                      predicted_run(run, path, options),
                      run.tokens_per_s.value_or(run.samples_per_s.value_or(0)),
                      run.samples_per_s.has_value(), run.memory});
  for (std::size_t first = 0, last = 0; first < v.runs.size(); first = last + 1) {
    for (last = first; last + 1 < v.runs.size() && v.runs[last + 1].series == v.runs[first].series;)
      ++last;
    if (last > first && v.runs[first].predicted() > 0 && v.runs[last].predicted() > 0)
      v.series.push_back(compared(v.runs[first], v.runs[last]));
  }
  return v;
}

}  // namespace foreduce

#include "scenarios/validation/diagnosis.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "models/caller.hpp"
#include "models/nccl_constants.hpp"
#include "scenarios/sweep/estimate.hpp"
#include "scenarios/validation/healthy.hpp"
#include "scenarios/validation/log_cluster.hpp"
#include "scenarios/validation/suspects.hpp"

namespace foreduce {
namespace {

/// No interval is narrower than this factor either way: one healthy cluster measured twice differs
/// by some per cent (assumed).
constexpr double kLeastSpread = 1.1;
/// Suspects whose misfits differ by less fit alike: two healthy runs of one cluster differ by as
/// much (models/reference/healthy.yaml).
constexpr double kAlike = 0.05;
/// From so many bytes on bandwidth alone counts (models/reference/healthy.yaml: sites differ
/// least).
constexpr double kPlateau = 256 << 20;
/// Of clusters whose suspects are simulated: on 64 p5 nodes that takes some 10 s, on 256 a minute.
constexpr int kMostNodes = 256;
/// Sizes that suspects are predicted at, and on clusters of more nodes than `kManyNodes`.
constexpr std::size_t kSizes = 10, kSizesOfMany = 5;
constexpr int kManyNodes = 16;
/// A single size that takes so many times the slowest normal time is no scatter.
constexpr double kFarSlower = 1.5;
/// Of what the links allow: rounding, and a NIC that does a little better than its sheet, explain
/// no more.
constexpr double kBeyond = 0.95;

/// What one size should take on one setup.
struct Expectation {
  double time = 0, low = 0, high = 0, least = 0;
  /// 0 where it was expected, 1 at the slow end, on a scale of ratios; at the fast end -1, or what
  /// the links allow.
  double place(double measured) const { return std::log(measured / time) / std::log(high / time); }
  void scale(double factor) {
    time *= factor;
    low *= factor;
    high *= factor;
  }
};

/// The expected time of a collective of each size on each setup: [setup][size]; of a setup that
/// was not simulated before the user stopped, none. `widened`: why the intervals are wider than
/// they might be.
std::vector<std::vector<Expectation>> expect(Collective collective, const NcclLog& log,
                                             const std::vector<Setup>& setups, int nodes,
                                             const std::vector<double>& sizes,
                                             const BatchOptions& options, std::string* widened) {
  std::vector<AllReduceRequest> requests;
  for (const Setup& s : setups) {
    const auto machine = std::make_shared<const Machine>(s.machine);
    const auto cluster = std::make_shared<const Cluster>(
        std::vector(static_cast<std::size_t>(nodes), machine), FabricSpec{});
    const auto profile = std::make_shared<const Profile>(s.profile);
    Method method = reported_method(s.method, collective, log.nccl_version);
    if (method.kind == MethodKind::nccl) method.nccl_buffer = nccl_buffer_with(log.plugin_version);
    for (const double bytes : sizes)
      requests.push_back({cluster, profile, Bytes{std::max(4.0, bytes)}, method});
  }
  const std::vector<AllReduceEstimate> answers = estimate_all_reduces(requests, options);
  std::vector<std::vector<Expectation>> all(setups.size(), std::vector<Expectation>(sizes.size()));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const AllReduceEstimate& e = answers[i];
    if (e.error == kInterrupted) all[i / sizes.size()].clear();
    if (e.error == kInterrupted || all[i / sizes.size()].empty()) continue;
    if (!e.error.empty()) throw std::runtime_error("the prediction failed: " + e.error);
    if (widened && !e.interval.widened.empty()) *widened = e.interval.why();
    // The interval holds 90 %; who asks whether something is wrong wants to be wrong once in a
    // hundred: 2.576 against 1.645 standard deviations.
    const double time = e.time.value,
                 spread = std::max(kLeastSpread, std::pow(e.interval.high / e.time, 2.576 / 1.645));
    all[i / sizes.size()][i % sizes.size()] = {
        time, std::min(time, std::max(kBeyond * e.least.value, time / spread)), time * spread,
        e.least.value};
  }
  return all;
}

/// How far a prediction is off in the mean over sizes: 0.08 is 8 %.
double misfit_of(const std::vector<Expectation>& predicted, const std::vector<double>& measured) {
  double sum = 0;
  for (std::size_t i = 0; i < measured.size(); ++i)
    sum += std::abs(std::log(measured[i] / predicted[i].time));
  return std::exp(sum / static_cast<double>(measured.size())) - 1;
}

/// The share of what is outside a healthy cluster's interval that is within the suspect's.
double explained(const std::vector<Expectation>& healthy, const std::vector<Expectation>& suspect,
                 const std::vector<double>& measured) {
  double out = 0, within = 0;
  for (std::size_t i = 0; i < measured.size(); ++i)
    if (std::abs(healthy[i].place(measured[i])) > 1) {
      ++out;
      within += std::abs(suspect[i].place(measured[i])) <= 1;
    }
  return out > 0 ? within / out : 0;
}

/// Judges one table, step by step.
class Diagnosis {
 public:
  Diagnosis(const NcclLog& log, const NcclTable& table, Collective collective, LogCluster cluster,
            const CheckQuestion& question, const BatchOptions& options)
      : collective_(collective),
        log_(log),
        table_(table),
        cluster_(std::move(cluster)),
        question_(question),
        options_(options) {}

  CheckedTable judge();

 private:
  void take_rows();
  /// What each setup takes where the question's caller calls, see expect().
  std::vector<std::vector<Expectation>> predict(std::vector<Setup> setups,
                                                const std::vector<double>& sizes,
                                                std::string* widened = nullptr) const;
  void predict_healthy();
  /// Where others published times of such a cluster, those say what is healthy.
  void believe_published();
  void judge_rows();
  /// Whether some sizes are faster than the links allow; then nothing else can be said.
  bool impossible();
  void remark_on_bus_bandwidth();
  void count_wrong_sums();
  std::vector<Setup> suspects_left() const;
  void remark_on_harmless(const std::vector<Setup>& all);
  void find_causes(const std::vector<Setup>& all);
  void rank_causes();
  void describe_onset();
  /// By how much the largest sizes miss what healthy sites have.
  void remark_on_plateau();

  Collective collective_;
  const NcclLog& log_;
  const NcclTable& table_;
  LogCluster cluster_;
  const CheckQuestion& question_;
  const BatchOptions& options_;
  Profile profile_;
  CheckedTable checked_;
  std::vector<double> sizes_, measured_;
  std::vector<Expectation> healthy_;
  std::vector<double>
      correction_;  // of the model, by size: what healthy sites take over what it says
};

void Diagnosis::take_rows() {
  checked_.collective = collective_;
  checked_.instance = cluster_.machine.name;
  checked_.nodes = cluster_.nodes;
  checked_.ranks = cluster_.ranks;
  checked_.timed_by = question_.timed_by.empty() ? table_.caller : question_.timed_by;
  checked_.remarks = cluster_.remarks;
  if (checked_.timed_by != kUsualCaller) checked_.remarks.push_back(words_on(checked_.timed_by));
  for (const NcclRow& r : table_.rows) {
    if (r.bytes <= 0) continue;
    checked_.rows.push_back({r, {}, {}, {}, HealthyFrom::model, Verdict::normal});
    sizes_.push_back(r.bytes);
    measured_.push_back(r.timing().time.value);
  }
  if (sizes_.empty()) throw file_error(log_.file, "every row is of size 0");
}

std::vector<std::vector<Expectation>> Diagnosis::predict(std::vector<Setup> setups,
                                                         const std::vector<double>& sizes,
                                                         std::string* widened) const {
  for (Setup& s : setups) s.profile = called_from(checked_.timed_by, std::move(s.profile));
  return expect(collective_, log_, setups, cluster_.nodes, sizes, options_, widened);
}

void Diagnosis::predict_healthy() {
  profile_ = Profiles().nearest_to(cluster_.machine);
  checked_.profile = profile_.name;
  std::string widened;
  healthy_ = predict({{Fault::none, "", "", cluster_.machine, profile_}}, sizes_, &widened)[0];
  if (healthy_.empty()) throw Interrupted();
  correction_.assign(sizes_.size(), 1);
  if (question_.against == HealthyFrom::published) believe_published();
  const bool all_published = std::all_of(checked_.rows.begin(), checked_.rows.end(),
                                         [](auto& r) { return r.from == HealthyFrom::published; });
  if (!widened.empty() && !all_published)
    checked_.remarks.push_back("the interval of the model is wide here: " + widened);
}

void Diagnosis::believe_published() {
  if (collective_ != Collective::all_reduce) {
    checked_.remarks.push_back(fmt::format(
        "{}s are judged by the prediction and its interval alone, not by published times",
        title_of(collective_)));
    return;
  }
  const HealthyRuns runs(cluster_.machine.name, cluster_.nodes, cluster_.ranks,
                         method_forced_by(log_, collective_), question_.without);
  const double added = added_by(checked_.timed_by).value;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    const auto band = runs.at(Bytes{sizes_[i]});
    if (!band) continue;
    Expectation& e = healthy_[i];
    checked_.rows[i].from = HealthyFrom::published;
    correction_[i] = (band->time.value + added) / e.time;
    e.time = band->time.value + added;
    e.low = std::min(e.low, band->low.value + added);  // faster than those sites is no fault
    e.high = band->high.value + added;
    checked_.sites.assign(runs.sources().begin(), runs.sources().end());
  }
}

void Diagnosis::judge_rows() {
  std::size_t out = 0, in_a_row = 0, longest = 0;
  bool far = false;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    CheckedRow& r = checked_.rows[i];
    const Expectation& e = healthy_[i];
    r.expected = Seconds{e.time};
    r.low = Seconds{e.low};
    r.high = Seconds{e.high};
    r.verdict = measured_[i] > e.high  ? Verdict::slow
                : measured_[i] < e.low ? Verdict::fast
                                       : Verdict::normal;
    const bool is_out = r.verdict != Verdict::normal;
    far = far || measured_[i] > kFarSlower * e.high;
    out += is_out;
    in_a_row = is_out && i > 0 && checked_.rows[i - 1].verdict == r.verdict ? in_a_row + 1 : is_out;
    longest = std::max(longest, in_a_row);
  }
  // Where healthy sites agree best, two sizes are enough.
  const auto slow_plateau = [](const CheckedRow& r) {
    return r.verdict == Verdict::slow && r.from == HealthyFrom::published &&
           r.row.bytes >= kPlateau;
  };
  const std::size_t n = sizes_.size();
  far = far || (n >= 2 && slow_plateau(checked_.rows[n - 1]) && slow_plateau(checked_.rows[n - 2]));
  checked_.normal =
      !far && longest < std::min<std::size_t>(3, sizes_.size()) && 5 * out <= sizes_.size();
  checked_.misfit = misfit_of(healthy_, measured_);
}

bool Diagnosis::impossible() {
  std::size_t count = 0, example = 0;
  for (std::size_t i = 0; i < sizes_.size(); ++i)
    if (measured_[i] < kBeyond * healthy_[i].least) {
      ++count;
      example = i;
    }
  if (count == 0) return false;
  checked_.normal = false;
  checked_.remarks.push_back(fmt::format(
      "{} of {} sizes are faster than the links of {} x {} allow ({}: {}, {} at least): not that "
      "instance, not so "
      "many nodes, or not what the log says",
      count, sizes_.size(), cluster_.nodes, cluster_.machine.name, to_text(Bytes{sizes_[example]}),
      to_text(Seconds{measured_[example]}), to_text(Seconds{healthy_[example].least})));
  return true;
}

/// A tree on two nodes sends S over the NIC where busbw counts 2(n-1)/n of it.
void Diagnosis::remark_on_bus_bandwidth() {
  const double nics = cluster_.machine.nic.bandwidth.value * cluster_.machine.nic.count / 1e9;
  const auto most = std::max_element(
      table_.rows.begin(), table_.rows.end(),
      [](const NcclRow& a, const NcclRow& b) { return a.timing().busbw < b.timing().busbw; });
  if (collective_ == Collective::all_reduce && cluster_.nodes == 2 && most->timing().busbw > nics &&
      most->timing().algbw <= nics)
    checked_.remarks.push_back(fmt::format(
        "busbw {:.1f} GB/s is above the NICs' {:.1f} GB/s, which is right: on two nodes "
        "a tree sends each byte once "
        "over the network, and busbw counts {:.3f} times",
        most->timing().busbw, nics, 2.0 * (cluster_.ranks - 1) / cluster_.ranks));
}

void Diagnosis::count_wrong_sums() {
  double wrong = 0;
  for (const NcclRow& r : table_.rows) {
    const bool counts = r.redop != "" && r.timing().wrong &&
                        *r.timing().wrong >= 1;  // older tests print the largest error
    wrong += counts ? *r.timing().wrong : 0;
  }
  if (wrong == 0) return;
  checked_.remarks.push_back(
      fmt::format("{:.0f} elements were wrong: whatever the speed, this run is broken", wrong));
  checked_.normal = false;
}

std::vector<Setup> Diagnosis::suspects_left() const {
  std::vector<Setup> all = suspects(log_, collective_, cluster_.machine, profile_, cluster_.nodes);
  // A floor: the smallest size takes so much longer, and all others too. Only small sizes can tell
  // it from bandwidth.
  const auto least =
      static_cast<std::size_t>(std::min_element(sizes_.begin(), sizes_.end()) - sizes_.begin());
  const double more = measured_[least] - healthy_[least].time;
  if (sizes_.size() >= 3 && sizes_[least] <= 65536 && measured_[least] > healthy_[least].high)
    all.push_back(latency_floor(collective_, cluster_.machine, profile_, Seconds{more}));
  std::erase_if(all, [&](const Setup& s) { return contradicted(log_, s); });
  return all;
}

/// Times are normal: what the log says of suspects is worth a remark all the same.
void Diagnosis::remark_on_harmless(const std::vector<Setup>& all) {
  for (const Setup& s : all)
    if (const std::string says = evidence_for(log_, s, cluster_.machine); !says.empty())
      checked_.remarks.push_back(
          fmt::format("{}; {} (and yet the times are normal)", s.what, says));
}

/// Predicts every suspect at some sizes, the ends and evenly between, and keeps those that explain
/// what was measured.
void Diagnosis::find_causes(const std::vector<Setup>& all) {
  std::vector<double> few, few_measured, few_correction;
  std::vector<Expectation> few_healthy;
  const std::size_t n =
      std::min(cluster_.nodes > kManyNodes ? kSizesOfMany : kSizes, sizes_.size());
  for (std::size_t k = 0; k < n; ++k) {
    const std::size_t i = n == 1 ? 0 : k * (sizes_.size() - 1) / (n - 1);
    few.push_back(sizes_[i]);
    few_measured.push_back(measured_[i]);
    few_correction.push_back(correction_[i]);
    few_healthy.push_back(healthy_[i]);
  }
  const double base = checked_.misfit = misfit_of(few_healthy, few_measured);
  auto predicted = predict(all, few);
  const auto tried = [](const std::vector<Expectation>& p) { return !p.empty(); };
  if (const auto count = std::count_if(predicted.begin(), predicted.end(), tried);
      count < std::ssize(all))
    checked_.remarks.push_back(
        fmt::format("interrupted: {} of {} causes were tried", count, all.size()));
  for (std::size_t s = 0; s < all.size(); ++s) {
    if (predicted[s].empty()) continue;
    for (std::size_t k = 0; k < few.size(); ++k) predicted[s][k].scale(few_correction[k]);
    const double misfit = misfit_of(predicted[s], few_measured);
    const std::string says = evidence_for(log_, all[s], cluster_.machine);
    if (!says.empty()
            ? misfit < base
            : misfit < 0.8 * base && explained(few_healthy, predicted[s], few_measured) >= 0.5)
      checked_.causes.push_back({all[s].what, all[s].remedy, says, misfit});
    else if (!says.empty())
      checked_.remarks.push_back(
          fmt::format("{}; {}, but that does not explain these times", all[s].what, says));
  }
}

/// What fits best comes first; of those that fit as well what the log says, then the usual one.
void Diagnosis::rank_causes() {
  auto& causes = checked_.causes;
  const auto by_misfit = [](const Cause& a, const Cause& b) { return a.misfit < b.misfit; };
  const double best = std::min_element(causes.begin(), causes.end(), by_misfit)->misfit;
  std::erase_if(causes, [&](const Cause& c) { return c.misfit > best + kAlike; });
  std::stable_partition(causes.begin(), causes.end(),
                        [](const Cause& c) { return !c.evidence.empty(); });
}

/// No single cause fits all sizes: from where on it is slow is worth knowing.
void Diagnosis::describe_onset() {
  const auto& rows = checked_.rows;
  std::size_t from = rows.size();
  while (from > 0 && rows[from - 1].verdict == Verdict::slow) --from;
  std::size_t until = 0;
  while (until < rows.size() && rows[until].verdict == Verdict::slow) ++until;
  if (from == 0)
    checked_.remarks.emplace_back("slower at every size, and none of the usual causes fits");
  else if (from < rows.size())
    checked_.remarks.push_back(fmt::format(
        "degrades from {} on, {:.1f} times the expected time at the end; below, it is not",
        to_text(Bytes{sizes_[from]}), measured_.back() / healthy_.back().time));
  else if (until > 0)
    checked_.remarks.push_back(fmt::format("the floor is too high: slow up to {}, not beyond",
                                           to_text(Bytes{sizes_[until - 1]})));
  else checked_.remarks.emplace_back("none of the usual causes fits");
}

void Diagnosis::remark_on_plateau() {
  const std::size_t last = sizes_.size() - 1;
  if (checked_.rows[last].verdict != Verdict::slow) return;
  const double busbw = checked_.rows[last].row.timing().busbw;
  checked_.remarks.push_back(fmt::format(
      "at {} it reaches {:.1f} GB/s bus bandwidth, {:.0f} % less than the {:.1f} GB/s of {}",
      to_text(Bytes{sizes_[last]}), busbw, 100 * (1 - healthy_[last].time / measured_[last]),
      busbw * measured_[last] / healthy_[last].time,
      checked_.rows[last].from == HealthyFrom::published ? "healthy clusters that were published"
                                                         : "the prediction"));
}

CheckedTable Diagnosis::judge() {
  take_rows();
  predict_healthy();
  judge_rows();
  const bool too_fast = impossible(), usual = checked_.normal;
  remark_on_bus_bandwidth();
  count_wrong_sums();
  if (too_fast || question_.causes == Causes::not_sought) return std::move(checked_);
  const std::vector<Setup> all = suspects_left();
  if (usual) {
    remark_on_harmless(all);
    return std::move(checked_);
  }
  remark_on_plateau();
  if (cluster_.nodes > kMostNodes) {
    checked_.remarks.push_back(fmt::format(
        "causes are not sought on more than {} nodes, where simulating them takes minutes; measure "
        "a few of the nodes",
        kMostNodes));
    return std::move(checked_);
  }
  find_causes(all);
  if (checked_.causes.empty()) describe_onset();
  else rank_causes();
  return std::move(checked_);
}

}  // namespace

const char* name_of(Verdict verdict) {
  return verdict == Verdict::slow ? "slow" : verdict == Verdict::fast ? "fast" : "normal";
}

const char* name_of(HealthyFrom from) {
  return from == HealthyFrom::published ? "published" : "model";
}

namespace {

/// What a table is judged as; nothing if that was not asked for, or is not known.
std::optional<Collective> collective_of(const NcclTable& t, const CheckQuestion& question) {
  const std::optional<Collective> named = collective_named(t.collective);
  if (!question.collective) return named;
  if (named) return named == question.collective ? named : std::nullopt;
  const bool possible =
      t.collective.empty() ||
      fmt::format(" or {} or ", t.collective)
              .find(fmt::format(" or {} or ", name_of(*question.collective))) != std::string::npos;
  return possible ? question.collective : std::nullopt;
}

/// The error for a log that has no such table.
InputError nothing_to_judge(const NcclLog& log, const CheckQuestion& question) {
  std::vector<std::string> seen;
  bool open = false;
  for (const NcclTable& t : log.tables) {
    seen.push_back(t.collective.empty() ? "no collective of nccl-tests" : t.collective);
    open = open || t.collective.find(" or ") != std::string::npos;
  }
  std::vector<std::string_view> judged;
  for (const Collective c : kCollectives) judged.push_back(name_of(c));
  const std::string wanted(question.collective ? name_of(*question.collective)
                                               : "collective that can be judged");
  return file_error(log.file,
                    fmt::format("there is no {} in it, but {}", wanted, fmt::join(seen, ", ")),
                    open ? "say with --collective which it is"
                         : fmt::format("judged are {}", fmt::join(judged, ", ")));
}

}  // namespace

std::vector<CheckedTable> check(const NcclLog& log, const CheckQuestion& question,
                                const BatchOptions& options) {
  std::vector<CheckedTable> checked;
  for (const NcclTable& t : log.tables)
    if (const auto collective = collective_of(t, question))
      checked.push_back(Diagnosis(log, t, *collective,
                                  cluster_of_log(log, t, question.instance, question.nodes),
                                  question, options)
                            .judge());
  if (checked.empty()) throw nothing_to_judge(log, question);
  return checked;
}

}  // namespace foreduce

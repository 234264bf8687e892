#include "scenarios/validation/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "input/holds.hpp"
#include "models/caller.hpp"
#include "scenarios/sweep/estimate.hpp"
#include "scenarios/validation/check_limits.hpp"
#include "scenarios/validation/chosen.hpp"
#include "scenarios/validation/healthy.hpp"
#include "scenarios/validation/log_cluster.hpp"
#include "scenarios/validation/row_remarks.hpp"
#include "scenarios/validation/row_verdicts.hpp"
#include "scenarios/validation/suspect_fit.hpp"
#include "scenarios/validation/suspects.hpp"
#include "scenarios/validation/table_diagnosis.hpp"

namespace foreduce {
namespace {

/// The log names other GPUs than the instance type has.
Cause wrong_instance(const cause::OtherGpu& other) {
  return {{other, {}, evidence::Gpu{other.gpu}}, 0, true};
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
  /// The expected times of each setup, with what the caller adds to each call; see
  /// expected_times().
  ExpectedTimes predict(std::vector<Setup> setups, const std::vector<double>& sizes) const;
  void predict_healthy();
  void expect_no_nvls();
  /// Takes published times of such a cluster, where there are any, as the healthy times.
  void use_published_times();
  /// Takes the times of the earlier log as the healthy times.
  void use_earlier_run();
  /// Puts a measured band in the place of the model's expectation of a row.
  void replace_expectation(std::size_t row, const HealthyBand& band, HealthyFrom from);
  void judge_rows();
  bool is_guessed() const { return only_gpu_tells_machine(table_.facts, question_); }
  /// Whether some sizes are faster than the links allow; then nothing else can be said.
  bool impossible();
  /// Wrong sums, a run that ended early, and times in place.
  void judge_run();
  std::vector<Setup> suspects_left() const;
  /// Whether the log says what is wrong and the times agree, although they are in their intervals.
  bool shown_by_log(const std::vector<Setup>& all);
  void remark_on_harmless(const std::vector<Setup>& all);
  Sample sample(double least) const;
  void find_causes(std::vector<Setup> all, const Sample& few);
  Finding finding_of(const Setup& suspect) const {
    return {suspect.kind, network_of(cluster_.machine), suspect.evidence};
  }

  Collective collective_;
  const NcclLog& log_;
  const NcclTable& table_;
  LogCluster cluster_;
  const CheckQuestion& question_;
  const BatchOptions& options_;
  Profile profile_;
  CheckedTable checked_;
  std::vector<double> sizes_, measured_;
  bool all_tried_ = true;  // of the causes
  std::optional<LoneRow> lone_;
  bool only_lone_ = false;  // but for that row all is normal
  std::vector<Expectation> healthy_;
  std::set<std::size_t> not_by_nvls_;  // rows whose elements the switch does not sum
  std::vector<double> correction_;     // of the model, by size: what healthy sites take over it
};

void Diagnosis::take_rows() {
  checked_.collective = collective_;
  checked_.instance = cluster_.machine.name;
  checked_.nodes = cluster_.nodes;
  checked_.ranks = cluster_.ranks;
  checked_.timed_by = question_.timed_by.empty() ? table_.caller : question_.timed_by;
  checked_.remarks = cluster_.remarks;
  const NcclFacts& facts = table_.facts;
  checked_.nccl_version = facts.nccl_version;
  checked_.network = facts.other_plugin.empty() ? facts.network : NcclNetwork::unknown;
  if (question_.instance.empty() && facts.network != NcclNetwork::efa && !facts.nics &&
      facts.platform.empty())
    checked_.remarks.insert(checked_.remarks.begin(),
                            guessed_instance(cluster_.machine, cluster_.nodes));
  for (Remark& r : remarks_on_run(table_, collective_, checked_.timed_by))
    checked_.remarks.push_back(std::move(r));
  for (const NcclRow& r : table_.rows) {
    if (r.bytes <= 0) continue;
    checked_.rows.push_back({r, {}, {}, {}, HealthyFrom::model, Verdict::normal});
    sizes_.push_back(r.bytes);
    measured_.push_back(r.timing().time.value);
  }
  if (sizes_.empty()) throw file_error(log_.file, "every row is of size 0");
}

ExpectedTimes Diagnosis::predict(std::vector<Setup> setups,
                                 const std::vector<double>& sizes) const {
  for (Setup& s : setups) s.profile = called_from(checked_.timed_by, std::move(s.profile));
  return expected_times({collective_, cluster_.nodes, sizes}, table_.facts, setups, options_);
}

void Diagnosis::predict_healthy() {
  profile_ = question_.profile ? *question_.profile : Profiles().nearest_to(cluster_.machine);
  checked_.profile = profile_.name;
  if (question_.profile)
    checked_.remarks.insert(checked_.remarks.begin(), asked_profile(profile_, cluster_.machine));
  const ExpectedTimes times = predict({Setup{{}, cluster_.machine, profile_}}, sizes_);
  const Expectations& expected = times.of[0];
  if (!expected) throw Interrupted();
  healthy_ = *expected;
  expect_no_nvls();
  correction_.assign(sizes_.size(), 1);
  if (question_.against == HealthyFrom::published) use_published_times();
  if (question_.against == HealthyFrom::log) use_earlier_run();
  HealthyFrom measured_from = HealthyFrom::model;  // of any size
  bool all_measured = true;
  for (const CheckedRow& r : checked_.rows)
    if (r.from == HealthyFrom::model) all_measured = false;
    else measured_from = r.from;
  if (!times.widened.empty() && !all_measured)
    checked_.remarks.push_back(remark::WideInterval{times.widened, measured_from});
}

/// Of elements that the switch does not sum, what other algorithms take.
void Diagnosis::expect_no_nvls() {
  const bool sums =
      collective_ == Collective::all_reduce || collective_ == Collective::reduce_scatter;
  if (!sums || !cluster_.machine.nvlink || !cluster_.machine.nvlink->multicast) return;
  for (std::size_t i = 0; i < checked_.rows.size(); ++i)
    if (const NcclRow& r = checked_.rows[i].row; !nvls_sums(r.type, r.redop))
      not_by_nvls_.insert(i);
  if (not_by_nvls_.empty()) return;
  Setup without{{}, cluster_.machine, profile_};
  without.machine.nvlink->multicast = false;
  const Expectations expected = predict({without}, sizes_).of[0];
  if (!expected) throw Interrupted();
  for (const std::size_t i : not_by_nvls_) healthy_[i] = (*expected)[i];
  const NcclRow& first = checked_.rows[*not_by_nvls_.begin()].row;
  checked_.remarks.push_back(
      remark::NotByNvls{first.type + (first.redop == "sum" ? "" : " by " + first.redop)});
}

void Diagnosis::use_published_times() {
  if (collective_ != Collective::all_reduce) {
    checked_.remarks.push_back(remark::PredictionAlone{collective_});
    return;
  }
  const Machine& machine = cluster_.machine;
  const bool is_like = !machine.like.empty() && same_links(Catalogue().load(machine.like), machine);
  // Where the log forces an algorithm, its runs elsewhere would say that its cost is normal.
  const HealthyRuns runs(is_like ? machine.like : machine.name, cluster_.nodes, cluster_.ranks,
                         std::nullopt, question_.without);
  const double added = added_by(checked_.timed_by).value;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    const auto band = runs.at(Bytes{sizes_[i]});
    if (!band || not_by_nvls_.contains(i)) continue;
    replace_expectation(
        i, {band->time + Seconds{added}, band->low + Seconds{added}, band->high + Seconds{added}},
        HealthyFrom::published);
    checked_.sites.assign(runs.sources().begin(), runs.sources().end());
  }
}

void Diagnosis::replace_expectation(std::size_t row, const HealthyBand& band, HealthyFrom from) {
  Expectation& e = healthy_[row];
  checked_.rows[row].from = from;
  correction_[row] = band.time.value / e.time;
  e.time = band.time.value;
  // Faster than other sites is no fault.
  e.low = from == HealthyFrom::published ? std::min(e.low, band.low.value) : band.low.value;
  e.high = band.high.value;
}

void Diagnosis::use_earlier_run() {
  const EarlierRun run(*question_.earlier, collective_, cluster_.ranks);
  checked_.earlier = question_.earlier->file;
  if (!run.gpu().empty() && !table_.gpu.empty() && run.gpu() != table_.gpu)
    throw table_error(log_, table_,
                      fmt::format("this log is of {}, and {} of {}: not the same cluster",
                                  table_.gpu, checked_.earlier, run.gpu()),
                      "--against takes an earlier log of this cluster");
  if (run.broken())
    throw file_error(checked_.earlier, "its sums are wrong, so it cannot say what is normal");
  for (std::size_t i = 0; i < sizes_.size(); ++i)
    if (const auto band = run.at(Bytes{sizes_[i]})) replace_expectation(i, *band, HealthyFrom::log);
}

void Diagnosis::judge_rows() {
  if (table_.gpus_of_process > 1)
    for (Expectation& e : healthy_) e.high += longer_by_one_process(table_, collective_).value;
  set_verdicts(checked_, healthy_);
  std::set<std::size_t> passed_over;
  if (starts_cold(checked_)) {
    passed_over.insert(0);
    checked_.remarks.push_back(cold_start(checked_));
  }
  if (const auto row = first_use(checked_); row && !passed_over.contains(*row)) {
    passed_over.insert(*row);
    const NcclRow& first = checked_.rows[*row].row;
    checked_.remarks.push_back(
        remark::FirstUse{Bytes{first.bytes}, first.out_of_place->time, first.in_place->time});
  }
  checked_.normal = rows_are_normal(checked_, healthy_, passed_over);
  lone_ = lone_slow_row(checked_, healthy_);
  if (lone_) {
    passed_over.insert(lone_->row);
    only_lone_ = rows_are_normal(checked_, healthy_, passed_over);
    checked_.normal = checked_.normal && !lone_->far;
  }
  const bool by_machine = question_.against != HealthyFrom::log;
  checked_.other_machine = by_machine && is_guessed() && fast_in_most(checked_);
  checked_.unsure = checked_.other_machine || (checked_.normal && has_doubtful_plateau(checked_));
  const bool ran_otherwise = !table_.facts.other_plugin.empty() || table_.facts.blocking;
  if (by_machine && !checked_.normal && ran_otherwise) checked_.unsure = true;
  // No profile was fitted to other collectives than all-reduces below where bandwidth alone counts.
  if (!checked_.normal && collective_ != Collective::all_reduce &&
      only_slow_below_plateau(checked_))
    checked_.unsure = true;
  checked_.normal = checked_.normal && !checked_.unsure;
  checked_.misfit = misfit_of(healthy_, measured_);
  if (const auto change = early_change(checked_, healthy_); change && checked_.normal)
    checked_.remarks.push_back(*change);
  if (const auto fall = sudden_fall(checked_); fall && !checked_.normal)
    checked_.remarks.push_back(*fall);
}

bool Diagnosis::impossible() {
  std::size_t count = 0, example = 0;
  for (std::size_t i = 0; i < sizes_.size(); ++i)
    if (measured_[i] < CheckLimits::impossible_below * healthy_[i].least) {
      ++count;
      example = i;
    }
  if (count == 0) return false;
  checked_.normal = false;
  checked_.unsure = checked_.unsure || is_guessed();
  checked_.remarks.push_back(remark::Impossible{
      count, sizes_.size(), cluster_.nodes, cluster_.machine.name, Bytes{sizes_[example]},
      Seconds{measured_[example]}, Seconds{healthy_[example].least}});
  return true;
}

void Diagnosis::judge_run() {
  checked_.broken = wrong_sums(table_, collective_);
  if (!checked_.broken && table_.most_left_out > table_.rows.back().bytes)
    checked_.broken = remark::LargestLeftOut{Bytes{table_.most_left_out}};
  // Where nothing says how far the run went, more rows unread than read leave too much unknown.
  const Bytes last{table_.rows.back().bytes};
  const bool most_unread = table_.unread_rows >= std::ssize(table_.rows);
  if (table_.unread_rows > 0 && !checked_.broken &&
      (most_unread || 2 * last.value <= table_.asked_bytes)) {
    checked_.broken = remark::RowsUnread{table_.unread_rows, last};
    checked_.unsure = checked_.unsure || checked_.normal;
  }
  if (const auto why = ended_early(table_); why && !checked_.broken) checked_.broken = *why;
  else if (why) checked_.remarks.push_back(*why);
  if (const auto late = failed_late(table_)) {
    if (late->of_gpu && !checked_.broken) checked_.broken = *late;
    else checked_.remarks.push_back(*late);
  }
  checked_.normal = checked_.normal && !checked_.broken;
  if (const auto why = slow_in_place(checked_)) {
    const bool only = checked_.normal &&
                      std::none_of(checked_.rows.begin(), checked_.rows.end(),
                                   [](const CheckedRow& r) { return r.verdict == Verdict::slow; });
    if (only) checked_.broken = *why;
    else checked_.remarks.push_back(*why);
    checked_.normal = false;
  }
}

std::vector<Setup> Diagnosis::suspects_left() const {
  std::vector<Setup> all = suspects(table_, collective_, cluster_.machine, profile_, cluster_.nodes,
                                    is_guessed() ? MachineBy::gpu_name : question_.machine_by);
  if (const Seconds more = longer_of_small(checked_, healthy_); more.value > 0)
    all.push_back(
        latency_floor({collective_, more, cluster_.nodes > 1}, cluster_.machine, profile_));
  std::erase_if(all,
                [&](const Setup& s) { return contradicted(table_.facts, s, cluster_.machine); });
  for (Setup& s : all) s.evidence = evidence_for(table_.facts, s, cluster_.machine);
  return all;
}

/// Times are normal: what the log says of suspects is worth a remark all the same. An interval that
/// holds TCP as well does not tell whether they are those of a healthy cluster.
void Diagnosis::remark_on_harmless(const std::vector<Setup>& all) {
  std::vector<Evidence> told;
  for (const Setup& s : all) {
    if (!s.evidence || std::find(told.begin(), told.end(), *s.evidence) != told.end()) continue;
    told.push_back(*s.evidence);
    const auto same = [&](const Setup& other) { return other.evidence == s.evidence; };
    Finding finding = finding_of(s);
    // The number of NICs does not say which are left.
    if (auto* few = std::get_if<cause::FewNics>(&finding.kind);
        few && std::count_if(all.begin(), all.end(), same) > 1)
      few->used_of_rail = 0;
    const bool outpaced = std::all_of(all.begin(), all.end(), [&](const Setup& other) {
      return !same(other) || beyond_its_links(other, collective_, cluster_.nodes, sample(0));
    });
    if (outpaced) checked_.remarks.push_back(remark::Outpaced{finding});
    else checked_.remarks.push_back(remark::Harmless{finding});
    if (s.fault() == Fault::sockets &&
        healthy_.back().high > CheckLimits::tells_nothing * healthy_.back().low)
      checked_.over_sockets = checked_.unsure = true;
  }
  checked_.normal = checked_.normal && !checked_.unsure;
}

/// Some sizes, the ends and evenly between, of those from `least` on.
Sample Diagnosis::sample(double least) const {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < sizes_.size(); ++i)
    if (sizes_[i] >= least) rows.push_back(i);
  Sample few;
  const std::size_t n = std::min(
      cluster_.nodes > CheckLimits::few_nodes ? CheckLimits::sizes_of_many : CheckLimits::sizes,
      rows.size());
  for (std::size_t k = 0; k < n; ++k) {
    const std::size_t i = rows[n == 1 ? 0 : k * (rows.size() - 1) / (n - 1)];
    few.sizes.push_back(sizes_[i]);
    few.measured.push_back(measured_[i]);
    few.correction.push_back(correction_[i]);
    few.healthy.push_back(healthy_[i]);
  }
  return few;
}

/// Predicts every suspect at these sizes, and keeps those that explain what was measured.
void Diagnosis::find_causes(std::vector<Setup> all, const Sample& few) {
  const double base = checked_.misfit = misfit_of(few.healthy, few.measured);
  const auto is_certain = [](const Setup& s) { return leaves_no_other(s.fault()) && s.evidence; };
  const auto at_line = at_line_rate(table_, checked_, cluster_.machine);
  if (at_line) checked_.remarks.push_back(*at_line);
  else if (const auto fewer = as_fewer_cards(checked_, table_.facts, cluster_.machine))
    checked_.remarks.push_back(*fewer);
  if (const auto outpaced = take_outpaced_algorithm(all, collective_, cluster_.nodes, few))
    checked_.remarks.push_back(remark::Outpaced{finding_of(*outpaced)});
  std::erase_if(all, [&](const Setup& s) {
    return !s.evidence && (beyond_its_links(s, collective_, cluster_.nodes, few) ||
                           (at_line && slows_network(s.fault())));
  });
  const auto ask = [&](const auto& setups, const auto& sizes) { return predict(setups, sizes).of; };
  auto predicted = predict_suspects(
      all, few, base, [](const Setup& s) { return s.evidence.has_value(); }, ask);
  const auto tried = [](const Expectations& p) { return p.has_value(); };
  const auto count = std::count_if(predicted.begin(), predicted.end(), tried);
  all_tried_ = count == std::ssize(all);
  if (!all_tried_)
    checked_.remarks.push_back(remark::StoppedSeeking{static_cast<std::size_t>(count), all.size()});
  std::vector<Finding> unexplained;  // what the log says all the same
  for (std::size_t s = 0; s < all.size(); ++s) {
    if (!predicted[s]) continue;
    if (predicted[s]->empty()) {
      // Where nothing can be predicted of a protocol, NCCL does not choose it either.
      if (all[s].evidence && all[s].fault() == Fault::protocol)
        checked_.causes.push_back({finding_of(all[s]), 0, true, false});
      continue;
    }
    std::vector<Expectation>& suspect = *predicted[s];
    if (is_other_type(all[s].fault()) && collective_ == Collective::all_reduce)
      prefer_published(suspect, few.sizes,
                       {all[s].machine.name, cluster_.nodes, cluster_.ranks,
                        algorithm_forced_by(table_.facts, collective_), question_.without});
    else if (!runs_otherwise(all[s].fault()))  // what was published is of NCCL's own choice
      for (std::size_t k = 0; k < suspect.size(); ++k) suspect[k].scale(few.correction[k]);
    const double misfit = misfit_of(suspect, few.measured);
    const bool says = all[s].evidence.has_value();
    const bool certain = is_certain(all[s]),
               listed = says && all[s].fault() == Fault::rails &&
                        std::holds_alternative<evidence::Setting>(*all[s].evidence),
               // A list of cards does not say that NCCL uses them.
        stated = says && !listed && is_to_be_mended_first(all[s].fault(), suspect, few);
    const bool fits = misfit < poorest_fit(all[s].fault(), base) &&
                      explained(few.healthy, suspect, few.measured) >= 0.5 &&
                      fits_the_end(all[s], suspect, few);
    const bool crawls = may_crawl(all[s]) && misfit < most_misfit(base) &&
                        (all[s].fault() != Fault::rails || reaches_the_end(suspect, few)) &&
                        crawls_throughout(few.sizes, few.measured, few.healthy);
    const bool told =
        misfit < CheckLimits::told_explains * base && misfit < CheckLimits::factor_off;
    if (certain || stated || (says ? told : fits || crawls))
      checked_.causes.push_back({finding_of(all[s]), misfit, certain || stated, crawls});
    else if (says) unexplained.push_back(finding_of(all[s]));
  }
  const auto choices = other_choices(collective_, table_.facts, sizes_, healthy_);
  const Setup usual{{}, cluster_.machine, profile_};
  auto choice = cause_by_choice(table_.facts, usual, choices, few, ask);
  if (choice && checked_.rows.back().verdict == Verdict::slow)
    choice->certain = loses_bandwidth(*choices, Bytes{sizes_.back()});
  if (choice && (choice->certain || choice->misfit < CheckLimits::told_explains * base)) {
    checked_.causes.push_back(*choice);
    std::erase_if(checked_.remarks,
                  [](const Remark& r) { return std::holds_alternative<Choices>(r); });
  }
  for (const Finding& finding : unexplained)
    if (std::none_of(checked_.causes.begin(), checked_.causes.end(),
                     [&](const Cause& c) { return c.finding.evidence == finding.evidence; }))
      checked_.remarks.push_back(remark::Unexplained{finding});
}

bool Diagnosis::shown_by_log(const std::vector<Setup>& all) {
  if (!short_plateau(checked_) || cluster_.nodes > CheckLimits::most_nodes) return false;
  std::vector<Setup> evident;
  for (const Setup& s : all)
    if (s.evidence) evident.push_back(s);
  if (evident.empty()) return false;
  const CheckedTable before = checked_;
  find_causes(evident, sample(CheckLimits::told_from));
  std::erase_if(checked_.causes, [&](const Cause& c) {
    return c.misfit >
           std::min(CheckLimits::told_explains_plateau * checked_.misfit, CheckLimits::fits_well);
  });
  if (checked_.causes.empty()) checked_ = before;
  return !checked_.causes.empty();
}

CheckedTable Diagnosis::judge() {
  take_rows();
  predict_healthy();
  judge_rows();
  const bool too_fast = impossible();
  if (const auto choices = other_choices(collective_, table_.facts, sizes_, healthy_))
    checked_.remarks.push_back(*choices);
  if (const auto above = above_nics(table_, checked_, cluster_.machine))
    checked_.remarks.push_back(*above);
  if (table_.below_minimum) checked_.remarks.push_back(remark::BelowMinimum{});
  const bool usual = checked_.normal;  // in time, whatever else is wrong
  judge_run();
  if (const auto none = no_bandwidth(checked_); none && usual) checked_.remarks.push_back(*none);
  if (const auto old = old_nccl(checked_, cluster_.machine); old && !checked_.normal)
    checked_.remarks.push_back(*old);
  if (!checked_.normal && !table_.facts.settings.empty())
    checked_.remarks.push_back(remark::Settings{table_.facts.settings});
  if (too_fast || question_.causes == Causes::not_sought || !table_.facts.other_plugin.empty())
    return std::move(checked_);
  if (!checked_.earlier.empty()) checked_.remarks.push_back(beside_earlier(checked_));
  if (const auto plateau = short_plateau(checked_)) checked_.remarks.push_back(*plateau);
  if (lone_) checked_.remarks.push_back(lone_->remark);
  if (!usual && cluster_.other_gpu) {
    checked_.causes.push_back(wrong_instance(*cluster_.other_gpu));
    return std::move(checked_);
  }
  const std::vector<Setup> all = suspects_left();
  if (usual) {
    if (!shown_by_log(all)) remark_on_harmless(all);
    else checked_.normal = false;
    settle(checked_);
    return std::move(checked_);
  }
  if (only_lone_ || mostly_fast(checked_)) return std::move(checked_);
  if (cluster_.nodes > CheckLimits::most_nodes) {
    checked_.remarks.push_back(remark::TooManyNodes{CheckLimits::most_nodes});
    return std::move(checked_);
  }
  find_causes(all, sample(0));
  if (const auto single = single_size(checked_)) checked_.remarks.push_back(*single);
  const bool told = std::any_of(checked_.causes.begin(), checked_.causes.end(),
                                [](const Cause& c) { return c.finding.evidence.has_value(); });
  if (!checked_.causes.empty() && !told && !table_.facts.say_how() && cluster_.nodes > 1)
    checked_.remarks.push_back(remark::TimesAlone{});
  // Times that are many times too long are no scatter.
  const double scatter = scatter_of(checked_).value_or(0);
  if (scatter > 0 && std::log1p(checked_.misfit) < CheckLimits::above_scatter * scatter) {
    checked_.remarks.push_back(remark::Scatter{std::exp(scatter) - 1});
    std::erase_if(checked_.causes, [](const Cause& c) { return !c.finding.evidence; });
  } else if (checked_.causes.empty() && all_tried_) {
    checked_.remarks.push_back(slow_ranges(checked_, table_.facts, cluster_.machine));
  }
  settle(checked_);
  return std::move(checked_);
}

}  // namespace

CheckedTable diagnose(const NcclLog& log, const NcclTable& table, Collective collective,
                      LogCluster cluster, const CheckQuestion& question,
                      const BatchOptions& options) {
  return Diagnosis(log, table, collective, std::move(cluster), question, options).judge();
}

}  // namespace foreduce

// What the rows of a judged table say beside their verdicts.
#pragma once

#include <optional>

#include "scenarios/validation/diagnosis.hpp"
#include "scenarios/validation/findings.hpp"
#include "scenarios/validation/suspect_fit.hpp"
#include "topologies/machine.hpp"

namespace foreduce {

/// Whether a single slow size may be one at which the model changes protocols and NCCL does not: it
/// takes up to twice as long there.
bool may_be_a_switch(const CheckedRow& row);
/// Where the model changes to what a slow size seems to be run by already: the sizes are at most a
/// factor of 8 apart, for NCCL's versions and settings change at different sizes. Nothing where it
/// does not. `expected`: of a healthy cluster, by row.
std::optional<std::size_t> changes_early(const CheckedTable& table,
                                         const std::vector<Expectation>& expected, std::size_t row);
/// That NCCL seems to change earlier than the model, and to what.
std::optional<remark::EarlyChange> early_change(const CheckedTable& table,
                                                const std::vector<Expectation>& expected);

/// How long it takes beside the earlier run that says what is normal, in the mean of small sizes
/// and of large ones.
remark::BesideEarlier beside_earlier(const CheckedTable& table);
/// Whether the two largest sizes, or the only one, take much longer than the model predicts,
/// although its interval is so wide here that they are inside; whether it is so wide that it says
/// nothing; or whether healthy clusters that were published say so of one of them.
bool has_doubtful_plateau(const CheckedTable& table);
/// Why bus bandwidth may be above the NICs': a tree on two nodes sends S over them where busbw
/// counts 2(n-1)/n of it. Nothing where it is not, or where a ring is forced.
std::optional<remark::AboveNics> above_nics(const NcclTable& table, const CheckedTable& checked,
                                            const Machine& machine);
/// The same where it is within 5 % of what all NICs carry together, as a ring's is at best: no card
/// and no link between the nodes is slow.
std::optional<remark::AtLineRate> at_line_rate(const NcclTable& table, const CheckedTable& checked,
                                               const Machine& machine);
/// By how much small sizes, which alone can tell latency from bandwidth, take longer where most of
/// them are slow: the middle one's time. 0 where they are not. `expected`: of a healthy cluster.
Seconds longer_of_small(const CheckedTable& table, const std::vector<Expectation>& expected);
/// Whether the two largest sizes have the bus bandwidth that fewer cards than a node's carry
/// together, within 5 %: a ring through them would. Nothing where the log counts the cards, as
/// EFA's plugin does, or there are too many for that to mean anything.
std::optional<remark::AsFewerCards> as_fewer_cards(const CheckedTable& checked,
                                                   const NcclFacts& log, const Machine& machine);
/// How much less bus bandwidth the largest size reaches than expected; nothing where that is less
/// than a tenth, or the size is too small to be of bandwidth.
std::optional<remark::Plateau> short_plateau(const CheckedTable& table);
/// At which sizes it is slow, where no single cause fits. `log`: what NCCL said of the run.
remark::SlowRanges slow_ranges(const CheckedTable& table, const NcclFacts& log,
                               const Machine& machine);
/// Whether the model alone says that sizes are slow, none of them far, while all those from
/// CheckLimits::plateau_from on, of which there are some, are as they should be.
bool only_slow_below_plateau(const CheckedTable& table);
/// Of a table of one size, how often and how long it was measured; else nothing.
std::optional<remark::SingleSize> single_size(const CheckedTable& table);
/// That times in place are much longer than out of place, at three sizes in a row or far at one.
std::optional<remark::SlowInPlace> slow_in_place(const CheckedTable& table);
/// A single size that takes much longer than those beside it lead to expect.
struct LoneRow {
  std::size_t row = 0;
  bool far = false;  ///< so much longer that it is no scatter
  remark::LoneSlowSize remark;
};
/// The first of them, rather of large sizes; nothing where there is none. Small ones, where latency
/// jitters, take twice as long at least, and are never far.
std::optional<LoneRow> lone_slow_row(const CheckedTable& table,
                                     const std::vector<Expectation>& expected);
/// Where bus bandwidth falls from one large size to the next, and stays lower at the one after it,
/// although it should grow: the deepest fall; nothing where there is none.
std::optional<remark::SuddenFall> sudden_fall(const CheckedTable& table);
/// That the first size alone is slow, see starts_cold().
remark::ColdStart cold_start(const CheckedTable& table);
/// By how much one process that drives several GPUs may take longer for each call: of an
/// all-to-all it starts every pair's messages.
Seconds longer_by_one_process(const NcclTable& table, Collective collective);
/// Whether most sizes are faster than they are expected to be.
bool fast_in_most(const CheckedTable& table);
/// The same, and none is slow.
bool mostly_fast(const CheckedTable& table);
/// How much rows scatter around their neighbours, in the median and as a logarithm; 0 where they do
/// not scatter more than healthy ones, nothing where they are too few to tell.
std::optional<double> scatter_of(const CheckedTable& table);
/// What the run is like, whatever its rows say: who called, by how many processes, which plugin,
/// and NCCL's warnings.
std::vector<Remark> remarks_on_run(const NcclTable& table, Collective collective,
                                   const std::string& timed_by);
/// That all sizes are too small to tell bandwidth.
std::optional<remark::NoBandwidth> no_bandwidth(const CheckedTable& table);
/// That the run was by a release older than all that intervals are from.
std::optional<remark::OldNccl> old_nccl(const CheckedTable& table, const Machine& machine);
/// That a machine is taken for the log's by the GPU's name alone.
remark::GuessedInstance guessed_instance(const Machine& machine, int nodes);
/// That sums are wrong, from the counts of wrong elements or the largest errors of old tests.
std::optional<Remark> wrong_sums(const NcclTable& table, Collective collective);
/// Why the run did not end as it was to.
std::optional<remark::EndedEarly> ended_early(const NcclTable& table);
/// What failed after the run had ended; nothing where nothing did.
std::optional<remark::FailedLate> failed_late(const NcclTable& table);

}  // namespace foreduce

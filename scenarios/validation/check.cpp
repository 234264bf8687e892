#include <fmt/format.h>

#include <algorithm>

#include "scenarios/validation/check_limits.hpp"
#include "scenarios/validation/row_remarks.hpp"
#include "scenarios/validation/table_diagnosis.hpp"

namespace foreduce {
namespace {

/// What a table is judged as; nothing if that was not asked for, is not known, or if it is of one
/// GPU, beside others of several.
std::optional<Collective> collective_of(const NcclLog& log, const NcclTable& t,
                                        const CheckQuestion& question) {
  if (t.ranks == 1 && std::any_of(log.tables.begin(), log.tables.end(),
                                  [](const NcclTable& other) { return other.ranks != 1; }))
    return std::nullopt;
  const std::optional<Collective> named = collective_named(t.collective);
  if (!question.collective) return named;
  if (named) return named == question.collective ? named : std::nullopt;
  const bool possible =
      t.collective.empty() ||
      fmt::format(" or {} or ", t.collective)
              .find(fmt::format(" or {} or ", name_of(*question.collective))) != std::string::npos;
  return possible ? question.collective : std::nullopt;
}

/// One table of a log and what is asked about it.
struct AskedTable {
  const NcclLog& log;
  const NcclTable& table;
  Collective collective;
  const BatchOptions& options;

  CheckedTable judged(int nodes, const CheckQuestion& question) const {
    return diagnose(log, table, collective, cluster_of_log(log, table, question.instance, nodes),
                    question, options);
  }
};

/// Nothing tells how many nodes the ranks were on: one GPU a node is as usual, and there are nodes
/// of four and of two. Notes with which the times would be normal.
void try_other_nodes(CheckedTable& one, const AskedTable& asked, const CheckQuestion& question) {
  CheckQuestion quick = question;
  quick.causes = Causes::not_sought;
  remark::OtherNodes others;
  const int ranks = asked.table.ranks;
  for (const int each : {1, 2, 4})
    if (ranks % each == 0 && each < ranks && asked.judged(ranks / each, quick).normal)
      others.fitting.emplace_back(ranks / each, each);
  if (!others.fitting.empty()) one.remarks.insert(one.remarks.begin(), others);
}

/// Whether so many sizes are faster than the machine can be that it may be another one.
bool outruns_machine(const CheckedTable& t) {
  const auto fast = std::count_if(t.rows.begin(), t.rows.end(),
                                  [](const CheckedRow& r) { return r.verdict == Verdict::fast; });
  return static_cast<double>(fast) >= CheckLimits::fast_share * static_cast<double>(t.rows.size());
}

/// Where nothing but the GPU's name told the machine and the times are not that one's: judges it as
/// the machine with such GPUs that they fit, another network being the usual difference.
void try_other_machines(CheckedTable& one, const AskedTable& asked, const CheckQuestion& question) {
  CheckQuestion quick = question;
  quick.causes = Causes::not_sought;
  std::optional<CheckedTable> best;
  for (const std::string& name : machines_with(asked.table.gpu, one.ranks / one.nodes)) {
    if (name == one.instance) continue;
    quick.instance = name;
    CheckedTable other = asked.judged(one.nodes, quick);
    if (outruns_machine(other) || (one.normal && !other.normal)) continue;
    if (!best || (other.normal && !best->normal) ||
        (other.normal == best->normal && other.misfit < best->misfit))
      best = std::move(other);
  }
  if (!best) return;
  quick.instance = best->instance;
  quick.causes = question.causes;
  const remark::FittingMachine fitting{best->instance, one.instance};
  one = asked.judged(one.nodes, quick);
  one.remarks.insert(one.remarks.begin(), fitting);
}

}  // namespace

std::vector<CheckedTable> check(const NcclLog& log, const CheckQuestion& question,
                                const BatchOptions& options) {
  std::vector<CheckedTable> checked;
  for (const NcclTable& t : log.tables)
    if (const auto collective = collective_of(log, t, question)) {
      const AskedTable asked{log, t, *collective, options};
      checked.push_back(asked.judged(question.nodes, question));
      CheckedTable& one = checked.back();
      if (!one.normal && question.nodes == 0 && t.hosts == 0 && one.nodes == 1 && t.ranks > 1)
        try_other_nodes(one, asked, question);
      if (one.nodes > 1 && question.against != HealthyFrom::log && !question.profile &&
          outruns_machine(one) && only_gpu_tells_machine(t.facts, question))
        try_other_machines(one, asked, question);
    }
  if (log.tables.empty()) return checked;  // a run that failed is all there is
  if (checked.empty()) throw nothing_to_judge(log, question.collective);
  for (const NcclTable& t : log.tables)
    if ((!question.collective || t.ranks == 1) && !collective_of(log, t, question))
      checked.back().remarks.push_back(remark::PassedOver{t.collective, t.ranks == 1});
  return checked;
}

}  // namespace foreduce

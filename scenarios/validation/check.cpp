#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "scenarios/validation/check_limits.hpp"
#include "scenarios/validation/row_remarks.hpp"
#include "scenarios/validation/suspects.hpp"
#include "scenarios/validation/table_diagnosis.hpp"

namespace foreduce {

bool only_gpu_tells_machine(const NcclFacts& facts, const CheckQuestion& question) {
  // The plugin's name alone is no sign of EC2.
  const bool network_tells = facts.network != NcclNetwork::unknown &&
                             (facts.network != NcclNetwork::efa || facts.efa_named);
  return question.instance.empty() && !network_tells && !facts.nics && facts.platform.empty();
}
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
  const auto one_of_them = [&](const std::string& all) {
    return fmt::format(" or {} or ", all)
               .find(fmt::format(" or {} or ", name_of(*question.collective))) != std::string::npos;
  };
  if (named == question.collective || (!t.or_of.empty() && one_of_them(t.or_of)))
    return question.collective;
  if (named) return std::nullopt;
  const bool possible = t.collective.empty() || one_of_them(t.collective);
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

/// Whether so many sizes are faster than the machine can be that it may be another one.
bool outruns_machine(const CheckedTable& t) {
  const auto fast = std::count_if(t.rows.begin(), t.rows.end(),
                                  [](const CheckedRow& r) { return r.verdict == Verdict::fast; });
  return static_cast<double>(fast) >= CheckLimits::fast_share * static_cast<double>(t.rows.size());
}

/// Nothing tells how many nodes the ranks were on: one GPU a node is as usual, and there are nodes
/// of four and of two. Notes with which the times would be normal.
void try_other_nodes(CheckedTable& one, const AskedTable& asked, const CheckQuestion& question) {
  CheckQuestion quick = question;
  quick.causes = Causes::not_sought;
  remark::OtherNodes others;
  const int ranks = asked.table.ranks;
  for (const int each : {1, 2, 4}) {
    if (ranks % each != 0 || each >= ranks) continue;
    const CheckedTable other = asked.judged(ranks / each, quick);
    if (other.normal && !outruns_machine(other)) others.fitting.emplace_back(ranks / each, each);
  }
  if (!others.fitting.empty()) one.remarks.insert(one.remarks.begin(), others);
}

/// The verdict, without causes, as the machine with such GPUs that the times fit best, another
/// network being the usual difference; nothing where they outrun all. A normal one comes first,
/// then one whose GPUs have as much memory.
std::optional<CheckedTable> best_fit(const AskedTable& asked, CheckQuestion question, int nodes,
                                     int per_node, const std::string& except) {
  question.causes = Causes::not_sought;
  std::optional<CheckedTable> best;
  bool best_is_exact = false;
  for (const std::string& name : machines_with(asked.table.gpu, per_node)) {
    if (name == except) continue;
    question.instance = name;
    CheckedTable other = asked.judged(nodes, question);
    if (outruns_machine(other)) continue;
    const bool exact = is_gpu_named(asked.table.gpu, machine_named(name).gpu->model);
    if (!best || std::tuple(other.normal, exact, -other.misfit) >
                     std::tuple(best->normal, best_is_exact, -best->misfit)) {
      best = std::move(other);
      best_is_exact = exact;
    }
  }
  return best;
}

/// Where the times are not those of the machine that the GPU's name suggests: judges it as the one
/// that they fit better.
void try_other_machines(CheckedTable& one, const AskedTable& asked, CheckQuestion question) {
  const auto best = best_fit(asked, question, one.nodes, one.ranks / one.nodes, one.instance);
  // Small sizes alone may be fast; a machine that they fit worse is no better guess.
  if (!best || (!best->normal && (one.normal || best->misfit >= one.misfit))) return;
  const remark::FittingMachine fitting{best->instance, one.instance};
  question.instance = best->instance;
  question.machine_by = MachineBy::gpu_name;
  one = asked.judged(one.nodes, question);
  one.remarks.insert(one.remarks.begin(), fitting);
}

/// Where the times are not those of the machine that was asked for: says as which they are normal.
void name_other_machine(CheckedTable& one, const AskedTable& asked, CheckQuestion question) {
  question.instance.clear();
  const auto best = best_fit(asked, question, one.nodes, one.ranks / one.nodes, one.instance);
  if (best && best->normal)
    one.remarks.insert(one.remarks.begin(), remark::NormalAs{best->instance, one.nodes});
}

/// Where several machines have such GPUs: as the one whose times it has. Throws what is asked then
/// where it is normal for none.
CheckedTable judged_as_any(const AskedTable& asked, CheckQuestion question) {
  const NcclTable& t = asked.table;
  try {
    return asked.judged(question.nodes, question);
  } catch (const InputError&) {
    const int nodes = question.nodes > 0 ? question.nodes : t.hosts;
    const bool open = only_gpu_tells_machine(t.facts, question) && !question.profile &&
                      question.against != HealthyFrom::log && !t.gpu.empty() &&
                      t.facts.other_plugin.empty();
    // One GPU a node is a common test of larger nodes.
    if (!open || nodes < 1 || nodes > CheckLimits::most_nodes || t.ranks <= nodes ||
        t.ranks % nodes != 0 || !t.uneven.empty() || !t.conflicting_hosts.empty())
      throw;
    const auto best = best_fit(asked, question, nodes, t.ranks / nodes, "");
    if (!best || !best->normal) throw;
    question.instance = best->instance;
    question.machine_by = MachineBy::gpu_name;
    CheckedTable one = asked.judged(nodes, question);
    one.remarks.insert(one.remarks.begin(), remark::FittingMachine{best->instance, ""});
    return one;
  }
}

/// As asked; where the log leaves nodes or machine open and the times are not theirs, with what
/// other nodes or another machine would make of it.
CheckedTable judged_with_others(const AskedTable& asked, const CheckQuestion& question) {
  const NcclTable& t = asked.table;
  CheckedTable one = judged_as_any(asked, question);
  if (!one.normal && question.nodes == 0 && t.hosts == 0 && one.nodes == 1 && t.ranks > 1)
    try_other_nodes(one, asked, question);
  if (one.nodes > 1 && question.against != HealthyFrom::log && !question.profile &&
      !t.gpu.empty() && outruns_machine(one)) {
    if (only_gpu_tells_machine(t.facts, question)) try_other_machines(one, asked, question);
    else if (!question.instance.empty()) name_other_machine(one, asked, question);
  }
  return one;
}

/// What the times of one table tell of the machine holds for the others of such a cluster.
void share_machine(std::vector<CheckedTable>& checked, const std::vector<AskedTable>& asked,
                   CheckQuestion question) {
  const auto fitting_of = [](const CheckedTable& t) -> const remark::FittingMachine* {
    for (const Remark& r : t.remarks)
      if (const auto* fitting = std::get_if<remark::FittingMachine>(&r)) return fitting;
    return nullptr;
  };
  for (std::size_t known = 0; known < checked.size(); ++known) {
    const auto* found = fitting_of(checked[known]);
    if (!found) continue;
    const remark::FittingMachine fitting = *found;
    question.instance = fitting.instance;
    question.machine_by = MachineBy::gpu_name;
    for (std::size_t i = 0; i < checked.size(); ++i) {
      CheckedTable& other = checked[i];
      if (fitting_of(other) || other.nodes != checked[known].nodes ||
          other.ranks != checked[known].ranks || asked[i].table.gpu != asked[known].table.gpu ||
          !only_gpu_tells_machine(asked[i].table.facts, {}))
        continue;
      other = asked[i].judged(other.nodes, question);
      other.remarks.insert(other.remarks.begin(), fitting);
    }
  }
}

/// Whether every collective suffers from it, as from fewer cards or a detour.
bool slows_all(Fault fault) {
  switch (fault) {
    case Fault::sockets:
    case Fault::rails:
    case Fault::link:
    case Fault::cards:
    case Fault::bounce:
    case Fault::pcie:
    case Fault::nvlink:
    case Fault::instance:
    case Fault::gpu: return true;
    default: return false;
  }
}

/// What is normal beside a slow table of the same cluster rules out what would slow both.
void compare_tables(std::vector<CheckedTable>& checked) {
  for (CheckedTable& slow : checked) {
    if (slow.normal || slow.broken || slow.rows.back().verdict != Verdict::slow) continue;
    const auto normal = std::find_if(checked.begin(), checked.end(), [&](const CheckedTable& t) {
      return t.normal && t.collective != slow.collective && t.instance == slow.instance &&
             t.nodes == slow.nodes && t.ranks == slow.ranks &&
             t.rows.back().row.bytes >= CheckLimits::plateau_from;
    });
    if (normal == checked.end()) continue;
    std::erase_if(slow.causes, [](const Cause& c) {
      return !c.finding.evidence && slows_all(fault_of(c.finding.kind));
    });
    slow.remarks.insert(slow.remarks.begin(),
                        remark::OnlyThis{slow.collective, normal->collective, slow.nodes > 1});
  }
}

/// Why the run of a table is not to be trusted, whatever machine it ran on.
std::optional<Remark> broken_anywhere(const AskedTable& asked) {
  if (const auto why = wrong_sums(asked.table, asked.collective)) return why;
  if (const auto why = ended_early(asked.table); why && !why->failure.empty()) return *why;
  const auto late = failed_late(asked.table);
  return late && late->of_gpu ? std::optional<Remark>(*late) : std::nullopt;
}

/// Several tables of a log have one problem.
void add_once(std::vector<Problem>& all, const std::vector<Problem>& more) {
  for (const Problem& p : more)
    if (std::none_of(all.begin(), all.end(), [&](const Problem& known) {
          return known.message == p.message && known.hint == p.hint && known.file == p.file;
        }))
      all.push_back(p);
}

}  // namespace

std::vector<CheckedTable> check(const NcclLog& log, const CheckQuestion& question,
                                const BatchOptions& options, Unjudged* unjudged) {
  std::vector<CheckedTable> checked;
  std::vector<AskedTable> all;
  Unjudged others;
  for (const NcclTable& t : log.tables)
    if (const auto collective = collective_of(log, t, question)) {
      const AskedTable asked{log, t, *collective, options};
      try {
        checked.push_back(judged_with_others(asked, question));
        all.push_back(asked);
      } catch (const InputError& e) {
        if (!unjudged) throw;
        add_once(others.problems, e.problems());
        if (auto why = broken_anywhere(asked))
          others.broken.push_back({t.rows.front().line, t.collective, *why});
      }
    }
  const bool nothing_else = others.broken.empty() && log.failed_runs.empty();
  if (checked.empty() && !others.problems.empty() && nothing_else)
    throw InputError(others.problems);
  const bool refused = !others.problems.empty();
  if (unjudged) *unjudged = std::move(others);
  share_machine(checked, all, question);
  compare_tables(checked);
  if (checked.empty() && (log.tables.empty() || refused)) return checked;
  if (checked.empty()) throw nothing_to_judge(log, question.collective);
  for (const NcclTable& t : log.tables)
    if ((!question.collective || t.ranks == 1) && !collective_of(log, t, question))
      checked.back().remarks.push_back(remark::PassedOver{t.collective, t.ranks == 1});
  return checked;
}

}  // namespace foreduce

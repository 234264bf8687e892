// `foreduce check`: is this bandwidth normal?
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "scenarios/cli/machine_warnings.hpp"
#include "scenarios/cli/shared_options.hpp"

namespace foreduce {

namespace {

/// By published runs, the model, or an earlier log.
void judge_by(CheckQuestion& question, const std::string& against) {
  const std::vector<std::string> words{"published", "model"};
  if (against == "published") {
    question.against = HealthyFrom::published;
  } else if (against == "model") {
    question.against = HealthyFrom::model;
  } else if (std::filesystem::exists(against)) {
    question.against = HealthyFrom::log;
    question.earlier = std::make_shared<const NcclLog>(load_nccl_log(against));
  } else {
    throw input_error(
        fmt::format("--against {}: no such file, and neither published nor model", against),
        suggest(against, words));
  }
}

struct Judged {
  std::vector<CheckedLog> logs;
  std::vector<Problem> refused;  ///< logs and tables that cannot be judged, and why
};

/// Judges one log after the other; one that cannot be judged does not keep the others from it.
Judged judge_all(const std::vector<std::string>& files, const CheckQuestion& question,
                 const BatchOptions& options) {
  warn_of_machine(question.instance, {});
  Judged all;
  for (const std::string& file : files) try {
      NcclLog log = load_nccl_log(file, NoRow::is_failed_run);
      Unjudged unjudged;
      auto tables = check(log, question, options, &unjudged);
      all.refused.insert(all.refused.end(), unjudged.problems.begin(), unjudged.problems.end());
      all.logs.push_back({std::move(log), std::move(tables), std::move(unjudged.broken)});
    } catch (const InputError& e) {
      if (interrupted()) {  // standard input ended in the middle
        clear_progress();
        std::cerr << fmt::format("interrupted: no verdict on {}\n", file);
        break;
      }
      all.refused.insert(all.refused.end(), e.problems().begin(), e.problems().end());
    } catch (const Interrupted&) {  // what is known of the logs before is told
      clear_progress();
      std::cerr << fmt::format("interrupted: no verdict on {}\n", file);
      break;
    }
  return all;
}

/// Writes the report of what was judged, and returns the exit status.
int answer(const Judged& judged, const OutputOptions& output, const std::string& first_log) {
  const auto& [checked, refused] = judged;
  clear_progress();
  if (checked.empty() && !refused.empty()) throw InputError(refused);
  if (checked.empty()) return kInterruptedStatus;
  output.write(check_report(checked), first_log);
  const bool normal = std::all_of(checked.begin(), checked.end(), [](const CheckedLog& one) {
    return one.log.failed_runs.empty() && one.broken.empty() &&
           std::all_of(one.tables.begin(), one.tables.end(),
                       [](const CheckedTable& t) { return t.normal; });
  });
  // What is known to be wrong is an answer; what cannot be judged beside it does not change it.
  if (!refused.empty() && normal) throw InputError(refused);
  if (!refused.empty()) std::cerr << error_text(InputError(refused)) << "\n";
  return interrupted() ? kInterruptedStatus : normal ? 0 : 1;
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  struct Arguments {
    std::vector<std::string> logs;
    CheckQuestion question;
    std::string against = "published", collective, profile;
    OutputOptions output;
    SimulationOptions simulation;
  };
  auto* command = app.add_subcommand(
      "check", "Judge whether a measured bandwidth is normal, and say what may be wrong.");
  const auto a = std::make_shared<Arguments>();
  command
      ->add_option(
          "logs", a->logs,
          "What all_reduce_perf, reduce_scatter_perf, all_gather_perf, broadcast_perf or "
          "alltoall_perf printed, also as a table of Markdown or CSV, or its JSON (-J), or "
          "the table of PyTorch's all_reduce_bench.py: files, or - for standard input.")
      ->required();
  command->add_option("--instance", a->question.instance,
                      "A machine of foreduce list instances, or ./file.yaml. Default: from the "
                      "GPU's name in the log.");
  command
      ->add_option("--nodes", a->question.nodes,
                   "How many instances. Default: the hosts of the log, else ranks over GPUs.")
      ->check(CLI::Range(1, 65536));
  add_collective_option(*command, a->collective)
      ->description(
          "Judge the tables of this collective only, also where nothing in the log names it. "
          "Default: of every one that the log names.");
  auto* against = command
                      ->add_option("--against", a->against,
                                   "What is normal: published, what others published of such a "
                                   "cluster, where somebody did "
                                   "(of all-reduces); model, always the prediction; or the file of "
                                   "an earlier log of this "
                                   "cluster.")
                      ->capture_default_str();
  const auto* profile =
      command
          ->add_option(
              "--profile", a->profile,
              "Judge by this profile's predictions, a name or the ./file.yaml that foreduce "
              "calibrate wrote for this cluster. Default: the machine's.")
          ->excludes(against);
  add_caller_option(*command, a->question.timed_by)
      ->description(
          "Which loop called the collective: nccl-tests, or torch (torch.distributed from Python, "
          "which waits for every call). Default: torch for a table of all_reduce_bench.py.");
  a->output.add_to(*command);
  a->output.add_html_to(*command);
  a->simulation.add_to(*command);
  add_examples(*command, {"foreduce check nccl-tests.log",
                          "foreduce check nccl-tests.log --instance p4d.24xlarge --nodes 2",
                          "foreduce check all_gather.log --instance p5.48xlarge --nodes 4",
                          "foreduce check today.log --against last-month.log",
                          "foreduce check today.log --instance p5.48xlarge --profile ./ours.yaml",
                          "mpirun ... all_reduce_perf -b 8 -e 8G -f 2 | foreduce check -"});
  command->callback([a, profile, &action] {
    action = [a, profile] {
      judge_by(a->question, a->against);
      if (profile->count() > 0) {
        a->question.profile = std::make_shared<const Profile>(Profiles().load(a->profile));
        a->question.against = HealthyFrom::model;
      }
      a->question.collective = collective_named(a->collective);
      return answer(judge_all(a->logs, a->question, a->simulation.batch()), a->output,
                    a->logs.front());
    };
  });
}

}  // namespace foreduce

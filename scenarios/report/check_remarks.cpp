// What is worth saying beside verdict and causes, in words.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "models/caller.hpp"
#include "input/counted.hpp"
#include "scenarios/report/check_words.hpp"
#include "scenarios/report/words.hpp"
#include "scenarios/validation/log_cluster.hpp"

namespace foreduce {
namespace {

/// Remarks on the machine and on the run as a whole.
struct RunWords {
  std::string operator()(const remark::GuessedInstance& r) const {
    return fmt::format(
        "the log does not say on what machine it ran: {} has such GPUs{}; of another say "
        "--instance",
        r.instance,
        r.cards == 0 ? ""
                     : fmt::format(", and is taken to have {} card{} of {:.4g} Gbps: with fewer or "
                                   "slower ones longer times are normal",
                                   r.cards, plural(r.cards), r.card_rate.value / 125e6));
  }
  std::string operator()(remark::OnlyThis r) const {
    return fmt::format(
        "{} of this log is normal on the same cluster, and what would slow both is not the cause{}",
        title_of(r.normal),
        r.slow != Collective::all_to_all || !r.several_nodes
            ? ""
            : ". An all-to-all sends between all rails: look at the switches above the racks, at "
              "NCCL_PXN_DISABLE, and at NCCL_NCHANNELS_PER_NET_PEER, which adds channels to a "
              "peer");
  }
  std::string operator()(remark::NodesTaken r) const {
    return fmt::format(
        "the log lists no hosts: its {} ranks are taken to be on 1 node; of several "
        "say --nodes",
        r.ranks);
  }
  std::string operator()(const remark::FittingMachine& r) const {
    return fmt::format(
        "the log does not say on what machine it ran: judged as {}, {}; of another say --instance",
        r.instance,
        r.guessed.empty()
            ? "whose times fit best, of several machines that have such GPUs"
            : fmt::format("for it is faster than {} with such GPUs can be", r.guessed));
  }
  std::string operator()(const remark::NormalAs& r) const {
    return fmt::format("as {} x {} these times are normal: check again with --instance {}", r.nodes,
                       r.instance, r.instance);
  }
  std::string operator()(const remark::AskedProfile& r) const {
    std::string doubt;
    if (!r.library.starts_with("NCCL"))
      doubt = fmt::format("; it is of {}, and such a log is of NCCL", r.library);
    else if (!r.made_for.empty())
      doubt = fmt::format("; it was made for {}, and says little of {}",
                          fmt::join(r.made_for, ", "), r.gpu);
    return fmt::format(
        "judged by the profile {}, as --profile says: published times are left out, and no other "
        "machine with such GPUs is tried{}",
        r.name, doubt);
  }
  std::string operator()(const remark::TimedBy& r) const { return words_on(r.caller); }
  std::string operator()(const remark::OneProcess& r) const {
    return fmt::format(
        "one process drives {} GPUs: it may take {} more for each call, which small sizes show; "
        "with a process for each GPU (mpirun -np, -g 1) they are comparable",
        r.gpus, to_text(r.longer));
  }
  std::string operator()(remark::Blocking) const {
    return "Blocking Enabled (-z 1): each call waits for the one before and then for all ranks, "
           "which no interval here contains; without it small sizes are comparable";
  }
  std::string operator()(const remark::NotByNvls& r) const {
    return fmt::format(
        "NVLS does not sum {}, so rings and trees are expected; published times, of float, are "
        "left out",
        r.type);
  }
  std::string operator()(const remark::WideInterval& r) const {
    if (r.beside == HealthyFrom::model) return "the interval of the model is wide here: " + r.why;
    return fmt::format(
        "{} decides where it has a size near; for the others the interval of the model is wide, by "
        "what the model was fitted to: {}",
        r.beside == HealthyFrom::log ? "the earlier log" : "what healthy clusters published",
        r.why);
  }
  std::string operator()(remark::PredictionAlone r) const {
    return fmt::format(
        "{}s are judged by the prediction and its interval alone, not by published times",
        title_of(r.collective));
  }
  std::string operator()(const remark::Settings& r) const {
    std::vector<std::string> set;
    for (const auto& [name, value] : r.set) set.push_back(name + "=" + value);
    return fmt::format(
        "the log sets {}: measure again without, for NCCL's defaults are what is expected here",
        fmt::join(set, ", "));
  }
  std::string operator()(const remark::Harmless& r) const {
    // What would be faster is told where it is slow.
    const char* held = std::holds_alternative<cause::RingForTree>(r.finding.kind)   ? "a ring alone"
                       : std::holds_alternative<cause::TreeForRing>(r.finding.kind) ? "a tree alone"
                                                                                    : nullptr;
    return fmt::format("{}; {} (and yet the times are within their intervals)",
                       held ? held : what_words(r.finding), evidence_words(r.finding));
  }
  std::string operator()(const remark::Outpaced& r) const {
    if (std::holds_alternative<cause::RingForTree>(r.finding.kind))
      return fmt::format(
          "{}, but this run is faster than its NICs, which a ring cannot be: the setting did not "
          "hold, or the line is of another job",
          evidence_words(r.finding));
    return fmt::format(
        "{}; {}, but a cluster with that could not be as fast; the line may be of another job",
        what_words(r.finding), evidence_words(r.finding));
  }
  std::string operator()(const remark::Unexplained& r) const {
    return fmt::format("{}; {}, but that does not explain these times", what_words(r.finding),
                       evidence_words(r.finding));
  }
  std::string operator()(remark::StoppedSeeking r) const {
    return fmt::format("interrupted: {} of {} causes were tried", r.tried, r.of);
  }
  std::string operator()(remark::TooManyNodes r) const {
    return fmt::format(
        "causes are not sought on more than {} nodes, where simulating them takes minutes; measure "
        "a few of the nodes",
        r.most);
  }
  std::string operator()(remark::SingleSize r) const {
    constexpr double kVaries = 1.1;
    return fmt::format(
        "{}a single size cannot tell causes apart: measure a range of sizes (-b 8 -e 8G -f 2)",
        r.most < kVaries * r.least ? ""
                                   : fmt::format("it was measured {} times, from {} to {}: what "
                                                 "changes meanwhile, clocks or other traffic? ",
                                                 r.rows, to_text(r.least), to_text(r.most)));
  }
  std::string operator()(remark::TimesAlone) const {
    return "times alone do not always tell such causes apart: run it with NCCL_DEBUG=INFO too, and "
           "check that log, which says what NCCL used";
  }
  std::string operator()(remark::BelowMinimum) const {
    return "the run says that its average is below the least that it was told to accept "
           "(NCCL_TESTS_MIN_BW)";
  }
  std::string operator()(const Choices& r) const { return choices_words(r); }
  std::string operator()(const remark::OtherNodes& r) const {
    std::vector<std::string> fitting;
    for (const auto& [nodes, each] : r.fitting)
      fitting.push_back(fmt::format("--nodes {} ({} each)", nodes, counted(each, "GPU")));
    return fmt::format(
        "the log does not say on how many nodes it ran: check again with {}, where these times are "
        "normal",
        fmt::join(fitting, " or "));
  }
  std::string operator()(const remark::OtherPlugin& r) const {
    return fmt::format(
        "NCCL used the plugin {}, whose fabric is not known here: times below a few MiB say little",
        r.name);
  }
  std::string operator()(const remark::Warned& r) const {
    return fmt::format("the log has {}: {}", r.warnings.size() == 1 ? "a warning" : "warnings",
                       fmt::join(r.warnings, "; "));
  }
  std::string operator()(const remark::PassedOver& r) const {
    return fmt::format(
        "{} is passed over: {}",
        r.collective.empty() ? "a table of no known collective" : "a table of " + r.collective,
        r.one_gpu ? "it is of one GPU, where nothing is sent"
                  : "nothing says how long it should take");
  }
  std::string operator()(remark::LargestLeftOut r) const {
    return fmt::format("the row of {}, the largest size, holds no measurement", to_text(r.size));
  }
  std::string operator()(const remark::RowsUnread& r) const {
    return fmt::format("{} cannot be read, so that nothing is known beyond {}",
                       counted(r.count, "row"), to_text(r.last));
  }
  std::string operator()(const remark::EndedEarly& r) const {
    std::string why = r.failure.empty()
                          ? "the table ends early"
                          : fmt::format("the run ended with an error (\"{}\")", r.failure);
    if (r.short_of_asked)
      why += fmt::format(": it stops at {} of {} that were asked for", to_text(r.last),
                         to_text(r.asked));
    return why;
  }
  std::string operator()(const remark::FailedLate& r) const {
    return fmt::format("after its results the log says \"{}\"", r.failure);
  }
  std::string operator()(const remark::TakenFor& r) const {
    return fmt::format("taken for {}, which has the {} NICs that the log speaks of", r.instance,
                       r.nics);
  }
  std::string operator()(const remark::OtherGpus& r) const {
    return fmt::format("the log's GPUs are {}, those of {} are {}", r.gpu, r.instance,
                       r.instance_gpu);
  }
  std::string operator()(const remark::MixedGpus& r) const {
    return fmt::format(
        "the ranks have different GPUs, {}; the slowest decides, and {} has one kind", r.gpus,
        r.instance);
  }
  std::string operator()(const remark::OtherPlatform& r) const {
    return fmt::format("the log says that it ran on {}, and it is judged as {}", r.platform,
                       r.instance);
  }
  std::string operator()(const remark::OldNccl& r) const {
    return fmt::format(
        "NCCL {} is older than all releases that are known to be normal on such GPUs: measure "
        "again with newer ones of NCCL and, on EC2, aws-ofi-nccl",
        r.version);
  }
  std::string operator()(const remark::PcieCards& r) const {
    return fmt::format("the log's GPUs are {}, without NVLink, and those of {} have it", r.gpu,
                       r.instance);
  }
  std::string operator()(const remark::OutsideEc2& r) const {
    return fmt::format(
        "the log shows InfiniBand or RoCE, which is not EC2: judged as {}{}; --instance "
        "./file.yaml describes another machine",
        r.ships ? fmt::format("{}, with {} cards of {} a node", r.machine, r.cards,
                              to_text(r.card_rate))
                : r.machine + "'s GPUs and card rates over InfiniBand",
        r.cards == r.cards_counted ? ""
                                   : fmt::format(", although the log counts {}", r.cards_counted));
  }
  std::string operator()(remark::SideBySide r) const {
    return fmt::format(
        "rank 0 is listed {0} times, so these are {0} runs of {1} GPUs side by side, and nothing "
        "between them was measured; {2}",
        r.runs, r.gpus, kBuildWithMpi);
  }
  std::string operator()(const remark::SameGpu& r) const {
    return r.hosts > 0
               ? fmt::format(
                     "{}: taken for {} hosts that have one name; where they are one host, ranks "
                     "shared GPUs, and the log says nothing of the network",
                     r.ranks, r.hosts)
               : fmt::format("{}: give each rank a GPU of its own, and measure again", r.ranks);
  }
  std::string operator()(const remark::GpusInUse& r) const {
    return fmt::format("{} of the {} GPUs of each {} {} in use", r.used, r.of, r.instance,
                       r.used == 1 ? "is" : "are");
  }
  std::string operator()(const remark::LogNote& r) const { return r.file + ", " + r.note; }
  std::string operator()(const remark::LeftOut& r) const {
    return fmt::format("{}: {} is left out: it is none that foreduce predicts", r.file,
                       r.collective.empty() ? "a table" : r.collective);
  }
  std::string operator()(const remark::LearntFault& r) const {
    return fmt::format(
        "{} is of a cluster that is slower than such clusters are{}: the profile describes it as "
        "it is, fault included; see foreduce check {}",
        r.file, r.likeliest ? fmt::format(" ({})", what_words(*r.likeliest)) : "", r.file);
  }
};

/// Remarks on sizes and on sums.
struct RowWords {
  std::string operator()(remark::NoBandwidth r) const {
    return fmt::format(
        "the largest size is {}, which says nothing of bandwidth: measure up to 1 "
        "GiB at least (-b 8 -e 8G -f 2)",
        to_text(r.largest));
  }
  std::string operator()(remark::ColdStart r) const {
    return fmt::format(
        "the first size, {}, takes {:.1f} times as long as expected, and the next ones do not: "
        "connections are made then, so measure with more warm-up (-w 20)",
        to_text(r.size), r.times_expected);
  }
  std::string operator()(remark::FirstUse r) const {
    return fmt::format(
        "{} takes {} out of place, and {} in place, which is measured second: a first use, so "
        "measure with more warm-up (-w 20)",
        to_text(r.size), to_text(r.out_of_place), to_text(r.in_place));
  }
  std::string operator()(const remark::EarlyChange& r) const {
    return fmt::format(
        "from {} on it takes as long as if NCCL ran {}, which is expected from {} on: versions and "
        "settings change at different sizes",
        to_text(r.from), schedule_words(r.to), to_text(r.expected_from));
  }
  std::string operator()(const remark::Impossible& r) const {
    return fmt::format(
        "{} of {} sizes are faster than the links of {} x {} allow ({}: {}, {} at least): not that "
        "instance, not so many nodes, or not what the log says",
        r.count, r.of, r.nodes, r.instance, to_text(r.size), to_text(r.measured), to_text(r.least));
  }
  std::string operator()(remark::Scatter r) const {
    return fmt::format(
        "sizes scatter by {:.0f} % around their neighbours, so that no cause can be told: measure "
        "again with more iterations (-n 100 -w 20), and without other work on nodes and network",
        100 * r.share);
  }
  std::string operator()(remark::AboveNics r) const {
    return fmt::format(
        "busbw {:.1f} GB/s is above the NICs' {:.1f} GB/s, which a tree can reach: on two nodes it "
        "sends each byte once over the network, and busbw counts {:.3f} times",
        r.busbw, r.nics, r.counted);
  }
  std::string operator()(remark::AtLineRate r) const {
    return fmt::format(
        "busbw {:.1f} GB/s is what all NICs carry together, {:.1f} GB/s, so no card and no link to "
        "one is slow; a tree on two nodes sends each byte once, and reaches more",
        r.busbw, r.nics);
  }
  std::string operator()(const remark::AsFewerCards& r) const {
    return fmt::format(
        "busbw {:.1f} GB/s is about what a ring over {} of a node's {} cards would reach, {:.1f} "
        "GB/s, which may be chance: count the cards that it has, and those that NCCL uses (`NET/IB "
        ": Using` with NCCL_DEBUG=INFO, NCCL_IB_HCA)",
        r.busbw, r.cards, r.of, r.carried);
  }
  std::string operator()(const remark::BesideEarlier& r) const {
    if (!r.below_1mib && !r.from_1mib)
      return fmt::format("{} has no size near any of these", r.file);
    std::string times;
    if (r.below_1mib) times += fmt::format("{:.2f} times as long below 1 MiB", *r.below_1mib);
    if (r.below_1mib && r.from_1mib) times += ", and ";
    if (r.from_1mib) times += fmt::format("{:.2f} times as long from 1 MiB on", *r.from_1mib);
    return fmt::format("beside {} it takes, in the mean of all sizes, {}", r.file, times);
  }
  std::string operator()(const remark::Plateau& r) const {
    constexpr double kManyTimes = 10;
    const auto rate = [](double gbps) {
      return gbps < 0.1  ? fmt::format("{:.2g}", gbps)
             : gbps < 10 ? fmt::format("{:.2f}", gbps)
                         : fmt::format("{:.1f}", gbps);
    };
    return fmt::format("at {} it reaches {} GB/s bus bandwidth, {} the {} GB/s of {}{}",
                       to_text(r.size), rate(r.busbw),
                       r.times_expected < kManyTimes
                           ? fmt::format("{:.0f} % less than", 100 * (1 - 1 / r.times_expected))
                           : fmt::format("1/{:.0f} of", r.times_expected),
                       rate(r.busbw * r.times_expected),
                       r.expected_from == HealthyFrom::published
                           ? "healthy clusters that were published"
                       : r.expected_from == HealthyFrom::log ? r.earlier_log
                                                             : "the prediction",
                       r.inside ? ", which is still inside the interval" : "");
  }
  static constexpr const char* kNodesAdvice =
      "measure pairs of nodes, of which a slow one shows; then each node alone; look at other "
      "traffic, at the NICs' and GPUs' error counters, and outside of EC2 at PCIe's ACS and the "
      "IOMMU's translation (lspci -vvv: ACSCtl; iommu=pt)";
  static constexpr const char* kNodeAdvice =
      "compare with another node; look at the GPUs' clocks (nvidia-smi -q -d CLOCK,PERFORMANCE), "
      "NVLink (nvidia-smi nvlink -s) and other processes";
  static constexpr const char* kPcieNodeAdvice =
      "compare with another node; look at the GPUs' clocks (nvidia-smi -q -d CLOCK,PERFORMANCE), "
      "their PCIe links (nvidia-smi -q -d PCIE), how they are joined (nvidia-smi topo -m) and "
      "other "
      "processes";
  /// Where bandwidth is as it should be.
  static std::string choice_advice(const remark::SlowRanges& r) {
    const char* const tuner =
        r.network != NodeNetwork::efa ? "compare NCCL's version with those that others use;"
        : r.no_tuner
            ? "load aws-ofi-nccl's tuner (NCCL_TUNER_PLUGIN), for the log says that NCCL found "
              "none;"
            : "is aws-ofi-nccl's tuner loaded (NCCL_DEBUG=INFO says `TUNER/Plugin`)? compare the "
              "versions of NCCL and the plugin;";
    return fmt::format(
        "the largest size is as it should be, so the links are, and algorithm or protocol differ: "
        "{} NCCL 2.22 and later say what they chose with NCCL_DEBUG_SUBSYS=TUNING",
        tuner);
  }
  std::string operator()(const remark::SlowRanges& r) const {
    constexpr std::size_t kMost = 6;
    if (r.ranges.empty()) return "none of the usual causes fits";
    std::vector<std::string> where;
    for (const auto& [from, to] : r.ranges) where.push_back(range_words(from, to));
    if (r.to_last && where.size() == 1) {
      const auto [from, to] = r.ranges[0];
      where[0] = r.from_first ? "every size"
                 : from == to ? to_text(from)
                              : to_text(from) + " and beyond";
    }
    if (where.size() > kMost) {
      where.resize(kMost);
      where.emplace_back("more");
    }
    return fmt::format(
        "slower than normal at {}{}; none of the usual causes fits. Next: {}",
        fmt::join(where, ", "),
        r.to_last
            ? fmt::format(", {:.2f} times the expected time at the largest size", r.times_expected)
            : "",
        r.below_bandwidth ? choice_advice(r)
        : r.several_nodes ? kNodesAdvice
        : r.nvlink        ? kNodeAdvice
                          : kPcieNodeAdvice);
  }
  std::string operator()(remark::SlowInPlace r) const {
    return fmt::format(
        "in place it is slower: {} takes {}, {:.2f} times as long as out of place, which the rows "
        "are of; training reduces in place",
        to_text(r.size), to_text(r.in_place), r.times_out_of_place);
  }
  std::string operator()(remark::LoneSlowSize r) const {
    return fmt::format(
        "{} takes {:.1f} times as long as the size{} beside it lead{} to expect: measure it again",
        to_text(r.size), r.times, r.last ? "" : "s", r.last ? "s" : "");
  }
  std::string operator()(const remark::SuddenFall& r) const {
    return fmt::format(
        "from {} on it is slower than below: {} takes {:.1f} times as long as {}, and bus "
        "bandwidth falls by {:.0f} %; what changes there is NCCL's protocol or channels{}",
        to_text(r.at), to_text(r.at), r.times, to_text(r.before), 100 * (1 - r.left),
        r.several_nodes ? ", or the network congests (with RoCE: PFC, ECN, adaptive routing)" : "");
  }
  std::string operator()(remark::WrongElements r) const {
    return fmt::format("{:.0f} elements were wrong: whatever the speed, this run is broken",
                       r.count);
  }
  std::string operator()(remark::FailedChecks r) const {
    return fmt::format("{:.0f} check{} of results failed: whatever the speed, this run is broken",
                       r.count, plural(r.count));
  }
  std::string operator()(remark::LargeError r) const {
    return fmt::format(
        "the largest error of a sum is {} at {}: whatever the speed, this run is broken",
        std::isinf(r.error) ? "no number" : fmt::format("{:.2g}", r.error), to_text(r.size));
  }
};

struct RemarkWords : RunWords, RowWords {
  using RowWords::operator();
  using RunWords::operator();
};

}  // namespace

std::string remark_words(const Remark& remark) { return std::visit(RemarkWords{}, remark); }

}  // namespace foreduce

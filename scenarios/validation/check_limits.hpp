// The numbers by which `check` judges (docs/models.md, section 15), each with what it is from.
//
// "assumed": chosen by hand so that the published logs of tests/logs and models/reference are
// judged as their sources describe them. `foreduce validate --detection` shows what a change costs:
// how many healthy logs are called slow, and how many faults are found.
#pragma once

#include <cstddef>

namespace foreduce {

struct CheckLimits {
  // ---------------------------------------------------------------- sizes, bytes

  /// Below, a collective is latency alone. Assumed.
  static constexpr double latency_below = 64 << 10;
  /// From here on bandwidth shows in a time. Assumed.
  static constexpr double bandwidth_from = 1 << 20;
  /// From here on NCCL's versions use one protocol. Assumed.
  static constexpr double one_protocol_from = 16 << 20;
  /// A single slow card shows at every size from here on: of tables that go beyond
  /// `steady_of_long` only from there on, for latency still counts at 16 MiB. Assumed.
  static constexpr double steady_from = 16 << 20, steady_of_long = 128 << 20;
  /// From here on a largest size that is short of bandwidth is remarked on, and a fault that the
  /// log tells has to explain the times. Assumed.
  static constexpr double told_from = 64 << 20;
  /// From here on bandwidth alone counts (models/reference/healthy.yaml: sites differ least).
  static constexpr double plateau_from = 256 << 20;
  /// Two sizes that far apart, as a factor, tell nothing of what is between them. Assumed.
  static constexpr double far_apart = 8;
  /// So many times the largest published size bandwidth is taken to stay what it was. Assumed.
  static constexpr double farthest_beyond = 64;

  // ---------------------------------------------------------------- what is normal

  /// The band of published sites reaches so far beyond the slowest and the fastest. Assumed.
  static constexpr double beyond_sites = 1.03;
  /// Outside of EC2, where one machine has other releases, settings and hosts at each site, the
  /// band is wider by that factor either way. Assumed.
  static constexpr double wider_elsewhere = 1.03;
  /// Two runs of one cluster differ by so much, below and from `bandwidth_from` on. Assumed.
  static constexpr double repeats_small = 1.25, repeats_large = 1.1;
  /// No interval of a prediction is narrower, either way. Assumed, as `repeats_large`.
  static constexpr double least_spread = 1.1;
  /// Standard deviations of a 99 % interval over those of a 90 % one: who asks whether something is
  /// wrong wants to be wrong once in a hundred.
  static constexpr double to_99_percent = 2.576 / 1.645;
  /// Where this part of all sizes is faster than the machine that the GPU's name suggests, it may
  /// be another one; a fifth of slow ones is not normal either. Assumed.
  static constexpr double fast_share = 0.2;
  /// A card of less than this part of its rate came up slower: NCCL's graph has whole rates.
  static constexpr double card_rate = 0.75;
  /// An interval whose ends are so many times apart holds TCP beside EFA too. Assumed.
  static constexpr double tells_nothing = 4;
  /// Times below this part of what the links allow are impossible: rounding, and a NIC that does a
  /// little better than its sheet, explain no more. Assumed.
  static constexpr double impossible_below = 0.95;
  /// By so much a ring's bus bandwidth may seem to be above what the NICs carry together: rounding
  /// of what a log prints. Assumed.
  static constexpr double rounding = 0.002;

  /// One process that drives several GPUs (-g 8) takes up to so much longer for each call, seconds:
  /// 12 to 25 us more below 128 KiB on hosts with A100 and H200 (models/reference/not_fitted.csv).
  static constexpr double one_process = 25e-6;

  // ---------------------------------------------------------------- single sizes

  /// A size that takes so many times the slowest normal time is no scatter. Assumed.
  static constexpr double far_slower = 1.5;
  /// The same below `one_protocol_from` where nobody published it, since NCCL's versions change
  /// protocols at different sizes, and below `latency_below`, where healthy runs have spikes of 1.6
  /// (nvidia-llmb-h100-1n).
  static constexpr double far_slower_at_switch = 2;
  /// The same of a published plateau, where healthy sites agree within 7 %.
  static constexpr double far_slower_on_plateau = 1.25;
  /// A size that takes so many times what its neighbours lead to expect is remarked on; by
  /// `lone_far` no scatter explains it, on a plateau not by `lone_on_plateau`. Assumed.
  static constexpr double lone = 1.4, lone_far = 2, lone_on_plateau = 1.35;
  /// A size is a neighbour of one up to so many times larger: nccl-tests' steps are 2, people's 4.
  static constexpr double beside = 8;
  /// Bandwidth that falls to less than this part from one size to the next is remarked on. Assumed.
  static constexpr double sudden_fall = 0.7;
  /// Three sizes in a row that take so much longer in place than out of place, or one that takes
  /// `in_place_far` times as long and `far_slower` times the slowest normal time; below
  /// `bandwidth_from`, where latency jitters, `in_place_far_of_small` times. Assumed.
  static constexpr double in_place = 1.2, in_place_far = 2, in_place_far_of_small = 4;

  // ---------------------------------------------------------------- the plateau

  /// So many times the prediction is called unsure though the interval reaches further: of 41
  /// published conditions of healthy clusters, 38 take at most 1.13 times it at their two largest
  /// sizes, and the other three 1.21 to 2.04.
  static constexpr double doubtful = 1.2;
  /// The same of tables that end below `plateau_from`, but from `one_protocol_from` on. Assumed.
  static constexpr double doubtful_early = 1.5;
  /// An interval that reaches so many times what is expected says nothing of a cluster. Assumed:
  /// that of a machine of which no collective was ever compared reaches 5.6 times.
  static constexpr double says_little = 5;
  /// So far beyond the published band the largest size alone is enough to be unsure: sites agree
  /// within 7 % there.
  static constexpr double doubtful_alone = 1.1;
  /// A plateau that is so much lower is remarked on, though its row is normal. Assumed.
  static constexpr double short_plateau = 1.1;
  /// Slow sizes below a normal plateau count as the model's error up to so many times what is
  /// expected: healthy clusters were 2.4.
  static constexpr double model_error = 3;

  // ---------------------------------------------------------------- scatter

  /// In the median, how far sizes may be from the middle of their neighbours, as a logarithm: two
  /// runs of one healthy cluster differ by some 0.05.
  static constexpr double scatter = 0.12;
  /// The fewest sizes that tell it. Assumed.
  static constexpr std::size_t fewest_to_scatter = 6;
  /// A misfit of so many times the scatter is none. Assumed.
  static constexpr double above_scatter = 4;

  // ---------------------------------------------------------------- causes

  /// A cause that misses less in the mean fits well. Assumed.
  static constexpr double fits_well = 0.15;
  /// What misses more in the mean is no explanation; the second of an instance type with another
  /// GPU, which must be healthy itself. Assumed.
  static constexpr double poor_fit = 0.35, poor_fit_of_other_gpu = 0.15;
  /// What a cause may miss at most, of what a healthy cluster misses; where that is less than
  /// `little`, since half of little is explained by anything. Assumed.
  static constexpr double left = 0.8, left_of_little = 0.65, little = 0.2;
  /// A cause that misses that much is a factor off, and only the nearest of the usual ones.
  /// Assumed.
  static constexpr double factor_off = 2;
  /// So is one that misses `doubled` and more, if it leaves a larger part of the logarithm of what
  /// a healthy cluster misses: of a factor a little may be left. Assumed.
  static constexpr double doubled = 1, left_of_factor = 0.4;
  /// What the log says is no cause unless it misses so much less than a healthy cluster. Assumed.
  static constexpr double told_explains = 0.9;
  /// The same where rows are normal and the plateau is short. Assumed.
  static constexpr double told_explains_plateau = 0.6;
  /// Misfits that differ by less are alike: two healthy runs of one cluster differ by as much
  /// (models/reference/healthy.yaml). The misfit of what the log names is perfect below it.
  static constexpr double alike = 0.05;
  /// By how much more another GPU must fit better than what is wrong with the right instance type:
  /// between two of TCP's rates that are tried lie some 30 %. Assumed.
  static constexpr double handicap_of_other_gpu = 0.25;
  /// The same of NCCL's algorithm, which nobody forces without a setting that a log tells, and of
  /// another instance type that does not fit well: two causes that both fit are some 10 % apart.
  /// Assumed.
  static constexpr double handicap_of_untold = 0.1;
  /// The same of a single NIC that is left where every size crawls: that is TCP's as a rule, and
  /// between two of the rates at which TCP is tried lie some 30 %. Assumed.
  static constexpr double handicap_of_single_nic = 0.25;
  /// So many times the normal time is TCP's. Assumed.
  static constexpr double crawls = 5;
  /// A fault that costs messages alone must end so near the largest size; the second on a plateau.
  /// Assumed.
  static constexpr double near = 1.25, near_on_plateau = 1.06;
  /// A fault that the log tells is to be mended first where it costs so much; the second of a
  /// forced protocol. Assumed.
  static constexpr double costs_much = 1.1, costs_more = 1.3;
  /// How many times as long a size takes at least by LL, of which half is flags, where bandwidth
  /// counts.
  static constexpr double by_ll = 1.6;

  // ---------------------------------------------------------------- how many are simulated

  /// Nodes of clusters whose suspects are simulated: on 64 p5 that takes some 10 s, on 256 a
  /// minute.
  static constexpr int most_nodes = 256;
  /// Nodes up to which every suspect is simulated, at `sizes` sizes; on more each takes half a
  /// second, and suspects are tried at `sizes_of_many`.
  static constexpr int few_nodes = 16;
  static constexpr std::size_t sizes = 10, sizes_of_many = 5;
};

}  // namespace foreduce

// What `check` finds in a log, as data: causes, what the log says for them, and remarks. All of it
// is put into words in report/check_words.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "algorithms/core/collective.hpp"
#include "input/units.hpp"
#include "models/nccl_names.hpp"

namespace foreduce {

/// Where the times of a healthy cluster are from.
enum class HealthyFrom : std::uint8_t {
  published,  ///< what others measured on such a cluster
  model,      ///< the prediction, with its 99 % interval
  log         ///< what an earlier run of the same cluster measured
};
const char* name_of(HealthyFrom from);

/// What says on which machine a log was made.
enum class MachineBy : std::uint8_t { log_or_asker, gpu_name };

/// What carries bytes between the nodes where nothing is wrong; without RDMA it counts as
/// InfiniBand, whose remedies are not of EFA.
enum class NodeNetwork : std::uint8_t { efa, infiniband, roce };

/// What NCCL says that it chose for a range of sizes where something else is expected.
struct Choice {
  NcclAlgoProto chosen, expected;
  Bytes from, to;
  bool operator==(const Choice&) const = default;
};
struct Choices {
  std::vector<Choice> all;
  bool operator==(const Choices&) const = default;
};

/// Each is one thing that may be wrong with a cluster, with the numbers that its words need.
namespace cause {
struct OtherInstance {  ///< another instance type than was asked for
  std::string is, asked;
  bool other_gpu = false;  ///< which a user rarely mistakes
  bool operator==(const OtherInstance&) const = default;
};
struct OtherGpu {  ///< the log names GPUs that the instance type does not have
  std::string instance, instance_gpu, gpu;
  std::vector<std::string> fitting;  ///< instance types that have the log's
};
struct NoNvls {};
struct PcieForNvlink {};
struct HalfNvlink {};
struct HeldChannels {  ///< there are no more
  int most = 0;
  std::string setting;  ///< that allows no more; "": the log names none
};
struct SmallBuffer {  ///< NCCL_BUFFSIZE
  Bytes bytes;
};
struct TwoChannels {};
struct FewNics {
  int used = 0, of = 0;
  int rails = 0, of_rails = 0;        ///< that have one at least
  int used_of_rail = 0, of_rail = 0;  ///< of each rail that is in use; 0: not known of which
};
struct SlowPcieLink {  ///< of a GPU or a NIC
  double share = 0;    ///< of what it should carry
};
struct SlowCards {  ///< cards that came up at a lower rate
  BytesPerSecond rate, of;
};
struct OtherCards {  ///< the machine, which only the GPU's name tells, has other cards
  std::string instance;
  BytesPerSecond rate, of;
  int count = 0;
};
struct TcpForRdma {
  bool one_interface = false;
};
struct HostBounce {};
struct SlowMessages {
  int times = 0;  ///< as long
};
struct LatencyFloor {
  Collective collective = Collective::all_reduce;
  Seconds more;
  bool several_nodes = true;
};
struct RingForTree {
  bool old_nccl = false;  ///< it may be older than 2.4, which has no trees
  bool nvls = false;      ///< NVSwitches' sums would be faster
};
struct TreeForRing {
  bool nvls = false;  ///< as above
};
struct OneProtocol {
  NcclProtocol protocol = NcclProtocol::simple;
};
struct OtherChoices {       ///< of algorithm and protocol
  bool loses_nvls = false;  ///< where NVLS is expected
};
}  // namespace cause
using CauseKind =
    std::variant<std::monostate, cause::OtherInstance, cause::OtherGpu, cause::NoNvls,
                 cause::PcieForNvlink, cause::HalfNvlink, cause::HeldChannels, cause::SmallBuffer,
                 cause::TwoChannels, cause::FewNics, cause::SlowPcieLink, cause::SlowCards,
                 cause::OtherCards, cause::TcpForRdma, cause::HostBounce, cause::SlowMessages,
                 cause::LatencyFloor, cause::RingForTree, cause::TreeForRing, cause::OneProtocol,
                 cause::OtherChoices>;

/// Each is one thing that a log says for a cause.
namespace evidence {
/// What a line of NCCL_DEBUG=INFO says.
enum class Line : std::uint8_t {
  no_infiniband_card,
  libfabric_tcp,  ///< aws-ofi-nccl took it instead of EFA
  sockets,
  shared_memory,  ///< between the GPUs of a node
  no_multicast    ///< of the NVSwitches
};
struct Gpu {
  std::string name;
  bool operator==(const Gpu&) const = default;
};
struct Setting {
  std::string name, value;
  bool operator==(const Setting&) const = default;
};
struct Nics {  ///< that the plugin found, or that NCCL uses, where the fewest
  int found = 0, of = 0;
  std::string host;   ///< "": on all hosts alike
  int elsewhere = 0;  ///< on the other hosts
  bool operator==(const Nics&) const = default;
};
struct Channels {
  int count = 0;
  bool operator==(const Channels&) const = default;
};
struct NoGpudirect {
  std::string hosts;    ///< "gpu37", where others have it; "": on all, or none is named
  std::string too_far;  ///< see NcclFacts
  bool operator==(const NoGpudirect&) const = default;
};
struct CardRate {  ///< of the slowest in NCCL's graph
  BytesPerSecond rate;
  bool operator==(const CardRate&) const = default;
};
}  // namespace evidence
using Evidence =
    std::variant<evidence::Line, evidence::Gpu, evidence::Setting, evidence::Nics,
                 evidence::Channels, evidence::NoGpudirect, evidence::CardRate, Choices>;

/// A thing that may be wrong, on which network, and what the log says for it.
struct Finding {
  CauseKind kind;
  NodeNetwork network = NodeNetwork::efa;  ///< of the healthy machine; remedies differ
  std::optional<Evidence> evidence = {};
};

/// Each is worth saying beside verdict and causes.
namespace remark {
/// Nothing but the GPU's name tells the machine.
struct GuessedInstance {
  std::string instance;
  int cards = 0;  ///< that it is taken to have, where its builder chose them; 0: they are known
  BytesPerSecond card_rate;
};
/// Nor that alone: the times are those of this machine with such GPUs.
struct FittingMachine {
  std::string instance;
  std::string guessed;  ///< that the GPU's name suggested, and for which they are too fast; "":
                        ///< several have such GPUs
};
/// As the machine that was asked for it is faster than can be, and as this one normal.
struct NormalAs {
  std::string instance;
  int nodes;
};
/// By whose profile it is judged, because that was asked for.
struct AskedProfile {
  std::string name, library;
  std::vector<std::string> made_for;  ///< GPUs, of which the log's is none; empty: it is one
  std::string gpu;                    ///< the log's
};
/// The loop that called is not the usual one, see models/caller.hpp.
struct TimedBy {
  std::string caller;
};
struct WideInterval {
  std::string why;
  HealthyFrom beside = HealthyFrom::model;  ///< what decides where it has times
};
/// Nobody published such times.
struct PredictionAlone {
  Collective collective = Collective::all_reduce;
};
/// One process drives several GPUs, which its host has to start one after the other.
struct OneProcess {
  int gpus = 0;
  Seconds longer;  ///< that its times may be
};
/// Each call waited for the one before, and for all ranks (-z 1).
struct Blocking {};
/// Elements of a type that the switch does not sum.
struct NotByNvls {
  std::string type;
};
/// The first size alone is slow.
struct ColdStart {
  Bytes size;
  double times_expected = 0;
};
/// A size is slow out of place alone, which is measured first.
struct FirstUse {
  Bytes size;
  Seconds out_of_place, in_place;
};
/// NCCL seems to change to what is expected later.
struct EarlyChange {
  Bytes from, expected_from;
  NcclAlgoProto to;
};
/// Sizes are faster than the links allow; the last of them stands for all.
struct Impossible {
  std::size_t count = 0, of = 0;
  int nodes = 0;
  std::string instance;
  Bytes size;
  Seconds measured, least;
};
struct Settings {
  std::map<std::string, std::string> set;
};
/// The log speaks for a fault, and yet the times are normal.
struct Harmless {
  Finding finding;
};
/// The log speaks for a fault with which the cluster could not be as fast as it was.
struct Outpaced {
  Finding finding;
};
/// The log speaks for a fault that does not explain the times.
struct Unexplained {
  Finding finding;
};
struct StoppedSeeking {
  std::size_t tried = 0, of = 0;
};
struct TooManyNodes {
  int most = 0;
};
/// All rows are of one size.
struct SingleSize {
  std::size_t rows = 0;
  Seconds least, most;
};
/// NCCL says nothing of what it used, and the causes are told by times alone.
struct TimesAlone {};
/// The run was told a least bandwidth, and says that it did not reach it.
struct BelowMinimum {};
struct Scatter {
  double share = 0;  ///< of a time: 0.15 is 15 %
};
/// Bus bandwidth is above the NICs', as it is with trees on two nodes.
struct AboveNics {
  double busbw = 0, nics = 0;  ///< GB/s
  double counted = 0;          ///< how often busbw counts a byte that is sent once
};
/// Bus bandwidth is what the NICs carry together, where a tree on two nodes reaches more.
struct AtLineRate {
  double busbw = 0, nics = 0;  ///< GB/s
};
/// Bus bandwidth is what some of a node's cards carry together.
struct AsFewerCards {
  double busbw = 0, carried = 0;  ///< GB/s
  int cards = 0, of = 0;
};
/// How long it takes beside an earlier run, in the mean of small sizes and of large ones.
struct BesideEarlier {
  std::string file;
  std::optional<double> below_1mib, from_1mib;
};
/// How much less bus bandwidth the largest size reaches than expected.
struct Plateau {
  Bytes size;
  double busbw = 0, times_expected = 0;  ///< GB/s; of the time
  HealthyFrom expected_from = HealthyFrom::model;
  std::string earlier_log;
  bool inside = false;  ///< the interval
};
/// Where it is slow, and no usual cause fits.
struct SlowRanges {
  std::vector<std::pair<Bytes, Bytes>> ranges;
  bool from_first = false, to_last = false;  ///< of all sizes
  double times_expected = 0;                 ///< of the largest size
  bool several_nodes = false;
  /// The largest size, which bandwidth alone decides, is as it should be between nodes.
  bool below_bandwidth = false;
  bool no_tuner = false;  ///< the log says that NCCL found no plugin that chooses
  bool nvlink = true;     ///< the GPUs have it
  NodeNetwork network = NodeNetwork::efa;
};
struct SlowInPlace {
  Bytes size;
  Seconds in_place;
  double times_out_of_place = 0;
};
/// One size takes much longer than those beside it lead to expect.
struct LoneSlowSize {
  Bytes size;
  double times = 0;
  bool last = false;
};
/// Bandwidth falls from one size to the next, and stays lower.
struct SuddenFall {
  Bytes before, at;
  double times = 0;  ///< as long
  double left = 0;   ///< of the bandwidth
  bool several_nodes = false;
};
/// Numbers of nodes with which the times would be normal: so many nodes, so many GPUs each.
struct OtherNodes {
  std::vector<std::pair<int, int>> fitting;
};
/// What carried the bytes is a plugin of which nothing is known.
struct OtherPlugin {
  std::string name;
};
/// NCCL's own warnings.
struct Warned {
  std::vector<std::string> warnings;
};
/// A table is not judged.
struct PassedOver {
  std::string collective;  ///< "": not known
  bool one_gpu = false;
};
struct WrongElements {
  double count = 0;
};
struct FailedChecks {
  double count = 0;
};
struct LargeError {
  double error = 0;  ///< infinite: no number
  Bytes size;
};
/// The row of the largest size is whole, and no numbers of a measurement stand in it.
struct LargestLeftOut {
  Bytes size;
};
/// Rows that cannot be read: what is judged is a part of the table.
struct RowsUnread {
  int count = 0;
  Bytes last;  ///< that is judged
};
/// The run failed, stopped before the size that was asked for, or both.
struct EndedEarly {
  std::string failure;  ///< "": the log does not say
  Bytes last, asked;
  bool short_of_asked = false;
  std::string warning;  ///< NCCL's last; "" where it gave none
};
/// What the log says of a failure after the last row.
struct FailedLate {
  std::string failure;
  bool of_gpu = false;  ///< the driver reported an error of a GPU (Xid)
};
/// The number of NICs told instance types apart.
struct TakenFor {
  std::string instance;
  int nics = 0;
};
struct OtherGpus {
  std::string gpu, instance, instance_gpu;
};
struct MixedGpus {
  std::string gpus, instance;
};
/// Another collective of the log is normal on the same cluster.
struct OnlyThis {
  Collective slow = Collective::all_reduce, normal = Collective::all_reduce;
  bool several_nodes = false;
};
/// The log lists no hosts, and all ranks are taken to be on one node.
struct NodesTaken {
  int ranks = 0;
};
/// The log names another instance type than the one that was asked for.
struct OtherPlatform {
  std::string platform, instance;
};
/// The log is of a release that normal times are not of.
struct OldNccl {
  std::string version;
};
/// All sizes are so small that none tells bandwidth.
struct NoBandwidth {
  Bytes largest;
};
struct PcieCards {
  std::string gpu, instance;
};
/// An InfiniBand log is judged as a machine outside of EC2.
struct OutsideEc2 {
  std::string machine;
  bool ships = false;  ///< a machine of topologies/elsewhere; else an instance type's GPUs
  int cards = 0, cards_counted = 0;
  BytesPerSecond card_rate;
};
/// Processes that ran by themselves.
struct SideBySide {
  int runs = 0, gpus = 0;
};
/// Two ranks are listed on one GPU.
struct SameGpu {
  std::string ranks;  ///< "ranks 0 and 8 are both on device 0[0x07] of node-1"
  int hosts = 0;      ///< of one name, for which that is taken; 0: it is not
};
struct GpusInUse {
  int used = 0, of = 0;  ///< of each node
  std::string instance;
};
/// Of a log's rows, see NcclLog::notes.
struct LogNote {
  std::string file, note;
};
/// A table that a profile cannot be fitted to.
struct LeftOut {
  std::string file, collective;
};
/// A log that a profile was fitted to is not normal beside the profile that ships.
struct LearntFault {
  std::string file;
  std::optional<Finding> likeliest;  ///< nothing: no usual cause fits
};
}  // namespace remark
using Remark = std::variant<
    remark::GuessedInstance, remark::NodesTaken, remark::OnlyThis, remark::FittingMachine,
    remark::NormalAs, remark::TimedBy, remark::OneProcess, remark::Blocking, remark::NotByNvls,
    remark::WideInterval, remark::PredictionAlone, remark::ColdStart, remark::FirstUse,
    remark::EarlyChange, remark::Impossible, remark::Settings, remark::Harmless, remark::Outpaced,
    remark::Unexplained, remark::StoppedSeeking, remark::TooManyNodes, remark::SingleSize,
    remark::BelowMinimum, remark::TimesAlone, remark::Scatter, Choices, remark::AboveNics,
    remark::AtLineRate, remark::AsFewerCards, remark::BesideEarlier, remark::Plateau,
    remark::SlowRanges, remark::SlowInPlace, remark::LoneSlowSize, remark::SuddenFall,
    remark::OtherNodes, remark::PassedOver, remark::WrongElements, remark::FailedChecks,
    remark::LargeError, remark::LargestLeftOut, remark::RowsUnread, remark::EndedEarly,
    remark::FailedLate, remark::TakenFor, remark::OtherGpus, remark::MixedGpus, remark::PcieCards,
    remark::OutsideEc2, remark::SideBySide, remark::AskedProfile, remark::SameGpu,
    remark::GpusInUse, remark::LogNote, remark::LeftOut, remark::LearntFault, remark::OtherPlugin,
    remark::Warned, remark::OtherPlatform, remark::OldNccl, remark::NoBandwidth>;

}  // namespace foreduce

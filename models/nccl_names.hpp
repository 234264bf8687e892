// NCCL's algorithms and protocols, and what we, its variables, its logs and its tuners call them.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/core/collective.hpp"
#include "input/words.hpp"

namespace foreduce {

/// How NCCL runs a collective; its words are the names of the same algorithms in algorithms/.
enum class NcclAlgorithm : std::uint8_t {
  ring,
  double_tree,
  nvls,       ///< in the NVSwitch of one node
  nvls_tree,  ///< the same, and trees between nodes
  pat,
  pairwise  ///< sends and receives, of an all-to-all
};
template <>
struct EnumWords<NcclAlgorithm> {
  static constexpr EnumWord<NcclAlgorithm> all[] = {
      {NcclAlgorithm::ring, "ring"}, {NcclAlgorithm::double_tree, "double-tree"},
      {NcclAlgorithm::nvls, "nvls"}, {NcclAlgorithm::nvls_tree, "nvls-tree"},
      {NcclAlgorithm::pat, "pat"},   {NcclAlgorithm::pairwise, "pairwise"}};
};

/// NCCL's own protocols; a profile's may have other names.
enum class NcclProtocol : std::uint8_t { ll, ll128, simple };
/// As NCCL_PROTO has them.
template <>
struct EnumWords<NcclProtocol> {
  static constexpr EnumWord<NcclProtocol> all[] = {
      {NcclProtocol::ll, "LL"}, {NcclProtocol::ll128, "LL128"}, {NcclProtocol::simple, "Simple"}};
};

/// What NCCL's tuning chooses: an algorithm with a protocol.
struct NcclAlgoProto {
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  std::optional<NcclProtocol> protocol = {};  ///< null: the profile has none of NCCL's
  auto operator<=>(const NcclAlgoProto&) const = default;
};

/// What others call an algorithm that NCCL_ALGO can force.
struct NcclAlgorithmNames {
  NcclAlgorithm algorithm;
  const char* variable;  ///< NCCL_ALGO's word
  const char* logged;    ///< what NCCL_DEBUG_SUBSYS=TUNING prints from 2.22 on
  const char* number;    ///< and before that (enqueue.cc)
  const char* tuner;     ///< in the file of NVIDIA's example of a tuner
};
/// In the order in which they are offered to users.
inline constexpr NcclAlgorithmNames kNcclAlgorithms[] = {
    {NcclAlgorithm::ring, "Ring", "RING", "1", "ring"},
    {NcclAlgorithm::double_tree, "Tree", "TREE", "0", "tree"},
    {NcclAlgorithm::nvls, "NVLS", "NVLS", "4", "nvls"},
    {NcclAlgorithm::nvls_tree, "NVLSTree", "NVLS_TREE", "5", "nvls_tree"},
    {NcclAlgorithm::pat, "PAT", "PAT", "6", "pat"}};

/// NCCL_ALGO's words, in that order.
std::vector<std::string> nccl_algorithm_words();
/// Its names by our name of the algorithm ("double-tree"); null for one that NCCL_ALGO cannot
/// force.
const NcclAlgorithmNames* nccl_names_of(std::string_view ours);
/// The algorithm of NCCL_ALGO's word, in capitals or not; nothing for another word.
std::optional<NcclAlgorithm> nccl_algorithm_forced(std::string_view word);
/// The protocol of NCCL_PROTO's word, in capitals or not; nothing for another word.
std::optional<NcclProtocol> nccl_protocol_forced(std::string_view word);
/// Whether the NVSwitch sums such elements: types and operations as nccl-tests prints them, "float"
/// and "sum", which "" stands for (NVIDIA/nccl src/include/device.h, ncclNvlsSupported).
bool nvls_sums(std::string_view type, std::string_view operation);
/// What NCCL has for a collective.
std::vector<NcclAlgorithm> nccl_algorithms_for(Collective collective);

}  // namespace foreduce

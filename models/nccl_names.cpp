#include "models/nccl_names.hpp"

#include <algorithm>
#include <cctype>

namespace foreduce {
namespace {

bool same_but_for_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

std::vector<std::string> nccl_algorithm_words() {
  std::vector<std::string> words;
  for (const NcclAlgorithmNames& names : kNcclAlgorithms) words.emplace_back(names.variable);
  return words;
}

const NcclAlgorithmNames* nccl_names_of(std::string_view ours) {
  for (const NcclAlgorithmNames& names : kNcclAlgorithms)
    if (to_text(names.algorithm) == ours) return &names;
  return nullptr;
}

std::optional<NcclAlgorithm> nccl_algorithm_forced(std::string_view word) {
  for (const NcclAlgorithmNames& names : kNcclAlgorithms)
    if (same_but_for_case(names.variable, word)) return names.algorithm;
  return std::nullopt;
}

std::optional<NcclProtocol> nccl_protocol_forced(std::string_view word) {
  for (const EnumWord<NcclProtocol>& protocol : EnumWords<NcclProtocol>::all)
    if (same_but_for_case(protocol.text, word)) return protocol.value;
  return std::nullopt;
}

bool nvls_sums(std::string_view type, std::string_view operation) {
  if (operation.empty()) operation = "sum";
  if (type == "float" || type == "double" || type.empty()) return operation == "sum";
  constexpr std::string_view kTypes[] = {"int",    "int32", "uint32",  "int64",
                                         "uint64", "half",  "bfloat16"};
  const bool known = std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
  return known && (operation == "sum" || operation == "min" || operation == "max");
}

std::vector<NcclAlgorithm> nccl_algorithms_for(Collective collective) {
  using enum NcclAlgorithm;
  switch (collective) {
    case Collective::reduce_scatter:
    case Collective::all_gather: return {ring, nvls, pat};
    case Collective::broadcast: return {ring};
    case Collective::all_to_all: return {pairwise};
    case Collective::all_reduce: break;
  }
  return {ring, double_tree, nvls, nvls_tree};
}

}  // namespace foreduce

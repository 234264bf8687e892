// Enums by their words: each value has one word, and each word one value.
#include <gtest/gtest.h>

#include <set>

#include "algorithms/core/experiment.hpp"
#include "algorithms/core/registry.hpp"
#include "models/nccl_names.hpp"
#include "models/profile.hpp"
#include "scenarios/sweep/scenario.hpp"
#include "topologies/machine.hpp"

namespace foreduce {
namespace {

template <class E>
void expect_one_to_one() {
  std::set<std::string> words;
  std::set<E> values;
  for (const EnumWord<E>& word : EnumWords<E>::all) {
    EXPECT_TRUE(words.insert(word.text).second) << word.text;
    EXPECT_TRUE(values.insert(word.value).second) << word.text;
    EXPECT_EQ(to_text(word.value), word.text);
    EXPECT_EQ(value_named<E>(word.text), word.value);
  }
  EXPECT_EQ(value_named<E>("no such word"), std::nullopt);
  EXPECT_EQ(value_named<E>(""), std::nullopt);
  EXPECT_EQ(foreduce::names_of<E>().size(), words.size());
}

TEST(Words, NameEachValueOnce) {
  expect_one_to_one<NvLinkKind>();
  expect_one_to_one<NicFabric>();
  expect_one_to_one<Fabric>();
  expect_one_to_one<Placement>();
  expect_one_to_one<GradientSums>();
  expect_one_to_one<Communicators>();
  expect_one_to_one<ServerPlace>();
  expect_one_to_one<Bucketing>();
  expect_one_to_one<BoundKind>();
  expect_one_to_one<Offload>();
  expect_one_to_one<NcclAlgorithm>();
  expect_one_to_one<NcclProtocol>();
  expect_one_to_one<Precision>();
  expect_one_to_one<NumberOrigin>();
  expect_one_to_one<Type>();
  expect_one_to_one<Collective>();
}

TEST(Experiments, AreNamedEachByOneWord) {
  for (std::size_t i = 0; i < kExperimentNames.size(); ++i)
    EXPECT_EQ(experiment_named(name_of(static_cast<Experiment>(i))), static_cast<Experiment>(i));
  for (std::size_t i = 0; i < kExperimentPathNames.size(); ++i)
    EXPECT_EQ(experiment_path_named(name_of(static_cast<ExperimentPath>(i))),
              static_cast<ExperimentPath>(i));
  EXPECT_EQ(experiment_named("no such word"), std::nullopt);
}

// Each is the name of one of our algorithms too, which is looked up by it.
TEST(NcclNames, NameAlgorithmsThatWeHave) {
  for (const Collective c : {Collective::all_reduce, Collective::reduce_scatter,
                             Collective::all_gather, Collective::broadcast, Collective::all_to_all})
    for (const NcclAlgorithm a : nccl_algorithms_for(c))
      EXPECT_NE(find_algorithm(to_text(a), c), nullptr) << to_text(a) << " " << name_of(c);
  for (const NcclAlgorithmNames& names : kNcclAlgorithms) {
    EXPECT_EQ(nccl_algorithm_forced(names.variable), names.algorithm);
    EXPECT_EQ(nccl_names_of(to_text(names.algorithm)), &names);
  }
  EXPECT_EQ(nccl_algorithm_forced("nvlstree"), NcclAlgorithm::nvls_tree);
  EXPECT_EQ(nccl_algorithm_forced("^Tree"), std::nullopt);
  EXPECT_EQ(nccl_protocol_forced("SIMPLE"), NcclProtocol::simple);
  EXPECT_EQ(nccl_names_of("pairwise"), nullptr);
}

}  // namespace
}  // namespace foreduce

// References that the program writes of itself, and what it lists.
#include <gtest/gtest.h>

#include "algorithms/core/registry.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;
namespace fs = std::filesystem;

class Reference : public testing::TestWithParam<const char*> {};

TEST_P(Reference, EqualsTheDocument) {
  const std::string what = GetParam();
  const fs::path document = source_folder() / "docs" / (what + ".md");
  ASSERT_TRUE(fs::exists(document))
      << "write it with: foreduce docs " << what << " -o " << document;
  const Result r = foreduce_says("docs " + what);
  ASSERT_EQ(r.status, 0) << r.out;
  EXPECT_TRUE(r.out == read_text(document))
      << document << " is stale; write it with: foreduce docs " << what << " -o " << document;
}

INSTANTIATE_TEST_SUITE_P(docs, Reference, testing::Values("commands", "scenario", "machine"),
                         [](const auto& name) { return std::string(name.param); });

TEST(References, NameEveryCommandWithItsOptions) {
  const std::string commands = foreduce_says("docs commands").out;
  for (const char* command : {"predict", "compare", "plan", "check", "run", "calibrate", "validate",
                              "topology", "list", "show", "merge", "schema", "docs"})
    EXPECT_SAYS(commands, std::string("foreduce ") + command);
  EXPECT_SAYS(commands, "--full-pipelines");
  EXPECT_TRUE(foreduce_says("docs man").out.starts_with(".TH "));
  EXPECT_SAYS(foreduce_says("docs bash").out, "complete -");
}

// The schema accepts what the loader accepts and refuses what it refuses, as an independent
// validator sees it.
TEST(Schema, IsValidAndAgreesWithTheLoader) {
  if (shell("/usr/bin/python3 -c 'import jsonschema, yaml'").status != 0)
    GTEST_SKIP() << "python3-jsonschema and python3-yaml are not installed: the schema is not "
                    "checked by an independent validator";
  const Result r = shell((source_folder() / "tests" / "cli" / "check_schema.py").string() +
                         " " FOREDUCE_PROGRAM " " + (source_folder() / "scenarios").string());
  EXPECT_EQ(r.status, 0) << r.out;
}

TEST(List, NamesEveryAlgorithmOfEveryCollective) {
  const std::string listed = foreduce_says("list algorithms").out;
  for (const Algorithm* a : all_algorithms())
    EXPECT_SAYS(listed, std::string(a->name) + ", " + std::string(title_of(a->collective)) + "\n");
}

TEST(Topology, DescribesEveryInstance) {
  const auto instances = json_of("list instances")["instances"];
  EXPECT_GE(instances.size(), 22u);
  for (const auto& i : instances) {
    const std::string name = i["instance"];
    EXPECT_EQ(foreduce_says("topology --dot " + name).status, 0) << name;
    EXPECT_EQ(json_of("topology " + name).value("kind", ""), "topology") << name;
  }
  EXPECT_SAYS(foreduce_says("topology p3dn.24xlarge").out, "0-3-2-1-5-6-7-4");
}

TEST(Topology, SpeaksAsNvidiaSmi) {
  const std::string p4d = foreduce_says("topology p4d.24xlarge").out;
  EXPECT_SAYS(p4d, "NIC1  NODE  NODE  PXB   PXB   SYS   SYS   SYS   SYS");
  EXPECT_SAYS(p4d, "GPU0  X     NV12  NV12");
  EXPECT_SAYS(foreduce_says("topology p5.48xlarge").out,
              "NIC28-31  SYS   SYS   SYS   SYS   NODE  NODE  NODE  PXB");
  EXPECT_SAYS(foreduce_says("topology p3dn.24xlarge").out,
              "GPU0  X     NV1   NV1   NV2   NV2   SYS   SYS   SYS");
}

}  // namespace
}  // namespace foreduce

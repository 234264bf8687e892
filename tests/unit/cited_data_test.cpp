// Our own constants: each number cites a source that is there, and no source is there for nothing.
#include <gtest/gtest.h>

#include "input/cited_data.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/files.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

struct TwoNumbers {
  Seconds wait;
  double share = 0;
};
template <class Fields>
void describe(Fields& f, TwoNumbers& n) {
  f.required("wait", n.wait, "");
  f.required("share", n.share, "");
  f.sources("sources");
}

std::string refusal_of_constants(const std::string& text) {
  const TemporaryFolder folder;
  return error_of([&] { load_cited<TwoNumbers>(folder.write("c.yaml", text)); });
}

TEST(CitedData, ReadsNumbersThatCiteTheirSources) {
  const TemporaryFolder folder;
  const auto n = load_cited<TwoNumbers>(folder.write("c.yaml", R"(wait: 5 ms @paper
share: 0.5 @log
sources: { paper: x, log: y }
)"));
  EXPECT_EQ(n.wait.value, 5e-3);
  EXPECT_EQ(n.share, 0.5);
}

TEST(CitedData, RefusesSourcesThatAreMissingUnusedOrEmpty) {
  EXPECT_SAYS(refusal_of_constants(R"(wait: 5 ms @paper
share: 0.5
sources: { paper: x }
)"),
              "names its source");
  EXPECT_SAYS(refusal_of_constants(R"(wait: 5 ms @papr
share: 0.5 @paper
sources: { paper: x }
)"),
              "wait: there is no source called 'papr'");
  EXPECT_SAYS(refusal_of_constants(R"(wait: 5 ms @paper
share: 0.5 @paper
sources: { paper: x, log: y }
)"),
              "nothing cites 'log'");
  EXPECT_SAYS(refusal_of_constants(R"(wait: 5 ms @paper
share: 0.5 @paper
sources: { paper: }
)"),
              "what is 'paper'?");
  EXPECT_SAYS(refusal_of_constants("wait: 5 ms @paper\nshare: 0.5 @paper\n"),
              "sources: a map is missing here");
}

}  // namespace
}  // namespace foreduce

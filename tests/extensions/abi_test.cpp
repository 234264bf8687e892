// What plug-ins and the program share may not change unnoticed.
#include <gtest/gtest.h>

#include <regex>

#include "algorithms/core/plugin.hpp"
#include "input/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/source_scan.hpp"

namespace foreduce {
namespace {

using namespace test;

/// The code of the headers that plug-ins see, without comments and layout.
std::string shared_code() {
  std::string code;
  for (const char* header :
       {"buffer", "collective", "layout", "spanning_trees", "transport", "registry"})
    code += code_of(
        read_text(source_folder() / "algorithms" / "core" / (std::string(header) + ".hpp")));
  return std::regex_replace(code, std::regex("\\s+"), " ");
}

TEST(PluginAbi, IsOfTheseHeaders) {
  EXPECT_STREQ(kPluginAbi, "9 (libstdc++)");
  EXPECT_EQ(sha1(shared_code()), "5cbf4af2bdc104656a577a58b5900b9d8f2a1139")
      << "A header that plug-ins see has changed. If a plug-in built before would misread it, "
         "raise "
         "kPluginAbi in algorithms/core/plugin.hpp. Then put the new hash here.";
}

// They stand alone: a plug-in needs no other library's headers.
TEST(PluginAbi, HeadersIncludeOnlyEachOther) {
  for (const auto& entry :
       std::filesystem::directory_iterator(source_folder() / "algorithms" / "core")) {
    if (entry.path().extension() != ".hpp") continue;
    const std::string text = read_text(entry.path());
    static const std::regex foreign(R"(#include <([a-z_]+/[^>]*|[^>]*\.h(pp)?)>)");
    EXPECT_FALSE(std::regex_search(text, foreign)) << entry.path();
    for (const std::string& included : includes_of(text))
      EXPECT_TRUE(included.starts_with("algorithms/core/")) << entry.path() << " " << included;
  }
}

}  // namespace
}  // namespace foreduce

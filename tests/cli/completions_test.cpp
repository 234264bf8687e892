// Completions in real shells: what the program writes loads, and completes commands and options.
#include <gtest/gtest.h>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// A script that loads completions from `$1` and prints what `$2` is completed to.
struct Shell {
  const char *name, *script;
};
void PrintTo(const Shell& s, std::ostream* out) { *out << s.name; }

const Shell kShells[] = {
    {"bash",
     "source \"$1\"\n"
     "COMP_WORDS=($2); [[ \"$2\" == *' ' ]] && COMP_WORDS+=('')\n"
     "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
     "_foreduce\n"
     "printf '%s\\n' \"${COMPREPLY[@]}\"\n"},
    // As one types it, on a terminal of its own.
    {"zsh",
     "zmodload zsh/zpty\n"
     "zpty shell zsh -f -i\n"
     "zpty -w shell 'PS1=; stty cols 200; autoload -Uz compinit; compinit -u -D; source '\"$1\"'; "
     "bindkey \"^I\" complete-word; setopt no_beep; print READY'\n"
     "zpty -r -m shell log '*READY*READY*'\n"
     "zpty -w -n shell \"$2\"$'\\t'\n"
     "sleep 2\n"
     "while zpty -r -t shell log; do print -r -- $log; done\n"},
    {"fish", "source $argv[1]; complete -C \"$argv[2]\"\n"}};

class Completions : public testing::TestWithParam<Shell> {};

TEST_P(Completions, CompleteCommandsAndOptions) {
  const Shell& s = GetParam();
  if (shell(std::string("command -v ") + s.name).status != 0)
    GTEST_SKIP() << s.name << " is not installed: its completions are not tried (apt-get install "
                 << s.name << ")";
  const TemporaryFolder folder;
  const std::string name = s.name, file = (folder.path() / "completions").string();
  ASSERT_EQ(foreduce_says("docs " + name + " -o " + file).status, 0);
  const auto script = folder.write("script", s.script);
  const auto completed = [&](const std::string& typed) {
    const Result r =
        shell("HOME=" + folder.path().string() + " TERM=dumb timeout 60 " + name +
              (name == "zsh" ? " -f " : " ") + script.string() + " " + file + " '" + typed + "'");
    EXPECT_EQ(r.status, 0) << r.out;
    return r.out;
  };
  EXPECT_SAYS(completed("foreduce expl"), "explain");
  EXPECT_SAYS(completed("foreduce explain --no-ch"), "--no-changes");
  EXPECT_SAYS(completed("foreduce topology imp"), "import");
  EXPECT_EQ(completed("foreduce explain --no-ch").find("--nodes"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Shells, Completions, testing::ValuesIn(kShells),
                         [](const auto& s) { return std::string(s.param.name); });

}  // namespace
}  // namespace foreduce

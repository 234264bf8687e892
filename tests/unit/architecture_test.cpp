// Rules that hold for all of the source: who may include whom, how long things are, who writes
// text.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "algorithms/core/registry.hpp"
#include "input/files.hpp"
#include "tests/support/says.hpp"
#include "tests/support/source_scan.hpp"

namespace foreduce {
namespace {

using namespace test;
namespace fs = std::filesystem;

constexpr int kFileLines = 500, kFunctionLines = 80;

/// Which modules each module may include besides itself.
const std::map<std::string, std::set<std::string>>& allowed_includes() {
  static const auto table = [] {
    const auto with = [](std::set<std::string> all, const std::string& more) {
      all.insert(more);
      return all;
    };
    std::map<std::string, std::set<std::string>> t;
    t["input"] = {};
    t["algorithms"] = {};
    t["algorithms/extensions"] = {"input", "algorithms"};
    t["topologies"] = {"input"};
    t["models"] = {"input", "algorithms", "topologies"};
    t["sim"] = with(t["models"], "models");
    t["sim/engine"] = t["sim/module"] = with(t["sim"], "sim");
    t["real"] = {"algorithms", "input"};
    t["scenarios/sweep"] = with(with(t["sim"], "sim"), "algorithms/extensions");
    t["scenarios/validation"] = with(t["scenarios/sweep"], "scenarios/sweep");
    t["scenarios/report"] = with(t["scenarios/validation"], "scenarios/validation");
    t["scenarios/cli"] = with(with(t["scenarios/report"], "scenarios/report"), "real");
    return t;
  }();
  return table;
}

/// The innermost module of a path below the source folder, or the path's first part if it is in
/// none.
std::string module_of(const std::string& path) {
  std::string innermost;
  for (const auto& [module, allowed] : allowed_includes())
    if (path.starts_with(module + "/") && module.size() > innermost.size()) innermost = module;
  return innermost.empty() ? path.substr(0, path.find('/')) : innermost;
}

struct SourceFile {
  std::string path;  ///< below the source folder
  std::string module;
  std::string text;

  bool header() const { return path.ends_with(".hpp"); }
};

/// All sources of all modules, by path.
const std::vector<SourceFile>& sources() {
  static const auto all = [] {
    const fs::path root = FOREDUCE_SOURCE_FOLDER;
    std::vector<SourceFile> files;
    for (const auto& [module, allowed] : allowed_includes())
      for (const auto& entry : fs::recursive_directory_iterator(root / module)) {
        const std::string extension = entry.path().extension().string();
        if (extension != ".cpp" && extension != ".hpp" && extension != ".cu" && extension != ".cuh")
          continue;
        const std::string path = fs::relative(entry.path(), root).string();
        if (module_of(path) == module) files.push_back({path, module, read_text(entry.path())});
      }
    std::sort(files.begin(), files.end(),
              [](const auto& a, const auto& b) { return a.path < b.path; });
    return files;
  }();
  return all;
}

/// Fails with all violations at once.
void expect_none(const std::vector<std::string>& violations) {
  EXPECT_TRUE(violations.empty()) << violations.size() << " violations:\n  "
                                  << fmt::format("{}", fmt::join(violations, "\n  "));
}

/// Every line of a file's code on which `pattern` is found.
void find_in_code(const SourceFile& file, const std::regex& pattern,
                  std::vector<std::string>& violations) {
  const std::string code = code_of(file.text);
  for (std::sregex_iterator i(code.begin(), code.end(), pattern), end; i != end; ++i)
    violations.push_back(fmt::format(
        "{}:{}: {}", file.path, line_of(code, static_cast<std::size_t>(i->position())), i->str()));
}

TEST(Architecture, EveryModuleHasSources) {
  for (const auto& rule : allowed_includes())
    EXPECT_TRUE(std::any_of(sources().begin(), sources().end(), [&](const auto& f) {
      return f.module == rule.first;
    })) << rule.first;
}

TEST(Architecture, ModulesIncludeOnlyThoseBelow) {
  std::vector<std::string> violations;
  for (const SourceFile& file : sources())
    for (const std::string& included : includes_of(file.text)) {
      const std::string module = module_of(included);
      if (module != file.module && !allowed_includes().at(file.module).contains(module))
        violations.push_back(fmt::format("{} includes {}", file.path, included));
    }
  expect_none(violations);
}

// Who includes it needs it at run time, and the program starts without it. Its version is a number.
TEST(Architecture, OnlyTheEngineKnowsSimGrid) {
  std::vector<std::string> violations;
  for (const SourceFile& file : sources())
    if (file.module != "sim/engine" && file.path != "sim/engine_settings.cpp" &&
        file.text.find("#include <simgrid/") != std::string::npos)
      violations.push_back(file.path + " includes SimGrid");
  expect_none(violations);
}

TEST(Architecture, FilesAreShort) {
  std::vector<std::string> violations;
  for (const SourceFile& file : sources()) {
    const auto lines = std::count(file.text.begin(), file.text.end(), '\n');
    if (lines > kFileLines) violations.push_back(fmt::format("{} has {} lines", file.path, lines));
  }
  expect_none(violations);
}

TEST(Architecture, TestFilesAreShort) {
  const fs::path root = FOREDUCE_SOURCE_FOLDER;
  std::vector<std::string> violations;
  for (const auto& entry : fs::recursive_directory_iterator(root / "tests")) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".cpp" && extension != ".hpp") continue;
    const std::string path = fs::relative(entry.path(), root).string(),
                      text = read_text(entry.path());
    const long lines = std::count(text.begin(), text.end(), '\n');
    if (lines > kFileLines) violations.push_back(fmt::format("{} has {} lines", path, lines));
  }
  expect_none(violations);
}

// "WidensTheIntervalOfForcedChannels", not "OfForcedChannels…": a name says what holds.
TEST(Architecture, TestNamesStateTheClaim) {
  const std::regex fragment(R"(\bTEST(_P|_F)?\((\w+),\s*((Of|What|How|Where|When)[A-Z]\w*)\))");
  std::vector<std::string> violations;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(FOREDUCE_SOURCE_FOLDER) / "tests")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string text = read_text(entry.path());
    for (std::sregex_iterator i(text.begin(), text.end(), fragment), end; i != end; ++i)
      violations.push_back(
          fmt::format("{}: {}.{}", entry.path().filename().string(), i->str(2), i->str(3)));
  }
  expect_none(violations);
}

TEST(Architecture, FunctionsAreShort) {
  std::vector<std::string> violations;
  for (const SourceFile& file : sources())
    for (const Function& f : functions_of(file.text))
      if (f.lines > kFunctionLines)
        violations.push_back(fmt::format("{}:{}: {} has {} lines", file.path, f.line,
                                         f.name.empty() ? "a lambda" : f.name, f.lines));
  expect_none(violations);
}

TEST(Architecture, NoBoolParametersInHeaders) {
  std::vector<std::string> violations;
  for (const SourceFile& file : sources()) {
    if (!file.header()) continue;
    for (const std::string& where : bool_parameters_of(file.text))
      violations.push_back(file.path + ":" + where);
  }
  expect_none(violations);
}

// Files of a folder are compiled together (CMAKE_UNITY_BUILD), in batches that change with every
// new file. These two leave it off.
TEST(Architecture, UnnamedNamesDifferWithinAFolder) {
  const std::set<std::string> alone = {"algorithms", "algorithms/extensions"};
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> files;
  for (const SourceFile& file : sources())
    if (file.path.ends_with(".cpp") && !alone.contains(file.module))
      for (const std::string& name : unnamed_names_of(file.text))
        files[{file.module, name}].push_back(file.path);
  EXPECT_GT(files.size(), 500u);
  std::vector<std::string> violations;
  for (const auto& [name, where] : files)
    if (where.size() > 1)
      violations.push_back(fmt::format("{}: {}", name.second, fmt::join(where, ", ")));
  expect_none(violations);
}

TEST(Architecture, OnlyRealKnowsCuda) {
  std::vector<std::string> violations;
  for (const SourceFile& file : sources())
    if (file.module != "real" && file.text.find("FOREDUCE_WITH_CUDA") != std::string::npos)
      violations.push_back(file.path);
  expect_none(violations);
}

TEST(Architecture, OnlyReportCliAndRealWriteText) {
  const std::regex writes(
      R"(std::(?:cout|cerr|clog)|\bv?f?printf\s*\(|\bf?puts\s*\(|\b(?:fmt|std)::print\w*\s*\()");
  std::vector<std::string> violations;
  for (const SourceFile& file : sources())
    if (file.module != "scenarios/report" && file.module != "scenarios/cli" &&
        file.module != "real")
      find_in_code(file, writes, violations);
  expect_none(violations);
}

// What check finds is data; report/check_words puts it into words.
TEST(Architecture, SuspectsAndRemarksFormatNothing) {
  const std::vector<std::string> computing = {"chosen", "row_remarks", "row_verdicts",
                                              "suspect_fit", "suspects"};
  std::size_t seen = 0;
  std::vector<std::string> violations;
  for (const SourceFile& file : sources())
    for (const std::string& name : computing) {
      if (file.path != "scenarios/validation/" + name + ".cpp") continue;
      ++seen;
      if (file.text.find("fmt/") != std::string::npos) violations.push_back(file.path);
    }
  EXPECT_EQ(seen, computing.size());
  expect_none(violations);
}

TEST(Architecture, EveryEntryIsRegistered) {
  std::size_t entries = 0;
  const std::regex entry(R"(\bRegistered\s+\w+\s*\{)");
  for (const SourceFile& file : sources()) {
    if (file.module != "algorithms" || !file.path.ends_with(".cpp")) continue;
    std::vector<std::string> found;
    find_in_code(file, entry, found);
    entries += found.size();
  }
  EXPECT_EQ(all_algorithms().size(), entries);
}

/// The functions of a file that call themselves, directly or by others of the file.
std::vector<std::string> recursive_functions_of(const std::string& source) {
  const std::regex call(R"((^|[^\w.:>])([A-Za-z_]\w*)\s*\()");
  const std::string code = code_of(source);
  std::map<std::string, std::set<std::string>> calls;
  for (const Function& f : functions_of(source)) {
    const std::string body = code.substr(f.begin, f.end - f.begin);
    for (std::sregex_iterator i(body.begin(), body.end(), call), end; i != end; ++i)
      calls[f.name].insert(i->str(2));
  }
  std::vector<std::string> found;
  for (const auto& [name, direct] : calls) {
    std::set<std::string> reached = direct;
    std::vector<std::string> open(direct.begin(), direct.end());
    while (!open.empty()) {
      const auto further = calls.find(open.back());
      open.pop_back();
      if (further == calls.end()) continue;
      for (const std::string& next : further->second)
        if (reached.insert(next).second) open.push_back(next);
    }
    if (reached.contains(name)) found.push_back(name);
  }
  return found;
}

// A rank of an own algorithm has a small stack, without a guard page where ranks are few.
TEST(Architecture, AlgorithmsDoNotRecurse) {
  std::vector<std::string> violations;
  for (const SourceFile& file : sources())
    if (file.module == "algorithms" && !file.header())
      for (const std::string& name : recursive_functions_of(file.text))
        violations.push_back(file.path + ": " + name);
  expect_none(violations);
}

// Tables, commands and what the program prints are as wide as they are.
TEST(Architecture, DocumentsHaveAtMost100Columns) {
  const fs::path root = FOREDUCE_SOURCE_FOLDER;
  std::vector<fs::path> documents;
  for (const char* folder : {".", "docs", "algorithms", "input", "models", "real", "scenarios",
                             "sim", "tests", "topologies"})
    for (const auto& entry : fs::directory_iterator(root / folder))
      if (entry.path().extension() == ".md") documents.push_back(entry.path());
  EXPECT_GE(documents.size(), 20u);
  std::vector<std::string> violations;
  for (const fs::path& document : documents) {
    std::istringstream lines(read_text(document));
    bool code = false;
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      if (line.starts_with("<!-- output to the end")) break;
      if (line.starts_with("```")) code = !code;
      const auto inner = std::count_if(line.begin(), line.end(),
                                       [](unsigned char c) { return (c & 0xc0u) == 0x80; });
      if (!code && !line.starts_with("|") && !line.starts_with("<!--") &&
          static_cast<std::ptrdiff_t>(line.size()) - inner > 100)
        violations.push_back(fmt::format("{}:{}", fs::relative(document, root).string(), number));
    }
  }
  expect_none(violations);
}

// ------------------------------------------------------------------ the scanner itself

TEST(SourceScan, BlanksCommentsLiteralsAndDirectives) {
  const std::string source =
      "int a; // {\n"
      "/* ) \n { */ int b = 1'000;\n"
      "#define X { \\\n  (\n"
      "char c = '\\''; auto s = \"\\\"{\";\n"
      "auto r = R\"x(\n)\" { )x\"; int d;\n";
  const std::string code = code_of(source);
  ASSERT_EQ(code.size(), source.size());
  EXPECT_EQ(std::count(code.begin(), code.end(), '\n'),
            std::count(source.begin(), source.end(), '\n'));
  EXPECT_EQ(code.find_first_of("{}()#\"\\"), std::string::npos) << code;
  EXPECT_SAYS(code, "int b = 1'000;");
  EXPECT_SAYS(code, "int d;");
}

/// A function of so many lines.
std::string function_of(const std::string& declaration, int lines) {
  std::string text = declaration + " {\n";
  for (int i = 2; i < lines; ++i) text += i % 2 ? "  }\n" : "  if (x) {\n";
  return text + "}\n";
}

/// "line: name, lines" of every function of more than one line.
std::vector<std::string> long_functions_of(const std::string& source) {
  std::vector<std::string> found;
  for (const Function& f : functions_of(source))
    if (f.lines > 1) found.push_back(fmt::format("{}: {}, {}", f.line, f.name, f.lines));
  return found;
}

TEST(SourceScan, MeasuresFunctions) {
  const std::string source = "namespace a::b {\nnamespace {\n" + function_of("int g(int x)", 100) +
                             function_of("void h()", 10) + "}\n}\n";
  EXPECT_EQ(long_functions_of(source), (std::vector<std::string>{"3: g, 100", "103: h, 10"}));
}

TEST(SourceScan, KnowsBracesInDeclarations) {
  const std::string source = function_of("void f(const Plan& plan = {},\n  int x)", 20) +
                             function_of("S::S() : a_({1}), b_{2}, c_(f({}))", 90) +
                             function_of("int g()", 30);
  EXPECT_EQ(long_functions_of(source),
            (std::vector<std::string>{"1: f, 21", "22: c_, 90", "112: g, 30"}));
}

TEST(SourceScan, MeasuresMembers) {
  const std::string source = "class S : public T<int> {\n public:\n  int a = 0;\n" +
                             function_of("  bool f(int x) const", 20) +
                             function_of("  S(int x) : a{x}, b_(x)", 90) + "};\n";
  EXPECT_EQ(long_functions_of(source), (std::vector<std::string>{"4: f, 20", "24: b_, 90"}));
}

TEST(SourceScan, MeasuresLambdasInInitializers) {
  const std::string source = "const Registered entry{{.name = \"a\",\n.run =\n" +
                             function_of("[](int x) -> int", 30) +
                             "}};\nconst int table[] = {1,\n2, f(3)};\n";
  EXPECT_EQ(long_functions_of(source), (std::vector<std::string>{"3: , 30"}));
}

TEST(SourceScan, FindsNamesOfUnnamedNamespaces) {
  const std::string source =
      "namespace a {\nint outside() { return 1; }\nnamespace {\n"
      "constexpr int kOne = 1, kTwo = 2;\nconstexpr P kTable[] = {{1, 2}, {3, 4}};\n"
      "struct S : T<int> {\n  int member() { return kOne; }\n  int field = 0;\n};\n"
      "enum class E : char { a, b };\nvoid declared(int);\n"
      "std::vector<int> f(const Plan& p = {}, int x = g(1)) {\n  const int local = 2;\n"
      "  struct Inner {};\n  return {};\n}\n"
      "S::S() : a_{1} {}\nbool operator==(S a, S b) { return true; }\n"
      "template <class X>\nvoid h(X x) {}\n}  // namespace\nvoid below() {}\n}\n";
  EXPECT_EQ(unnamed_names_of(source),
            (std::set<std::string>{"E", "S", "f", "h", "kOne", "kTable"}));
}

TEST(SourceScan, FindsRecursion) {
  EXPECT_EQ(
      recursive_functions_of("int f(int x) { return x ? f(x - 1) : 0; }\nint g() { return f(1); }"),
      std::vector<std::string>{"f"});
  EXPECT_EQ(recursive_functions_of("int f() { return g(); }\nint g() { return h(); }\n"
                                   "int h() { return f(); }"),
            (std::vector<std::string>{"f", "g", "h"}));
  EXPECT_EQ(recursive_functions_of("int f() { return a.f() + b->f(); }\nint g() { return f(); }"),
            std::vector<std::string>{});
}

TEST(SourceScan, FindsBoolParameters) {
  const auto found = [](const std::string& source) { return !bool_parameters_of(source).empty(); };
  EXPECT_TRUE(found("void f(int a, bool b);"));
  EXPECT_TRUE(found("void f(bool b = false);"));
  EXPECT_TRUE(found("void f(const bool b, int c) {}"));
  EXPECT_TRUE(found("void f(bool);"));
  EXPECT_TRUE(found("struct S {\n  explicit S(std::pair<int, int> a,\n             bool b);\n};"));
  EXPECT_TRUE(found("void f(int a = g(1), bool b = true);"));
  EXPECT_TRUE(found("void f(const Plan& a = {}, bool b = true);"));

  EXPECT_FALSE(found("bool g(int);"));
  EXPECT_FALSE(found("void read(bool& into);"));
  EXPECT_FALSE(found("bool x = false;"));
  EXPECT_FALSE(found("struct S {\n  bool a = false, b = true;\n};"));
  EXPECT_FALSE(found("void f(std::function<bool(int, bool last)> g, int b);"));
  EXPECT_FALSE(found("void f(std::map<int, bool, Less> m, std::vector<bool> v);"));
  EXPECT_FALSE(found("inline void f() { g([](int a, bool b) { return b; }); }"));
  EXPECT_FALSE(found("// void f(bool b);\n"));
}

TEST(SourceScan, NamesTheFunctionWithABoolParameter) {
  EXPECT_EQ(bool_parameters_of("int a;\nvoid f(int a,\n       bool b);"),
            std::vector<std::string>{"2: f"});
}

TEST(SourceScan, FindsIncludes) {
  EXPECT_EQ(
      includes_of(
          "#include <vector>\n#include \"sim/engine/rank.hpp\"\n#  include \"real/port.hpp\"\n"),
      (std::vector<std::string>{"sim/engine/rank.hpp", "real/port.hpp"}));
  EXPECT_EQ(module_of("scenarios/sweep/plan.hpp"), "scenarios/sweep");
  EXPECT_EQ(module_of("algorithms/core/ring_phases.hpp"), "algorithms");
  EXPECT_EQ(module_of("tests/support/says.hpp"), "tests");
}

}  // namespace
}  // namespace foreduce

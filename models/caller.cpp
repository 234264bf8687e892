#include "models/caller.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "input/fields.hpp"

namespace foreduce {
namespace {

struct Caller {
  std::string name, note, source;
  Seconds adds;
};
struct Callers {
  std::vector<Caller> callers;
};

}  // namespace

template <class Fields>
void describe(Fields& f, Caller& c) {
  f.required("name", c.name, "", OneOf{"caller", caller_names()});
  f.required("adds", c.adds, "", Limits::zero_or_more());
  f.optional("note", c.note, "");
  f.required("source", c.source, "");
}
template <class Fields>
void describe(Fields& f, Callers& c) {
  f.required("callers", c.callers, "");
}

namespace {

const std::vector<Caller>& callers() {
  static const Callers all = [] {
    Callers c;
    YamlFile file = YamlFile::load(data_folder() / "models" / "callers.yaml");
    read_file(file, c);
    return c;
  }();
  return all.callers;
}

const Caller& caller_named(const std::string& name) {
  const auto at = std::find_if(callers().begin(), callers().end(),
                               [&](const Caller& c) { return c.name == name; });
  if (at == callers().end()) throw std::out_of_range("no caller is named " + name);
  return *at;
}

}  // namespace

const std::vector<std::string>& caller_names() {
  static const std::vector<std::string> names{kUsualCaller, kTorch};
  return names;
}

Seconds added_by(const std::string& caller) { return caller_named(caller).adds; }

std::string words_on(const std::string& caller) {
  const Caller& c = caller_named(caller);
  return fmt::format("called from {}, which adds {} to every call{}", c.name, to_text(c.adds),
                     c.note.empty() ? "" : fmt::format(" ({})", c.note));
}

Profile called_from(const std::string& caller, Profile profile) {
  const Caller& c = caller_named(caller);
  if (c.adds.value > 0)
    profile.launch = Estimated<Seconds>{
        value_or(profile.launch, Seconds{}) + c.adds, NumberOrigin::derived, {}, c.source};
  return profile;
}

}  // namespace foreduce

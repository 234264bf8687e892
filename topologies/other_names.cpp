#include "topologies/other_names.hpp"

#include <fmt/format.h>

#include "input/fields.hpp"
#include "input/files.hpp"

namespace foreduce {

/// A line of the file.
struct OtherName {
  std::string begins, machine, differs;
};
struct OtherNamesFile {
  std::vector<OtherName> names;
};
template <class Fields>
void describe(Fields& f, OtherName& n) {
  f.required("begins", n.begins, "how names of such machines begin");
  f.required("machine", n.machine, "the machine that ships and has such GPUs");
  f.optional("differs", n.differs, "how it differs");
}
template <class Fields>
void describe(Fields& f, OtherNamesFile& file) {
  f.required("names", file.names, "names elsewhere");
}

const std::vector<std::pair<std::string, std::string>>& other_names() {
  static const auto all = [] {
    YamlFile yaml = YamlFile::load(data_folder() / "topologies" / "other_names.yaml");
    OtherNamesFile file;
    read_file(yaml, file);
    yaml.throw_if_problems();
    std::vector<std::pair<std::string, std::string>> said;
    for (const OtherName& n : file.names)
      said.emplace_back(
          n.begins + "*",
          fmt::format("{} has such GPUs{}\n  a file of your own may be like it, with "
                      "other cards: like: {}",
                      n.machine, n.differs.empty() ? "" : "; " + n.differs, n.machine));
    return said;
  }();
  return all;
}

}  // namespace foreduce

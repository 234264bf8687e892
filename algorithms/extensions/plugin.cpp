#include "algorithms/extensions/plugin.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <set>

#include "algorithms/core/plugin.hpp"
#include "input/files.hpp"
#include "input/problem.hpp"

namespace foreduce {
namespace {

constexpr const char* kHowBuilt = "foreduce_add_algorithm in CMake builds one";

std::deque<Plugin>& plugins() {
  static std::deque<Plugin> all;
  return all;
}

/// Whether a shared object ends before what it says is loaded of it, which dlopen() does not check:
/// its first use would end the program by SIGBUS.
bool is_cut_short(const std::string& content) {
  Elf64_Ehdr head;
  if (content.size() < sizeof head) return true;
  std::memcpy(&head, content.data(), sizeof head);
  if (head.e_ident[EI_CLASS] != ELFCLASS64) return false;  // dlopen() says so
  for (std::size_t i = 0; i < head.e_phnum; ++i) {
    const std::size_t at = head.e_phoff + i * head.e_phentsize;
    Elf64_Phdr part;
    if (at > content.size() || content.size() - at < sizeof part) return true;
    std::memcpy(&part, content.data() + at, sizeof part);
    if (part.p_type == PT_LOAD && (part.p_offset > content.size() ||
                                   content.size() - part.p_offset < part.p_filesz))
      return true;
  }
  return false;
}

/// dlopen() reports a text file or a directory in words of its own; what is there is said here.
void check_form(const std::filesystem::path& file, const std::string& content) {
  if (content.starts_with(ELFMAG)) {
    if (is_cut_short(content)) throw file_error(file, "this plug-in is cut short", kHowBuilt);
    return;
  }
  throw file_error(file, "this is no shared object, so it cannot be a plug-in", kHowBuilt);
}

void* opened(const std::filesystem::path& file) {
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle) return handle;
  std::string why = ::dlerror();
  if (const std::string prefix = file.string() + ": "; why.starts_with(prefix))
    why.erase(0, prefix.size());
  throw file_error(file, fmt::format("this plug-in does not load: {}", why));
}

/// The plug-in's own algorithms. Throws InputError for a shared object that is no plug-in of ours.
const Registry& entered(const std::filesystem::path& file, void* handle) {
  const auto abi = reinterpret_cast<PluginAbi*>(::dlsym(handle, kPluginAbiSymbol));
  const auto enter = reinterpret_cast<PluginEnter*>(::dlsym(handle, kPluginEnterSymbol));
  if (!abi || !enter)
    throw file_error(file,
                     fmt::format("this is no plug-in: {} is missing",
                                 abi ? kPluginEnterSymbol : kPluginAbiSymbol),
                     kHowBuilt);
  if (const std::string theirs = abi(); theirs != kPluginAbi)
    throw file_error(file,
                     fmt::format("this plug-in was built for the plug-in ABI {}, and this foreduce "
                                 "has {}",
                                 theirs, kPluginAbi),
                     "build it again, against the headers of this foreduce");
  return *enter(&own_registry());
}

/// Words that mean something else where an algorithm is named.
constexpr std::array kReserved = {"nccl", "smddp", "best", "mpi"};

/// Why an algorithm cannot be called this, or "".
std::string why_not_called(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  if (!std::all_of(name.begin(), name.end(), plain))
    return fmt::format("an algorithm is called '{}'; names have a-z, 0-9, '-', '_' and '.'", name);
  if (std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end())
    return fmt::format("an algorithm is called '{}', which means something else", name);
  return "";
}

/// Why these cannot all be added; "" if they can. None is added before all are known to be sound.
std::string conflict_in(const Registry& theirs) {
  std::set<std::pair<std::string, Collective>> seen;
  for (const auto& of_collective : theirs)
    for (const Algorithm* a : of_collective) {
      if (const std::string why = why_not_called(a->name); !why.empty()) return why;
      if (const std::string why = why_not_to_add(*a, a->name); !why.empty()) return why;
      if (!seen.emplace(a->name, a->collective).second)
        return fmt::format("it registers '{}' twice for {}", a->name, title_of(a->collective));
    }
  return seen.empty() ? "it registers no algorithm" : "";
}

}  // namespace

const Plugin& load_plugin(const std::filesystem::path& named) {
  const std::string bytes = read_text(named);
  check_form(named, bytes);
  const auto file = std::filesystem::canonical(named);
  for (const Plugin& p : plugins())
    if (p.file == file) return p;
  void* handle = opened(file);
  const Registry* theirs = nullptr;
  try {
    theirs = &entered(named, handle);
    if (const std::string why = conflict_in(*theirs); !why.empty())
      throw file_error(named, fmt::format("this plug-in cannot be used: {}", why));
  } catch (const InputError&) {
    ::dlclose(handle);
    throw;
  }
  Plugin& plugin = plugins().emplace_back(Plugin{file, sha1(bytes), {}});
  for (const auto& of_collective : *theirs)
    for (const Algorithm* a : of_collective)
      plugin.algorithms.push_back(
          &add_algorithm(*a, std::string(a->name), file.string(), plugin.content));
  return plugin;
}

std::vector<const Plugin*> loaded_plugins() {
  std::vector<const Plugin*> all;
  for (const Plugin& p : plugins()) all.push_back(&p);
  return all;
}

std::vector<std::string> plugins_listed(const std::string& list) {
  std::vector<std::string> files;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(':', at), list.size());
    if (end > at) files.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return files;
}

}  // namespace foreduce

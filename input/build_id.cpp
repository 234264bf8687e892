#include "input/build_id.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <span>

namespace foreduce {
namespace {

/// What the notes between two addresses say.
std::string id_in(const char* at, const char* end) {
  std::string id;
  while (at + sizeof(ElfW(Nhdr)) <= end) {
    const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
    const char* name = at + sizeof *note;
    const char* value = name + ((note->n_namesz + 3) & ~3u);
    const char* next = value + ((note->n_descsz + 3) & ~3u);
    if (next > end) break;
    if (note->n_type == NT_GNU_BUILD_ID && std::string(name, 3) == "GNU")
      for (unsigned b = 0; b < note->n_descsz; ++b)
        id += fmt::format("{:02x}", static_cast<unsigned char>(value[b]));
    at = next;
  }
  return id;
}

/// What an ELF file says that lies in memory as it lies on disk.
std::string id_in_file(std::span<const char> bytes) {
  if (bytes.size() < sizeof(ElfW(Ehdr)) || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0)
    return "";
  const auto* elf = reinterpret_cast<const ElfW(Ehdr)*>(bytes.data());
  if (elf->e_phoff > bytes.size() ||
      elf->e_phnum > (bytes.size() - elf->e_phoff) / sizeof(ElfW(Phdr)))
    return "";
  const auto* headers = reinterpret_cast<const ElfW(Phdr)*>(bytes.data() + elf->e_phoff);
  std::string id;
  for (const ElfW(Phdr) & header : std::span(headers, elf->e_phnum)) {
    if (header.p_type != PT_NOTE || header.p_offset > bytes.size() ||
        header.p_filesz > bytes.size() - header.p_offset)
      continue;
    const char* notes = bytes.data() + header.p_offset;
    id += id_in(notes, notes + header.p_filesz);
  }
  return id;
}

}  // namespace

std::string build_id_of_program() {
  std::string id;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* into) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& header = info->dlpi_phdr[i];
          if (header.p_type != PT_NOTE) continue;
          const auto* notes = reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
          *static_cast<std::string*>(into) += id_in(notes, notes + header.p_memsz);
        }
        return 1;  // the program itself comes first; no library after it
      },
      &id);
  return id;
}

std::string build_id_of(const std::filesystem::path& file) {
  const int opened = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (opened < 0) return "";
  struct stat about {};
  void* bytes = MAP_FAILED;
  if (::fstat(opened, &about) == 0 && about.st_size > 0)
    bytes =
        ::mmap(nullptr, static_cast<std::size_t>(about.st_size), PROT_READ, MAP_PRIVATE, opened, 0);
  ::close(opened);
  if (bytes == MAP_FAILED) return "";
  const auto size = static_cast<std::size_t>(about.st_size);
  const std::string id = id_in_file({static_cast<const char*>(bytes), size});
  ::munmap(bytes, size);
  return id;
}

}  // namespace foreduce

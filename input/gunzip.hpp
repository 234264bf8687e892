// Reads a file that may be packed with gzip, block by block.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <streambuf>
#include <vector>

namespace foreduce {

/// The text of a file, unpacked while it is read. Throws InputError from the reading functions for
/// a file that is damaged or ends too early, and for one that unpacks to a text with 64 MiB and no
/// quote, which no JSON of use has: what a parser must keep at once stays small.
class GunzipBuffer : public std::streambuf {
 public:
  /// Throws InputError for a file that cannot be read.
  explicit GunzipBuffer(const std::filesystem::path& file);
  ~GunzipBuffer() override;
  GunzipBuffer(const GunzipBuffer&) = delete;
  GunzipBuffer& operator=(const GunzipBuffer&) = delete;

 protected:
  int_type underflow() override;

 private:
  struct Inflater;
  std::size_t fill();
  std::size_t fill_packed();
  bool read_block();

  std::filesystem::path file_;
  std::ifstream in_;
  std::vector<char> packed_, text_;
  std::size_t packed_size_ = 0, without_quote_ = 0;
  std::unique_ptr<Inflater> inflater_;  // null: the file is not packed
};

}  // namespace foreduce

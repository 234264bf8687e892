#include "input/gunzip.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <cstring>

#include "input/files.hpp"
#include "input/problem.hpp"

namespace foreduce {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 18, kMostWithoutQuote = std::size_t{64} << 20;

}  // namespace

struct GunzipBuffer::Inflater {
  z_stream stream{};
  bool ended = false;  // one member of the file is through; another may follow
};

GunzipBuffer::GunzipBuffer(const std::filesystem::path& file)
    : file_(file), packed_(kBlock), text_(kBlock) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) throw no_such_file(file);
  if (std::filesystem::is_directory(file, error))
    throw file_error(file, "this is a folder, not a file");
  in_.open(file, std::ios::binary);
  if (!in_) throw file_error(file, "cannot be read");
  read_block();
  constexpr unsigned char kMagic[] = {0x1f, 0x8b};
  if (packed_size_ < 2 || std::memcmp(packed_.data(), kMagic, 2) != 0) return;
  inflater_ = std::make_unique<Inflater>();
  constexpr int kGzip = 16 + MAX_WBITS;
  if (inflateInit2(&inflater_->stream, kGzip) != Z_OK)
    throw file_error(file, "there is not enough memory to unpack it");
  inflater_->stream.next_in = reinterpret_cast<Bytef*>(packed_.data());
  inflater_->stream.avail_in = static_cast<uInt>(packed_size_);
}

GunzipBuffer::~GunzipBuffer() {
  if (inflater_) inflateEnd(&inflater_->stream);
}

bool GunzipBuffer::read_block() {
  in_.read(packed_.data(), static_cast<std::streamsize>(packed_.size()));
  packed_size_ = static_cast<std::size_t>(in_.gcount());
  if (in_.bad()) throw file_error(file_, "cannot be read");
  return packed_size_ > 0;
}

std::size_t GunzipBuffer::fill_packed() {
  z_stream& z = inflater_->stream;
  z.next_out = reinterpret_cast<Bytef*>(text_.data());
  z.avail_out = static_cast<uInt>(text_.size());
  while (z.avail_out == text_.size()) {
    if (z.avail_in == 0) {
      if (!read_block()) {
        if (inflater_->ended) return 0;
        throw file_error(file_, "the packed file ends too early");
      }
      z.next_in = reinterpret_cast<Bytef*>(packed_.data());
      z.avail_in = static_cast<uInt>(packed_size_);
    }
    if (inflater_->ended) inflateReset(&z);
    const int status = inflate(&z, Z_NO_FLUSH);
    inflater_->ended = status == Z_STREAM_END;
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      throw file_error(file_, fmt::format("the packed file is damaged ({} bytes of its text are "
                                          "sound)",
                                          z.total_out));
  }
  return text_.size() - z.avail_out;
}

std::size_t GunzipBuffer::fill() {
  if (inflater_) return fill_packed();
  const std::size_t size = packed_size_;
  std::memcpy(text_.data(), packed_.data(), size);
  if (size > 0) read_block();
  return size;
}

GunzipBuffer::int_type GunzipBuffer::underflow() {
  const std::size_t size = fill();
  if (size == 0) return traits_type::eof();
  without_quote_ = std::memchr(text_.data(), '"', size) ? 0 : without_quote_ + size;
  if (without_quote_ > kMostWithoutQuote)
    throw file_error(file_, "64 MiB of it have no quote, which no JSON of ours is like");
  setg(text_.data(), text_.data(), text_.data() + size);
  return traits_type::to_int_type(text_[0]);
}

}  // namespace foreduce

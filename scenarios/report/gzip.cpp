#include "scenarios/report/gzip.hpp"

#include <zlib.h>

#include <array>
#include <stdexcept>

namespace foreduce {

std::string gzipped(const std::string& text) {
  constexpr int kGzip = 16;  // added to the window's bits: zlib.h, deflateInit2
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzip, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  std::string out;
  std::array<char, 65536> some{};
  constexpr std::size_t kMost = std::size_t{1} << 30;  // a stream counts in 32 bits
  std::size_t at = 0;
  int state = Z_OK;
  while (state != Z_STREAM_END) {
    if (stream.avail_in == 0) {
      const std::size_t n = std::min(kMost, text.size() - at);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data() + at));
      stream.avail_in = static_cast<uInt>(n);
      at += n;
    }
    stream.next_out = reinterpret_cast<Bytef*>(some.data());
    stream.avail_out = static_cast<uInt>(some.size());
    state = deflate(&stream, at == text.size() ? Z_FINISH : Z_NO_FLUSH);
    out.append(some.data(), some.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  return out;
}

}  // namespace foreduce

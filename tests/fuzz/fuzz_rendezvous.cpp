// libFuzzer: any bytes are a frame whose message is understood, or refused. Build with the preset
// dev, run build/dev/tests/fuzz_rendezvous -max_total_time=60 CORPUS tests/fuzz/rendezvous
#include <cstdlib>
#include <string_view>

#include "real/endpoint_names.hpp"
#include "real/rendezvous_frames.hpp"

namespace {

constexpr int kProcesses = 2;

void expect(bool holds) {
  if (!holds) std::abort();
}

bool has_control_characters(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool of_two_bytes = i > 0 && static_cast<unsigned char>(text[i - 1]) == 0xc2;
    if ((c < 0x20 && c != '\n') || c == 0x7f || (of_two_bytes && c >= 0x80 && c < 0xa0))
      return true;
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreduce;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  expect(!has_control_characters(printable(bytes)));
  if (const auto names = decode_endpoint_names(bytes))
    expect(decode_endpoint_names(encode_endpoint_names(*names)) == names);
  if (size < kFrameHeadBytes) return 0;
  const std::span<const char, kFrameHeadBytes> head(bytes.data(), kFrameHeadBytes);
  if (const auto length = decode_frame_head(head, 4096)) expect(*length <= 4096);
  // The length is hard to guess, so the body is what follows.
  const auto message = decode_frame_body(bytes.substr(kFrameHeadBytes));
  if (!message) return 0;
  if (const auto hello = decode_hello(*message, kProcesses)) expect(hello->process == 1);
  decode_introduction(*message);
  if (const auto why = decode_give_up(*message)) expect(!has_control_characters(*why));
  if (const auto about = decode_about(*message, 1)) expect(about->addresses.size() == 1);
  if (const auto answer = decode_answer(*message, kProcesses)) {
    expect(!answer->gave_up.empty() || answer->everyone.size() == kProcesses);
    for (const auto& one : answer->everyone)
      if (const auto about = decode_about(one, 1)) decode_endpoint_names(about->addresses[0]);
  }
  return 0;
}

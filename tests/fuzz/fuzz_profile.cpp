// libFuzzer: any bytes are a profile that reads back as it is written, or an InputError. Build with
// the preset dev, run build/dev/tests/fuzz_profile -max_total_time=60 CORPUS models/profiles
#include "input/yaml.hpp"
#include "models/profile.hpp"
#include "tests/fuzz/harness.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreduce;
  fuzz::accepted_or_refused([&] {
    Profile profile =
        read_profile(YamlFile::parse("fuzz.yaml", std::string(fuzz::text_of(data, size))));
    free_parameters(profile);
    const std::string written = to_yaml(profile);
    try {
      if (to_yaml(read_profile(YamlFile::parse("written.yaml", written))) != written) std::abort();
    } catch (const InputError&) {
      std::abort();  // what is written is read
    }
  });
  return 0;
}

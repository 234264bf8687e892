#include "scenarios/cli/failure.hpp"

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>

#include "input/printable.hpp"
#include "scenarios/cli/shared_options.hpp"
#include "scenarios/sweep/sweep.hpp"

namespace foreduce {
namespace {

constexpr const char* kNoMemory = "foreduce: there is not enough memory for this\n";

bool without_memory = false;

void note_no_memory() {
  without_memory = true;
  throw std::bad_alloc();
}

/// What no handler sees: memory that is missing inside a function that promises not to throw, as
/// some of CLI11's do. Any other end of this kind is a mistake of ours, and dumps core.
[[noreturn]] void end_at_once() {
  if (!without_memory) std::abort();
  const std::string_view text(kNoMemory);
  const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(written < 0 ? 3 : 2);
}

}  // namespace

void expect_little_memory() {
  std::set_new_handler(note_no_memory);
  std::set_terminate(end_at_once);
}

int tell_failure() {
  clear_progress();
  try {
    throw;
  } catch (const Interrupted&) {
    std::cerr << "interrupted: nothing was known yet\n";
    return kInterruptedStatus;
  } catch (const InputError& e) {
    std::cerr << error_text(e) << "\n";
    return interrupted() ? kInterruptedStatus : 2;
  } catch (const std::bad_alloc&) {
    std::cerr << kNoMemory;
  } catch (const nlohmann::json::exception&) {  // what() is words of the library
    std::cerr << "foreduce: a JSON field is missing or of another type than foreduce writes\n";
  } catch (const std::exception& e) {
    std::cerr << "foreduce: " << printable(e.what()) << "\n";
  }
  return 2;
}

}  // namespace foreduce

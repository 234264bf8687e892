// The one program. Exit status: 0 fine, 1 the answer is no, 2 bad usage or bad input, 130
// interrupted.
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>

#include "input/printable.hpp"
#include "scenarios/cli/app.hpp"
#include "scenarios/cli/shared_options.hpp"
#include "scenarios/sweep/sweep.hpp"

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

int main(int argc, char** argv) {
  std::set_new_handler(note_no_memory);
  std::set_terminate(end_at_once);
  try {
    const int status = foreduce::run_command_line(argc, argv);
    if (!std::cout.flush()) throw foreduce::input_error("standard output cannot be written");
    return status;
  } catch (const foreduce::Interrupted&) {
    foreduce::clear_progress();
    std::cerr << "interrupted: nothing was known yet\n";
    return foreduce::kInterruptedStatus;
  } catch (const foreduce::InputError& e) {
    foreduce::clear_progress();
    std::cerr << foreduce::error_text(e) << "\n";
    return foreduce::interrupted() ? foreduce::kInterruptedStatus : 2;
  } catch (const std::bad_alloc&) {
    foreduce::clear_progress();
    std::cerr << kNoMemory;
    return 2;
  } catch (const nlohmann::json::exception&) {  // what() is words of the library
    foreduce::clear_progress();
    std::cerr << "foreduce: a JSON field is missing or of another type than foreduce writes\n";
    return 2;
  } catch (const std::exception& e) {
    foreduce::clear_progress();
    std::cerr << "foreduce: " << foreduce::printable(e.what()) << "\n";
    return 2;
  }
}

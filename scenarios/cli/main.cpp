// The one program. Exit status: 0 fine, 1 the answer is no, 2 bad usage or bad input, 130
// interrupted.
#include <cxxabi.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>
#include <typeinfo>

#include "scenarios/cli/app.hpp"

namespace {

constexpr const char* kNoMemory = "foreduce: there is not enough memory for this\n";

/// What no handler sees: memory that is missing inside a function that promises not to throw, as
/// some of CLI11's do.
[[noreturn]] void end_at_once() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (!type || *type != typeid(std::bad_alloc)) std::abort();  // a mistake of ours: dump core
  const std::string_view text(kNoMemory);
  const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(written < 0 ? 3 : 2);
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(end_at_once);
  try {
    const int status = foreduce::run_command_line(argc, argv);
    if (!std::cout.flush()) throw foreduce::input_error("standard output cannot be written");
    return status;
  } catch (const foreduce::InputError& e) {
    foreduce::clear_progress();
    std::cerr << e.what() << "\n";
    return 2;
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
    std::cerr << "foreduce: " << e.what() << "\n";
    return 2;
  }
}

// The one program. Exit status: 0 fine, 1 the answer is no, 2 bad usage or bad input, 130
// interrupted.
#include <exception>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>

#include "scenarios/cli/app.hpp"

int main(int argc, char** argv) {
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
    std::cerr << "foreduce: there is not enough memory for this\n";
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

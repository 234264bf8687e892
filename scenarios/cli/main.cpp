// The one program. Exit status: 0 fine, 1 the answer is no, 2 bad usage or bad input, 130
// interrupted.
#include <exception>
#include <iostream>

#include "scenarios/cli/app.hpp"

int main(int argc, char** argv) {
  try {
    return foreduce::run_command_line(argc, argv);
  } catch (const foreduce::InputError& e) {
    foreduce::clear_progress();
    std::cerr << e.what() << "\n";
    return 2;
  } catch (const std::exception& e) {
    foreduce::clear_progress();
    std::cerr << "foreduce: " << e.what() << "\n";
    return 2;
  }
}

// The one program. Exit status: 0 fine, 1 the answer is no, 2 bad usage or bad input, 130
// interrupted.
#include <exception>
#include <iostream>

#include "input/problem.hpp"
#include "scenarios/cli/app.hpp"
#include "scenarios/cli/failure.hpp"

int main(int argc, char** argv) {
  foreduce::expect_little_memory();
  try {
    const int status = foreduce::run_command_line(argc, argv);
    if (!std::cout.flush()) throw foreduce::input_error("standard output cannot be written");
    return status;
  } catch (const std::exception&) {
    return foreduce::tell_failure();
  }
}

// What the program says and which status it ends with when a command throws.
#pragma once

namespace foreduce {

/// From here on, memory that is missing inside functions that promise not to throw ends the program
/// with one line and status 2. Other exceptions that nobody catches still dump core.
void expect_little_memory();

/// Says on standard error what the exception that is being handled is about. Returns the status to
/// end with: 2, or 130 when the user interrupted the program.
int tell_failure();

}  // namespace foreduce

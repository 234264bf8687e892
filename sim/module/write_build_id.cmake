# Writes the source file RESULT with the build (NT_GNU_BUILD_ID) of MODULE as READELF reads it.
execute_process(COMMAND ${READELF} -n ${MODULE} OUTPUT_VARIABLE notes COMMAND_ERROR_IS_FATAL ANY)
if(NOT notes MATCHES "Build ID: ([0-9a-f]+)")
  message(FATAL_ERROR "${MODULE} has no build id, by which the program knows its own module")
endif()
file(WRITE ${RESULT} "namespace foreduce {
extern const char* const kEngineBuildId;
const char* const kEngineBuildId = \"${CMAKE_MATCH_1}\";
}  // namespace foreduce
")

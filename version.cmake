# The version is that of the newest tag (v1.2.3) that this commit has, or in a tree without tags,
# such as an archive, the newest in CHANGELOG.md. A test compares the two.
file(STRINGS CHANGELOG.md releases REGEX "^## [0-9]+\\.[0-9]+\\.[0-9]+")
list(GET releases 0 release)
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" FOREDUCE_RELEASE "${release}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS CHANGELOG.md)

# `foreduce --version` names the commit too, where there is one.
set(FOREDUCE_COMMIT_TEXT "")
find_package(Git QUIET)
if(GIT_FOUND)
  macro(foreduce_git result)
    execute_process(COMMAND ${GIT_EXECUTABLE} ${ARGN} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
      OUTPUT_VARIABLE ${result} OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endmacro()
  foreduce_git(top rev-parse --show-toplevel)
  file(REAL_PATH "${CMAKE_CURRENT_SOURCE_DIR}" here)
  if(NOT top STREQUAL here)
    return()  # an archive inside another project's repository, whose tags are not ours
  endif()
  foreduce_git(tag describe --tags --abbrev=0 --match "v[0-9]*")
  if(tag MATCHES "^v([0-9]+\\.[0-9]+\\.[0-9]+)$")
    set(FOREDUCE_RELEASE ${CMAKE_MATCH_1})
  endif()
  foreduce_git(commit describe --tags --always --dirty --match "v[0-9]*")
  if(commit)
    set(FOREDUCE_COMMIT_TEXT " (commit ${commit})")
  endif()
  # A build after a commit or a tag is of that commit or tag.
  foreach(place logs/HEAD refs/tags packed-refs)
    foreduce_git(path rev-parse --path-format=absolute --git-path ${place})
    if(path AND EXISTS ${path})
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    endif()
  endforeach()
endif()

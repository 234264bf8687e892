# The software bill of materials (SPDX 2.3, JSON): what the program is built from, with versions and licences. Installed beside the licence.
set(sbom ${PROJECT_BINARY_DIR}/foreduce.spdx.json)
string(TIMESTAMP sbom_time "%Y-%m-%dT%H:%M:%SZ" UTC)
set(sbom_packages)
set(sbom_relations)

function(foreduce_sbom_package name version licence)
  string(MAKE_C_IDENTIFIER "${name}" id)
  string(REPLACE "_" "-" id "${id}")
  if(NOT version)
    set(version NOASSERTION)
  endif()
  set(relation "")
  if(sbom_packages)
    set(separator ",\n")
    set(relation ",\n    {\"spdxElementId\": \"SPDXRef-foreduce\", \"relationshipType\": \"DEPENDS_ON\", \"relatedSpdxElement\": \"SPDXRef-${id}\"}")
  endif()
  set(sbom_packages "${sbom_packages}${separator}    {\"SPDXID\": \"SPDXRef-${id}\", \"name\": \"${name}\", \"versionInfo\": \"${version}\", \
\"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false, \"licenseConcluded\": \"${licence}\", \"licenseDeclared\": \"${licence}\", \
\"copyrightText\": \"NOASSERTION\"}" PARENT_SCOPE)
  set(sbom_relations "${sbom_relations}${relation}" PARENT_SCOPE)
endfunction()

file(READ ${FOREDUCE_CHART_JS} chart_head LIMIT 400)
string(REGEX MATCH "Chart\\.js v([0-9.]+)" unused "${chart_head}")
set(chart_version ${CMAKE_MATCH_1})
if(SimGrid_INCLUDE_DIR)
  file(STRINGS ${SimGrid_INCLUDE_DIR}/simgrid/version.h simgrid_numbers REGEX "define SIMGRID_VERSION_(MAJOR|MINOR)")
  string(REGEX REPLACE "[^0-9;]" "" simgrid_numbers "${simgrid_numbers}")
  list(JOIN simgrid_numbers "." SimGrid_VERSION)
endif()
foreduce_sbom_package(foreduce ${PROJECT_VERSION} Apache-2.0)
foreduce_sbom_package(SimGrid "${SimGrid_VERSION}" LGPL-2.1-only)
foreduce_sbom_package(fmt "${fmt_VERSION}" MIT)
foreduce_sbom_package(yaml-cpp "${yaml-cpp_VERSION}" MIT)
foreduce_sbom_package(nlohmann-json "${nlohmann_json_VERSION}" MIT)
foreduce_sbom_package(CLI11 "${CLI11_VERSION}" BSD-3-Clause)
foreduce_sbom_package(Eigen "${Eigen3_VERSION}" MPL-2.0)
foreduce_sbom_package(Boost "${Boost_VERSION}" BSL-1.0)
foreduce_sbom_package(pugixml "${pugixml_VERSION}" MIT)
foreduce_sbom_package(zlib "${ZLIB_VERSION_STRING}" Zlib)
foreduce_sbom_package(Chart.js "${chart_version}" MIT)

string(UUID sbom_id NAMESPACE 6ba7b811-9dad-11d1-80b4-00c04fd430c8 NAME "${PROJECT_VERSION} ${sbom_packages} ${sbom_time}" TYPE SHA1)
file(WRITE ${sbom} "{
  \"spdxVersion\": \"SPDX-2.3\",
  \"dataLicense\": \"CC0-1.0\",
  \"SPDXID\": \"SPDXRef-DOCUMENT\",
  \"name\": \"foreduce-${PROJECT_VERSION}\",
  \"documentNamespace\": \"https://spdx.org/spdxdocs/foreduce-${PROJECT_VERSION}-${sbom_id}\",
  \"creationInfo\": {\"created\": \"${sbom_time}\", \"creators\": [\"Tool: cmake-${CMAKE_VERSION}\"]},
  \"documentDescribes\": [\"SPDXRef-foreduce\"],
  \"packages\": [
${sbom_packages}
  ],
  \"relationships\": [
    {\"spdxElementId\": \"SPDXRef-DOCUMENT\", \"relationshipType\": \"DESCRIBES\", \"relatedSpdxElement\": \"SPDXRef-foreduce\"}${sbom_relations}
  ]
}
")
install(FILES ${sbom} DESTINATION ${CMAKE_INSTALL_DOCDIR})

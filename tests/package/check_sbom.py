#!/usr/bin/env python3
"""check_sbom.py FILE: whether it is an SPDX 2.3 document whose packages and relationships are whole."""
import json
import re
import sys

document = json.load(open(sys.argv[1], encoding="utf-8"))
assert document["spdxVersion"] == "SPDX-2.3" and document["dataLicense"] == "CC0-1.0"
assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["creationInfo"]["created"])
packages = {p["SPDXID"]: p for p in document["packages"]}
assert len(packages) == len(document["packages"])
for id, p in packages.items():
    assert re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", id), id
    assert re.match(r"\d", p["versionInfo"]), f"{p['name']}: {p['versionInfo']}"
    assert p["licenseDeclared"] and p["downloadLocation"]
names = {p["name"] for p in packages.values()}
linked = {"SimGrid", "fmt", "yaml-cpp", "nlohmann-json", "CLI11", "Eigen", "Boost", "pugixml", "zlib", "Chart.js"}
assert names == linked | {"foreduce"}, names
depends = {r["relatedSpdxElement"] for r in document["relationships"] if r["relationshipType"] == "DEPENDS_ON"}
assert depends == set(packages) - {"SPDXRef-foreduce"}, depends

#!/usr/bin/python3
"""check_schema.py PROGRAM FOLDER: the JSON Schema that the program prints accepts every shipped scenario and refuses damaged ones."""
import copy
import glob
import json
import subprocess
import sys

import jsonschema
import yaml

program, folder = sys.argv[1:]
schema = json.loads(subprocess.run([program, "schema"], check=True, capture_output=True).stdout)
jsonschema.Draft7Validator.check_schema(schema)
validator = jsonschema.Draft7Validator(schema)
files = glob.glob(folder + "/*.yaml")
assert len(files) >= 7, files
for file in files:
    with open(file, encoding="utf-8") as text:
        scenario = yaml.safe_load(text)
    errors = list(validator.iter_errors(scenario))
    assert not errors, (file, errors)
    for key, value in (("color", "red"), ("name", None), ("allreduce", {"algorithm": "rnig"}), ("allreduce", {"algorithm": []}),
                       ("allreduce", {"algorithm": "ring", "bucket": "25"}), ("cluster", {"instance": "p4d", "nodes": 1}),
                       ("cluster", {"instance": "p4d.24xlarge", "nodes": 0})):
        damaged = copy.deepcopy(scenario)
        damaged[key] = value
        assert not validator.is_valid(damaged), (file, key, value)
    with_parts = copy.deepcopy(scenario)
    if "workload" in with_parts:
        with_parts["workload"]["trainable"] = "0.4 %"
        assert validator.is_valid(with_parts), (file, "trainable: 0.4 %")
print(len(files), "scenarios")

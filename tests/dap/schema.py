# SPDX-License-Identifier: Apache-2.0
"""The published schema of the Debug Adapter Protocol, as PyPI's debugpy ships it, and messages held against it."""

import functools
import glob
import importlib.util
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += glob.glob(str(ROOT / ".venv/lib/python3*/site-packages"))  # where ./run test puts what tests need


def find():
    """The schema's definitions, or None and why there are none."""
    debugpy = importlib.util.find_spec("debugpy")
    if debugpy is None or not debugpy.submodule_search_locations:
        return None, "debugpy is not installed (cmake/test-requirements.txt): its copy of the schema is wanted"
    if importlib.util.find_spec("fastjsonschema") is None:
        return None, "fastjsonschema is not installed (cmake/test-requirements.txt)"
    for folder in debugpy.submodule_search_locations:
        for file in pathlib.Path(folder).rglob("debugProtocol.json"):
            return json.loads(file.read_text(encoding="utf-8"))["definitions"], ""
    return None, "debugpy holds no debugProtocol.json any more"


class Schema:
    def __init__(self, definitions):
        self.definitions = definitions

    def name_of(self, message):
        kind = message.get("type")
        if kind == "response":
            if not message.get("success"):
                return "ErrorResponse"
            word, end = message["command"], "Response"
        elif kind == "event":
            word, end = message["event"], "Event"
        else:
            word, end = message["command"], "Request"
        return word[:1].upper() + word[1:] + end

    @functools.lru_cache(maxsize=None)
    def checker(self, name):
        import fastjsonschema

        return fastjsonschema.compile({"$schema": "http://json-schema.org/draft-04/schema#", "definitions": self.definitions, "$ref": f"#/definitions/{name}"})

    def complaints(self, message):
        """What is wrong with a message; also fields that the schema does not know: it allows them, but nobody reads them."""
        name = self.name_of(message)
        if name not in self.definitions:
            return [f"the schema has no {name}"]
        import fastjsonschema

        try:
            self.checker(name)(message)
        except fastjsonschema.JsonSchemaException as wrong:
            return [f"{name}: {wrong}"]
        free = (".arguments.",) if name in ("LaunchRequest", "AttachRequest") else ()  # what they hold is the adapter's own
        return [f"{name}: {path} is not in the schema" for path in self.unknown(message, {"$ref": f"#/definitions/{name}"}, "") if not path.startswith(free)]

    def properties(self, schema):
        """Of an object: names and their schemas; None where any name may stand."""
        if "$ref" in schema:
            return self.properties(self.definitions[schema["$ref"].rsplit("/", 1)[1]])
        out = dict(schema.get("properties", {}))
        free = "additionalProperties" in schema
        for part in schema.get("allOf", []):
            more = self.properties(part)
            if more is None:
                free = True
            else:
                for key, value in more.items():
                    out[key] = {"allOf": [out[key], value]} if key in out else value
        return None if free else out

    def unknown(self, value, schema, path):
        if isinstance(value, list):
            items = self.items(schema)
            return [u for i, v in enumerate(value) for u in self.unknown(v, items, f"{path}[{i}]")] if items else []
        if not isinstance(value, dict):
            return []
        known = self.properties(schema)
        if not known:  # anything may stand here
            return []
        out = []
        for key, entry in value.items():
            out += self.unknown(entry, known[key], f"{path}.{key}") if key in known else [f"{path}.{key}"]
        return out

    def items(self, schema):
        if "$ref" in schema:
            return self.items(self.definitions[schema["$ref"].rsplit("/", 1)[1]])
        if "items" in schema:
            return schema["items"]
        return next((found for part in schema.get("allOf", []) if (found := self.items(part))), None)

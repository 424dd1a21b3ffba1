"""Reads docs/openapi.yaml."""

import copy
import re

import yaml
from jsonschema import Draft202012Validator, FormatChecker
from openapi_spec_validator import validate

METHODS = ["get", "put", "post", "delete", "patch", "options", "head", "trace"]


class Description:
    def __init__(self, file):
        with open(file) as text:
            self.document = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        validate(self.document)
        self.operations = {
            operation["operationId"]: Operation(self, path, item, method)
            for path, item in self.document["paths"].items()
            for method, operation in item.items() if method in METHODS}

    def resolve(self, value):
        while isinstance(value, dict) and "$ref" in value:
            found = self.document
            for name in value["$ref"].removeprefix("#/").split("/"):
                found = found[name.replace("~1", "/").replace("~0", "~")]
            value = found
        return value

    def faults(self, value, schema):
        """The differences of a value from its schema."""
        rooted = {**copy.deepcopy(schema), "components": self.document["components"]}
        validator = Draft202012Validator(rooted, format_checker=FormatChecker())
        return [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(value)]


class Operation:
    def __init__(self, description, path, item, method):
        self.description, self.path, self.method = description, path, method
        self.value = item[method]
        self.id = self.value["operationId"]
        self.parameters = [
            description.resolve(parameter)
            for parameter in item.get("parameters", []) + self.value.get("parameters", [])]
        self.is_admin = "servers" in item
        self.schemes = {name for way in self.value.get("security", []) for name in way}

    @property
    def request_examples(self):
        body = self.value.get("requestBody")
        return body["content"]["application/json"]["examples"] if body else {}

    def response(self, status):
        found = self.value["responses"].get(str(status))
        return self.description.resolve(found) if found else None

    def answer_to(self, example):
        """The status and value of the response example with the name of a request example."""
        for status, response in self.value["responses"].items():
            for media in self.description.resolve(response).get("content", {}).values():
                if example in media.get("examples", {}):
                    return int(status), media["examples"][example]["value"]
        return None

    def target(self, example_values):
        """The path with its parameters, and the query."""
        path, query = self.path, ""
        for parameter in self.parameters:
            value = example_values.get(parameter["name"], parameter.get("example"))
            if parameter["in"] == "path":
                path = re.sub(r"\{%s\}" % parameter["name"], value, path)
            elif parameter["in"] == "query" and value is not None:
                query = f"?{parameter['name']}={value}"
        return path + query

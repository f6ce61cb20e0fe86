# SPDX-License-Identifier: Apache-2.0
"""/openapi.json: valid by a public validator, and true of the server that shows it."""
import re

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

METHODS = {"get", "head", "post", "put", "patch", "delete", "options"}


@pytest.fixture(scope="module")
def document(sim):
    answer = sim.request("GET", "/openapi.json")
    assert answer.status_code == 200 and answer.headers["Content-Type"].startswith("application/json")
    return answer.json()


def operations(document):
    return [(path, method, operation) for path, item in document["paths"].items()
            for method, operation in item.items()]


def test_valid(document):
    assert document["openapi"] == "3.1.0"
    OpenAPIV31SpecValidator(document).validate()
    found = operations(document)
    assert len(found) > 100 and all(method in METHODS for _, method, _ in found)
    ids = [operation["operationId"] for *_, operation in found]
    assert len(set(ids)) == len(ids)


def test_parameters_and_bodies(document):
    for path, method, operation in operations(document):
        in_path = [p["name"] for p in operation["parameters"] if p["in"] == "path"]
        assert in_path == re.findall(r"{(\w+)}", path), path
        assert all(p["required"] for p in operation["parameters"] if p["in"] == "path")
        assert "?" not in path and "*" not in path
    paths = document["paths"]
    get = paths["/_api/document/{collection}/{key}"]["get"]
    assert "requestBody" not in get and {"basic": []} in get["security"]
    assert "application/json" in paths["/_api/cursor"]["post"]["requestBody"]["content"]
    assert "application/octet-stream" in paths["/v1/models/{name}"]["put"]["requestBody"]["content"]
    assert paths["/livez"]["get"]["security"] == []
    assert paths["/v1/ask"]["post"]["responses"]["default"]["$ref"].endswith("OpenAIError")
    assert "dropCollections" in [p["name"] for p in paths["/_api/gharial/{graph}"]["delete"]["parameters"]]


def test_every_operation_is_there(sim, document):
    """No row is unknown to the router, and a method that the document lacks gets 405 and the others."""
    for path, item in document["paths"].items():
        real = re.sub(r"{\w+}", "1", path)
        taken = {method.upper() for method in item}
        for method in sorted({"GET", "PUT", "PATCH", "DELETE", "POST"} - taken):
            answer = sim.request(method, real)
            if answer.status_code == 405:
                assert taken <= set(answer.headers["Allow"].split(", ")), (method, path)
            else:  # another template takes this one
                assert any(re.fullmatch(re.sub(r"{\w+}", ".+", other), real)
                           for other, its in document["paths"].items() if method.lower() in its), (method, path)


def test_unknown_parameters_are_refused_as_the_document_says(sim, document):
    for path, method, operation in operations(document):
        if method == "get" and "{" not in path:
            answer = sim.request("GET", path + "?no_such_parameter=1")
            assert answer.status_code == 400 and "no_such_parameter" in answer.text, path


def test_errors_have_the_shape_that_is_said(sim, document):
    from jsonschema import validate
    schemas = document["components"]["schemas"]
    validate(sim.request("GET", "/_api/collection/none").json(), schemas["Error"])
    validate(sim.request("POST", "/v1/ask", json={}).json(), schemas["OpenAIError"])

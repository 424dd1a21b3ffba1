"""Runs schemathesis with values that are valid in this run, so that it passes the first checks."""

import copy
import subprocess
import sys

import yaml
from world import APPS, SUPPORT_TOKEN, user_token

# A request that fits its schema must be understood: 2xx, or 401, 403, 404, 409 and 422 with a reason. Some operations have
# rules beyond a schema (a passed time, the base64 of a receipt, a customer of the app's kind, an
# id in the reason of an erasure, an id of several apps, two extensions in a year) and may answer 400. Events
# are limited in bytes too, and an oversized body is refused before it is read.
CONFIGURATION = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 304, 401, 403, 404, 409, 422]

[[operations]]
include-operation-id = ["validate", "grant", "extendTrial", "transfer", "resetDeviceSecret", "eraseCustomer",
  "exportCustomer", "refundAnswer", "note", "extendRenewal"]
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 403, 404, 409, 422]

[[operations]]
include-operation-id = ["postEvents"]
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 403, 404, 409, 413, 422]
checks.negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]
"""


def run(description, session, world, folder, options):
    """Each port with and without tokens, by the description with live values and by the original."""
    live = f"{folder}/live.yaml"
    with open(live, "w") as file:
        yaml.dump(alive(description, session), file, allow_unicode=True)
    plain = f"{folder}/plain.yaml"
    with open(plain, "w") as file:
        yaml.dump(description.document, file, allow_unicode=True)
    with open(f"{folder}/schemathesis.toml", "w") as file:
        file.write(CONFIGURATION)
    admin = r"^/(support/|healthz|readyz|metrics)"
    user = f"Authorization: Bearer {user_token(session.user)}"
    support = f"Authorization: Bearer {SUPPORT_TOKEN}"
    # The two days of the figures must be in order, which no schema says.
    valid = r"^/(support/v1/(?!numbers)|healthz|readyz|metrics)"
    runs = [
        ("clients, with a user's token", live, world.client_url, ["--exclude-path-regex", admin, "-H", user]),
        ("clients, without a token", live, world.client_url, ["--exclude-path-regex", admin]),
        ("operators, with the support token", live, world.admin_url, ["--include-path-regex", valid, "-H", support]),
        ("operators, without a token", live, world.admin_url, ["--include-path-regex", admin]),
        # Values that only have the right form (a signature, an id, an app) may be refused.
        ("clients, as the description stands", plain, world.client_url,
         ["--exclude-path-regex", admin, "-H", user, "--exclude-checks", "positive_data_acceptance"]),
        ("operators, as the description stands", plain, world.admin_url,
         ["--include-path-regex", admin, "-H", support, "--exclude-checks", "positive_data_acceptance"]),
    ]
    faults = []
    for name, file, url, arguments in runs:
        print(f"\nschemathesis: {name}", flush=True)
        command = [
            sys.executable, "-m", "schemathesis.cli", "--config-file", f"{folder}/schemathesis.toml", "run", file,
            "--url", url, "--max-examples", str(options.max_examples), "--seed", str(options.seed),
            "--generation-database", "none", "--request-timeout", "10", "--no-color", "--warnings", "off", *arguments]
        # schemathesis leaves files in its working directory.
        status = subprocess.run(command, cwd=folder).returncode
        if status:
            faults.append(f"schemathesis: {name}: exit status {status}")
    return faults


def alive(description, session):
    """The description with live signatures in its examples and schemas."""
    document = copy.deepcopy(description.document)
    transactions = [session.climb["signedTransaction"], session.family["signedTransaction"]]
    launch = session.launch["signedAppTransaction"]
    schemas = document["components"]["schemas"]
    schemas["SignedData"]["enum"] = [*transactions, launch]
    schemas["ValidateRequest"]["properties"]["signedTransaction"]["enum"] = [*transactions, None]
    schemas["ProfileSync"]["properties"]["signedAppTransaction"]["enum"] = [launch, None]
    parameters = document["components"]["parameters"]
    parameters["UserID"]["schema"] = {"const": session.user}
    for parameter, app in zip(("AppOfUser", "AppOfDevice"), APPS):
        parameters[parameter]["schema"]["enum"] = [app]
    for path in document["paths"].values():
        for parameter in path.get("parameters", []):
            if parameter.get("name") == "id":
                parameter["example"] = session.climb["originalTransactionID"]
        for operation in path.values():
            body = operation.get("requestBody") if isinstance(operation, dict) else None
            if not body:
                continue
            media = body["content"]["application/json"]
            # Examples of refused requests are no valid requests.
            media["examples"] = {
                name: example for name, example in media["examples"].items() if "x-answer" not in example}
            for name, example in media["examples"].items():
                example["value"] = session.live(operation, name, example["value"])
            for schema in [media["schema"], *media["schema"].get("allOf", [])]:
                known(schema.get("properties", {}), session)
    return document


def known(properties, session):
    """Restricts properties to known values."""
    names = {
        "bundleID": APPS, "tier": ["premium", "individual", "family"], "signedPayload": [
            session.climb["notification"]["signedPayload"], session.family["notification"]["signedPayload"]],
        "originalTransactionID": [
            session.climb["originalTransactionID"], session.family["originalTransactionID"]],
        "notificationUUID": [session.replayed["uuid"]],
    }
    for name, schema in properties.items():
        if name in names and schema.get("type") == "string":
            schema["enum"] = names[name]

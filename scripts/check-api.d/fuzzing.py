"""schemathesis, told what is valid here and now, so that it gets behind the first checks."""

import copy
import subprocess
import sys

import yaml
from world import APPS, SUPPORT_TOKEN, user_token

# What the schemas take must be welcome: with 401, 403, 404, 409 and 422 the server says that it understood, and why not. The
# rules of these operations go beyond a schema (a time that has passed, base64 of a receipt, a customer of the app's kind),
# so that they may answer 400. Events are limited in bytes too, and a body that is too large is refused before it is read.
CONFIGURATION = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 304, 401, 403, 404, 409, 422]

[[operations]]
include-operation-id = ["validate", "grant", "extendTrial", "transfer", "resetDeviceSecret"]
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 403, 404, 409, 422]

[[operations]]
include-operation-id = ["postEvents"]
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 403, 404, 409, 413, 422]
checks.negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]
"""


def run(description, session, world, folder, options):
    """Each port with tokens and without by a description with live values in it, and by the one as it stands."""
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
    runs = [
        ("clients, with a user's token", live, world.client_url, ["--exclude-path-regex", admin, "-H", user]),
        ("clients, without a token", live, world.client_url, ["--exclude-path-regex", admin]),
        ("operators, with the support token", live, world.admin_url, ["--include-path-regex", admin, "-H", support]),
        ("operators, without a token", live, world.admin_url, ["--include-path-regex", admin]),
        # What only has the form of a signature, an id or an app is not welcome, and does not have to be.
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
        # It leaves files where it runs.
        status = subprocess.run(command, cwd=folder).returncode
        if status:
            faults.append(f"schemathesis: {name}: exit status {status}")
    return faults


def alive(description, session):
    """The description, with the simulated App Store's signatures in its examples, and as what its schemas take."""
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
            # What is there to be refused is no example of what is welcome.
            media["examples"] = {
                name: example for name, example in media["examples"].items() if "x-answer" not in example}
            for name, example in media["examples"].items():
                example["value"] = session.live(operation, name, example["value"])
            for schema in [media["schema"], *media["schema"].get("allOf", [])]:
                known(schema.get("properties", {}), session)
    return document


def known(properties, session):
    """Names that something is known of."""
    names = {
        "bundleID": APPS, "tier": ["premium", "individual", "family"], "signedPayload": [
            session.climb["notification"]["signedPayload"], session.family["notification"]["signedPayload"]],
        "originalTransactionID": [
            session.climb["originalTransactionID"], session.family["originalTransactionID"]],
        "notificationUUID": [session.climb["notification"]["uuid"]],
    }
    for name, schema in properties.items():
        if name in names and schema.get("type") == "string":
            schema["enum"] = names[name]

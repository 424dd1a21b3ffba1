"""Sends every example of the description and compares the responses with its examples.

A response has an example under the name of its request; a refused request has `x-answer` with the code. Signed values in
examples are not valid, so they are replaced by values that the simulated App Store signs.
"""

import datetime
import time

import web
from world import user_token

# An order in which each operation finds the objects that it names.
ORDER = [
    "validate", "webhook", "putPremium", "getPremium", "startTrial", "getEntitlements", "pairChild", "listChildren",
    "unpairChild", "makePairingCode", "joinParent", "readParent", "postEvents", "postConsent", "getKeys",
    "getDescription", "getHealth", "getReadiness", "getMetrics", "getCustomer", "find", "refresh", "grant", "revokeGrant", "note", "extendTrial", "resetDeviceSecret", "transfer", "refundAnswer",
    "extendRenewal", "setFreeAccess", "requeue", "replay", "getNumbers", "listPeople", "addPerson", "removePerson",
    "exportCustomer", "eraseCustomer",
]


class Session:
    def __init__(self, description, world):
        self.description, self.world = description, world
        self.count = 0
        self.user = description.document["components"]["parameters"]["UserID"]["example"]
        buy = "purchases?deliver=false"
        self.climb = world.control(buy, {
            "bundleID": "com.swiftclimb.app", "productID": "com.swiftclimb.premium.annual",
            "appAccountToken": self.user})
        self.family = world.control(buy, {
            "bundleID": "com.screentimerewards", "productID": "com.screentimerewards.family.monthly",
            "account": "family"})
        # Of another customer: generated requests erase `self.user`, whose notifications cannot be replayed then.
        self.replayed = world.control(buy, {
            "bundleID": "com.swiftclimb.app", "productID": "com.swiftclimb.premium.annual"})["notification"]
        self.launch = world.control(
            "app-transactions", {"bundleID": "com.screentimerewards", "account": "family"})
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        self.now = now.replace("+00:00", "Z")
        self.grant, self.code = None, None

    def live(self, operation, name, body):
        """The example with values that are valid in this run."""
        transaction = self.family if name in ("device", "oldBuild", "reinstall") else self.climb
        signed = {
            "signedTransaction": transaction["signedTransaction"], "transactionID": transaction["transactionID"],
            "signedTransactions": [transaction["signedTransaction"]] if body.get("signedTransactions") else [],
            "signedPayload": self.climb["notification"]["signedPayload"],
            "signedAppTransaction": self.launch["signedAppTransaction"],
            "originalTransactionID": self.family["originalTransactionID"], "grant": self.grant,
            "premium_original_transaction_id": self.climb["originalTransactionID"],
            "id": self.family["originalTransactionID"],
            "notificationUUID": self.replayed["uuid"], "pairingCode": self.code,
            "events": [{**event, "at": self.now} for event in body.get("events", [])],
        }
        if name in ("forged", "unknownTransaction", "unknownColumns"):
            return body
        return {member: signed.get(member, value) for member, value in body.items()}

    @property
    def parameters(self):
        return {
            "id": self.climb["originalTransactionID"], "what": self.climb["orderID"], "view": "kpi_daily",
            "customer": self.user}

    def token(self, operation):
        if "userToken" in operation.schemes:
            return user_token(self.user)
        return self.world.lead if "personToken" in operation.schemes else None

    def run(self):
        faults = []
        if set(ORDER) != set(self.description.operations):
            faults.append(f"not in the session's order: {set(ORDER) ^ set(self.description.operations)}")
        web.call(
            "POST", self.world.client_url + self.description.operations["webhook"].target({}),
            {"signedPayload": self.replayed["signedPayload"]})
        for operation in map(self.description.operations.get, ORDER):
            examples = operation.request_examples or self._names_of_answers(operation)
            if operation.id == "getCustomer":
                # Refused requests are written every two seconds.
                time.sleep(4)
            for name, example in examples.items():
                for fault in self._send(operation, name, example):
                    faults.append(f"{operation.id} {name}: {fault}")
        return faults

    @staticmethod
    def _names_of_answers(operation):
        for media in (operation.response(200) or operation.response(201))["content"].values():
            return media.get("examples", {"none": {}})

    def _send(self, operation, name, example):
        self.count += 1
        headers = {"X-Request-ID": f"{operation.id}-{name}"}
        token = self.token(operation)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        url = self.world.admin_url if operation.is_admin else self.world.client_url
        body = self.live(operation, name, example["value"]) if operation.request_examples else None
        parameters = self.parameters
        if operation.id in ("joinParent", "readParent"):
            # A child's device, which joins with a secret of its own.
            parameters = {**parameters, "deviceID": "EMMAS-IPAD"}
            headers["Receiptd-Device-Secret"] = "A" * 43
        answer = web.call(
            operation.method.upper(), url + operation.target(parameters), body, headers=headers, timeout=30)
        response = operation.response(answer.status)
        if not response:
            return [f"the status {answer.status} is not documented: {answer.body[:300]}"]
        media_type = answer.headers["Content-Type"]
        if media_type not in response["content"]:
            return [f"the type {media_type} of {answer.status} is not documented"]
        if answer.headers["X-Request-ID"] != headers["X-Request-ID"]:
            return ["another X-Request-ID came back"]
        is_json = media_type.endswith("json")
        value = answer.json() if is_json else answer.body.decode()
        faults = []
        schema = response["content"][media_type]["schema"]
        if is_json or media_type.startswith("text/"):
            faults = self.description.faults(value, schema)
        if operation.id == "grant":
            self.grant = value.get("grant")
        if operation.id == "makePairingCode":
            self.code = value.get("code")
        if "x-answer" in example:
            return faults + self._refusal(example["x-answer"], value, response)
        expected = operation.answer_to(name)
        if not expected:
            if not operation.request_examples and answer.status == 200:
                return faults
            return faults + ["no answer stands beside it"]
        status, told = expected
        if status != answer.status:
            return faults + [f"{status} stands there, this came: {answer.status} {answer.body[:300]}"]
        return faults + differences(told, value)

    @staticmethod
    def _refusal(code, value, response):
        """The differences of a problem from its code and from the description's sentences."""
        shown = response["content"]["application/problem+json"]["example"]
        told = {"code": code}
        if shown["code"] == code:
            told.update((name, shown[name]) for name in ("title", "status", "error"))
        return [
            f"{name}: {expected!r} stands there, {value.get(name)!r} came"
            for name, expected in told.items() if value.get(name) != expected]


def differences(told, found, path="$"):
    """Where a response has other members, other types or other constants than the example."""
    if isinstance(told, dict) and isinstance(found, dict):
        faults = [f"{path}: {sorted(set(told) ^ set(found))} stands in one of them only"] * (set(told) != set(found))
        for name in set(told) & set(found):
            faults += differences(told[name], found[name], f"{path}.{name}")
        return faults
    if isinstance(told, list) and isinstance(found, list):
        if bool(told) != bool(found):
            return [f"{path}: {len(told)} elements stand there, {len(found)} came"]
        return differences(told[0], found[0], f"{path}[0]") if told else []
    if type(told) is not type(found):
        return [f"{path}: {told!r} stands there, {found!r} came"]
    # Times, ids and signatures differ from run to run; words do not.
    is_word = isinstance(told, (bool, int)) or isinstance(told, str) and told.isalpha()
    return [f"{path}: {told!r} stands there, {found!r} came"] if is_word and told != found else []

"""Runs Apple's own App Store Server Library on what the simulator signs and serves.

Reads a file with {"store": {...}, "operations": [{"do": name, ...}]} and prints a JSON list with one
outcome for each operation: {"value": ...} or {"error": {...}}. It judges nothing; the Swift test does.
"""

import base64
import enum
import json
import sys

import attr
from appstoreserverlibrary.api_client import APIException, AppStoreServerAPIClient
from appstoreserverlibrary.api_client import GetTransactionHistoryVersion
from appstoreserverlibrary.models.Environment import Environment
from appstoreserverlibrary.models.NotificationHistoryRequest import NotificationHistoryRequest
from appstoreserverlibrary.models.TransactionHistoryRequest import TransactionHistoryRequest
from appstoreserverlibrary.signed_data_verifier import SignedDataVerifier, VerificationException


def plain(value):
    """What the library made of an answer, as JSON; its absent values left out."""
    if attr.has(type(value)):
        fields = {field.name: getattr(value, field.name) for field in attr.fields(type(value))}
        for name, raw in fields.items():
            # The library keeps the wire's word in rawName and its meaning in name, None for an unknown word.
            known = name[3:4].lower() + name[4:]
            if name.startswith("raw") and raw is not None and fields.get(known) is None:
                raise ValueError(f"Apple's library does not know {known} = {raw!r}")
        return {
            name: plain(field)
            for name, field in fields.items()
            if field is not None and not name.startswith("raw")
        }
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, list):
        return [plain(element) for element in value]
    return value


class Store:
    def __init__(self, store):
        self.store = store

    def verifier(self, operation):
        return SignedDataVerifier(
            [base64.b64decode(self.store["root"])],
            False,
            Environment(operation["environment"]),
            operation.get("bundleID", self.store["bundleID"]),
            self.store["appAppleID"],
        )

    def client(self, operation):
        client = AppStoreServerAPIClient(
            operation.get("key", self.store["key"]).encode(),
            operation.get("keyID", self.store["keyID"]),
            operation.get("issuerID", self.store["issuerID"]),
            operation.get("bundleID", self.store["bundleID"]),
            Environment(operation["environment"]),
        )
        client._base_url = self.store["urls"][operation["environment"]]
        return client

    def transaction(self, operation):
        return self.verifier(operation).verify_and_decode_signed_transaction(operation["jws"])

    def renewal_info(self, operation):
        return self.verifier(operation).verify_and_decode_renewal_info(operation["jws"])

    def notification(self, operation):
        return self.verifier(operation).verify_and_decode_notification(operation["jws"])

    def app_transaction(self, operation):
        return self.verifier(operation).verify_and_decode_app_transaction(operation["jws"])

    def get_transaction_info(self, operation):
        return self.client(operation).get_transaction_info(operation["id"])

    def get_all_subscription_statuses(self, operation):
        return self.client(operation).get_all_subscription_statuses(operation["id"])

    def get_transaction_history(self, operation):
        return self.client(operation).get_transaction_history(
            operation["id"],
            operation.get("revision"),
            TransactionHistoryRequest(),
            GetTransactionHistoryVersion.V2,
        )

    def get_notification_history(self, operation):
        request = NotificationHistoryRequest(startDate=operation["startDate"], endDate=operation["endDate"])
        return self.client(operation).get_notification_history(operation.get("paginationToken"), request)

    def request_test_notification(self, operation):
        return self.client(operation).request_test_notification()

    def get_test_notification_status(self, operation):
        return self.client(operation).get_test_notification_status(operation["token"])


def outcome(store, operation):
    try:
        return {"value": plain(getattr(store, operation["do"])(operation))}
    except APIException as error:
        return {"error": {"status": error.http_status_code, "code": error.raw_api_error}}
    except VerificationException as error:
        return {"error": {"verification": error.status.name}}


with open(sys.argv[1], encoding="utf-8") as file:
    task = json.load(file)
store = Store(task["store"])
print(json.dumps([outcome(store, operation) for operation in task["operations"]]))

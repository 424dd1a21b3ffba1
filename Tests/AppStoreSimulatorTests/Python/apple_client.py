"""Runs Apple's own App Store Server Library on the simulator's signed payloads and its API.

Reads a file with {"store": {...}, "operations": [{"do": name, ...}]} and prints a JSON list with one
outcome for each operation: {"value": ...} or {"error": {...}}. It judges nothing; the Swift test does.
"""

import base64
import enum
import json
import sys
import warnings

import attr
from appstoreserverlibrary.api_client import APIException, AppStoreServerAPIClient
from appstoreserverlibrary.api_client import GetTransactionHistoryVersion
from appstoreserverlibrary.models.ConsumptionRequest import ConsumptionRequest
from appstoreserverlibrary.models.Environment import Environment
from appstoreserverlibrary.models.ExtendRenewalDateRequest import ExtendRenewalDateRequest
from appstoreserverlibrary.models.LibraryUtility import _get_cattrs_converter
from appstoreserverlibrary.models.MassExtendRenewalDateRequest import MassExtendRenewalDateRequest
from appstoreserverlibrary.models.NotificationHistoryRequest import NotificationHistoryRequest
from appstoreserverlibrary.models.TransactionHistoryRequest import TransactionHistoryRequest
from appstoreserverlibrary.models.UpdateAppAccountTokenRequest import UpdateAppAccountTokenRequest
from appstoreserverlibrary.signed_data_verifier import SignedDataVerifier, VerificationException


def plain(value):
    """The library's object for a response as JSON, without absent values."""
    if attr.has(type(value)):
        fields = {field.name: getattr(value, field.name) for field in attr.fields(type(value))}
        for name, raw in fields.items():
            # The library keeps the raw value in rawName and the enum value in name, None for an unknown raw value.
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


def request(model, operation):
    """The operation's body or query as the library's own type."""
    return _get_cattrs_converter(model).structure(operation.get("request", {}), model)


def pages(token, operation, get):
    """Requests all pages, one after the other."""
    answers = [get(operation)]
    while answers[-1].hasMore:
        answers.append(get({**operation, token: getattr(answers[-1], token)}))
    return answers


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

    def get(self, operation):
        """Sends a query that the library cannot build: values that Apple does not know."""
        query = {name: [value] for name, value in operation["request"].items()}
        return self.client(operation)._make_request(operation["path"], "GET", query, None, None)

    def get_all_subscription_statuses(self, operation):
        return self.client(operation).get_all_subscription_statuses(operation["id"])

    def get_transaction_history(self, operation):
        return self.client(operation).get_transaction_history(
            operation["id"],
            operation.get("revision"),
            request(TransactionHistoryRequest, operation),
            GetTransactionHistoryVersion.V2,
        )

    def get_transaction_history_pages(self, operation):
        return pages("revision", operation, self.get_transaction_history)

    def look_up_order_id(self, operation):
        return self.client(operation).look_up_order_id(operation["id"])

    def extend_subscription_renewal_date(self, operation):
        body = request(ExtendRenewalDateRequest, operation)
        return self.client(operation).extend_subscription_renewal_date(operation["id"], body)

    def extend_renewal_date_for_all_active_subscribers(self, operation):
        body = request(MassExtendRenewalDateRequest, operation)
        return self.client(operation).extend_renewal_date_for_all_active_subscribers(body)

    def get_status_of_subscription_renewal_date_extensions(self, operation):
        return self.client(operation).get_status_of_subscription_renewal_date_extensions(
            operation["token"], operation["id"]
        )

    def send_consumption_information(self, operation):
        body = request(ConsumptionRequest, operation)
        return self.client(operation).send_consumption_information(operation["id"], body)

    def set_app_account_token(self, operation):
        body = request(UpdateAppAccountTokenRequest, operation)
        return self.client(operation).set_app_account_token(operation["id"], body)

    def parse_request(self, operation):
        """The operation's body, read into the library's type and written as the library's client would send it."""
        models = [ConsumptionRequest, ExtendRenewalDateRequest, MassExtendRenewalDateRequest, UpdateAppAccountTokenRequest]
        model = {model.__name__: model for model in models}[operation["model"]]
        body = request(model, operation)
        plain(body)
        return _get_cattrs_converter(model).unstructure(body)

    def get_notification_history(self, operation):
        return self.client(operation).get_notification_history(
            operation.get("paginationToken"), request(NotificationHistoryRequest, operation)
        )

    def get_notification_history_pages(self, operation):
        return pages("paginationToken", operation, self.get_notification_history)

    def request_test_notification(self, operation):
        return self.client(operation).request_test_notification()

    def get_test_notification_status(self, operation):
        return self.client(operation).get_test_notification_status(operation["token"])


def outcome(store, operation):
    try:
        return {"value": plain(getattr(store, operation["do"])(operation))}
    except APIException as error:
        known = error.api_error and error.api_error.name
        return {"error": {"status": error.http_status_code, "code": error.raw_api_error, "name": known}}
    except VerificationException as error:
        return {"error": {"verification": error.status.name}}


# The library deprecates calls that Apple still serves.
warnings.simplefilter("ignore", DeprecationWarning)
with open(sys.argv[1], encoding="utf-8") as file:
    task = json.load(file)
store = Store(task["store"])
print(json.dumps([outcome(store, operation) for operation in task["operations"]]))

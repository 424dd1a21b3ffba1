"""Signed data: request bodies of a simulated App Store, and tokens of users."""
import functools
import json
import os

from tokens import access_token, claims
from world import APP, SECRETS


class Bodies:
    """One caller's share of a file with a body in each line."""

    def __init__(self, path, share, shares):
        self.file = open(path, "rb")
        size = os.path.getsize(path)
        self.end = size * (share + 1) // shares
        self.file.seek(size * share // shares)
        if share > 0:
            # A line that begins before this share belongs to the previous caller.
            self.file.readline()

    def next(self):
        """The next one, or None after the last."""
        return self.file.readline().rstrip(b"\n") if self.file.tell() <= self.end else None


def transaction_of(notification):
    """The signed transaction in a notification's body, and the user that it names."""
    payload = claims(json.loads(notification)["signedPayload"])
    signed = payload["data"]["signedTransactionInfo"]
    return signed, claims(signed)["appAccountToken"].lower()


@functools.cache
def _issuer():
    with open("config/apps.json") as file:
        apps = json.load(file)["apps"]
    auth = next(app["auth"] for app in apps if app["bundleID"] == APP)
    return SECRETS[auth["secretEnv"]], auth["issuer"], auth["audience"]


def bearer(user):
    """The header field with a token of one of the app's users."""
    return f"Authorization: Bearer {access_token(user, *_issuer())}"

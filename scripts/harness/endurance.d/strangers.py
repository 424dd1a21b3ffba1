"""Malformed, forged and aborted requests."""
import json

from client import Connection, address, request
from signed import bearer

USER, OTHER_USER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
FORGED = "eyJhbGciOiJFUzI1NiJ9.eyJhIjoxfQ." + "A" * 86
LEAVES = "leaves"

WEBHOOK = "/api/v1/subscriptions/webhook"
VALIDATE = "/api/v1/subscriptions/validate"
PROFILE = f"/api/v1/profiles/{USER}/premium"

# Requests and the status of their responses.
REFUSED = {
    "unknown path": (404, lambda: request("GET", "/wp-login.php")),
    "wrong method": (405, lambda: request("DELETE", VALIDATE)),
    "no JSON": (400, lambda: request("POST", VALIDATE, b"{\"signedTransaction\": ")),
    "no media type": (415, lambda: request("POST", VALIDATE, b"<a/>", media_type="text/xml")),
    "two proofs": (400, lambda: request(
        "POST", VALIDATE, json.dumps({"signedTransaction": FORGED, "transactionID": "1"}).encode())),
    "forged notification": (401, lambda: request("POST", WEBHOOK, json.dumps({"signedPayload": FORGED}).encode())),
    "forged transaction": (422, lambda: request(
        "POST", VALIDATE, json.dumps({"signedTransaction": FORGED}).encode())),
    "no token": (401, lambda: request("GET", PROFILE)),
    "another's token": (403, lambda: request("GET", PROFILE, fields=[bearer(OTHER_USER)])),
    "too large": (413, lambda: request("POST", WEBHOOK, b"x" * (300 << 10))),
    "no HTTP": (400, lambda: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n"),
    "two lengths": (400, lambda: request(
        "POST", WEBHOOK, b"{}", fields=["Content-Length: 3"])),
    "large head": (431, lambda: request("GET", "/", fields=["Cookie: " + "x" * 20_000])),
}
LEAVING = {
    "leaves after a half head": lambda: request("POST", WEBHOOK)[:-20],
    "leaves after a half body": lambda: request("POST", WEBHOOK, b"x" * 5_000)[:-2_500],
    "leaves at once": lambda: b"",
    "leaves before the answer": lambda: request("GET", PROFILE, fields=[bearer(USER)]),
}


class Stranger:
    def __init__(self, random):
        self.random = random
        self.names = [*REFUSED, *LEAVING]

    def call(self, port):
        """Sends one of these and closes: its name, the status, the expected status."""
        name = self.random.choice(self.names)
        connection = Connection(port, address(self.random))
        if name in LEAVING:
            connection.send(LEAVING[name]())
            connection.close(politely=self.random.random() < 0.5)
            return name, LEAVES, LEAVES
        expected, message = REFUSED[name]
        try:
            status, _ = connection.call(message())
        finally:
            if connection.is_open:
                connection.close()
        return name, status, expected

"""Signs App Store payloads with another implementation (OpenSSL, through Python's cryptography).

Writes `root.der` into the folder given as argument, and one JSON object to standard output: named
requests, each with the route, the body to post, and the status and code that must come back.
"""

import base64
import datetime
import json
import sys
import uuid
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID, ObjectIdentifier

LEAF_MARKER = ObjectIdentifier("1.2.840.113635.100.6.11.1")
INTERMEDIATE_MARKER = ObjectIdentifier("1.2.840.113635.100.6.2.1")
ASN1_NULL = b"\x05\x00"

BUNDLE = "com.example.foreign"
APPLE_ID = 1500000009
PRODUCT = "com.example.foreign.monthly"
NOW = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
DAY = datetime.timedelta(days=1)


def certificate(name, key, issuer_name, issuer_key, *, ca, marker=None, start=NOW - 365 * DAY, end=NOW + 365 * DAY):
    def distinguished(text):
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    builder = (
        x509.CertificateBuilder()
        .subject_name(distinguished(name))
        .issuer_name(distinguished(issuer_name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if marker is not None:
        builder = builder.add_extension(x509.UnrecognizedExtension(marker, ASN1_NULL), critical=False)
    return builder.sign(issuer_key, hashes.SHA256()).public_bytes(Encoding.DER)


class Authority:
    """A root, an intermediate and a leaf; each can be made wrong in one way."""

    def __init__(self, root=None, *, intermediate_marker=INTERMEDIATE_MARKER, leaf_marker=LEAF_MARKER,
                 leaf_start=NOW - 365 * DAY, leaf_end=NOW + 365 * DAY):
        self.root_key, self.root = root or self.new_root()
        intermediate_key = ec.generate_private_key(ec.SECP256R1())
        intermediate = certificate("Intermediate", intermediate_key, "Root", self.root_key, ca=True,
                                   marker=intermediate_marker)
        self.key = ec.generate_private_key(ec.SECP256R1())
        leaf = certificate("Leaf", self.key, "Intermediate", intermediate_key, ca=False, marker=leaf_marker,
                           start=leaf_start, end=leaf_end)
        self.chain = [leaf, intermediate, self.root]

    @staticmethod
    def new_root():
        key = ec.generate_private_key(ec.SECP384R1())
        return key, certificate("Root", key, "Root", key, ca=True)

    def sign(self, claims, *, alg="ES256", chain=None, extra=None, sign=None):
        header = {"alg": alg, "x5c": [base64.b64encode(c).decode() for c in (self.chain if chain is None else chain)], **(extra or {})}
        text = base64url(json.dumps(header).encode()) + "." + base64url(json.dumps(claims).encode())
        signature = (sign or self.es256)(text.encode())
        return text + "." + base64url(signature)

    def es256(self, text):
        r, s = decode_dss_signature(self.key.sign(text, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    def es384(self, text):
        r, s = decode_dss_signature(self.key.sign(text, ec.ECDSA(hashes.SHA384())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    def hs256(self, text):
        # The leaf, which is public, serves as the HMAC secret.
        mac = hmac.HMAC(self.chain[0], hashes.SHA256())
        mac.update(text)
        return mac.finalize()


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def milliseconds(moment):
    return int(moment.timestamp() * 1000)


def transaction(**changes):
    number = str(uuid.uuid4().int % 10**15 + 2 * 10**15)
    claims = {
        "transactionId": number, "originalTransactionId": number, "bundleId": BUNDLE, "productId": PRODUCT,
        "type": "Auto-Renewable Subscription", "inAppOwnershipType": "PURCHASED", "quantity": 1,
        "purchaseDate": milliseconds(NOW - DAY), "originalPurchaseDate": milliseconds(NOW - DAY),
        "expiresDate": milliseconds(NOW + 29 * DAY), "signedDate": milliseconds(NOW),
        "environment": "Production", "storefront": "USA", "storefrontId": "143441",
        "transactionReason": "PURCHASE", "currency": "USD", "price": 4990,
        "aFieldOfTheFuture": {"nested": [1, 2, 3]},
    }
    claims.update(changes)
    return {name: value for name, value in claims.items() if value is not None}


def notification(authority, inner, *, kind="DID_RENEW", bundle=BUNDLE, environment="Production",
                 apple_id=APPLE_ID, inner_authority=None):
    return {
        "notificationType": kind, "notificationUUID": str(uuid.uuid4()), "version": "2.0",
        "signedDate": milliseconds(NOW),
        "data": {"bundleId": bundle, "appAppleId": apple_id, "bundleVersion": "1", "environment": environment,
                 "status": 1, "signedTransactionInfo": (inner_authority or authority).sign(inner)},
    }


def flip(jws, position):
    """Changes one bit of the byte that a character stands for."""
    other = chr(ord(jws[position]) ^ 1)
    if not (other.isalnum() or other in "-_"):
        other = "A" if jws[position] != "A" else "Q"
    return jws[:position] + other + jws[position + 1:]


def main():
    folder = Path(sys.argv[1])
    good = Authority()
    root = (good.root_key, good.root)
    (folder / "root.der").write_bytes(good.root)

    requests = []

    def validate(name, jws, status, code=None):
        requests.append({"name": name, "route": "/api/v1/subscriptions/validate",
                         "body": {"signedTransaction": jws}, "status": status, "code": code})

    def notify(name, jws, status, code=None):
        requests.append({"name": name, "route": "/api/v1/subscriptions/webhook",
                         "body": {"signedPayload": jws}, "status": status, "code": code})

    def both(name, authority, status_and_code=(422, "invalid_signature"), **how):
        validate(name, authority.sign(transaction(), **how), *status_and_code)
        notify(name, authority.sign(notification(good, transaction()), **how), 401, "invalid_signature")

    validate("a good transaction", good.sign(transaction()), 200)
    notify("a good notification", good.sign(notification(good, transaction())), 200)
    validate("a leaf that has expired since, but was valid at signedDate",
             Authority(root, leaf_start=NOW - 300 * DAY, leaf_end=NOW - 100 * DAY).sign(
                 transaction(signedDate=milliseconds(NOW - 200 * DAY))), 200)

    both("a leaf without its marker", Authority(root, leaf_marker=None))
    both("an intermediate without its marker", Authority(root, intermediate_marker=None))
    both("a fourth certificate", good, chain=good.chain + [good.root])
    both("a missing certificate", good, chain=good.chain[:2])
    both("no certificate", good, chain=[])
    both("another root", Authority())
    both("a leaf not valid at signedDate", Authority(root, leaf_start=NOW - 20 * DAY, leaf_end=NOW - 10 * DAY),
         (422, "certificate_expired"))
    both("a leaf not valid yet", Authority(root, leaf_start=NOW + 10 * DAY, leaf_end=NOW + 20 * DAY),
         (422, "certificate_expired"))
    both("alg none", good, alg="none", sign=lambda text: b"")
    both("alg HS256", good, alg="HS256", sign=good.hs256)
    both("alg ES384", good, alg="ES384", sign=good.es384)
    both("crit", good, extra={"crit": ["exp"], "exp": 1})

    jws = good.sign(transaction())
    for step in range(40):
        position = step * (len(jws) - 1) // 39
        if jws[position] != ".":
            validate(f"a flipped bit at {step}/39", flip(jws, position), 422, "invalid_signature")
    jws = good.sign(notification(good, transaction()))
    for step in range(40):
        position = step * (len(jws) - 1) // 39
        if jws[position] != ".":
            notify(f"a flipped bit at {step}/39", flip(jws, position), 401, "invalid_signature")

    validate("another bundle", good.sign(transaction(bundleId="com.example.other")), 422, "wrong_app")
    validate("an environment that the app does not take", good.sign(transaction(environment="Sandbox")), 422,
             "wrong_environment")
    for environment in ("Xcode", "LocalTesting", "Mars"):
        validate(f"environment {environment}", good.sign(transaction(environment=environment)), 422,
                 "wrong_environment")

    # Apple's signature is valid but receiptd cannot apply the content: it stores, flags, and answers 200.
    notify("an inner transaction of another app",
           good.sign(notification(good, transaction(bundleId="com.example.other"))), 200)
    notify("an inner transaction of another environment",
           good.sign(notification(good, transaction(environment="Sandbox"))), 200)
    notify("an inner transaction signed by a stranger",
           good.sign(notification(good, transaction(), inner_authority=Authority())), 200)
    notify("an unknown app", good.sign(notification(
        good, transaction(bundleId="com.example.other"), bundle="com.example.other")), 200)
    notify("an app of another appAppleId", good.sign(notification(good, transaction(), apple_id=7)), 200)
    notify("an environment that the app does not take", good.sign(notification(
        good, transaction(environment="Sandbox"), environment="Sandbox")), 200)
    notify("an unknown type", good.sign(notification(good, transaction(), kind="FROM_THE_FUTURE")), 200)
    notify("an unknown product", good.sign(notification(good, transaction(productId="unheard"))), 200)

    json.dump(requests, sys.stdout)


main()

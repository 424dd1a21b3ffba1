"""Verifies entitlement tokens with PyJWT, which shares no code with receiptd.

Reads {"keySet": ..., "token": ..., "app": ..., "customer": ...} from standard input; writes what the token says and,
for each way to be wrong, whether it was refused.
"""

import base64
import hashlib
import json
import sys

import jwt


def thumbprint(key):
    """RFC 7638 section 3, with the members of RFC 8037 section 2."""
    members = json.dumps({name: key[name] for name in ("crv", "kty", "x")}, separators=(",", ":"), sort_keys=True)
    return base64.urlsafe_b64encode(hashlib.sha256(members.encode()).digest()).rstrip(b"=").decode()


def main():
    given = json.load(sys.stdin)
    token, app, customer = given["token"], given["app"], given["customer"]
    keys = jwt.PyJWKSet.from_dict(given["keySet"])
    kid = jwt.get_unverified_header(token)["kid"]

    def decode(token, key=keys[kid].key, audience=app, subject=customer):
        return jwt.decode(
            token, key, algorithms=["EdDSA"], audience=audience, issuer="receiptd", subject=subject,
            options={"require": ["iss", "aud", "sub", "iat", "exp"]})

    def is_refused(*arguments, **options):
        try:
            decode(*arguments, **options)
            return False
        except jwt.InvalidTokenError:
            return True

    head, payload, signature = token.split(".")
    other = payload[:-1] + ("A" if payload[-1] != "A" else "Q")
    claims = decode(token)
    foreign = jwt.PyJWK.from_dict({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"})
    json.dump(
        {
            "claims": claims,
            "kid": kid,
            "thumbprints": [thumbprint(key) for key in given["keySet"]["keys"]],
            "refused": {
                "another app": is_refused(token, audience=app + ".other"),
                "another customer": is_refused(token, subject=customer + "2"),
                "another payload": is_refused(f"{head}.{other}.{signature}"),
                "another key": is_refused(token, key=foreign.key),
                "no signature": is_refused(f"{head}.{payload}."),
                "alg none": is_refused(jwt.encode(claims, None, algorithm="none")),
            },
        },
        sys.stdout)


main()

"""Signed payloads, and access tokens as Supabase issues them (HS256).

As a program it prints a token of the shipped app com.swiftclimb.app: tokens.py USER SECRET
"""
import base64
import hashlib
import hmac
import json
import sys
import time

ISSUER = "https://swiftclimb.supabase.co/auth/v1"


def claims(jws):
    """The claims of a signed payload, unverified."""
    part = jws.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def access_token(user, secret, issuer=ISSUER, audience="authenticated"):
    def part(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    said = {"sub": user, "iss": issuer, "aud": audience, "role": "authenticated", "exp": int(time.time()) + 86400}
    text = part(b'{"alg":"HS256","typ":"JWT"}') + b"." + part(json.dumps(said).encode())
    return (text + b"." + part(hmac.new(secret.encode(), text, hashlib.sha256).digest())).decode()


if __name__ == "__main__":
    print(access_token(*sys.argv[1:]))

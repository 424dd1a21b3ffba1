"""What a team writes in place of receiptd: two routes of FastAPI over Apple's Python library, one transaction each.

It keeps a row per notification, per transaction and per subscription. It has no households, no lost or reordered
notifications, no retries and no record: it is the least that answers, for comparison.
"""
import os

import psycopg_pool
from appstoreserverlibrary.models.Environment import Environment
from appstoreserverlibrary.signed_data_verifier import SignedDataVerifier, VerificationException
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

with open(os.environ["PEER_ROOT"], "rb") as root:
    ROOTS = [root.read()]
VERIFIERS = {
    app: SignedDataVerifier(ROOTS, False, Environment.PRODUCTION, app, int(apple_id))
    for app, apple_id in (part.split("=") for part in os.environ["PEER_APPS"].split(","))}
POOL = psycopg_pool.ConnectionPool(os.environ["DATABASE_URL"], min_size=4, max_size=8)

TABLES = """
CREATE TABLE IF NOT EXISTS peer_notifications (uuid uuid PRIMARY KEY, type text, subtype text, payload text,
  received_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS peer_transactions (id text PRIMARY KEY, original_id text NOT NULL, product_id text,
  expires_at timestamptz, revoked_at timestamptz, signed_at timestamptz);
CREATE INDEX IF NOT EXISTS peer_transactions_original_id ON peer_transactions (original_id);
CREATE TABLE IF NOT EXISTS peer_subscriptions (original_id text PRIMARY KEY, product_id text, status int,
  expires_at timestamptz, revoked_at timestamptz, signed_at timestamptz NOT NULL, user_token text, device_id text);
CREATE INDEX IF NOT EXISTS peer_subscriptions_device ON peer_subscriptions (device_id);
CREATE INDEX IF NOT EXISTS peer_subscriptions_token ON peer_subscriptions (user_token);
"""
TRANSACTION = """
INSERT INTO peer_transactions VALUES (%(id)s, %(original)s, %(product)s, to_timestamp(%(expires)s / 1000.0),
  to_timestamp(%(revoked)s / 1000.0), to_timestamp(%(signed)s / 1000.0))
ON CONFLICT (id) DO UPDATE SET revoked_at = excluded.revoked_at, signed_at = excluded.signed_at
  WHERE peer_transactions.signed_at < excluded.signed_at
"""
SUBSCRIPTION = """
INSERT INTO peer_subscriptions VALUES (%(original)s, %(product)s, %(status)s, to_timestamp(%(expires)s / 1000.0),
  to_timestamp(%(revoked)s / 1000.0), to_timestamp(%(signed)s / 1000.0), %(token)s, %(device)s)
ON CONFLICT (original_id) DO UPDATE SET product_id = excluded.product_id, status = excluded.status,
  expires_at = excluded.expires_at, revoked_at = excluded.revoked_at, signed_at = excluded.signed_at
  WHERE peer_subscriptions.signed_at < excluded.signed_at
"""

app = FastAPI()


class Notification(BaseModel):
    signedPayload: str


class Purchase(BaseModel):
    signedTransaction: str
    deviceID: str


def values(transaction, status, device=None):
    return {"id": transaction.transactionId, "original": transaction.originalTransactionId,
            "product": transaction.productId, "expires": transaction.expiresDate, "revoked": transaction.revocationDate,
            "signed": transaction.signedDate, "token": transaction.appAccountToken, "status": status, "device": device}


@app.get("/healthz")
def healthz():
    return "ok"


@app.post("/api/v1/subscriptions/webhook")
def webhook(body: Notification):
    verifier = VERIFIERS[os.environ["PEER_WEBHOOK_APP"]]
    try:
        notification = verifier.verify_and_decode_notification(body.signedPayload)
        transaction = verifier.verify_and_decode_signed_transaction(notification.data.signedTransactionInfo)
        verifier.verify_and_decode_renewal_info(notification.data.signedRenewalInfo)
    except VerificationException as error:
        raise HTTPException(400, str(error)) from error
    row = values(transaction, notification.data.rawStatus)
    with POOL.connection() as connection:
        new = connection.execute(
            "INSERT INTO peer_notifications (uuid, type, subtype, payload) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
            (notification.notificationUUID, notification.rawNotificationType, notification.rawSubtype, body.signedPayload))
        if new.rowcount:
            connection.execute(TRANSACTION, row)
            connection.execute(SUBSCRIPTION, row)
    return {"success": True}


@app.post("/api/v1/subscriptions/validate")
def validate(body: Purchase):
    try:
        transaction = VERIFIERS[os.environ["PEER_VALIDATE_APP"]].verify_and_decode_signed_transaction(body.signedTransaction)
    except VerificationException as error:
        raise HTTPException(400, str(error)) from error
    row = values(transaction, 1, body.deviceID)
    with POOL.connection() as connection:
        connection.execute(TRANSACTION, row)
        connection.execute(SUBSCRIPTION, row)
    return {"success": True, "productId": transaction.productId, "expiresDate": transaction.expiresDate}

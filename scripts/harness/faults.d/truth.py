"""Compares the rows with the simulated store's record, column by column."""

import datetime
import time

# By Apple's status: `store_status` and `status` of an app without a grace of its own.
WORDS = {
    1: ("active", "active"), 2: ("expired", "expired"), 3: ("billingRetry", "expired"),
    4: ("billingGrace", "grace"), 5: ("revoked", "cancelled")}

COLUMNS = """
    SELECT original_transaction_id, store_status, status, transaction_id,
      coalesce(upcoming_product_id, product_id), product_id, (extract(epoch FROM expiry_date) * 1000)::bigint,
      (extract(epoch FROM grace_expires_at) * 1000)::bigint, auto_renew_enabled, renews_as, ownership,
      upper(user_id::text)
    FROM subscriptions"""
NAMES = [
    "store status", "status", "transaction", "product", "open product", "expiry", "billing grace",
    "auto-renewal", "next product", "ownership", "customer"]


def _milliseconds(text):
    if not text:
        return ""
    instant = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return str(round(instant.timestamp() * 1000))


def _expected(truth):
    store_status, status = WORDS[truth["status"]]
    grace = truth.get("gracePeriodExpiresDate") if truth["status"] != 5 else None
    return [
        store_status, status, truth["transactionID"], truth["productID"],
        # Not compared after the end of access.
        truth["entitledProductID"] if truth["grantsAccess"] else None,
        _milliseconds(truth.get("expiresDate")), _milliseconds(grace), "t" if truth["autoRenews"] else "f",
        truth.get("renewsAs") or "", truth.get("ownership") or "PURCHASED", truth.get("appAccountToken")]


def _disagreements(purchase, row, truth):
    if row is None:
        return [f"{purchase}: there is no row"]
    return [
        f"{purchase}: {name} is {found or 'NULL'} and should be {expected or 'NULL'}"
        for name, found, expected in zip(NAMES, row, _expected(truth))
        if expected is not None and found != expected]


def wrong_rows(database, store, purchases):
    """The differences, a line for each column. A status that changes by time is in its row within a minute."""
    end = time.monotonic() + 75
    left = list(purchases)
    while True:
        rows = {row[0]: row[1:] for row in database.rows(COLUMNS)}
        found = {
            purchase: _disagreements(purchase, rows.get(purchase), store.truth(purchase)) for purchase in left}
        left = [purchase for purchase in left if found[purchase]]
        if not left or time.monotonic() > end:
            return [line for purchase in left for line in found[purchase]]
        time.sleep(5)

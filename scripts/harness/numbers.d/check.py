#!/usr/bin/env python3
"""Compares the rows that receiptd counted with those of expected.py, cell by cell.

    check.py TRUTH.json COUNTED.json

TRUTH has the story of the simulated store, COUNTED the rows of each view as {"kpi_daily": [{…}, …], …}. The test
`NumbersYearTests` writes both. A missing row stands for zeros.
"""

import datetime
import json
import sys
from decimal import Decimal

import expected

KEYS = {
    "kpi_daily": ["day", "bundle_id", "tier", "product_id"],
    "kpi_revenue_daily": ["day", "bundle_id", "tier", "product_id", "currency"],
    "kpi_losses_daily": ["day", "bundle_id", "tier", "product_id", "loss", "reason", "country", "offer"],
    "kpi_cohorts": ["cohort", "bundle_id", "tier", "product_id", "months"],
    "kpi_trial_cohorts": ["cohort", "bundle_id", "tier", "product_id"],
    "kpi_lifetime_value": ["cohort", "bundle_id", "tier", "product_id", "currency"],
    "kpi_price_changes": ["day", "bundle_id", "product_id", "country", "currency"],
}
# Not of the store: the clients' events, and the time of the count.
IGNORED = {"as_of", "paywall_shown", "purchase_initiated", "storekit_errors"}


def key(row, columns):
    return tuple(
        datetime.date.fromisoformat(row[c]) if c in ("day", "cohort") else row[c] for c in columns)


def is_nothing(value):
    return value is None or value == {} or value == 0


def equal(left, right):
    return left == right or (is_nothing(left) and is_nothing(right))


def main(truth, counted):
    with open(truth) as file:
        wanted = expected.Year(json.load(file)).views()
    with open(counted) as file:
        rows = json.load(file, parse_float=Decimal)
    cells = differences = 0
    for view, columns in KEYS.items():
        found = {key(row, columns): row for row in rows[view]}
        assert len(found) == len(rows[view]), f"{view} has two rows with one key"
        for place in sorted(set(found) | set(wanted[view]), key=str):
            got, want = found.get(place, {}), wanted[view].get(place, {})
            for column in sorted((set(got) | set(want)) - set(columns) - IGNORED):
                cells += 1
                if not equal(got.get(column), want.get(column)):
                    differences += 1
                    if differences <= 40:
                        print(f"{view} {' '.join(map(str, place))} {column}: counted {got.get(column)}, "
                              f"expected {want.get(column)}")
        print(f"{view}: {len(found)} rows")
    print(f"{cells} cells, {differences} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

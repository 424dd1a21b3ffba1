"""Computes the business numbers from the truth of the simulated store, by the definitions in docs/numbers.md.

It shares nothing with the SQL that counts: it walks through every day and asks every subscription for its state. Amounts
are decimals, times are milliseconds since 1970 in UTC.
"""

import calendar
import datetime
from collections import defaultdict
from decimal import ROUND_HALF_UP, Decimal

DAY = 86_400_000
DIGITS = {"JPY": 0, "KRW": 0, "KWD": 3, "BHD": 3}
OFFERS = {1: "introductory", 2: "promotional", 3: "code", 4: "win_back"}
MONTH = Decimal("30.4375")


def day_of(instant):
    return datetime.datetime.fromtimestamp(instant // 1000, datetime.timezone.utc).date()


def start_of(day):
    return calendar.timegm(day.timetuple()) * 1000


def month_of(instant):
    return day_of(instant).replace(day=1)


def months_later(day, months):
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return datetime.date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def rounded(amount, currency):
    return amount.quantize(Decimal(1).scaleb(-DIGITS.get(currency, 2)), ROUND_HALF_UP)


def ratio(part, whole):
    return (Decimal(part) / whole).quantize(Decimal("0.0001"), ROUND_HALF_UP) if whole else None


class Purchase:
    """One transaction of the store."""

    OPTIONAL = dict.fromkeys(["expires", "revoked", "percentage", "revocationReason", "offerType", "offer"])

    def __init__(self, record, tiers):
        record = self.OPTIONAL | record
        self.__dict__.update(record)
        self.tier = tiers[self.product]
        self.amount = rounded(Decimal(record["price"]) / 1000, self.currency)
        self.is_paid = record["price"] > 0
        self.refund = None
        if self.revoked is not None:
            share = Decimal(100_000 if record["percentage"] is None else record["percentage"]) / 100_000
            self.refund = rounded(self.amount * share, self.currency)
        offer = OFFERS.get(record["offerType"], "")
        self.offer = f"{offer}:{record['offer']}" if record["offer"] else offer
        self.place = (self.app, self.tier, self.product)

    def monthly(self):
        days = Decimal(self.expires - self.purchased) / DAY
        months = (days / MONTH).quantize(Decimal(1), ROUND_HALF_UP)
        return rounded(self.amount / months if months >= 1 else self.amount * MONTH / max(days, 1), self.currency)


class Subscription:
    """All transactions with one original transaction id."""

    def __init__(self, purchases):
        self.purchases = sorted(purchases, key=lambda p: (p.purchased, p.id))
        self.paid = [p for p in self.purchases if p.is_paid]
        self.renews = self.purchases[0].kind == "Auto-Renewable Subscription"

    def at(self, instant):
        """The active purchase at the last moment before an instant: the latest one, unless it is over or refunded."""
        before = [p for p in self.purchases if p.purchased < instant]
        if not before:
            return None
        latest = before[-1]
        if latest.expires is not None and latest.expires < instant:
            return None
        if latest.revoked is not None and latest.revoked < instant:
            return None
        return latest

    def paying_at(self, instant):
        active = self.at(instant) if self.renews else None
        return active if active and active.is_paid else None


class Trial:
    """A trial of the app's own, or a free first period of the App Store."""

    def __init__(self, place, started, ends, paid_at):
        self.place, self.started, self.ends, self.paid_at = place, started, ends, paid_at

    def is_converted(self, now):
        return self.paid_at is not None and self.started <= self.paid_at < now


class Year:
    """The numbers of every day until `now`."""

    def __init__(self, truth):
        self.now = truth["now"]
        purchases = defaultdict(list)
        self.accounts = defaultdict(list)
        for record in truth["purchases"]:
            purchase = Purchase(record, truth["tiers"])
            purchases[purchase.original].append(purchase)
            self.accounts[purchase.app, record["account"]].append(purchase)
        self.subscriptions = {id: Subscription(list) for id, list in purchases.items()}
        self.renewal_changes = truth["renewalChanges"]
        self.ends = truth["ends"]
        self.trials = [self.own_trial(t) for t in truth["trials"]] + list(self.store_trials())
        first = min([t.started for t in self.trials] + [p.purchased for s in self.all() for p in s.purchases])
        last = day_of(self.now)
        self.days = [day_of(first) + datetime.timedelta(n) for n in range((last - day_of(first)).days + 1)]

    def all(self):
        return self.subscriptions.values()

    def own_trial(self, trial):
        paid = [p.purchased for p in self.accounts[trial["app"], trial["account"]] if p.is_paid]
        return Trial((trial["app"], None, None), trial["started"], trial["ends"], min(paid, default=None))

    def store_trials(self):
        for subscription in self.all():
            first = subscription.purchases[0]
            if subscription.renews and not first.is_paid:
                paid_at = subscription.paid[0].purchased if subscription.paid else None
                yield Trial(first.place, first.purchased, first.expires, paid_at)

    def views(self):
        """All rows, as {view: {key: {column: value}}}."""
        self.daily = defaultdict(lambda: defaultdict(int))
        self.revenue = defaultdict(lambda: defaultdict(Decimal))
        self.losses = defaultdict(lambda: defaultdict(int))
        self.prices = {}
        for day in self.days:
            start = start_of(day)
            self.count(day, start, min(start + DAY, self.now))
        self.divide()
        return {
            "kpi_daily": self.daily, "kpi_revenue_daily": self.revenue, "kpi_losses_daily": self.losses,
            "kpi_cohorts": self.cohorts(), "kpi_trial_cohorts": self.trial_cohorts(),
            "kpi_lifetime_value": self.lifetime_value(), "kpi_price_changes": self.price_changes(),
        }

    def count(self, day, start, end):
        def row(place):
            return self.daily[(day, *place)]

        for subscription in self.all():
            self.count_state(day, subscription, start, end)
            for purchase in subscription.purchases:
                if start <= purchase.purchased < end:
                    self.count_purchase(day, subscription, purchase)
                if purchase.revoked is not None and start <= purchase.revoked < end:
                    self.count_refund(day, purchase)
            self.count_end(day, subscription, start, end)
        for trial in self.trials:
            if start <= trial.started < end:
                row(trial.place)["trials_started"] += 1
            if trial.place[1] is None and trial.started < end <= trial.ends:
                if trial.paid_at is None or trial.paid_at >= end:
                    row(trial.place)["in_trial"] += 1
        self.count_cancelled(day, start, end)
        self.count_converted(day, start, end)

    def count_state(self, day, subscription, start, end):
        active = subscription.at(end)
        if active:
            row = self.daily[(day, *active.place)]
            row["active"] += 1
            if active.expires is None:
                row["lifetime"] += 1
            else:
                row["paying" if active.is_paid else "in_trial"] += 1
        before, after = subscription.paying_at(start), subscription.paying_at(end)
        if before:
            row = self.daily[(day, *before.place)]
            row["paying_start"] += 1
            if not after:
                row["lost"] += 1
        self.count_mrr(day, before, after)
        if subscription.renews and subscription.paid:
            first = subscription.paid[0]
            if first.purchased < end:
                for months in (1, 3, 6):
                    if months_later(day_of(first.purchased), months) == day:
                        row = self.daily[(day, *first.place)]
                        row[f"month_{months}_cohort"] += 1
                        row[f"month_{months}_lost"] += 0 if active else 1

    def count_mrr(self, day, before, after):
        def row(purchase):
            return self.revenue[(day, *purchase.place, purchase.currency)]

        if before:
            row(before)["mrr_start"] += before.monthly()
        if after:
            row(after)["mrr"] += after.monthly()
            row(after)["paying"] += 1
        if before and after and before.currency == after.currency:
            change = after.monthly() - before.monthly()
            row(after)["mrr_expansion"] += max(change, 0)
            row(after)["mrr_contraction"] += max(-change, 0)
            if before.place != after.place:
                row(after)["mrr_moved"] += before.monthly()
                row(before)["mrr_moved"] -= before.monthly()
            return
        if before:
            row(before)["mrr_churn"] += before.monthly()
        if after:
            row(after)["mrr_new"] += after.monthly()

    def count_purchase(self, day, subscription, purchase):
        is_later = subscription.renews and purchase.id != purchase.original
        self.daily[(day, *purchase.place)]["renewed" if is_later else "new"] += 1
        if not purchase.is_paid:
            return
        row = self.revenue[(day, *purchase.place, purchase.currency)]
        row["charges"] += 1
        row["revenue"] += purchase.amount
        if purchase.reason == "PURCHASE" and not purchase.offer:
            key = (purchase.app, purchase.product, purchase.country, purchase.currency)
            sales = self.prices.setdefault(key, {})
            former = sales.get(day)
            if former is None or former[0] < (purchase.purchased, purchase.id):
                sales[day] = ((purchase.purchased, purchase.id), purchase.amount)

    def count_refund(self, day, purchase):
        self.daily[(day, *purchase.place)]["refunded"] += 1
        reason = {0: "other", 1: "issue"}.get(purchase.revocationReason, "unknown")
        self.lose(day, "refunded", purchase, reason)
        if purchase.is_paid:
            self.revenue[(day, *purchase.place, purchase.currency)]["refunds"] += purchase.refund

    def count_end(self, day, subscription, start, end):
        if not subscription.renews:
            return
        for purchase in subscription.purchases:
            if not start <= purchase.expires < end:
                continue
            if purchase.revoked is not None and purchase.revoked < purchase.expires:
                continue
            if any(purchase.purchased < p.purchased < end for p in subscription.purchases):
                continue
            self.daily[(day, *purchase.place)]["expired"] += 1
            reasons = [e for e in self.ends if e["original"] == purchase.original
                       and e["at"] >= purchase.expires - DAY]
            changes = [c for c in self.renewal_changes if c["original"] == purchase.original
                       and c["at"] < purchase.expires]
            if reasons:
                reason = min(reasons, key=lambda e: e["at"])["reason"]
            else:
                is_off = changes and not max(changes, key=lambda c: c["at"])["on"]
                reason = "customer" if is_off else "unknown"
            self.lose(day, "expired", purchase, reason)

    def count_cancelled(self, day, start, end):
        latest = {}
        for change in self.renewal_changes:
            if start <= change["at"] < end:
                latest[change["original"]] = change
        for change in latest.values():
            if change["on"]:
                continue
            bought = [p for p in self.subscriptions[change["original"]].purchases if p.purchased <= change["at"]]
            current = bought[-1]
            self.daily[(day, *current.place)]["cancelled"] += 1
            is_refund = current.revoked is not None and current.revoked <= change["at"]
            self.lose(day, "cancelled", current, "refund" if is_refund else "customer")

    def count_converted(self, day, start, end):
        for trial in self.trials:
            if trial.paid_at is None or trial.paid_at < trial.started or not start <= trial.paid_at < end:
                continue
            paid = [s.paid[0] for s in self.all() if s.paid and s.paid[0].purchased == trial.paid_at]
            self.daily[(day, *paid[0].place)]["converted"] += 1

    def lose(self, day, loss, purchase, reason):
        self.losses[(day, *purchase.place, loss, reason, purchase.country, purchase.offer)]["subscriptions"] += 1

    def divide(self):
        for key, row in self.daily.items():
            row["churn"] = ratio(row["lost"], row["paying_start"])
            for months in (1, 3, 6):
                row[f"churn_month_{months}"] = ratio(row[f"month_{months}_lost"], row[f"month_{months}_cohort"])
            for column in ("mrr", "revenue", "refunds", "revenue_per_user"):
                row[column] = {}
        for (*place, currency), row in self.revenue.items():
            row["net"] = row["revenue"] - row["refunds"]
            row["revenue_per_user"] = rounded(row["mrr"] / row["paying"], currency) if row["paying"] else None
            daily = self.daily[tuple(place)]
            for column in ("mrr", "revenue", "refunds", "revenue_per_user"):
                if row[column]:
                    daily[column] = {**daily.get(column, {}), currency: row[column]}

    def cohorts(self):
        rows = {}
        for subscription in self.all():
            if not subscription.renews or not subscription.paid:
                continue
            first = subscription.paid[0]
            for months in range(1, 13):
                key = (month_of(first.purchased), *first.place, months)
                row = rows.setdefault(key, dict(customers=0, pending=0, retained=0, lost=0))
                row["customers"] += 1
                day = months_later(day_of(first.purchased), months)
                if day > day_of(self.now):
                    row["pending"] += 1
                else:
                    active = subscription.at(min(start_of(day) + DAY, self.now))
                    row["retained" if active else "lost"] += 1
        for row in rows.values():
            row["retention"] = ratio(row["retained"], row["retained"] + row["lost"])
        return rows

    def trial_cohorts(self):
        rows = {}
        for trial in self.trials:
            key = (month_of(trial.started), *trial.place)
            row = rows.setdefault(key, dict(started=0, converted=0, lapsed=0, pending=0))
            row["started"] += 1
            if trial.is_converted(self.now):
                row["converted"] += 1
            else:
                row["lapsed" if trial.ends < self.now else "pending"] += 1
        for row in rows.values():
            row["conversion"] = ratio(row["converted"], row["converted"] + row["lapsed"])
        return rows

    def lifetime_value(self):
        rows = {}
        for subscription in self.all():
            if not subscription.paid:
                continue
            first = subscription.paid[0]
            for purchase in subscription.paid:
                key = (month_of(first.purchased), *first.place, purchase.currency)
                row = rows.setdefault(key, dict(customers=0, revenue=Decimal(0), refunds=Decimal(0)))
                row["customers"] += purchase is first
                row["revenue"] += purchase.amount
                row["refunds"] += purchase.refund or 0
        for key, row in rows.items():
            row["net"] = row["revenue"] - row["refunds"]
            row["ltv"] = rounded(row["net"] / row["customers"], key[-1]) if row["customers"] else None
        return rows

    def price_changes(self):
        rows = {}
        for (app, product, country, currency), sales in self.prices.items():
            former = None
            for day in sorted(sales):
                price = sales[day][1]
                if former is not None and former != price:
                    rows[(day, app, product, country, currency)] = dict(former_price=former, price=price)
                former = price
        return rows

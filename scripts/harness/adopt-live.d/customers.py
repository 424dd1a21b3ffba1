"""Legacy customers in the apps' live tables and in the simulated App Store, and the truth about each claim."""
import datetime
import random
import uuid

CLIMB, SCREEN, TAFSIR = "com.swiftclimb.app", "com.screentimerewards", "com.thaqalayn.app"
MONTHLY, ANNUAL = "com.swiftclimb.premium.monthly", "com.swiftclimb.premium.annual"
FAMILY, INDIVIDUAL = "com.screentimerewards.family.monthly", "com.screentimerewards.individual.monthly"
# The kinds of customers, and how many of 1,000 are of each. Two customers share a purchase in `twice` and `named`.
CLIMB_KINDS = {
    "paying": 320, "old name": 40, "too much": 20, "renewal id": 20, "expired": 90, "refunded": 40, "unknown": 20, "sandbox": 5,
    "twice": 10, "named": 10, "no id": 35}
SCREEN_KINDS = {"paying": 130, "grace": 10, "expired": 40, "refunded": 10, "unknown": 10}
TAFSIR_KINDS = {"no id": 150, "free": 40}


def text(value):
    """A value as a literal of SQL."""
    return "NULL" if value is None else "'" + str(value) + "'"


class Customers:
    """Makes the customers. `verdicts` has each claim's true outcome, `profiles` and `subscriptions` the rows after adopting."""

    def __init__(self, store, now, count, seed=25):
        self.store, self.now, self.random = store, now, random.Random(seed)
        self.verdicts, self.profiles, self.subscriptions, self.preferences = {}, {}, {}, {}
        self.users, self.statements = [], []
        self.invented = 2990000000000000
        for kinds, add in [(CLIMB_KINDS, self.climber), (SCREEN_KINDS, self.device), (TAFSIR_KINDS, self.reader)]:
            for kind, share in kinds.items():
                for _ in range(max(1, share * count // 1000)):
                    add(kind)

    @property
    def claims(self):
        return len(self.verdicts)

    # MARK: The App Store

    def ago(self, days):
        return self.now - datetime.timedelta(days=days)

    def buy(self, bundle, product, days_ago, token=None, environment="Production"):
        body = {"bundleID": bundle, "productID": product, "purchaseDate": self.ago(days_ago).isoformat().replace("+00:00", "Z")}
        if token:
            body["appAccountToken"] = token
        return self.store.control("POST", f"purchases?deliver=false&environment={environment}", body)["originalTransactionID"]

    def command(self, purchase, name):
        return self.store.control("POST", f"subscriptions/{purchase}/{name}?deliver=false", {})

    def truth(self, purchase):
        return self.store.truth(purchase)

    # MARK: SwiftClimb

    def user(self):
        user = str(uuid.UUID(int=self.random.getrandbits(128), version=4))
        self.users.append(user)
        return user

    def climber(self, kind):
        product = self.random.choice([MONTHLY, ANNUAL])
        # Neither at the first nor at the last day of the period.
        days = self.random.uniform(1, 26) if product == MONTHLY else self.random.uniform(1, 350)
        if kind == "expired":
            days = self.random.uniform(32, 300) if product == MONTHLY else self.random.uniform(367, 600)
        if kind == "no id":
            end = self.ago(-self.random.randrange(2, 300))
            return self.claim(self.user(), None, product, end, "awarded", (end, "grant:premium", None))
        if kind == "unknown":
            self.invented += 1
            return self.claim(self.user(), str(self.invented), product, self.ago(-3000), "unknown", (None, None, None))
        users = [self.user() for _ in range(2 if kind in ("twice", "named") else 1)]
        purchase = self.buy(
            CLIMB, product, days, token=users[0] if kind == "named" else None,
            environment="Sandbox" if kind == "sandbox" else "Production")
        named = self.command(purchase, "renew")["transactionID"] if kind == "renewal id" else purchase
        if kind == "refunded":
            self.command(purchase, "refund")
        truth = self.truth(purchase)
        expires = datetime.datetime.fromisoformat(truth["expiresDate"])
        true = (expires, truth["productID"], purchase)
        written = self.ago(-3000) if kind == "too much" else expires
        name = product.removeprefix("com.") if kind == "old name" else product
        if kind == "twice":
            for user in users:
                self.claim(user, named, name, written, "claimed_twice", (written, name, named))
        elif kind == "sandbox":
            self.claim(users[0], named, name, written, "not_counted", (None, None, None))
        else:
            verdict = {1: "bound", 2: "expired", 3: "expired", 4: "bound", 5: "refunded"}[truth["status"]]
            self.claim(users[0], named, name, written, verdict, (None, None, None) if verdict == "refunded" else true)
            if kind == "named":
                self.claim(users[1], named, name, written, "another_customer", (None, None, None))

    def claim(self, user, transaction, product, expires, verdict, row):
        self.verdicts[CLIMB, user, transaction or ""] = verdict
        self.profiles[user] = row
        self.statements.append(
            f"INSERT INTO profiles (id, premium_expires_at, premium_product_id, premium_original_transaction_id) VALUES "
            f"({text(user)}, {text(expires.isoformat())}, {text(product)}, {text(transaction)});")

    # MARK: ScreenTime Rewards

    def device(self, kind):
        name = "DEVICE-" + "%012X" % self.random.getrandbits(48)
        product = self.random.choice([FAMILY, INDIVIDUAL])
        days = {"expired": self.random.uniform(45, 300), "grace": 32.5}.get(kind, self.random.uniform(1, 26))
        bought, expires = self.ago(days), self.ago(days - 30)
        if kind == "unknown":
            self.invented += 1
            purchase, verdict = str(self.invented), "unknown"
            row = (name, product, "active", expires)
        else:
            purchase = self.buy(SCREEN, product, days)
            if kind == "refunded":
                self.command(purchase, "refund")
            truth = self.truth(purchase)
            status = {"paying": "active", "grace": "grace", "expired": "expired", "refunded": "cancelled"}[kind]
            # The app's own grace of 7 days follows the paid time.
            verdict = "bound" if truth["grantsAccess"] or kind == "grace" else "refunded" if truth["status"] == 5 else "expired"
            row = (name, truth["productID"], status, datetime.datetime.fromisoformat(truth["expiresDate"]))
        self.verdicts[SCREEN, name, purchase] = verdict
        self.subscriptions[purchase] = row
        self.statements.append(
            "INSERT INTO subscriptions (device_id, original_transaction_id, transaction_id, product_id, tier, status,"
            f" purchase_date, expiry_date) VALUES ('{name}', '{purchase}', '{purchase}', '{product}',"
            f" '{product.split('.')[2]}', 'active', '{bought.replace(tzinfo=None)}', '{expires.replace(tzinfo=None)}');")

    # MARK: Thaqalayn

    def reader(self, kind):
        user, premium = self.user(), kind != "free"
        if premium:
            self.verdicts[TAFSIR, user, ""] = "awarded"
        self.preferences[user] = premium
        self.statements.append(
            f"INSERT INTO user_preferences (user_id, is_premium, bookmark_limit) VALUES "
            f"('{user}', {premium}, {999 if premium else 2});")

    def script(self):
        """The rows as SQL."""
        users = "".join(f"INSERT INTO auth.users (id) VALUES ('{user}');\n" for user in self.users)
        return "BEGIN;\n" + users + "\n".join(self.statements) + "\nCOMMIT;\n"

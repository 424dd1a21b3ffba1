"""A simulated App Store on the machine, and its customers."""

import json

SIMULATOR = "/usr/local/bin/appstore-simulator"
FOLDER = "/var/lib/appstore-simulator"
BUNDLE = "com.screentimerewards"
PRODUCT = "com.screentimerewards.family.monthly"
CADDY_ROOT = "/var/lib/caddy/.local/share/caddy/pki/authorities/local/root.crt"
# The rows by original transaction.
ROWS = "SELECT coalesce(json_object_agg(original_transaction_id, to_jsonb(s)), '{}') FROM subscriptions s"


class Store:
    def __init__(self, machine):
        self.machine = machine
        self.purchases = []

    def open(self, machine):
        """Starts it, and adds its settings to those of the service."""
        machine.output(f"""
            install -m 755 appstore-simulator {SIMULATOR}
            systemd-run --quiet --unit=appstore-simulator {SIMULATOR} serve --folder {FOLDER} \\
              --config /usr/share/receiptd/config/apps.json \\
              --webhook http://127.0.0.1:3000/api/v1/subscriptions/webhook
            curl -fsS --retry 20 --retry-delay 1 --retry-all-errors -o /dev/null http://127.0.0.1:4000/control/notifications
            chgrp -R receiptd {FOLDER}
            chmod -R g+rX {FOLDER}""")
        self.settings(machine)
        return "a simulated App Store, its root and its key"

    def settings(self, machine):
        """Adds its settings to the service's."""
        machine.output(f"""
            cat {FOLDER}/receiptd.env >>/etc/receiptd/receiptd.env
            echo APP_STORE_URL=http://127.0.0.1:4000 >>/etc/receiptd/receiptd.env
            echo APP_STORE_SANDBOX_URL=http://127.0.0.1:4000/sandbox >>/etc/receiptd/receiptd.env""")

    def _control(self, *words):
        return json.loads(self.machine.output(f"{SIMULATOR} control {' '.join(words)}"))

    def _buy(self):
        bought = self._control("post", "purchases", f"bundleID={BUNDLE}", f"productID={PRODUCT}")
        self.purchases.append(bought["originalTransactionID"])
        return bought

    def validate(self, transaction, address="127.0.0.1", *more):
        """The response of validate through Caddy."""
        body = json.dumps({"signedTransaction": transaction, "deviceID": "phone"})
        with open(f"{self.machine.folder}/root/body.json", "w", encoding="utf-8") as file:
            file.write(body)
        return self.machine.output(
            "curl -sS https://receipts.localhost/api/v1/subscriptions/validate -H 'Content-Type: application/json' "
            f"--data @body.json --cacert {CADDY_ROOT} --resolve receipts.localhost:443:{address} {' '.join(more)}")

    def buy(self, machine):
        answer = json.loads(self.validate(self._buy()["signedTransaction"]))
        assert answer["success"] and answer["subscription"]["tier"] == "family", answer
        assert answer["entitlements"]["isAccessGranted"], answer
        return f"{answer['subscription']['tier']}, {answer['subscription']['status']}"

    def live(self, machine):
        """Six more purchases, some of which are renewed or refunded."""
        new = [self._buy()["originalTransactionID"] for _ in range(6)]
        for purchase in new[:2]:
            self._control("post", f"subscriptions/{purchase}/renew")
        for purchase in new[2:4]:
            self._control("post", f"subscriptions/{purchase}/refund")
        return self.compare(machine)

    def compare(self, machine):
        rows = json.loads(machine.output(f"receiptd-admin psql -XAtc \"{ROWS}\""))
        assert sorted(rows) == sorted(self.purchases), f"{len(rows)} rows for {len(self.purchases)} purchases"
        for purchase in self.purchases:
            truth, row = self._control("get", f"truth/{purchase}"), rows[purchase]
            granted = row["status"] in ("active", "grace")
            told = (row["product_id"], row["expiry_date"][:19], row["auto_renew_enabled"], granted)
            true = (truth["productID"], truth["expiresDate"][:19], truth["autoRenews"], truth["grantsAccess"])
            assert told == true, f"{purchase}: {told} is not {true}"
        return f"{len(rows)} purchases, every row as the store says"

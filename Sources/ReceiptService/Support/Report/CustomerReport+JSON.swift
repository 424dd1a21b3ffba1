import Foundation
import HTTP
import JSON

extension CustomerReport: JSONWritable {
  /// Writes one object.
  public func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("asked", asked)
      json.member("customers", customers)
      json.member("serverTime", serverTime)
      json.member("unclaimed", unclaimed)
    }
  }
}

extension ReportedCustomer: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("accessUntil", accessUntil)
      json.member("app", app)
      json.member("because", because)
      json.member("bundleID", bundleID)
      json.member("children", children)
      json.member("customer", customer)
      json.member("doublePurchases", doublePurchases)
      json.member("entitlements", entitlements)
      json.member("events", events)
      json.member("eventsHidden", eventsHidden)
      json.member("firstSeenAt", seen?.firstAt)
      json.member("freeAccessSince", freeAccessSince)
      json.member("grants", grants)
      json.member("kind", kind)
      json.member("lastSeenAt", seen?.lastAt)
      json.member("purchases", purchases)
      json.member("refusedAttempts", refusedAttempts)
      json.member("trial", trial)
    }
  }
}

extension ReportedPurchase: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("accessEndsAt", plan.accessEndsAt)
      json.member("appleAccount", appleAccount)
      json.member("bundleID", bundleID)
      json.member("chargeRetriesUntil", chargeRetriesUntil)
      json.member("confirmedAt", plan.confirmedAt)
      json.member("devices", devices)
      json.member("endReason", plan.endReason)
      json.member("environment", environment)
      json.member("erasedAt", erasedAt)
      json.member("expiryDate", expiryDate)
      json.member("firstPurchaseDate", plan.firstPurchaseDate)
      json.member("gracePeriodExpiryDate", gracePeriodExpiryDate)
      json.member("note", note)
      json.member("offer", plan.offer)
      json.member("oldProof", oldProof)
      json.member("opensSomething", opensSomething)
      json.member("originalTransactionID", originalTransactionID)
      json.member("ownedBecause", ownedBecause)
      json.member("ownership", ownership)
      json.member("pendingProductID", plan.pendingProductID)
      json.member("price", plan.price)
      json.member("priceIncrease", plan.priceIncrease)
      json.member("productID", productID)
      json.member("purchaseDate", purchaseDate)
      json.member("refundRequests", refundRequests)
      json.member("renewalOffer", plan.renewalOffer)
      json.member("renewalPrice", plan.renewalPrice)
      json.member("renewsAs", renewsAs)
      json.member("revokedAt", revokedAt)
      json.member("status", status)
      json.member("storeStatus", storeStatus)
      json.member("storefront", plan.storefront)
      json.member("takenFrom", takenFrom)
      json.member("tier", tier)
      json.member("totalPaid", plan.totalPaid)
      json.member("transactionID", transactionID)
      json.member("upcomingProductID", upcomingProductID)
      json.member("willRenew", willRenew)
    }
  }
}

extension ReportedHolder: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("deviceID", deviceID)
      json.member("since", since)
    }
  }
}

extension ReportedChild: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("childDeviceID", childDeviceID)
      json.member("name", name)
      json.member("pairedAt", pairedAt)
      json.member("pausedBecause", pausedBecause)
      json.member("status", status)
    }
  }
}

extension ReportedGrant: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("endsAt", endsAt)
      json.member("grant", grant)
      json.member("grantedBy", grantedBy)
      json.member("isOpen", isOpen)
      json.member("note", note)
      json.member("reason", reason)
      json.member("revokedAt", revokedAt)
      json.member("revokedBy", revokedBy)
      json.member("startsAt", startsAt)
      json.member("tier", tier)
    }
  }
}

extension ReportedTrial: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("endsAt", endsAt)
      json.member("isRunning", isRunning)
      json.member("note", note)
      json.member("startedAt", startedAt)
    }
  }
}

extension TimelineEvent: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("at", at)
      json.member("event", event)
      json.member("reference", reference)
      json.member("source", source)
      json.member("what", what)
    }
  }
}

import Actions
import Deliveries
import Foundation
import Support
import Text

/// A purchase, for the partial `purchase`.
struct ShownPurchase: Sendable {
  let id: String
  let product: String
  let ownApp: String?
  let tier: String
  let status: String
  let storeStatus: String
  /// The class of the tag: `good`, `warn` or `bad`.
  let level: String
  let bought: String
  let end: String
  let cost: String?
  let change: String?
  let environment: String?
  let ownership: String?
  let account: String?
  let owned: String?
  let takenFrom: String?
  let takenFromPath: String?
  let paid: String
  let devices: [Device]
  let hasDevices: Bool
  let refunds: [Refund]
  /// The answer about a refund that support has set, and the person.
  let preference: String?
  let signed: Moment?
  let note: String?
  let transferPath: String?
  let extendPath: String?
  let refundPath: String?
  /// Whether the role lacks these two.
  let needsLead: Bool

  struct Device: Sendable {
    let id: String
    let path: String
  }

  struct Refund: Sendable {
    let transaction: String
    let asked: Moment
    let state: String
    let text: String
  }

  init(
    _ purchase: ReportedPurchase, for request: ConsoleRequest, of customer: String? = nil,
    showsApp: Bool = false
  ) {
    let now = request.instant
    id = purchase.originalTransactionID
    product = purchase.productID
    ownApp = showsApp ? purchase.bundleID : nil
    tier = purchase.tier ?? "no tier"
    let isCharging = purchase.chargeRetriesUntil != nil
    status = purchase.status == "active" && isCharging ? "active, charge failed" : purchase.status
    storeStatus = purchase.storeStatus
    level =
      switch purchase.status {
      case "active": isCharging ? "warn" : "good"
      case "grace": "warn"
      default: "bad"
      }
    bought = purchase.bought.trimmingPrefix("bought ").readingTimes
    end = purchase.end.withCapital.readingTimes
    cost = purchase.cost.map { $0.trimmingPrefix("price ").readingTimes }
    change =
      purchase.storeStatus == "expired"
      ? nil : purchase.plan.pendingProductID.map { "Changes to \($0) at the next renewal" }
    environment = purchase.environment == "Production" ? nil : purchase.environment
    ownership = purchase.ownership == "PURCHASED" ? nil : "Shared by a family member"
    account = purchase.appleAccount
    owned = purchase.ownedBecause
    takenFrom = purchase.takenFrom
    takenFromPath = purchase.takenFrom.map(Console.customerPath)
    let sums = purchase.plan.totalPaid.map(\.description).joined(separator: ", ")
    paid = purchase.environment == "Production" && !sums.isEmpty ? sums : "nothing"
    devices = purchase.devices.map { Device(id: $0.deviceID, path: Console.customerPath($0.deviceID)) }
    hasDevices = !devices.isEmpty
    refunds = purchase.refundRequests.map { refund in
      Refund(
        transaction: refund.transactionID, asked: Moment(refund.askedAt, from: now), state: refund.state,
        text: [
          refund.reason.map { "Reason: \($0)" }, refund.answer.map { "Answer: \($0)" },
          refund.because?.withCapital,
        ]
        .compactMap(\.self).joined(separator: ". "))
    }
    preference = purchase.refundPreference.map { "\($0.words.withCapital), \($0.by) said" }
    signed = purchase.plan.confirmedAt.map { Moment($0, from: now) }
    note = purchase.note
    let mayTransfer = request.may(.transfer) && purchase.ownership != "FAMILY_SHARED"
    transferPath =
      mayTransfer
      ? link("/console/act/transfer", ["originalTransactionID": id, "back": customer ?? id]) : nil
    extendPath =
      request.may(.extendRenewal) && purchase.storeStatus == "active" && purchase.expiryDate != nil
      ? link("/console/act/extend-renewal", ["originalTransactionID": id, "back": customer ?? id]) : nil
    refundPath =
      request.may(.refundAnswer)
      ? link(
        "/console/act/refund-answer",
        [
          "id": id, "prefer": purchase.refundPreference?.choice.rawValue, "back": customer ?? id,
        ]) : nil
    needsLead = !request.may(.transfer) && !request.may(.refundAnswer)
  }
}

extension StringProtocol {
  /// The text with its times as `2026-11-27 04:43 UTC`.
  var readingTimes: String {
    String(self).replacing(/([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{2}:[0-9]{2}):[0-9]{2}Z/) {
      "\($0.1) \($0.2) UTC"
    }
  }
}

extension String {
  /// The text with a capital letter at its start.
  var withCapital: String { prefix(1).uppercased() + dropFirst() }
}

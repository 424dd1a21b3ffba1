import Customers
import Foundation
import Support
import Text

/// A sentence for a customer in one of the cases of docs/support.md, with one safe next step for support.
struct Reply: Sendable {
  /// The case.
  let title: String
  /// What to send to the customer.
  let text: String
  /// What support does next.
  let step: String
  /// The id of the text on the page.
  fileprivate(set) var anchor = ""

  private init(_ title: String, _ text: String, step: String) {
    self.title = title
    self.text = text
    self.step = step
  }

  /// The replies that fit a customer, the most probable first.
  static func replies(to customer: ReportedCustomer, at now: Date) -> [Reply] {
    var replies: [Reply] = []
    let app = customer.app
    // The later end holds.
    let open = customer.grants.filter(\.isOpen)
    if let grant = open.max(by: { $0.endsAt ?? .distantFuture < $1.endsAt ?? .distantFuture }) {
      let until = grant.endsAt.map { " until \(Day(of: $0))" } ?? ""
      replies.append(
        Reply(
          "We opened it",
          "We have opened \(grant.tier) of \(app) for you\(until). Nothing is charged for it, and it ends by itself.",
          step: "Nothing to do. 'Revoke' at the grant takes it back."))
    }
    for purchase in customer.purchases {
      let plan = purchase.tier ?? purchase.productID
      let price = purchase.plan.renewalPrice?.description ?? purchase.plan.price?.description
      switch purchase.storeStatus {
      case "billingGrace", "billingRetry",
        "active" where purchase.chargeRetriesUntil != nil:
        let until = purchase.chargeRetriesUntil.map { " until \(Day(of: $0))" } ?? ""
        let end = purchase.plan.accessEndsAt ?? purchase.expiryDate
        let access =
          end.map {
            $0 > now ? "You keep your access until \(Day(of: $0)). " : "Your access ended on \(Day(of: $0)). "
          }
          ?? ""
        replies.append(
          Reply(
            "The card was declined",
            "Apple could not charge your payment method for \(app). \(access)Please check it in the App Store under your name, "
              + "Payment & Shipping. Apple tries again\(until); your subscription then goes on by itself.",
            step:
              "Nothing to do: the status changes when Apple charges. 'Ask Apple now' shows the latest state.")
        )
      case "revoked":
        let since = purchase.revokedAt.map { " on \(Day(of: $0))" } ?? ""
        replies.append(
          Reply(
            "It was refunded",
            "Apple refunded your purchase of \(app)\(since), and access by it ended then. You can buy it again in the app at any time.",
            step: "Check the timeline. A refund that Apple reversed comes back by itself."))
      case "expired":
        let day = purchase.expiryDate.map { "\(Day(of: $0))" }
        let access = purchase.plan.accessEndsAt.flatMap { $0 > now ? $0 : nil }
        let open = access.map { "The app stays open to you until \(Day(of: $0)). " } ?? ""
        replies.append(
          Reply(
            "It ended",
            "Your subscription of \(app) ended\(day.map { " on \($0)" } ?? "")\(purchase.plan.endReason.map { " (\($0))" } ?? ""). "
              + "\(open)If Apple charged you after \(day ?? "that day"), please send us the order id from Apple's e-mail; it begins with M.",
            step: "If the customer names a newer charge: 'Ask Apple now'."))
      case "active" where purchase.willRenew:
        if let end = purchase.expiryDate {
          let next = purchase.next.map { " as \($0.tier ?? $0.productID)" } ?? ""
          let children = customer.childrenChange.map { " \($0)" } ?? ""
          replies.append(
            Reply(
              "When does it renew",
              "Your subscription of \(app) (\(plan)) renews\(next) on \(Day(of: end))\(price.map { " for \($0)" } ?? "").\(children) You can change or cancel it "
                + "in the App Store under your name, Subscriptions, until the day before.",
              step: "Nothing to do: only the customer can cancel, at Apple."))
        }
      case "active":
        if let end = purchase.expiryDate {
          replies.append(
            Reply(
              "It was cancelled and still runs",
              "Your subscription of \(app) is cancelled and stays open until \(Day(of: end)). Apple does not charge you again. You can "
                + "turn it on again in the App Store under your name, Subscriptions.",
              step: "Nothing to do."))
        }
      default: break
      }
      for refund in purchase.refundRequests where refund.outcome == nil {
        replies.append(
          Reply(
            "A refund request",
            "Apple decides about your refund and tells you within 48 hours. We cannot refund App Store purchases ourselves.",
            step:
              "Apple takes our answer until \(Moment(refund.deadline, from: now).text). 'Refund answer' sets what it is told (lead)."
          ))
      }
    }
    if let double = customer.doublePurchases.first {
      let renewal =
        double.spareRenews ? " Please also turn off its renewal in the settings of that account." : ""
      replies.append(
        Reply(
          "Charged twice",
          "You have two running purchases of \(app). Apple refunds the one that you do not need: sign in to "
            + "https://reportaproblem.apple.com with the Apple Account that bought \(double.spare.productID).\(renewal)",
          step:
            "Keep \(double.keep.originalTransactionID). A lead may tell Apple that you agree: 'Refund answer', grant."
        ))
    }
    // The purchases' replies are enough where the customer has bought something.
    if let trial = customer.trial, let end = trial.endsAt, customer.purchases.isEmpty {
      replies.append(
        trial.isRunning
          ? Reply(
            "The trial runs",
            "Your free trial of \(app) runs until \(Day(of: end)). Nothing is charged at its end.",
            step: "Nothing to do.")
          : Reply(
            "The trial ended",
            "Your free trial of \(app) ended on \(Day(of: end)). You can go on with a subscription in the app.",
            step: "If you want to help: 'Extend the trial', once for each trial."))
    }
    if customer.attemptOnAnother != nil {
      replies.append(
        Reply(
          "Another account has the purchase",
          "Your purchase of \(app) is linked to another account of the app. Do both accounts belong to you? Then tell us which one "
            + "should have it, and we move it there.",
          step: "If both are the customer's, a lead moves it: 'Transfer' at the refused request."))
    } else if customer.purchases.isEmpty, customer.grants.isEmpty {
      replies.append(
        Reply(
          "Charged, but no access",
          "We cannot see a purchase of \(app) for this account yet. Please open the app, sign in with the account that you use, and tap "
            + "Restore Purchases. If that does not help, send us the order id from Apple's e-mail; it begins with M.",
          step: "Paste the order id into the search box: it asks Apple once."))
    }
    if customer.kind == "device", customer.entitlements.isAccessGranted,
      customer.children.contains(where: { $0.pausedBecause != nil })
    {
      replies.append(
        Reply(
          "A child's device is paused",
          "Your plan of \(app) includes fewer devices than are paired. Remove one in the app, or change to a larger plan; the "
            + "others open at once.",
          step: "Nothing to do: the devices that were paired first stay open."))
    }
    for index in replies.indices { replies[index].anchor = "reply-\(customer.bundleID)-\(index + 1)" }
    return replies
  }
}

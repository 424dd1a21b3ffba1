import Customers
import Foundation
import HTTP
import Identifiers
import JSON
import Ledger
import Postgres
import Subscriptions

/// The members of an event's `data` that have no column. They hold no id of a customer, so that erasing a customer
/// needs the columns alone.
package struct EventDetails: JSONWritable {
  /// The purchase at the moment of the change.
  package var subscription: SubscriptionResponse?
  package var transaction: Transaction?
  /// Why it was cancelled, refunded, or expired.
  package var reason: String?
  var isResubscription: Bool?
  package var refund: Refund?
  package var grace: Grace?
  var formerProductID: String?
  package var price: Price?
  package var trial: TrialPeriod?
  /// The event that paused devices.
  package var cause: UUID?
  /// The number of paired devices that the customer may have now.
  package var limit: Int?

  package init(
    subscription: SubscriptionResponse? = nil, transaction: Transaction? = nil, reason: String? = nil,
    isResubscription: Bool? = nil, refund: Refund? = nil, grace: Grace? = nil, formerProductID: String? = nil,
    price: Price? = nil, trial: TrialPeriod? = nil, cause: UUID? = nil, limit: Int? = nil
  ) {
    self.subscription = subscription
    self.transaction = transaction
    self.reason = reason
    self.isResubscription = isResubscription
    self.refund = refund
    self.grace = grace
    self.formerProductID = formerProductID
    self.price = price
    self.trial = trial
    self.cause = cause
    self.limit = limit
  }

  /// The JSON.
  package var bytes: [UInt8] { JSONWriter.bytes(of: self) }

  /// A purchase or a renewal.
  package struct Transaction: JSONWritable {
    package var fact: TransactionFact
    /// The product by the catalog's name.
    package var productID: String
    /// Apple signs the purchaser's price into a family member's transaction too; the member pays nothing.
    private var price: Int64? { fact.ownership == "FAMILY_SHARED" ? nil : fact.priceMilliunits }

    package func write(to json: inout JSONWriter) {
      json.object { json in
        json.member("currency", price == nil ? nil : fact.currency)
        json.member("expiryDate", fact.expiresDate)
        json.member("isFree", price == 0)
        json.member("priceMilliunits", price)
        json.member("productID", productID)
        json.member("purchaseDate", fact.purchaseDate)
        json.member("transactionID", fact.transactionID)
      }
    }
  }

  /// A refund of a transaction.
  package struct Refund: JSONWritable {
    package var revocation: Revocation
    package var revokedAt: Date

    package func write(to json: inout JSONWriter) {
      json.object { json in
        json.member("percentage", revocation.percentage.map { Double($0) / 1_000 })
        json.member("refundedAt", revokedAt)
        json.member("type", revocation.type)
      }
    }
  }

  /// A period of access after the paid time.
  package struct Grace: JSONWritable {
    /// `appStore` for Apple's billing grace, `app` for the app's own.
    package var source: String
    /// `nil` during free access, which pauses it.
    package var endsAt: Date?

    package func write(to json: inout JSONWriter) {
      json.object { json in
        json.member("endsAt", endsAt)
        json.member("source", source)
      }
    }
  }

  /// A price of the next period.
  package struct Price: JSONWritable {
    package var currency: String?
    package var milliunits: Int64?
    /// Whether the customer has agreed, or needs not agree.
    package var isAccepted: Bool

    package func write(to json: inout JSONWriter) {
      json.object { json in
        json.member("currency", currency)
        json.member("isAccepted", isAccepted)
        json.member("priceMilliunits", milliunits)
      }
    }
  }

  /// The app's own trial.
  package struct TrialPeriod: JSONWritable {
    package var startedAt: Date
    /// `nil` during free access, which pauses it.
    package var endsAt: Date?
    /// Whether the customer has bought something; only at the end.
    package var isConverted: Bool?
    /// The whole days from the start to the first purchase, or to the end without one; only at the end.
    package var daysIntoTrial: Int?

    package init(
      startedAt: Date, endsAt: Date? = nil, isConverted: Bool? = nil, daysIntoTrial: Int? = nil
    ) {
      self.startedAt = startedAt
      self.endsAt = endsAt
      self.isConverted = isConverted
      self.daysIntoTrial = daysIntoTrial
    }

    package func write(to json: inout JSONWriter) {
      json.object { json in
        json.member("daysIntoTrial", ifPresent: daysIntoTrial)
        json.member("endsAt", endsAt)
        json.member("isConverted", ifPresent: isConverted)
        json.member("startedAt", startedAt)
      }
    }
  }

  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("cause", ifPresent: cause?.uuidString.lowercased())
      json.member("formerProductID", ifPresent: formerProductID)
      json.member("grace", ifPresent: grace)
      json.member("isResubscription", ifPresent: isResubscription)
      json.member("limit", ifPresent: limit)
      json.member("price", ifPresent: price)
      json.member("reason", ifPresent: reason)
      json.member("refund", ifPresent: refund)
      json.member("subscription", ifPresent: subscription)
      json.member("transaction", ifPresent: transaction)
      json.member("trial", ifPresent: trial)
    }
  }
}

/// A lifecycle event as it is sent: a row of `lifecycle_events`.
package struct StoredLifecycleEvent: Sendable {
  package var id: UUID
  package var type: String
  package var bundleID: String
  package var environment: String
  package var customer: Customer?
  var formerCustomer: Customer?
  /// The children's devices that the event is about; `nil` for other events.
  package var children: [String]?
  package var originalTransactionID: String?
  package var transactionID: String?
  package var occurredAt: Date
  /// The other members of `data`.
  package var details: [UInt8]

  /// - Parameter row: of ``LifecycleEventRows/select(_:)``.
  package init(_ row: Row) throws {
    id = try row.decode("id")
    type = try row.decode("type")
    bundleID = try row.decode("bundle_id")
    environment = try row.decode("environment")
    customer = try Customer(row)
    if let user = try row.decode("former_user_id", as: UUID?.self) {
      formerCustomer = .user(user)
    } else if let device = try row.decode("former_device_id", as: String?.self) {
      formerCustomer = .device(device)
    }
    if let devices = try row.decode("child_device_ids", as: JSONText?.self) {
      children = try JSONDecoder().decode([String].self, from: Data(devices.text.utf8))
    }
    originalTransactionID = try row.decode("original_transaction_id")
    transactionID = try row.decode("transaction_id")
    occurredAt = try row.decode("occurred_at")
    details = Array(try row.decode("data", as: JSONText.self).text.utf8)
  }
}

extension StoredLifecycleEvent: JSONWritable {
  /// The event as Standard Webhooks 1.0 lays it out.
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("data", Content(event: self))
      json.member("id", id.uuidString.lowercased())
      json.member("timestamp", occurredAt)
      json.member("type", type)
    }
  }

  private struct Content: JSONWritable {
    var event: StoredLifecycleEvent

    func write(to json: inout JSONWriter) {
      json.object { json in
        let isOfPairing = event.type.hasPrefix("child.")
        json.member("bundleID", event.bundleID)
        json.member("childDeviceID", ifPresent: isOfPairing ? event.children?.first : nil)
        json.member("customer", event.customer.map(CustomerName.init))
        json.member("environment", event.environment)
        json.member("formerCustomer", ifPresent: event.formerCustomer.map(CustomerName.init))
        json.member("originalTransactionID", ifPresent: event.originalTransactionID)
        json.member("pausedDevices", ifPresent: isOfPairing ? nil : event.children)
        json.member("transactionID", ifPresent: event.transactionID)
        json.members(of: event.details)
      }
    }
  }

  private struct CustomerName: JSONWritable {
    var customer: Customer

    func write(to json: inout JSONWriter) {
      json.object { json in
        json.member("id", customer.id)
        json.member("kind", customer.kindWord)
      }
    }
  }
}

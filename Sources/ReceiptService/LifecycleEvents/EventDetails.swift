import Customers
import Foundation
import HTTP
import Identifiers
import JSON
import Postgres
import Subscriptions

/// The members of an event's `data` that have no column. They hold no id of a customer, so that erasing a customer needs the
/// columns alone.
struct EventDetails: JSONWritable {
  /// The purchase at the moment of the change.
  var subscription: SubscriptionResponse?
  var transaction: Transaction?
  /// Why it was cancelled, refunded, or expired.
  var reason: String?
  var isResubscription: Bool?
  var refund: Refund?
  var grace: Grace?
  var formerProductID: String?
  var price: Price?
  var trial: TrialPeriod?
  /// The event that paused devices.
  var cause: UUID?
  /// The number of paired devices that the customer may have now.
  var limit: Int?

  /// The JSON.
  var bytes: [UInt8] { JSONWriter.bytes(of: self) }

  /// A purchase or a renewal.
  struct Transaction: JSONWritable {
    var fact: TransactionFact
    /// The product by the catalog's name.
    var productID: String
    /// Apple signs the purchaser's price into a family member's transaction too; the member pays nothing.
    private var price: Int64? { fact.ownership == "FAMILY_SHARED" ? nil : fact.priceMilliunits }

    init(fact: TransactionFact, productID: String) {
      self.fact = fact
      self.productID = productID
    }

    func write(to json: inout JSONWriter) {
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
  struct Refund: JSONWritable {
    var revocation: Revocation
    var revokedAt: Date

    func write(to json: inout JSONWriter) {
      json.object { json in
        json.member("percentage", revocation.percentage.map { Double($0) / 1_000 })
        json.member("refundedAt", revokedAt)
        json.member("type", revocation.type)
      }
    }
  }

  /// A period of access after the paid time.
  struct Grace: JSONWritable {
    /// `appStore` for Apple's billing grace, `app` for the app's own.
    var source: String
    /// `nil` during free access, which pauses it.
    var endsAt: Date?

    func write(to json: inout JSONWriter) {
      json.object { json in
        json.member("endsAt", endsAt)
        json.member("source", source)
      }
    }
  }

  /// A price of the next period.
  struct Price: JSONWritable {
    var currency: String?
    var milliunits: Int64?
    /// Whether the customer has agreed, or needs not agree.
    var isAccepted: Bool

    func write(to json: inout JSONWriter) {
      json.object { json in
        json.member("currency", currency)
        json.member("isAccepted", isAccepted)
        json.member("priceMilliunits", milliunits)
      }
    }
  }

  /// The app's own trial.
  struct TrialPeriod: JSONWritable {
    var startedAt: Date
    /// `nil` during free access, which pauses it.
    var endsAt: Date?
    /// Whether the customer has bought something; only at the end.
    var isConverted: Bool?

    func write(to json: inout JSONWriter) {
      json.object { json in
        json.member("endsAt", endsAt)
        json.member("isConverted", ifPresent: isConverted)
        json.member("startedAt", startedAt)
      }
    }
  }

  func write(to json: inout JSONWriter) {
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
struct StoredLifecycleEvent: Sendable {
  var id: UUID
  var type: String
  var bundleID: String
  var environment: String
  var customer: Customer?
  var formerCustomer: Customer?
  /// The paused devices as a JSON array; `nil` for other events.
  var pausedDevices: [String]?
  var originalTransactionID: String?
  var transactionID: String?
  var occurredAt: Date
  /// The other members of `data`.
  var details: [UInt8]

  /// - Parameter row: of ``LifecycleEventRows/select(_:)``.
  init(_ row: Row) throws {
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
      pausedDevices = try JSONDecoder().decode([String].self, from: Data(devices.text.utf8))
    }
    originalTransactionID = try row.decode("original_transaction_id")
    transactionID = try row.decode("transaction_id")
    occurredAt = try row.decode("occurred_at")
    details = Array(try row.decode("data", as: JSONText.self).text.utf8)
  }
}

extension StoredLifecycleEvent: JSONWritable {
  /// The event as Standard Webhooks 1.0 lays it out.
  func write(to json: inout JSONWriter) {
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
        json.member("bundleID", event.bundleID)
        json.member("customer", event.customer.map(CustomerName.init))
        json.member("environment", event.environment)
        json.member("formerCustomer", ifPresent: event.formerCustomer.map(CustomerName.init))
        json.member("originalTransactionID", ifPresent: event.originalTransactionID)
        json.member("pausedDevices", ifPresent: event.pausedDevices)
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

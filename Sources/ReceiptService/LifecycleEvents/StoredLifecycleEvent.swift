import Foundation
import HTTP
import Identifiers
import JSON
import Postgres
import Subscriptions

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

import Crypto
import Foundation
import JSON
import Subscriptions

/// An event in the life of a purchase or a trial, for the webhooks of its app.
struct LifecycleEvent: Sendable {
  /// What the event is about.
  enum Subject: Sendable {
    /// A transaction of a purchase, with Apple's ids.
    case purchase(originalTransactionID: String, transactionID: String)
    /// A row of `trials`.
    case trial(UUID)
  }

  var type: LifecycleEventType
  var bundleID: String
  /// Apple's environment.
  var environment: String
  var subject: Subject
  /// The facts that make it this event and no other: ids and signed dates, never a time of arrival.
  var occasion: [String]
  /// `nil` for a purchase without an owner.
  var customer: Customer?
  /// The customer who had the purchase before a transfer.
  var formerCustomer: Customer? = nil
  /// The paired devices that are paused; `nil` for other events.
  var pausedDevices: [String]? = nil
  /// Of an event that time causes: the end of the paid time, of the grace period or of the trial.
  var periodEnd: Date? = nil
  var occurredAt: Date
  /// Whether it may pause paired devices.
  var checksDevices = false
  /// The members of `data` that have no column, as a JSON object without ids of customers.
  var data: [UInt8]

  /// The id: the same for the same cause, on every server. It is a UUID of version 8 (RFC 9562 §5.8) made of a SHA-256.
  var id: UUID {
    let subject =
      switch subject {
      case .purchase(let original, _): original
      case .trial(let id): id.uuidString.lowercased()
      }
    let name = ([bundleID, environment, type.rawValue, subject] + occasion).joined(separator: "\n")
    var bytes = Array(SHA256.hash(data: Data(name.utf8)).prefix(16))
    bytes[6] = bytes[6] & 0x0F | 0x80
    bytes[8] = bytes[8] & 0x3F | 0x80
    return bytes.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
  }
}

extension LifecycleEvent {
  /// An older event is written down and not sent: receiptd learned it late, from a history or after an outage. The App
  /// Store repeats a notification for six and a half days.
  static let maximumAge: TimeInterval = 7 * 86_400
  /// For how long events are kept. An older one is not even written down.
  static let lifetime: TimeInterval = 90 * 86_400
}

extension Date {
  /// Apple's form of an instant: milliseconds since 1970.
  var occasion: String { "\(Int64((timeIntervalSince1970 * 1000).rounded()))" }
}

import Foundation

/// What shows a purchase to the server.
public enum Proof: Sendable, Hashable, Codable {
  /// StoreKit 2's `jwsRepresentation` of a transaction: the best proof, because it needs no call to the App Store. The renewal
  /// info is optional.
  case signedTransaction(String, signedRenewalInfo: String? = nil)
  /// The id of a transaction, with an app transaction that shows the Apple Account.
  case transactionID(String, signedAppTransaction: String? = nil)
  /// A legacy app receipt in base64, with an app transaction that shows the Apple Account.
  case receipt(String, signedAppTransaction: String? = nil)
}

/// A purchase that waits until the server has answered finally.
struct QueuedProof: Codable, Sendable, Identifiable {
  enum Work: Codable, Sendable, Hashable {
    case proof(Proof)
    /// The transactions of a user's restore, with an app transaction.
    case sync([String], String?)
  }

  var id = UUID()
  var customer: Customer
  var work: Work
}

/// A property of an event.
public enum EventValue: Sendable, Hashable, Codable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral,
  ExpressibleByFloatLiteral, ExpressibleByBooleanLiteral
{
  /// A text.
  case text(String)
  /// A number.
  case number(Double)
  /// True or false.
  case flag(Bool)

  /// A text.
  public init(stringLiteral value: String) { self = .text(value) }
  /// A number.
  public init(integerLiteral value: Int) { self = .number(Double(value)) }
  /// A number.
  public init(floatLiteral value: Double) { self = .number(value) }
  /// True or false.
  public init(booleanLiteral value: Bool) { self = .flag(value) }

  /// Writes a bare JSON value.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .text(let value): try container.encode(value)
    case .number(let value):
      if let whole = Int(exactly: value) { try container.encode(whole) } else { try container.encode(value) }
    case .flag(let value): try container.encode(value)
    }
  }

  /// Reads a bare JSON value.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if let value = try? container.decode(Bool.self) {
      self = .flag(value)
    } else if let value = try? container.decode(Double.self) {
      self = .number(value)
    } else {
      self = .text(try container.decode(String.self))
    }
  }
}

/// An event that waits to be sent. Its id makes a repeated request count once.
struct QueuedEvent: Codable, Sendable, Identifiable {
  var id = UUID()
  var customerID: String
  var name: String
  var at: Date
  var properties: [String: EventValue]

  /// The server's rules for names and properties; an event that breaks them would have its whole request refused.
  var isValid: Bool {
    let letters = name.utf8.map { byte in
      (65...90).contains(byte) || (97...122).contains(byte)
        ? 2 : (48...57).contains(byte) || [45, 46, 95].contains(byte) ? 1 : 0
    }
    guard (1...64).contains(letters.count), letters.first == 2, !letters.contains(0) else { return false }
    guard let encoded = try? JSONEncoder().encode(properties) else { return false }
    return encoded.count <= 2048
  }
}

/// The events that wait, oldest first.
struct EventQueue: Codable, Sendable {
  /// The most events that are kept; the oldest leave.
  static let limit = 1000
  /// The server accepts events of the last 30 days.
  static let maximumAge: TimeInterval = 29.5 * 86_400
  /// The server takes 8 KiB without a user's token; the rest is for the request's other members.
  private static let batchBytes = 7000
  private static let batchCount = 100

  var events: [QueuedEvent] = []

  mutating func append(_ event: QueuedEvent) {
    events.append(event)
    if events.count > Self.limit { events.removeFirst(events.count - Self.limit) }
  }

  mutating func remove(_ batch: [QueuedEvent]) {
    let ids = Set(batch.map(\.id))
    events.removeAll { ids.contains($0.id) }
  }

  /// Drops events that the server would refuse for their age.
  mutating func dropOld(at now: Date) { events.removeAll { now.timeIntervalSince($0.at) > Self.maximumAge } }

  /// The oldest events of one customer that fit one request.
  func batch() -> [QueuedEvent] {
    guard let customer = events.first?.customerID else { return [] }
    var batch: [QueuedEvent] = []
    var bytes = 0
    for event in events where event.customerID == customer {
      bytes += (try? API.encoder.encode(event).count) ?? 0
      if batch.count == Self.batchCount || (bytes > Self.batchBytes && !batch.isEmpty) { break }
      batch.append(event)
    }
    return batch
  }
}

/// When a kind of request may be sent: exponential backoff with full jitter up to an hour, and `Retry-After`.
struct Pace: Sendable {
  /// The time, in seconds of uptime, before which nothing is sent because the server said so.
  private(set) var barrier: TimeInterval = 0
  /// The time of the next attempt, in seconds of uptime.
  private(set) var due: TimeInterval = 0
  /// Failures in a row.
  private(set) var failures = 0
  private var refusal: ReceiptdError?

  static let longest: TimeInterval = 3600
  /// The first wait of a request that the customer waits for, in seconds.
  static let urgent: TimeInterval = 2
  /// The first wait of a request in the background. After an outage of minutes most clients have failed once or twice; with a
  /// short first wait they would all come back within seconds.
  static let background: TimeInterval = 30

  mutating func fail(
    _ error: ReceiptdError, at now: TimeInterval, random: Double, first: TimeInterval = urgent
  ) {
    failures += 1
    let most = min(Self.longest, first * pow(2, Double(min(failures, 20) - 1)))
    let jitter = max(1, random * most)
    if let wait = error.retryAfter {
      barrier = now + wait
      refusal = error
      due = barrier + jitter
    } else {
      due = now + jitter
    }
  }

  mutating func succeed() { self = Pace() }

  /// Ends the backoff because the server answered another request. What it said itself still holds.
  mutating func relax(at now: TimeInterval, random: Double) {
    guard failures > 0 else { return }
    failures = 0
    due = max(barrier, min(due, now + random * 5))
  }

  /// The error to report while the server wants no request; `nil` if one may be sent.
  func refusal(at now: TimeInterval) -> ReceiptdError? {
    guard now < barrier, var refusal else { return nil }
    refusal.retryAfter = barrier - now
    return refusal
  }
}

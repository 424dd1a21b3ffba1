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

extension Proof {
  /// The members of the request that sends it.
  fileprivate var members: [(name: String, value: JSON?)] {
    switch self {
    case .signedTransaction(let jws, let renewal):
      [("signedTransaction", .text(jws)), ("signedRenewalInfo", JSON(renewal))]
    case .transactionID(let id, let app):
      [("transactionID", .text(id)), ("signedAppTransaction", JSON(app))]
    case .receipt(let receipt, let app):
      [("receipt", .text(receipt)), ("signedAppTransaction", JSON(app))]
    }
  }

  /// Reads what ``encode(to:)`` wrote.
  public init(from decoder: any Decoder) throws {
    let json = try JSON(from: decoder)
    let app = json.text(of: "signedAppTransaction")
    if let jws = json.text(of: "signedTransaction") {
      self = .signedTransaction(jws, signedRenewalInfo: json.text(of: "signedRenewalInfo"))
    } else if let id = json.text(of: "transactionID") {
      self = .transactionID(id, signedAppTransaction: app)
    } else if let receipt = json.text(of: "receipt") {
      self = .receipt(receipt, signedAppTransaction: app)
    } else {
      throw DecodingError.dataCorrupted(.init(codingPath: decoder.codingPath, debugDescription: "no proof"))
    }
  }

  /// Writes the members of the server's API.
  public func encode(to encoder: any Encoder) throws { try JSON.members(members).encode(to: encoder) }
}

/// A purchase that waits until the server has answered finally.
final class QueuedProof {
  let customer: Customer
  /// The body of its request.
  let body: String
  /// Whether it is the request of a user's restore.
  let isSync: Bool

  /// The pace of a purchase whose failure says nothing about the others.
  var pace: Pace?
  /// What the last attempt gave, and the number of attempts, from which a caller that waits knows a new one.
  var outcome: Result<Access, any Error>?
  var attempts = 0

  @inline(never) init(_ customer: Customer, _ body: String, isSync: Bool) {
    self.customer = customer
    self.body = body
    self.isSync = isSync
  }

  @inline(never) convenience init(_ proof: Proof, of customer: Customer, app bundleID: String) {
    var members = proof.members
    members.append(("bundleID", .text(bundleID)))
    if case .device(let id) = customer { members.append(("deviceID", .text(id))) }
    self.init(customer, JSON.members(members).string, isSync: false)
  }

  /// The transactions of a user's restore, with an app transaction.
  @inline(never) convenience init(
    sync transactions: [String], _ appTransaction: String?, of customer: Customer
  ) {
    let body = JSON.members(
      ("signedTransactions", .list(transactions.map(JSON.text))),
      ("signedAppTransaction", JSON(appTransaction)))
    self.init(customer, body.string, isSync: true)
  }

  @inline(never) convenience init?(_ kept: JSON) {
    guard let customer = kept.text(of: "customer").flatMap(Customer.init(key:)),
      let body = kept.text(of: "body"),
      let isSync = kept.flag(of: "isSync")
    else { return nil }
    self.init(customer, body, isSync: isSync)
  }

  /// The form in the store.
  var json: JSON {
    .members(("customer", .text(customer.key)), ("body", .text(body)), ("isSync", .flag(isSync)))
  }
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

extension EventValue {
  fileprivate var json: JSON {
    switch self {
    case .text(let value): .text(value)
    case .number(let value): .number(value)
    case .flag(let value): .flag(value)
    }
  }
}

/// An event that waits to be sent. Its id makes a repeated request count once.
final class QueuedEvent: Sendable {
  let id: String
  let customerID: String
  let name: String
  let at: Date
  let properties: JSON
  /// The form in the store, written once: a full queue is saved with each new event.
  let kept: String

  private init(id: String, customerID: String, name: String, at: Date, properties: JSON) {
    self.id = id
    self.customerID = customerID
    self.name = name
    self.at = at
    self.properties = properties
    kept =
      JSON.members(
        ("id", .text(id)), ("customerID", .text(customerID)), ("name", .text(name)), ("at", JSON(at)),
        ("properties", properties)
      ).string
  }

  @inline(never) convenience init(
    customerID: String, name: String, at: Date, properties: [String: EventValue]
  ) {
    var members: [JSON.Member] = []
    for (name, value) in properties { members.append(JSON.Member(name: name, value: value.json)) }
    self.init(
      id: UUID().uuidString, customerID: customerID, name: name, at: at, properties: .object(members))
  }

  @inline(never) convenience init?(_ kept: JSON) {
    guard let kept = kept.text.flatMap({ JSON($0.bytes) }), let id = kept.text(of: "id"),
      let customerID = kept.text(of: "customerID"), let name = kept.text(of: "name"),
      let at = kept.date(of: "at"), let properties = kept["properties"]
    else { return nil }
    self.init(id: id, customerID: customerID, name: name, at: at, properties: properties)
  }

  /// The members of the request.
  @inline(never) func json(at time: Date) -> JSON {
    .members(("id", .text(id)), ("name", .text(name)), ("at", JSON(time)), ("properties", properties))
  }

  /// The server's rules for names and properties; an event that breaks them would have its whole request refused.
  var isValid: Bool {
    var count = 0
    for byte in name.utf8 {
      let isLetter = (65...90).contains(byte) || (97...122).contains(byte)
      let isOther = (48...57).contains(byte) || byte == 45 || byte == 46 || byte == 95
      guard isLetter || isOther && count > 0 else { return false }
      count += 1
    }
    guard (1...64).contains(count) else { return false }
    // Empty for a number that JSON does not have.
    return (1...2048).contains(properties.data.count)
  }
}

/// The events that wait, oldest first.
struct EventQueue: Sendable {
  /// The most events that are kept; the oldest leave.
  static let limit = 1000
  /// The server accepts events of the last 30 days.
  static let maximumAge: TimeInterval = 29.5 * 86_400
  /// The server takes 8 KiB without a user's token; the rest is for the request's other members.
  private static let batchBytes = 7000
  private static let batchCount = 100

  var events: [QueuedEvent] = []

  init() {}

  init(_ kept: JSON) { events = kept.list.compactMap { QueuedEvent($0) } }

  /// The form in the store.
  var json: JSON { .list(events.map { .text($0.kept) }) }

  @inline(never) mutating func append(_ event: QueuedEvent) {
    events.append(event)
    if events.count > Self.limit { events.removeFirst(events.count - Self.limit) }
  }

  @inline(never) mutating func remove(_ batch: [QueuedEvent]) {
    events.removeAll { event in batch.contains { $0 === event } }
  }

  /// Drops events that the server would refuse for their age.
  @inline(never) mutating func dropOld(at now: Date) {
    events.removeAll { now.timeIntervalSince($0.at) > Self.maximumAge }
  }

  /// The oldest events of one customer that fit one request.
  @inline(never) func batch() -> [QueuedEvent] {
    guard let customer = events.first?.customerID else { return [] }
    var batch: [QueuedEvent] = []
    var bytes = 0
    for event in events where event.customerID == customer {
      bytes += event.kept.utf8.count
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
  private var refusal: (any Error)?

  static let longest: TimeInterval = 3600
  /// The first wait of a request that the customer waits for, in seconds.
  static let urgent: TimeInterval = 2
  /// The first wait of a request in the background. After an outage of minutes most clients have failed once or twice; with a
  /// short first wait they would all come back within seconds.
  static let background: TimeInterval = 30

  @inline(never) mutating func fail(
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

  @inline(never) mutating func succeed() { self = Pace() }

  /// Ends the backoff because the server answered another request. What it said itself still holds.
  @inline(never) mutating func relax(at now: TimeInterval, random: Double) {
    guard failures > 0 else { return }
    failures = 0
    due = max(barrier, min(due, now + random * 5))
  }

  /// The error to report while the server wants no request; `nil` if one may be sent.
  @inline(never) func refusal(at now: TimeInterval) -> ReceiptdError? {
    guard now < barrier, var refusal = refusal as? ReceiptdError else { return nil }
    refusal.retryAfter = barrier - now
    return refusal
  }
}

import Foundation
import HTTP
import Identifiers
import JSON
import Postgres

/// The body of `POST /api/v1/events`.
struct EventReport: Decodable, Sendable {
  var bundleID: String?
  var customerID: String
  var events: [Event]

  /// An event on the way to a purchase, as the client reports it.
  struct Event: Decodable, Sendable {
    /// The client's id of the event, which makes a repeated request harmless.
    var id: StrictUUID?
    var name: String
    var at: Date
    var properties: [String: JSONValue]?
  }

  static let maximumEvents = 100
  static let maximumNameLength = 64
  static let maximumPropertiesLength = 2 << 10
  static let maximumPropertiesDepth = 4
  /// The age of the oldest accepted event, in seconds: a client may have been offline. Older days are closed.
  static let maximumAge: TimeInterval = 30 * 86_400
  /// The most by which a client's clock may be ahead, in seconds.
  static let clockTolerance: TimeInterval = 300

  /// The rows of all events. If one event is invalid, none is kept.
  /// - Parameters:
  ///   - customer: the customer's id in the rows.
  ///   - bundleID: the app of the request.
  /// - Throws: 400 `invalid_request`, naming the member at fault.
  func records(
    of customer: String, inApp bundleID: String, at instant: Date
  ) throws(Problem) -> [EventRecord] {
    guard (1...Self.maximumEvents).contains(events.count) else {
      throw .invalidRequest("'events' must have 1 to \(Self.maximumEvents) elements.")
    }
    var records: [EventRecord] = []
    records.reserveCapacity(events.count)
    for (index, event) in events.enumerated() {
      records.append(
        EventRecord(
          bundleID: bundleID, customerID: customer, id: event.id?.value ?? UUID(),
          name: try name(of: event, index), at: try time(of: event, index, instant),
          properties: try properties(of: event, index)))
    }
    return records
  }

  private func name(of event: Event, _ index: Int) throws(Problem) -> String {
    let bytes = event.name.utf8
    let startsWithLetter = bytes.first.map { ($0 | 0x20) >= 0x61 && ($0 | 0x20) <= 0x7A } ?? false
    guard startsWithLetter, bytes.count <= Self.maximumNameLength, bytes.allSatisfy(Self.isOfName) else {
      throw .invalidRequest(
        "'events[\(index)].name' must be 1 to \(Self.maximumNameLength) of A-Z, a-z, 0-9, '_', '-' and '.', "
          + "beginning with a letter.")
    }
    return event.name
  }

  private static func isOfName(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "."):
      true
    default: false
    }
  }

  private func time(of event: Event, _ index: Int, _ instant: Date) throws(Problem) -> Date {
    guard event.at >= instant - Self.maximumAge, event.at <= instant + Self.clockTolerance else {
      throw .invalidRequest(
        "'events[\(index)].at' must lie within the last 30 days, and not more than 5 minutes ahead of the "
          + "server's clock.")
    }
    return event.at
  }

  private func properties(of event: Event, _ index: Int) throws(Problem) -> JSONText? {
    guard let properties = event.properties, !properties.isEmpty else { return nil }
    let value = JSONValue.object(properties)
    guard value.isWithin(depth: Self.maximumPropertiesDepth), value.isStorable,
      let bytes = try? JSONCoding.encode(properties), bytes.count <= Self.maximumPropertiesLength
    else {
      throw .invalidRequest(
        "'events[\(index)].properties' must be an object of at most \(Self.maximumPropertiesLength) bytes, "
          + "nested at most \(Self.maximumPropertiesDepth) deep, without U+0000.")
    }
    return JSONText(String(decoding: bytes, as: UTF8.self))
  }
}

extension JSONValue {
  /// Whether objects and lists nest no deeper than this, the value itself counted.
  fileprivate func isWithin(depth: Int) -> Bool {
    switch self {
    case .null, .bool, .integer, .number, .string: true
    case .array(let elements): depth > 0 && elements.allSatisfy { $0.isWithin(depth: depth - 1) }
    case .object(let members): depth > 0 && members.values.allSatisfy { $0.isWithin(depth: depth - 1) }
    }
  }

  /// PostgreSQL's jsonb has no U+0000.
  fileprivate var isStorable: Bool {
    switch self {
    case .null, .bool, .integer, .number: true
    case .string(let text): !text.utf8.contains(0)
    case .array(let elements): elements.allSatisfy(\.isStorable)
    case .object(let members): members.allSatisfy { !$0.key.utf8.contains(0) && $0.value.isStorable }
    }
  }
}

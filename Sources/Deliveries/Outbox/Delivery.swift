import Curl
import Foundation
import HTTPTypes

/// A customer's state, an event or a notification on its way to a destination.
package struct OutboxMessage: Sendable {
  /// The id of the outbox row.
  package var id: Int64
  /// The number of the change. A later change of the row, or another content, has another number.
  package var change: Int64
  /// The time of the change.
  var changedAt: Date
  /// The number of attempts before this one.
  package var attempts: Int
  package var content: OutboxContent
}

/// The outcome of one message.
package enum DeliveryOutcome: Sendable, Equatable {
  case delivered
  /// It failed and is retried, at the earliest after `after` seconds.
  case failed(String, after: TimeInterval? = nil)
  /// It was refused for good and is given up.
  case refused(String)
  /// It was not sent, or the response concerns only the destination.
  case untried
}

/// The outcomes of several messages, and the state of their destination.
package struct Delivery: Sendable {
  /// One for each message, in the same order.
  package var outcomes: [DeliveryOutcome]
  /// The problem of the destination as a whole; `nil` if it has none.
  package var problem: DestinationProblem?
}

/// A problem of a destination as a whole.
package enum DestinationProblem: Sendable, Equatable {
  /// It is unreachable, refuses the credentials, or asks for a pause (of `after` seconds if given).
  case unavailable(String, after: TimeInterval? = nil)
  /// It answered 410 Gone and wants no more requests.
  case gone(String)

  var isGone: Bool { if case .gone = self { true } else { false } }

  package var reason: String {
    switch self {
    case .unavailable(let reason, _), .gone(let reason): reason
    }
  }
}

/// Sends messages to one kind of destination.
package protocol OutboxSender: Sendable {
  /// The most messages of one call of `send`.
  var batchSize: Int { get }

  /// The timeout of one request, in seconds.
  var timeout: TimeInterval { get }

  /// What a change says, as bytes, the same bytes for the same content. What was delivered is not sent again.
  func bytes(of content: OutboxContent) throws -> [UInt8]

  /// Sends messages of different rows.
  /// - Parameter hasTime: whether another request can end before the claim does.
  func send(_ messages: [OutboxMessage], hasTime: @Sendable () -> Bool) async -> Delivery
}

extension HTTPFields {
  /// The seconds of `Retry-After` (RFC 9110 section 10.2.3). `nil` for a date: the backoff decides then.
  package var retryAfterSeconds: TimeInterval? {
    guard let text = self[.retryAfter], !text.isEmpty, text.utf8.count <= 9 else { return nil }
    var seconds = 0
    for byte in text.utf8 {
      guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
      seconds = seconds * 10 + Int(byte - UInt8(ascii: "0"))
    }
    return TimeInterval(seconds)
  }
}

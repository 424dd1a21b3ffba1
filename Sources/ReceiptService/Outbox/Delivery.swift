import FoundationEssentials

/// One customer's state on its way to a lane.
struct OutboxMessage: Sendable {
  /// The row.
  var id: Int64
  /// The number of the change that it follows from: another one for another change of the same customer, and for
  /// another state.
  var change: Int64
  /// When the change came.
  var changedAt: Date
  /// How often the change was tried before.
  var attempts: Int
  var state: CustomerState
}

/// What became of one message.
enum DeliveryOutcome: Sendable, Equatable {
  case delivered
  /// It shall be tried again, not before `after` seconds have passed if that is given.
  case failed(String, after: TimeInterval? = nil)
  /// It would be refused again: it is given up.
  case refused(String)
  /// It was not tried: nobody has said anything about it.
  case untried
}

/// What became of several messages, and of the place they went to.
struct Delivery: Sendable {
  /// One for each message, in the same order.
  var outcomes: [DeliveryOutcome]
  /// What is wrong with the place as a whole, whichever customer it is about.
  var trouble: LaneTrouble?
}

/// What is wrong with a place as a whole.
enum LaneTrouble: Sendable, Equatable {
  /// It cannot be reached, does not let us in, or asks for a rest (of `after` seconds if that is given).
  case unavailable(String, after: TimeInterval? = nil)
  /// It wants nothing from us any more.
  case gone(String)

  var isGone: Bool { if case .gone = self { true } else { false } }

  var reason: String {
    switch self {
    case .unavailable(let reason, _), .gone(let reason): reason
    }
  }
}

/// A way to a place.
protocol OutboxSender: Sendable {
  /// How many messages are sent together.
  var batchSize: Int { get }

  /// How long one request may take, in seconds.
  var timeout: TimeInterval { get }

  /// What matters of a state, the same bytes for the same state: what was delivered with these bytes is not sent
  /// again.
  func content(of state: CustomerState) throws -> [UInt8]

  /// Sends messages about different customers.
  /// - Parameter hasTime: whether there is time for another request; one must not outlive the claim.
  func send(_ messages: [OutboxMessage], hasTime: @Sendable () -> Bool) async -> Delivery
}

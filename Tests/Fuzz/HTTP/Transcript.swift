import HTTPTypes
import Platform
import Sockets

@testable import HTTP

/// The steps of a ``ConnectionState`` for some bytes, with an immediate response to every request.
struct Transcript {
  enum Event: Equatable {
    case continued
    case request(Received)
    case refused(Int, String)
    case finished
    case closed(CloseReason)
  }

  /// A request as a handler sees it.
  struct Received: Equatable {
    var head: RequestHead
    var body: [UInt8]

    static func == (one: Self, other: Self) -> Bool {
      one.body == other.body && one.head.bytes == other.head.bytes
        && one.head.framing == other.head.framing && one.head.wantsKeepAlive == other.head.wantsKeepAlive
    }
  }

  /// Limits so small that an input of a few kilobytes can reach each.
  static let limits = {
    var limits = HTTPLimits()
    limits.requestLine = 256
    limits.head = 512
    limits.fields = 8
    limits.requestsPerConnection = 5
    return limits
  }()
  static let maximumBodyLength = 600
  private static let now = MonotonicInstant(nanoseconds: 1_000_000_000)

  private(set) var events: [Event] = []
  private(set) var answers: [ConnectionState.ResponseOptions] = []
  private var state = ConnectionState(limits: limits, timeouts: .init(HTTPTimeouts()), now: now)
  private var head: RequestHead?

  init(of pieces: [[UInt8]], ends: Bool = true) {
    for piece in pieces where !piece.isEmpty {
      piece.withUnsafeBytes { state.received($0, now: Self.now) }
      run()
    }
    guard ends else { return }
    state.inputEnded()
    run()
  }

  /// `100 Continue` depends on the bytes that have arrived, by design.
  var eventsBesidesContinue: [Event] { events.filter { $0 != .continued } }

  var requests: [Received] {
    events.compactMap { if case .request(let received) = $0 { received } else { nil } }
  }

  private mutating func run() {
    while true {
      if case .closed = events.last { return }
      switch state.next(now: Self.now) {
      case .wait, .abandonHandler: return
      case .route(let head):
        self.head = head
        state.admit(maximumBodyLength: Self.maximumBodyLength, now: Self.now)
      case .sendContinue: events.append(.continued)
      case .handle(let body):
        if let head { events.append(.request(Received(head: head, body: body))) }
        answers.append(state.beginResponse(now: Self.now))
      case .refuse(let problem):
        events.append(.refused(problem.status.code, problem.code.rawValue))
        answers.append(state.beginResponse(now: Self.now))
      case .finishSending: events.append(.finished)
      case .close(let reason): events.append(.closed(reason))
      }
    }
  }
}

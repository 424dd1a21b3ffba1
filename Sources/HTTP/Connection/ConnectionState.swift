import HTTPTypes
import Platform
import Sockets

/// The server side of one HTTP/1.1 connection as a state machine. It takes events and returns steps; it does no I/O and
/// has no clock.
///
/// It serves one request at a time. The bytes of pipelined requests are buffered, and not decoded until the current
/// response is sent. So responses keep their order, and a client that sends without reading is stopped.
///
///     idle ──bytes──▶ head ──▶ routing ──admit──▶ body ──▶ handling ──response──▶ idle
///                      │           │                │           │
///                      └───────────┴──── refuse ────┴───────────┴── last response ──▶ closing ──▶ lingering
struct ConnectionState {
  /// The next action of the caller.
  enum Step {
    /// Wait for bytes, a response or a deadline.
    case wait
    /// Find the route, then call ``ConnectionState/admit(maximumBodyLength:now:)`` or ``ConnectionState/reject(_:)``.
    case route(RequestHead)
    /// Write `100 Continue`.
    case sendContinue
    /// Run the handler of the complete request, then call ``ConnectionState/beginResponse(now:)``.
    case handle(body: [UInt8])
    /// Cancel the handler, whose deadline has passed, and respond in its place.
    case abandonHandler
    /// Respond with this problem, then call ``ConnectionState/beginResponse(now:)``.
    indirect case refuse(Problem)
    /// Close the sending half.
    case finishSending
    /// Close the connection.
    case close(CloseReason)
  }

  /// The parts of a response's encoding that depend on the connection.
  struct ResponseOptions: Equatable {
    var version = HTTPVersion.http11
    /// Whether the request was `HEAD`.
    var omitsBody = false
    /// Whether the connection is closed after this response.
    var closes = false
  }

  private enum Phase {
    /// No byte of the next request has arrived.
    case idle
    /// Part of the head has arrived.
    case head
    /// The caller finds the route.
    case routing(BodyFraming, expectsContinue: Bool)
    /// The body is incomplete.
    case body
    /// The request is complete, and its handler has not started.
    case ready(body: [UInt8])
    /// The handler runs.
    case handling
    /// The response will be this problem.
    indirect case refused(Problem)
    /// The last response was encoded.
    case closing
    /// Received bytes are dropped until the client closes its side. To close at once would reset the connection, and
    /// the client could lose the response (RFC 9112 §9.6).
    case lingering
  }

  private let limits: HTTPLimits
  private let timeouts: Timeouts
  private var phase = Phase.idle
  private var input = InputBuffer()
  private var headDecoder: HeadDecoder
  private var bodyDecoder: BodyDecoder?
  private var options = ResponseOptions()
  private var requestCount = 0
  private var shouldSendContinue = false
  private var hasInputEnded = false
  private var isDraining = false
  /// When the queued output must be sent; nil while the queue is empty.
  private var outputDeadline: MonotonicInstant?
  private var phaseDeadline: MonotonicInstant
  /// When the first byte of the current request arrived.
  private(set) var requestBegan: MonotonicInstant

  /// ``HTTPTimeouts`` in nanoseconds, converted once.
  struct Timeouts {
    let head: UInt64
    let body: UInt64
    let handler: UInt64
    let write: UInt64
    let idle: UInt64
    let linger: UInt64

    init(_ timeouts: HTTPTimeouts) {
      head = timeouts.head.wholeNanoseconds
      body = timeouts.body.wholeNanoseconds
      handler = timeouts.handler.wholeNanoseconds
      write = timeouts.write.wholeNanoseconds
      idle = timeouts.idle.wholeNanoseconds
      linger = timeouts.linger.wholeNanoseconds
    }
  }

  init(limits: HTTPLimits, timeouts: Timeouts, now: MonotonicInstant) {
    self.limits = limits
    self.timeouts = timeouts
    headDecoder = HeadDecoder(limits: limits)
    phaseDeadline = now.advanced(byNanoseconds: timeouts.idle)
    requestBegan = now
  }

  /// When to call ``deadlinePassed(now:)``.
  var deadline: MonotonicInstant { outputDeadline ?? phaseDeadline }

  /// Whether to read more bytes. Some bytes are read ahead, so that the end of the connection is noticed.
  var wantsInput: Bool { input.count < 65_536 }

  /// The memory of an incomplete request and of pipelined requests.
  var bufferedBytes: Int { input.count + (bodyDecoder?.bufferedBytes ?? 0) }

  // MARK: Events

  mutating func received(_ bytes: UnsafeRawBufferPointer, now: MonotonicInstant) {
    switch phase {
    case .closing, .lingering:
      return
    case .handling where options.closes:
      // No request is served after the last response.
      return
    case .idle:
      beginHead(now)
    default:
      break
    }
    input.append(bytes)
  }

  /// The client has closed its sending half, and may still wait for responses.
  mutating func inputEnded() { hasInputEnded = true }

  /// The socket did not accept all of the output.
  mutating func outputBlocked(now: MonotonicInstant) {
    if outputDeadline == nil { outputDeadline = now.advanced(byNanoseconds: timeouts.write) }
  }

  /// The socket has accepted all of the output.
  mutating func outputFlushed(now: MonotonicInstant) {
    outputDeadline = nil
    switch phase {
    case .idle: phaseDeadline = now.advanced(byNanoseconds: timeouts.idle)
    case .head: phaseDeadline = now.advanced(byNanoseconds: timeouts.head)
    case .lingering: phaseDeadline = now.advanced(byNanoseconds: timeouts.linger)
    default: break
    }
  }

  /// The server is stopping: the current request is the last one.
  mutating func drain() { isDraining = true }

  /// The ``deadline`` may have passed.
  mutating func deadlinePassed(now: MonotonicInstant) -> Step {
    guard now >= deadline else { return .wait }
    guard outputDeadline == nil else { return .close(.deadline) }
    switch phase {
    case .head:
      return refuse(.requestTimeout("The head was not complete in time."))
    case .body:
      return refuse(.requestTimeout("The body was not complete in time."))
    case .handling:
      phaseDeadline = .distantFuture
      return .abandonHandler
    case .lingering:
      return .close(.finished)
    case .idle, .routing, .ready, .refused, .closing:
      return .close(.deadline)
    }
  }

  /// The server has reached its limit of buffered bytes, and this connection has many of them.
  mutating func shedLoad() -> Step {
    switch phase {
    case .head, .body:
      return refuse(.overloaded("Too much is being sent to the server at once."))
    case .handling:
      // Pipelined requests are dropped, so the response to the current request is the last.
      options.closes = true
      input.removeAll()
      return .wait
    case .idle, .routing, .ready, .refused, .closing, .lingering:
      return .wait
    }
  }

  // MARK: Steps

  /// The next step. Call it until it returns ``Step/wait``.
  mutating func next(now: MonotonicInstant) -> Step {
    guard outputDeadline == nil else { return .wait }
    switch phase {
    case .idle:
      if isDraining { return .close(.shutdown) }
      return hasInputEnded ? .close(.finished) : .wait
    case .head:
      return nextOfHead()
    case .body:
      return nextOfBody(now)
    case .ready(let body):
      beginHandling(now)
      return .handle(body: body)
    case .refused(let problem):
      return refuse(problem)
    case .routing, .handling:
      return .wait
    case .closing:
      phase = .lingering
      phaseDeadline = now.advanced(byNanoseconds: timeouts.linger)
      return .finishSending
    case .lingering:
      return hasInputEnded ? .close(.finished) : .wait
    }
  }

  /// A route was found that accepts a body of up to `maximumBodyLength` bytes.
  mutating func admit(maximumBodyLength: Int, now: MonotonicInstant) {
    guard case .routing(let framing, let expectsContinue) = phase else { return }
    guard framing != .none else {
      phase = .ready(body: [])
      return
    }
    do throws(Problem) {
      bodyDecoder = try BodyDecoder(framing: framing, maximumLength: maximumBodyLength, limits: limits)
      phase = .body
      phaseDeadline = now.advanced(byNanoseconds: timeouts.body)
      // RFC 9110 §10.1.1: not needed when part of the body has arrived.
      shouldSendContinue = expectsContinue && input.isEmpty
    } catch {
      phase = .refused(error)
    }
  }

  /// The request is refused without reading its body.
  mutating func reject(_ problem: Problem) { phase = .refused(problem) }

  /// The caller is about to encode a response.
  mutating func beginResponse(now: MonotonicInstant) -> ResponseOptions {
    var response = options
    response.closes =
      options.closes || isDraining || requestCount >= limits.requestsPerConnection
      || (hasInputEnded && input.isEmpty)
    options = ResponseOptions()
    if response.closes {
      phase = .closing
      input.removeAll()
    } else if input.isEmpty {
      input.removeAll()
      phase = .idle
      phaseDeadline = now.advanced(byNanoseconds: timeouts.idle)
    } else {
      beginHead(now)
    }
    return response
  }

  // MARK: Transitions

  private mutating func beginHead(_ now: MonotonicInstant) {
    phase = .head
    phaseDeadline = now.advanced(byNanoseconds: timeouts.head)
    requestBegan = now
  }

  private mutating func beginHandling(_ now: MonotonicInstant) {
    phase = .handling
    phaseDeadline = now.advanced(byNanoseconds: timeouts.handler)
  }

  private mutating func nextOfHead() -> Step {
    let bytes = input.bytes
    do throws(Problem) {
      guard let head = try headDecoder.decode(bytes.span, from: &input.position) else {
        return hasInputEnded ? refuse(.invalidRequest("The request ended before its head did.")) : .wait
      }
      requestCount += 1
      options = ResponseOptions(
        version: head.version, omitsBody: head.method == .head, closes: !head.wantsKeepAlive)
      phase = .routing(head.framing, expectsContinue: head.expectsContinue)
      return .route(head)
    } catch {
      return refuse(error)
    }
  }

  private mutating func nextOfBody(_ now: MonotonicInstant) -> Step {
    if shouldSendContinue {
      shouldSendContinue = false
      return .sendContinue
    }
    let bytes = input.bytes
    do throws(Problem) {
      guard let body = try bodyDecoder?.decode(bytes.span, from: &input.position) else {
        // The body has a buffer of its own, and thousands of connections may receive bodies.
        if input.isEmpty { input.removeAll() }
        return hasInputEnded ? refuse(.invalidRequest("The request ended before its body did.")) : .wait
      }
      bodyDecoder = nil
      beginHandling(now)
      return .handle(body: body)
    } catch {
      return refuse(error)
    }
  }

  /// Responds with a problem and closes the connection, because the start of the next request is unknown.
  private mutating func refuse(_ problem: Problem) -> Step {
    options.closes = true
    bodyDecoder = nil
    phase = .handling
    phaseDeadline = .distantFuture
    return .refuse(problem)
  }
}

/// The received bytes that were not decoded yet.
struct InputBuffer {
  private(set) var bytes: [UInt8] = []
  /// The end of the decoded bytes.
  var position = 0

  var count: Int { bytes.count - position }
  var isEmpty: Bool { count == 0 }

  mutating func append(_ more: UnsafeRawBufferPointer) {
    if position == bytes.count {
      bytes.removeAll(keepingCapacity: true)
      position = 0
    } else if position > bytes.count / 2 {
      bytes.removeSubrange(..<position)
      position = 0
    }
    bytes.append(contentsOf: more)
  }

  /// Removes all bytes, and frees the memory if it is more than a small request needs, because most connections are
  /// idle.
  mutating func removeAll() {
    bytes.removeAll(keepingCapacity: bytes.capacity <= 1024)
    position = 0
  }
}

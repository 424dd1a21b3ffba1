import HTTPTypes
import Sockets

/// One connection's side of HTTP/1.1, as a value: it is told what happened and says what to do. It does no
/// I/O and has no clock.
///
/// One request is served at a time. What has arrived of the next one is kept, but not looked at, until the
/// current one is answered and the answer is on its way: so answers cannot change places, and a client
/// that sends without reading comes to a halt.
///
///     idle ──bytes──▶ head ──▶ routing ──admit──▶ body ──▶ handling ──answer──▶ idle
///                      │           │                │           │
///                      └───────────┴──── refuse ────┴───────────┴── last answer ──▶ closing ──▶ lingering
struct ConnectionState {
  /// What to do next.
  enum Step {
    /// Nothing, until bytes, an answer or time arrive.
    case wait
    /// Find out who answers this, then call ``ConnectionState/admit(maximumBodyLength:now:)`` or
    /// ``ConnectionState/reject(_:)``.
    case route(RequestHead)
    /// Write `100 Continue`.
    case sendContinue
    /// The request is whole. Answer it, then call ``ConnectionState/answer(now:)``.
    case handle(body: [UInt8])
    /// The handler took too long: give it up and answer in its place.
    case abandonHandler
    /// Answer with this problem, then call ``ConnectionState/answer(now:)``.
    indirect case refuse(Problem)
    /// No more will be sent.
    case finishSending
    /// Close the connection.
    case close(CloseReason)
  }

  /// How an answer has to be written.
  struct AnswerForm: Equatable {
    var version = HTTPVersion.http11
    /// The request was `HEAD`.
    var omitsBody = false
    /// The connection ends after this answer.
    var closes = false
  }

  private enum Phase {
    /// Nothing of the next request has arrived.
    case idle
    /// Some of the head has arrived.
    case head
    /// The head was handed out.
    case routing(BodyFraming, expectsContinue: Bool)
    /// Some of the body has not arrived.
    case body
    /// The request is whole, but was not handed out yet.
    case ready(body: [UInt8])
    /// An answer is being made.
    case handling
    /// The request will be answered with this problem.
    indirect case refused(Problem)
    /// The last answer has been given.
    case closing
    /// What still arrives is discarded until the client closes its side. Closing at once would make the
    /// system reset the connection, and the client might lose the answer (RFC 9112 §9.6).
    case lingering
  }

  private let limits: HTTPLimits
  private let waits: Waits
  private var phase = Phase.idle
  private var input = InputBuffer()
  private var headDecoder: HeadDecoder
  private var bodyDecoder: BodyDecoder?
  private var form = AnswerForm()
  private var requestCount = 0
  private var shouldSendContinue = false
  private var hasInputEnded = false
  private var isDraining = false
  /// When the output that the client does not read has to be gone, if there is any.
  private var outputDeadline: MonotonicInstant?
  private var phaseDeadline: MonotonicInstant
  /// When the first byte of the current request was seen.
  private(set) var requestBegan: MonotonicInstant

  /// ``HTTPDeadlines`` in nanoseconds, as they are needed for every request.
  struct Waits {
    let head: UInt64
    let body: UInt64
    let handler: UInt64
    let write: UInt64
    let idle: UInt64
    let linger: UInt64

    init(_ deadlines: HTTPDeadlines) {
      head = deadlines.head.wholeNanoseconds
      body = deadlines.body.wholeNanoseconds
      handler = deadlines.handler.wholeNanoseconds
      write = deadlines.write.wholeNanoseconds
      idle = deadlines.idle.wholeNanoseconds
      linger = deadlines.linger.wholeNanoseconds
    }
  }

  init(limits: HTTPLimits, waits: Waits, now: MonotonicInstant) {
    self.limits = limits
    self.waits = waits
    headDecoder = HeadDecoder(limits: limits)
    phaseDeadline = now.advanced(byNanoseconds: waits.idle)
    requestBegan = now
  }

  /// When ``deadlinePassed(now:)`` has to be called.
  var deadline: MonotonicInstant { outputDeadline ?? phaseDeadline }

  /// Whether more bytes should be read. Beside what waits to be looked at there is room for some more, so
  /// that the end of the connection is noticed.
  var wantsInput: Bool { input.count < 65_536 }

  /// Bytes of a request that is still coming, or of what waits behind the one that is under way.
  var heldBytes: Int { input.count + (bodyDecoder?.heldBytes ?? 0) }

  // MARK: What happened

  mutating func received(_ bytes: UnsafeRawBufferPointer, now: MonotonicInstant) {
    switch phase {
    case .closing, .lingering:
      return
    case .handling where form.closes:
      // Nothing is served behind the last answer.
      return
    case .idle:
      beginHead(now)
    default:
      break
    }
    input.append(bytes)
  }

  /// The client will send no more, but may still wait for answers.
  mutating func inputEnded() { hasInputEnded = true }

  /// The system did not take all of the output.
  mutating func outputBlocked(now: MonotonicInstant) {
    if outputDeadline == nil { outputDeadline = now.advanced(byNanoseconds: waits.write) }
  }

  /// The system has taken all of the output.
  mutating func outputDrained(now: MonotonicInstant) {
    outputDeadline = nil
    switch phase {
    case .idle: phaseDeadline = now.advanced(byNanoseconds: waits.idle)
    case .head: phaseDeadline = now.advanced(byNanoseconds: waits.head)
    case .lingering: phaseDeadline = now.advanced(byNanoseconds: waits.linger)
    default: break
    }
  }

  /// The server is stopping: the request that is under way is the last one.
  mutating func drain() { isDraining = true }

  /// Time is up for what the connection waits for.
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

  /// The server has no memory left for what is held.
  mutating func shed() -> Step {
    switch phase {
    case .head, .body:
      return refuse(.overloaded("Too much is being sent to the server at once."))
    case .handling:
      // Its answer is on its way and will be the last; what waits behind it cannot be told apart any more.
      form.closes = true
      input.removeAll()
      return .wait
    case .idle, .routing, .ready, .refused, .closing, .lingering:
      return .wait
    }
  }

  // MARK: What to do

  /// What to do next; to be asked until it says to wait.
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
      phaseDeadline = now.advanced(byNanoseconds: waits.linger)
      return .finishSending
    case .lingering:
      return hasInputEnded ? .close(.finished) : .wait
    }
  }

  /// The request that was handed out for routing has a taker, who takes a body of that length.
  mutating func admit(maximumBodyLength: Int, now: MonotonicInstant) {
    guard case .routing(let framing, let expectsContinue) = phase else { return }
    guard framing != .none else {
      phase = .ready(body: [])
      return
    }
    do throws(Problem) {
      bodyDecoder = try BodyDecoder(framing: framing, maximumLength: maximumBodyLength, limits: limits)
      phase = .body
      phaseDeadline = now.advanced(byNanoseconds: waits.body)
      // RFC 9110 §10.1.1: not needed once some of the body is there.
      shouldSendContinue = expectsContinue && input.isEmpty
    } catch {
      phase = .refused(error)
    }
  }

  /// The request that was handed out for routing is refused without its body being read.
  mutating func reject(_ problem: Problem) { phase = .refused(problem) }

  /// An answer is about to be written.
  mutating func answer(now: MonotonicInstant) -> AnswerForm {
    var answer = form
    answer.closes =
      form.closes || isDraining || requestCount >= limits.requestsPerConnection
      || (hasInputEnded && input.isEmpty)
    form = AnswerForm()
    if answer.closes {
      phase = .closing
      input.removeAll()
    } else if input.isEmpty {
      input.removeAll()
      phase = .idle
      phaseDeadline = now.advanced(byNanoseconds: waits.idle)
    } else {
      beginHead(now)
    }
    return answer
  }

  // MARK: Steps

  private mutating func beginHead(_ now: MonotonicInstant) {
    phase = .head
    phaseDeadline = now.advanced(byNanoseconds: waits.head)
    requestBegan = now
  }

  private mutating func beginHandling(_ now: MonotonicInstant) {
    phase = .handling
    phaseDeadline = now.advanced(byNanoseconds: waits.handler)
  }

  private mutating func nextOfHead() -> Step {
    let bytes = input.bytes
    do throws(Problem) {
      guard let head = try headDecoder.decode(bytes.span, from: &input.position) else {
        return hasInputEnded ? refuse(.invalidRequest("The request ended before its head did.")) : .wait
      }
      requestCount += 1
      form = AnswerForm(
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
        // Thousands of bodies may be coming, and each of them has its own place already.
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

  /// Answers with a problem and ends the connection: where the next request begins is not certain.
  private mutating func refuse(_ problem: Problem) -> Step {
    form.closes = true
    bodyDecoder = nil
    phase = .handling
    phaseDeadline = .distantFuture
    return .refuse(problem)
  }
}

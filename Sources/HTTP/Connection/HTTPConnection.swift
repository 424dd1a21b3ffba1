import HTTPTypes
import Logging
import Sockets

/// Does what a ``ConnectionState`` says: the part between the socket and the handlers.
final class HTTPConnection {
  private let server: ServerLoop
  private let connection: Connection
  private let peer: IPAddress
  private var state: ConnectionState
  private var exchange: Exchange?
  private var task: Task<Void, Never>?
  private var exchangeCount = 0
  /// What of the loop's ``ServerLoop/heldBytes`` is this connection's, as far as ``account()`` knows.
  private(set) var heldBytes = 0

  /// The request that is being answered; an object, because it is looked at in several places.
  private final class Exchange {
    let head: RequestHead
    let match: Router.Match
    let requestID: RequestID
    let client: IPAddress
    let trace: TraceContext

    init(
      head: RequestHead, match: Router.Match, requestID: RequestID, client: IPAddress, trace: TraceContext
    ) {
      self.head = head
      self.match = match
      self.requestID = requestID
      self.client = client
      self.trace = trace
    }
  }

  init(_ connection: Connection, on server: ServerLoop) {
    self.connection = connection
    self.server = server
    peer = IPAddress(connection.remoteAddress)
    state = ConnectionState(
      limits: server.core.limits, waits: server.core.waits, now: .now)
    connection.deadline = state.deadline
  }

  func drain() {
    state.drain()
    run(&state, now: .now)
  }

  func cut() { connection.close(because: .shutdown) }

  /// Gives up what is held for the client: cuts it off if it does not fetch its answers, otherwise refuses what is still
  /// coming, or forgets what waits behind the request that is under way.
  func shed() {
    if connection.queuedByteCount > 0 {
      connection.close(because: .overloaded)
    } else {
      let now = MonotonicInstant.now
      _ = perform(state.shed(), &state, now: now)
      run(&state, now: now)
    }
    account()
  }

  /// Tells the loop what is held for the client now.
  func account() {
    let held = connection.isOpen ? state.heldBytes + connection.queuedByteCount : 0
    guard held != heldBytes else { return }
    server.heldBytes += held - heldBytes
    heldBytes = held
  }

  // MARK: Doing what the state says

  private func run(_ state: inout ConnectionState, now: MonotonicInstant) {
    while connection.isOpen, perform(state.next(now: now), &state, now: now) {}
    flush(&state, now: now)
    guard connection.isOpen else { return }
    connection.deadline = state.deadline
    if state.wantsInput { connection.resumeReading() } else { connection.pauseReading() }
  }

  /// - Returns: whether there may be more to do.
  private func perform(
    _ step: ConnectionState.Step, _ state: inout ConnectionState, now: MonotonicInstant
  ) -> Bool {
    switch step {
    case .wait:
      return false
    case .route(let head):
      route(head, &state, now: now)
    case .sendContinue:
      server.output.append(contentsOf: ResponseEncoder.continueResponse)
    case .handle(let body):
      handle(body: body, &state, now: now)
    case .abandonHandler:
      abandonHandler()
      answer(.failure(Problem.overloaded("The answer was not ready in time.")), &state, now: now)
    case .refuse(let problem):
      answer(.failure(problem), &state, now: now)
    case .finishSending:
      flush(&state, now: now)
      connection.finishSending()
    case .close(let reason):
      flush(&state, now: now)
      connection.close(because: reason)
      return false
    }
    // Many small answers go out in one system call, but not so many that memory grows.
    if server.output.count > 65_536 { flush(&state, now: now) }
    return true
  }

  private func route(_ head: RequestHead, _ state: inout ConnectionState, now: MonotonicInstant) {
    let match = head.withPath { server.router.match(head.method, $0) }
    exchange = Exchange(
      head: head, match: match,
      requestID: head.givenID.map { .given($0) } ?? server.makeRequestID(),
      client: server.core.trustedProxies.client(of: head, from: peer),
      trace: server.makeTrace(for: head))
    switch match {
    case .route(let endpoint, _):
      state.admit(maximumBodyLength: endpoint.route.maximumBodyLength, now: now)
    case .problem(let problem) where head.expectsContinue:
      // The client asked before it sent its body.
      state.reject(problem)
    case .problem, .options:
      state.admit(maximumBodyLength: server.core.limits.unroutedBody, now: now)
    }
  }

  private func handle(body: [UInt8], _ state: inout ConnectionState, now: MonotonicInstant) {
    guard let exchange else { return }
    switch exchange.match {
    case .options(let allow):
      answer(.success(Response(status: .noContent, headers: [.allow: allow])), &state, now: now)
    case .problem(let problem):
      answer(.failure(problem), &state, now: now)
    case .route(let endpoint, let parameters):
      do {
        let request = try makeRequest(exchange, endpoint.route, parameters, body)
        switch endpoint.route.handler {
        case .immediate(let handler): answer(.success(try handler(request)), &state, now: now)
        case .asynchronous(let handler): start(handler, request, in: exchange.trace)
        }
      } catch {
        answer(.failure(error), &state, now: now)
      }
    }
  }

  private func makeRequest(
    _ exchange: Exchange, _ route: Route, _ parameters: PathParameters, _ body: [UInt8]
  ) throws(Problem) -> Request {
    Request(
      head: exchange.head,
      query: try exchange.head.query.map { query throws(Problem) in try Query(decoding: query) } ?? Query(),
      parameters: parameters, body: body, remoteAddress: connection.remoteAddress,
      clientAddress: exchange.client, routePattern: route.pattern, requestID: exchange.requestID)
  }

  // MARK: Handlers in tasks

  /// Runs the handler in a task whose code runs on this loop, as far as it is not sent elsewhere: that
  /// spares two hops between threads for each request.
  private func start(
    _ handler: @escaping @Sendable (Request) async throws -> Response, _ request: Request,
    in trace: TraceContext
  ) {
    exchangeCount += 1
    let number = exchangeCount
    let bound = LoopBound(self, to: connection.loop)
    task = Task(executorPreference: connection.loop) {
      let result: Result<Response, any Error>
      do {
        result = .success(try await TraceContext.$current.withValue(trace) { try await handler(request) })
      } catch {
        result = .failure(error)
      }
      bound.value.handlerFinished(number, result)
    }
  }

  private func handlerFinished(_ number: Int, _ result: Result<Response, any Error>) {
    // Whose connection is gone, or whose deadline has passed, speaks to nobody.
    guard number == exchangeCount, task != nil, connection.isOpen else { return }
    task = nil
    let now = MonotonicInstant.now
    answer(result, &state, now: now)
    run(&state, now: now)
    account()
    server.makeRoom()
  }

  private func abandonHandler() {
    task?.cancel()
    task = nil
  }

  // MARK: Answers

  private func answer(
    _ result: Result<Response, any Error>, _ state: inout ConnectionState, now: MonotonicInstant
  ) {
    let requestID = exchange?.requestID ?? server.makeRequestID()
    let response: Response
    switch result {
    case .success(let success): response = success
    case .failure(let hangUp as HangUp):
      server.output.append(contentsOf: hangUp.sending)
      flush(&state, now: now)
      return connection.close(because: .finished)
    case .failure(let problem as Problem): response = Response(problem, requestID: requestID)
    case .failure(let error): response = conceal(error, requestID)
    }
    let began = state.requestBegan
    let form = state.answer(now: now)
    let start = server.output.count
    let status = encode(response, form, requestID)
    if let onResponse = server.core.onResponse {
      onResponse(
        RequestSummary(
          method: RequestSummary.boundedName(of: exchange?.head.method),
          route: exchange.flatMap(\.match.pattern) ?? "unmatched",
          routeIndex: exchange?.match.route?.index, status: status,
          nanoseconds: MonotonicInstant.now.nanoseconds(since: began),
          bytesSent: server.output.count - start, trace: exchange?.trace ?? server.makeTrace(for: nil),
          id: requestID, remoteAddress: connection.remoteAddress, clientAddress: exchange?.client ?? peer))
    }
    exchange = nil
  }

  /// - Returns: the status that was written.
  private func encode(
    _ response: Response, _ form: ConnectionState.AnswerForm, _ requestID: RequestID
  ) -> Int {
    let dateField = server.currentDateField()
    do throws(ResponseEncoder.UnsafeField) {
      try ResponseEncoder.encode(
        response, form: form, cacheControl: server.router.cacheControl, requestID: requestID,
        dateField: dateField, to: &server.output)
      return response.status.code
    } catch {
      // Its own fields are constants, so the second attempt cannot fail.
      let substitute = conceal(error, requestID)
      try? ResponseEncoder.encode(
        substitute, form: form, cacheControl: server.router.cacheControl, requestID: requestID,
        dateField: dateField,
        to: &server.output)
      return substitute.status.code
    }
  }

  /// What went wrong is for the log; the client learns that something did.
  private func conceal(_ error: any Error, _ requestID: RequestID) -> Response {
    server.core.logger.error(
      "A handler failed",
      metadata: [
        "request": "\(requestID)", "trace": "\(exchange?.trace.traceID ?? "")",
        "route": "\(exchange?.match.pattern ?? "unmatched")",
        "error": "\(error)",
      ])
    return Response(Problem.internalError, requestID: requestID)
  }

  private func flush(_ state: inout ConnectionState, now: MonotonicInstant) {
    guard !server.output.isEmpty else { return }
    let isDrained = server.output.withUnsafeBytes { connection.send($0) }
    if !isDrained { state.outputBlocked(now: now) }
    // One large answer must not leave its memory with the loop for good.
    server.output.removeAll(keepingCapacity: server.output.capacity <= 131_072)
  }
}

extension HTTPConnection: ConnectionHandler {
  func connection(_ connection: Connection, received bytes: UnsafeRawBufferPointer) {
    let now = MonotonicInstant.now
    state.received(bytes, now: now)
    run(&state, now: now)
    account()
    server.makeRoom()
  }

  func connectionReachedEnd(_ connection: Connection) {
    state.inputEnded()
    run(&state, now: .now)
    account()
  }

  func connectionDrained(_ connection: Connection) {
    let now = MonotonicInstant.now
    state.outputDrained(now: now)
    run(&state, now: now)
    account()
  }

  func connection(_ connection: Connection, deadlinePassedAt now: MonotonicInstant) {
    _ = perform(state.deadlinePassed(now: now), &state, now: now)
    run(&state, now: now)
    account()
  }

  func connection(_ connection: Connection, closedBecause reason: CloseReason) {
    abandonHandler()
    account()
    server.remove(connection)
  }
}

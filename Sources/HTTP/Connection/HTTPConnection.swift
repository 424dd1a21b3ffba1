import HTTPTypes
import Logging
import Platform
import Sockets

/// Connects a ``ConnectionState`` with the socket and the request handlers: it passes events in and performs the steps.
final class HTTPConnection {
  private let server: ServerLoop
  private let connection: Connection
  private let peer: IPAddress
  private var state: ConnectionState
  private var request: RequestContext?
  private var task: Task<Void, Never>?
  private var handlerCount = 0
  /// This connection's part of ``ServerLoop/bufferedBytes`` at the last ``updateBufferedBytes()``.
  private(set) var bufferedBytes = 0

  /// The current request with its route. A class, so that passing it copies one reference.
  private final class RequestContext {
    let head: RequestHead
    let match: Router.Match
    let requestID: RequestID
    let client: IPAddress
    let trace: TraceContext
    var reachedHandler = false

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
      limits: server.core.limits, timeouts: server.core.timeouts, now: .now)
    connection.deadline = state.deadline
  }

  func drain() {
    state.drain()
    run(&state, now: .now)
  }

  func close() { connection.close(because: .shutdown) }

  /// Frees the buffers: closes the connection if the client does not read its responses, otherwise refuses the
  /// incomplete request or drops the pipelined ones.
  func shedLoad() {
    if connection.queuedByteCount > 0 {
      connection.close(because: .overloaded)
    } else {
      let now = MonotonicInstant.now
      _ = perform(state.shedLoad(), &state, now: now)
      run(&state, now: now)
    }
    updateBufferedBytes()
  }

  /// Updates the loop's count of buffered bytes.
  func updateBufferedBytes() {
    let count = connection.isOpen ? state.bufferedBytes + connection.queuedByteCount : 0
    guard count != bufferedBytes else { return }
    server.bufferedBytes += count - bufferedBytes
    bufferedBytes = count
  }

  // MARK: Steps

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
      respond(.failure(Problem.overloaded("The response was not ready in time.")), &state, now: now)
    case .refuse(let problem):
      respond(.failure(problem), &state, now: now)
    case .finishSending:
      flush(&state, now: now)
      connection.finishSending()
    case .close(let reason):
      flush(&state, now: now)
      connection.close(because: reason)
      return false
    }
    // Several small responses are sent with one system call; the limit bounds the memory.
    if server.output.count > 65_536 { flush(&state, now: now) }
    return true
  }

  private func route(_ head: RequestHead, _ state: inout ConnectionState, now: MonotonicInstant) {
    let match = head.withPath { server.router.match(head.method, $0) }
    request = RequestContext(
      head: head, match: match,
      requestID: head.clientRequestID.map { .client($0) } ?? server.makeRequestID(),
      client: server.core.trustedProxies.client(of: head, from: peer),
      trace: server.makeTrace(for: head))
    switch match {
    case .route(let endpoint, _):
      state.admit(maximumBodyLength: endpoint.route.maximumBodyLength, now: now)
    case .problem(let problem) where head.expectsContinue:
      // The client waits for permission to send its body.
      state.reject(problem)
    case .problem, .options:
      state.admit(maximumBodyLength: server.core.limits.unroutedBody, now: now)
    }
  }

  private func handle(body: [UInt8], _ state: inout ConnectionState, now: MonotonicInstant) {
    guard let context = request else { return }
    switch context.match {
    case .options(let allow):
      respond(.success(Response(status: .noContent, headers: [.allow: allow])), &state, now: now)
    case .problem(let problem):
      respond(.failure(problem), &state, now: now)
    case .route(let endpoint, let parameters):
      do {
        let request = try makeRequest(context, endpoint.route, parameters, body)
        context.reachedHandler = true
        switch endpoint.route.handler {
        case .immediate(let handler): respond(.success(try handler(request)), &state, now: now)
        case .asynchronous(let handler): start(handler, request, in: context.trace)
        }
      } catch {
        respond(.failure(error), &state, now: now)
      }
    }
  }

  private func makeRequest(
    _ context: RequestContext, _ route: Route, _ parameters: PathParameters, _ body: [UInt8]
  ) throws(Problem) -> Request {
    Request(
      head: context.head,
      query: try context.head.query.map { query throws(Problem) in try Query(decoding: query) } ?? Query(),
      parameters: parameters, body: body, remoteAddress: connection.remoteAddress,
      clientAddress: context.client, routePattern: route.pattern, requestID: context.requestID)
  }

  // MARK: Handlers in tasks

  /// Runs the handler in a task that prefers this loop, which saves two changes of threads for each request.
  private func start(_ handler: @escaping Responder, _ request: Request, in trace: TraceContext) {
    handlerCount += 1
    let number = handlerCount
    let bound = LoopBound(self, to: connection.loop)
    var trace = trace
    trace.request = request.requestID
    task = Task(executorPreference: connection.loop.queue) {
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
    // Drop the response: the connection is closed or the handler's deadline has passed.
    guard number == handlerCount, task != nil, connection.isOpen else { return }
    task = nil
    let now = MonotonicInstant.now
    respond(result, &state, now: now)
    run(&state, now: now)
    updateBufferedBytes()
    server.enforceBufferLimit()
  }

  private func abandonHandler() {
    task?.cancel()
    task = nil
  }

  // MARK: Responses

  private func respond(
    _ result: Result<Response, any Error>, _ state: inout ConnectionState, now: MonotonicInstant
  ) {
    let requestID = request?.requestID ?? server.makeRequestID()
    let response: Response
    var problem: Problem?
    switch result {
    case .success(let success): response = success
    case .failure(let abort as ConnectionAbort):
      server.output.append(contentsOf: abort.sending)
      flush(&state, now: now)
      return connection.close(because: .finished)
    case .failure(let failure as Problem):
      problem = failure
      response = Response(failure, requestID: requestID)
    case .failure(let error):
      problem = .internalError
      response = internalError(for: error, requestID)
    }
    let began = state.requestBegan
    let options = state.beginResponse(now: now)
    let start = server.output.count
    let status = encode(response, options, requestID)
    if let onResponse = server.core.onResponse {
      onResponse(
        RequestSummary(
          method: RequestSummary.boundedName(of: request?.head.method),
          route: request.flatMap(\.match.pattern) ?? "unmatched",
          routeIndex: request?.match.route?.index, reachedHandler: request?.reachedHandler ?? false,
          status: status, problem: problem,
          nanoseconds: MonotonicInstant.now.nanoseconds(since: began),
          bytesSent: server.output.count - start, trace: request?.trace ?? server.makeTrace(for: nil),
          id: requestID, remoteAddress: connection.remoteAddress, clientAddress: request?.client ?? peer))
    }
    request = nil
  }

  /// - Returns: the status that was written.
  private func encode(
    _ response: Response, _ options: ConnectionState.ResponseOptions, _ requestID: RequestID
  ) -> Int {
    let dateField = server.currentDateField()
    do throws(ResponseEncoder.UnsafeField) {
      try ResponseEncoder.encode(
        response, options: options, cacheControl: server.router.cacheControl, requestID: requestID,
        dateField: dateField, to: &server.output)
      return response.status.code
    } catch {
      // The fields of this response are constants, so the second attempt cannot fail.
      let substitute = internalError(for: error, requestID)
      try? ResponseEncoder.encode(
        substitute, options: options, cacheControl: server.router.cacheControl, requestID: requestID,
        dateField: dateField,
        to: &server.output)
      return substitute.status.code
    }
  }

  /// Logs the error, which the client must not see.
  ///
  /// - Returns: a 500 without the cause.
  private func internalError(for error: any Error, _ requestID: RequestID) -> Response {
    server.core.logger.error(
      "a request handler failed",
      metadata: [
        "request": "\(requestID)", "trace": "\(request?.trace.traceID ?? "")",
        "route": "\(request?.match.pattern ?? "unmatched")",
        "error": "\(error)",
      ])
    return Response(Problem.internalError, requestID: requestID)
  }

  private func flush(_ state: inout ConnectionState, now: MonotonicInstant) {
    guard !server.output.isEmpty else { return }
    let isFlushed = server.output.withUnsafeBytes { connection.send($0) }
    if !isFlushed { state.outputBlocked(now: now) }
    // Free the memory of a large response.
    server.output.removeAll(keepingCapacity: server.output.capacity <= 131_072)
  }
}

extension HTTPConnection: ConnectionHandler {
  func connection(_ connection: Connection, received bytes: UnsafeRawBufferPointer) {
    let now = MonotonicInstant.now
    state.received(bytes, now: now)
    run(&state, now: now)
    updateBufferedBytes()
    server.enforceBufferLimit()
  }

  func connectionReachedEnd(_ connection: Connection) {
    state.inputEnded()
    run(&state, now: .now)
    updateBufferedBytes()
  }

  func connectionFlushed(_ connection: Connection) {
    let now = MonotonicInstant.now
    state.outputFlushed(now: now)
    run(&state, now: now)
    updateBufferedBytes()
  }

  func connection(_ connection: Connection, deadlinePassedAt now: MonotonicInstant) {
    _ = perform(state.deadlinePassed(now: now), &state, now: now)
    run(&state, now: now)
    updateBufferedBytes()
  }

  func connection(_ connection: Connection, closedBecause reason: CloseReason) {
    abandonHandler()
    updateBufferedBytes()
    server.remove(connection)
  }
}

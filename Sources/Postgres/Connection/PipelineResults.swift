import CLibpq

/// The expected results of a batch: matches libpq's results with the messages that were sent.
struct PipelineResults {
  /// A message that was sent, in the order of the responses.
  enum Step {
    /// A statement without rows: SAVEPOINT, DEALLOCATE.
    case command
    /// A statement that must complete with this command tag: BEGIN, COMMIT.
    case commandTag(String)
    /// The preparation of a statement.
    case preparation(StatementCache.Statement)
    /// A statement with rows.
    case query
    /// The end of a pipeline, whose statements are committed or rolled back together.
    /// `isFatal`: whether a failure in the pipeline is the caller's.
    case sync(isFatal: Bool)
    /// Statements in the simple query protocol.
    case script
  }

  private let steps: [Step]
  private var position = 0
  private(set) var results: [Rows] = []
  /// The first failure.
  var failure: PostgresError?
  /// The statements whose preparation failed or did not run.
  private(set) var unprepared: [StatementCache.Statement] = []
  /// Whether the connection must be closed: it is in COPY mode, or the results do not match the messages.
  private(set) var isUnusable = false
  private var hasEndedStep = false
  /// Whether a result other than a failure has arrived.
  private(set) var hasProgress = false

  init(_ steps: [Step], resultCount: Int = 1) {
    self.steps = steps
    results.reserveCapacity(resultCount)
  }

  var isFinished: Bool { position == steps.count }

  /// Processes the next result; nil ends the results of one step.
  mutating func receive(_ result: OpaquePointer?) {
    guard let result else { return endStep() }
    hasEndedStep = false
    switch PQresultStatus(result) {
    case PGRES_PIPELINE_SYNC:
      hasProgress = true
      PQclear(result)
      endPipeline()
    case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY:
      hasProgress = true
      if position < steps.count, case .query = steps[position] {
        results.append(Rows(storage: ResultStorage(result)))
      } else {
        checkCommandTag(of: result)
        PQclear(result)
      }
    case PGRES_COPY_IN, PGRES_COPY_OUT, PGRES_COPY_BOTH:
      PQclear(result)
      isUnusable = true
      fail(PostgresError(.misuse("COPY is not supported")))
    case PGRES_PIPELINE_ABORTED:
      PQclear(result)
      noteUnprepared()
    default:
      noteUnprepared()
      if let report = ServerReport(result) {
        fail(PostgresError(report))
      } else {
        let message = PQresultErrorMessage(result).map { String(cString: $0) } ?? ""
        fail(PostgresError(.unavailable(String(message.prefix { $0 != "\n" }))))
      }
      PQclear(result)
    }
  }

  private mutating func checkCommandTag(of result: OpaquePointer) {
    guard position < steps.count, case .commandTag(let expected) = steps[position] else { return }
    let tag = PQcmdStatus(result).map { String(cString: $0) } ?? ""
    if tag == expected { return }
    // The server ran another statement, so the state of the session is unknown.
    isUnusable = true
    fail(
      PostgresError(.misuse("the server ran \(expected) and responded with \(tag.isEmpty ? "rows" : tag)")))
  }

  private mutating func endStep() {
    guard position < steps.count else { return }
    // Two ends without a result in between: libpq has no more results.
    if hasEndedStep { isUnusable = true }
    hasEndedStep = true
    // Only a sync result ends a pipeline. An error of the commit itself comes before it.
    if case .sync = steps[position] { return }
    position += 1
  }

  private mutating func endPipeline() {
    guard position < steps.count else { return }
    if case .sync(let isFatal) = steps[position], !isFatal { failure = nil }
    position += 1
  }

  private mutating func noteUnprepared() {
    if position < steps.count, case .preparation(let statement) = steps[position] {
      unprepared.append(statement)
    }
  }

  private mutating func fail(_ error: PostgresError) {
    if failure == nil { failure = error }
  }
}

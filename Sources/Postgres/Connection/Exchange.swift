import CLibpq

/// What was sent in one go and what is expected back: it takes libpq's results in order and says
/// when the last one has come.
struct Exchange {
  /// One message sent, in the order of the answers.
  enum Step {
    /// A statement whose rows nobody wants: SAVEPOINT, DEALLOCATE.
    case command
    /// One that the server answers with this word, or else something went wrong: BEGIN, COMMIT.
    case word(String)
    /// The preparation of a statement.
    case preparation(StatementCache.Statement)
    /// A statement whose rows somebody wants.
    case query
    /// The end of a pipeline: what came before it is committed or undone together.
    /// `isFatal` says whether a failure before it is the caller's.
    case sync(isFatal: Bool)
    /// Statements in the simple protocol.
    case script
  }

  private let steps: [Step]
  private var position = 0
  private(set) var results: [Rows] = []
  /// The first failure.
  private(set) var failure: PostgresError?
  /// Preparations that did not succeed.
  private(set) var unprepared: [StatementCache.Statement] = []
  /// The connection cannot go on: it speaks COPY, which nobody here does, or has lost count.
  private(set) var isUnusable = false
  private var hasEndedStep = false
  /// A result other than a failure has come.
  private(set) var hasProgress = false

  init(_ steps: [Step], resultCount: Int = 1) {
    self.steps = steps
    results.reserveCapacity(resultCount)
  }

  var isFinished: Bool { position == steps.count }

  /// Takes the next result; nil ends the results of one step.
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
        checkWord(of: result)
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

  private mutating func checkWord(of result: OpaquePointer) {
    guard position < steps.count, case .word(let expected) = steps[position] else { return }
    let word = PQcmdStatus(result).map { String(cString: $0) } ?? ""
    if word == expected { return }
    // What it ran in place of it nobody knows.
    isUnusable = true
    fail(PostgresError(.misuse("the server answered \(expected) with \(word.isEmpty ? "rows" : word)")))
  }

  private mutating func endStep() {
    guard position < steps.count else { return }
    // Two ends without a result in between: libpq has nothing more, and would say so forever.
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

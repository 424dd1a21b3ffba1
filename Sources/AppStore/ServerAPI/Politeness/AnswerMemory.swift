import FoundationEssentials

/// A whole answer of the store.
typealias ServerAnswer = Result<ServerSuccess, AppStoreServerError>

/// A success, not yet decoded.
struct ServerSuccess: Sendable {
  let status: Int
  let body: [UInt8]
}

/// What is asked: where, and for which path.
struct Question: Hashable, Sendable {
  let environment: Environment
  let path: String
}

/// What the store answered in the last moments.
///
/// An answer of some seconds ago does no harm: what it says is signed, and whoever takes it in orders facts by their
/// signed date, so it never undoes a newer one.
struct AnswerMemory {
  private struct Entry {
    let answer: ServerAnswer
    let date: Date
    let length: Int
  }

  /// The longest that an answer is of use to anybody.
  static let lifetime: TimeInterval = 3
  let maximumCount: Int
  let maximumBytes: Int

  private var entries: [Question: Entry] = [:]
  /// Oldest first.
  private var order: [Question] = []
  private(set) var bytes = 0

  init(maximumCount: Int = 512, maximumBytes: Int = 8 << 20) {
    self.maximumCount = maximumCount
    self.maximumBytes = maximumBytes
  }

  var count: Int { entries.count }

  /// The answer to a question, unless it is older than the asker takes.
  func answer(to question: Question, at date: Date, maximumAge: TimeInterval) -> ServerAnswer? {
    guard let entry = entries[question] else { return nil }
    let age = date.timeIntervalSince(entry.date)
    // Not one from the future either, which a clock that was set back makes last.
    return age >= 0 && age < min(maximumAge, Self.lifetime) ? entry.answer : nil
  }

  /// Keeps an answer, and drops the oldest ones beyond the bounds.
  mutating func remember(_ answer: ServerAnswer, to question: Question, at date: Date) {
    guard answer.isLasting else { return }
    drop(question)
    let length = (try? answer.get().body.count) ?? 0
    guard length <= maximumBytes / 8 else { return }
    entries[question] = Entry(answer: answer, date: date, length: length)
    order.append(question)
    bytes += length
    while let oldest = order.first,
      entries.count > maximumCount || bytes > maximumBytes || isOld(oldest, date)
    {
      drop(oldest)
    }
  }

  /// Forgets everything.
  mutating func forget() {
    entries = [:]
    order = []
    bytes = 0
  }

  private func isOld(_ question: Question, _ date: Date) -> Bool {
    entries[question].map { date.timeIntervalSince($0.date) >= Self.lifetime } ?? true
  }

  private mutating func drop(_ question: Question) {
    guard let entry = entries.removeValue(forKey: question) else { return }
    bytes -= entry.length
    if let place = order.firstIndex(of: question) { order.remove(at: place) }
  }
}

extension ServerAnswer {
  /// Whether the same question would get the same answer a moment later: found, and not found. Production's 401
  /// without JSON belongs to the latter, since it sends every question about an unreleased app to the sandbox.
  var isLasting: Bool {
    switch self {
    case .success: true
    case .failure(.unauthorizedWithoutJSON): true
    case .failure(.rejected(let rejection)):
      rejection.code != nil && !rejection.isRetryable && (400..<500).contains(rejection.status)
    case .failure: false
    }
  }
}

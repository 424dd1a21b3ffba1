import Foundation

/// The outcome of one call to the store.
typealias ServerResult = Result<ServerSuccess, AppStoreServerError>

/// A successful response that is not yet decoded.
struct ServerSuccess: Sendable {
  let status: Int
  let body: [UInt8]
}

/// The cache key of a read request: the environment and the path with its query.
struct RequestKey: Hashable, Sendable {
  let environment: Environment
  let path: String
}

/// A bounded cache of the store's responses of the last seconds.
///
/// A stale response does no harm: its content is signed, and callers order facts by their signed date, so an older
/// fact never undoes a newer one.
struct ResponseCache {
  private struct Entry {
    let result: ServerResult
    let date: Date
    let length: Int
  }

  /// The time after which an entry is no longer used.
  static let lifetime: TimeInterval = 3
  let maximumCount: Int
  let maximumBytes: Int

  private var entries: [RequestKey: Entry] = [:]
  /// Oldest first.
  private var order: [RequestKey] = []
  private(set) var bytes = 0

  init(maximumCount: Int = 512, maximumBytes: Int = 8 << 20) {
    self.maximumCount = maximumCount
    self.maximumBytes = maximumBytes
  }

  var count: Int { entries.count }

  /// Returns the cached result of a request, unless it is older than the caller accepts.
  func result(of request: RequestKey, at date: Date, maximumAge: TimeInterval) -> ServerResult? {
    guard let entry = entries[request] else { return nil }
    let age = date.timeIntervalSince(entry.date)
    // A negative age appears after the clock was set back; such an entry would live too long.
    return age >= 0 && age < min(maximumAge, Self.lifetime) ? entry.result : nil
  }

  /// Stores a result and evicts the oldest entries beyond the bounds.
  mutating func insert(_ result: ServerResult, for request: RequestKey, at date: Date) {
    guard result.isCacheable else { return }
    remove(request)
    let length = (try? result.get().body.count) ?? 0
    guard length <= maximumBytes / 8 else { return }
    entries[request] = Entry(result: result, date: date, length: length)
    order.append(request)
    bytes += length
    while let oldest = order.first,
      entries.count > maximumCount || bytes > maximumBytes || isExpired(oldest, date)
    {
      remove(oldest)
    }
  }

  /// Removes all entries.
  mutating func removeAll() {
    entries = [:]
    order = []
    bytes = 0
  }

  private func isExpired(_ request: RequestKey, _ date: Date) -> Bool {
    entries[request].map { date.timeIntervalSince($0.date) >= Self.lifetime } ?? true
  }

  private mutating func remove(_ request: RequestKey) {
    guard let entry = entries.removeValue(forKey: request) else { return }
    bytes -= entry.length
    if let index = order.firstIndex(of: request) { order.remove(at: index) }
  }
}

extension ServerResult {
  /// Whether the same request gets the same response a moment later: found, or not found. Production's 401 without
  /// JSON counts as not found, because it sends every request about an unreleased app to the sandbox.
  var isCacheable: Bool {
    switch self {
    case .success: true
    case .failure(.unauthorizedWithoutJSON): true
    case .failure(.rejected(let rejection)):
      rejection.code != nil && !rejection.isRetryable && (400..<500).contains(rejection.status)
    case .failure: false
    }
  }
}

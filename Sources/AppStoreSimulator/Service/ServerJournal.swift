import AppStore
import FoundationEssentials

/// A request that the App Store Server API got.
public struct ServerRequest: Codable, Hashable, Sendable {
  /// When, in real time: milliseconds since 1970.
  public var at: Int64
  /// `GET`, `POST` or `PUT`.
  public var method: String
  /// Path and query, without what stands before `/inApps`.
  public var path: String
  /// What was asked.
  public var endpoint: ServerEndpoint
  /// Production or sandbox.
  public var environment: Environment
  /// The app of the bearer token; nil without a good one.
  public var bundleID: String?
  /// The fault that befell it.
  public var fault: ServerFault.Kind?
  /// What was answered; nil while it is not, and for a connection that was closed without an answer.
  public var status: Int?
}

/// The latest requests, so that a test can count calls and see at what rate they came.
struct ServerJournal: Sendable {
  private let capacity: Int
  private(set) var requests: [ServerRequest] = []
  /// The number of the oldest one that is kept.
  private var first = 0

  init(capacity: Int = 10_000) {
    self.capacity = capacity
  }

  /// - Returns: the number by which the answer is noted.
  mutating func note(_ request: ServerRequest) -> Int {
    if requests.count == capacity {
      // Half at a time, because each removal moves what stays.
      let dropped = max(1, capacity / 2)
      requests.removeFirst(dropped)
      first += dropped
    }
    requests.append(request)
    return first + requests.count - 1
  }

  mutating func answered(_ number: Int, status: Int?) {
    guard requests.indices.contains(number - first) else { return }
    requests[number - first].status = status
  }

  mutating func clear() {
    first += requests.count
    requests = []
  }
}

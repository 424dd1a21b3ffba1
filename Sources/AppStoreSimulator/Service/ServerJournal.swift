import AppStore
import Foundation

/// A request to the App Store Server API.
public struct ServerRequest: Codable, Hashable, Sendable {
  /// The real time in milliseconds since 1970.
  public var at: Int64
  /// `GET`, `POST` or `PUT`.
  public var method: String
  /// Path and query from `/inApps` on.
  public var path: String
  /// The endpoint.
  public var endpoint: ServerEndpoint
  /// Production or sandbox.
  public var environment: Environment
  /// The app of the bearer token; nil without a valid one.
  public var bundleID: String?
  /// The applied fault.
  public var fault: ServerFault.Kind?
  /// The status of the response; nil before it, and for a connection that was closed without one.
  public var status: Int?
}

/// A bounded log of the latest requests, for tests that count requests or check their rate.
struct ServerJournal: Sendable {
  private let capacity: Int
  private(set) var requests: [ServerRequest] = []
  /// The number of the oldest kept request.
  private var first = 0

  init(capacity: Int = 10_000) {
    self.capacity = capacity
  }

  /// - Returns: the number for recording the response.
  mutating func note(_ request: ServerRequest) -> Int {
    if requests.count == capacity {
      // Drops half at once, because each removal moves the rest.
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

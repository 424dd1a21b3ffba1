import Curl
import Foundation
import HTTPTypes

/// A client of the control API of a running simulator.
public struct ControlClient: Sendable {
  private let base: String
  private let client = CurlClient()

  /// - Parameter base: the address of the simulator, such as `http://127.0.0.1:4000`.
  public init(base: String) {
    self.base = base
  }

  /// A response other than 2xx.
  public struct Failure: Error, CustomStringConvertible {
    /// The status.
    public let status: Int
    /// The problem.
    public let body: String

    /// The status and the problem.
    public var description: String { "\(status): \(body)" }
  }

  /// Sends a request to a path such as `/control/notifications` and returns the JSON of the answer.
  public func send(
    _ method: HTTPRequest.Method, _ path: String, json: Data? = nil
  ) async throws -> [UInt8] {
    let response = try await client.send(
      CurlRequest(
        method: method, url: base + path, headers: [.contentType: "application/json"],
        body: Array(json ?? Data()), timeout: .seconds(60)))
    guard (200...299).contains(response.status) else {
      throw Failure(status: response.status, body: String(decoding: response.body, as: UTF8.self))
    }
    return response.body
  }
}

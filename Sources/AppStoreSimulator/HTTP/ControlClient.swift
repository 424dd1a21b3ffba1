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

  /// No simulator at the address.
  public struct Unreachable: Error, CustomStringConvertible {
    /// The address.
    public let base: String

    /// What to start, and the option that names another address.
    public var description: String {
      "nothing answers at \(base); start `appstore-simulator serve` or `appstore-simulator xcode`, or name its address with --url"
    }
  }

  /// Sends a request to a path such as `/control/notifications` and returns the JSON of the answer.
  public func send(
    _ method: HTTPRequest.Method, _ path: String, json: Data? = nil
  ) async throws -> [UInt8] {
    let request = CurlRequest(
      method: method, url: base + path, headers: [.contentType: "application/json"],
      body: Array(json ?? Data()), timeout: .seconds(60))
    let response: CurlResponse
    do {
      response = try await client.send(request)
    } catch {
      if case .couldNotConnect = error { throw Unreachable(base: base) }
      throw error
    }
    guard (200...299).contains(response.status) else {
      throw Failure(status: response.status, body: String(decoding: response.body, as: UTF8.self))
    }
    return response.body
  }
}

import Curl
import Foundation
import HTTP
import HTTPTypes

/// A client of the control API of a running simulator.
public struct ControlClient: Sendable {
  private let base: String
  private let client: CurlClient

  /// - Parameter base: the address of the simulator, such as `http://127.0.0.1:4000`.
  public init(base: String, client: CurlClient = CurlClient()) {
    self.base = base.hasSuffix("/") ? String(base.dropLast()) : base
    self.client = client
  }

  /// A response other than 2xx.
  public struct Failure: Error, CustomStringConvertible {
    /// The status.
    public let status: Int
    /// The body.
    public let body: String

    /// The detail of the problem, or else the whole body.
    public var description: String {
      struct Problem: Decodable { let detail: String }
      let problem = try? JSONDecoder().decode(Problem.self, from: Data(body.utf8))
      return "\(status): \(problem?.detail ?? body)"
    }
  }

  /// Reads the JSON at a path such as `/control/notifications`.
  public func get(_ path: String) async throws -> [UInt8] {
    try await send(CurlRequest(url: base + path))
  }

  /// Posts a value, times in RFC 3339.
  public func post(_ path: String, _ body: some Encodable) async throws -> [UInt8] {
    try await send(.post, path, body)
  }

  /// Puts a value, times in RFC 3339.
  public func put(_ path: String, _ body: some Encodable) async throws -> [UInt8] {
    try await send(.put, path, body)
  }

  /// Deletes the resource at a path.
  public func delete(_ path: String) async throws -> [UInt8] {
    try await send(CurlRequest(method: .delete, url: base + path))
  }

  private func send(
    _ method: HTTPRequest.Method, _ path: String, _ body: some Encodable
  ) async throws -> [UInt8] {
    try await send(
      CurlRequest(
        method: method, url: base + path, headers: [.contentType: "application/json"],
        body: JSONCoding.encode(body, times: .milliseconds), timeout: .seconds(60)))
  }

  private func send(_ request: CurlRequest) async throws -> [UInt8] {
    let response = try await client.send(request)
    guard (200...299).contains(response.status) else {
      throw Failure(status: response.status, body: String(decoding: response.body, as: UTF8.self))
    }
    return response.body
  }
}

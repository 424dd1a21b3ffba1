import Foundation
import HTTPTypes
import Synchronization

@testable import AppStore

/// An HTTP client that responds from a closure and records the requests.
final class StubTransport: HTTPTransport {
  struct Sent: Sendable {
    let request: HTTPRequest
    let body: [UInt8]?

    var url: String { "\(request.scheme ?? "")://\(request.authority ?? "")\(request.path ?? "")" }
    var token: String? { request.headerFields[.authorization]?.components(separatedBy: "Bearer ").last }
  }

  struct Answer: Sendable {
    var status: HTTPResponse.Status = .ok
    var fields: HTTPFields = [:]
    var body: String
  }

  private let log = Mutex<[Sent]>([])
  private let answer: @Sendable (Sent) throws -> Answer

  init(answer: @escaping @Sendable (Sent) throws -> Answer) { self.answer = answer }

  var sent: [Sent] { log.withLock { $0 } }

  func send(
    _ request: HTTPRequest, body: [UInt8]?, timeout: Duration
  ) async throws -> (HTTPResponse, [UInt8]) {
    let sent = Sent(request: request, body: body)
    log.withLock { $0.append(sent) }
    let answer = try answer(sent)
    return (HTTPResponse(status: answer.status, headerFields: answer.fields), Array(answer.body.utf8))
  }
}

extension StubTransport.Answer {
  static func json(_ body: String) -> Self { Self(body: body) }

  static func error(_ code: Int64) -> Self {
    Self(
      status: .init(code: Int(code / 10_000)),
      body: #"{"errorCode":\#(code),"errorMessage":"As Apple says it."}"#)
  }

  static let unauthenticated = Self(status: .unauthorized, body: "Unauthenticated\n\nRequest ID: X.0.0\n")
}

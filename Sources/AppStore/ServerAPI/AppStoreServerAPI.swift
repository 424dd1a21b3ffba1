import FoundationEssentials
import HTTPTypes

/// The App Store Server API for one app.
///
/// Each call is one request; nothing is repeated here. Signed data in answers is not verified here either:
/// give it to `SignedDataVerifier`.
public struct AppStoreServerAPI: Sendable {
  /// The longest answer that is decoded; the longest known ones, pages of history, have some 200 kB.
  static let maximumAnswer = 8 * 1024 * 1024

  private let transport: any HTTPTransport
  private let tokens: BearerTokens
  private let production: AppStoreAddress
  private let sandbox: AppStoreAddress
  private let timeout: Duration

  /// - Parameters:
  ///   - bundleID: the app, which every token names.
  ///   - production: where production is.
  ///   - sandbox: where the sandbox is.
  ///   - timeout: for each request.
  ///   - now: the clock for the tokens.
  public init(
    transport: any HTTPTransport, credentials: AppStoreCredentials, bundleID: String,
    production: AppStoreAddress = .production, sandbox: AppStoreAddress = .sandbox,
    timeout: Duration = .seconds(10), now: @escaping @Sendable () -> Date = { Date() }
  ) {
    self.transport = transport
    tokens = BearerTokens(credentials: credentials, bundleID: bundleID, now: now)
    self.production = production
    self.sandbox = sandbox
    self.timeout = timeout
  }

  /// Calls an endpoint whose answer has a body.
  func call<Answer: Decodable>(
    _ call: ServerCall, in environment: Environment, as _: Answer.Type = Answer.self
  ) async throws(AppStoreServerError) -> Answer {
    let (status, body) = try await send(call, in: environment)
    do {
      return try JSONDecoder().decode(Answer.self, from: Data(body))
    } catch {
      throw .undecodableAnswer(status: status, detail: "not the JSON of \(Answer.self)")
    }
  }

  /// Calls an endpoint whose answer is its status.
  func call(_ call: ServerCall, in environment: Environment) async throws(AppStoreServerError) {
    _ = try await send(call, in: environment)
  }

  private func send(
    _ call: ServerCall, in environment: Environment
  ) async throws(AppStoreServerError) -> (status: Int, body: [UInt8]) {
    let address: AppStoreAddress
    switch environment {
    case .production: address = production
    case .sandbox: address = sandbox
    default: throw .invalidArgument("environment")
    }
    let token: String
    do { token = try await tokens.token() } catch { throw .tokenNotSigned(error) }
    let request = call.request(to: address, bearer: token)
    let response: HTTPResponse
    let body: [UInt8]
    do {
      (response, body) = try await transport.send(request, body: call.body, timeout: timeout)
    } catch {
      throw .transport(error)
    }
    guard body.count <= Self.maximumAnswer else {
      throw .undecodableAnswer(
        status: response.status.code, detail: "longer than \(Self.maximumAnswer) bytes")
    }
    guard response.status.kind == .successful else { throw AppStoreServerError(response, body) }
    return (response.status.code, body)
  }
}

extension AppStoreServerError {
  private struct Body: Decodable {
    let errorCode: Int64
    let errorMessage: String?
  }

  fileprivate init(_ response: HTTPResponse, _ body: [UInt8]) {
    let said = try? JSONDecoder().decode(Body.self, from: Data(body))
    if said == nil, response.status == .unauthorized {
      self = .unauthorizedWithoutJSON
      return
    }
    self = .rejected(
      Rejection(
        status: response.status.code, code: said.map { AppStoreErrorCode(rawValue: $0.errorCode) },
        message: said?.errorMessage,
        retryAfter: response.headerFields[.retryAfter].flatMap(Self.instant)))
  }

  /// Milliseconds since 1970, digits only.
  private static func instant(_ text: String) -> Date? {
    guard (1...15).contains(text.utf8.count) else { return nil }
    var milliseconds: Int64 = 0
    for digit in text.utf8 {
      guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { return nil }
      milliseconds = milliseconds * 10 + Int64(digit - UInt8(ascii: "0"))
    }
    return Date(millisecondsSince1970: milliseconds)
  }
}

import Foundation
import HTTPTypes

/// Sends one request to the App Store Server API and classifies the response.
struct ServerExchange: Sendable {
  let transport: any HTTPTransport
  let tokens: BearerTokens
  let requestTimeout: Duration

  func send(_ call: ServerCall, to address: AppStoreAddress, within limit: Duration) async -> ServerResult {
    let token: String
    do { token = try await tokens.token() } catch { return .failure(.tokenNotSigned(error)) }
    let request = call.request(to: address, bearer: token)
    let response: HTTPResponse
    let body: [UInt8]
    do {
      (response, body) = try await transport.send(
        request, body: call.body, timeout: min(requestTimeout, limit))
    } catch let error as AppStoreServerError {
      return .failure(error)
    } catch {
      return .failure(.transport(error))
    }
    let status = response.status.code
    guard body.count <= AppStoreServerAPI.maximumResponseLength else {
      return .failure(
        .undecodableAnswer(
          status: status, detail: "longer than \(AppStoreServerAPI.maximumResponseLength) bytes"))
    }
    guard response.status.kind == .successful else { return .failure(AppStoreServerError(response, body)) }
    // A proxy between may answer 200 with a page of its own.
    guard !call.endpoint.answersWithJSON || body.beginsJSONObject else {
      return .failure(.undecodableAnswer(status: status, detail: "not a JSON object"))
    }
    return .success(ServerSuccess(status: status, body: body))
  }
}

extension [UInt8] {
  fileprivate var beginsJSONObject: Bool {
    first { ![0x20, 0x09, 0x0A, 0x0D].contains($0) } == UInt8(ascii: "{")
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

  /// Parses milliseconds since 1970, digits only.
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

/// Sends one HTTP request and returns the whole response.
///
/// The App Store Server API depends on this protocol instead of an HTTP client, so tests need no network.
public protocol HTTPTransport: Sendable {
  /// Sends a request.
  ///
  /// - Parameters:
  ///   - request: with scheme, authority and path.
  ///   - body: nil for none.
  ///   - timeout: from connecting to the last byte of the response.
  /// - Returns: the response, with any status.
  /// - Throws: if no whole response arrives: connection failed, timeout, or too long.
  func send(
    _ request: HTTPRequest, body: [UInt8]?, timeout: Duration
  ) async throws -> (HTTPResponse, [UInt8])
}

/// The base address of an App Store Server API: scheme, authority and path prefix.
public struct AppStoreAddress: Hashable, Sendable {
  /// Apple's production server.
  public static let production = Self(scheme: "https", authority: "api.storekit.apple.com")
  /// Apple's sandbox server.
  public static let sandbox = Self(scheme: "https", authority: "api.storekit-sandbox.apple.com")

  let scheme: String
  let authority: String
  let path: String

  private init(scheme: String, authority: String, path: String = "") {
    self.scheme = scheme
    self.authority = authority
    self.path = path
  }

  /// Parses an address such as `https://api.storekit.apple.com` or `http://127.0.0.1:4000/store`; nil if it is not an
  /// http or https address of a host, or has a user, query or fragment.
  public init?(_ text: String) {
    guard let url = URL(string: text), let scheme = url.scheme, ["http", "https"].contains(scheme),
      let host = url.host(percentEncoded: true), !host.isEmpty,
      url.user() == nil, url.query() == nil, url.fragment() == nil
    else { return nil }
    let literal = host.contains(":") && !host.hasPrefix("[") ? "[\(host)]" : host
    var path = url.path(percentEncoded: true)
    while path.hasSuffix("/") { path.removeLast() }
    self.init(scheme: scheme, authority: url.port.map { "\(literal):\($0)" } ?? literal, path: path)
  }
}

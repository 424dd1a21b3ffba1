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

import AppStore
import Curl
import Foundation
import HTTPTypes

/// Sends notifications to a webhook; a test can replace the network.
public protocol NotificationSender: Sendable {
  /// Posts a signed payload once.
  func send(_ signedPayload: String, to url: String) async -> SendOutcome
}

/// The outcome of one delivery attempt.
public struct SendOutcome: Hashable, Encodable, Sendable {
  /// Apple's `sendAttemptResult`: `SUCCESS`, `TIMED_OUT`, …
  public var result: SendAttemptResult
  /// The status of the response; nil without one.
  public var status: Int?

  /// Makes an outcome.
  public init(result: SendAttemptResult, status: Int? = nil) {
    self.result = result
    self.status = status
  }

  /// Whether the notification counts as delivered.
  public var isSuccess: Bool { result == .success }

  /// The outcome of a response: 200 to 206 means delivered.
  public static func answered(_ status: Int) -> SendOutcome {
    SendOutcome(
      result: (200...206).contains(status) ? .success : .unsuccessfulHTTPResponseCode, status: status)
  }
}

/// A delivery attempt.
public struct SendAttempt: Hashable, Encodable, Sendable {
  /// The time by the store's clock.
  public var attemptDate: Date
  /// The outcome.
  public var outcome: SendOutcome
}

/// Posts notifications with libcurl.
public struct CurlNotificationSender: NotificationSender {
  private let client = CurlClient(configuration: CurlConfiguration(userAgent: "App Store Server"))

  /// Makes a sender.
  public init() {}

  /// Posts `{"signedPayload": "…"}`.
  public func send(_ signedPayload: String, to url: String) async -> SendOutcome {
    // A compact JWS needs no JSON escaping.
    let request = CurlRequest(
      method: .post, url: url, headers: [.contentType: "application/json"],
      body: Array("{\"signedPayload\":\"\(signedPayload)\"}".utf8), timeout: .seconds(30))
    do {
      return .answered(try await client.send(request).status)
    } catch {
      return SendOutcome(result: Self.result(of: error))
    }
  }

  private static func result(of error: CurlError) -> SendAttemptResult {
    switch error {
    case .timedOut: .timedOut
    case .tls: .tlsIssue
    case .couldNotConnect: .socketIssue
    case .tooLarge: .invalidResponse
    default: .other
    }
  }
}

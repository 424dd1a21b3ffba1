import AppStore
import Curl
import FoundationEssentials
import HTTPTypes

/// Carries notifications to a webhook: over the network, or, in a test, wherever the test wants.
public protocol NotificationSender: Sendable {
  /// Posts a signed payload once and says how that went.
  func send(_ signedPayload: String, to url: String) async -> SendOutcome
}

/// How one attempt to deliver a notification went.
public struct SendOutcome: Hashable, Sendable {
  /// Apple's word for it (`sendAttemptResult`): `SUCCESS`, `TIMED_OUT`, …
  public var result: SendAttemptResult
  /// The status that the server answered with, if it answered.
  public var status: Int?

  /// An outcome.
  public init(result: SendAttemptResult, status: Int? = nil) {
    self.result = result
    self.status = status
  }

  /// Whether the notification counts as delivered.
  public var isSuccess: Bool { result == .success }

  /// The outcome of an answer: 200 to 206 means delivered.
  public static func answered(_ status: Int) -> SendOutcome {
    SendOutcome(
      result: (200...206).contains(status) ? .success : .unsuccessfulHTTPResponseCode, status: status)
  }
}

/// An attempt to deliver a notification.
public struct SendAttempt: Hashable, Sendable {
  /// When, by the store's clock.
  public var attemptDate: Date
  /// How it went.
  public var outcome: SendOutcome
}

/// Posts notifications through libcurl.
public struct CurlNotificationSender: NotificationSender {
  private let client: CurlClient
  private let timeout: Duration

  /// A sender that waits `timeout` for an answer.
  public init(
    client: CurlClient = CurlClient(configuration: CurlConfiguration(userAgent: "App Store Server")),
    timeout: Duration = .seconds(30)
  ) {
    self.client = client
    self.timeout = timeout
  }

  /// Posts `{"signedPayload": "…"}`.
  public func send(_ signedPayload: String, to url: String) async -> SendOutcome {
    // A compact JWS has no character that JSON would escape.
    let request = CurlRequest(
      method: .post, url: url, headers: [.contentType: "application/json"],
      body: Array("{\"signedPayload\":\"\(signedPayload)\"}".utf8), timeout: timeout)
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

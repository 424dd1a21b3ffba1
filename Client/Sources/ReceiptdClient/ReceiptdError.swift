public import Foundation

/// A request that did not succeed: the server's code, or a reason on the way to it.
public struct ReceiptdError: Error, Sendable, CustomStringConvertible {
  /// A code of the server's contract, or one of this package.
  public struct Code: RawRepresentable, Sendable, Hashable, Codable, ExpressibleByStringLiteral {
    /// The code as the server writes it.
    public var rawValue: String
    /// Creates a code from the server's word.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// Creates a code from the server's word.
    public init(stringLiteral value: String) { rawValue = value }
  }

  /// What an app does about an error.
  public enum Advice: Sendable, Hashable {
    /// Send it again later. ``Receiptd/run()`` does this for purchases, events and refreshes.
    case retry
    /// The user has to sign in again.
    case signIn
    /// The device has to show that it has the purchase's Apple Account: restore purchases.
    case restore
    /// The same request never succeeds. Show ``ReceiptdError/message``.
    case giveUp
  }

  /// The code.
  public var code: Code
  /// What to do.
  public var advice: Advice
  /// The HTTP status; `nil` if no response arrived.
  public var status: Int?
  /// A sentence for the customer.
  public var message: String
  /// The reason for engineers, without anything secret.
  public var detail: String?
  /// The id under which the server logged the request.
  public var requestID: String?
  /// The seconds after which the server may be asked again, as it said.
  public var retryAfter: TimeInterval?

  init(
    _ code: Code, _ advice: Advice, status: Int? = nil, message: String, detail: String? = nil,
    requestID: String? = nil, retryAfter: TimeInterval? = nil
  ) {
    self.code = code
    self.advice = advice
    self.status = status
    self.message = message
    self.detail = detail
    self.requestID = requestID
    self.retryAfter = retryAfter
  }

  /// One line for a log.
  public var description: String {
    let rest = [detail, requestID.map { "request \($0)" }].compactMap { $0 }.joined(separator: "; ")
    return rest.isEmpty ? code.rawValue : "\(code.rawValue): \(rest)"
  }

  /// Whether a queued purchase ends with it.
  var isFinal: Bool { advice == .giveUp }
}

extension ReceiptdError.Code {
  /// No valid access token, or not the device's secret.
  public static let unauthenticated: Self = "unauthenticated"
  /// The access token is another user's.
  public static let forbidden: Self = "forbidden"
  /// The purchase is another customer's.
  public static let belongsToAnotherCustomer: Self = "belongs_to_another_customer"
  /// No room for another device.
  public static let deviceLimitReached: Self = "device_limit_reached"
  /// The App Store has no such transaction: nothing to restore.
  public static let transactionNotFound: Self = "transaction_not_found"
  /// The server's catalog does not have the product yet; the purchase is kept and counts later.
  public static let unknownProduct: Self = "unknown_product"
  /// A sandbox purchase in production.
  public static let wrongEnvironment: Self = "wrong_environment"
  /// Signed for another app.
  public static let wrongApp: Self = "wrong_app"
  /// Not signed by the App Store.
  public static let invalidSignature: Self = "invalid_signature"
  /// A certificate was not valid when the payload was signed.
  public static let certificateExpired: Self = "certificate_expired"
  /// A fault of the build: a member has the wrong form.
  public static let invalidRequest: Self = "invalid_request"
  /// A fault of the build: no JSON.
  public static let invalidJSON: Self = "invalid_json"
  /// No such path, or nothing with this id.
  public static let notFound: Self = "not_found"
  /// The code was used, was never made, or is another app's.
  public static let pairingCodeInvalid: Self = "pairing_code_invalid"
  /// The code is older than ten minutes.
  public static let pairingCodeExpired: Self = "pairing_code_expired"
  /// A child's device that joined with a code starts no trial.
  public static let pairedDevice: Self = "paired_device"
  /// The app starts no new trials.
  public static let trialsPaused: Self = "trials_paused"
  /// Too many requests.
  public static let rateLimited: Self = "rate_limited"
  /// A fault of the server.
  public static let `internal`: Self = "internal"
  /// The App Store cannot be asked now.
  public static let storeUnavailable: Self = "store_unavailable"
  /// The server cannot answer now.
  public static let databaseUnavailable: Self = "database_unavailable"
  /// The issuer of access tokens cannot be asked now.
  public static let authUnavailable: Self = "auth_unavailable"
  /// The server is too busy.
  public static let overloaded: Self = "overloaded"
  /// The request did not arrive in time.
  public static let requestTimeout: Self = "request_timeout"

  // Codes of this package.

  /// No response: no network, a timeout, or a response that was cut short.
  public static let offline: Self = "offline"
  /// A response that is not receiptd's, such as the page of a proxy or a captive portal.
  public static let unexpectedResponse: Self = "unexpected_response"
  /// The response has no token that this package can verify, so it is not believed.
  public static let unverified: Self = "unverified"
  /// The token is genuine, and the app's `Features` type cannot read its features.
  public static let featuresUnreadable: Self = "features_unreadable"
  /// No customer is signed in, or the app has no access token for the user.
  public static let notSignedIn: Self = "not_signed_in"
  /// The customer changed while the request was under way. Its response was dropped.
  public static let customerChanged: Self = "customer_changed"
  /// The keychain or the disk refused; a keychain is locked until the first unlock after a start.
  public static let storeFailed: Self = "store_failed"
}

extension ReceiptdError {
  private static let later = "We cannot reach the server right now. Please try again later."

  static func offline(_ detail: String) -> Self { Self(.offline, .retry, message: later, detail: detail) }

  static func unexpected(status: Int, _ detail: String, retryAfter: TimeInterval? = nil) -> Self {
    Self(.unexpectedResponse, .retry, status: status, message: later, detail: detail, retryAfter: retryAfter)
  }

  static func unverified(_ detail: String) -> Self {
    Self(.unverified, .retry, message: later, detail: detail)
  }

  static func featuresUnreadable(_ detail: String) -> Self {
    Self(.featuresUnreadable, .giveUp, message: "Please update the app.", detail: detail)
  }

  static let notSignedIn = Self(.notSignedIn, .signIn, message: "Please sign in.")

  static let tokenOfAnother = Self(
    .forbidden, .signIn, message: "Please sign in again.",
    detail: "the access token's 'sub' is not the signed-in customer; nothing was sent")

  static let customerChanged = Self(
    .customerChanged, .retry, message: later,
    detail: "the customer changed meanwhile; the response was dropped")

  static func wrongKind(_ detail: String) -> Self {
    Self(.invalidRequest, .giveUp, message: "This is not possible here.", detail: detail)
  }

  static func store(_ error: any Error) -> Self {
    Self(.storeFailed, .retry, message: later, detail: "the store failed: \(error)")
  }

  /// The members of `application/problem+json` that matter here.
  private struct Problem: Decodable {
    var status: Int
    var code: String
    var error: String
    var detail: String?
    var requestID: String?
  }

  private static let temporary: Set<Code> = [
    .rateLimited, .internal, .storeUnavailable, .databaseUnavailable, .authUnavailable, .overloaded,
    .requestTimeout,
  ]

  /// Reads a response that is not a success. A response without receiptd's own error, such as a proxy's page, is
  /// ``Code-swift.struct/unexpectedResponse``: it never ends a purchase.
  init(_ response: TransportResponse) {
    let retryAfter = response.header("retry-after").flatMap(Self.seconds)
    guard let problem = try? JSONDecoder().decode(Problem.self, from: response.body),
      problem.status == response.status, !problem.code.isEmpty
    else {
      self = .unexpected(
        status: response.status, "HTTP \(response.status) without receiptd's error", retryAfter: retryAfter)
      return
    }
    let code = Code(rawValue: problem.code)
    let advice: Advice =
      switch code {
      case .unauthenticated:
        response.header("www-authenticate")?.hasPrefix("DeviceSecret") == true ? .restore : .signIn
      case .forbidden: .signIn
      case .deviceLimitReached: retryAfter == nil ? .giveUp : .retry
      default:
        Self.temporary.contains(code) || problem.status >= 500 || problem.status == 429 ? .retry : .giveUp
      }
    self.init(
      code, advice, status: problem.status, message: problem.error, detail: problem.detail,
      requestID: problem.requestID, retryAfter: retryAfter)
  }

  /// Reads `Retry-After` in seconds, a day at most. The form with a date is ignored: it needs the device's clock.
  private static func seconds(_ text: String) -> TimeInterval? {
    guard !text.isEmpty, text.utf8.count <= 9, text.utf8.allSatisfy({ (48...57).contains($0) }) else {
      return nil
    }
    return Double(text).map { min($0, 86_400) }
  }
}

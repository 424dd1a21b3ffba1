public import Foundation

/// A request that did not succeed: the server's code, or a reason on the way to it.
public struct ReceiptdError: Error, Sendable, CustomStringConvertible {
  /// A code of the server's contract, or one of this package.
  public struct Code: RawRepresentable, Sendable, Hashable, Codable, ExpressibleByStringLiteral {
    /// The code as the server writes it.
    public let rawValue: String
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
  public internal(set) var code: Code
  /// What to do.
  public internal(set) var advice: Advice
  /// The HTTP status; `nil` if no response arrived.
  public internal(set) var status: Int?
  /// A sentence for the customer.
  public internal(set) var message: String
  /// The reason for engineers, without anything secret.
  public internal(set) var detail: String?
  /// The id under which the server logged the request.
  public internal(set) var requestID: String?
  /// The seconds after which the server may be asked again, as it said.
  public internal(set) var retryAfter: TimeInterval?

  @inline(never) init(
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
  @inline(never) var isFinal: Bool { advice == .giveUp }
}

extension ReceiptdError.Code {
  /// No valid access token, or not the device's secret.
  public static var unauthenticated: Self { "unauthenticated" }
  /// The access token is another user's.
  public static var forbidden: Self { "forbidden" }
  /// The purchase is another customer's.
  public static var belongsToAnotherCustomer: Self { "belongs_to_another_customer" }
  /// No room for another device.
  public static var deviceLimitReached: Self { "device_limit_reached" }
  /// The App Store has no such transaction: nothing to restore.
  public static var transactionNotFound: Self { "transaction_not_found" }
  /// The server's catalog does not have the product yet; the purchase is kept and counts later.
  public static var unknownProduct: Self { "unknown_product" }
  /// A sandbox purchase in production.
  public static var wrongEnvironment: Self { "wrong_environment" }
  /// Signed for another app.
  public static var wrongApp: Self { "wrong_app" }
  /// Not signed by the App Store.
  public static var invalidSignature: Self { "invalid_signature" }
  /// A certificate was not valid when the payload was signed.
  public static var certificateExpired: Self { "certificate_expired" }
  /// A fault of the build: a member has the wrong form.
  public static var invalidRequest: Self { "invalid_request" }
  /// A fault of the build: no JSON.
  public static var invalidJSON: Self { "invalid_json" }
  /// No such path, or nothing with this id.
  public static var notFound: Self { "not_found" }
  /// The code was used, was never made, or is another app's.
  public static var pairingCodeInvalid: Self { "pairing_code_invalid" }
  /// The code is older than ten minutes.
  public static var pairingCodeExpired: Self { "pairing_code_expired" }
  /// A child's device that joined with a code starts no trial.
  public static var pairedDevice: Self { "paired_device" }
  /// The app starts no new trials.
  public static var trialsPaused: Self { "trials_paused" }
  /// Too many requests.
  public static var rateLimited: Self { "rate_limited" }
  /// A fault of the server.
  public static var `internal`: Self { "internal" }
  /// The App Store cannot be asked now.
  public static var storeUnavailable: Self { "store_unavailable" }
  /// The server cannot answer now.
  public static var databaseUnavailable: Self { "database_unavailable" }
  /// The issuer of access tokens cannot be asked now.
  public static var authUnavailable: Self { "auth_unavailable" }
  /// The server is too busy.
  public static var overloaded: Self { "overloaded" }
  /// The request did not arrive in time.
  public static var requestTimeout: Self { "request_timeout" }

  // Codes of this package.

  /// No response: no network, a timeout, or a response that was cut short.
  public static var offline: Self { "offline" }
  /// A response that is not receiptd's, such as the page of a proxy or a captive portal.
  public static var unexpectedResponse: Self { "unexpected_response" }
  /// The response has no token that this package can verify, so it is not believed.
  public static var unverified: Self { "unverified" }
  /// The token is genuine, and the app's `Features` type cannot read its features.
  public static var featuresUnreadable: Self { "features_unreadable" }
  /// No customer is signed in, or the app has no access token for the user.
  public static var notSignedIn: Self { "not_signed_in" }
  /// The customer changed while the request was under way. Its response was dropped.
  public static var customerChanged: Self { "customer_changed" }
  /// The keychain or the disk refused; a keychain is locked until the first unlock after a start.
  public static var storeFailed: Self { "store_failed" }
}

extension ReceiptdError {
  private static let later = "We cannot reach the server right now. Please try again later."

  // The errors of this package are made in one place each: a `throw` with an initializer is 200 bytes more.

  @inline(never) static func offline(_ detail: String) -> Self {
    Self(.offline, .retry, message: later, detail: detail)
  }

  @inline(never) static func unexpected(status: Int, _ detail: String) -> any Error {
    Self(.unexpectedResponse, .retry, status: status, message: later, detail: detail)
  }

  @inline(never) static func unverified(_ detail: String) -> any Error {
    Self(.unverified, .retry, message: later, detail: detail)
  }

  @inline(never) static func featuresUnreadable(_ detail: String) -> any Error {
    Self(.featuresUnreadable, .giveUp, message: "Please update the app.", detail: detail)
  }

  @inline(never) static var notSignedIn: any Error { Self(.notSignedIn, .signIn, message: "Please sign in.") }

  @inline(never) static var tokenOfAnother: any Error {
    Self(
      .forbidden, .signIn, message: "Please sign in again.",
      detail: "the access token's 'sub' is not the signed-in customer; nothing was sent")
  }

  @inline(never) static var customerChanged: any Error {
    Self(
      .customerChanged, .retry, message: later,
      detail: "the customer changed meanwhile; the response was dropped")
  }

  @inline(never) static func wrongKind(_ detail: String) -> any Error {
    Self(.invalidRequest, .giveUp, message: "This is not possible here.", detail: detail)
  }

  @inline(never) static func store(_ error: any Error) -> any Error {
    Self(.storeFailed, .retry, message: later, detail: "the store failed: \(error)")
  }

  /// The advice of an error that is one of these.
  @inline(never) static func advice(_ error: any Error) -> Advice? { (error as? Self)?.advice }

  /// Whether a response was not believed.
  @inline(never) static func isUnverified(_ error: any Error) -> Bool {
    (error as? Self)?.code == .unverified
  }

  @inline(never) static func refused(_ response: TransportResponse) -> any Error { Self(response) }

  /// Reads a response that is not a success. A response without receiptd's own error, such as a proxy's page, is
  /// ``Code-swift.struct/unexpectedResponse``: it never ends a purchase.
  @inline(never) init(_ response: TransportResponse) {
    let retryAfter = response.header("retry-after").flatMap(Self.seconds)
    guard let problem = JSON(response.body), problem.number(of: "status") == Double(response.status),
      let word = problem.text(of: "code"), !word.isEmpty, let sentence = problem.text(of: "error")
    else {
      self.init(
        .unexpectedResponse, .retry, status: response.status, message: Self.later,
        detail: "HTTP \(response.status) without receiptd's error", retryAfter: retryAfter)
      return
    }
    let code = Code(rawValue: word)
    let advice: Advice =
      switch code {
      case .unauthenticated:
        response.header("www-authenticate")?.hasPrefix("DeviceSecret") == true ? .restore : .signIn
      case .forbidden: .signIn
      case .deviceLimitReached: retryAfter == nil ? .giveUp : .retry
      case .rateLimited, .internal, .storeUnavailable, .databaseUnavailable, .authUnavailable, .overloaded,
        .requestTimeout:
        .retry
      default: response.status >= 500 || response.status == 429 ? .retry : .giveUp
      }
    self.init(
      code, advice, status: response.status, message: sentence, detail: problem.text(of: "detail"),
      requestID: problem.text(of: "requestID"), retryAfter: retryAfter)
  }

  /// Reads `Retry-After` in seconds, a day at most. The form with a date is ignored: it needs the device's clock.
  private static func seconds(_ text: String) -> TimeInterval? {
    guard !text.isEmpty, text.utf8.count <= 9, text.utf8.allSatisfy({ (48...57).contains($0) }) else {
      return nil
    }
    return Double(text).map { min($0, 86_400) }
  }
}

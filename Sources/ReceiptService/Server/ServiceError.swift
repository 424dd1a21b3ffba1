import HTTP
import HTTPTypes

/// The contract's codes that are ours and not HTTP's. A closed list: what is not here is `internal`.
enum ServiceError {
  static let unauthenticated = Problem(
    status: .unauthorized, code: "unauthenticated", title: "Please sign in again.",
    detail: "A valid bearer token of the user is needed.", headers: [.wwwAuthenticate: "Bearer"])

  static let authUnavailable = Problem(
    status: .serviceUnavailable, code: "auth_unavailable",
    title: "We cannot check your sign-in right now. Please try again in a moment.",
    detail: "The public keys of the token's issuer cannot be had.", headers: [.retryAfter: "5"])

  static let forbidden = Problem(
    status: .forbidden, code: "forbidden", title: "This belongs to somebody else.",
    detail: "The token's sub is not the user in the path.")

  static let notTheTokensUser = Problem(
    status: .forbidden, code: "forbidden", title: "This belongs to somebody else.",
    detail: "The token's sub is not 'customerID'.")

  static let belongsToAnotherCustomer = Problem(
    status: .conflict, code: "belongs_to_another_customer",
    title: "This purchase is linked to another account of this app.",
    detail: "The purchase belongs to another customer and the app's policy does not move it.")

  /// - Parameter moreIsSold: whether another tier has room for more.
  static func deviceLimitReached(limit: Int, moreIsSold: Bool) -> Problem {
    let room = limit == 1 ? "1 device" : "\(limit) devices"
    return Problem(
      status: .conflict, code: "device_limit_reached",
      title: "There is no room for another device.",
      detail: "The customer's tier has room for \(room), and as many are paired.",
      message: moreIsSold
        ? "Your plan has room for \(room). Upgrade to pair more."
        : "Your plan has room for \(room). Remove one to pair another.")
  }

  static let noSupportToken = Problem(
    status: .unauthorized, code: "unauthenticated", title: "The support token is needed.",
    detail: "Send SUPPORT_TOKEN as a bearer token.", headers: [.wwwAuthenticate: "Bearer"])

  static func alreadyDone(_ detail: String) -> Problem {
    Problem(
      status: .conflict, code: "already_done", title: "This can be done once, and was.", detail: detail)
  }

  static let transactionNotFound = Problem(
    status: .notFound, code: "transaction_not_found", title: "The App Store does not know this purchase.",
    detail: "Neither production nor the sandbox has a transaction with this id for this app.")

  static let noPurchase = Problem(
    status: .notFound, code: "transaction_not_found", title: "There is no purchase to restore.",
    detail: "The receipt has no purchase in it.")

  static let databaseUnavailable = Problem(
    status: .serviceUnavailable, code: "database_unavailable",
    title: "We cannot answer right now. Please try again in a moment.",
    detail: "The database cannot be reached; nothing was kept.", headers: [.retryAfter: "2"])

  static let storeUnavailable = storeUnavailable("The App Store Server API cannot be reached.")

  /// Too many requests of one address or customer.
  static func rateLimited(_ wait: Duration) -> Problem {
    Problem(
      status: .tooManyRequests, code: "rate_limited", title: "Too many requests. Please wait a moment.",
      detail: "This address or customer asks more often than is allowed.",
      headers: [.retryAfter: "\(wait.wholeSeconds)"])
  }

  static let internalError = Problem.internalError

  static func storeUnavailable(_ detail: String, retryAfterSeconds: Int = 5) -> Problem {
    Problem(
      status: .serviceUnavailable, code: "store_unavailable",
      title: "The App Store cannot be asked right now. Please try again in a moment.", detail: detail,
      headers: [.retryAfter: "\(retryAfterSeconds)"])
  }

  static func unknownProduct(_ productID: String) -> Problem {
    Problem(
      status: .unprocessableContent, code: "unknown_product",
      title: "This product is not known to the server yet.",
      detail: "The purchase is kept, but no app's catalog has the product '\(productID)'.")
  }

  static func wrongApp(_ detail: String) -> Problem {
    Problem(
      status: .unprocessableContent, code: "wrong_app", title: "This purchase was made in another app.",
      detail: detail)
  }

  static func wrongEnvironment(_ detail: String) -> Problem {
    Problem(
      status: .unprocessableContent, code: "wrong_environment",
      title: "This purchase was made in another environment.", detail: detail)
  }

  static func certificateExpired(_ detail: String) -> Problem {
    Problem(
      status: .unprocessableContent, code: "certificate_expired",
      title: "The purchase could not be verified.", detail: detail)
  }

  static func invalidSignature(_ status: HTTPResponse.Status, _ detail: String) -> Problem {
    Problem(
      status: status, code: "invalid_signature", title: "The purchase could not be verified.",
      detail: detail)
  }
}

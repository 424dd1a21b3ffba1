import AppStore
import FoundationEssentials
import HTTP
import HTTPTypes
import Logging
import Postgres

/// The public errors besides HTTP's own (docs/api.md). The list is closed: every other error is `internal`.
package enum ServiceError {
  package static let unauthenticated = Problem(
    status: .unauthorized, code: "unauthenticated", detail: "A valid bearer token of the user is needed.",
    message: "Please sign in again.", headers: [.wwwAuthenticate: "Bearer"])

  package static let deviceSecretNeeded = Problem(
    status: .unauthorized, code: "unauthenticated",
    detail:
      "The device has a secret: send it in 'Receiptd-Device-Secret'. A device that lost it sends a new one with "
      + "a signed transaction or app transaction of its Apple Account.",
    message: "This device could not be recognized. Please restore your purchases.",
    headers: [.wwwAuthenticate: "DeviceSecret"])

  package static let authUnavailable = Problem(
    status: .serviceUnavailable, code: "auth_unavailable",
    detail: "The public keys of the token's issuer are not available.",
    message: "We cannot check your sign-in right now. Please try again in a moment.",
    headers: [.retryAfter: "5"])

  package static let forbidden = Problem(
    status: .forbidden, code: "forbidden", detail: "The token's sub is not the user in the path.",
    message: "This belongs to another user.")

  package static let notTheTokensUser = Problem(
    status: .forbidden, code: "forbidden", detail: "The token's sub is not 'customerID'.",
    message: "This belongs to another user.")

  package static let belongsToAnotherCustomer = Problem(
    status: .conflict, code: "belongs_to_another_customer",
    detail: "The purchase belongs to another customer and the app's policy does not move it.",
    message: "This purchase is linked to another account of this app.")

  /// A purchase changes its user a limited number of times within 24 hours.
  package static let movedTooOften = Problem(
    status: .conflict, code: "belongs_to_another_customer",
    detail: "The purchase has changed its user as often as it may within 24 hours.",
    message: "This purchase was moved to another account today. Please try again tomorrow.")

  package static let notificationOfVersion1 = Problem.invalidRequest(
    "This is an App Store Server Notification of version 1, which has no signature. Switch the URL's version to "
      + "V2 (Version 2 Notifications) in App Store Connect: App Information, App Store Server Notifications.")

  /// The refusal of a device. Two devices of one Apple Account share a purchase.
  package static let belongsToAnotherDevice = Problem(
    status: .conflict, code: "belongs_to_another_customer",
    detail:
      "The purchase belongs to other devices. A device joins them with 'signedTransaction', or with "
      + "'signedAppTransaction' of the same Apple Account, unless support has taken the purchase from it.",
    message: "This purchase is linked to another account of this app.")

  package static let needsProof = Problem(
    status: .conflict, code: "belongs_to_another_customer",
    detail:
      "A transaction id or a receipt alone proves no possession: send 'signedTransaction', or 'signedAppTransaction' of the "
      + "purchase's Apple Account beside it.",
    message: "This purchase is not linked to your account yet. Restore purchases in the app.")

  package static let belongsToAnotherAccount = Problem(
    status: .conflict, code: "belongs_to_another_customer",
    detail: "'signedAppTransaction' is of another Apple Account than the purchase.",
    message: "This purchase is linked to another account of this app.")

  /// - Parameter moreIsSold: whether another tier allows more devices.
  package static func deviceLimitReached(limit: Int, moreIsSold: Bool) -> Problem {
    let devices = limit == 1 ? "1 device" : "\(limit) devices"
    return Problem(
      status: .conflict, code: "device_limit_reached",
      detail: "The customer's tier allows \(devices), and as many are paired.",
      message: moreIsSold
        ? "Your plan allows \(devices). Upgrade to pair more."
        : "Your plan allows \(devices). Remove one to pair another.")
  }

  package static let invalidPairingCode = Problem(
    status: .notFound, code: "pairing_code_invalid",
    detail: "No open pairing code of the app is this one: it was used, or never made.",
    message: "This code is not valid. Check it, or make a new one on the parent's device.")

  package static let expiredPairingCode = Problem(
    status: .gone, code: "pairing_code_expired", detail: "The pairing code is older than ten minutes.",
    message: "This code has expired. Make a new one on the parent's device.")

  package static let pairedDevice = Problem(
    status: .conflict, code: "paired_device",
    detail: "The device has joined a parent's with a code, so it has no trial of its own.",
    message: "This device has what the parent's plan includes.")

  package static let trialsPaused = Problem(
    status: .conflict, code: "trials_paused",
    detail: "No new trial starts: 'newTrials' of the app is 'paused'. Running trials go on.",
    message: "Free trials are not available right now.")

  /// - Parameter wait: the time until devices of the account may join again.
  package static func trialJoinedTooOften(limit: Int, wait: TimeInterval) -> Problem {
    let devices = limit == 1 ? "1 device" : "\(limit) devices"
    return Problem(
      status: .conflict, code: "device_limit_reached",
      detail:
        "\(devices) share the trial of an Apple Account, and as many have joined it within 24 hours instead of others.",
      message: "Your free trial was used on too many devices today. Please try again tomorrow.",
      headers: [.retryAfter: "\(max(Int(wait.rounded(.up)), 1))"])
  }

  package static let noSupportToken = Problem(
    status: .unauthorized, code: "unauthenticated",
    detail: "Send a person's token or SUPPORT_TOKEN as a bearer token.",
    message: "A token of support is needed.", headers: [.wwwAuthenticate: "Bearer"])

  package static let unknownSupportToken = Problem(
    status: .unauthorized, code: "unauthenticated",
    detail: "The token is neither SUPPORT_TOKEN nor that of a person who can sign in.",
    message: "A token of support is needed.", headers: [.wwwAuthenticate: "Bearer error=\"invalid_token\""])

  /// The actor's role, or the kind of its token, does not allow it.
  package static func notAllowed(_ detail: String) -> Problem {
    Problem(
      status: .forbidden, code: "forbidden", detail: detail,
      message: "You may not do this. Ask a lead of support.")
  }

  package static func alreadyDone(_ detail: String) -> Problem {
    Problem(
      status: .conflict, code: "already_done", detail: detail,
      message: "This can be done once, and it is done already.")
  }

  package static let transactionNotFound = Problem(
    status: .notFound, code: "transaction_not_found",
    detail: "Neither production nor the sandbox has a transaction with this id for this app.",
    message: "The App Store does not know this purchase.")

  package static let noPurchase = Problem(
    status: .notFound, code: "transaction_not_found", detail: "The receipt contains no purchase.",
    message: "There is no purchase to restore.")

  package static let databaseUnavailable = Problem(
    status: .serviceUnavailable, code: "database_unavailable",
    detail: "The database cannot be used now; send the request again.",
    message: "We cannot answer right now. Please try again in a moment.", headers: [.retryAfter: "2"])

  package static let storeUnavailable = storeUnavailable("The App Store Server API cannot be reached.")

  /// Too many requests of one address or user.
  static func rateLimited(_ wait: Duration) -> Problem {
    Problem(
      status: .tooManyRequests, code: "rate_limited",
      detail: "This address or user sends more requests than are allowed.",
      message: "Too many requests. Please wait a moment.",
      headers: [.retryAfter: "\(wait.wholeSeconds)"])
  }

  /// Too many concurrent requests of one customer (``CustomerTransactions``).
  package static let tooManyOfOneCustomer = Problem(
    status: .tooManyRequests, code: "rate_limited",
    detail: "Too many requests of this customer are under way.",
    message: "Too many requests. Please wait a moment.", headers: [.retryAfter: "1"])

  /// - Parameters:
  ///   - isOfCustomer: whether the limit is the customer's, and not the app's.
  ///   - wait: the time until the end of the day.
  package static func noEventBytesLeft(isOfCustomer: Bool, _ wait: Duration) -> Problem {
    Problem(
      status: .tooManyRequests, code: "rate_limited",
      detail:
        "The \(isOfCustomer ? "customer" : "app")'s events have used up the bytes of the current day (UTC). Send them "
        + "again later.",
      message: "Too many requests. Please wait a moment.", headers: [.retryAfter: "\(wait.wholeSeconds)"])
  }

  /// - Parameter wait: the time until the end of the day, in seconds.
  package static func noPairingsLeft(wait: TimeInterval) -> Problem {
    Problem(
      status: .tooManyRequests, code: "rate_limited",
      detail:
        "Devices of the app without a trial, purchase or grant have used up the pairings of the current day (UTC), or those "
        + "of the parent's or this child's device are used up. Send the request again later.",
      message: "Too many devices were paired today. Please try again tomorrow.",
      headers: [.retryAfter: "\(max(Int(wait.rounded(.up)), 1))"])
  }

  package static let internalError = Problem.internalError

  package static func storeUnavailable(_ detail: String, retryAfterSeconds: Int = 5) -> Problem {
    Problem(
      status: .serviceUnavailable, code: "store_unavailable",
      detail: detail, message: "The App Store cannot be asked right now. Please try again in a moment.",
      headers: [.retryAfter: "\(retryAfterSeconds)"])
  }

  package static func unknownProduct(_ productID: String) -> Problem {
    Problem(
      status: .unprocessableContent, code: "unknown_product",
      detail: "The purchase is stored, but no app's catalog has the product '\(productID)'.",
      message: "This product is not known to the server yet.")
  }

  package static func wrongApp(_ detail: String) -> Problem {
    Problem(
      status: .unprocessableContent, code: "wrong_app", detail: detail,
      message: "This purchase was made in another app.")
  }

  package static func wrongEnvironment(_ detail: String) -> Problem {
    Problem(
      status: .unprocessableContent, code: "wrong_environment",
      detail: detail, message: "This purchase was made in another environment.")
  }

  package static func certificateExpired(_ detail: String) -> Problem {
    Problem(
      status: .unprocessableContent, code: "certificate_expired",
      detail: detail, message: "The purchase could not be verified.")
  }

  package static func invalidSignature(_ status: HTTPResponse.Status, _ detail: String) -> Problem {
    Problem(
      status: status, code: "invalid_signature", detail: detail,
      message: "The purchase could not be verified.")
  }
}

extension PostgresError {
  /// Whether clients get `database_unavailable`: the database is unreachable, a restore is under way, or the same
  /// request may succeed a little later, such as one that did not get a lock.
  package var isAnsweredUnavailable: Bool { isTransient || isSchemaIncomplete }
}

extension Duration {
  /// Whole seconds for `Retry-After`: rounded up, from 1 to 3600.
  package var wholeSeconds: Int {
    let (seconds, attoseconds) = components
    return Int(min(max(seconds + (attoseconds > 0 ? 1 : 0), 1), 3600))
  }
}

extension Logger {
  /// Logs a missing table, column or privilege. A restore is under way, or the schema is of another version.
  package func reportIncompleteSchema(_ error: PostgresError) {
    self.error("the database lacks something that receiptd needs", metadata: ["reason": "\(error)"])
  }
}

extension Problem {
  /// The error for a client whose proof does not verify.
  package init(clientProof failure: VerificationFailure) {
    switch failure.code {
    case .certificateNotValidAtSignedDate: self = ServiceError.certificateExpired(failure.detail)
    case .wrongApp: self = ServiceError.wrongApp(failure.detail)
    case .wrongEnvironment: self = ServiceError.wrongEnvironment(failure.detail)
    // Only parts of notifications fail with this code.
    case .innerMismatch where failure.field == "environment":
      self = ServiceError.wrongEnvironment(failure.detail)
    case .innerMismatch: self = ServiceError.wrongApp(failure.detail)
    default: self = ServiceError.invalidSignature(.unprocessableContent, failure.detail)
    }
  }
}

/// Whether an error comes from an unavailable database and not from the row that was to be written.
package func isDatabaseUnavailable(_ error: any Error) -> Bool {
  if let error = error as? PostgresError { return error.isUnavailable || error.isSchemaIncomplete }
  return (error as? Problem)?.code == ServiceError.databaseUnavailable.code
}

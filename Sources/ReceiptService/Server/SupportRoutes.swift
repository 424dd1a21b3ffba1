import Crypto
import Foundation
import HTTP
import HTTPTypes
import Identifiers

/// The support API: the actions of the commands, under the same names, for a support tool.
extension Service {
  /// - Parameter token: the bearer token that a caller must send.
  func addSupportRoutes(to router: inout Router, token: String) {
    let authorization = SupportAuthorization(token: token)
    func on(
      _ method: HTTPRequest.Method, _ path: String,
      _ handler: @escaping @Sendable (Request) async throws -> Response
    ) {
      router.on(method, "/support/v1/" + path) { request in
        try authorization.check(request)
        return try await self.answering { try await mappingRefusals { try await handler(request) } }
      }
    }
    on(.get, "customer/{id}") { request in
      let report = try await self.support.customer(request.parameters.require("id"))
      guard !report.isEmpty else { throw Problem.notFound(report.found.detail.asSentence) }
      return .json(.ok, report)
    }
    on(.get, "find/{what}") { request in
      .json(.ok, try await self.support.find(request.parameters.require("what")))
    }
    on(.post, "refresh") { request in
      let body: RefreshBody = try request.requiredJSON()
      return .json(
        .ok,
        try await self.support.refresh(body.id, by: SupportAuthor(by: body.by, reason: body.reason)))
    }
    on(.post, "grant") { request in
      let body: GrantBody = try request.requiredJSON()
      return try await .json(
        .created,
        self.support.grant(
          to: body.customer, bundleID: body.bundleID, tier: body.tier, days: body.days,
          by: SupportAuthor(by: body.by, reason: body.reason), isForced: body.force ?? false))
    }
    on(.post, "revoke-grant") { request in
      let body: RevokeGrantBody = try request.requiredJSON()
      return try await .json(
        .ok, self.support.revokeGrant(body.grant.value, by: SupportAuthor(by: body.by, reason: body.reason)))
    }
    on(.post, "extend-trial") { request in
      let body: ExtendTrialBody = try request.requiredJSON()
      return try await .json(
        .ok,
        self.support.extendTrial(
          of: body.deviceID, bundleID: body.bundleID, days: body.days,
          by: SupportAuthor(by: body.by, reason: body.reason), isForced: body.force ?? false))
    }
    on(.post, "reset-device-secret") { request in
      let body: ResetDeviceSecretBody = try request.requiredJSON()
      return try await .json(
        .ok,
        self.support.resetDeviceSecret(
          of: body.deviceID, bundleID: body.bundleID, by: SupportAuthor(by: body.by, reason: body.reason)))
    }
    on(.post, "transfer") { request in
      let body: TransferBody = try request.requiredJSON()
      return .json(
        .ok,
        try await self.support.transfer(
          body.originalTransactionID, to: body.to, by: SupportAuthor(by: body.by, reason: body.reason),
          isForced: body.force ?? false, isDryRun: body.dryRun ?? false))
    }
    on(.get, "export-customer/{customer}") { request in
      try .json(.ok, await self.support.exportCustomer(request.parameters.require("customer")))
    }
    on(.post, "erase-customer") { request in
      let body: EraseCustomerBody = try request.requiredJSON()
      return try .json(
        .ok,
        await self.support.eraseCustomer(
          body.customer, by: SupportAuthor(by: body.by, reason: body.reason), isForced: body.force ?? false,
          isDryRun: body.dryRun ?? false))
    }
    on(.post, "refund-answer") { request in
      let body: RefundAnswerBody = try request.requiredJSON()
      return try await .json(
        .ok,
        self.support.preferRefund(
          body.prefer, for: body.id, bundleID: body.bundleID,
          by: SupportAuthor(by: body.by, reason: body.reason)))
    }
    on(.post, "extend-renewal") { request in
      let body: ExtendRenewalBody = try request.requiredJSON()
      return try await .json(
        .ok,
        self.renewalExtensions.extend(
          body.originalTransactionID, days: body.days, reasonCode: body.reasonCode,
          isDryRun: body.dryRun ?? false, isForced: body.force ?? false,
          by: SupportAuthor(by: body.by, reason: body.reason)))
    }
    on(.post, "free-access") { request in
      let body: FreeAccessBody = try request.requiredJSON()
      return try await .json(
        .ok,
        self.support.setFreeAccess(
          body.state == .on, bundleID: body.bundleID, by: SupportAuthor(by: body.by, reason: body.reason)))
    }
    on(.post, "requeue") { request in
      let body: RequeueBody = try request.requiredJSON()
      let author = try SupportAuthor(by: body.by, reason: body.reason)
      return switch (body.outbox, body.bundleID) {
      case (let id?, nil): try await .json(.ok, self.requeue(id, by: author))
      case (nil, let bundleID?): try await .json(.ok, self.requeueDead(of: bundleID, by: author))
      default: throw Problem.invalidRequest("Exactly one of 'outbox' and 'bundleID' is needed.")
      }
    }
    on(.post, "replay") { request in
      let body: ReplayBody = try request.requiredJSON()
      let author = try SupportAuthor(by: body.by, reason: body.reason)
      let result = try await self.replay(body.notificationUUID.value, by: author.by, reason: author.reason)
      return try .json(.ok, ReplayAnswer(result))
    }
  }
}

/// Checks the bearer token of the support API.
private struct SupportAuthorization: Sendable {
  private let expected: SHA256Digest

  init(token: String) { expected = Self.digest(token) }

  /// Compares digests in constant time, so that the time reveals neither the token's length nor its characters.
  func check(_ request: Request) throws(Problem) {
    guard let field = request.headers[.authorization], field.utf8.count > 7,
      field.prefix(7).lowercased() == "bearer ", Self.digest(String(field.dropFirst(7))) == expected
    else { throw ServiceError.noSupportToken }
  }

  private static func digest(_ token: String) -> SHA256Digest { SHA256.hash(data: Array(token.utf8)) }
}

/// Maps the refusals of support's actions to responses.
private func mappingRefusals(_ body: () async throws -> Response) async throws -> Response {
  do {
    return try await body()
  } catch let refusal as SupportRefusal {
    throw switch refusal.kind {
    case .invalid: Problem.invalidRequest(refusal.description)
    case .notFound: Problem.notFound(refusal.description)
    case .alreadyDone: ServiceError.alreadyDone(refusal.description)
    }
  } catch let failure as ReplayFailure {
    throw switch failure {
    case .notKept: Problem.notFound("No notification with this UUID is kept.")
    case .erased:
      Problem.invalidRequest("The notification's customer was erased: there is nothing to replay.")
    case .notVerified(let reason):
      Problem.invalidRequest("The notification's signature is not accepted any more: \(reason)")
    }
  }
}

extension Request {
  fileprivate func requiredJSON<Body: Decodable>() throws -> Body {
    try requireJSON()
    return try decodeJSON(Body.self)
  }
}

extension String {
  /// The text with a capital letter and a full stop.
  fileprivate var asSentence: String { prefix(1).uppercased() + dropFirst() + "." }
}

private struct RefreshBody: Decodable {
  var id: String
  var by: String
  var reason: String
}

private struct GrantBody: Decodable {
  var customer: String
  var bundleID: String
  var tier: String
  var days: Int
  var force: Bool?
  var by: String
  var reason: String
}

private struct RevokeGrantBody: Decodable {
  var grant: StrictUUID
  var by: String
  var reason: String
}

private struct ExtendTrialBody: Decodable {
  var deviceID: String
  var bundleID: String
  var days: Int
  var force: Bool?
  var by: String
  var reason: String
}

private struct ResetDeviceSecretBody: Decodable {
  var deviceID: String
  var bundleID: String
  var by: String
  var reason: String
}

private struct TransferBody: Decodable {
  var originalTransactionID: String
  var to: String
  var force: Bool?
  var dryRun: Bool?
  var by: String
  var reason: String
}

private struct EraseCustomerBody: Decodable {
  var customer: String
  var force: Bool?
  var dryRun: Bool?
  var by: String
  var reason: String
}

private struct RefundAnswerBody: Decodable {
  var id: String
  var prefer: RefundChoice
  var bundleID: String?
  var by: String
  var reason: String
}

private struct ExtendRenewalBody: Decodable {
  var originalTransactionID: String
  var days: Int
  var reasonCode: Int
  var dryRun: Bool?
  var force: Bool?
  var by: String
  var reason: String
}

private struct FreeAccessBody: Decodable {
  enum State: String, Decodable { case on, off }
  var state: State
  var bundleID: String
  var by: String
  var reason: String
}

private struct RequeueBody: Decodable {
  var outbox: Int64?
  var bundleID: String?
  var by: String
  var reason: String
}

private struct ReplayBody: Decodable {
  var notificationUUID: StrictUUID
  var by: String
  var reason: String
}

private struct ReplayAnswer: Encodable {
  var outcome: String
  var isProcessed: Bool
  var code: String?
  var detail: String?

  init(_ result: ReplayResult) {
    outcome = result.outcome
    isProcessed = result.isProcessed
    code = result.failure?.code
    detail = result.failure?.detail
  }
}

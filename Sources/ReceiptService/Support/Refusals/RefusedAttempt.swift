import AppStore
import Configuration
import Foundation
import HTTP
import HTTPTypes
import Identifiers
import JSON
import Platform
import Subscriptions

/// A request of a client that was refused, as support sees it. What the client named is unproven.
///
/// It has ids only: neither a token nor a signed payload.
struct RefusedAttempt: Sendable {
  var at: Date
  /// The app; `nil` if the request does not tell.
  var bundleID: String?
  /// The method and the pattern of the path.
  var route: String
  var userID: UUID?
  var deviceID: String?
  var transactionID: String?
  /// The error code.
  var code: String
  var requestID: String
  var addressPrefix: String

  /// Reads the ids that a refused request names. No signature is checked.
  init(_ request: Request, _ problem: Problem, in apps: AppOfRequest, at instant: Date) {
    let body = try? request.readJSON(NamedIDs.self)
    let signed = (body?.signedTransaction ?? body?.signedTransactions?.first ?? body?.signedAppTransaction)
      .flatMap { UnverifiedClaims($0) }
    let user = request.parameters["userID"] ?? request.bearerSubject
    let device = request.parameters["deviceID"] ?? body?.deviceID
    let kind: CustomerKind? =
      if request.parameters["userID"] != nil { .user } else if device != nil { .device } else { nil }
    let app =
      if let named = body?.bundleID ?? signed?.bundleID ?? request.query["bundleID"] {
        apps.catalog[named]
      } else {
        try? apps.app(of: request, named: nil, customers: kind)
      }
    at = instant
    bundleID = app?.bundleID
    route = "\(request.method.rawValue) \(request.routePattern)"
    userID = app?.customer == .device ? nil : user.flatMap { UUID(rfc9562: $0) }
    deviceID = app?.customer == .user ? nil : device.flatMap { try? DeviceID($0).name.storable }
    transactionID = (body?.transactionID ?? signed?.transactionID).flatMap { $0.isTransactionID ? $0 : nil }
    code = problem.code.rawValue
    requestID = request.id
    addressPrefix = request.clientAddress.networkPrefix
  }
}

extension IPAddress {
  /// The network without the part that names one client: `192.0.2.0/24` or `2001:db8:1::/48`.
  fileprivate var networkPrefix: String {
    let length: UInt128 = isIPv4 ? 24 : 48
    let hostBits: UInt128 = isIPv4 ? 8 : 80
    return "\(IPAddress(bits: (bits >> hostBits) << hostBits))/\(length)"
  }
}

extension String {
  /// Whether the text has the form of a transaction id.
  var isTransactionID: Bool {
    (1...20).contains(utf8.count) && utf8.allSatisfy { (0x30...0x39).contains($0) }
  }
}

extension Request {
  /// The `sub` of the access token, which is not verified.
  fileprivate var bearerSubject: String? {
    guard let field = headers[.authorization], field.prefix(7).lowercased() == "bearer " else { return nil }
    return UnverifiedClaims(String(field.dropFirst(7)))?.subject
  }
}

/// The members of a request's body that name an app, a customer or a transaction.
private struct NamedIDs: JSONReadable {
  enum Member: String, CaseIterable {
    case bundleID, deviceID, transactionID, signedTransaction, signedTransactions, signedAppTransaction
  }

  private static let names = JSONNames<Member>()

  var bundleID: String?
  var deviceID: String?
  var transactionID: String?
  var signedTransaction: String?
  var signedTransactions: [String]?
  var signedAppTransaction: String?

  init(reading json: inout JSONReader) throws(JSONFailure) {
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .bundleID: bundleID = try json.readOrNull()
      case .deviceID: deviceID = try json.readOrNull()
      case .transactionID: transactionID = try json.readOrNull()
      case .signedTransaction: signedTransaction = try json.readOrNull()
      case .signedTransactions: signedTransactions = try json.readOrNull()
      case .signedAppTransaction: signedAppTransaction = try json.readOrNull()
      }
    }
  }
}

/// Claims of a signed transaction or access token whose signature is not verified.
private struct UnverifiedClaims: JSONReadable {
  enum Member: String, CaseIterable { case bundleId, transactionId, sub }

  private static let names = JSONNames<Member>()

  var bundleID: String?
  var transactionID: String?
  var subject: String?

  init?(_ jws: String) {
    guard let payload = try? CompactJWS(jws).payload,
      let claims = try? JSONReader.read(Self.self, from: payload, maximumDepth: 16)
    else { return nil }
    self = claims
  }

  init(reading json: inout JSONReader) throws(JSONFailure) {
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .bundleId: bundleID = try json.readOrNull()
      case .transactionId: transactionID = try json.readOrNull()
      case .sub: subject = try json.readOrNull()
      }
    }
  }
}

import Actions
import Deliveries
import Identifiers
import Ledger
import Support

/// A body of the support API: the members of the action, and its author.
struct AuthoredBody<Action: Decodable>: Decodable {
  let action: Action
  private let by: String?
  private let reason: String

  private enum Key: CodingKey { case by, reason }

  init(from decoder: any Decoder) throws {
    let members = try decoder.container(keyedBy: Key.self)
    action = try Action(from: decoder)
    by = try members.decodeIfPresent(String.self, forKey: .by)
    reason = try members.decode(String.self, forKey: .reason)
  }

  /// The author of the action. `by` never replaces the name of a person, and a machine's record says that it is a machine's.
  /// - Throws: ``SupportRefusal`` for a name beside a person's token, and for a bad name or reason.
  func author(signedInAs actor: SupportActor) throws(SupportRefusal) -> SupportAuthor {
    guard let by else { return try SupportAuthor(by: actor, reason: reason) }
    guard case .machine = actor else {
      throw .invalid("'by' is the person of the token, \(actor.name): leave it out.")
    }
    return try SupportAuthor(by: .machine(speakingFor: by), reason: reason)
  }
}

struct RefreshBody: Decodable {
  var id: String
}

struct EraseCustomerBody: Decodable {
  var customer: String
  var bundleID: String?
  var force: Bool?
  var dryRun: Bool?
}

struct GrantBody: Decodable {
  var customer: String
  var bundleID: String
  var tier: String
  var days: Int
  var force: Bool?
}

struct RevokeGrantBody: Decodable {
  var grant: StrictUUID
}

struct ExtendTrialBody: Decodable {
  var deviceID: String
  var bundleID: String
  var days: Int
  var force: Bool?
}

struct DeviceBody: Decodable {
  var deviceID: String
  var bundleID: String
}

struct TransferBody: Decodable {
  var originalTransactionID: String
  var to: String
  var force: Bool?
  var dryRun: Bool?
}

struct RefundAnswerBody: Decodable {
  var id: String
  var prefer: RefundChoice
  var bundleID: String?
}

struct ExtendRenewalBody: Decodable {
  var originalTransactionID: String
  var days: Int
  var reasonCode: Int
  var dryRun: Bool?
  var force: Bool?
}

struct FreeAccessBody: Decodable {
  enum State: String, Decodable { case on, off }
  var state: State
  var bundleID: String
}

struct RequeueBody: Decodable {
  var outbox: Int64?
  var bundleID: String?
}

struct ReplayBody: Decodable {
  var notificationUUID: StrictUUID
}

struct AddPersonBody: Decodable {
  var name: String
  var role: SupportRole
}

struct RemovePersonBody: Decodable {
  var name: String
}

struct ReplayAnswer: Encodable {
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

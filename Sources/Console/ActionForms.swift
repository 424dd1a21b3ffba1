import Actions
import Customers
import Deliveries
import Foundation
import HTTP
import Identifiers
import Ledger
import Postgres
import Subscriptions
import Support

/// An action of support as a form: its fields, a preview, and a record at the end.
package struct ConsoleAction: Sendable {
  /// Carries out a value of an action: `Service.perform`.
  package typealias Perform<Action: SupportRequest> =
    @Sendable (Action, SupportAuthor, Bool) async throws -> Action.Answer

  /// The last segment of the path: the operation's name, and what tells two forms of it apart.
  let name: String
  let title: String
  /// What the action does, in a sentence.
  let explanation: String
  let operation: SupportOperation
  let fields: [ActionField]
  let hasPreview: Bool
  /// Whether the answer is shown in place of the record, because it is shown once.
  var showsAnswer = false
  /// Whether it cannot be taken back.
  var isFinal = false
  /// The fields with which a customer's page leads to the form; `nil` for no such way.
  var fieldsOfCustomer: @Sendable (ReportedCustomer) -> KeyValuePairs<String, String?>? = { _ in nil }
  /// Whether the form also carries it out without a preview, because the page before it showed all that a preview
  /// would.
  var isRepeatable = false
  /// Reads the form and carries the action out, or rehearses it.
  let run: @Sendable (ConsoleRequest, SupportAuthor, Bool) async throws -> Answer

  /// What an action did, in words.
  struct Answer: Sendable {
    let text: String
    /// Whether it refused some of the rows that the form names. No record tells that, so the answer is shown.
    var isPartial = false
  }

  fileprivate init<Action: SupportRequest>(
    _: Action.Type, _ title: String, _ explanation: String, _ fields: [ActionField],
    name: String = Action.operation.rawValue,
    run: @escaping @Sendable (ConsoleRequest, SupportAuthor, Bool) async throws -> Answer
  ) {
    self.name = name
    self.title = title
    self.explanation = explanation
    self.fields = fields
    self.operation = Action.operation
    self.run = run
    hasPreview = Action.hasPreview
  }

  fileprivate init<Action: SupportRequest>(
    _ type: Action.Type, _ title: String, _ explanation: String, _ fields: [ActionField],
    name: String = Action.operation.rawValue, perform: @escaping Perform<Action>,
    reading read: @escaping @Sendable (ConsoleRequest) throws -> Action
  ) {
    self.init(type, title, explanation, fields, name: name) { request, author, isDryRun in
      Answer(text: try await perform(read(request), author, isDryRun).description)
    }
  }
}

/// A field of a form.
struct ActionField: Sendable {
  var name: String
  var label: String
  var hint: String?
  /// The values of a choice; empty for a text.
  var choices: [(value: String, label: String)] = []
  var kind = Kind.text
  /// The value of an empty form.
  var usual = ""
  var isNeeded = true

  enum Kind: Sendable { case text, list, number, choice, checkbox }

  static func text(_ name: String, _ label: String, hint: String? = nil, isNeeded: Bool = true) -> ActionField
  {
    ActionField(name: name, label: label, hint: hint, isNeeded: isNeeded)
  }

  /// Several values without spaces.
  static func list(_ name: String, _ label: String, hint: String? = nil) -> ActionField {
    ActionField(name: name, label: label, hint: hint, kind: .list)
  }

  static func number(_ name: String, _ label: String, usual: Int, hint: String? = nil) -> ActionField {
    ActionField(name: name, label: label, hint: hint, kind: .number, usual: "\(usual)")
  }

  static func choice(_ name: String, _ label: String, _ choices: [(String, String)]) -> ActionField {
    ActionField(
      name: name, label: label, choices: choices.map { (value: $0.0, label: $0.1) }, kind: .choice,
      usual: choices.first?.0 ?? "")
  }

  static func checkbox(_ name: String, _ label: String) -> ActionField {
    ActionField(name: name, label: label, kind: .checkbox)
  }
}

extension ConsoleRequest {
  /// - Throws: ``SupportRefusal`` `invalid`.
  fileprivate func text(_ name: String) throws(SupportRefusal) -> String {
    guard let value = value(name) else { throw .invalid("'\(name)' is needed.") }
    return value
  }

  /// - Throws: ``SupportRefusal`` `invalid`.
  fileprivate func number<Number: FixedWidthInteger>(_ name: String, _: Number.Type = Int.self)
    throws(SupportRefusal)
    -> Number
  {
    let text = try text(name)
    guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let value = Number(text) else {
      throw .invalid("'\(name)' must be a whole number.")
    }
    return value
  }

  /// - Throws: ``SupportRefusal`` `invalid`.
  fileprivate func uuid(_ name: String) throws(SupportRefusal) -> UUID {
    guard let value = UUID(rfc9562: try text(name)) else { throw .invalid("'\(name)' must be a UUID.") }
    return value
  }

  /// - Parameter most: the most values.
  /// - Throws: ``SupportRefusal`` `invalid`.
  fileprivate func list<Value>(
    _ name: String, atMost most: Int, _ read: (String) -> Value?
  ) throws(SupportRefusal) -> [Value] {
    let texts = values(name)
    guard !texts.isEmpty else { throw .invalid("'\(name)' is needed.") }
    guard texts.count <= most else { throw .invalid("'\(name)' has at most \(most) values.") }
    var list: [Value] = []
    for text in texts {
      guard let value = read(text) else { throw .invalid("'\(name)' cannot have the value '\(text)'.") }
      list.append(value)
    }
    return list
  }

  /// - Throws: ``SupportRefusal`` `invalid`.
  fileprivate func choice<Choice: RawRepresentable>(_ name: String, _: Choice.Type = Choice.self)
    throws(SupportRefusal)
    -> Choice where Choice.RawValue == String
  {
    guard let value = Choice(rawValue: try text(name)) else {
      throw .invalid("'\(name)' has no such choice.")
    }
    return value
  }

  fileprivate func isChecked(_ name: String) -> Bool? { value(name) == nil ? nil : true }
}

// The forms. Their fields have the names of the members in docs/openapi.yaml.
extension ConsoleAction {
  private static let unseen = ActionField.checkbox(
    "force", "The app may never have seen this customer: I am sure of the id")

  /// `POST /support/v1/refresh`
  package static func refresh(perform: @escaping Perform<RefreshRequest>) -> ConsoleAction {
    var action = ConsoleAction(
      RefreshRequest.self, "Ask Apple now",
      "Asks the App Store about the customer's purchases, records the answers, and tells what they repaired.",
      [.text("id", "Customer, purchase or transaction")], perform: perform
    ) { RefreshRequest(id: try $0.text("id")) }
    action.fieldsOfCustomer = { ["id": $0.customer] }
    return action
  }

  /// `POST /support/v1/grant`
  package static func grant(perform: @escaping Perform<GrantRequest>) -> ConsoleAction {
    var action = ConsoleAction(
      GrantRequest.self, "Grant access",
      "Opens a tier from now on. Two grants do not add up: the later end holds.",
      [
        .text("customer", "Customer"), .text("bundleID", "App"), .text("tier", "Tier"),
        .number("days", "Days", usual: 7), unseen,
      ], perform: perform
    ) {
      GrantRequest(
        customer: try $0.text("customer"), bundleID: try $0.text("bundleID"), tier: try $0.text("tier"),
        days: try $0.number("days"), force: $0.isChecked("force"))
    }
    action.fieldsOfCustomer = { ["customer": $0.customer, "bundleID": $0.bundleID] }
    return action
  }

  /// `POST /support/v1/revoke-grant`
  package static func revokeGrant(perform: @escaping Perform<RevokeGrantRequest>) -> ConsoleAction {
    ConsoleAction(
      RevokeGrantRequest.self, "Revoke a grant", "Takes the grant back from now on.",
      [.text("grant", "Grant")],
      perform: perform
    ) { RevokeGrantRequest(grant: try $0.uuid("grant")) }
  }

  /// `POST /support/v1/note`
  package static func note(perform: @escaping Perform<NoteRequest>) -> ConsoleAction {
    var action = ConsoleAction(
      NoteRequest.self, "Write a note",
      "The reason is the note. It stands in the record and in the customer's timeline, and cannot be changed.",
      [.text("customer", "Customer"), .text("bundleID", "App")], perform: perform
    ) { NoteRequest(customer: try $0.text("customer"), bundleID: try $0.text("bundleID")) }
    action.isRepeatable = true
    action.fieldsOfCustomer = { ["customer": $0.customer, "bundleID": $0.bundleID] }
    return action
  }

  /// `POST /support/v1/extend-trial`
  package static func extendTrial(perform: @escaping Perform<ExtendTrialRequest>) -> ConsoleAction {
    var action = ConsoleAction(
      ExtendTrialRequest.self, "Extend the trial",
      "Adds days from the trial's end, or from now where it is over. Once for each trial.",
      [.text("deviceID", "Device"), .text("bundleID", "App"), .number("days", "Days", usual: 7), unseen],
      perform: perform
    ) {
      ExtendTrialRequest(
        deviceID: try $0.text("deviceID"), bundleID: try $0.text("bundleID"), days: try $0.number("days"),
        force: $0.isChecked("force"))
    }
    action.fieldsOfCustomer = { customer in
      customer.trial.map { _ in ["deviceID": customer.customer, "bundleID": customer.bundleID] }
    }
    return action
  }

  /// `POST /support/v1/transfer`
  package static func transfer(perform: @escaping Perform<TransferRequest>) -> ConsoleAction {
    ConsoleAction(
      TransferRequest.self, "Transfer a purchase",
      "Gives one purchase to another customer of the app. The former owner's app cannot claim it back.",
      [.text("originalTransactionID", "Purchase"), .text("to", "To the customer"), unseen], perform: perform
    ) {
      TransferRequest(
        originalTransactionID: try $0.text("originalTransactionID"), to: try $0.text("to"),
        force: $0.isChecked("force"))
    }
  }

  /// `POST /support/v1/extend-renewal`
  package static func extendRenewal(perform: @escaping Perform<ExtendRenewalRequest>) -> ConsoleAction {
    ConsoleAction(
      ExtendRenewalRequest.self, "Extend the renewal date",
      "Asks Apple to move the renewal date by 1 to 90 days. Apple allows two extensions a year.",
      [
        .text("originalTransactionID", "Purchase"), .number("days", "Days", usual: 7),
        .choice(
          "reasonCode", "Reason for Apple",
          [
            ("3", "Service issue or outage"), ("1", "Customer satisfaction"), ("2", "Other"),
            ("0", "Not told"),
          ]),
        .checkbox("force", "Extend again, although it was extended within a day"),
      ], perform: perform
    ) {
      ExtendRenewalRequest(
        originalTransactionID: try $0.text("originalTransactionID"), days: try $0.number("days"),
        reasonCode: try $0.number("reasonCode"), force: $0.isChecked("force"))
    }
  }

  /// `POST /support/v1/refund-answer`
  package static func refundAnswer(perform: @escaping Perform<RefundAnswerRequest>) -> ConsoleAction {
    ConsoleAction(
      RefundAnswerRequest.self, "Refund answer",
      "Sets what Apple is told when this customer, or the buyer of this purchase, requests a refund.",
      [
        .text("id", "Customer or purchase"),
        .choice(
          "prefer", "Preference",
          [
            ("none", "No preference"), ("grant", "Prefer that Apple refunds"),
            ("decline", "Prefer that Apple declines"),
          ]),
      ], perform: perform
    ) {
      RefundAnswerRequest(
        id: try $0.text("id"), prefer: try $0.choice("prefer"), bundleID: $0.value("bundleID"))
    }
  }

  /// `POST /support/v1/reset-device-secret`
  package static func resetDeviceSecret(perform: @escaping Perform<ResetDeviceSecretRequest>) -> ConsoleAction
  {
    var action = ConsoleAction(
      ResetDeviceSecretRequest.self, "Reset the device's secret",
      "Deletes the secret of a device whose app lost it. Until its app sends a new one, the device is served without.",
      [
        .text("deviceID", "Device"), .text("bundleID", "App"),
        .text(
          "proof", "Proof",
          hint:
            "The original transaction id of the customer's purchase, trial or none. Needed where the device has a record of "
            + "several Apple Accounts, because one of them may be a stranger's.", isNeeded: false),
      ], perform: perform
    ) {
      ResetDeviceSecretRequest(
        deviceID: try $0.text("deviceID"), bundleID: try $0.text("bundleID"), proof: $0.value("proof"))
    }
    action.fieldsOfCustomer = { customer in
      customer.kind == "device" ? ["deviceID": customer.customer, "bundleID": customer.bundleID] : nil
    }
    return action
  }

  /// `POST /support/v1/erase-customer`
  package static func eraseCustomer(perform: @escaping Perform<EraseCustomerRequest>) -> ConsoleAction {
    var action = ConsoleAction(
      EraseCustomerRequest.self, "Erase the customer",
      "Replaces the customer's id and deletes everything that leads to the person. Money and counts stay. It cannot be undone. "
        + "The reason stays in the record and must not name the customer.",
      [
        .text("customer", "Customer"), .text("bundleID", "App"),
        .checkbox("force", "Erase although a subscription goes on at Apple, or a destination cannot be told"),
      ], perform: perform
    ) {
      EraseCustomerRequest(
        customer: try $0.text("customer"), bundleID: $0.value("bundleID"), force: $0.isChecked("force"))
    }
    action.isFinal = true
    action.fieldsOfCustomer = { ["customer": $0.customer, "bundleID": $0.bundleID] }
    return action
  }

  /// `POST /support/v1/free-access`
  package static func freeAccess(perform: @escaping Perform<FreeAccessRequest>) -> ConsoleAction {
    ConsoleAction(
      FreeAccessRequest.self, "Free access", "Opens every feature of an app to everyone, or ends that.",
      [.text("bundleID", "App"), .choice("state", "Free access", [("on", "On"), ("off", "Off")])],
      perform: perform
    ) { FreeAccessRequest(state: try $0.choice("state"), bundleID: try $0.text("bundleID")) }
  }

  /// `POST /support/v1/requeue` of rows of any queue.
  package static func requeue(perform: @escaping Perform<RequeueRequest>) -> ConsoleAction {
    var action = ConsoleAction(
      RequeueRequest.self, "Try again",
      "Makes the work due now, and opens the destination of a delivery if it was disabled.",
      [.list("rows", "Rows", hint: "Each with its queue, such as outbox:12.")]
    ) { request, author, isDryRun in
      let rows = try request.list("rows", atMost: RequeueRequest.maximumRows, WorkRow.init)
      let result = try await perform(RequeueRequest(rows: rows), author, isDryRun)
      return Answer(text: result.description, isPartial: !result.refused.isEmpty)
    }
    action.isRepeatable = true
    return action
  }

  /// `POST /support/v1/requeue` of an app's deliveries.
  package static func requeueAll(perform: @escaping Perform<RequeueRequest>) -> ConsoleAction {
    ConsoleAction(
      RequeueRequest.self, "Try all deliveries again",
      "Makes all deliveries of an app due that were given up.",
      [.text("bundleID", "App")], name: "requeue-all", perform: perform
    ) { RequeueRequest(bundleID: try $0.text("bundleID")) }
  }

  /// The most notifications of one form: each is verified, and recorded in a transaction of its own.
  private static let mostReplays = 50

  /// `POST /support/v1/replay` of one notification after another. One that cannot be replayed stops no other.
  package static func replay(perform: @escaping Perform<ReplayRequest>) -> ConsoleAction {
    ConsoleAction(
      ReplayRequest.self, "Process notifications again",
      "Verifies the kept notifications again and records them.",
      [.list("notificationUUID", "Notifications")]
    ) { request, author, _ in
      let uuids = try request.list("notificationUUID", atMost: mostReplays, UUID.init(rfc9562:))
      var (lines, isPartial): ([String], Bool) = ([], false)
      for uuid in uuids {
        let name = uuid.uuidString.lowercased()
        do {
          lines.append("\(name): \(try await perform(ReplayRequest(notificationUUID: uuid), author, false))")
        } catch let failure as ReplayFailure where uuids.count > 1 {
          lines.append("\(name): not processed: \(failure)")
          isPartial = true
        }
      }
      return Answer(text: lines.joined(separator: "\n"), isPartial: isPartial)
    }
  }

  /// `POST /support/v1/people/add`
  package static func addPerson(perform: @escaping Perform<AddPersonRequest>) -> ConsoleAction {
    var action = ConsoleAction(
      AddPersonRequest.self, "Add a person", "Makes a token, which is shown once.",
      [
        .text("name", "Name"),
        .choice(
          "role", "Role",
          [
            ("agent", "agent: helps customers"), ("lead", "lead: may do everything"),
            ("numbers", "numbers: sees figures only"),
          ]),
      ], name: "people-add", perform: perform
    ) { AddPersonRequest(name: try $0.text("name"), role: try $0.choice("role")) }
    action.showsAnswer = true
    return action
  }

  /// `POST /support/v1/people/remove`
  package static func removePerson(perform: @escaping Perform<RemovePersonRequest>) -> ConsoleAction {
    ConsoleAction(
      RemovePersonRequest.self, "Remove a person", "Ends the person's token and sessions at once.",
      [.text("name", "Name")], name: "people-remove", perform: perform
    ) { RemovePersonRequest(name: try $0.text("name")) }
  }
}

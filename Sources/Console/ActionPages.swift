import Actions
import Configuration
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Subscriptions
import Support

extension Console {
  /// The pages of actions: a form, a preview of what it would change, and the write, which leads to its record.
  static func actions(_ parts: Parts) -> ConsoleScreen {
    ConsoleScreen(
      entry: nil, path: "/console/act", operation: .customer,
      pages: parts.actions.flatMap { action in
        let path = "/console/act/\(action.name)"
        let page = ActionPage(action: action, parts: parts)
        return [
          ConsolePage(path: path, operation: action.operation) { request in try await page.form(request) },
          ConsolePage(method: .post, path: path, operation: action.operation) { request in
            try await page.act(request)
          },
        ]
      },
      templates: ["action": PackageResources.action_mustache])
  }
}

private struct ActionPage: Sendable {
  let action: ConsoleAction
  let parts: Console.Parts

  /// The form with the values of the query.
  func form(_ request: ConsoleRequest) async throws -> ConsoleAnswer {
    // A refused request names a transaction, which may be a later one of its purchase.
    let name = "originalTransactionID"
    guard let id = request.value(name), action.fields.contains(where: { $0.name == name }) else {
      return page(request)
    }
    let purchase = try await parts.pool.query(
      "SELECT original_transaction_id AS id FROM transactions WHERE transaction_id = \(id)"
    ).first?.decode("id", as: String.self)
    return page(request, values: purchase.map { [name: $0] } ?? [:])
  }

  /// Previews, or carries the action out.
  func act(_ request: ConsoleRequest) async throws -> ConsoleAnswer {
    let isDryRun = action.hasPreview && request.value("step") != "do"
    do {
      let author = try SupportAuthor(by: request.actor, reason: request.value("reason") ?? "")
      let before = try await lastRecord()
      let answer = try await mappingReplays { try await action.run(request, author, isDryRun) }
      if isDryRun { return page(request, preview: answer.text.readingTimes) }
      if action.showsAnswer || answer.isPartial { return page(request, done: answer.text) }
      guard let record = try await lastRecord(of: request.person, after: before) else {
        return page(request, done: answer.text)
      }
      return .redirect("/console/record/\(record)")
    } catch let refusal as SupportRefusal where refusal.kind != .forbidden {
      return page(request, refusal: refusal)
    }
  }

  /// A notification that cannot be replayed is a refusal like any other, with the status that the support API answers.
  private func mappingReplays<R>(_ body: () async throws -> R) async throws -> R {
    do {
      return try await mappingRefusals(body)
    } catch let problem as Problem where problem.status.kind == .clientError && problem.status != .forbidden {
      switch problem.status {
      case .notFound: throw SupportRefusal.notFound(problem.detail)
      case .conflict: throw SupportRefusal.alreadyDone(problem.detail)
      default: throw SupportRefusal.invalid(problem.detail)
      }
    }
  }

  private func lastRecord() async throws -> Int64 {
    try await parts.pool.query("SELECT coalesce(max(id), 0) AS id FROM support_actions")[0].decode("id")
  }

  /// The last record of what the person did, among those that came after another record.
  private func lastRecord(of person: Person, after former: Int64) async throws -> Int64? {
    try await parts.pool.query(
      "SELECT max(id) AS id FROM support_actions WHERE id > \(former) AND person_id = \(person.id)")[0]
      .decode("id")
  }

  private static func value(of field: ActionField, in request: ConsoleRequest) -> String? {
    guard field.kind == .list else { return request.value(field.name) }
    let values = request.values(field.name)
    return values.isEmpty ? nil : values.joined(separator: " ")
  }

  /// The only app of the form: that of the customer whose page led to it, or of the preview. Without one, the form
  /// offers all apps, and the tier is a text: the tiers of one app are not those of another.
  private func app(of request: ConsoleRequest, _ refusal: SupportRefusal?) -> App? {
    guard refusal == nil || request.value("back") != nil else { return nil }
    return request.value("bundleID").flatMap { parts.catalog[$0] }
  }

  private func page(
    _ request: ConsoleRequest, preview: String? = nil, done: String? = nil, refusal: SupportRefusal? = nil,
    values: [String: String] = [:]
  ) -> ConsoleAnswer {
    let app = self.app(of: request, refusal)
    let fields = action.fields.map { field in
      var choices = field.choices
      if field.name == "tier", let app {
        choices = app.tiers.values.sorted { $0.rank > $1.rank }.map { (value: $0.name, label: $0.name) }
      }
      if field.name == "bundleID" {
        choices = (app.map { [$0] } ?? parts.catalog.apps).map {
          (value: $0.bundleID, label: "\($0.name) (\($0.bundleID))")
        }
      }
      return ActionContent.Field(
        field, choices: choices, value: values[field.name] ?? Self.value(of: field, in: request),
        isEmpty: request.request.method == .get)
    }
    let back = request.value("back").map(Console.customerPath)
    let status: HTTPResponse.Status =
      switch refusal?.kind {
      case nil: .ok
      case .invalid: .badRequest
      case .notFound: .notFound
      case .alreadyDone: .conflict
      case .forbidden: .forbidden
      }
    return .page(
      ConsoleContent(
        status: status,
        title: action.title, template: "action",
        content: ActionContent(
          title: action.title, explanation: action.explanation, path: "/console/act/\(action.name)",
          fields: fields,
          reason: request.value("reason") ?? "", backTo: request.value("back"), back: back, preview: preview,
          done: done,
          problem: refusal?.description, asksForPreview: action.hasPreview && preview == nil && done == nil,
          asksAtOnce: !action.hasPreview && done == nil, isFinal: action.isFinal,
          isRepeatable: action.isRepeatable && preview == nil)))
  }
}

private struct ActionContent: Sendable {
  let title: String
  let explanation: String
  let path: String
  let fields: [Field]
  let reason: String
  let backTo: String?
  let back: String?
  let preview: String?
  let done: String?
  let problem: String?
  let asksForPreview: Bool
  let asksAtOnce: Bool
  let isFinal: Bool
  let isRepeatable: Bool

  struct Field: Sendable {
    let name: String
    let label: String
    let fieldHint: String?
    let isText: Bool
    let maximum: Int
    let isNumber: Bool
    let isNeeded: Bool
    let isChoice: Bool
    let isCheckbox: Bool
    let value: String
    let isChecked: Bool
    let choices: [Choice]

    struct Choice: Sendable {
      let choice: String
      let words: String
      let isSelected: Bool
    }

    init(_ field: ActionField, choices: [(value: String, label: String)], value: String?, isEmpty: Bool) {
      (name, label, fieldHint) = (field.name, field.label, field.hint)
      let isList = !choices.isEmpty && (value == nil || choices.contains { $0.value == value })
      isChoice = isList
      isNumber = field.kind == .number
      isNeeded = field.isNeeded
      isCheckbox = field.kind == .checkbox
      isText = !isList && field.kind != .number && field.kind != .checkbox
      maximum = field.kind == .list ? 12_000 : 256
      let shown = value ?? (isEmpty ? field.usual : "")
      self.value = shown
      isChecked = field.kind == .checkbox && value != nil
      self.choices = choices.map { Choice(choice: $0.value, words: $0.label, isSelected: $0.value == shown) }
    }
  }
}

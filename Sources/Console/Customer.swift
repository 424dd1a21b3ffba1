import Actions
import AppStore
import Authentication
import Configuration
import Customers
import Deliveries
import Foundation
import HTTP
import HTTPTypes
import JSON
import Postgres
import Subscriptions
import Support
import Text

extension Console {
  /// *Customer*: the report of `GET /support/v1/customer/{id}` as a page, with what support can do and say.
  static func customer(_ parts: Parts) -> ConsoleScreen {
    ConsoleScreen(
      entry: nil, path: "/console/customer", operation: .customer,
      pages: [
        ConsolePage(path: "/console/customer/{id}", operation: .customer) { request in
          let id: String = try request.request.parameters.require("id")
          let timeline = try Console.timelinePage(of: request)
          let report = try await parts.desk.customer(id, by: request.actor, timeline: timeline)
          guard !report.isEmpty else { throw Problem.notFound(report.found.detail + ".") }
          let refusals =
            report.customers.isEmpty ? try await parts.desk.settling(report.found.search.refusals) : []
          return .page(
            ConsoleContent(
              title: id, template: "customer",
              content: CustomerContent(report, refusals, timeline, for: request, parts),
              search: id))
        },
        ConsolePage(path: "/console/customer/{id}/export", operation: .exportCustomer) { request in
          let data = try await parts.desk.exportCustomer(
            request.request.parameters.require("id"), bundleID: request.query["bundleID"])
          var response = try Response.json(.ok, data)
          response.headers[.contentDisposition] = "attachment; filename=\"customer.json\""
          return .file(response)
        },
        ConsolePage(path: "/console/customer/{id}/export/page", operation: .exportCustomer) { request in
          let id: String = try request.request.parameters.require("id")
          let bundleID = request.query["bundleID"]
          let data = try await parts.desk.exportCustomer(id, bundleID: bundleID)
          return .page(
            ConsoleContent(
              title: "All of \(data.id)", template: "export",
              content: ExportContent(
                data, file: link(customerPath(id) + "/export", ["bundleID": bundleID]),
                back: customerPath(id), from: request.instant)))
        },
      ],
      templates: [
        "customer": PackageResources.customer_mustache, "purchase": PackageResources.purchase_mustache,
        "export": PackageResources.export_mustache,
      ])
  }
}

extension Console {
  /// The page of the timeline that an address names.
  fileprivate static func timelinePage(of request: ConsoleRequest) throws -> TimelinePage {
    var page = TimelinePage()
    if let text = request.value("events") {
      guard let kind = TimelinePage.Kind(rawValue: text) else {
        let kinds = TimelinePage.Kind.allCases.map(\.rawValue).joined(separator: ", ")
        throw Problem.invalidRequest("'events' must be one of \(kinds).")
      }
      page.kind = kind
    }
    if let text = request.value("page") {
      guard let number = Int(text), (1...TimelinePage.maximumNumber).contains(number) else {
        throw Problem.invalidRequest("'page' must be from 1 to \(TimelinePage.maximumNumber).")
      }
      page.number = number
    }
    return page
  }
}

/// What the page shows.
private struct CustomerContent: Sendable {
  let asked: String
  let detail: String
  let customers: [ShownCustomer]
  let unclaimed: [ShownPurchase]
  let hasUnclaimed: Bool
  let refusals: [RefusalLine]
  let hasRefusals: Bool
  let pairings: [ShownPairing]
  /// The number of parents that are not shown.
  let parentsHidden: Int?

  /// - Parameter refusals: the refused requests that name what no customer has.
  init(
    _ report: CustomerReport, _ refusals: [RefusedAttempt], _ timeline: TimelinePage,
    for request: ConsoleRequest, _ parts: Console.Parts
  ) {
    asked = report.asked
    detail = report.found.detail
    customers = report.customers.map {
      ShownCustomer(
        $0, timeline, at: Console.customerPath(report.asked), for: request, actions: parts.actions)
    }
    unclaimed = report.unclaimed.map { ShownPurchase($0, for: request, showsApp: true) }
    hasUnclaimed = !unclaimed.isEmpty
    self.refusals = refusals.map { RefusalLine($0, for: request) }
    hasRefusals = !refusals.isEmpty
    pairings = report.pairings.map {
      ShownPairing(
        $0, app: parts.catalog[$0.parent.bundleID]?.name,
        isBelow: report.found.search.customers.contains($0.parent))
    }
    let hidden = report.found.search.parentsHidden
    parentsHidden = hidden > 0 ? hidden : nil
  }
}

/// A customer of one app.
private struct ShownCustomer: Sendable {
  let kind: String
  let customer: String
  let app: String
  let bundleID: String
  let isOpen: Bool
  let tier: String?
  let status: String
  /// The end of what decides, that of access, and what follows, each in a sentence.
  let ends: [End]
  let because: String
  let hasPriority: Bool
  let paid: String
  let firstSeen: String?
  let confirmed: Moment?
  let freeAccess: Moment?
  let features: [Feature]
  let warnings: [Warning]
  let purchases: [ShownPurchase]
  /// The number of purchases that are not shown; `nil` if there are none.
  let purchasesHidden: Int?
  let grants: [ShownGrant]
  let grantsHidden: Int?
  let trial: ShownTrial?
  let children: [ShownChild]
  let childrenTitle: String
  let deliveries: [ShownDelivery]
  let hasDeliveries: Bool
  let events: [ShownEvent]
  let eventKinds: [EventKind]
  let earlier: String?
  let later: String?
  let refusals: [RefusalLine]
  let actions: [ActionLink]
  let replies: [Reply]
  let hasPurchases: Bool
  let hasGrants: Bool
  let hasChildren: Bool
  let hasRefusals: Bool
  let hasReplies: Bool
  let recordPath: String?

  struct EventKind: Sendable {
    let title: String
    let address: String
    let isShown: Bool
  }

  struct End: Sendable {
    let sentence: String
  }

  struct Feature: Sendable {
    let name: String
    let value: String
  }

  struct Warning: Sendable {
    /// `warn`, `bad` or `note`.
    let level: String
    let title: String
    let text: String
  }

  /// - Parameter path: that of the page, for the pages of the timeline.
  init(
    _ customer: ReportedCustomer, _ timeline: TimelinePage, at path: String, for request: ConsoleRequest,
    actions: [ConsoleAction]
  ) {
    let now = request.instant
    kind = customer.kind
    self.customer = customer.customer
    (app, bundleID) = (customer.app, customer.bundleID)
    let entitlements = customer.entitlements
    isOpen = entitlements.isAccessGranted
    tier = entitlements.tier
    status = entitlements.status
    ends = customer.headSentences(at: now) { date in
      let moment = Moment(date, from: now)
      return "\(moment.text) (\(moment.relative))"
    }.map(End.init)
    because = customer.because.withCapital
    hasPriority = customer.hasPrioritySupport
    paid = Self.total(customer.purchases)
    firstSeen = (customer.seen?.firstAt ?? customer.purchases.compactMap(\.plan.firstPurchaseDate).min())
      .map { "\(Day(of: $0))" }
    confirmed = customer.purchases.compactMap(\.plan.confirmedAt).max().map { Moment($0, from: now) }
    freeAccess = customer.freeAccessSince.map { Moment($0, from: now) }
    features = entitlements.features.ordered.map { Feature(name: $0.name, value: $0.value.words) }
    warnings = Self.warnings(customer, at: now)
    let (bought, boughtHidden) = Self.latest(customer.purchases) {
      $0.opensSomething || $0.chargeRetriesUntil != nil || $0.refundRequests.contains { $0.outcome == nil }
    }
    purchases = bought.map { ShownPurchase($0, for: request, of: customer.customer) }
    purchasesHidden = boughtHidden
    let (given, givenHidden) = Self.latest(customer.grants) { $0.isOpen || $0.startsAt > now }
    grants = given.map { ShownGrant($0, for: request, of: customer.customer) }
    grantsHidden = givenHidden
    trial = customer.trial.map { ShownTrial($0, from: now) }
    children = customer.children.map { ShownChild($0, from: now) }
    let limit = entitlements.features["childDevices"].map { $0.words } ?? "no limit"
    childrenTitle = "\(customer.children.count + customer.childrenHidden) of \(limit)"
    deliveries = customer.deliveries.map { ShownDelivery($0, from: now) }
    hasDeliveries = !deliveries.isEmpty
    events = customer.events.reversed().map { ShownEvent($0, from: now) }
    func address(_ kind: TimelinePage.Kind?, _ number: Int = 1) -> String {
      link(path, ["events": kind?.rawValue, "page": number > 1 ? "\(number)" : nil]) + "#timeline"
    }
    eventKinds = ([nil] + TimelinePage.Kind.allCases.map(Optional.some)).map { kind in
      EventKind(title: kind?.rawValue ?? "all", address: address(kind), isShown: kind == timeline.kind)
    }
    let hasEarlier = customer.eventsHidden > 0 && timeline.number < TimelinePage.maximumNumber
    earlier = hasEarlier ? address(timeline.kind, timeline.number + 1) : nil
    later = timeline.number > 1 ? address(timeline.kind, timeline.number - 1) : nil
    refusals = customer.refusedAttempts.reversed().map { RefusalLine($0, for: request) }
    self.actions = ActionLink.links(for: customer, actions, request)
    replies = Reply.replies(to: customer, at: now)
    (hasPurchases, hasGrants) = (!purchases.isEmpty, !grants.isEmpty)
    (hasChildren, hasRefusals, hasReplies) = (!children.isEmpty, !refusals.isEmpty, !replies.isEmpty)
    recordPath = link("/console/record", ["customer": customer.customer])
  }

  /// The most values of a list of which the latest come first.
  private static let most = 20

  /// The first values and all that matter now, and the number of the others.
  private static func latest<Value>(
    _ values: [Value], unless matters: (Value) -> Bool
  ) -> (shown: [Value], hidden: Int?) {
    var left = most - values.count(where: matters)
    let shown = values.filter { value in
      if matters(value) { return true }
      left -= 1
      return left >= 0
    }
    return (shown, shown.count < values.count ? values.count - shown.count : nil)
  }

  /// The sums that were paid, by currency.
  private static func total(_ purchases: [ReportedPurchase]) -> String {
    var sums: [String: Decimal] = [:]
    for purchase in purchases
    where purchase.environment == "Production" && purchase.ownership != "FAMILY_SHARED" {
      for money in purchase.plan.totalPaid {
        sums[money.currency, default: 0] += Decimal(string: money.amount) ?? 0
      }
    }
    return sums.isEmpty
      ? "nothing" : sums.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }.joined(separator: ", ")
  }

  private static func warnings(_ customer: ReportedCustomer, at now: Date) -> [Warning] {
    var warnings: [Warning] = []
    for double in customer.doublePurchases {
      warnings.append(Warning(level: "bad", title: "Bought twice", text: double.advice))
    }
    for purchase in customer.purchases {
      let id = purchase.originalTransactionID
      if let retries = purchase.chargeRetriesUntil {
        warnings.append(
          Warning(
            level: "warn", title: "Billing trouble",
            text: "Apple could not charge \(purchase.productID) (\(id)) and tries until \(Day(of: retries)). "
              + purchase.unpaidAccess(at: now)))
      }
      for refund in purchase.refundRequests where refund.outcome == nil {
        let consent =
          refund.hasConsent
          ? ""
          : " The customer's consent is missing: the app asks for it, and without it Apple gets no answer."
        let preference = purchase.refundPreference.map { " \($0.words.withCapital), \($0.by) said." } ?? ""
        warnings.append(
          Warning(
            level: "warn", title: "Open refund request",
            text: "Apple asked about \(refund.transactionID) and takes an answer until "
              + "\(Moment(refund.deadline, from: now).text) (\(Moment(refund.deadline, from: now).relative)).\(consent)\(preference)"
          ))
      }
      if purchase.plan.priceIncrease == "pending", purchase.storeStatus == "active" {
        warnings.append(
          Warning(
            level: "note", title: "Price increase",
            text:
              "The customer has not agreed to the new price of \(purchase.productID). Without consent it ends."
          ))
      }
      if let note = purchase.note {
        warnings.append(Warning(level: "note", title: "Not counted", text: "\(id): \(note)."))
      }
      if let oldProof = purchase.oldProof {
        warnings.append(Warning(level: "note", title: "Old proof", text: "\(id): \(oldProof)."))
      }
    }
    if let attempt = customer.attemptOnAnother {
      warnings.append(
        Warning(
          level: "warn", title: "Another account has the purchase",
          text:
            "A request that named this customer showed the transaction \(attempt.transactionID ?? ""), which belongs to another "
            + "customer. Ask whether both accounts are theirs; a lead moves it by 'Transfer' below."))
    } else if customer.purchases.isEmpty, customer.grants.isEmpty, customer.trial == nil, customer.seen != nil
    {
      warnings.append(
        Warning(
          level: "note", title: "Known, without purchase",
          text:
            "The user signed in, and no purchase, grant or trial of theirs ever came. Ask for the order id."))
    }
    for delivery in customer.deliveries where delivery.isInTrouble {
      warnings.append(
        Warning(
          level: "warn", title: "Not delivered",
          text: "The \(delivery.what) of \(Moment(delivery.createdAt, from: now).text) is \(delivery.state): "
            + "\(delivery.lastError ?? "no error is known"). A lead sends it again under Queues."))
    }
    let paused = customer.children.filter { $0.pausedBecause != nil }
    for child in paused.prefix(5) {
      warnings.append(
        Warning(
          level: "note", title: "Paused child",
          text: "\(child.name ?? child.childDeviceID): \(child.pausedBecause ?? "")."))
    }
    return warnings
  }
}

/// A way from a customer's page to what a person may do, greyed where the role does not allow it.
private struct ActionLink: Sendable {
  let label: String
  let path: String?
  /// Who may do it, if the person may not.
  let allowed: String

  init(_ label: String, _ operation: SupportOperation, _ path: String, _ request: ConsoleRequest) {
    self.label = label
    self.path = request.may(operation) ? path : nil
    allowed = "A \(operation.leastRole.rawValue) may do this."
  }

  /// The actions on a customer and the exports. What cannot be taken back comes last.
  static func links(
    for customer: ReportedCustomer, _ actions: [ConsoleAction], _ request: ConsoleRequest
  ) -> [ActionLink] {
    let (id, app) = (customer.customer, customer.bundleID)
    func links(areFinal: Bool) -> [ActionLink] {
      actions.filter { $0.isFinal == areFinal }.compactMap { action in
        action.fieldsOfCustomer(customer).map { fields in
          let path = link("/console/act/\(action.name)", fields) + "&back=\(id.percentEncoded)"
          return ActionLink(action.title, action.operation, path, request)
        }
      }
    }
    let page = Console.customerPath(id) + "/export"
    let exports = [("Export to read or print", page + "/page"), ("Export as JSON", page)].map { label, path in
      ActionLink(label, .exportCustomer, link(path, ["bundleID": app]), request)
    }
    return links(areFinal: false) + exports + links(areFinal: true)
  }
}

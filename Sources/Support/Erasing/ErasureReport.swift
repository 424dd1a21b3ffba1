import Customers
import JSON
import Subscriptions
import Text

/// The result of erasing a customer.
package struct ErasureReport: Encodable, Sendable, CustomStringConvertible {
  /// Whether nothing was written.
  let isDryRun: Bool
  /// The customer that was erased: one.
  let erased: [Erased]

  /// A customer that was erased.
  struct Erased: Encodable, Sendable {
    /// The customer's id as the database had it, so that a mistyped one is seen.
    let customer: String
    /// `user` or `device`.
    let kind: String
    /// The apps of which the customer was erased.
    let bundleIDs: [String]
    /// The random id that replaces the customer's, in `support_actions` and elsewhere; `null` in a dry run.
    @Nullable var pseudonym: String?
    /// The number of changed rows by table.
    let rows: [String: Int]
    /// The number of rows of other customers that named this one: only the id in them is replaced.
    let rowsOfOthers: Int
    /// The number of other customers' pairings with this device, which ended.
    let pairingsOfOthers: Int
    /// The number of notifications of other customers' purchases that have the user's UUID, as the App Store signed it:
    /// they stay.
    let notificationsOfOthers: Int
    /// The subscriptions that go on at the App Store until the customer cancels them.
    let runningSubscriptions: [String]
    /// The destinations that were told of the customer and are not told of the erasure, because the configuration here
    /// lacks them: the app, the kind and, for a webhook, the endpoint.
    let unreachableDestinations: [String]
    /// Whether the user is still in `auth.users`, as far as receiptd may read it.
    let hasSignUp: Bool
  }

  init(_ erasure: SupportDesk.Erasure, isDryRun: Bool) {
    let customer = erasure.customer
    self.isDryRun = isDryRun
    erased = [
      Erased(
        customer: customer.id, kind: customer.customer.kindWord, bundleIDs: customer.bundleIDs,
        pseudonym: isDryRun ? nil : customer.pseudonym, rows: erasure.counts,
        rowsOfOthers: erasure.rowsOfOthers, pairingsOfOthers: erasure.pairingsOfOthers,
        notificationsOfOthers: erasure.notificationsOfOthers,
        runningSubscriptions: erasure.obstacles.running,
        unreachableDestinations: erasure.obstacles.unreachable.map(Self.name), hasSignUp: erasure.hasSignUp)
    ]
  }

  /// Why the customer is erased with `--force` alone.
  static func warning(_ obstacles: SupportDesk.Obstacles) -> String {
    var sentences: [String] = []
    if !obstacles.running.isEmpty {
      sentences.append(
        "\(obstacles.running.joined(separator: ", ")) goes on at the App Store: erasing neither ends nor refunds it, and takes "
          + "the access away. Have the customer cancel it in the settings of the Apple Account.")
    }
    for destination in obstacles.unreachable {
      sentences.append(
        "\(name(destination)) was told of the customer, and the configuration here has no such destination: erase with one "
          + "that has it. If it is gone for good, delete its rows from outbox.")
    }
    return
      (sentences + ["Then, or to erase all the same, repeat with --force (support API: \"force\": true)."])
      .joined(separator: " ")
  }

  private static func name(_ destination: OutboxDestination) -> String {
    [destination.bundleID, destination.kind.rawValue, destination.endpoint].filter { !$0.isEmpty }
      .joined(separator: " ")
  }

  /// Text for a terminal with 80 columns.
  package var description: String {
    var output = TerminalText()
    for customer in erased {
      let apps = customer.bundleIDs.joined(separator: ", ")
      output.heading(
        customer.pseudonym.map { "the \(customer.kind) is erased, and is \($0) now" }
          ?? "the \(customer.kind) would be erased")
      output.line("id: \(customer.customer)")
      output.line("apps: \(apps)")
      for table in CustomerTable.all {
        guard let rows = customer.rows[table.name] else { continue }
        output.line("\(table.name): \(rows) (\(table.rule))")
      }
      output.line(
        customer.rowsOfOthers == 0
          ? "rows of other customers: none"
          : "rows of other customers: \(customer.rowsOfOthers) (only the id in them becomes the pseudonym)")
      if customer.pairingsOfOthers > 0 {
        output.line("pairings of other customers with the device: \(customer.pairingsOfOthers) (deleted)")
      }
      if customer.notificationsOfOthers > 0 {
        output.line(
          "notifications of other customers: \(customer.notificationsOfOthers) (they stay, with the id that Apple signed)"
        )
      }
      for subscription in customer.runningSubscriptions {
        output.line("\(subscription) goes on at the App Store until the customer cancels it")
      }
      for destination in customer.unreachableDestinations {
        output.line("\(destination) is not told: the configuration here has no such destination")
      }
      if customer.hasSignUp { output.line("the sign-up is still in auth.users: delete it there") }
    }
    return output.text
  }
}

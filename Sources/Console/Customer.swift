import Actions
import HTTP
import Support

extension Console {
  /// The page of a customer: the report of `receiptd customer`, read by the same action and with its record.
  static func customer(_ parts: Parts) -> [ConsolePage] {
    [
      ConsolePage(path: "/console/customer/{id}", operation: .customer) { request in
        let id: String = try request.request.parameters.require("id")
        let report = try await parts.desk.customer(id, by: request.actor)
        guard !report.isEmpty else { throw Problem.notFound(report.found.description) }
        return .page(
          ConsoleContent(
            title: "Customer \(id)", template: "customer",
            content: CustomerContent(asked: id, report: report.description), search: id, refreshes: false))
      }
    ]
  }
}

private struct CustomerContent: Sendable {
  let asked: String
  let report: String
}

import AppStore
import AppStoreSimulator
import Curl
import Foundation
import HTTPTypes
import Postgres
import Testing
import Text

@testable import Adoption
@testable import Numbers
@testable import ReceiptService

/// `GET /support/v1/numbers/{view}` in JSON and in CSV.
@Suite struct NumbersAPITests {
  private static let app = ScreenTime.bundleID

  @Test func `CSV has the view's columns in their order, and one column for each currency of an amount`()
    async throws
  {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      try await harness.account("ann", buys: ScreenTime.individual)
      var info = try harness.buy(ScreenTime.family, bundleID: Self.app).transaction
      (info.price, info.currency) = (13_990, "EUR")
      #expect(try await harness.validate(["signedTransaction": harness.sign(info)]).status == 200)
      try harness.becomes("03-02")
      try await harness.countWhatIsDue()
      let day = try harness.day("03-01").description
      let answer = try await harness.csv("kpi_daily?from=\(day)&to=\(day)&bundleID=\(Self.app)")
      #expect(answer.status == 200)
      #expect(answer.headers[.contentType] == "text/csv; charset=utf-8")
      let text = String(decoding: answer.body, as: UTF8.self)
      #expect(text.hasPrefix("day,bundle_id,tier,product_id,new,renewed,"))
      #expect(!text.contains("{") && text.hasSuffix("\r\n"))
      let table = try CSVTable(text)
      #expect(table.columns.filter { $0.hasPrefix("mrr_") } == ["mrr_eur", "mrr_usd"])
      let individual = try #require(table.rows.first { $0["tier"] == "individual" })
      let family = try #require(table.rows.first { $0["tier"] == "family" })
      #expect(individual["revenue_usd"] == "7.99" && individual["revenue_eur"] == nil)
      #expect(family["revenue_eur"] == "13.99" && family["new"] == "1")
      #expect(individual["day"] == day && individual["bundle_id"] == Self.app)
    }
  }

  @Test func `CSV has the values of the JSON rows in every view`() async throws {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      let bought = try await harness.account("ann", buys: ScreenTime.individual)
      try harness.becomes("03-10")
      try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
      try harness.becomes("03-11")
      try await harness.countWhatIsDue()
      let range = "from=\(try harness.day("03-01"))&to=\(try harness.day("03-31"))"
      var viewsWithRows = 0
      for view in NumbersView.allCases {
        let json = try await harness.support(
          "numbers/\(view.rawValue)?\(range)", token: Harness.supportToken)
        let rows = try #require(json["rows"] as? [[String: Any]])
        if !rows.isEmpty { viewsWithRows += 1 }
        let table = try CSVTable(
          String(decoding: try await harness.csv("\(view.rawValue)?\(range)").body, as: UTF8.self))
        #expect(table.rows.count == rows.count, "\(view)")
        // The header is there without rows too.
        #expect(table.columns.contains("bundle_id"), "\(view)")
        let plain = rows.flatMap { row in row.compactMap { $1 is [String: Any] ? nil : $0 } }
        #expect(Set(table.columns).isSuperset(of: plain), "\(view)")
      }
      #expect(viewsWithRows >= 4)
      let losses = try await harness.csv("kpi_losses_daily?\(range)")
      let lines = String(decoding: losses.body, as: UTF8.self).split(separator: "\r\n").map(String.init)
      #expect(lines.first == "day,bundle_id,tier,product_id,loss,reason,country,offer,subscriptions")
      #expect(
        lines.dropFirst().contains { $0.contains(",individual,") && $0.contains(",cancelled,customer,") })
    }
  }

  @Test func `an end that the customer chose counts as the customer's also before its notification comes`()
    async throws
  {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      let bought = try await harness.account("ann", buys: ScreenTime.individual)
      try await harness.account("ben", buys: ScreenTime.individual)
      try harness.becomes("03-10")
      try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
      try harness.becomes("04-05")
      try await harness.countWhatIsDue()
      let losses = try await harness.csv(
        "kpi_losses_daily?from=\(try harness.day("03-20"))&to=\(try harness.day("04-04"))")
      let lines = String(decoding: losses.body, as: UTF8.self).split(separator: "\r\n").map(String.init)
      for reason in ["customer", "unknown"] {
        #expect(lines.count { $0.contains(",expired,\(reason),") } == 1, "\(lines)")
      }
    }
  }

  @Test func `an app that no configuration names is not found, and one without figures has no rows`()
    async throws
  {
    try await withScreenTime { harness in
      let token = Harness.supportToken
      let unknown = try await harness.support("numbers/kpi_daily?bundleID=com.example.none", token: token)
      #expect(unknown.status == 404 && unknown.code == "not_found")
      #expect(unknown.string("detail")?.contains(Self.app) == true)
      let known = try await harness.support("numbers/kpi_daily?bundleID=\(Self.app)", token: token)
      #expect(known.status == 200 && (known["rows"] as? [Any])?.isEmpty == true)
      // An app that has left the configuration keeps its figures.
      let other = try await harness.service(configuration: TestApps.json)
      try await other.configuredApps.write()
      await other.close()
      let former = try await harness.support("numbers/kpi_daily?bundleID=\(TestApps.climbing)", token: token)
      #expect(former.status == 200)
    }
  }

  @Test(arguments: [
    "from=0000-01-01&to=0000-02-01", "to=0001-01-01", "to=2008-07-09", "from=1900-01-01", "to=9999-12-31",
    "from=2026-02-30",
  ])
  func `a day before the App Store's first or far in the future is an invalid request`(query: String)
    async throws
  {
    try await withScreenTime { harness in
      let answer = try await harness.support("numbers/kpi_daily?\(query)", token: Harness.supportToken)
      #expect(answer.status == 400 && answer.code == "invalid_request")
      let first = try await harness.support("numbers/kpi_daily?to=2008-07-10", token: Harness.supportToken)
      #expect(first.status == 200)
    }
  }

  @Test func `a client gets CSV where it accepts it more than JSON`() {
    for accept in [
      "text/csv", "text/csv, */*;q=0.1", "TEXT/CSV; header=present", "application/json;q=0.5, text/csv",
      "text/csv, application/json", "text/csv ; q=0.001", "text/csv;q=1.000", "text/csv;Q=0.5",
      "text/csv;q=1.",
    ] {
      #expect(NumbersFormat(accept: accept) == .csv, "\(accept)")
    }
    for accept in [
      nil, "", "*/*", "application/json", "application/json, text/csv", "text/csv;q=0", "text/html",
      "text/csv;q=0.5, application/json", "text/csv;q=0.000", "text/csv;q=0.",
      // A weight that RFC 9110 does not have.
      "text/csv;q=inf", "text/csv;q=nan", "text/csv;q=1.001", "text/csv;q=2", "text/csv;q=0.1234",
      "text/csv;q=-1", "text/csv;q=+1", "text/csv;q=1e0", "text/csv;q=0x1", "text/csv;q=.5", "text/csv;q=",
      "text/csv;q=0 .5", "text/csv;q=1.0.0", "text/csv;q=0.٥",
    ] {
      #expect(NumbersFormat(accept: accept) == .json, "\(accept ?? "nil")")
    }
  }

  @Test func `a cell of CSV with a comma, a quotation mark or a line break is quoted`() {
    var lines = CSVText()
    lines.append(["a", nil, "b,c", "d\"e", "f\r\ng"])
    #expect(lines.text == "a,,\"b,c\",\"d\"\"e\",\"f\r\ng\"\r\n")
  }

  @Test func `a cell of CSV that looks like a formula is marked as text, and a number is not`() {
    for cell in ["=1+1", "+1", "-", "-a", "-1-1", "-1.", "-1.2.3", "-Infinity", "@SUM(A1)", "\ta"] {
      var lines = CSVText()
      lines.append([cell])
      #expect(lines.text == "'\(cell)\r\n")
    }
    var quoted = CSVText()
    quoted.append(["=HYPERLINK(\"a\",\"b\")", "\ra", "\r\na"])
    #expect(quoted.text == "\"'=HYPERLINK(\"\"a\"\",\"\"b\"\")\",\"'\ra\",\"'\r\na\"\r\n")
    for cell in ["", "0", "7.99", "-7", "-7.99", "a=b", "2027-03-01"] {
      var lines = CSVText()
      lines.append([cell])
      #expect(lines.text == "\(cell)\r\n")
    }
  }
}

extension Harness {
  fileprivate func csv(_ path: String) async throws -> Answer {
    let response = try await http.send(
      CurlRequest(
        url: "http://\(adminAddress)/support/v1/numbers/\(path)",
        headers: [.authorization: "Bearer \(Self.supportToken)", .accept: "text/csv"]))
    return Answer(status: response.status, headers: response.headers, body: response.body)
  }
}

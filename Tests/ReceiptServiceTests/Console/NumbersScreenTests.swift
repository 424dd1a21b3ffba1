import Actions
import Foundation
import HTTPTypes
import Postgres
import Testing
import Text

@testable import Console
@testable import Numbers
@testable import ReceiptService

/// The screens *Numbers* and *Report*, as a browser gets them.
@Suite struct NumbersScreenTests {
  @Test func `every value of every chart is the one in its CSV file, over a simulated year`() async throws {
    try await withScreenTime { harness in
      var year = StoryYear(harness, seed: 8)
      try await year.play(customers: 50)
      try await harness.countWhatIsDue()
      let session = try await ConsoleBrowser(harness, .numbers)
      var values = 0
      for choice in [
        "currency=USD", "currency=EUR&by=tier&period=24m",
        "app=\(ScreenTime.bundleID)&period=3m&currency=USD",
        "tier=pro&by=app&currency=USD",
      ] {
        for chart in FigureChart.allCases {
          let page = try await session.page("/console/numbers/\(chart.rawValue)?\(choice)")
          let csv = try await session.get("/console/numbers/\(chart.rawValue)/csv?\(choice)")
          #expect(csv.headers[.contentType] == "text/csv; charset=utf-8")
          let lines = String(decoding: csv.body, as: UTF8.self).split(separator: "\r\n")
            .map { $0.split(separator: ",", omittingEmptySubsequences: false).map(String.init) }
          let places = Self.drawnValues(page)
          switch chart {
          case .trials, .paywall:
            // Each step of the funnel is a sum of the line without a month.
            let numbers = try #require(lines.last).compactMap(Double.init)
            #expect(places.isEmpty || places.first == [numbers[0]], "\(chart) \(choice)")
          case .retention:
            let drawn = places.joined().compactMap { $0 }
            #expect(drawn == lines.dropFirst().compactMap { Double($0[6]) }, "\(chart) \(choice)")
          default:
            // The page has the chart twice, for wide and for narrow screens.
            #expect(places.count == 2 * (lines.count - 1) || places.isEmpty, "\(chart) \(choice)")
            for (place, line) in zip(places, lines.dropFirst() + lines.dropFirst()) {
              var rest = line.dropFirst().map(Double.init)[...]
              for value in place {
                let index = rest.firstIndex(of: value)
                #expect(index != nil, "\(chart) \(choice): \(String(describing: value)) is not in \(line)")
                rest = rest.dropFirst()
                values += 1
              }
            }
          }
        }
      }
      #expect(values > 1_000, "\(values)")
    }
  }

  @Test func `the overview has every card and chart in less than 150 kB, without inline script or style`()
    async throws
  {
    try await withScreenTime { harness in
      var year = StoryYear(harness, seed: 3)
      try await year.play(customers: 60)
      try await harness.countWhatIsDue()
      let session = try await ConsoleBrowser(harness, .numbers)
      for choice in ["", "?period=1m", "?period=3m&currency=EUR&by=app", "?period=24m&currency=JPY"] {
        let answer = try await session.get("/console/numbers\(choice)")
        let page = String(decoding: answer.body, as: UTF8.self)
        #expect(answer.status == 200)
        for chart in FigureChart.allCases {
          #expect(page.contains("id=\"chart-\(chart.rawValue)\""), "\(chart)")
          #expect(page.contains("/console/numbers/\(chart.rawValue)?"), "\(chart)")
        }
        for card in [
          "MRR", "ARR", "Paying", "In trial", "New customers", "Revenue", "Refunds", "Churn",
          "Trial conversion",
        ] {
          #expect(page.contains("<h3>\(card)</h3>"), "\(card)")
        }
        #expect(answer.body.count < 150_000, "\(answer.body.count)")
        #expect(!page.contains("style=") && !page.contains("<style") && !page.contains("onload"))
        #expect(!page.contains("{{") && !page.contains("nan") && !page.contains("not documented"))
      }
    }
  }

  @Test func `a card compares the running month with the same days of the month before`() async throws {
    try await withScreenTime { harness in
      for (day, account) in [("02-03", "ann"), ("02-10", "ben"), ("02-20", "cid"), ("03-02", "dot")] {
        try harness.becomes(day)
        try await harness.account(account, buys: ScreenTime.individual)
      }
      try harness.becomes("03-10")
      try await harness.countWhatIsDue()
      let page = try await ConsoleBrowser(harness, .numbers).page("/console/numbers")
      let cards = page.components(separatedBy: "<article class=\"card kpi\">").dropFirst()
      let new = try #require(cards.first { $0.contains("<h3>New customers</h3>") })
      // One from 1 to 10 March, two from 1 to 10 February.
      #expect(
        new.contains("<p class=\"value\">1 <span class=\"change bad\">\u{2212}50.0 %</span></p>"), "\(new)")
      #expect(new.contains("2 on the same days of Feb"))
      #expect(new.contains("kpi_daily.new") && new.contains("First purchases on the day"))
      let revenue = try #require(cards.first { $0.contains("<h3>Revenue</h3>") })
      #expect(
        revenue.contains("<p class=\"value\">7.99 USD") && revenue.contains("15.98 USD on the same days"))
      // A figure at the end of a day, beside the end of the whole month.
      let mrr = try #require(cards.first { $0.contains("<h3>MRR</h3>") })
      #expect(
        mrr.contains("15.98 USD on 10 Feb, 23.97 USD at the end of Feb \(harness.storyYear)"), "\(mrr)")
      // No client reported an event: 5 new customers are no step of a funnel.
      #expect(page.contains("No event of a client was counted in this period, so there is no funnel."))
    }
  }

  @Test func `a product, tier, app and reason has one colour on every page, and one order in every legend`()
    async throws
  {
    try await withScreenTime { harness in
      var year = StoryYear(harness, seed: 8)
      try await year.play(customers: 60)
      try await harness.countWhatIsDue()
      let session = try await ConsoleBrowser(harness, .numbers)
      let month = "month=\(harness.storyYear)-10"
      var colours: [String: Set<String>] = [:]
      var names: [String: Set<String>] = [:]
      for path in [
        "numbers", "numbers?currency=EUR&period=24m", "numbers?app=\(ScreenTime.bundleID)", "numbers/mrr",
        "numbers/churn", "numbers?by=app", "numbers/churn?by=app", "numbers?by=tier&period=3m",
        "numbers/mrr?by=tier&currency=EUR", "report?\(month)", "report?\(month)&currency=EUR",
      ] {
        let page = try await session.page("/console/\(path)")
        for legend in page.components(separatedBy: "<ul class=\"legend\">").dropFirst() {
          let entries = legend.prefix(upTo: legend.range(of: "</ul>")?.lowerBound ?? legend.endIndex).matches(
            of: /"bar (c[0-9]+)"[^>]*><\/svg><span(?: title="([^"]*)")?>([^<]*)<\/span>/)
          let ids = entries.map { String($0.2 ?? $0.3) }
          for (id, entry) in zip(ids, entries) where !Self.columns.contains(id) {
            colours[id, default: []].insert(String(entry.1))
            names[id, default: []].insert(String(entry.3))
          }
          let known = ids.compactMap { Self.order.firstIndex(of: $0) }
          #expect(known == known.sorted(), "\(path): \(ids)")
        }
      }
      for (id, found) in colours { #expect(found.count == 1, "\(id): \(found)") }
      #expect(colours.keys.filter(Self.order.contains).count >= 6, "\(colours)")
      for kind in [Self.order.prefix(4), Self.order.dropFirst(4)] {
        let used = kind.compactMap { colours[$0]?.first }
        #expect(Set(used).count == used.count, "\(colours)")
      }
      // The name on a page of all apps, and on a page of its app.
      #expect(
        names[ScreenTime.family] == ["ScreenTime Rewards family.monthly", "family.monthly"], "\(names)")
      let mrr = try await session.page("/console/numbers/mrr?currency=USD")
      #expect(
        mrr.contains(
          "title=\"\(ScreenTime.family)\" class=\"number\">ScreenTime Rewards family.monthly</th>"))
      #expect(
        mrr.contains(
          "<option value=\"\(ScreenTime.bundleID)\" title=\"\(ScreenTime.bundleID)\">ScreenTime Rewards</option>"
        ))
      let report = try await session.page("/console/report?\(month)&app=\(ScreenTime.bundleID)")
      #expect(report.contains("<h1>ScreenTime Rewards, Oct \(harness.storyYear)</h1>"))
      #expect(report.contains("<th scope=\"row\" title=\"\(ScreenTime.family)\">family.monthly</th>"))
    }
  }

  /// Apps, and products, in the order of their places.
  private static let order =
    ["com.swiftclimb.app", ScreenTime.bundleID, "com.thaqalayn.app", ScreenTime.heatlab] + [
      "com.swiftclimb.premium.annual", "com.swiftclimb.premium.monthly", ScreenTime.family,
      ScreenTime.individual,
      "com.thaqalayn.premium.tafsir", "com.heatlab.pro.annual", "com.heatlab.pro.monthly",
    ]

  /// Series that are columns, and not names of the configuration.
  private static let columns: Set = [
    "new", "expansion", "moved", "contraction", "churn", "revenue", "refunds", "paying", "in trial",
    "lifetime",
    "not renewing", "LTV",
  ]

  @Test func `the table of MRR has the ends of months and a total`() async throws {
    try await withScreenTime { harness in
      try harness.becomes("02-03")
      try await harness.account("ann", buys: ScreenTime.individual)
      try await harness.account("ben", buys: ScreenTime.family)
      try harness.becomes("03-02")
      try await harness.countWhatIsDue()
      let session = try await ConsoleBrowser(harness, .numbers)
      let page = try await session.page("/console/numbers/mrr")
      #expect(page.contains("<th scope=\"col\" class=\"number\">total</th>"))
      let row = try #require(
        page.components(separatedBy: "<tr>").first { $0.hasPrefix("<th scope=\"row\">28 Feb ") })
      #expect(row.contains(">12.99<") && row.contains(">7.99<") && row.contains(">20.98<"), "\(row)")
      let csv = try await session.get("/console/numbers/mrr/csv").text
      #expect(
        csv.hasPrefix("day,\(ScreenTime.family),\(ScreenTime.individual),total\r\n"), "\(csv.prefix(200))")
      #expect(csv.contains("-02-28,12.99,7.99,20.98\r\n"), "\(csv)")
      // One product is its own total.
      let one = try await session.page("/console/numbers/mrr?product=\(ScreenTime.family)")
      #expect(!one.contains(">total<"))
    }
  }

  @Test func `the report of a past month has the retention of its last day, and says what is not complete`()
    async throws
  {
    try await withScreenTime { harness in
      for (day, account) in [("02-03", "ann"), ("02-27", "ben")] {
        try harness.becomes(day)
        try await harness.account(account, buys: ScreenTime.individual)
      }
      try harness.becomes("05-10")
      try await harness.countWhatIsDue()
      let session = try await ConsoleBrowser(harness, .numbers)
      func cells(_ page: String) -> [String] {
        let heat = page.components(separatedBy: "<table class=\"heat\">").last ?? ""
        return heat.matches(of: /<td class="(h[^"]*)"/).map { String($0.1) }
      }
      let note = "In italics: a part of the month&#39;s subscriptions has not reached this age yet."
      for (month, shown) in [("02", 0), ("03", 1), ("04", 2)] {
        let page = try await session.page("/console/report?month=\(harness.storyYear)-\(month)")
        #expect(cells(page).count == shown, "\(month): \(cells(page))")
        #expect(page.contains("Retention, as it was on "))
        #expect(page.contains("by month of the first payment, up to 10 May \(harness.storyYear)</h2>"))
        #expect(!page.contains(note.replacing("&#39;", with: "'")))
      }
      // Ann has been a customer for three months, and Ben has not.
      for path in ["numbers", "numbers/retention", "report?month=\(harness.storyYear)-05"] {
        let page = try await session.page("/console/\(path)")
        #expect(cells(page).map { $0.hasSuffix(" partial") } == [false, false, true], "\(path)")
        #expect(page.contains(note.replacing("&#39;", with: "'")), "\(path)")
      }
    }
  }

  @Test func `a change of a ratio is the difference of the percentages that the page shows`() {
    // 3.44 and 1.46 percent, which the page shows as 3.4 and 1.5.
    #expect(FigureChange.text("0.0344", "0.0146", .churn).0 == "+1.9 points")
    #expect(FigureChange.text("0.0336", "0.0144", .churn).0 == "+2.0 points")
  }

  @Test func `a hostile name of a product or an app is shown as text`() async throws {
    try await withScreenTime { harness in
      let name = "<script>alert(1)</script>\"'{{title}}"
      _ = try await harness.pool.query(
        "INSERT INTO kpi_days (day, as_of, computed_at) VALUES (\(harness.day("03-01").description)::text::date, now(), now())"
      )
      _ = try await harness.pool.query(
        """
        INSERT INTO kpi_daily_money
        VALUES (\(harness.day("03-01").description)::text::date, \(name), \(name), \(name), 'USD', 1, 9.5, 0, 1, 9.5, 0, 9.5, 0, 0, 0, 0)
        """)
      _ = try await harness.pool.query(
        """
        INSERT INTO kpi_daily_figures
        VALUES (\(harness.day("03-01").description)::text::date, \(name), \(name), \(name), 0, 0, 1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0)
        """)
      try harness.becomes("03-01")
      let session = try await ConsoleBrowser(harness, .numbers)
      let chosen = name.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
      for path in [
        "numbers?period=1m", "numbers/mrr?period=1m", "numbers/churn?period=1m&by=app",
        "report?month=\(harness.storyYear)-03",
        "numbers?app=\(chosen)", "numbers/mrr?product=\(chosen)",
        "report?month=\(harness.storyYear)-03&app=\(chosen)",
      ] {
        let page = try await session.page("/console/\(path)")
        #expect(!page.contains("<script>alert"), "\(path)")
        #expect(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;{{title}}"), "\(path)")
      }
      let csv = try await session.get("/console/numbers/mrr/csv?period=1m")
      #expect(csv.headers[.contentDisposition]?.hasPrefix("attachment; filename=\"mrr-") == true)
    }
  }

  @Test func `a choice that does not exist is refused, and before the first count the page says so`()
    async throws
  {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      let session = try await ConsoleBrowser(harness, .numbers)
      for path in ["numbers", "report"] {
        #expect(try await session.page("/console/\(path)").contains("No day has been counted yet"))
      }
      #expect(try await session.get("/console/numbers/mrr").status == 404)
      try await harness.account("ann", buys: ScreenTime.individual)
      try await harness.countWhatIsDue()
      for query in [
        "by=<b>", "period=5y", "currency=usd", "currency=U%22D", "app=" + String(repeating: "a", count: 256),
      ] {
        #expect(
          try await session.get(
            "/console/numbers?\(query.replacing("<", with: "%3C").replacing(">", with: "%3E"))"
          ).status == 400, "\(query)")
      }
      for month in ["2026-13", "x", "0001-01", "9999-12", "2026-1"] {
        #expect(try await session.get("/console/report?month=\(month)").status == 400, "\(month)")
      }
      #expect(try await session.get("/console/report?month=2019-05").status == 404)
      #expect(try await session.get("/console/numbers/nothing").status == 404)
      #expect(try await session.get("/console/numbers/mrr?app=com.unknown").status == 200)
      #expect(try await harness.send(.get, "/console/numbers", to: harness.adminAddress).status == 303)
      #expect(try await harness.send(.get, "/console/report", to: harness.adminAddress).status == 303)
    }
  }

  @Test func `the report of a month has its figures, and no customer`() async throws {
    try await withScreenTime { harness in
      var year = StoryYear(harness, seed: 3)
      try await year.play(customers: 60)
      try await harness.countWhatIsDue()
      let session = try await ConsoleBrowser(harness, .numbers)
      let page = try await session.page("/console/report?month=\(harness.storyYear)-08&currency=USD")
      #expect(page.contains("<h1>All apps, Aug \(harness.storyYear)</h1>"))
      let rows = try await harness.pool.query(
        """
        SELECT to_char(sum(revenue), 'FM999G990D00') || ' USD' AS revenue, to_char(sum(net), 'FM999G990D00') || ' USD' AS net
        FROM kpi_revenue_daily WHERE currency = 'USD' AND to_char(day, 'YYYY-MM') = \("\(harness.storyYear)-08")
        """)
      for (title, column) in [("Revenue", "revenue"), ("Net revenue", "net")] {
        let value = try rows[0].decode(column, as: String.self)
        #expect(
          page.contains("<tr><th scope=\"row\">\(title)</th><td class=\"number\"><b>\(value)</b></td>"),
          "\(value)")
      }
      let ids = try await harness.pool.query(
        """
        SELECT original_transaction_id AS id FROM subscriptions UNION SELECT device_id FROM trials WHERE device_id IS NOT NULL
        UNION SELECT user_id::text FROM subscriptions WHERE user_id IS NOT NULL
        """
      ).map { try $0.decode("id", as: String.self) }
      #expect(ids.count > 30)
      for id in ids { #expect(!page.contains(">\(id)<") && !page.contains("\"\(id)\""), "\(id)") }
      // A reader has neither the names of views and columns nor codes.
      let text = page.replacing(/<[^>]*>/, with: " ")
      for code in ["kpi_", "NULL", "not_for_sale", "paying_start", "mrr_new"] {
        #expect(!text.contains(code), "\(code)")
      }
      for words in [
        "renewal turned off", "by the customer", "Renewals turned off, ends and refunds, by reason",
      ] {
        #expect(text.contains(words), "\(words)")
      }
      // No two definitions have one name.
      let terms = page.matches(of: /<dt>([^<]*)<\/dt>/).map { String($0.1) }
      #expect(Set(terms).count == terms.count && terms.count > 20, "\(terms)")
      // A month that runs is compared with the same days of other months.
      let running = try await session.page("/console/report?month=\(harness.storyYear + 1)-01")
      #expect(running.contains("beside the same days of other months"))
      #expect(running.contains(/Counted up to [0-9-]{10} [0-9:]{5} UTC\./))
    }
  }

  /// The values of each place of the page's charts, cells of its heat tables, and steps of its funnels.
  private static func drawnValues(_ page: String) -> [[Double?]] {
    page.components(separatedBy: "data-values=\"").dropFirst().map { part in
      part.prefix { $0 != "\"" }.split(separator: " ").map { Double($0) }
    }
  }
}

import Foundation
import Postgres
import TestDatabase
import TestProcess
import Testing

/// The commands of support: output, exit status, and records.
@Suite struct SupportCommandTests {
  private static let project = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../..").standardizedFileURL

  private func run(
    _ arguments: [String], _ database: TestDatabase, environment: [String: String] = [:]
  ) async throws -> Command.Result {
    let result = try await Command(
      ReceiptdProcess.executable.path, arguments,
      environment: [
        "DATABASE_URL": database.uri, "USER": "ada",
        "SWIFTCLIMB_JWT_SECRET": "a-secret-that-only-the-tests-use-0123456789",
        "THAQALAYN_JWT_SECRET": "a-secret-that-only-the-tests-use-0123456789",
      ].merging(environment) { $1 }, folder: Self.project
    ).run()
    if !arguments.contains("--json"), arguments.first != "export-customer" {
      #expect(
        result.text.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(arguments): \(result.text)")
    }
    return result
  }

  /// A text without the line breaks that keep it within 80 columns.
  private static func unfolded(_ text: String) -> String {
    text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
  }

  @Test func `migrate names the setting of its folder if it cannot read it`() async throws {
    try await withTestDatabase { database in
      let result = try await run(
        ["migrate"], database, environment: ["RECEIPTD_MIGRATIONS": "/nowhere"])
      #expect(result.status == 1)
      #expect(result.complaint == "receiptd: RECEIPTD_MIGRATIONS: /nowhere cannot be read\n")
    }
  }

  @Test func `a command prints no warnings about settings that it does not use`() async throws {
    try await withTestDatabase { database in
      #expect(try await run(["migrate"], database).status == 0)
      let doubtful = [
        "SUPPORT_TOKEN": "short", "APPLE_SHARED_SECRET": "0123", "CLOUDKIT_API_TOKEN": "0123",
        "SWIFTCLIMB_JWT_SECRET": "short",
      ]
      let user = UUID().uuidString
      let grant = "grant \(user) --bundle com.swiftclimb.app --tier premium --days 1 --reason x --force"
      let free = "free-access on --bundle com.screentimerewards --reason x"
      for command in [grant, "customer \(user)", free, "kpi --day 2026-02-01", "people list"] {
        let quiet = try await run(
          command.split(separator: " ").map(String.init), database, environment: doubtful)
        #expect(quiet.complaint.isEmpty, "\(command)")
      }
      for command in [
        "find nothing", "refresh \(user)", "revoke-grant \(user) --reason x",
        "transfer 1 --to \(user) --reason x",
        "extend-trial phone --bundle com.screentimerewards --days 1 --reason x", "replay \(user)",
        "reconcile",
        "reset-device-secret phone --bundle com.screentimerewards --reason x", "grandfather --dry-run",
        "refund-answer \(user) --prefer none --reason x", "adopt --dry-run", "people remove nobody",
        "extend-renewal 1 --days 1 --reason-code 0 --reason x", "rotate-entitlement-key --reason x",
      ] {
        let result = try await run(
          command.split(separator: " ").map(String.init), database, environment: doubtful)
        // Only the command's own lines: an error, or the progress of adopt.
        let lines = result.complaint.split(separator: "\n").filter { !$0.contains(" claims") }
        #expect(
          lines.allSatisfy { $0.hasPrefix("receiptd: ") || $0.allSatisfy(\.isWhitespace) },
          "\(command): \(lines)")
        for name in doubtful.keys { #expect(!result.complaint.contains(name), "\(command)") }
      }
      let doctor = try await run(["doctor"], database, environment: doubtful)
      for name in doubtful.keys { #expect((doctor.text + doctor.complaint).contains(name)) }
    }
  }

  @Test func `the author of an action is the person, also through sudo or the service's user`() async throws {
    try await withTestDatabase { database in
      #expect(try await run(["migrate"], database).status == 0)
      let free = ["free-access", "on", "--bundle", "com.screentimerewards", "--reason", "x"]
      let service = ["USER": "receiptd", "SUDO_USER": "bob"]
      #expect(try await run(free, database, environment: service).status == 0)
      let off = ["free-access", "off", "--bundle", "com.screentimerewards", "--reason", "x"]
      #expect(try await run(off, database, environment: ["SUDO_USER": ""]).status == 0)
      let nameless = try await run(free, database, environment: ["USER": ""])
      #expect(nameless.complaint.contains("give --by"))
      let refund = ["refund-answer", "1", "--prefer", "none", "--reason", "x", "--by", "policy"]
      #expect(
        try await run(refund, database).complaint.contains("'policy' is the name of a part of receiptd"))
      try await database.withPool { pool in
        let actions = try await pool.query("SELECT by FROM support_actions ORDER BY id")
        #expect(try actions.map { try $0.decode("by", as: String.self) } == ["bob", "ada"])
      }
    }
  }

  @Test func `receiptd-admin names the person to the command that it runs as the service`() async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "receiptd-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let systemd = folder.appending(path: "systemd-run")
    try Data("#!/bin/sh\nprintf '%s\\n' \"$@\"\n".utf8).write(to: systemd)
    try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: systemd.path)
    let admin = Self.project.appending(path: "config/receiptd-admin").path
    for environment in [["SUDO_USER": "bob", "USER": "root"], ["SUDO_USER": "bob"]] {
      let printed = try await Command(
        admin, ["customer", "phone"],
        environment: environment.merging(["PATH": "\(folder.path):/usr/bin:/bin"]) { $1 }
      ).run()
      #expect(printed.status == 0, "\(printed.complaint)")
      #expect(printed.text.contains("\nEnvironment=SUDO_USER=bob\n"), "\(printed.text)")
      #expect(printed.text.hasSuffix("\n--\n/usr/bin/receiptd\ncustomer\nphone\n"))
    }
  }

  @Test func `an error shows no control characters of an id`() async throws {
    try await withTestDatabase { database in
      #expect(try await run(["migrate"], database).status == 0)
      let id = "X\u{9b}31m\u{202e}EVIL"
      for command in [["customer", id], ["erase-customer", id, "--reason", "x"], ["export-customer", id]] {
        let result = try await run(command, database)
        #expect(result.complaint.contains("X?31m?EVIL") || result.text.contains("X?31m?EVIL"), "\(command)")
        #expect(
          !(result.complaint + result.text).contains { $0 == "\u{9b}" || $0 == "\u{202e}" }, "\(command)")
      }
    }
  }

  @Test func `docs/commands.md agrees with the help of every command`() async throws {
    let script = Self.project.appending(path: "scripts/manual")
    let checked = try await Command(
      "python3", ["-B", script.path, "table", ReceiptdProcess.executable.path, "--check"]
    )
    .run()
    #expect(checked.status == 0, "\(checked.complaint)")
  }

  @Test func `receiptd --version prints the version and the commit, or that it is a development build`()
    async throws
  {
    try await withTestDatabase { database in
      let printed = try await run(["--version"], database)
      #expect(printed.status == 0)
      #expect(
        printed.text.wholeMatch(of: /receiptd \d+\.\d+\.\d+(-dev| \([0-9a-f]{12}\+?\))\n/) != nil,
        "\(printed.text)")
      #expect(printed.complaint.isEmpty)
    }
  }

  @Test func `receiptd version --dependencies lists each package of Package.swift with its pinned version`()
    async throws
  {
    try await withTestDatabase { database in
      let printed = try await run(["version", "--dependencies"], database)
      #expect(printed.status == 0, "\(printed.complaint)")
      let manifest = try String(
        contentsOf: Self.project.appending(path: "Package.swift"), encoding: .utf8)
      let pins = manifest.matches(of: /\/([\w-]+)\.git", exact: "([\d.]+)"/)
      #expect(!pins.isEmpty)
      let lines = printed.text.split(separator: "\n")
      for pin in pins { #expect(lines.contains("\(pin.output.1) \(pin.output.2)")) }
    }
  }

  @Test func `receiptd kpi counts the KPIs of a day, any number of times`() async throws {
    try await withTestDatabase { database in
      #expect(try await run(["migrate"], database).status == 0)
      for _ in 0..<2 {
        let counted = try await run(["kpi", "--from", "2026-01-30", "--to", "2026-02-01"], database)
        #expect(counted.status == 0, "\(counted.complaint)")
        #expect(counted.text == "2026-01-30: 0 rows\n2026-01-31: 0 rows\n2026-02-01: 0 rows\n")
      }
      #expect(try await run(["kpi", "--day", "2026-02-01"], database).text == "2026-02-01: 0 rows\n")
      let early = try await run(["kpi", "--day", "2999-01-01"], database)
      #expect(early.status == 1)
      #expect(early.complaint.hasSuffix("receiptd: kpi: 2999-01-01 is in the future\n"))
      for wrong in [["kpi"], ["kpi", "--day", "2026-02-30"], ["kpi", "--from", "2026-02-01"]] {
        #expect(try await run(wrong, database).status == 64, "\(wrong)")
      }
    }
  }

  @Test func `refund-answer and extend-renewal say what they did, what they need and what they do not know`()
    async throws
  {
    try await withTestDatabase { database in
      #expect(try await run(["migrate"], database).status == 0)
      let user = UUID().uuidString.lowercased()
      let grant = ["grant", user, "--bundle", "com.swiftclimb.app", "--tier", "premium", "--days", "7"]
      #expect(try await run(grant + ["--reason", "x", "--force"], database).status == 0)
      let preferred = try await run(
        ["refund-answer", user, "--prefer", "decline", "--reason", "ticket 815"], database)
      #expect(preferred.status == 0, "\(preferred.complaint)")
      #expect(
        Self.unfolded(preferred.text)
          == "\(user): the next answer will prefer no refund; no request waits; the customer has no proven purchase"
      )
      let extend = ["extend-renewal", "1", "--days", "3", "--reason-code", "3", "--reason", "outage"]
      let unknown = try await run(extend, database)
      #expect(unknown.status == 1)
      #expect(
        unknown.complaint.hasSuffix(
          "extend-renewal: There is no purchase with the originalTransactionID 1.\n"))
      let all = ["--all", "--product", "com.swiftclimb.premium.monthly"]
      let keyless = try await run(["extend-renewal"] + all + extend.dropFirst(2), database)
      #expect(keyless.status == 1)
      #expect(keyless.complaint.contains("No App Store Connect key is configured for com.swiftclimb.app."))
      for wrong in [
        ["extend-renewal", "1"], extend + all, extend + ["--sandbox"], ["extend-renewal", "--status", "x"],
      ] {
        #expect(try await run(wrong, database).status == 64, "\(wrong)")
      }
      #expect(
        try await run(["refund-answer", user, "--prefer", "maybe", "--reason", "x"], database).status == 64)
    }
  }

  @Test func `each support command takes effect and prints its effect`() async throws {
    try await withTestDatabase { database in
      #expect(try await run(["doctor"], database).text.contains("FAIL  migrations: "))
      #expect(try await run(["migrate"], database).status == 0)
      let doctor = try await run(["doctor"], database)
      #expect(doctor.status == 0, "\(doctor.text)\(doctor.complaint)")
      #expect(
        doctor.text.split(separator: "\n").allSatisfy { $0.hasPrefix("ok    ") || $0.hasPrefix("    ") })
      // Every app of the shipped configuration.
      #expect(doctor.text.split(separator: "\n").filter { $0.hasPrefix("ok    app ") }.count == 4)

      let user = UUID().uuidString.lowercased()
      #expect(try await run(["customer", user], database).status == 1)
      let granted = try await run(
        [
          "grant", user, "--bundle", "com.swiftclimb.app", "--tier", "premium", "--days", "7", "--reason",
          "ticket 812", "--force",
        ],
        database)
      #expect(granted.status == 0, "\(granted.complaint)")
      let customer = try await run(["customer", user], database)
      #expect(customer.status == 0)
      #expect(customer.text.contains("access       premium, active, until "))
      #expect(customer.text.contains("by ada: ticket 812"))
      #expect(customer.text.split(separator: "\n").allSatisfy { $0.count <= 80 })
      let json = try JSONSerialization.jsonObject(
        with: Data(try await run(["customer", user, "--json"], database).text.utf8))
      let stories = try #require((json as? [String: Any])?["customers"] as? [[String: Any]])
      let grants = try #require(stories.first?["grants"] as? [[String: Any]])
      let grant = try #require(grants.first?["grant"] as? String)
      #expect(granted.text.contains(grant))

      let revoked = try await run(["revoke-grant", grant, "--by", "bob", "--reason", "a mistake"], database)
      #expect(revoked.text.contains("revoked at "))
      #expect(revoked.text.contains("by bob"))
      let free = ["free-access", "on", "--bundle", "com.screentimerewards", "--reason", "outage"]
      #expect(try await run(free, database).text.contains("free access is on from"))
      #expect(try await run(free, database).text.contains("free access is on, already since"))
      let rotated = try await run(
        ["rotate-entitlement-key", "--leaked", "--reason", "a lost disk"], database)
      #expect(rotated.text.hasPrefix("key ") && rotated.text.contains(" signs from "), "\(rotated.complaint)")

      let pool = try database.pool()
      let actions = try await pool.query(
        "SELECT action || ' ' || by || ' ' || reason AS action FROM support_actions ORDER BY id")
      #expect(
        try actions.map { try $0.decode("action", as: String.self) }
          == [
            "grant ada ticket 812", "revoke-grant bob a mistake", "free-access ada outage",
            "rotate-entitlement-key ada a lost disk",
          ])
      await pool.close()
    }
  }

  @Test func `reset-device-secret deletes a device's secret once and records the action`() async throws {
    try await withTestDatabase { database in
      #expect(try await run(["migrate"], database).status == 0)
      let pool = try database.pool()
      _ = try await pool.query(
        """
        INSERT INTO device_secrets (bundle_id, device_id, secret_hash, set_at)
        VALUES ('com.screentimerewards', 'phone', sha256('x'), now())
        """)
      let command = "reset-device-secret phone --bundle com.screentimerewards --reason moved"
      let reset = command.split(separator: " ").map(String.init)
      let first = try await run(reset, database)
      #expect(
        first.text == "phone: the secret is reset; for 7 days the next one needs no proof\n",
        "\(first.complaint)")
      #expect(try await run(reset, database).text == "phone: the device had no secret\n")
      let actions = try await pool.query(
        "SELECT action || ' ' || to_customer || ' ' || by || ' ' || reason AS action FROM support_actions")
      #expect(
        try actions.map { try $0.decode("action", as: String.self) } == [
          "reset-device-secret phone ada moved"
        ])
      await pool.close()
    }
  }

  @Test func `requeue requeues one delivery, or all of an app that were given up`() async throws {
    try await withTestDatabase { database in
      #expect(try await run(["migrate"], database).status == 0)
      let pool = try database.pool()
      _ = try await pool.query(
        """
        INSERT INTO outbox (destination, key, bundle_id, endpoint, payload, dead_at, last_error)
        SELECT 'cloudkit', 'phone ' || n, 'com.screentimerewards', '', '{}', now(), 'BAD_REQUEST'
        FROM generate_series(1, 3) AS n
        """)
      let id = try await pool.query("SELECT min(id) AS id FROM outbox")[0].decode("id", as: Int.self)
      let one = try await run(["requeue", "\(id)", "--reason", "ticket 812"], database)
      #expect(one.text == "1 delivery requeued\n", "\(one.complaint)")
      let all = try await run(
        ["requeue", "--bundle", "com.screentimerewards", "--by", "bob", "--reason", "fixed"], database)
      #expect(all.text == "2 deliveries requeued\n", "\(all.complaint)")
      let dead = try await pool.query("SELECT 1 FROM outbox WHERE dead_at IS NOT NULL")
      #expect(dead.isEmpty)
      let actions = try await pool.query(
        "SELECT DISTINCT by || ' ' || reason AS author FROM support_actions ORDER BY 1")
      #expect(
        try actions.map { try $0.decode("author", as: String.self) } == ["ada ticket 812", "bob fixed"])
      await pool.close()
      let both = try await run(
        ["requeue", "1", "--bundle", "com.screentimerewards", "--reason", "x"], database)
      #expect(both.complaint.contains("Give rows of support_work, or --bundle."))
      let unknown = try await run(["requeue", "999999", "--reason", "x"], database)
      #expect(unknown.status == 1)
      #expect(unknown.complaint.contains("The outbox has no row 999999"))
    }
  }

  @Test func `replay-events needs a span and an app with a webhook`() async throws {
    try await withTestDatabase { database in
      #expect(try await run(["migrate"], database).status == 0)
      let none = try await run(["replay-events", "--since", "2d", "--reason", "x"], database)
      #expect(none.status == 1)
      #expect(none.complaint.contains("No webhook of any app receives lifecycle events."))
      let empty = try await run(
        ["replay-events", "--since", "1d", "--until", "2d", "--reason", "x"], database)
      #expect(empty.complaint.contains("--since must be before --until."))
      let wrong = try await run(
        ["replay-events", "--since", "2d", "--type", "unheard", "--reason", "x"], database)
      #expect(wrong.complaint.contains("There is no event 'unheard'"))
    }
  }

  @Test func `a refused support command prints one line, and its exit status is not 0`() async throws {
    try await withTestDatabase { database in
      #expect(try await run(["migrate"], database).status == 0)
      let user = UUID().uuidString
      let cases: [(arguments: [String], complaint: String)] = [
        (["grant", user, "--bundle", "com.swiftclimb.app", "--tier", "premium", "--days", "7"], "--reason"),
        (
          [
            "grant", user, "--bundle", "com.swiftclimb.app", "--tier", "gold", "--days", "7", "--reason", "x",
          ],
          "has no tier 'gold'; it has premium"
        ),
        (
          [
            "grant", "phone", "--bundle", "com.swiftclimb.app", "--tier", "premium", "--days", "7",
            "--reason", "x",
          ],
          "'phone' is not a user's UUID"
        ),
        (["revoke-grant", user, "--reason", "x"], "There is no grant"),
        (["replay", user], "replay: not_found: no notification with this UUID is stored"),
        (["transfer", "1", "--to", user, "--reason", "x"], "no purchase with the originalTransactionID 1"),
        (
          ["extend-trial", "phone", "--bundle", "com.screentimerewards", "--days", "7", "--reason", "x"],
          "has never seen the device 'phone'"
        ),
        (
          ["reset-device-secret", "phone", "--bundle", "com.swiftclimb.app", "--reason", "x"],
          "'phone' is not a user's UUID"
        ),
        (["free-access", "on", "--bundle", "com.nobody", "--reason", "x"], "There is no app 'com.nobody'"),
      ]
      for (arguments, complaint) in cases {
        let output = try await run(arguments, database)
        #expect(output.status != 0, "\(arguments)")
        #expect(output.complaint.contains(complaint), "\(arguments): \(output.complaint)")
      }
      let unknown = try await run(["grandfather"], database)
      #expect(unknown.status == 1)
      #expect(
        Self.unfolded(unknown.text).contains(
          "the users' sign-up dates are unknown: this role can read a column created_at neither in user_preferences"
        ))
    }
  }

  @Test func `what-if shows its progress, and its file of customers is the owner's alone`() async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "receiptd-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let shipped = try String(
      contentsOf: Self.project.appending(path: "config/apps.json"), encoding: .utf8)
    let other = shipped.replacing(#""insights": true, "outdoorSearch": true"#, with: #""insights": true"#)
    #expect(other != shipped)
    let configuration = folder.appending(path: "apps.json")
    try Data(other.utf8).write(to: configuration)
    let csv = folder.appending(path: "customers.csv")
    try await withTestDatabase { database in
      #expect(try await run(["migrate"], database).status == 0)
      let user = UUID().uuidString.lowercased()
      let grant = ["grant", user, "--bundle", "com.swiftclimb.app", "--tier", "premium", "--days", "7"]
      #expect(try await run(grant + ["--reason", "x", "--force"], database).status == 0)
      let command = [
        "what-if", configuration.path, "--bundle", "com.swiftclimb.app", "--csv", csv.path,
      ]
      // A new file, and one that others could read.
      for _ in 0..<2 {
        let told = try await run(command, database)
        #expect(told.status == 0, "\(told.complaint)")
        #expect(told.complaint.contains("com.swiftclimb.app: 1 customers compared\n"), "\(told.complaint)")
        #expect(told.text.contains("(com.swiftclimb.app): 1 of 1 customers would notice\n"), "\(told.text)")
        #expect(told.text.contains("  changes outdoorSearch: 1\n    1 at once"), "\(told.text)")
        let mode = try FileManager.default.attributesOfItem(atPath: csv.path)[.posixPermissions]
        #expect(mode as? Int == 0o600)
        let lines = try String(contentsOf: csv, encoding: .utf8).components(separatedBy: "\r\n")
        #expect(lines.count == 3 && lines.last == "")
        #expect(
          lines.first
            == "bundle_id,customer,change,at,access_before,access_after,tier_before,tier_after,monthly_revenue"
        )
        #expect(lines[1].hasPrefix("com.swiftclimb.app,\(user),changes outdoorSearch,"), "\(lines)")
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: csv.path)
      }
    }
  }
}

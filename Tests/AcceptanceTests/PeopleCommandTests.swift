import Foundation
import Postgres
import TestDatabase
import TestProcess
import Testing

/// Each command with each kind of caller, as the database role of a deployment.
@Suite(.timeLimit(.minutes(10))) struct PeopleCommandTests {
  private static let project = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../..").standardizedFileURL
  private static let supportToken = "the-support-tool-is-let-in-by-this"

  enum Caller: String, CaseIterable {
    case unknown, removed, numbers, agent, lead, machine
    /// No token, as `receiptd_app` and as the owner of the tables.
    case none, owner
  }

  /// The rule of a command, which repeats `SupportOperation` on purpose.
  private enum Rule {
    /// Callers with a token that are let in, and whether the command needs an author.
    case roles(Set<Caller>, isRecorded: Bool)
    /// The operator's own commands: no token is looked at.
    case settings
  }

  private static let agents = Rule.roles([.agent, .lead, .machine], isRecorded: false)
  private static let recordedAgents = Rule.roles([.agent, .lead, .machine], isRecorded: true)
  private static let leads = Rule.roles([.lead, .machine], isRecorded: false)
  private static let recordedLeads = Rule.roles([.lead, .machine], isRecorded: true)

  private static let user = "5f1c0d52-7b1e-4b7e-9a51-0c2b4f6a8e01"
  private static let rules: [String: (rule: Rule, arguments: [String])] = [
    "serve": (.settings, []), "migrate": (.settings, ["--status"]), "doctor": (.settings, []),
    "version": (.settings, []),
    "customer": (agents, [user]), "find": (agents, [user]),
    "refresh": (recordedAgents, [user]),
    "grant": (
      recordedAgents,
      ["phone", "--bundle", "com.screentimerewards", "--tier", "family", "--days", "7", "--force"] + reason
    ),
    "extend-trial": (
      recordedAgents, ["phone", "--bundle", "com.screentimerewards", "--days", "7", "--force"] + reason
    ),
    "note": (recordedAgents, ["phone", "--bundle", "com.screentimerewards"] + reason),
    "revoke-grant": (recordedAgents, [user] + reason),
    "reset-device-secret": (recordedLeads, ["phone", "--bundle", "com.screentimerewards"] + reason),
    "transfer": (recordedLeads, ["1", "--to", user] + reason),
    "export-customer": (leads, [user]), "erase-customer": (recordedLeads, [user, "--force"] + reason),
    "refund-answer": (recordedLeads, [user, "--prefer", "none"] + reason),
    "extend-renewal": (recordedLeads, ["1", "--days", "1", "--reason-code", "0"] + reason),
    "free-access": (recordedLeads, ["on", "--bundle", "com.screentimerewards"] + reason),
    "replay-events": (recordedLeads, ["--since", "7d"] + reason),
    "requeue": (recordedLeads, ["--bundle", "com.screentimerewards"] + reason),
    "replay": (recordedLeads, [user]), "rotate-entitlement-key": (recordedLeads, reason),
    "people": (.roles([.lead], isRecorded: true), ["add", "somebody", "--role", "lead"]),
    "kpi": (leads, ["--day", "2026-02-01"]), "reconcile": (leads, []), "grandfather": (leads, ["--dry-run"]),
    "adopt": (leads, ["--dry-run"]),
    "acquisition-cost": (recordedLeads, ["--from", "docs/examples/acquisition-cost.csv"]),
    "forget-xcode": (recordedLeads, []),
    "what-if": (leads, ["config/apps.json"]),
  ]
  private static let reason = ["--reason", "ticket 812"]

  private static func run(
    _ arguments: [String], _ uri: String, token: String? = nil, user: String = "ada"
  ) async throws -> Command.Result {
    var environment = [
      "DATABASE_URL": uri, "USER": user, "SUPPORT_TOKEN": supportToken,
      "SWIFTCLIMB_JWT_SECRET": "a-secret-that-only-the-tests-use-0123456789",
      "THAQALAYN_JWT_SECRET": "a-secret-that-only-the-tests-use-0123456789",
    ]
    environment["RECEIPTD_TOKEN"] = token
    return try await Command(
      ReceiptdProcess.executable.path, arguments, environment: environment, folder: project
    ).run()
  }

  /// Adds a person as the owner.
  private static func add(_ name: String, _ role: String, _ database: TestDatabase) async throws -> String {
    let added = try await run(["people", "add", name, "--role", role], database.uri)
    #expect(added.status == 0, "\(added.complaint)")
    return try #require(added.text.split(separator: "\n").last.map(String.init))
  }

  private static func actions(_ database: TestDatabase) async throws -> [String] {
    try await database.withPool { pool in
      try await pool.query(
        "SELECT action || ' ' || actor || ' ' || by AS action FROM support_actions ORDER BY id"
      ).map { try $0.decode("action", as: String.self) }
    }
  }

  @Test func `each command admits its roles and refuses all other callers`() async throws {
    let help = try await Command(
      ReceiptdProcess.executable.path, ["--experimental-dump-help"], environment: [:]
    ).run()
    let names = try Self.commands(help.output)
    #expect(Set(names) == Set(Self.rules.keys), "a command without a rule, or a rule without a command")
    try await withTestDatabase { database in
      #expect(try await Self.run(["migrate"], database.uri).status == 0)
      var tokens: [Caller: String] = [
        .machine: Self.supportToken, .removed: try await Self.add("the removed", "lead", database),
        .unknown: "receiptd_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
      ]
      for caller in [Caller.numbers, .agent, .lead] {
        tokens[caller] = try await Self.add("the \(caller.rawValue)", caller.rawValue, database)
      }
      #expect(try await Self.run(["people", "remove", "the removed"], database.uri).status == 0)
      let app = database.uri(role: "receiptd_app")
      for (name, (rule, arguments)) in Self.rules.sorted(by: { $0.key < $1.key }) {
        guard case .roles(let admitted, let isRecorded) = rule else { continue }
        for caller in Caller.allCases {
          let before = try await Self.actions(database)
          let result = try await Self.run(
            [name] + arguments, caller == .owner ? database.uri : app, token: tokens[caller])
          let after = try await Self.actions(database)
          let about: Comment = "\(name) by \(caller.rawValue): \(result.text)\(result.complaint)"
          let refusal: String? =
            switch caller {
            case .unknown, .removed: "RECEIPTD_TOKEN is not the token of a person who can sign in"
            case .owner: nil
            case .none: isRecorded && arguments.first != "list" ? "set RECEIPTD_TOKEN to your token" : nil
            case .machine: admitted.contains(caller) ? nil : "needs the token of a person"
            default: admitted.contains(caller) ? nil : "'\(name)' needs the role"
            }
          if let refusal {
            #expect(result.status == 1, about)
            #expect(result.complaint.contains("receiptd: \(name): "), about)
            #expect(result.complaint.contains(refusal), about)
            #expect(after == before, about)
          } else {
            for refusal in ["RECEIPTD_TOKEN", "needs the role", "needs the token"] {
              #expect(!result.complaint.contains(refusal), about)
            }
            let actor = caller == .machine ? "machine machine" : caller == .owner ? "operator ada" : ""
            let person = caller == .none ? "operator ada" : "person the \(caller.rawValue)"
            for action in after.dropFirst(before.count) {
              #expect(action.hasSuffix(actor.isEmpty ? person : actor), about)
            }
          }
        }
      }
      // A few that succeed on an empty database have left a record of each caller.
      let all = try await Self.actions(database)
      for expected in [
        "grant person the agent", "grant person the lead", "grant machine machine", "grant operator ada",
        "free-access person the lead", "rotate-entitlement-key person the lead", "people-add person the lead",
      ] {
        #expect(all.contains(expected), "\(expected): \(all)")
      }
    }
  }

  @Test func `a member of receiptd_support finds customers without a token`() async throws {
    try await withTestDatabase { database in
      #expect(try await Self.run(["migrate"], database.uri).status == 0)
      try await database.withPool { pool in
        _ = try await pool.query(
          """
          DO $role$ BEGIN CREATE ROLE receiptdtest_agent LOGIN IN ROLE receiptd_support;
          EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $role$
          """)
        _ = try await pool.query(
          """
          INSERT INTO grants (bundle_id, user_id, tier, starts_at, reason, granted_by)
          VALUES ('com.swiftclimb.app', \(Self.user)::uuid, 'premium', now(), 'ticket 812', 'ada')
          """)
      }
      let agent = database.uri(role: "receiptdtest_agent")
      for (command, shown) in [("customer", "ticket 812"), ("find", "com.swiftclimb.app")] {
        let result = try await Self.run([command, Self.user], agent)
        #expect(result.status == 0, "\(command): \(result.complaint)")
        #expect(result.text.contains(shown), "\(command): \(result.text)")
      }
    }
  }

  /// The names of the subcommands in ArgumentParser's description of itself.
  private static func commands(_ help: Data) throws -> [String] {
    let json = try JSONSerialization.jsonObject(with: help) as? [String: Any]
    let command = try #require(json?["command"] as? [String: Any])
    let names = try #require(command["subcommands"] as? [[String: Any]]).compactMap {
      $0["commandName"] as? String
    }
    return names.filter { $0 != "help" }
  }

  @Test
  func `without people a command has the operator's name, and with people it needs a token or the owner`()
    async throws
  {
    try await withTestDatabase { database in
      #expect(try await Self.run(["migrate"], database.uri).status == 0)
      let app = database.uri(role: "receiptd_app")
      let free = ["free-access", "on", "--bundle", "com.screentimerewards"] + Self.reason
      #expect(try await Self.run(free, app, user: "bob").status == 0)
      let listed = try await Self.run(["people", "list"], app)
      #expect(listed.text == "no people; receiptd people add NAME --role lead adds the first\n")

      let first = try await Self.run(["people", "add", "Ada Lovelace", "--role", "lead"], app)
      #expect(first.status == 0, "\(first.complaint)")
      let token = try #require(first.text.split(separator: "\n").last.map(String.init))
      #expect(first.text.contains("Ada Lovelace is added with the role lead."))
      let off = ["free-access", "off", "--bundle", "com.screentimerewards"] + Self.reason
      let nameless = try await Self.run(off + ["--by", "Ada Lovelace"], app)
      #expect(nameless.status == 1)
      #expect(nameless.complaint.contains("set RECEIPTD_TOKEN to your token"))
      let both = try await Self.run(off + ["--by", "bob"], app, token: token)
      #expect(both.status == 64)
      #expect(both.complaint.contains("--by: the author is the person of RECEIPTD_TOKEN; leave it out."))
      #expect(try await Self.run(off, app, token: token).status == 0)
      #expect(try await Self.run(free + ["--by", "Ada Lovelace"], database.uri).status == 0)
      #expect(
        try await Self.actions(database) == [
          "free-access operator bob", "people-add operator ada", "free-access person Ada Lovelace",
          "free-access operator Ada Lovelace",
        ])

      let people = try await Self.run(["people", "list"], app, token: token)
      #expect(people.text.split(separator: "\n").allSatisfy { $0.count <= 80 })
      #expect(people.text.hasPrefix("Ada Lovelace, lead\n  added "), "\(people.text)")
      let json = try JSONSerialization.jsonObject(
        with: Data(try await Self.run(["people", "list", "--json"], app, token: token).text.utf8))
      let members = try #require(((json as? [String: Any])?["people"] as? [[String: Any]])?.first)
      #expect(members["role"] as? String == "lead" && members["removedAt"] is NSNull)
      let twice = try await Self.run(["people", "add", "ada lovelace", "--role", "agent"], app, token: token)
      #expect(twice.status == 1)
      #expect(twice.complaint.contains("There is a person 'ada lovelace' already."))

      // The last person removes themselves: there are no people, as before.
      let removed = try await Self.run(["people", "remove", "ADA LOVELACE"], app, token: token)
      #expect(removed.text == "Ada Lovelace is removed; the token ends now\n", "\(removed.complaint)")
      #expect(try await Self.run(off, app, token: token).status == 1)
      #expect(try await Self.run(off, app).status == 0)
    }
  }

  @Test func `an agent's grant beyond the limit is refused with the way out`() async throws {
    try await withTestDatabase { database in
      #expect(try await Self.run(["migrate"], database.uri).status == 0)
      let token = try await Self.add("bob", "agent", database)
      let grant = ["grant", "phone", "--bundle", "com.screentimerewards", "--tier", "family", "--force"]
      let app = database.uri(role: "receiptd_app")
      let long = try await Self.run(grant + ["--days", "15"] + Self.reason, app, token: token)
      #expect(long.status == 1)
      #expect(
        long.complaint.hasSuffix(
          "receiptd: grant: An agent may give at most 14 days at once, and bob has the role agent. A lead may give 15 days.\n"
        ), "\(long.complaint)")
      #expect(try await Self.run(grant + ["--days", "14"] + Self.reason, app, token: token).status == 0)
    }
  }

  @Test func `receiptd-admin gives the token to the command in a file that no other user can read`()
    async throws
  {
    let folder = FileManager.default.temporaryDirectory.appending(path: "receiptd-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let systemd = folder.appending(path: "systemd-run")
    let script = """
      #!/bin/sh
      printf '%s\\n' "$@"
      for argument; do
        case $argument in
          EnvironmentFile=/etc/*) ;;
          EnvironmentFile=*) stat -c 'mode %a' "${argument#*=}"; cat "${argument#*=}"; printf 'file %s\\n' "${argument#*=}" ;;
        esac
      done
      exit 3
      """
    try Data(script.utf8).write(to: systemd)
    try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: systemd.path)
    let printed = try await Command(
      Self.project.appending(path: "config/receiptd-admin").path, ["customer", "phone"],
      environment: ["USER": "root", "RECEIPTD_TOKEN": "receiptd_x", "PATH": "\(folder.path):/usr/bin:/bin"]
    ).run()
    #expect(printed.status == 3, "\(printed.complaint)")
    let lines = printed.text.split(separator: "\n").map(String.init)
    #expect(lines.filter { $0.contains("receiptd_x") } == ["RECEIPTD_TOKEN=\"receiptd_x\""])
    #expect(lines.contains("mode 600"))
    let file = try #require(lines.last { $0.hasPrefix("file ") }).dropFirst(5)
    #expect(!FileManager.default.fileExists(atPath: String(file)))
  }
}

import Foundation
import Testing

@testable import ReceiptdClient

@Suite struct GateTests {
  private let now = Date(timeIntervalSince1970: 1_800_000_000)
  private let free = Entitlement(features: Features.free, source: .server)

  private func days(_ count: Double) -> Date { now + count * 86_400 }

  @Test func `a limit reads a number and null, and a missing member is an error`() throws {
    func read(_ json: String) throws -> Features {
      try JSONDecoder().decode(Features.self, from: Data(json.utf8))
    }
    #expect(try read(#"{"history":null,"insights":true}"#).history == .unlimited)
    #expect(try read(#"{"history":7,"insights":true}"#).history == 7)
    #expect(throws: DecodingError.self) { try read(#"{"insights":true}"#) }
    let encoded = try JSONEncoder().encode(Features.premium)
    #expect(try JSONDecoder().decode(Features.self, from: encoded) == .premium)
  }

  @Test func `a history window hides what is older and counts it`() {
    let entries = [days(-1), days(-29.9), days(-30), days(-400)]
    let window = HistoryWindow(days: 30).split(entries, at: now) { $0 }
    #expect(window.visible == Array(entries.prefix(2)))
    #expect(window.hidden == 2)
    #expect(HistoryWindow(days: .unlimited).split(entries, at: now) { $0 }.hidden == 0)
    #expect(HistoryWindow(days: 0).split(entries, at: now) { $0 }.hidden == 4)
  }

  @Test func `a counted limit says whether another fits, and what to show`() {
    let paid = Entitlement(
      features: Features.premium, status: .active, isAccessGranted: true, source: .server)
    #expect(CountedLimit(5, count: 4).canAdd)
    #expect(CountedLimit(5, count: 4).reason(free) == nil)
    #expect(!CountedLimit(5, count: 5).canAdd)
    #expect(CountedLimit(5, count: 5).reason(paid) == .limitReached)
    #expect(CountedLimit(2, count: 2).reason(free) == .new)
    #expect(CountedLimit(1, count: 5).excess == 4)
    #expect(CountedLimit(.unlimited, count: 1000).canAdd)
    #expect(CountedLimit(.unlimited, count: 1000).remaining == nil)
    #expect(CountedLimit(0, count: 0).remaining == 0)
  }

  @Test func `ordered access opens the first parts, or all`() {
    let one = OrderedAccess(open: 1)
    #expect([0, 1, 2, 114].map(one.isOpen) == [false, true, false, false])
    #expect(one.closed(of: 114) == 113)
    #expect(OrderedAccess(open: 114).isOpen(114))
    #expect(OrderedAccess(open: .unlimited).isOpen(114))
    #expect(OrderedAccess(open: .unlimited).closed(of: 114) == 0)
    #expect(!OrderedAccess(open: 0).isOpen(1))
  }

  @Test func `the days that are left count the current one`() {
    func left(_ status: EntitlementStatus, _ end: Date?) -> Int? {
      TimeLeft(
        Entitlement(features: Features.free, status: status, isAccessGranted: true, validUntil: end), at: now)?
        .days
    }
    #expect(left(.trial, days(30)) == 30)
    #expect(left(.trial, days(0.1)) == 1)
    #expect(left(.grace, days(0)) == 0)
    #expect(left(.grace, days(-3)) == 0)
    #expect(left(.active, days(3)) == nil)
    #expect(left(.trial, nil) == nil)
  }

  @Test func `a paywall has a reason for each customer without access`() {
    func reason(_ change: (inout Entitlement<Features>) -> Void) -> PaywallReason? {
      var entitlement = free
      change(&entitlement)
      return PaywallReason(entitlement)
    }
    #expect(reason { _ in } == .new)
    #expect(reason { $0.isAccessGranted = true } == nil)
    #expect(reason { $0.everHadAccess = true } == .ended)
    #expect(reason { $0.status = .cancelled } == .refunded)
    #expect(reason { $0.source = .none } == .unknown)
    #expect(reason { $0.pairing = Pairing(state: "paused", reason: "device_limit") } == .parentLimit)
    #expect(
      reason { $0.pairing = Pairing(state: "paused", reason: "parent_without_access") }
        == .parentWithoutAccess)
  }
}

@Suite struct StoreTests {
  @Test func `a file store keeps values of any key in files that only the owner reads`() throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
      "receiptd-client-\(UUID())/deep")
    defer { try? FileManager.default.removeItem(at: folder.deletingLastPathComponent()) }
    let store = FileStore(folder: folder)
    let keys = [
      "a", "../a", "user:1", "ü/ü", String(repeating: "k", count: 255), String(repeating: "k", count: 254),
    ]
    #expect(try store.read("a") == nil)
    try store.remove("a")
    for (number, key) in keys.enumerated() {
      try store.write(Data("old".utf8), for: key)
      try store.write(Data("\(number)".utf8), for: key)
    }
    for (number, key) in keys.enumerated() { #expect(try store.read(key) == Data("\(number)".utf8)) }
    let files = try FileManager.default.contentsOfDirectory(atPath: folder.path)
    #expect(files.count == keys.count)
    for file in files {
      let attributes = try FileManager.default.attributesOfItem(
        atPath: folder.appendingPathComponent(file).path)
      #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600)
    }
    try store.remove("a")
    #expect(try store.read("a") == nil)
  }

  @Test func `damaged files count as nothing, and the client goes on`() async throws {
    let device = Device()
    for key in [
      StoreKeys.keySet, StoreKeys.clock, StoreKeys.proofs, StoreKeys.events,
      StoreKeys.entitlement(of: .device("phone")),
    ] {
      device.store.write(Data([0, 255]), for: key)
      device.queues.write(Data([0, 255]), for: key)
    }
    let client = device.launch()
    await client.enter(.device("phone"))
    #expect(client.current.source == .none)
    try await client.submit(.signedTransaction("jws"))
    #expect(client.current.isAccessGranted)
  }
}

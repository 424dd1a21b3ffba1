import Foundation
import Testing

@testable import ReceiptdClient

/// A clock that its owner sets gains nothing.
@Suite struct TrustedClockTests {
  private let phone = Customer.device("phone")

  private func paid(_ device: Device) async throws -> Receiptd<Features> {
    device.server.grant(phone)
    let client = device.launch()
    await client.enter(phone)
    try await client.refresh()
    device.server.isDown(true)
    return client
  }

  @Test func `while the device runs, setting the clock changes nothing`() async throws {
    let device = Device()
    let client = try await paid(device)
    device.clock.setWall(Date(timeIntervalSince1970: 4_000_000_000))
    #expect(client.current.isAccessGranted)
    device.clock.setWall(Date(timeIntervalSince1970: 0))
    device.server.pass(ScriptedServer.grace - 1)
    #expect(client.current.isAccessGranted)
    device.server.pass(1)
    #expect(!client.current.isAccessGranted)
  }

  @Test func `a restart with the clock set back gains nothing of the time that was seen`() async throws {
    let device = Device()
    let start = device.clock.wall()
    var client = try await paid(device)
    for day in 1...7 {
      device.server.pass(86_400)
      _ = await client.step()
      device.clock.reboot()
      device.clock.setWall(start)
      client = device.launch()
      await client.enter(phone)
      #expect(client.current.isAccessGranted == (day < 7), "day \(day)")
    }
  }

  @Test func `after a restart the device's clock counts where it is later`() async throws {
    let device = Device()
    _ = try await paid(device)
    device.server.passOff(ScriptedServer.grace - 10)
    let next = device.launch()
    await next.enter(phone)
    #expect(next.current.isAccessGranted)
    device.server.passOff(10)
    #expect(!next.current.isAccessGranted)
    // Setting it back afterwards gains nothing, also after another restart.
    _ = await next.step()
    device.clock.reboot()
    device.clock.setWall(Date(timeIntervalSince1970: 0))
    let last = device.launch()
    await last.enter(phone)
    #expect(!last.current.isAccessGranted)
  }

  @Test func `after a clock that was far ahead the server's next answer counts again`() async throws {
    let device = Device()
    _ = try await paid(device)
    device.clock.reboot()
    device.clock.setWall(Date(timeIntervalSince1970: 4_000_000_000))
    let client = device.launch()
    await client.enter(phone)
    #expect(!client.current.isAccessGranted)
    _ = await client.step()
    device.server.pass(60)
    device.server.isDown(false)
    try await client.refresh()
    #expect(client.current.isAccessGranted)
    device.clock.reboot()
    device.clock.setWall(device.server.now)
    let next = device.launch()
    await next.enter(phone)
    #expect(next.current.isAccessGranted)
  }

  @Test func `a repeated response does not turn the time back`() async throws {
    let device = Device()
    device.server.grant(phone)
    let client = device.launch()
    await client.enter(phone)
    try await client.refresh()
    let token = device.server.token(
      phone.id, access: .init(tier: "premium", status: "active", isGranted: true, features: .premium))
    device.server.pass(ScriptedServer.grace)
    let body = Data(#"{"entitlements":{"entitlementToken":"\#(token)"}}"#.utf8)
    device.server.next("entitlements", .response(TransportResponse(status: 200, body: body)))
    _ = try? await client.refresh()
    #expect(!client.current.isAccessGranted)
  }
}

import Crypto
import Foundation
import ReceiptdClient

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

struct Features: Codable, Sendable {
  var historyDays: Limit
  var insights: Bool
}

let key = try Curve25519.Signing.PublicKey(rawRepresentation: Data(repeating: 1, count: 32))
print(key.isValidSignature(Data(count: 64), for: Data()), SHA256.hash(data: Data()))
guard let server = CommandLine.arguments.last.flatMap(URL.init(string:)) else { exit(64) }
let (data, _) = try await URLSession.shared.data(from: server)
print(try JSONDecoder().decode(Features.self, from: data).insights)
print(try JSONEncoder().encode(Features(historyDays: 7, insights: false)))

let receiptd = Receiptd(
  ReceiptdConfiguration(server: server, bundleID: "com.example.app"),
  free: Features(historyDays: 7, insights: false))
let running = Task { await receiptd.run() }
await receiptd.signIn(.device(try receiptd.configuration.deviceID()))
print(try await receiptd.submit(.signedTransaction("")).isAccessGranted)
print(try await receiptd.sync([], appTransaction: nil).features)
print(try await receiptd.startTrial(appTransaction: ""))
print(try await receiptd.pairingCode(), try await receiptd.join(code: "", name: nil))
print(try await receiptd.children(), try await receiptd.unpair(child: ""))
try await receiptd.consent(true)
await receiptd.track("paywall_shown")
for await entitlement in receiptd.updates { print(entitlement.tier ?? "") }
await receiptd.signOut()
running.cancel()

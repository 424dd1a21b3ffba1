import Crypto
import Foundation

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

struct Features: Codable, Sendable {
  var historyDays: Int?
  var insights: Bool
}

let key = try Curve25519.Signing.PublicKey(rawRepresentation: Data(repeating: 1, count: 32))
print(key.isValidSignature(Data(count: 64), for: Data()), SHA256.hash(data: Data()))
guard let server = CommandLine.arguments.last.flatMap(URL.init(string:)) else { exit(64) }
let (data, _) = try await URLSession.shared.data(from: server)
print(try JSONDecoder().decode(Features.self, from: data).insights)
print(try JSONEncoder().encode(Features(historyDays: 7, insights: false)))

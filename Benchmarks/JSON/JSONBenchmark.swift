import AppStore
import FoundationEssentials
import HTTP
import HTTPTypes
import JSON

/// What reading and writing the JSON of one request costs, by Foundation and by our own code, one after the other.
///
/// The answer here has the members of validate's; the payloads are of the size that Apple's have.
@main struct JSONBenchmark {
  static func main() throws {
    print("| what | bytes | Foundation, µs | own, µs | ratio |")
    print("|---|---:|---:|---:|---:|")
    try compare("transaction, read", Payloads.transaction) {
      _ = try JSONDecoder().decode(TransactionInfo.self, from: Data(Payloads.transaction))
    } own: {
      _ = try JSONReader.read(TransactionInfo.self, from: Payloads.transaction, maximumDepth: 512)
    }
    try compare("renewal info, read", Payloads.renewalInfo) {
      _ = try JSONDecoder().decode(RenewalInfo.self, from: Data(Payloads.renewalInfo))
    } own: {
      _ = try JSONReader.read(RenewalInfo.self, from: Payloads.renewalInfo, maximumDepth: 512)
    }
    try compare("notification, read", Payloads.notification) {
      _ = try JSONDecoder().decode(NotificationPayload.self, from: Data(Payloads.notification))
    } own: {
      _ = try JSONReader.read(NotificationPayload.self, from: Payloads.notification, maximumDepth: 512)
    }
    try compare("body of the webhook, read", Payloads.body) {
      _ = try JSONCoding.decode(DecodedBody.self, from: Payloads.body)
    } own: {
      _ = try JSONCoding.read(ReadBody.self, from: Payloads.body)
    }
    let (encoded, written) = (EncodedAnswer(), WrittenAnswer())
    guard try JSONCoding.encode(encoded) == JSONWriter.bytes(of: written) else { fatalError("not the same") }
    try compare("answer of validate, written", JSONWriter.bytes(of: written)) {
      _ = try JSONCoding.encode(encoded)
    } own: {
      _ = JSONWriter.bytes(of: written)
    }
    let request = Request(method: .post, path: "/", headers: [.contentType: "application/json"])
    try compare("Content-Type, judged", Array("application/json".utf8)) {
      _ = FormerContentType.isJSON(request.headers[.contentType] ?? "")
    } own: {
      try request.requireJSON()
    }
  }

  private static func compare(
    _ name: String, _ bytes: [UInt8], foundation: () throws -> Void, own: () throws -> Void
  ) throws {
    let (theirs, ours) = (try microseconds(foundation), try microseconds(own))
    print("| \(name) | \(bytes.count) | \(rounded(theirs)) | \(rounded(ours)) | \(rounded(theirs / ours)) |")
  }

  private static func rounded(_ value: Double) -> Double { (value * 100).rounded() / 100 }

  /// The best of several runs: what else the machine does only ever makes it slower.
  private static func microseconds(_ work: () throws -> Void) rethrows -> Double {
    var best = Double.infinity
    for _ in 0..<20 {
      let time = try ContinuousClock().measure { for _ in 0..<2_000 { try work() } }
      best = min(best, Double(time.components.attoseconds) / 1e12 + Double(time.components.seconds) * 1e6)
    }
    return best / 2_000
  }
}

/// How the type was judged before.
private enum FormerContentType {
  static func isJSON(_ contentType: String) -> Bool {
    let mediaType = contentType.prefix { $0 != ";" }.lowercased()
    let trimmed = mediaType.drop { $0 == " " }.reversed().drop { $0 == " " || $0 == "\t" }.reversed()
    return String(trimmed) == "application/json" || String(trimmed).hasSuffix("+json")
  }
}

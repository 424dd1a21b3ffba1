import FoundationEssentials
import HTTP

/// An answer to `records/modify`, and what it means for each record.
struct CloudKitAnswer {
  /// An error as CloudKit writes it: about one record inside of a 200, or about the whole request.
  fileprivate struct Fault: Decodable {
    var recordName: String?
    var serverErrorCode: String?
    var reason: String?
    /// Seconds; absent means: do not retry.
    var retryAfter: Double?
  }

  private struct Body: Decodable {
    var records: [Fault]?
  }

  /// Codes that pass by themselves, for when CloudKit does not say `retryAfter`.
  private static let transient: Set = [
    "CONFLICT", "INTERNAL_ERROR", "QUOTA_EXCEEDED", "THROTTLED", "TRY_AGAIN_LATER", "ZONE_BUSY",
  ]
  /// Codes that are about us and not about a record.
  private static let authentication: Set = ["AUTHENTICATION_FAILED", "AUTHENTICATION_REQUIRED"]

  /// What a 200 means for the records with these names.
  static func delivery(of body: [UInt8], for names: [String]) -> Delivery {
    guard let answer = try? JSONDecoder().decode(Body.self, from: Data(body)), let records = answer.records
    else {
      let outcome = DeliveryOutcome.failed("CloudKit's answer cannot be read")
      return Delivery(outcomes: names.map { _ in outcome })
    }
    let faults = Dictionary(
      records.compactMap { record in record.recordName.map { ($0, record) } },
      uniquingKeysWith: { first, _ in first })
    var trouble: LaneTrouble?
    let outcomes = names.map { name -> DeliveryOutcome in
      guard let record = faults[name] else { return .failed("CloudKit's answer leaves the record out") }
      guard let code = record.serverErrorCode else { return .delivered }
      // Each record tells the same of us; the longest rest counts.
      if authentication.contains(code) {
        trouble = .unavailable(record.words)
        return .failed(record.words)
      }
      if code == "THROTTLED" {
        if case .unavailable(_, let before) = trouble, (before ?? 0) > (record.retryAfter ?? 0) {
          return .failed(record.words, after: record.retryAfter)
        }
        trouble = .unavailable(record.words, after: record.retryAfter)
      }
      guard record.retryAfter != nil || transient.contains(code) else { return .refused(record.words) }
      return .failed(record.words, after: record.retryAfter)
    }
    return Delivery(outcomes: outcomes, trouble: trouble)
  }

  /// What any other status says of CloudKit as a whole.
  static func trouble(status: Int, body: [UInt8], after wish: TimeInterval?) -> LaneTrouble {
    let fault = try? JSONDecoder().decode(Fault.self, from: Data(body))
    return .unavailable(
      "HTTP \(status)" + (fault?.serverErrorCode == nil ? "" : ": \(fault?.words ?? "")"),
      after: fault?.retryAfter ?? wish)
  }

  /// CloudKit's own words about a request that it refuses.
  static func words(of body: [UInt8]) -> String? {
    (try? JSONDecoder().decode(Fault.self, from: Data(body)))?.words
  }
}

extension CloudKitAnswer.Fault {
  fileprivate var words: String {
    // Not our words, so not without end.
    String([serverErrorCode, reason].compactMap(\.self).joined(separator: ": ").prefix(300))
  }
}

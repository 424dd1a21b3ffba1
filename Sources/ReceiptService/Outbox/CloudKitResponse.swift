import Foundation
import HTTP

/// Maps a response to `records/modify` to an outcome for each record.
struct CloudKitResponse {
  /// An error as CloudKit writes it: for one record in a response of status 200, or for the whole request.
  fileprivate struct Fault: Decodable {
    var recordName: String?
    var serverErrorCode: String?
    var reason: String?
    /// In seconds. Without it the request must not be retried.
    var retryAfter: Double?
  }

  private struct Body: Decodable {
    var records: [Fault]?
  }

  /// Codes of temporary errors, for responses without `retryAfter`.
  private static let transient: Set = [
    "CONFLICT", "INTERNAL_ERROR", "QUOTA_EXCEEDED", "THROTTLED", "TRY_AGAIN_LATER", "ZONE_BUSY",
  ]
  /// Codes that refuse the key, not a record.
  private static let authentication: Set = ["AUTHENTICATION_FAILED", "AUTHENTICATION_REQUIRED"]

  /// The outcomes of a response of status 200 for the records with these names.
  /// - Parameter deletions: the names of records to delete; one that does not exist is deleted.
  static func delivery(of body: [UInt8], for names: [String], deletions: Set<String> = []) -> Delivery {
    guard let response = try? JSONDecoder().decode(Body.self, from: Data(body)),
      let records = response.records
    else {
      let outcome = DeliveryOutcome.failed("CloudKit's response cannot be read")
      return Delivery(outcomes: names.map { _ in outcome })
    }
    let faults = Dictionary(
      records.compactMap { record in record.recordName.map { ($0, record) } },
      uniquingKeysWith: { first, _ in first })
    var problem: DestinationProblem?
    let outcomes = names.map { name -> DeliveryOutcome in
      guard let record = faults[name] else {
        return .failed("CloudKit's response does not contain the record")
      }
      guard let code = record.serverErrorCode else { return .delivered }
      if code == "NOT_FOUND", deletions.contains(name) { return .delivered }
      // These codes concern the whole container. The longest pause counts.
      if authentication.contains(code) {
        problem = .unavailable(record.message)
        return .failed(record.message)
      }
      if code == "THROTTLED" {
        if case .unavailable(_, let before) = problem, (before ?? 0) > (record.retryAfter ?? 0) {
          return .failed(record.message, after: record.retryAfter)
        }
        problem = .unavailable(record.message, after: record.retryAfter)
      }
      guard record.retryAfter != nil || transient.contains(code) else { return .refused(record.message) }
      return .failed(record.message, after: record.retryAfter)
    }
    return Delivery(outcomes: outcomes, problem: problem)
  }

  /// The problem that a response of another status reports for the container.
  static func problem(status: Int, body: [UInt8], retryAfter: TimeInterval?) -> DestinationProblem {
    let fault = try? JSONDecoder().decode(Fault.self, from: Data(body))
    return .unavailable(
      "HTTP \(status)" + (fault?.serverErrorCode == nil ? "" : ": \(fault?.message ?? "")"),
      after: fault?.retryAfter ?? retryAfter)
  }

  /// CloudKit's error message in the body of a refused request.
  static func message(of body: [UInt8]) -> String? {
    (try? JSONDecoder().decode(Fault.self, from: Data(body)))?.message
  }
}

extension CloudKitResponse.Fault {
  fileprivate var message: String {
    // The text comes from outside, so its length is limited.
    String([serverErrorCode, reason].compactMap(\.self).joined(separator: ": ").prefix(300))
  }
}

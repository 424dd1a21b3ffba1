import Customers
import Foundation
import FuzzSupport
import JSON
import Postgres

@testable import HTTP
@testable import Numbers
@testable import Proofs
@testable import ReceiptService

/// Decodes the bodies that clients post.
enum BodyTarget {
  private static let instant = Date(timeIntervalSince1970: 1_800_000_000)

  @Sendable static func check(_ bytes: [UInt8]) {
    let body = try? JSONCoding.read(ValidateRequest.self, from: bytes)
    if let body { check(body) }
    if !bytes.contains(where: { $0 >= 0x80 }) {
      let decoded = try? JSONCoding.decode(DecodedRequest.self, from: bytes)
      claim(decoded == body.map(DecodedRequest.init), "a body is read as Foundation reads it")
    }
    if let report = try? JSONCoding.decode(EventReport.self, from: bytes) { check(report) }
    guard let value = try? JSONCoding.decode(JSONValue.self, from: bytes) else { return }
    guard let written = try? JSONCoding.encode(value) else {
      return claim(false, "what is read can be written")
    }
    claim((try? JSONCoding.decode(JSONValue.self, from: written)) != nil, "what is written can be read")
  }

  /// The same request, decoded by Foundation.
  private struct DecodedRequest: Decodable, Equatable {
    var signedTransaction: String?
    var transactionID: String?
    var receipt: String?
    var signedRenewalInfo: String?
    var signedAppTransaction: String?
    var deviceID: String?
    var bundleID: String?

    init(_ body: ValidateRequest) {
      signedTransaction = body.signedTransaction
      transactionID = body.transactionID
      receipt = body.receipt
      signedRenewalInfo = body.signedRenewalInfo
      signedAppTransaction = body.signedAppTransaction
      deviceID = body.deviceID
      bundleID = body.bundleID
    }
  }

  private static func check(_ body: ValidateRequest) {
    if let proof = try? body.proof(), case .transactionID(let id) = proof {
      claim((1...20).contains(id.utf8.count) && id.utf8.allSatisfy { (0x30...0x39).contains($0) }, "an id")
    }
    if let name = body.deviceID, let device = try? DeviceID(name) {
      claim(device.name.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }, "a name without control characters")
    }
  }

  private static func check(_ report: EventReport) {
    guard
      let records = try? report.records(of: report.customerID, inApp: report.bundleID ?? "app", at: instant)
    else { return }
    claim(records.count == report.events.count, "all or nothing")
    for record in records {
      guard let text = record.properties?.text else { continue }
      claim(text.utf8.count <= EventReport.maximumPropertiesLength, "properties as long as the limit")
      claim((try? JSONCoding.check(Array(text.utf8))) != nil, "properties are JSON")
      claim(!text.escapesZero, "properties that PostgreSQL takes")
    }
  }
}

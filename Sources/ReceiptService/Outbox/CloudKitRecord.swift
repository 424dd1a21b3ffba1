import Crypto
import Foundation
import HTTP
import JSON
import Subscriptions

/// A customer's state as a record of the public database.
struct CloudKitRecord: Encodable {
  var recordName: String
  var recordType: String
  /// `nil` deletes the record.
  var fields: Fields?

  /// All fields, because `forceUpdate` changes only the fields of the request.
  struct Fields: Encodable {
    var tier: Field<String>
    var status: Field<String>
    /// CloudKit has no booleans: 1 or 0.
    var isAccessGranted: Field<Int64>
    /// The features of the children's devices as JSON, under the app's own names.
    var features: Field<String>
    var validUntil: Field<Int64>
    /// When receiptd read the state; `nil` in the content that the digest covers.
    var updatedAt: Field<Int64>?
  }

  /// A value with its type; without it CloudKit reads a time as a number. `null` clears the field.
  struct Field<Value: Encodable & Sendable>: Encodable {
    @Nullable var value: Value?
    var type: String
  }

  /// - Parameter isComplete: whether to include `updatedAt`.
  init(_ state: CustomerState, recordType: String, isComplete: Bool) {
    recordName = Self.name(of: state.customer, in: state.app)
    self.recordType = recordType
    if state.isErased { return }
    let entitlements = state.entitlements
    let features = String(decoding: JSONWriter.bytes(of: entitlements.features), as: UTF8.self)
    fields = Fields(
      tier: Field(value: entitlements.tier, type: "STRING"),
      status: Field(value: entitlements.status.rawValue, type: "STRING"),
      isAccessGranted: Field(value: entitlements.isAccessGranted ? 1 : 0, type: "INT64"),
      features: Field(value: features, type: "STRING"),
      validUntil: Field(value: entitlements.validUntil?.cloudKitTimestamp, type: "TIMESTAMP"),
      updatedAt: isComplete ? Field(value: state.instant.cloudKitTimestamp, type: "TIMESTAMP") : nil)
  }

  /// `c-` and the SHA-256 of `<bundle id>:<customer's id>` in lower-case hex.
  ///
  /// A record name has at most 255 ASCII characters and does not begin with an underscore; a device's id may have any. Every
  /// client of the app can read the public database. A child's device that knows its parent's id finds the record by the
  /// digest, and no client learns an id from a record: the id authenticates a device.
  static func name(of customer: Customer, in app: App) -> String {
    let digest = SHA256.hash(data: Data("\(app.bundleID):\(customer.id)".utf8))
    var name = "c-"
    for byte in digest {
      name.append(String(byte >> 4, radix: 16))
      name.append(String(byte & 15, radix: 16))
    }
    return name
  }
}

extension Date {
  /// CloudKit's TIMESTAMP: milliseconds since 1970.
  fileprivate var cloudKitTimestamp: Int64 { Int64((timeIntervalSince1970 * 1000).rounded()) }
}

/// The body of `records/modify`.
struct CloudKitModification: Encodable {
  struct Operation: Encodable {
    var operationType: String
    var record: CloudKitRecord

    init(_ record: CloudKitRecord) {
      operationType = record.fields == nil ? "forceDelete" : "forceUpdate"
      self.record = record
    }
  }

  var operations: [Operation]

  /// The most operations of one request ("Data Size Limits" of the CloudKit Web Services Reference).
  static let maximumOperations = 200
}

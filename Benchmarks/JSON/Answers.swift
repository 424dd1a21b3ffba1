import FoundationEssentials
import HTTP
import JSON

// The answer of validate, as both write it.

private let now = Date(timeIntervalSince1970: 1_763_500_001)
private let later = Date(timeIntervalSince1970: 1_795_036_000)
private let token = String(repeating: "eyJhbGciOiJFZERTQSIs", count: 25)

struct EncodedAnswer: Encodable {
  var success = true
  var subscription = Subscription()
  var entitlements = Entitlements()
  var serverTime = now

  struct Subscription: Encodable {
    var tier = "premium"
    var status = "active"
    var expiryDate = later
    var autoRenewEnabled = true
    var productID = "com.swiftclimb.premium.annual"
    var originalTransactionID = "1000000000000001"
    var transactionID = "2000000000000001"
    var environment = "Production"
    var ownership = "PURCHASED"
    var storeStatus = "active"
    var gracePeriodExpiryDate = Null()
    var renewsAs = "com.swiftclimb.premium.annual"
  }

  struct Entitlements: Encodable {
    var tier = "premium"
    var status = "active"
    var isAccessGranted = true
    var features = ["insights": true, "outdoorSearch": true]
    var validUntil = later
    var offlineGraceUntil = later
    var entitlementToken = token
  }

  struct Null: Encodable {
    func encode(to encoder: any Encoder) throws {
      var container = encoder.singleValueContainer()
      try container.encodeNil()
    }
  }
}

struct WrittenAnswer: JSONWritable {
  private let answer = EncodedAnswer()

  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("entitlements", answer.entitlements)
      json.member("serverTime", answer.serverTime)
      json.member("subscription", answer.subscription)
      json.member("success", answer.success)
    }
  }
}

extension EncodedAnswer.Subscription: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("autoRenewEnabled", autoRenewEnabled)
      json.member("environment", environment)
      json.member("expiryDate", expiryDate)
      json.member("gracePeriodExpiryDate", Date?.none)
      json.member("originalTransactionID", originalTransactionID)
      json.member("ownership", ownership)
      json.member("productID", productID)
      json.member("renewsAs", renewsAs)
      json.member("status", status)
      json.member("storeStatus", storeStatus)
      json.member("tier", tier)
      json.member("transactionID", transactionID)
    }
  }
}

extension EncodedAnswer.Entitlements: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("entitlementToken", entitlementToken)
      json.member("features", features)
      json.member("isAccessGranted", isAccessGranted)
      json.member("offlineGraceUntil", offlineGraceUntil)
      json.member("status", status)
      json.member("tier", tier)
      json.member("validUntil", validUntil)
    }
  }
}

struct DecodedBody: Decodable {
  var signedPayload: String
}

struct ReadBody: JSONReadable {
  enum Member: String, CaseIterable { case signedPayload }

  private static let names = JSONNames<Member>()

  var signedPayload = ""

  init(reading json: inout JSONReader) throws(JSONFailure) {
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .signedPayload: signedPayload = try json.read()
      }
    }
    try members.require(.signedPayload)
  }
}

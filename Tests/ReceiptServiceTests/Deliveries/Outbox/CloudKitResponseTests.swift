import Foundation
import HTTPTypes
import Testing

@testable import Deliveries
@testable import ReceiptService

@Suite struct CloudKitResponseTests {
  private func delivery(_ records: String, for names: [String]) -> Delivery {
    CloudKitResponse.delivery(of: Array(#"{"records": [\#(records)]}"#.utf8), for: names)
  }

  @Test func `each CloudKit record has its own outcome, in any order of the response`() {
    let delivery = delivery(
      """
      {"recordName": "d", "serverErrorCode": "CONFLICT"}, {"recordName": "b", "recordType": "x", "fields": {}},
      {"recordName": "c", "serverErrorCode": "BAD_REQUEST", "reason": "no such field"},
      {"recordName": "a", "serverErrorCode": "SOMETHING_NEW", "retryAfter": 7.5}
      """, for: ["a", "b", "c", "d", "e"])
    #expect(
      delivery.outcomes == [
        .failed("SOMETHING_NEW", after: 7.5), .delivered, .refused("BAD_REQUEST: no such field"),
        .failed("CONFLICT"), .failed("CloudKit's response does not contain the record"),
      ])
    #expect(delivery.problem == nil)
  }

  @Test func `throttled CloudKit records pause the destination for the longest requested time`() {
    let delivery = delivery(
      """
      {"recordName": "a", "serverErrorCode": "THROTTLED", "retryAfter": 5},
      {"recordName": "b", "serverErrorCode": "THROTTLED", "retryAfter": 50},
      {"recordName": "c", "serverErrorCode": "THROTTLED"}
      """, for: ["a", "b", "c"])
    #expect(delivery.problem == .unavailable("THROTTLED", after: 50))
    #expect(delivery.outcomes.last == .failed("THROTTLED"))
  }

  @Test func `a refused CloudKit key pauses the destination and gives up no record`() {
    let delivery = delivery(
      #"{"recordName": "a", "serverErrorCode": "AUTHENTICATION_FAILED"}"#, for: ["a"])
    #expect(delivery.problem == .unavailable("AUTHENTICATION_FAILED"))
    #expect(delivery.outcomes == [.failed("AUTHENTICATION_FAILED")])
  }

  @Test(arguments: ["", "[]", "<html>", #"{"records": 5}"#, #"{"serverErrorCode": "X"}"#])
  func `an unreadable CloudKit response counts as a failed delivery`(body: String) {
    let delivery = CloudKitResponse.delivery(of: Array(body.utf8), for: ["a"])
    #expect(delivery.outcomes == [.failed("CloudKit's response cannot be read")])
  }

  @Test(
    arguments: [
      ("30", 30.0), ("0", 0), ("999999999", 999_999_999), ("", nil), ("-1", nil), ("+5", nil), ("1e3", nil),
      ("nan", nil), ("inf", nil), ("5 s", nil), ("0x1f", nil), ("9999999999", nil),
      ("Wed, 21 Oct 2026 07:28:00 GMT", nil),
    ] as [(String, TimeInterval?)])
  func `Retry-After of a destination is parsed from digits only`(text: String, seconds: TimeInterval?) {
    let fields: HTTPFields = [.retryAfter: text]
    #expect(fields.retryAfterSeconds == seconds)
  }
}

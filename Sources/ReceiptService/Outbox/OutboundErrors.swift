import Curl
import Foundation
import HTTPTypes

extension HTTPFields {
  /// The seconds of `Retry-After` (RFC 9110 section 10.2.3). `nil` for a date: the backoff decides then.
  var retryAfterSeconds: TimeInterval? {
    guard let text = self[.retryAfter], !text.isEmpty, text.utf8.count <= 9 else { return nil }
    var seconds = 0
    for byte in text.utf8 {
      guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
      seconds = seconds * 10 + Int(byte - UInt8(ascii: "0"))
    }
    return TimeInterval(seconds)
  }
}

extension CurlError {
  /// A message for operators. It contains no part of the request or its address.
  var message: String {
    switch self {
    case .couldNotConnect(let message), .tls(let message), .refused(let message), .other(_, let message):
      message
    case .timedOut: "no response in time"
    case .tooLarge: "the response is too long"
    case .cancelled, .shutDown: "receiptd stopped"
    case .busy: "too many requests are waiting"
    }
  }
}

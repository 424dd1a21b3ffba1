import Curl
import FoundationEssentials
import HTTPTypes

extension HTTPFields {
  /// The seconds of `Retry-After` (RFC 9110 section 10.2.3); `nil` for a date, which is as good as none: then our own
  /// delay counts.
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
  /// For people. Holds no part of the request, nor of its address.
  var words: String {
    switch self {
    case .couldNotConnect(let words), .tls(let words), .refused(let words), .other(_, let words): words
    case .timedOut: "no answer in time"
    case .tooLarge: "the answer is too long"
    case .cancelled, .shutDown: "receiptd stopped"
    case .busy: "too many requests wait"
    }
  }
}

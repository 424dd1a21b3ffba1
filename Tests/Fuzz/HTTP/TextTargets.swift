import Foundation
import FuzzSupport

@testable import HTTP

/// Parses `traceparent`.
enum TraceTarget {
  @Sendable static func check(_ bytes: [UInt8]) {
    var generator = SystemRandomNumberGenerator()
    guard let trace = TraceContext(continuing: bytes.span, using: &generator) else { return }
    claim(Array(trace.traceID.utf8) == Array(bytes[3..<35]), "the trace goes on under its name")
    let again = TraceContext(continuing: trace.traceparent.utf8.span, using: &generator)
    claim(again?.traceID == trace.traceID, "what is passed on is well-formed")
    claim(trace.traceparent.hasSuffix("-01") == again?.traceparent.hasSuffix("-01"), "the flag is passed on")
  }
}

/// Parses RFC 3339, and compares with Foundation's parser for the form that both accept.
enum TimeTarget {
  @Sendable static func check(_ bytes: [UInt8]) {
    guard let text = String(validating: bytes, as: UTF8.self) else { return }
    let date = RFC3339.date(from: text)
    guard let date else { return }
    // Foundation uses the Julian calendar for dates before the Gregorian calendar.
    if text.utf8.count == 20, text >= "1600" {
      claim((try? Date(text, strategy: .iso8601)) == date, "Foundation reads the same instant")
    }
    let written = RFC3339.string(from: date, to: .milliseconds)
    let short = RFC3339.string(from: date)
    guard let again = RFC3339.date(from: written), let second = RFC3339.date(from: short) else {
      return claim(false, "what is written can be read")
    }
    // With an offset a time can lie outside the writable years; it is written as the nearest writable time.
    let isWithin = (-62_167_219_200.0...253_402_300_799).contains(date.timeIntervalSince1970)
    claim(!isWithin || abs(again.timeIntervalSince(date)) <= 0.000_51, "to the millisecond")
    claim(!isWithin || (0..<1).contains(date.timeIntervalSince(second)), "down to the second")
    claim(RFC3339.string(from: again, to: .milliseconds) == written, "what was rounded stays")
    claim(short.utf8.count == 20 && RFC3339.string(from: second) == short, "whole seconds stay")
  }
}

/// Parses queries, percent-encoding and media types.
enum QueryTarget {
  @Sendable static func check(_ bytes: [UInt8]) {
    if let text = PercentDecoding.decode(bytes.span) {
      claim(text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }, "no control characters")
      claim(PercentDecoding.decode(encode(text).span) == text, "what is encoded anew is decoded as before")
    }
    let raw = String(decoding: bytes, as: UTF8.self)
    _ = MediaType.isJSON(raw.utf8.span)
    if let number = Int(pathParameter: raw) {
      claim(number >= 0 && Int(pathParameter: String(number)) == number, "digits")
    }
    guard let query = try? Query(decoding: raw) else { return }
    let parts = raw.utf8.split(separator: UInt8(ascii: "&")).map(Array.init)
    for part in parts {
      let equals = part.firstIndex(of: UInt8(ascii: "=")) ?? part.endIndex
      guard let name = PercentDecoding.decode(Array(part[..<equals]).span, plusIsSpace: true),
        let value = PercentDecoding.decode(Array(part[equals...].dropFirst()).span, plusIsSpace: true)
      else { return claim(false, "every part is decoded") }
      claim(query.values(for: name).contains(value), "every part is there")
      claim(query[name] == query.values(for: name).first, "the first of a name")
    }
  }

  private static func encode(_ text: String) -> [UInt8] {
    let digits = Array("0123456789ABCDEF".utf8)
    return text.utf8.flatMap { [UInt8(ascii: "%"), digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
  }
}

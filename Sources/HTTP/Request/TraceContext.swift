/// The position of a request in a distributed trace (W3C Trace Context, `traceparent`).
///
/// `tracestate` is not read and not forwarded, which the specification allows.
public struct TraceContext: Sendable, Hashable {
  /// The trace id, the same in all services.
  private let traceHigh: UInt64
  private let traceLow: UInt64
  /// The id of this service's span, the parent of the calls that it makes.
  private let span: UInt64
  /// The `sampled` flag of the caller.
  private let isSampled: Bool
  /// The request that is handled in this trace; it is not passed on.
  var request: RequestID?

  /// The trace of the current task.
  @TaskLocal public static var current: TraceContext?

  /// A new trace.
  public static func new(using generator: inout some RandomNumberGenerator) -> TraceContext {
    TraceContext(
      traceHigh: generator.next(), traceLow: generator.nonZero(), span: generator.nonZero(), isSampled: false)
  }

  /// A new trace with the system's random numbers.
  public static func new() -> TraceContext {
    // Not a variable of asynchronous callers: across a suspension, variables without size share one address, which the
    // thread sanitizer reports as a race.
    var generator = SystemRandomNumberGenerator()
    return new(using: &generator)
  }

  private init(traceHigh: UInt64, traceLow: UInt64, span: UInt64, isSampled: Bool) {
    self.traceHigh = traceHigh
    self.traceLow = traceLow
    self.span = span
    self.isSampled = isSampled
  }

  /// Continues the trace of a caller.
  ///
  /// - Parameter traceparent: the value of the field (Trace Context, section 3.2). The additions of later versions are
  ///   ignored.
  /// - Returns: nil if the value is malformed, an id is zero, or the version is `ff`.
  public init?(
    continuing traceparent: Span<UInt8>, using generator: inout some RandomNumberGenerator
  ) {
    guard traceparent.count >= Self.length, Self.hyphens.allSatisfy({ traceparent[$0] == UInt8(ascii: "-") }),
      let version = Self.hex(traceparent.extracting(0..<2)), version != 0xFF,
      let high = Self.hex(traceparent.extracting(3..<19)),
      let low = Self.hex(traceparent.extracting(19..<35)),
      let parent = Self.hex(traceparent.extracting(36..<52)),
      let flags = Self.hex(traceparent.extracting(53..<55)),
      high | low != 0, parent != 0
    else { return nil }
    if traceparent.count > Self.length {
      guard version > 0, traceparent[Self.length] == UInt8(ascii: "-") else { return nil }
    }
    self.init(traceHigh: high, traceLow: low, span: generator.nonZero(), isSampled: flags & 1 == 1)
  }

  private static let length = 55
  private static let hyphens = [2, 35, 52]

  /// The number in lower-case digits, as the specification requires.
  private static func hex(_ digits: Span<UInt8>) -> UInt64? {
    var value: UInt64 = 0
    for index in digits.indices {
      switch digits[index] {
      case UInt8(ascii: "0")...UInt8(ascii: "9"):
        value = value << 4 | UInt64(digits[index] - UInt8(ascii: "0"))
      case UInt8(ascii: "a")...UInt8(ascii: "f"):
        value = value << 4 | UInt64(digits[index] - UInt8(ascii: "a") + 10)
      default: return nil
      }
    }
    return value
  }

  /// The trace's 32 hexadecimal digits, for logs.
  public var traceID: String { Self.text(traceHigh, traceLow) }

  /// The ``Request/id`` of the request that is handled in this trace, for logs.
  public var requestID: String? { request?.description }

  /// The value of `traceparent` for calls on behalf of this request.
  public var traceparent: String {
    "00-\(traceID)-\(Self.text(span))-\(isSampled ? "01" : "00")"
  }

  private static func text(_ numbers: UInt64...) -> String {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(numbers.count * 16)
    for number in numbers {
      for half in [UInt32(truncatingIfNeeded: number >> 32), UInt32(truncatingIfNeeded: number)] {
        withUnsafeBytes(of: RequestID.hexDigits(of: half).bigEndian) { bytes.append(contentsOf: $0) }
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}

extension RandomNumberGenerator {
  /// A number for an id, which must not be zero.
  fileprivate mutating func nonZero() -> UInt64 { max(next(), 1) }
}

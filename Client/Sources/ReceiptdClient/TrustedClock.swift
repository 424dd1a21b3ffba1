public import Foundation

/// The time since the device started, with the id of that start.
public struct Uptime: Sendable, Hashable, Codable {
  /// The id of the start; another one after each restart of the device.
  public var boot: String
  /// The seconds since then, sleep included.
  public var seconds: TimeInterval

  /// Creates an uptime.
  public init(boot: String, seconds: TimeInterval) {
    self.boot = boot
    self.seconds = seconds
  }

  @inline(never) init?(_ json: JSON?) {
    guard let boot = json?.text(of: "boot"), let seconds = json?.number(of: "seconds") else { return nil }
    self.init(boot: boot, seconds: seconds)
  }

  var json: JSON { .members(("boot", .text(boot)), ("seconds", .number(seconds))) }

  /// Reads a JSON object.
  public init(from decoder: any Decoder) throws { self = try JSON.decoded(from: decoder, Self.init(_:)) }

  /// Writes a JSON object.
  public func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }
}

/// The clocks of a device. A test replaces them.
public protocol TrustedClock: Sendable {
  /// The time as the device's owner has set it.
  func wall() -> Date
  /// The monotonic time, which the owner cannot set.
  func uptime() -> Uptime
  /// Waits.
  /// - Throws: `CancellationError` if the task is cancelled.
  func sleep(seconds: TimeInterval) async throws
}

/// The clocks of the system.
public struct SystemClock: TrustedClock {
  /// Creates a clock.
  public init() {}

  /// The system's time.
  public func wall() -> Date { Date() }

  /// The time since the system started, sleep included.
  public func uptime() -> Uptime {
    #if os(Linux)
    let id = CLOCK_BOOTTIME
    #else
    // On Apple platforms this clock goes on during sleep.
    let id = CLOCK_MONOTONIC_RAW
    #endif
    var time = timespec()
    clock_gettime(id, &time)
    return Uptime(boot: Self.boot, seconds: TimeInterval(time.tv_sec) + TimeInterval(time.tv_nsec) / 1e9)
  }

  /// Waits by the system's continuous clock.
  public func sleep(seconds: TimeInterval) async throws {
    try await Task.sleep(for: .seconds(max(0, min(seconds, 1e9))), clock: .continuous)
  }

  /// Where the system names no start, each process counts as one: time that passed before it is not known then.
  private static let boot: String = {
    #if os(Linux)
    if let text = try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8) {
      return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }
    #else
    var length = 0
    if sysctlbyname("kern.bootsessionuuid", nil, &length, nil, 0) == 0, length > 1 {
      var bytes = [UInt8](repeating: 0, count: length)
      if sysctlbyname("kern.bootsessionuuid", &bytes, &length, nil, 0) == 0 {
        return String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
    }
    #endif
    return UUID().uuidString
  }()
}

/// Tells the time so that setting the device's clock gains nothing.
///
/// While the device runs, the server's latest time goes on with the monotonic clock, and the device's own clock does not matter.
/// After a restart the time is the latest of three: the server's, the latest that was known, and the device's clock. A
/// clock that is far ahead then ends offline use until the next response, whose time counts again.
struct TimeKeeper: Sendable {
  private struct Mark: Sendable {
    /// Seconds since 1970.
    var time: TimeInterval
    var uptime: Uptime

    /// The time now, if the device has not restarted since.
    func running(_ now: Uptime) -> TimeInterval? {
      now.boot == uptime.boot ? time + max(0, now.seconds - uptime.seconds) : nil
    }

    init(time: TimeInterval, uptime: Uptime) {
      self.time = time
      self.uptime = uptime
    }

    init?(_ json: JSON?) {
      guard let time = json?.number(of: "time"), let uptime = Uptime(json?["uptime"]) else { return nil }
      self.init(time: time, uptime: uptime)
    }

    var json: JSON { .members(("time", .number(time)), ("uptime", uptime.json)) }
  }

  /// The server's latest time.
  private var server: Mark?
  /// The latest time by the device's clock since a restart without the server.
  private var device: Mark?

  init() {}

  @inline(never) init(_ json: JSON) {
    server = Mark(json["server"])
    device = Mark(json["device"])
  }

  /// The form in the store.
  var json: JSON { .members(("server", server?.json), ("device", device?.json)) }

  @inline(never) func now(_ clock: any TrustedClock) -> Date {
    let uptime = clock.uptime()
    if let running = server?.running(uptime) { return Date(timeIntervalSince1970: running) }
    let device = device.map { $0.running(uptime) ?? $0.time } ?? 0
    return Date(timeIntervalSince1970: max(clock.wall().timeIntervalSince1970, server?.time ?? 0, device))
  }

  /// Takes the time of a new response. The time does not go back behind the server's own.
  @inline(never) mutating func hear(_ time: Date, _ clock: any TrustedClock) {
    let uptime = clock.uptime()
    let known = server.map { $0.running(uptime) ?? $0.time } ?? 0
    server = Mark(time: max(time.timeIntervalSince1970, known), uptime: uptime)
    device = nil
  }

  /// Notes the time, so that it is known after a restart.
  @inline(never) mutating func note(_ clock: any TrustedClock) {
    let mark = Mark(time: now(clock).timeIntervalSince1970, uptime: clock.uptime())
    if server?.uptime.boot == mark.uptime.boot {
      server = mark
    } else if server != nil || device != nil {
      device = mark
    }
  }
}
